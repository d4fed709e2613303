"""Triangular and tridiagonal matrices of ``tf.contrib.distributions``, sums of weighted exponentials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def run(x: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(x, feeds)


def spiral(x: np.ndarray, upper: bool) -> np.ndarray:
    """Elements in a clockwise spiral, one by one: the rows of a lower matrix from the last, half by half."""
    size = int(np.sqrt(2 * x.shape[-1]))
    parts = [x, x[..., size:][..., ::-1]] if upper else [x[..., size:], x[..., ::-1]]
    square = np.concatenate(parts, -1).reshape(*x.shape[:-1], size, size)
    return np.triu(square) if upper else np.tril(square)


@pytest.mark.parametrize("shape", [(1,), (3,), (6,), (10,), (2, 28), (4, 2, 3), (2, 0, 6)])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_triangles_and_back(shape: Any, upper: bool, known: bool) -> None:
    values = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    x = tf.placeholder(tf.float32, shape if known else None)
    matrix = tf.contrib.distributions.fill_triangular(x, upper=upper)
    again = tf.contrib.distributions.fill_triangular_inverse(matrix, upper=upper)
    size = int(np.sqrt(2 * shape[-1]))
    if known:
        assert matrix.shape == (*shape[:-1], size, size)
        assert again.shape == shape
    got, back = run([matrix, again], {x: values})
    np.testing.assert_array_equal(got, spiral(values, upper))
    np.testing.assert_array_equal(back, values)


def test_sizes_that_are_not_triangles_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Input right-most shape \(5\) does not correspond to a triangular matrix"):
        tf.contrib.distributions.fill_triangular(tf.zeros([2, 5]))


def test_tridiagonal() -> None:
    x = tf.contrib.distributions.tridiag(below=[1.0, 2.0, 3.0], diag=[4.0, 5.0, 6.0, 7.0], above=[8.0, 9.0, 10.0])
    np.testing.assert_array_equal(run(x), np.diag([4, 5, 6, 7]) + np.diag([1, 2, 3], -1) + np.diag([8, 9, 10], 1))
    alone = tf.contrib.distributions.tridiag(above=np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(run(alone), [np.diag([1, 1], 1)] * 2)
    with pytest.raises(ValueError, match="Must specify at least one of `below`, `diag`, `above`"):
        tf.contrib.distributions.tridiag()


def test_diagonals_are_transformed() -> None:
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    changed = run(tf.contrib.distributions.matrix_diag_transform(x, transform=lambda d: d + 100))
    np.testing.assert_array_equal(changed, x + 100 * np.eye(3))


@pytest.mark.parametrize("axis", [None, 0, 1, [0, 1]])
@pytest.mark.parametrize("keep", [False, True])
def test_weighted_sums_do_not_overflow(axis: Any, keep: bool) -> None:
    logx = np.array([[1000.0, 999.0, 998.0], [997.0, 1000.0, -np.inf]])
    w = np.array([[-1.0, 2.0, 1.0], [1.0, -3.0, 5.0]])
    value, sign = run(
        tf.contrib.distributions.reduce_weighted_logsumexp(logx, w, axis=axis, keep_dims=keep, return_sign=True)
    )
    axes = tuple(axis) if isinstance(axis, list) else axis
    total = np.sum(w * np.exp(logx - 1000), axis=axes, keepdims=keep)
    np.testing.assert_allclose(value, 1000 + np.log(np.abs(total)), rtol=1e-12)
    np.testing.assert_array_equal(sign, np.sign(total))


def test_sums_of_nothing_are_minus_infinity_and_without_weights_positive() -> None:
    value, sign = run(tf.contrib.distributions.reduce_weighted_logsumexp([-np.inf, 0.0], axis=0, return_sign=True))
    assert (value, sign) == (0.0, 1.0)
    assert run(tf.contrib.distributions.reduce_weighted_logsumexp([-np.inf, -np.inf], [1.0, 2.0])) == -np.inf
