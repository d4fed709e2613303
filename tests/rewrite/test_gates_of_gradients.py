"""Gradients behind one gate: those that nobody asks about are left out, unless they do or check something."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


def _steps():
    matrix = tf.sparse_placeholder(tf.float32)
    weights = tf.Variable(np.ones((3, 2), np.float32))
    loss = tf.reduce_sum(tf.square(tf.sparse_tensor_dense_matmul(matrix, weights)))
    gradient = tf.train.GradientDescentOptimizer(0.1).compute_gradients(loss, [weights])[0][0]
    return matrix, gradient


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_gradients_of_what_is_fed_are_not_computed(tier):
    with tf.Graph().as_default() as graph:
        matrix, gradient = _steps()
        feed = {matrix: tf.SparseTensorValue([[0, 1], [3, 2]], [2.0, 3.0], [4, 3])}
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            value = session.run(gradient, feed)
            told = session.explain(gradient, feed)
    np.testing.assert_allclose(value, [[0, 0], [8, 8], [18, 18]])
    assert "GatherV2" in {op.type for op in graph.get_operations()}
    assert "GatherV2" not in told
    assert "SparseTensorDenseMatMul" in told


def _custom(wait):
    """The gradient of a product of which the second part waits for an op."""

    @tf.custom_gradient
    def product(a, b):
        def grad(dy):
            with tf.control_dependencies([wait()]):
                second = tf.identity(dy * a)
            return dy * b, second

        return a * b, grad

    a, b = tf.get_variable("a", initializer=2.0), tf.get_variable("b", initializer=3.0)
    return tf.train.GradientDescentOptimizer(0.1).compute_gradients(product(a, b), [a])[0][0]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_gradients_that_write_run_for_the_gate(tier):
    with tf.Graph().as_default():
        count = tf.get_variable("count", initializer=0, trainable=False)
        gradient = _custom(lambda: count.assign_add(1).op)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(gradient) == 3.0
            assert session.run(count) == 1


def test_gradients_that_check_run_for_the_gate():
    with tf.Graph().as_default():
        wrong = tf.placeholder(tf.bool, [])
        gradient = _custom(lambda: tf.Assert(wrong, ["not so"]))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(gradient, {wrong: True}) == 3.0
            with pytest.raises(tf.errors.InvalidArgumentError, match="not so"):
                session.run(gradient, {wrong: False})
