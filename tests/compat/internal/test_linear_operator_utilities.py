"""Batches of matrices that broadcast, and classes of programs that derive from ``LinearOperator``."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal.linear_operators import utilities

RANDOM = np.random.RandomState(0)
A = RANDOM.rand(2, 1, 3, 3).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
B = RANDOM.rand(4, 3, 2).astype(np.float32)


class Wrapped(tf.linalg.LinearOperator):
    """An operator that says what TensorFlow asks of a class: shape, product."""

    def __init__(self, matrix, **hints):
        self._matrix = tf.convert_to_tensor(matrix)
        super().__init__(dtype=self._matrix.dtype, **hints)

    def _shape(self):
        return self._matrix.shape

    def _shape_tensor(self):
        return tf.shape(self._matrix)

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        return tf.matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)


@pytest.mark.parametrize("known", [True, False])
def test_batches_broadcast(known) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.constant(A) if known else tf.placeholder(tf.float32)
        b = tf.constant(B) if known else tf.placeholder(tf.float32)
        feeds = {} if known else {a: A, b: B}

        def run(value):
            return session.run(value, feeds)

        np.testing.assert_allclose(run(utilities.matmul_with_broadcast(a, b)), A @ B, rtol=1e-5)
        np.testing.assert_allclose(
            run(utilities.matrix_solve_with_broadcast(a, b)), np.linalg.inv(A) @ B, rtol=1e-4, atol=1e-6
        )
        lower = run(utilities.matrix_triangular_solve_with_broadcast(a, b))
        np.testing.assert_allclose(np.tril(A) @ lower, np.broadcast_to(B, lower.shape), rtol=1e-4, atol=1e-6)
        chol = np.linalg.cholesky(A @ A.swapaxes(-1, -2))
        solved = run(utilities.cholesky_solve_with_broadcast(tf.constant(chol), b))
        product = chol @ chol.swapaxes(-1, -2) @ solved
        np.testing.assert_allclose(product, np.broadcast_to(B, solved.shape), rtol=1e-3, atol=1e-5)


def test_checks() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.complex64, [None])
        nonzero = utilities.assert_no_entries_with_modulus_zero(x, "zero")
        real = utilities.assert_zero_imag_part(x, "imaginary")
        session.run([nonzero, real], {x: [1, -2]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="zero"):
            session.run(nonzero, {x: [1, 0]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="imaginary"):
            session.run(real, {x: [1j]})
        with pytest.raises(ValueError, match=r"Expected \[batch\] matrix to have at least two dimensions"):
            utilities.assert_is_batch_matrix(tf.zeros([3]))
        assert utilities.shape_tensor([]).dtype == tf.int32
        fits = utilities.assert_compatible_matrix_dimensions(Wrapped(np.eye(3)), tf.zeros([3, 2]))
        session.run(fits)


def test_classes_of_programs() -> None:
    matrix = RANDOM.rand(2, 3, 3).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        operator = Wrapped(matrix)
        assert operator.shape.as_list() == [2, 3, 3]
        assert operator.is_square
        np.testing.assert_allclose(session.run(operator.to_dense()), matrix)
        rhs = np.ones([2, 3, 1], np.float32)
        np.testing.assert_allclose(session.run(operator.solve(rhs)), np.linalg.solve(matrix, rhs), rtol=1e-4)
        np.testing.assert_allclose(session.run(operator.determinant()), np.linalg.det(matrix), rtol=1e-4)
        assert session.run(operator.shape_tensor()).tolist() == [2, 3, 3]
        with pytest.raises(ValueError, match="is_square=False was given, but the operator was square"):
            _ = Wrapped(matrix, is_square=False).is_square
        with pytest.raises(ValueError, match="is always square"):
            Wrapped(matrix, is_square=False, is_non_singular=True)
        with pytest.raises(NotImplementedError, match="to not be square"):
            Wrapped(np.ones([2, 3], np.float32)).determinant()


def test_starts_of_gradients_with_as_many_elements() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        (slope,) = tf.gradients(x * x, x, grad_ys=[[1.0, 1.0, 2.0, 2.0]])
        assert session.run(slope).tolist() == [[2, 4], [12, 16]]
        with pytest.raises(ValueError, match="are incompatible"):
            tf.gradients(x * x, x, grad_ys=[[1.0, 1.0, 2.0]])
