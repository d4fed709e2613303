"""Ranks, pseudo-inverses and normalisation of matrices, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

RANDOM = np.random.RandomState(3)
FULL = RANDOM.randn(2, 4, 3)
DEFICIENT = np.stack([FULL[0] @ np.diag([1.0, 0, 1.0]) @ RANDOM.randn(3, 3), FULL[1]])


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


@pytest.mark.parametrize("shape", [[2, 4, 3], None])
def test_ranks(session, shape):
    a = tf.placeholder(tf.float64, shape)
    rank, by_bound = session.run([tf.linalg.matrix_rank(a), tf.linalg.matrix_rank(a, tol=1e3)], {a: DEFICIENT})
    assert rank.tolist() == np.linalg.matrix_rank(DEFICIENT).tolist() == [2, 3]
    assert rank.dtype == np.int32
    assert by_bound.tolist() == [0, 0]


@pytest.mark.parametrize("shape", [[2, 4, 3], [None, None, None]])
def test_pseudo_inverses(session, shape):
    a = tf.placeholder(tf.float64, shape)
    b = tf.linalg.pinv(a)
    np.testing.assert_allclose(session.run(b, {a: DEFICIENT}), np.linalg.pinv(DEFICIENT), 1e-9, 1e-12)
    # d pinv(A) = -pinv(A) dA pinv(A) for square, regular A.
    square = RANDOM.randn(3, 3)
    c = tf.constant(square)
    slope = session.run(tf.gradients(tf.linalg.pinv(c), c)[0])
    inverse = np.linalg.inv(square)
    np.testing.assert_allclose(slope, -inverse.T @ np.ones((3, 3)) @ inverse.T, 1e-7)


def test_wrong_operands(session):
    with pytest.raises(TypeError, match="Input `a` must have `float`-like `dtype`"):
        tf.linalg.pinv(tf.constant([[1]]))
    with pytest.raises(ValueError, match="rank at least 2"):
        tf.linalg.matrix_rank(tf.constant([1.0]))
    a = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank"):
        session.run(tf.linalg.matrix_rank(a, validate_args=True), {a: [1.0]})


def test_normalised(session):
    x = np.float32([[3, 4], [6, 8]])
    y, size = session.run(tf.linalg.normalize(x, axis=1))
    np.testing.assert_allclose(y, [[0.6, 0.8], [0.6, 0.8]], 1e-6)
    assert size.tolist() == [[5], [10]]
    y, size = session.run(tf.linalg.normalize(x, ord=1))
    np.testing.assert_allclose(y, x / 21, 1e-6)
    assert size.shape == (1, 1)
    assert tf.linalg.global_norm is tf.global_norm
