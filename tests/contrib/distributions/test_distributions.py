"""Distributions and bijectors of `tf.contrib.distributions`, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st
from scipy import special

import anabranch as tf

C = tf.contrib.distributions
B = C.bijectors
ONE, TWO = np.array([0.7, 1.6, 3.1]), np.array([[1.3], [2.9]])
P = np.array([0.15, 0.5, 0.8])


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


# Ours, SciPy's, values to look at.
def families():
    return {
        "Binomial": (C.Binomial(np.array([[4.0], [9.0]]), probs=P), st.binom([[4], [9]], P), [0.0, 2.0, 4.0]),
        "NegativeBinomial": (
            C.NegativeBinomial(np.array([[4.0], [9.0]]), probs=P),
            st.nbinom([[4], [9]], 1 - P),
            [0.0, 2.0, 7.0],
        ),
        "Geometric": (C.Geometric(probs=P), st.geom(P, loc=-1), [0.0, 2.0, 5.0]),
        "Chi2": (C.Chi2(ONE * TWO), st.chi2(ONE * TWO), [0.2, 1.5, 4.0]),
        "InverseGamma": (C.InverseGamma(ONE + 3, TWO), st.invgamma(ONE + 3, scale=TWO), [0.2, 1.5, 4.0]),
        "HalfNormal": (C.HalfNormal(ONE), st.halfnorm(scale=ONE), [0.2, 1.5, 4.0]),
        "Logistic": (C.Logistic(ONE, TWO), st.logistic(ONE, TWO), [-4.0, 0.3, 6.0]),
        "Cauchy": (C.Cauchy(ONE, TWO), st.cauchy(ONE, TWO), [-4.0, 0.3, 6.0]),
    }


NAMES = ["Binomial", "NegativeBinomial", "Geometric", "Chi2", "InverseGamma", "HalfNormal", "Logistic", "Cauchy"]
COUNTS = ("Binomial", "NegativeBinomial", "Geometric")


@pytest.mark.parametrize("name", NAMES)
def test_families(session, name):
    ours, known, values = families()[name]
    values = (
        np.array(values).reshape(-1, 1, 1)
        if name != "Geometric" and name != "HalfNormal"
        else np.array(values)[:, None]
    )
    density = known.logpmf if name in COUNTS else known.logpdf
    np.testing.assert_allclose(session.run(ours.log_prob(values)), density(values), 1e-6, 1e-8)
    np.testing.assert_allclose(session.run(ours.cdf(values)), known.cdf(values), 1e-6, 1e-8)
    if name not in ("Binomial", "NegativeBinomial"):
        np.testing.assert_allclose(session.run(ours.entropy()), known.entropy(), 1e-5)
    samples = session.run(ours.sample(3000, seed=5))
    assert samples.shape == (3000, *ours.batch_shape.as_list())
    below = (samples <= np.quantile(samples, 0.7, axis=0)).mean(0)
    np.testing.assert_allclose(known.cdf(np.quantile(samples, 0.7, axis=0)), below, atol=0.06)
    if name == "Cauchy":
        assert np.isnan(session.run(ours.mean())).all()
        np.testing.assert_allclose(session.run(ours.quantile(0.3)), known.ppf(0.3), 1e-6)
        return
    np.testing.assert_allclose(session.run(ours.mean()), known.mean() * np.ones(samples.shape[1:]), 1e-6)
    np.testing.assert_allclose(session.run(ours.variance()), known.var() * np.ones(samples.shape[1:]), 1e-6)
    np.testing.assert_allclose(session.run(ours.stddev()), known.std() * np.ones(samples.shape[1:]), 1e-6)


def test_one_hot(session):
    ours = C.OneHotCategorical(probs=np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
    assert ours.batch_shape.as_list() == [2]
    assert ours.event_shape.as_list() == [3]
    samples = session.run(ours.sample(4000, seed=3))
    assert samples.shape == (4000, 2, 3)
    assert (samples.sum(-1) == 1).all()
    np.testing.assert_allclose(samples.mean(0), [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], atol=0.04)
    np.testing.assert_allclose(session.run(ours.prob([[0, 0, 1], [1, 0, 0]])), [0.5, 0.6], 1e-6)
    assert session.run(ours.mode()).tolist() == [[0, 0, 1], [1, 0, 0]]
    np.testing.assert_allclose(session.run(ours.entropy()), st.entropy([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], axis=1))
    np.testing.assert_allclose(session.run(ours.covariance())[0, 0], [0.16, -0.06, -0.1], 1e-6)


def test_independent(session):
    ours = C.Independent(C.Normal(ONE * TWO, 1.0 + 0 * ONE * TWO))
    assert (ours.batch_shape.as_list(), ours.event_shape.as_list()) == ([2], [3])
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(session.run(ours.log_prob(x)), st.norm(ONE * TWO, 1).logpdf(x).sum(1))
    assert ours.sample(5).shape.as_list() == [5, 2, 3]
    np.testing.assert_allclose(session.run(ours.entropy()), 3 * st.norm.entropy() * np.ones(2))
    assert session.run(C.Independent(C.Normal(ONE, 1.0 + 0 * ONE), 1).batch_shape_tensor()).tolist() == []
    with pytest.raises(ValueError, match="cannot exceed"):
        C.Independent(C.Normal(0.0, 1.0), 1)


# ---------------------------------------------------------------------------------------------------------- bijectors
BIJECTORS = {
    "Identity": (lambda: B.Identity(), lambda x: x),
    "Exp": (lambda: B.Exp(), np.exp),
    "Sigmoid": (lambda: B.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    "Softplus": (lambda: B.Softplus(), lambda x: np.log1p(np.exp(x))),
    "Softplus, soft": (lambda: B.Softplus(np.float64(2)), lambda x: 2 * np.log1p(np.exp(x / 2))),
    "Softsign": (lambda: B.Softsign(), lambda x: x / (1 + np.abs(x))),
    "Square": (lambda: B.Square(), np.square),
    "AffineScalar": (lambda: B.AffineScalar(np.float64(1), np.float64(-3)), lambda x: 1 - 3 * x),
    "PowerTransform": (lambda: B.PowerTransform(0.5), lambda x: (1 + x / 2) ** 2),
    "PowerTransform of 0": (lambda: B.PowerTransform(0.0), np.exp),
    "Invert": (lambda: B.Invert(B.Exp()), np.log),
    "Chain": (lambda: B.Chain([B.Exp(), B.AffineScalar(np.float64(1), np.float64(2))]), lambda x: np.exp(1 + 2 * x)),
    "Inline": (
        lambda: B.Inline(tf.exp, tf.log, inverse_log_det_jacobian_fn=lambda y: -tf.log(y), forward_min_event_ndims=0),
        np.exp,
    ),
}


@pytest.mark.parametrize("name", BIJECTORS)
def test_bijectors(session, name):
    make, function = BIJECTORS[name]
    bijector = make()
    x = np.array([0.3, 1.1, 2.2])
    y = session.run(bijector.forward(x))
    np.testing.assert_allclose(y, function(x), 1e-9)
    np.testing.assert_allclose(session.run(bijector.inverse(y)), x, 1e-7)
    slope = np.log(np.abs(function(x + 1e-6) - function(x - 1e-6)) / 2e-6)
    ones = np.ones(3)
    np.testing.assert_allclose(session.run(bijector.forward_log_det_jacobian(x, 0)) * ones, slope, 1e-5, 1e-7)
    np.testing.assert_allclose(session.run(bijector.inverse_log_det_jacobian(y, 0)) * ones, -slope, 1e-5, 1e-7)
    np.testing.assert_allclose(session.run(bijector.forward_log_det_jacobian(x, 1)), slope.sum(), 1e-5, 1e-7)
    np.testing.assert_allclose(session.run(bijector.inverse_log_det_jacobian(y, 1)), -slope.sum(), 1e-5, 1e-7)
    assert bijector.forward_event_shape([3]).as_list() == [3]


def test_centred_softmax(session):
    bijector = B.SoftmaxCentered()
    x = np.array([0.3, -1.1])
    y = session.run(bijector.forward(x))
    np.testing.assert_allclose(y, np.exp([0.3, -1.1, 0]) / np.exp([0.3, -1.1, 0]).sum(), 1e-9)
    np.testing.assert_allclose(session.run(bijector.inverse(y)), x, 1e-7)
    jacobian = (np.diag(y) - np.outer(y, y))[:2, :2]
    known = np.log(np.linalg.det(jacobian))
    np.testing.assert_allclose(session.run(bijector.forward_log_det_jacobian(x, 1)), known, 1e-6)
    assert bijector.forward_event_shape([2]).as_list() == [3]
    assert bijector.inverse_event_shape([3]).as_list() == [2]
    assert session.run(bijector.forward_event_shape_tensor([5, 2])).tolist() == [5, 3]
    with pytest.raises(ValueError, match="must be larger than min_event_ndims"):
        bijector.forward_log_det_jacobian(x, 0)
    with pytest.raises(ValueError, match="Must specify at least one of"):
        B.Bijector()
    with pytest.raises(ValueError, match="`power` must be a non-negative"):
        B.PowerTransform(-1.0)


def test_transformed(session):
    ours = C.TransformedDistribution(C.Normal(ONE, TWO), B.Exp(), name="LogNormal")
    known = st.lognorm(TWO, scale=np.exp(ONE))
    y = np.array([0.3, 1.5, 4.0])
    np.testing.assert_allclose(session.run(ours.log_prob(y)), known.logpdf(y), 1e-6)
    np.testing.assert_allclose(session.run(ours.cdf(y)), known.cdf(y), 1e-6)
    np.testing.assert_allclose(session.run(ours.quantile(0.3)), known.ppf(0.3), 1e-6)
    samples = session.run(ours.sample(3000, seed=4))
    np.testing.assert_allclose((np.log(samples) < ONE).mean(0), 0.5 * np.ones((2, 3)), atol=0.05)
    with pytest.raises(NotImplementedError, match="mean is not implemented"):
        ours.mean()
    with pytest.raises(ValueError, match="base distribution not scalar: batch_shape override"):
        C.TransformedDistribution(C.Normal(ONE, TWO), batch_shape=[2])
    with pytest.raises(NotImplementedError, match="cdf is not implemented when overriding event_shape"):
        C.TransformedDistribution(C.Normal(0.0, 1.0), event_shape=[2]).cdf([0.0, 0.0])
    moved = C.TransformedDistribution(C.Normal(ONE, TWO), B.AffineScalar(np.float64(1), np.float64(3)))
    np.testing.assert_allclose(session.run(moved.mean()), 1 + 3 * ONE * np.ones((2, 1)))
    np.testing.assert_allclose(session.run(moved.entropy()), st.norm(ONE, 3 * TWO).entropy(), 1e-6)
    on_simplex = C.TransformedDistribution(C.Normal(np.zeros(2), np.ones(2)), B.SoftmaxCentered())
    assert (on_simplex.batch_shape.as_list(), on_simplex.event_shape.as_list()) == ([], [3])
    assert on_simplex.sample(4).shape.as_list() == [4, 3]
    p = np.array([0.2, 0.5, 0.3])
    x = np.log(p[:2] / p[2])
    np.testing.assert_allclose(session.run(on_simplex.log_prob(p)), st.norm.logpdf(x).sum() - np.log(p).sum(), 1e-6)


def test_the_curve_of_a_negative_binomial_between_counts() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = np.array([-0.5, 0.0, 0.4, 1.0, 2.7])
        known = C.NegativeBinomial(np.float64(3.0), probs=np.float64(0.4))
        found = session.run(known.cdf(x))
    np.testing.assert_allclose(found[1:], special.betainc(3.0, 1 + x[1:], 0.6), rtol=1e-12)
    assert found[0] == 0.0
