"""Distributions made of others, under conditions and with what they refuse; values stand in golden files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

C = tf.contrib.distributions
B = C.bijectors


def value(tensor: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(tensor, feeds)


class Shifted(C.ConditionalDistribution):
    """A normal distribution whose mean is a condition."""

    def __init__(self) -> None:
        super().__init__(tf.float32, tf.distributions.FULLY_REPARAMETERIZED, False, True)

    def _batch_shape(self) -> Any:
        return tf.TensorShape([])

    def _event_shape(self) -> Any:
        return tf.TensorShape([])

    def _sample_n(self, n: Any, seed: Any = None, by: float = 0.0) -> Any:
        return tf.random_normal([n], mean=by, stddev=1e-3, seed=seed)

    def _log_prob(self, x: Any, by: float = 0.0) -> Any:
        return tf.distributions.Normal(by, 1.0).log_prob(x)


class Moved(B.ConditionalBijector):
    """Addition of a condition."""

    def __init__(self) -> None:
        super().__init__(forward_min_event_ndims=0, is_constant_jacobian=True, name="moved")

    def _forward(self, x: Any, by: float = 0.0) -> Any:
        return x + by

    def _inverse(self, y: Any, by: float = 0.0) -> Any:
        return y - by

    def _inverse_log_det_jacobian(self, y: Any, by: float = 0.0) -> Any:
        return tf.zeros_like(y)


def test_conditions_reach_the_methods_of_a_distribution() -> None:
    of = Shifted()
    wanted = value([tf.distributions.Normal(0.0, 1.0).log_prob(3.0), tf.distributions.Normal(2.0, 1.0).log_prob(3.0)])
    np.testing.assert_allclose(value([of.log_prob(3.0), of.log_prob(3.0, by=2.0)]), wanted)
    np.testing.assert_allclose(value(of.prob(3.0, by=2.0)), np.exp(wanted[1]), rtol=1e-6)
    np.testing.assert_allclose(value(of.sample(4, by=5.0)), np.full(4, 5.0), atol=0.02)
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        of.log_prob(3.0, unknown=1)


def test_conditions_reach_distribution_and_bijector() -> None:
    of = C.ConditionalTransformedDistribution(Shifted(), Moved())
    both = {"bijector_kwargs": {"by": 10.0}, "distribution_kwargs": {"by": 2.0}}
    np.testing.assert_allclose(value(of.sample(4, **both)), np.full(4, 12.0), atol=0.02)
    np.testing.assert_allclose(value(of.log_prob(13.0, **both)), value(tf.distributions.Normal(0.0, 1.0).log_prob(1.0)))
    np.testing.assert_allclose(value(of.log_prob(1.0)), value(tf.distributions.Normal(0.0, 1.0).log_prob(1.0)))
    with pytest.raises(TypeError, match="bijector_kwargs, distribution_kwargs"):
        of.log_prob(1.0, by=2.0)


def test_batches_whose_shapes_are_refused() -> None:
    batch = tf.distributions.Normal(np.zeros(6, np.float32), 1.0)
    for shape, text in (
        ([2, 2], r"`batch_shape` size \(4\) must match `distribution.batch_shape` size \(6\)"),
        ([4, -1], r"size \(4\) must match"),
        ([-2, 3], "`batch_shape` elements must be >=-1"),
        ([-1, -1], "At most one dimension can be unknown"),
        (6, r"`batch_shape` must be a vector \(saw rank: 0\)"),
    ):
        with pytest.raises(ValueError, match=text):
            C.BatchReshape(batch, shape)
    with pytest.raises(NotImplementedError, match="Broadcasting is not supported"):
        C.BatchReshape(batch, [2, 3]).log_prob(np.zeros((2, 1), np.float32))


def test_a_batch_shape_that_is_known_when_it_runs() -> None:
    shape = tf.placeholder(tf.int32, [2])
    batch = C.BatchReshape(tf.distributions.Normal(np.arange(6, dtype=np.float32), 1.0), shape, validate_args=True)
    assert batch.batch_shape.as_list() == [None, None]
    assert value(batch.mean(), {shape: [3, -1]}).tolist() == [[0, 1], [2, 3], [4, 5]]
    for wrong, text in (([4, 2], "Shape sizes do not match"), ([-1, -1], "At most one dimension can be unknown")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            value(batch.mean(), {shape: wrong})


def test_a_sequence_draws_each_element_after_those_before() -> None:
    weights = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0]], np.float32)

    def of(x: Any = None) -> Any:
        x = tf.ones([3]) if x is None else x
        return C.Independent(tf.distributions.Normal(1.0 + tf.tensordot(x, weights.T, 1), 1e-4), 1)

    ours = C.Autoregressive(of)
    np.testing.assert_allclose(value(ours.sample(2)), [[1, 2, 5]] * 2, atol=0.01)
    assert (ours.num_steps, ours.batch_shape.as_list(), ours.event_shape.as_list()) == (3, [], [3])
    with pytest.raises(ValueError, match=r"num_steps \(0\) must be at least 1"):
        C.Autoregressive(of, num_steps=0)


def test_rounded_numbers_keep_their_bounds_and_are_checked() -> None:
    ours = C.QuantizedDistribution(tf.distributions.Normal(0.0, 3.0), low=-2.0, high=2.0, validate_args=True)
    samples = value(ours.sample(400, seed=1))
    assert set(samples.tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert value(tf.reduce_sum(ours.prob(np.arange(-3, 4, dtype=np.float32)))) == pytest.approx(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="value has non-integer components"):
        value(ours.log_prob(0.5))


def test_statistics_refuse_what_they_cannot_take() -> None:
    with pytest.raises(ValueError, match="Argument 'interpolation' must be in"):
        C.percentile([1.0], 50.0, interpolation="linear")
    with pytest.raises(ValueError, match=r"dim 2 not in the interval \[-1, 0\]"):
        C.percentile([1.0], 50.0, axis=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x <= y"):
        value(C.percentile([1.0], 150.0, validate_args=True))
    with pytest.raises(TypeError, match="must have either float or complex dtype"):
        C.auto_correlation([1, 2])
    with pytest.raises(TypeError, match="Expected prior to be an instance of type Normal"):
        C.normal_conjugates_known_scale_posterior(tf.distributions.Laplace(0.0, 1.0), 1.0, tf.constant(1.0), 1)
    with pytest.raises(ValueError, match="Cannot infer `event_shape`"):
        C.VectorLaplaceDiag(scale_identity_multiplier=2.0)


def test_the_divergence_of_products_is_the_sum_of_those_of_the_factors() -> None:
    means = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = C.Independent(tf.distributions.Normal(means, 1.0), 1)
    b = C.Independent(tf.distributions.Normal(0.5 * means, 2.0), 1)
    factors = tf.distributions.kl_divergence(a.distribution, b.distribution)
    summed, each = value([tf.distributions.kl_divergence(a, b), factors])
    np.testing.assert_allclose(summed, each.sum(-1), rtol=1e-6)
    with pytest.raises(ValueError, match="Event shapes do not match"):
        tf.distributions.kl_divergence(a, C.Independent(tf.distributions.Normal(means, 1.0), 2))
    vectors = C.Independent(C.MultivariateNormalDiag(means, np.ones(3, np.float32)), 0)
    with pytest.raises(NotImplementedError, match="different event shapes not supported"):
        tf.distributions.kl_divergence(a, vectors)
