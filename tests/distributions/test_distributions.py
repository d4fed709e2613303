"""tf.distributions against SciPy: densities, statistics, samples, divergences; shapes, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import anabranch as tf
from anabranch.session import SessionOptions
from anabranch.testing.check_gradients import check_gradients

KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])
ONE, TWO = np.array([0.7, 1.6, 3.1]), np.array([[1.3], [2.9]])


def run(make: Callable[[], Any], tier: str = "auto") -> Any:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())


D = tf.distributions
C = tf.contrib.distributions
# Our distribution of two parameters, SciPy's, values to look at.
FAMILIES: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray]] = {
    "Normal": (lambda a, b: D.Normal(a, b), lambda a, b: st.norm(a, b), np.array([-9.0, 0.3, 4.0])),
    "Laplace": (lambda a, b: D.Laplace(a, b), lambda a, b: st.laplace(a, b), np.array([-4.0, 0.3, 9.0])),
    "StudentT": (lambda a, b: D.StudentT(a + 2.5, a, b), lambda a, b: st.t(a + 2.5, a, b), np.array([-4.0, 0.3, 6.0])),
    "Uniform": (lambda a, b: D.Uniform(-a, b), lambda a, b: st.uniform(-a, a + b), np.array([-0.5, 0.2, 1.1])),
    "Beta": (lambda a, b: D.Beta(a + 1, b + 1), lambda a, b: st.beta(a + 1, b + 1), np.array([0.1, 0.5, 0.93])),
    "Gamma": (lambda a, b: D.Gamma(a + 1, b), lambda a, b: st.gamma(a + 1, scale=1 / b), np.array([0.1, 1.5, 4.0])),
    "Exponential": (
        lambda a, b: D.Exponential(a * b),
        lambda a, b: st.expon(scale=1 / (a * b)),
        np.array([0.1, 1, 3.0]),
    ),
    "Poisson": (lambda a, b: C.Poisson(a * b), lambda a, b: st.poisson(a * b), np.array([0.0, 2.0, 7.0])),
}
DISCRETE = ("Poisson",)


@KINDS
@pytest.mark.parametrize("name", FAMILIES)
def test_against_scipy(name: str, kind: type) -> None:
    make, reference, values = FAMILIES[name]
    wanted = reference(ONE, TWO)
    x = values.astype(kind)
    log_density = wanted.logpmf(values) if name in DISCRETE else wanted.logpdf(values)
    tests = {
        "log_prob": log_density,
        "prob": np.exp(log_density),
        "cdf": wanted.cdf(values),
        "log_cdf": wanted.logcdf(values),
        "survival_function": wanted.sf(values),
        "log_survival_function": wanted.logsf(values),
    }
    statistics = {"mean": wanted.mean(), "variance": wanted.var(), "stddev": wanted.std(), "entropy": wanted.entropy()}
    if name in DISCRETE:
        del statistics["entropy"]

    def both() -> list[Any]:
        mine = make(kind(ONE), kind(TWO))
        assert mine.dtype == kind
        assert mine.batch_shape == (2, 3)
        assert mine.event_shape == ()
        found = [getattr(mine, key)(x) for key in tests] + [getattr(mine, key)() for key in statistics]
        if hasattr(mine, "_quantile"):
            found.append(mine.quantile(mine.cdf(x)))
        return found

    for tier in ("interpreted", "compiled"):
        found = run(both, tier)
        for key, expected, value in zip(
            [*tests, *statistics], [*tests.values(), *statistics.values()], found, strict=False
        ):
            assert value.dtype == kind
            tolerance = 2e-4 if kind == np.float32 else 1e-8
            np.testing.assert_allclose(
                np.broadcast_to(value, np.shape(expected)),
                expected,
                tolerance,
                tolerance * 1e-2,
                err_msg=f"{name}.{key}",
            )
        if len(found) > len(tests) + len(statistics) and kind == np.float64:
            low = wanted.cdf(values) > 1e-12
            high = wanted.cdf(values) < 1 - 1e-6
            np.testing.assert_allclose(
                np.where(low & high, found[-1], 0), np.where(low & high, values + 0 * found[-1], 0), 1e-6, 1e-9
            )


@pytest.mark.parametrize("name", FAMILIES)
def test_samples(name: str) -> None:
    make, reference, _ = FAMILIES[name]
    wanted = reference(ONE, TWO)

    def drawn() -> list[tf.Tensor]:
        mine = make(np.float32(ONE), np.float32(TWO))
        found = mine.sample([50, 80], seed=3)
        assert found.shape.as_list() == [50, 80, 2, 3]
        return [
            found,
            mine.sample(seed=4),
            mine.sample(7, seed=5),
            mine.sample(tf.placeholder_with_default([2, 2], [2])),
        ]

    many, one, few, dynamic = run(drawn)
    assert one.shape == (2, 3)
    assert few.shape == (7, 2, 3)
    assert dynamic.shape == (2, 2, 2, 3)
    flat = many.reshape(-1, 2, 3).astype(float)
    deviation = wanted.std()
    assert np.all(np.abs(flat.mean(0) - wanted.mean()) < 6 * deviation / np.sqrt(len(flat)))
    assert np.all(np.abs(flat.std(0) / deviation - 1) < 0.35)
    if name not in DISCRETE:
        assert st.kstest(flat[:, 0, 1], reference(ONE[1], TWO[0, 0]).cdf).pvalue > 1e-3


def test_tails_of_the_normal_distribution() -> None:
    for kind, x in ((np.float32, [-30.0, -12.0, 7.0]), (np.float64, [-100.0, -25.0, 12.0])):
        found = run(lambda kind=kind, x=x: D.Normal(kind(0), kind(1)).log_cdf(np.array(x, kind)))
        np.testing.assert_allclose(found, st.norm.logcdf(np.array(x)), 1e-5 if kind == np.float32 else 1e-10)


def test_modes() -> None:
    found = run(
        lambda: [
            D.Normal(ONE, TWO).mode(),
            D.Beta(ONE, TWO).mode(),
            D.Gamma(ONE, TWO).mode(),
            D.Exponential(ONE).mode(),
            D.Bernoulli(probs=[0.2, 0.7]).mode(),
            D.Categorical(logits=[[0.0, 3.0], [2.0, 1.0]]).mode(),
            D.Dirichlet([2.0, 3.0]).mode(),
            D.Dirichlet([0.5, 3.0]).mode(),
            D.StudentT(np.float64(3), ONE, np.float64(1)).mode(),
            D.StudentT(np.float64(1), ONE, np.float64(1)).mean(),
            D.StudentT([1.5, 0.5], 0.0, 1.0).variance(),
        ]
    )
    np.testing.assert_allclose(found[0], np.broadcast_to(ONE, (2, 3)))
    beta = np.where((ONE > 1) & (TWO > 1), (ONE - 1) / np.maximum(ONE + TWO - 2, 0.1), np.nan)
    np.testing.assert_allclose(found[1], beta)
    np.testing.assert_allclose(found[2], np.where(ONE > 1, (ONE - 1) / TWO, np.nan))
    assert found[3].tolist() == [0, 0, 0]
    assert found[4].tolist() == [0, 1]
    assert found[5].tolist() == [1, 0]
    np.testing.assert_allclose(found[6], [1 / 3, 2 / 3], 1e-6)
    assert np.isnan(found[7]).all()
    assert np.isnan(found[9]).all()
    assert np.isinf(found[10][0])
    assert np.isnan(found[10][1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="mode not defined when any concentration <= 1"):
        run(lambda: D.Gamma(0.5, 1.0, allow_nan_stats=False).mode())


def test_bernoulli() -> None:
    p = np.array([0.1, 0.5, 0.8])
    found = run(
        lambda: [
            D.Bernoulli(probs=p).log_prob([0, 1, 1]),
            D.Bernoulli(logits=np.log(p / (1 - p))).prob([[1], [0]]),
            D.Bernoulli(probs=p).entropy(),
            D.Bernoulli(probs=p).variance(),
            D.Bernoulli(probs=p).logits,
            D.Bernoulli(probs=p, dtype=tf.float32).sample(5000, seed=1),
            D.Bernoulli(logits=[0.3]).probs,
        ]
    )
    np.testing.assert_allclose(found[0], np.log([0.9, 0.5, 0.8]))
    np.testing.assert_allclose(found[1], [p, 1 - p])
    np.testing.assert_allclose(found[2], st.bernoulli(p).entropy())
    np.testing.assert_allclose(found[3], p * (1 - p))
    np.testing.assert_allclose(found[4], np.log(p / (1 - p)))
    assert found[5].dtype == np.float32
    np.testing.assert_allclose(found[5].mean(0), p, atol=0.03)


def test_categorical() -> None:
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    found = run(
        lambda: [
            D.Categorical(probs=p).log_prob([2, 0]),
            D.Categorical(probs=p).prob([[0], [1], [2]]),
            D.Categorical(logits=np.log(np.maximum(p, 1e-300))).entropy(),
            D.Categorical(probs=p).sample([3000], seed=1),
            D.Categorical(logits=[0.0, 1.0, 2.0]).sample(4, seed=2),
            D.Categorical(probs=p).event_size,
            D.Categorical(probs=p, dtype=tf.int64).sample(seed=2),
            D.Categorical(probs=p).cdf([1, 0]),
        ]
    )
    np.testing.assert_allclose(found[0], np.log([0.7, 0.5]))
    np.testing.assert_allclose(found[1], p.T)
    np.testing.assert_allclose(found[2], st.entropy(p, axis=1))
    counts = np.stack([np.bincount(column, minlength=3) for column in found[3].T]) / 3000
    np.testing.assert_allclose(counts, p, atol=0.04)
    assert found[3].dtype == np.int32
    assert found[4].shape == (4,)
    assert found[5] == 3
    assert found[6].dtype == np.int64
    np.testing.assert_allclose(found[7], [p[0, 0], 0.0])  # of TensorFlow 1: the argument itself does not count


def test_vectors() -> None:
    a, p, n = np.array([[1.5, 2.0, 3.0], [0.5, 0.9, 4.0]]), np.array([0.2, 0.3, 0.5]), np.array([4.0, 9.0])
    x = np.array([0.2, 0.3, 0.5])
    counts = np.array([[1.0, 2.0, 1.0], [4.0, 0.0, 5.0]])

    def make() -> list[Any]:
        dirichlet, many, both = D.Dirichlet(a), D.Multinomial(n, probs=p), D.DirichletMultinomial(n, a)
        assert dirichlet.batch_shape == many.batch_shape == both.batch_shape == (2,)
        assert dirichlet.event_shape == many.event_shape == both.event_shape == (3,)
        found = [dirichlet.log_prob(x), many.log_prob(counts), both.log_prob(counts), dirichlet.entropy()]
        for one in (dirichlet, many, both):
            found += [one.mean(), one.variance(), one.covariance(), one.sample(4000, seed=7)]
        return found

    found = run(make)
    np.testing.assert_allclose(found[0], [st.dirichlet(row).logpdf(x) for row in a])
    np.testing.assert_allclose(found[1], [st.multinomial(int(k), p).logpmf(c) for k, c in zip(n, counts, strict=True)])
    each = [st.dirichlet_multinomial(r, int(k)).logpmf(c.astype(int)) for r, k, c in zip(a, n, counts, strict=True)]
    np.testing.assert_allclose(found[2], each)
    np.testing.assert_allclose(found[3], [st.dirichlet(row).entropy() for row in a])
    for mean, variance, covariance, samples in (found[i : i + 4] for i in (4, 8, 12)):
        for batch in range(2):
            own = samples[:, batch]
            np.testing.assert_allclose(own.mean(0), mean[batch], atol=0.08 * np.max(mean))
            np.testing.assert_allclose(np.cov(own.T), covariance[batch], atol=0.2 * np.max(variance))
            np.testing.assert_allclose(np.diag(covariance[batch]), variance[batch], 1e-9)
    for samples in (found[11], found[15]):
        assert np.array_equal(samples.sum(-1), np.broadcast_to(n, (4000, 2)))
        assert np.array_equal(samples, np.floor(samples))


def test_normal_vectors() -> None:
    loc, scale = np.array([1.0, -2.0]), np.array([[0.5, 2.0], [1.0, 1.0], [3.0, 0.1]])

    def make() -> list[Any]:
        mine = C.MultivariateNormalDiag(loc, scale)
        assert mine.batch_shape == (3,)
        assert mine.event_shape == (2,)
        other = C.MultivariateNormalDiag(loc, scale_identity_multiplier=np.float64(0.5))
        return [
            mine.log_prob(loc + 0.3), mine.entropy(), mine.mean(), mine.covariance(), mine.sample(4000, seed=1),
            other.stddev(), C.MultivariateNormalDiag(scale_diag=scale[0]).mean(), C.kl_divergence(mine, other),
        ]  # fmt: skip

    found = run(make)
    normal = [st.multivariate_normal(loc, np.diag(row**2)) for row in scale]
    np.testing.assert_allclose(found[0], [one.logpdf(loc + 0.3) for one in normal])
    np.testing.assert_allclose(found[1], [one.entropy() for one in normal])
    np.testing.assert_allclose(found[2], np.broadcast_to(loc, (3, 2)))
    np.testing.assert_allclose(found[3], np.stack([np.diag(row**2) for row in scale]))
    np.testing.assert_allclose(found[4].std(0), scale, 0.06)
    assert found[5].tolist() == [0.5, 0.5]
    assert found[6].tolist() == [0.0, 0.0]
    ratio = (scale / 0.5) ** 2
    np.testing.assert_allclose(found[7], 0.5 * (ratio - 1 - np.log(ratio)).sum(1))


PAIRS = {name: FAMILIES[name][0] for name in ("Normal", "Laplace", "Beta", "Gamma", "Exponential", "Uniform")}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences(name: str) -> None:
    make, reference, _ = FAMILIES[name]
    a, b = (1.3, 1.1), (2.2, 1.9)

    def both() -> list[Any]:
        first, second = make(*map(np.float64, a)), make(*map(np.float64, b))
        return [
            D.kl_divergence(first, second),
            first.kl_divergence(first),
            first.cross_entropy(second),
            first.entropy(),
        ]

    found = run(both)
    p, q = reference(*a), reference(*b)
    low, high = p.ppf([1e-12, 1 - 1e-12])
    x = np.linspace(low, high, 400_001)[1:-1]
    wanted = np.trapezoid(p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), x)
    np.testing.assert_allclose(found[0], wanted, 2e-3)
    np.testing.assert_allclose(found[1], 0, atol=1e-12)
    np.testing.assert_allclose(found[2], found[0] + found[3])


def test_divergences_of_counts() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    found = run(
        lambda: [
            D.kl_divergence(D.Categorical(probs=p), D.Categorical(probs=q)),
            D.kl_divergence(D.Bernoulli(probs=p), D.Bernoulli(probs=q)),
            D.kl_divergence(D.Dirichlet(p), D.Dirichlet(q)),
            D.kl_divergence(C.Poisson(3 * p), C.Poisson(q)),
            D.kl_divergence(D.Uniform(0.0, 3.0), D.Uniform(0.0, 2.0)),
        ]
    )
    np.testing.assert_allclose(found[0], st.entropy(p, q))
    np.testing.assert_allclose(found[1], p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    beta = run(lambda: D.kl_divergence(D.Beta(0.2, 0.7), D.Beta(0.6, 0.4)))
    pair = run(lambda: D.kl_divergence(D.Dirichlet([0.2, 0.7]), D.Dirichlet([0.6, 0.4])))
    np.testing.assert_allclose(beta, pair, 1e-5)
    assert found[2] > 0
    np.testing.assert_allclose(found[3], 3 * p * np.log(3 * p / q) + q - 3 * p, atol=1e-12)
    assert np.isinf(found[4])


def test_gradients_flow_through_samples_and_densities() -> None:
    with tf.Graph().as_default():
        loc, scale = (tf.placeholder(tf.float64, [3]) for _ in range(2))
        values = [np.array([0.1, 0.2, -0.4]), np.array([0.5, 1.5, 2.5])]
        normal = D.Normal(loc, scale)
        y = [normal.log_prob([0.3, 0.1, -1.0]), normal.log_cdf([-0.4, 0.1, 0.6]), D.Gamma(scale, scale).log_prob(0.7)]
        y += [normal.entropy(), D.kl_divergence(normal, D.Normal(np.float64(0), np.float64(1)))]
        check_gradients(y, [loc, scale], values, order=1)
        sample = normal.sample(seed=5)
        assert normal.reparameterization_type is D.FULLY_REPARAMETERIZED
        first, second = tf.gradients(sample, [loc, scale])
        with tf.Session() as session:
            drawn, by_loc, by_scale = session.run([sample, first, second], dict(zip([loc, scale], values, strict=True)))
        np.testing.assert_allclose(by_loc, 1)
        np.testing.assert_allclose(by_scale, (drawn - values[0]) / values[1])
        assert tf.gradients(D.Bernoulli(probs=scale, dtype=tf.float64).sample(), scale)[0] is None


def test_what_a_distribution_tells() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        normal = D.Normal(loc=[0.0, 1.0], scale=2.0, name="prior")
        assert normal.parameters["scale"] == 2.0
        assert normal.name == "prior"
        assert not normal.validate_args
        assert session.run(normal.batch_shape_tensor()).tolist() == [2]
        assert session.run(normal.event_shape_tensor()).tolist() == []
        assert session.run([normal.is_scalar_event(), normal.is_scalar_batch()]) == [True, False]
        assert session.run(normal.copy(scale=[3.0, 4.0]).stddev()).tolist() == [3.0, 4.0]
        assert repr(normal) == "<tf.distributions.Normal 'prior' batch_shape=(2,) event_shape=() dtype=float32>"
        assert normal.log_prob([0.0, 0.0]).op.name.startswith("prior/log_prob")
        assert C.Normal is D.Normal


def test_errors() -> None:
    failing = tf.errors.InvalidArgumentError
    with pytest.raises(failing, match="scale must be positive"):
        run(lambda: D.Normal(0.0, -1.0, validate_args=True).sample())
    with pytest.raises(failing, match="probs has components greater than 1"):
        run(lambda: D.Bernoulli(probs=1.5, validate_args=True).mean())
    with pytest.raises(failing, match="uniform not defined when low >= high"):
        run(lambda: D.Uniform(1.0, 0.0, validate_args=True).sample())
    with pytest.raises(failing, match=r"counts must sum to `self.total_count`"):
        run(lambda: D.Multinomial(3.0, probs=[0.5, 0.5], validate_args=True).prob([1.0, 1.0]))
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Must pass probs or logits, but not both"):
            D.Bernoulli(probs=0.5, logits=0.0)
        with pytest.raises(TypeError, match="one floating dtype"):
            D.Normal(tf.constant(0.0), tf.constant(1.0, tf.float64))
        with pytest.raises(
            NotImplementedError, match=r"No KL\(distribution_a \|\| distribution_b\) registered for Normal and Beta"
        ):
            D.kl_divergence(D.Normal(0.0, 1.0), D.Beta(1.0, 1.0))
        with pytest.raises(NotImplementedError, match="quantile of Gamma"):
            D.Gamma(1.0, 1.0).quantile(0.5)
        with pytest.raises(ValueError, match="a second divergence of Normal and Normal"):
            D.RegisterKL(D.Normal, D.Normal)(lambda a, b, name=None: a)
        with pytest.raises(ValueError, match="exactly one of `rate` and `log_rate`"):
            C.Poisson()


def test_a_distribution_of_ones_own() -> None:
    class Coin(D.Distribution):
        def __init__(self) -> None:
            super().__init__(tf.int32, D.NOT_REPARAMETERIZED, False, True, {})

        def _batch(self) -> Any:
            return (), []

        def _prob(self, x: tf.Tensor) -> tf.Tensor:
            return 0.5 * tf.cast(tf.equal(x * (1 - x), 0), tf.float32)

    np.testing.assert_allclose(run(lambda: Coin().log_prob([0, 1])), np.log([0.5, 0.5]))
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="sample of Coin"):
        Coin().sample()
