"""``tensorflow.python.ops.linalg.linear_operator_util``: checks of matrices, and products of batches that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors


def assert_no_entries_with_modulus_zero(
    x: Any, message: str | None = None, name: str = "assert_no_entries_with_modulus_zero"
) -> Any:
    """An operation that fails if an element is 0."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        return tf.assert_less(tf.constant(0, x.dtype.base_dtype.real_dtype), tf.abs(x), message=message)


def assert_zero_imag_part(x: Any, message: str | None = None, name: str = "assert_zero_imag_part") -> Any:
    """An operation that fails if an element has an imaginary part."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        if x.dtype.is_floating:
            return tf.no_op()
        return tf.assert_equal(tf.constant(0, x.dtype.base_dtype.real_dtype), tf.imag(x), message=message)


def assert_compatible_matrix_dimensions(operator: Any, x: Any) -> Any:
    """An operation that fails unless an operator can be multiplied with ``x``."""
    return tf.assert_equal(
        tf.shape(x)[-2],
        operator.domain_dimension_tensor(),
        message="Incompatible matrix dimensions.  shape[-2] of argument to be the same as this operator",
    )


def assert_is_batch_matrix(tensor: Any) -> None:
    """Raise ValueError if a tensor is known to have fewer than two dimensions."""
    if tensor.shape.ndims is not None and tensor.shape.ndims < 2:
        raise ValueError(
            f"Expected [batch] matrix to have at least two dimensions.  Found: {tensor}\n"
            + errors.message(f"a tensor of shape {tensor.shape}", "[..., m, n]", "tf.expand_dims(x, 0)")
        )


def shape_tensor(shape: Any, name: str | None = None) -> Any:
    """A shape as an integer vector."""
    empty = isinstance(shape, (tuple, list)) and not shape
    return tf.convert_to_tensor(shape, tf.int32 if empty else None, name=name)


def broadcast_matrix_batch_dims(batch_matrices: Sequence[Any], name: str | None = None) -> list[Any]:
    """Batches of matrices whose leading dimensions are broadcast against each other."""
    with tf.name_scope(name or "broadcast_matrix_batch_dims", values=batch_matrices):
        matrices = [tf.convert_to_tensor(matrix) for matrix in batch_matrices]
        for matrix in matrices:
            assert_is_batch_matrix(matrix)
        if len(matrices) < 2:
            return matrices
        known = matrices[0].shape[:-2]
        for matrix in matrices[1:]:
            known = tf.broadcast_static_shape(known, matrix.shape[:-2])
        if known.is_fully_defined():
            ones = known.concatenate([1, 1])
            return [
                matrix if matrix.shape[:-2].as_list() == known.as_list() else matrix + tf.zeros(ones, matrix.dtype)
                for matrix in matrices
            ]
        batch = tf.shape(matrices[0])[:-2]
        for matrix in matrices[1:]:
            batch = tf.broadcast_dynamic_shape(batch, tf.shape(matrix)[:-2])
        shape = tf.concat([batch, [1, 1]], 0)
        return [matrix + tf.zeros(shape, matrix.dtype) for matrix in matrices]


def cholesky_solve_with_broadcast(chol: Any, rhs: Any, name: str | None = None) -> Any:
    """``tf.cholesky_solve`` of batches that broadcast."""
    with tf.name_scope(name, "CholeskySolveWithBroadcast", [chol, rhs]):
        return tf.cholesky_solve(*broadcast_matrix_batch_dims([chol, rhs]))


def matmul_with_broadcast(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """``tf.matmul`` of batches that broadcast."""
    with tf.name_scope(name, "MatMulWithBroadcast", [a, b]):
        a, b = broadcast_matrix_batch_dims([a, b])
        return tf.matmul(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, a_is_sparse, b_is_sparse)


def matrix_solve_with_broadcast(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """``tf.matrix_solve`` of batches that broadcast."""
    with tf.name_scope(name, "MatrixSolveWithBroadcast", [matrix, rhs]):
        return tf.matrix_solve(*broadcast_matrix_batch_dims([matrix, rhs]), adjoint=adjoint)


def matrix_triangular_solve_with_broadcast(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """``tf.matrix_triangular_solve`` of batches that broadcast."""
    with tf.name_scope(name, "MatrixTriangularSolve", [matrix, rhs]):
        matrix, rhs = broadcast_matrix_batch_dims([matrix, rhs])
        return tf.matrix_triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint)
