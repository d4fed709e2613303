"""What ``validate_args=True`` refuses, with the words of TensorFlow 1.15.5, known while the graph is built or not."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

ds = tf.contrib.distributions
V = {"validate_args": True}
FRACTION = "cannot contain fractional components"

CASES = {
    "Bernoulli, value below 0": (
        lambda c: ds.Bernoulli(probs=c([0.5]), **V).prob(c([-1.0])),
        "must be non-negative",
    ),
    "Bernoulli, fraction": (lambda c: ds.Bernoulli(probs=c([0.5]), **V).prob(c([0.3])), "must be bool-equivalent"),
    "Bernoulli, 2": (lambda c: ds.Bernoulli(probs=c([0.5]), **V).prob(c([2.0])), "must be bool-equivalent"),
    "Bernoulli, probs above 1": (lambda c: ds.Bernoulli(probs=c([1.5]), **V).mean(), "components greater than 1"),
    "Bernoulli, probs below 0": (lambda c: ds.Bernoulli(probs=c([-0.5]), **V).mean(), "x >= 0 did not hold"),
    "Categorical, fraction": (lambda c: ds.Categorical(probs=c([0.5, 0.5]), **V).prob(c([0.3])), "int32-equivalent"),
    "Categorical, below 0": (lambda c: ds.Categorical(probs=c([0.5, 0.5]), **V).cdf(c([-1.0])), "must be non-negative"),
    "Dirichlet, sum": (lambda c: ds.Dirichlet(c([1.0, 2.0]), **V).prob(c([0.5, 0.6])), "must sum to `1`"),
    "Dirichlet, sign": (lambda c: ds.Dirichlet(c([1.0, 2.0]), **V).prob(c([-0.5, 1.5])), "samples must be positive"),
    "Dirichlet, concentration": (lambda c: ds.Dirichlet(c([1.0, -2.0]), **V).mean(), "parameter must be positive"),
    "Dirichlet, one class": (lambda c: ds.Dirichlet(c([1.0]), **V).mean(), "must have event_size >= 2"),
    "Multinomial, fraction": (lambda c: ds.Multinomial(5.0, probs=c([0.5, 0.5]), **V).prob(c([2.5, 2.5])), FRACTION),
    "Multinomial, sum": (
        lambda c: ds.Multinomial(5.0, probs=c([0.5, 0.5]), **V).prob(c([2.0, 2.0])),
        "must sum",
    ),
    "Multinomial, sign": (lambda c: ds.Multinomial(5.0, probs=c([0.5, 0.5]), **V).prob(c([-1.0, 6.0])), "non-negative"),
    "Multinomial, total": (lambda c: ds.Multinomial(c(5.5), probs=c([0.5, 0.5]), **V).mean(), FRACTION),
    "Dirichlet-multinomial": (lambda c: ds.DirichletMultinomial(5.0, c([1.0, 2.0]), **V).prob(c([2.5, 2.5])), FRACTION),
    "Dirichlet-multinomial, sum": (
        lambda c: ds.DirichletMultinomial(5.0, c([1.0, 2.0]), **V).prob(c([2.0, 2.0])),
        "counts last-dimension must sum to `self.total_count`",
    ),
    "Dirichlet-multinomial, total": (
        lambda c: ds.DirichletMultinomial(c(-5.0), [1.0, 2.0], **V).mean(),
        "non-negative",
    ),
    "Uniform": (lambda c: ds.Uniform(c(2.0), c(1.0), **V).mean(), "uniform not defined when low >= high"),
    "Beta, above 1": (lambda c: ds.Beta(c(2.0), c(1.0), **V).prob(c([1.5])), "sample must be less than `1`"),
    "Beta, below 0": (lambda c: ds.Beta(c(2.0), c(1.0), **V).cdf(c([-1.5])), "sample must be positive"),
    "Beta, concentration": (lambda c: ds.Beta(c(-2.0), c(1.0), **V).mean(), "Concentration parameter must be positive"),
    "Gamma, concentration": (lambda c: ds.Gamma(c(-2.0), c(1.0), **V).mean(), "x > 0 did not hold"),
    "Gamma, sample": (lambda c: ds.Gamma(c(2.0), c(1.0), **V).prob(c(-1.0)), "x > 0 did not hold"),
    "Normal": (lambda c: ds.Normal(c(2.0), c(-1.0), **V).mean(), "x > 0 did not hold"),
    "StudentT": (lambda c: ds.StudentT(c(-2.0), c(1.0), c(1.0), **V).mean(), "x > 0 did not hold"),
    "Poisson, fraction": (lambda c: ds.Poisson(c(2.0), **V).prob(c(0.5)), FRACTION),
    "Poisson, sign": (lambda c: ds.Poisson(c(2.0), **V).cdf(c(-1.0)), "must be non-negative"),
    "Binomial, fraction": (lambda c: ds.Binomial(c(5.0), probs=c(0.5), **V).prob(c(2.5)), FRACTION),
    "Binomial, more than all": (
        lambda c: ds.Binomial(c(5.0), probs=c(0.5), **V).prob(c(6.0)),
        "not less than",
    ),
    "Binomial, total": (lambda c: ds.Binomial(c(5.5), probs=c(0.5), **V).mean(), "total_count " + FRACTION),
    "Geometric": (lambda c: ds.Geometric(probs=c(0.5), **V).cdf(c(1.5)), FRACTION),
    "NegativeBinomial": (lambda c: ds.NegativeBinomial(c(4.0), probs=c(0.5), **V).prob(c(1.5)), FRACTION),
    "NegativeBinomial, total": (lambda c: ds.NegativeBinomial(c(-4.0), probs=c(0.5), **V).mean(), "x > 0 did not hold"),
    "InverseGamma": (lambda c: ds.InverseGamma(c(2.0), c(1.0), **V).cdf(c(-1.0)), "x > 0 did not hold"),
    "Binomial, fraction below": (lambda c: ds.Binomial(c(5.0), probs=c(0.5), **V).cdf(c(1.5)), FRACTION),
    "Multinomial, probs": (lambda c: ds.Multinomial(2.0, probs=c([0.5, 0.7]), **V).mean(), "probs does not sum to 1"),
    "Categorical, probs": (lambda c: ds.Categorical(probs=c([0.5, 0.7]), **V).entropy(), "probs does not sum to 1"),
    "OneHot, logits": (lambda c: ds.OneHotCategorical(logits=c([0.5]), **V).mode(), "must have at least 2 events"),
    "Dirichlet-multinomial, one class": (
        lambda c: ds.DirichletMultinomial(2.0, c([1.0]), **V).mean(),
        "at least 2 events",
    ),
    "RelaxedBernoulli": (lambda c: ds.RelaxedBernoulli(c(-1.0), probs=c(0.5), **V).sample(), "x > 0 did not hold"),
    "RelaxedOneHot": (
        lambda c: ds.RelaxedOneHotCategorical(c(-1.0), probs=c([0.5, 0.5]), **V).sample(),
        "x > 0 did not",
    ),
    "Deterministic": (lambda c: ds.Deterministic(c(1.0), atol=c(-1.0), **V).prob(c(1.0)), "'tol' must be non-negative"),
}


def constant(value):
    return tf.constant(value, tf.float32)


def fed(value):
    return tf.placeholder_with_default(np.asarray(value, np.float32), None)


@pytest.mark.parametrize("give", [constant, fed])
@pytest.mark.parametrize("name", CASES)
def test_what_is_refused(name, give):
    make, words = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            session.run(make(give))


@pytest.mark.parametrize("give", [constant, fed])
def test_what_is_right_goes_through(give):
    with tf.Graph().as_default(), tf.Session() as session:
        results = [
            ds.Bernoulli(probs=give([0.25]), **V).prob(give([1.0])),
            ds.Categorical(probs=give([0.25, 0.75]), **V).prob(give([0.0])),
            ds.Dirichlet(give([1.0, 1.0]), **V).prob(give([0.5, 0.5]))[None],
            ds.Multinomial(2.0, probs=give([0.5, 0.5]), **V).prob(give([1.0, 1.0]))[None],
            ds.Binomial(give(2.0), probs=give(0.5), **V).prob(give(1.0))[None],
        ]
        np.testing.assert_allclose(session.run(results), [[0.25], [0.25], [1.0], [0.5], [0.5]], rtol=1e-5)


def test_parameters_of_unknown_rank():
    with tf.Graph().as_default(), tf.Session() as session:
        numbers = ds.RelaxedOneHotCategorical(fed(0.5), probs=fed([0.25, 0.75]))
        assert session.run(numbers.event_size) == 2
        drawn = numbers.sample([4, 3], seed=1)
        sums, shape = session.run([tf.reduce_sum(drawn, -1), tf.shape(numbers.log_prob(drawn))])
        np.testing.assert_allclose(sums, np.ones([4, 3]), rtol=1e-5)
        assert shape.tolist() == [4, 3]


def test_a_value_of_another_kind_is_not_forced_into_the_distributions():
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(ds.Categorical(probs=[0.25, 0.75]).prob([0.0, 1.0])).tolist() == [0.25, 0.75]


def test_totals_of_a_last_dimension_of_one_stand_beside_concentrations():
    """As TensorFlow's moments take them; its batch is that of the concentrations."""
    concentration = np.float32(4 * [[1, 2, 3]])
    totals = np.float32([[2], [3], [4], [5]])
    with tf.Graph().as_default(), tf.Session() as session:
        counts = ds.DirichletMultinomial(totals, concentration)
        assert counts.batch_shape.as_list() == [4]
        mean, variance, covariance = session.run([counts.mean(), counts.variance(), counts.covariance()])
        drawn = session.run(counts.sample(7, seed=1))
        np.testing.assert_array_equal(drawn.sum(-1), np.broadcast_to(totals[:, 0], [7, 4]))
    probs = concentration.astype(np.float64) / 6
    scale = totals * (6 + totals) / 7
    expected = scale[..., None] * (np.einsum("ij,jk->ijk", probs, np.eye(3)) - probs[:, :, None] * probs[:, None])
    np.testing.assert_allclose(mean, totals * probs, rtol=1e-5)
    np.testing.assert_allclose(covariance, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, np.einsum("ijj->ij", expected), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantiles_have_finite_gradients_at_both_ends(dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        p = tf.constant([0.0, np.exp(-32.0), 0.5, 1.0], dtype)
        values = ds.Normal(dtype(0), dtype(1)).quantile(p)
        found, slopes = session.run([values, tf.gradients(values, p)[0]])
        assert found[0] == -np.inf
        assert found[3] == np.inf
        assert slopes[0] == slopes[3] == 0
        np.testing.assert_allclose(slopes[2], np.sqrt(2 * np.pi), rtol=1e-5)
        assert np.isfinite(slopes).all()
