"""What all bijectors share: pairs that are remembered, determinants that follow, sums over events, names."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import eager_mode

B = tf.contrib.distributions.bijectors


class Bare(B.Bijector):
    """Nothing but the base."""

    def __init__(self):
        super().__init__(forward_min_event_ndims=0)


class _BareBonesBijector(Bare):
    pass


class OneWay(B.Bijector):
    """A function whose inverse is given, or not."""

    def __init__(self, inverse=False, own_ndims=0, constant=False, dtype=None):
        super().__init__(forward_min_event_ndims=own_ndims, is_constant_jacobian=constant, dtype=dtype, name="one_way")
        self.inverse_is_there = inverse

    def _forward(self, x):
        return 2.0 * x

    def _inverse(self, y):
        if not self.inverse_is_there:
            raise AssertionError("not asked for")
        return y / 2.0

    def _forward_log_det_jacobian(self, x):
        return tf.log(x) if not self.is_constant_jacobian else tf.constant(-2.0)


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_names_and_what_is_not_given(session):
    assert Bare().name == "bare"
    assert _BareBonesBijector().name == "bare_bones_bijector"
    assert B.Exp().forward(tf.constant(1.0)).name.startswith("exp/forward/")
    for call, words in (
        (lambda: Bare().inverse(0.0), "inverse not implemented"),
        (lambda: Bare().forward(0.0), "forward not implemented"),
        (lambda: Bare().inverse_log_det_jacobian(0.0, 0), "inverse_log_det_jacobian not implemented"),
        (lambda: Bare().forward_log_det_jacobian(0.0, 0), "forward_log_det_jacobian not implemented"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()
    with pytest.raises(TypeError, match="Input had dtype"):
        OneWay(dtype=tf.float32).forward(tf.constant(1.0, tf.float64))


def test_the_inverse_of_what_it_gave_is_what_it_took(session):
    bijector, x = OneWay(), tf.constant([0.5, 3.0])
    y = bijector.forward(x)
    assert bijector.forward(x) is y
    assert bijector.inverse(y) is x
    at_x = bijector.forward_log_det_jacobian(x, 1)
    np.testing.assert_allclose(session.run(bijector.inverse_log_det_jacobian(y, 1)), -np.log(1.5), rtol=1e-6)
    np.testing.assert_allclose(session.run(at_x), np.log(1.5), rtol=1e-6)
    with pytest.raises(AssertionError, match="not asked for"):
        bijector.inverse(tf.constant(1.0))  # another tensor
    assert B.Softplus().inverse(B.Softplus().forward(x)) is not x  # another bijector


def test_a_sample_keeps_the_digits_that_its_inverse_would_lose(session):
    base = tf.distributions.Normal(np.full(3, 50.0, np.float32), 1.0)
    distribution = tf.contrib.distributions.TransformedDistribution(base, B.Sigmoid())
    sample = distribution.sample([2], seed=3)
    assert sample.shape == [2, 3]
    value, before = session.run([sample, distribution.bijector.inverse(sample)])
    np.testing.assert_array_equal(value, 1.0)  # all that float32 has of it
    np.testing.assert_allclose(before, 50.0, atol=5)


def test_what_is_built_in_a_branch_stays_there(session):
    bijector, x = B.Exp(), tf.constant(2.0)
    inside = tf.cond(tf.constant(True), lambda: bijector.forward(x), lambda: x)
    np.testing.assert_allclose(session.run([inside, bijector.forward(x)]), np.exp(2.0), rtol=1e-6)


@pytest.mark.parametrize(("ndims", "expected"), [(0, -2.0), (1, -4.0), (2, -8.0)])
def test_a_determinant_that_is_the_same_everywhere_is_summed_over_an_event(session, ndims, expected):
    x = tf.ones([3, 2, 2])
    result = OneWay(constant=True).forward_log_det_jacobian(x, ndims)
    assert result.shape == []
    assert session.run(result) == expected


def test_events_are_summed_and_batches_are_not(session):
    x = np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32)
    bijector = OneWay(inverse=True)
    for ndims, axes in ((0, ()), (1, (-1,)), (2, (-2, -1))):
        expected = np.sum(np.log(x), axes)
        np.testing.assert_allclose(session.run(bijector.forward_log_det_jacobian(x, ndims)), expected, rtol=1e-6)
        np.testing.assert_allclose(session.run(bijector.inverse_log_det_jacobian(2 * x, ndims)), -expected, rtol=1e-6)
    with pytest.raises(ValueError, match="must be larger than"):
        OneWay(own_ndims=1).forward_log_det_jacobian(x, 0)


def test_nothing_is_kept_where_ops_run_at_once():
    with eager_mode():
        bijector = OneWay(inverse=True)
        y = bijector.forward(tf.constant(3.0))
        assert bijector.inverse(y).numpy() == 3.0
        assert not bijector._from_x
        assert not bijector._from_y


def test_further_arguments_are_part_of_what_is_remembered(session):
    class Shift(B.ConditionalBijector):
        def __init__(self):
            super().__init__(forward_min_event_ndims=0)

        def _forward(self, x, by=0.0):
            return x + by

        def _inverse(self, y, by=0.0):
            return y - by

        def _inverse_log_det_jacobian(self, y, by=0.0):
            return tf.zeros_like(y) + by

    bijector, x, one, two = Shift(), tf.constant(1.0), tf.constant(1.0), tf.constant(2.0)
    y = bijector.forward(x, by=one)
    assert bijector.inverse(y, by=one) is x
    assert session.run([y, bijector.forward(x, by=two), bijector.inverse(y, by=two)]) == [2.0, 3.0, 0.0]
    assert session.run(bijector.forward_log_det_jacobian(x, 0, by=two)) == -2.0
