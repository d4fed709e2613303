"""Distribution functions of TensorFlow's internal module, and what its divergences keep to themselves."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import special_math


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_the_normal_distributions_function(session):
    x = tf.constant([-30.0, -3.0, 0.0, 3.0, 9.0], tf.float64)
    expected = [4.906713927148187e-198, 0.0013498980316300946, 0.5, 0.9986501019683699, 1.0]
    np.testing.assert_allclose(session.run(special_math.ndtr(x)), expected, rtol=1e-12)
    logs = [
        -454.32124395634344,
        -6.607726221510349,
        -0.6931471805599453,
        -0.0013508099647481938,
        -1.1285884059538406e-19,
    ]
    np.testing.assert_allclose(session.run(special_math.log_ndtr(x)), logs, rtol=1e-6)
    p = tf.constant([0.0013498980316300946, 0.5, 0.9986501019683699], tf.float64)
    np.testing.assert_allclose(session.run(special_math.ndtri(p)), [-3.0, 0.0, 3.0], atol=1e-12)
    edge = tf.constant([0.0, 0.5, 1.0])
    assert np.isfinite(session.run(tf.gradients(special_math.ndtri(edge), edge)[0])).all()
    np.testing.assert_allclose(session.run(special_math.erfinv(tf.constant([0.0, 0.5]))), [0.0, 0.4769363], rtol=1e-6)
    values = session.run(special_math.log_cdf_laplace(tf.constant([-200.0, 0.0, 40.0])))
    np.testing.assert_allclose(values, [-200.69315, -0.6931472, -2.1241769e-18], rtol=1e-5)


def test_what_they_refuse(session):
    for function in (special_math.ndtr, special_math.ndtri, special_math.log_ndtr, special_math.erfinv):
        with pytest.raises(TypeError, match=r"x.dtype=.*int32.* is not handled"):
            function(tf.constant([1]))
    for order, kind, words in (
        (-1, ValueError, "non-negative"),
        (31, ValueError, "<= 30"),
        (1.5, TypeError, "integer"),
    ):
        with pytest.raises(kind, match=words):
            special_math.log_ndtr(1.0, order)


def test_the_nearest_divergence_is_taken(session):
    class One(tf.distributions.Normal):
        pass

    class Two(One):
        pass

    @tf.distributions.RegisterKL(One, One)
    def _ones(a, b, name=None):
        return tf.constant(float("nan"))

    assert special_math._registered_kl(Two, One) is _ones
    assert special_math._registered_kl(Two, Two) is _ones
    assert special_math._registered_kl(One, tf.distributions.Bernoulli) is None
    with pytest.raises(ValueError, match="has already been registered"):
        tf.distributions.RegisterKL(One, One)(_ones)
    strict = Two(0.0, 1.0, allow_nan_stats=False, name="strict")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"KL calculation between .* and .* returned NaN values"):
        session.run(strict.kl_divergence(strict))
    assert np.isnan(session.run(special_math.cross_entropy(One(0.0, 1.0), One(0.0, 1.0))))
