"""Normal vectors by a factor, mixtures, points, relaxed classes, parameters by softplus: against SciPy and NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from scipy.special import gammaln

import anabranch as tf

C = tf.contrib.distributions
RNG = np.random.RandomState(0)
TRIL = np.tril(RNG.rand(2, 3, 3)) + np.eye(3)
COVARIANCE = TRIL @ np.swapaxes(TRIL, -1, -2)
MEAN = RNG.randn(2, 3)
VALUES = RNG.randn(5, 2, 3)


@pytest.fixture(params=["interpreted", "compiled"])
def session(request: Any) -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


@pytest.mark.parametrize("kind", ["tril", "full"])
def test_normal_vectors(session: Any, kind: str) -> None:
    upper = TRIL + np.triu(np.full([3, 3], 7.0), 1)  # what is above the diagonal does not count
    ours = (
        C.MultivariateNormalTriL(MEAN, upper)
        if kind == "tril"
        else C.MultivariateNormalFullCovariance(MEAN, COVARIANCE, validate_args=True)
    )
    known = [st.multivariate_normal(MEAN[i], COVARIANCE[i]) for i in range(2)]
    assert (ours.batch_shape.as_list(), ours.event_shape.as_list()) == ([2], [3])
    density, entropy, mean, covariance, variance, factor = session.run(
        [ours.log_prob(VALUES), ours.entropy(), ours.mean(), ours.covariance(), ours.variance(), ours.scale.to_dense()]
    )
    np.testing.assert_allclose(density, np.stack([known[i].logpdf(VALUES[:, i]) for i in range(2)], -1), 1e-6)
    np.testing.assert_allclose(entropy, [one.entropy() for one in known], 1e-6)
    np.testing.assert_allclose(mean, MEAN)
    np.testing.assert_allclose(covariance, COVARIANCE, 1e-6)
    np.testing.assert_allclose(variance, np.diagonal(COVARIANCE, axis1=-2, axis2=-1), 1e-6)
    np.testing.assert_allclose(factor, TRIL, 1e-6)
    samples = session.run(ours.sample(20000, seed=3))
    assert samples.shape == (20000, 2, 3)
    np.testing.assert_allclose(np.cov(samples[:, 1].T), COVARIANCE[1], atol=0.15)
    assert sorted(ours.parameters) == sorted(
        ["loc", "scale_tril" if kind == "tril" else "covariance_matrix", "validate_args", "allow_nan_stats", "name"]
    )


def test_divergences_of_normal_vectors(session: Any) -> None:
    size = np.array([1.0, 2.0, 0.5])
    first, second = C.MultivariateNormalTriL(MEAN, TRIL), C.MultivariateNormalDiag(MEAN[::-1], size)

    def expected(mean_a: Any, cov_a: Any, mean_b: Any, cov_b: Any) -> float:
        back = np.linalg.inv(cov_b)
        moved = mean_b - mean_a
        sizes = np.log(np.linalg.det(cov_b) / np.linalg.det(cov_a))
        return 0.5 * (np.trace(back @ cov_a) + moved @ back @ moved - 3 + sizes)

    diagonal = np.diag(size**2)
    there = [expected(MEAN[i], COVARIANCE[i], MEAN[1 - i], diagonal) for i in range(2)]
    back = [expected(MEAN[1 - i], diagonal, MEAN[i], COVARIANCE[i]) for i in range(2)]
    same = [expected(MEAN[i], COVARIANCE[i], MEAN[1 - i], COVARIANCE[1 - i]) for i in range(2)]
    other = C.MultivariateNormalTriL(MEAN[::-1], TRIL[::-1])
    ours = session.run([C.kl_divergence(*pair) for pair in ((first, second), (second, first), (first, other))])
    np.testing.assert_allclose(ours, [there, back, same], 1e-6)


def test_what_normal_vectors_refuse(session: Any) -> None:
    with pytest.raises(ValueError, match="Must pass one or both of `loc`, `scale_tril`"):
        C.MultivariateNormalTriL()
    flat = C.MultivariateNormalTriL(scale_tril=[[1.0, 0.0], [1.0, 0.0]], validate_args=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        session.run(flat.sample())
    lopsided = C.MultivariateNormalFullCovariance(covariance_matrix=[[1.0, 0.5], [0.0, 1.0]], validate_args=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Matrix was not symmetric\."):
        session.run(lopsided.sample())


def test_mixtures(session: Any) -> None:
    weights, means, sizes = np.array([0.2, 0.3, 0.5]), np.array([0.0, 2.0, -3.0]), np.array([1.0, 0.5, 2.0])
    parts = [C.Normal(mean, size) for mean, size in zip(means, sizes, strict=True)]
    mixtures = [
        C.Mixture(C.Categorical(probs=weights), parts),
        C.MixtureSameFamily(C.Categorical(probs=weights), C.Normal(means, sizes)),
    ]
    x = np.linspace(-6, 4, 7)
    density = np.log((weights * st.norm(means, sizes).pdf(x[:, None])).sum(-1))
    below = (weights * st.norm(means, sizes).cdf(x[:, None])).sum(-1)
    mean = (weights * means).sum()
    variance = (weights * (sizes**2 + means**2)).sum() - mean**2
    for ours in mixtures:
        shown = session.run([ours.log_prob(x), ours.cdf(x), ours.mean(), ours.variance(), ours.stddev()])
        np.testing.assert_allclose(shown[0], density, 1e-6)
        np.testing.assert_allclose(shown[1], below, 1e-6)
        np.testing.assert_allclose(shown[2:], [mean, variance, np.sqrt(variance)], 1e-6)
        samples = session.run(ours.sample([100, 100], seed=5))
        assert samples.shape == (100, 100)
        np.testing.assert_allclose([samples.mean(), samples.var()], [mean, variance], rtol=0.1)
    entropies = st.norm(means, sizes).entropy()
    np.testing.assert_allclose(session.run(mixtures[0].entropy_lower_bound()), (weights * entropies).sum(), 1e-6)
    assert mixtures[0].num_components == 3


def test_mixtures_of_vectors(session: Any) -> None:
    weights = np.array([[0.25, 0.75], [0.5, 0.5]])
    parts = [C.MultivariateNormalTriL(MEAN, TRIL), C.MultivariateNormalDiag(-MEAN, np.ones(3))]
    ours = C.Mixture(C.Categorical(probs=weights), parts)
    each = np.stack(
        [
            [st.multivariate_normal(MEAN[i], COVARIANCE[i]).pdf(VALUES[:, i]) for i in range(2)],
            [st.multivariate_normal(-MEAN[i], np.eye(3)).pdf(VALUES[:, i]) for i in range(2)],
        ]
    )
    expected = np.log(np.einsum("cbn,bc->nb", each, weights))
    np.testing.assert_allclose(session.run(ours.log_prob(VALUES)), expected, 1e-6)
    np.testing.assert_allclose(session.run(ours.mean()), (weights[:, :1] - weights[:, 1:]) * MEAN, 1e-6)
    assert session.run(ours.sample(4, seed=2)).shape == (4, 2, 3)
    same = C.MixtureSameFamily(
        C.Categorical(probs=[0.5, 0.5]), C.MultivariateNormalDiag(np.float32(MEAN), np.ones(3, "f"))
    )
    assert (same.batch_shape.as_list(), same.event_shape.as_list()) == ([], [3])
    assert session.run(same.sample([4, 5], seed=2)).shape == (4, 5, 3)


def test_what_mixtures_refuse() -> None:
    with tf.Graph().as_default():
        three = C.Categorical(probs=[0.2, 0.3, 0.5])
        with pytest.raises(TypeError, match="cat must be a Categorical distribution"):
            C.Mixture(C.Normal(0.0, 1.0), [C.Normal(0.0, 1.0)])
        with pytest.raises(ValueError, match=r"cat.num_classes \(3\) must be the number of components \(1\)"):
            C.Mixture(three, [C.Normal(0.0, 1.0)])
        with pytest.raises(ValueError, match="non-empty list"):
            C.Mixture(three, [])
        with pytest.raises(TypeError, match="All components must have the same dtype"):
            C.Mixture(C.Categorical(probs=[0.5, 0.5]), [C.Normal(0.0, 1.0), C.Normal(np.float64(0), np.float64(1))])
        with pytest.raises(ValueError, match=r"components \(3\) does not equal"):
            C.MixtureSameFamily(three, C.Normal([0.0, 1.0], 1.0))


def test_points(session: Any) -> None:
    one, vectors = C.Deterministic([1.0, 2.0], atol=0.25), C.VectorDeterministic([[1.0, 2.0], [3.0, 4.0]], rtol=0.1)
    assert session.run(one.prob([1.25, 3.0])).tolist() == [1, 0]
    assert session.run(one.log_prob([1.25, 3.0])).tolist() == [0, -np.inf]
    assert session.run(one.cdf([0.75, 1.0])).tolist() == [1, 0]
    assert session.run(one.sample(2)).tolist() == [[1, 2], [1, 2]]
    assert session.run([one.entropy(), one.variance()])[1].tolist() == [0, 0]
    assert (vectors.batch_shape.as_list(), vectors.event_shape.as_list()) == ([2], [2])
    assert session.run(vectors.prob([[1.0625, 2.0], [3.0, 5.0]])).tolist() == [1, 0]
    assert session.run(vectors.entropy()).tolist() == [0, 0]


def test_almost_classes(session: Any) -> None:
    logits, temperature = np.log([0.2, 0.3, 0.5]), 0.7
    x = np.array([[0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])
    terms = np.exp(logits) * x ** (-temperature)
    expected = gammaln(3) + 2 * np.log(temperature) + np.log(np.prod(terms / x, -1) / terms.sum(-1) ** 3)
    ours, logarithm = (
        C.RelaxedOneHotCategorical(temperature, logits),
        C.ExpRelaxedOneHotCategorical(temperature, logits),
    )
    np.testing.assert_allclose(session.run(ours.log_prob(x)), expected, 1e-6)
    np.testing.assert_allclose(session.run(logarithm.log_prob(np.log(x))), expected + np.log(x).sum(-1), 1e-6)
    samples = session.run(ours.sample(8000, seed=4))
    np.testing.assert_allclose(samples.sum(-1), np.ones(8000), 1e-6)
    np.testing.assert_allclose(np.bincount(samples.argmax(-1)) / 8000, [0.2, 0.3, 0.5], atol=0.03)
    bit = C.RelaxedBernoulli(temperature, probs=[0.25, 0.75])
    assert np.all(session.run(bit.sample(100, seed=1)) <= 1)
    odds = np.log(3)
    z = np.log(0.3 / 0.7)
    expected_bit = st.logistic(odds / temperature, 1 / temperature).logpdf(z) - np.log(0.3 * 0.7)
    np.testing.assert_allclose(session.run(bit.log_prob([0.3, 0.3]))[1], expected_bit, 1e-5)


def test_parameters_of_any_sign(session: Any) -> None:
    def soft(x: float) -> float:
        return float(np.log1p(np.exp(x)))

    pairs = {
        C.NormalWithSoftplusScale(1.0, -1.0): st.norm(1, soft(-1)),
        C.LaplaceWithSoftplusScale(1.0, -1.0): st.laplace(1, soft(-1)),
        C.StudentTWithAbsDfSoftplusScale(-3.7, 1.0, -1.0): st.t(3, 1, soft(-1)),
        C.Chi2WithAbsDf(-4.2): st.chi2(4),
        C.ExponentialWithSoftplusRate(-1.0): st.expon(scale=1 / soft(-1)),
        C.GammaWithSoftplusConcentrationRate(-1.0, 0.5): st.gamma(soft(-1), scale=1 / soft(0.5)),
        C.InverseGammaWithSoftplusConcentrationRate(-1.0, 0.5): st.invgamma(soft(-1), scale=soft(0.5)),
        C.BetaWithSoftplusConcentration(-1.0, 0.5): st.beta(soft(-1), soft(0.5)),
    }
    for ours, known in pairs.items():
        np.testing.assert_allclose(session.run(ours.log_prob(0.4)), known.logpdf(0.4), 1e-5)
        assert ours.parameters["name"] == type(ours).__name__
    wide = C.MultivariateNormalDiagWithSoftplusScale([0.0, 0.0], [-1.0, 2.0])
    np.testing.assert_allclose(session.run(wide.stddev()), [soft(-1), soft(2)], 1e-6)
    assert session.run(C.NormalWithSoftplusScale(1.0, -1.0).copy(loc=2.0).mean()) == 2


def test_streams_of_seeds_are_tensorflows() -> None:
    stream = C.SeedStream(42, "salt")
    assert (stream() % 1000003, stream() % 1000003) == (SEEDS[0], SEEDS[1])
    assert C.SeedStream(stream, "salt")() % 1000003 == SEEDS[0]
    assert C.SeedStream(None, "salt")() is None


# Remainders of what TensorFlow 1.15.5 gives for seed 42 and "salt", by 1000003.
SEEDS = [69195, 739106]


class Samples(C.Distribution):
    """A class of a program's own, by the methods that TensorFlow documents for it."""

    def __init__(self, params: Any, name: str = "Samples") -> None:
        self._params = tf.convert_to_tensor(params)
        super().__init__(self._params.dtype, C.FULLY_REPARAMETERIZED, False, True, dict(locals()), name=name)

    def _batch_shape_tensor(self) -> Any:
        return tf.constant([], tf.int32)

    def _batch_shape(self) -> Any:
        return tf.TensorShape([])

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._params)[1:]

    def _event_shape(self) -> Any:
        return self._params.shape[1:]

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        assert isinstance(n, np.int32 | tf.Tensor)
        assert n.dtype == tf.int32
        return tf.gather(self._params, tf.range(n) % tf.shape(self._params)[0])

    def _mean(self) -> Any:
        return tf.reduce_mean(self._params, 0)


