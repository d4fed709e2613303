"""Conditionals, loops and calls of functions as `functional_ops` builds them."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import functional_ops


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


@tf.Defun(tf.float32)
def twice(x):
    return x * 2


@tf.Defun(tf.float32)
def negative(x):
    return -x


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [(True, True), (0, False), (2.5, True), ("", False), ("x", True), ([1, 2], True), (np.zeros([0]), False)],
)
def test_a_predicate_of_any_dtype(session, predicate, holds):
    x = tf.constant(3.0)
    (y,) = functional_ops.If(predicate, [x], twice, negative)
    assert session.run(y) == (6 if holds else -3)
    assert session.run(tf.gradients(y, x)[0]) == (2 if holds else -1)


def test_a_loop_of_functions(session):
    @tf.Defun(tf.int32, tf.float32)
    def going(n, x):
        return n > 0

    @tf.Defun(tf.int32, tf.float32)
    def step(n, x):
        return n - 1, x * 3

    x = tf.constant([1.0, 2.0])
    n, y = functional_ops.While([4, x], going, step)
    assert session.run(n) == 0
    assert session.run(y).tolist() == [81, 162]
    assert session.run(tf.gradients(y, x)[0]).tolist() == [81, 81]

    @tf.Defun(tf.int32, tf.float32)
    def other(n, x):
        return x, n

    with pytest.raises(ValueError, match=r"(?s)body that gives.*'float32', 'int32'.*Expected: the types of the"):
        functional_ops.While([4, 1.0], going, other)


@pytest.mark.parametrize(("start", "limit", "delta"), [(0, 5, 1), (1, 10, 3), (5, 0, -2), (3, 3, 1), (0, 5, -1)])
def test_a_counted_loop(session, start, limit, delta):
    @tf.Defun(tf.int32, tf.float32)
    def body(i, x):
        return x + tf.cast(i, tf.float32)

    (y,) = functional_ops.For(start, limit, delta, [100.0], body)
    assert session.run(y) == 100 + sum(range(start, limit, delta))


def test_a_counted_loop_of_no_delta(session):
    (y,) = functional_ops.For(0, 5, tf.constant(0), [100.0], lambda i, x: x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="For needs a delta other than 0"):
        session.run(y)


def test_calls(session):
    x = tf.constant(2.0)
    assert session.run(functional_ops.partitioned_call([x], twice)) == [4]
    (y,) = functional_ops.remote_call([x], [tf.float32], twice, "/device:CPU:0")
    assert session.run(y) == 4
    with pytest.raises(TypeError, match="a function that gives"):
        functional_ops.remote_call([x], tf.int32, twice, "/device:CPU:0")
    with pytest.raises(NotImplementedError, match="a device that a step computes"):
        functional_ops.remote_call([x], tf.float32, twice, tf.placeholder(tf.string, []))
