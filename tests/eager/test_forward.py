"""Forward accumulators: derivatives along a direction, against formulas and differences."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
V = np.array([[0.1, 0.2], [-0.3, 0.4]], np.float32)


def test_the_derivative_along_tangents_is_that_of_differences() -> None:
    w = tf.Variable(np.array([[0.5, -1.0], [2.0, 0.3]]))
    x, v, dw = tf.constant(X, tf.float64), tf.constant(V, tf.float64), tf.ones([2, 2], tf.float64)

    def of(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.tanh(tf.matmul(x, w)) * tf.exp(-x))

    with tf.autodiff.ForwardAccumulator({"x": x, "w": w}, {"x": v, "w": dw}) as accumulator:
        y = of(x, w)
        inside = accumulator.jvp(y)
    step = 1e-6
    differences = (of(x + step * v, w + step * dw) - of(x - step * v, w - step * dw)) / (2 * step)
    np.testing.assert_allclose(inside.numpy(), differences.numpy(), atol=1e-8)
    np.testing.assert_allclose(accumulator.jvp([y])[0].numpy(), inside.numpy())


def test_what_is_not_reached_has_none_or_zeros() -> None:
    x, other = tf.constant(X), tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant(V)) as accumulator:
        y = other * 2.0
    assert accumulator.jvp(y) is None
    assert accumulator.jvp(y, tf.UnconnectedGradients.ZERO).numpy().tolist() == [0.0, 0.0]
    assert accumulator.jvp(x).numpy().tolist() == V.tolist()


def test_accumulators_and_tapes_nest_in_every_order() -> None:
    x, v = tf.constant(X), tf.constant(V)
    with tf.autodiff.ForwardAccumulator(x, v) as outer:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(x**3)
        slope = tape.gradient(loss, x)
    np.testing.assert_allclose(outer.jvp(slope).numpy(), 6 * X * V, rtol=1e-5)
    with (
        tf.autodiff.ForwardAccumulator(x, v) as outer,
        tf.autodiff.ForwardAccumulator(x, v) as inner,
    ):
        y = x**3
        slope = inner.jvp(y)
    np.testing.assert_allclose(outer.jvp(slope).numpy(), 6 * X * V * V, rtol=1e-5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, v) as inner:
            y = x**3
        slope = inner.jvp(y)
    np.testing.assert_allclose(tape.gradient(slope, x).numpy(), 6 * X * V, rtol=1e-5)


def test_functions_are_differentiated_from_within_and_from_without() -> None:
    @tf.function
    def fourth(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x * x * x * x)

    @tf.function
    def slope_of_square(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        with tf.autodiff.ForwardAccumulator(x, v) as accumulator:
            y = x * x
        return accumulator.jvp(y)

    with tf.autodiff.ForwardAccumulator(tf.constant(X), tf.constant(V)) as none:
        y = fourth(tf.constant(X))
    assert none.jvp(y) is None
    x = tf.constant(X)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(V)) as accumulator:
        y = fourth(x)
    np.testing.assert_allclose(accumulator.jvp(y).numpy(), 4 * X**3 * V, rtol=1e-5)
    np.testing.assert_allclose(slope_of_square(x, tf.constant(V)).numpy(), 2 * X * V, rtol=1e-6)


def test_rows_of_a_table_have_sparse_gradients_and_dense_derivatives() -> None:
    table = tf.Variable(X)
    with tf.autodiff.ForwardAccumulator(table, tf.constant(V)) as accumulator:
        y = tf.nn.embedding_lookup(table, [1, 1, 0])
    np.testing.assert_allclose(accumulator.jvp(y).numpy(), V[[1, 1, 0]])


def test_in_a_graph_the_derivative_is_a_tensor() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(X)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(V)) as accumulator:
            y = tf.sin(x)
        np.testing.assert_allclose(session.run(accumulator.jvp(y)), np.cos(X) * V, rtol=1e-5)


def test_what_cannot_be_followed_is_refused() -> None:
    x = tf.constant(X)
    with pytest.raises(ValueError, match="tangents of the primals' shapes"):
        tf.autodiff.ForwardAccumulator(x, tf.ones([3]))
    with pytest.raises(ValueError, match="a primal given twice"):
        tf.autodiff.ForwardAccumulator([x, x], [x, x])
    with pytest.raises(TypeError, match="Expected: a tensor or a variable"):
        tf.autodiff.ForwardAccumulator(2.0, 1.0)
    with (
        pytest.raises(ValueError, match="Accumulator is already recording"),
        tf.autodiff.ForwardAccumulator(x, x) as accumulator,
        accumulator,
    ):
        pass