@pytest.mark.parametrize("known", [True, False])
def test_a_class_of_a_programs_own(session: Any, known: bool) -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    params = values if known else tf.placeholder_with_default(values, [None, None])
    ours = Samples(params)
    assert ours.batch_shape.as_list() == []
    assert ours.event_shape.as_list() == ([2] if known else [None])
    shapes, drawn, mean = session.run([ours.event_shape_tensor(), ours.sample([3, 1]), ours.mean()])
    assert shapes.tolist() == [2]
    assert drawn.tolist() == [[[1, 2]], [[3, 4]], [[1, 2]]]
    some = tf.placeholder_with_default([2], [1])
    assert session.run(ours.sample(some)).tolist() == [[1, 2], [3, 4]]
    assert mean.tolist() == [2, 3]


def test_a_class_of_a_programs_own_without_shapes() -> None:
    class Bare(C.Distribution):
        def __init__(self) -> None:
            super().__init__(tf.float32, C.NOT_REPARAMETERIZED, False, True, name="Bare")

    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="Given: batch_shape of Bare"):
        Bare().batch_shape_tensor()


def test_the_scale_of_a_diagonal_normal_is_a_linear_operator(session: Any) -> None:
    normal = C.MultivariateNormalDiag([1.0, 2.0], [[2.0, 3.0], [4.0, 5.0]])
    assert isinstance(normal.scale, tf.linalg.LinearOperatorDiag)
    assert normal.scale.is_self_adjoint
    assert session.run(normal.scale.determinant()).tolist() == [6, 20]
    shifted = C.MultivariateNormalDiag([1.0, 2.0], scale_identity_multiplier=3.0)
    assert session.run(shifted.scale.diag_part()).tolist() == [3, 3]


def test_covariance_of_a_mixture_is_that_of_its_draws() -> None:
    kinds = tf.contrib.distributions
    with tf.Graph().as_default(), tf.Session() as session:
        shares = np.array([[0.2, 0.8], [0.5, 0.5]])
        means, scales = np.array([[[0.0, 1.0], [2.0, -1.0]], [[1.0, 1.0], [1.0, 3.0]]]), np.full([2, 2, 2], 0.5)
        mixed = kinds.MixtureSameFamily(kinds.Categorical(probs=shares), kinds.MultivariateNormalDiag(means, scales))
        got, variance = session.run([mixed.covariance(), mixed.variance()])
        centre = np.einsum("bk,bki->bi", shares, means)
        apart = means - centre[:, None]
        wanted = np.einsum("bk,bki,bkj->bij", shares, apart, apart) + 0.25 * np.eye(2)
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
        np.testing.assert_allclose(variance, np.diagonal(got, axis1=1, axis2=2), rtol=1e-6)
