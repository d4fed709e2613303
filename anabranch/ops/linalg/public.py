"""Public linear algebra: `tf.cholesky`, `tf.matrix_inverse`, `tf.svd`, `tf.norm` and their kin under `tf.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, public_op
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.linalg import factor, solve  # noqa: F401  (their ops are looked up below)
from anabranch.ops.linalg.rules import transposed
from anabranch.ops.math.public_reduce import all_axes, pick

public_op("Cholesky", "cholesky", "linalg.cholesky")
public_op("MatrixInverse", "matrix_inverse", "linalg.inv", arguments="input adjoint")
public_op("MatrixDeterminant", "matrix_determinant", "linalg.det")
public_op("LogMatrixDeterminant", "log_matrix_determinant", "linalg.slogdet")
public_op("MatrixSolve", "matrix_solve", "linalg.solve", arguments="matrix rhs adjoint")
public_op(
    "MatrixTriangularSolve", "matrix_triangular_solve", "linalg.triangular_solve", arguments="matrix rhs lower adjoint"
)
public_op("Qr", "qr", "linalg.qr", arguments="input full_matrices")
public_op("Lu", "linalg.lu", arguments="input output_idx_type")
public_op("MatrixExponential", "linalg.expm", arguments="input")
public_op("Cross", "cross", "linalg.cross")


@public("eye", "linalg.eye")
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Matrices with ones on the main diagonal and zeros elsewhere.

    Args:
        num_rows: an int or a scalar tensor.
        num_columns: as many as rows if None.
        batch_shape: dimensions that come first: a list of ints or an int vector.
        dtype: element type.
        name: name of the scope.

    Returns:
        ``[*batch_shape, num_rows, num_columns]``.
    """
    dtype = dtypes.as_dtype(dtype)
    with name_scope(name, "eye"):
        one, zero = (convert_to_tensor(np.array(value).astype(dtype.np), dtype) for value in (1, 0))
        batch = convert_to_tensor([] if batch_shape is None else batch_shape, dtypes.int32, name="shape")
        rows = convert_to_tensor(num_rows, dtypes.int32, name="num_rows")
        if num_columns is None:
            return build("MatrixDiag", build("Fill", _joined(batch, rows), one), name="diag")
        columns = convert_to_tensor(num_columns, dtypes.int32, name="num_columns")
        ones = build("Fill", _joined(batch, build("Minimum", rows, columns)), one)
        return build("MatrixSetDiag", build("Fill", _joined(batch, rows, columns), zero), ones)


def _joined(batch: Any, *sizes: Any) -> Any:
    return build("ConcatV2", [batch, build("Pack", list(sizes), axis=0)], 0)


@public("cholesky_solve", "linalg.cholesky_solve")
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Any:
    """``x`` with ``a @ x = rhs``, where ``chol`` is the lower factor of ``a`` that :func:`cholesky` gives."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        half = build("MatrixTriangularSolve", chol, rhs, lower=True, adjoint=False)
        return build("MatrixTriangularSolve", chol, half, lower=True, adjoint=True)


@public("matrix_solve_ls", "linalg.lstsq")
def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Any:
    """The ``x`` that minimises ``|matrix @ x - rhs|^2 + l2_regularizer |x|^2``.

    Args:
        matrix: ``[..., m, n]``.
        rhs: ``[..., m, k]``.
        l2_regularizer: weight of the squared length of the solution (ignored if not ``fast``).
        fast: solve the normal equations; else use singular values, which also serves matrices without full rank.
        name: name of the op.
    """
    return build("MatrixSolveLs", matrix, rhs, l2_regularizer, fast=fast, name=name)


@public("self_adjoint_eig", "linalg.eigh")
def self_adjoint_eig(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues ``[..., n]``, ascending, and eigenvectors, in columns, of self-adjoint matrices ``[..., n, n]``."""
    values_and_vectors = build("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return values_and_vectors.e, values_and_vectors.v


@public("self_adjoint_eigvals", "linalg.eigvalsh")
def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues ``[..., n]``, ascending, of self-adjoint matrices ``[..., n, n]``."""
    return build("SelfAdjointEigV2", tensor, compute_v=False, name=name).e


def _complex_of(tensor: Any) -> str:
    return "complex128" if tensor.dtype.base.name in ("float64", "complex128") else "complex64"


@public("linalg.eig")
def eig(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues ``[..., n]``, in no order, and eigenvectors, in columns, of square matrices ``[..., n, n]``.

    Both are complex.
    """
    tensor = convert_to_tensor(tensor, name="tensor")
    values_and_vectors = build("Eig", tensor, compute_v=True, Tout=_complex_of(tensor), name=name)
    return values_and_vectors.e, values_and_vectors.v


@public("linalg.eigvals")
def eigvals(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues ``[..., n]``, complex and in no order, of square matrices ``[..., n, n]``."""
    tensor = convert_to_tensor(tensor, name="tensor")
    return build("Eig", tensor, compute_v=False, Tout=_complex_of(tensor), name=name).e


@public("svd", "linalg.svd")
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values ``s`` (descending) and vectors ``u``, ``v`` of matrices: ``tensor = u @ diag(s) @ v^H``.

    Returns:
        ``s, u, v``; ``s`` alone without ``compute_uv``.
    """
    factors = build("Svd", tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    values = factors.s
    if values.dtype.is_complex:
        values = build("Real", values, Tout=values.dtype.real_dtype)
    return (values, factors.u, factors.v) if compute_uv else values


@public("linalg.adjoint")
def adjoint(matrix: Any, name: str | None = None) -> Any:
    """The conjugate transposes of matrices ``[..., m, n]``."""
    with name_scope(name, "adjoint", [matrix]):
        return transposed(convert_to_tensor(matrix, name="matrix"))


@public("linalg.logdet")
def logdet(matrix: Any, name: str | None = None) -> Any:
    """Logarithm of the determinants of positive definite matrices ``[..., n, n]``."""
    with name_scope(name, "logdet", [matrix]):
        diagonal = build("MatrixDiagPart", build("Cholesky", matrix))
        if diagonal.dtype.is_complex:
            diagonal = build("Real", diagonal, Tout=diagonal.dtype.real_dtype)
        total = build("Sum", build("Log", diagonal), [-1])
        return build("Mul", 2, total, name="mul")


def _magnitude(tensor: Any) -> Any:
    if tensor.dtype.is_complex:
        return build("ComplexAbs", tensor, Tout=tensor.dtype.real_dtype)
    return build("Abs", tensor)


def _refuse_axis(axis: Any) -> None:
    raise ValueError(
        "'axis' must be None, an integer, or a tuple of 2 unique integers\n"
        + errors.message(f"axis={axis!r}", "None, an int, or two different ints", "axis=(-2, -1) for matrices")
    )


def _refuse_order(order: Any, what: str, allowed: str) -> None:
    listed = f" in {allowed}" if what == "matrix" else ""
    raise ValueError(
        f"'ord' must be a supported {what} norm{listed}, got {order}\n"
        + errors.message(f"ord={order!r}", allowed, "choose one of them")
    )


@public("norm", "linalg.norm")
def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    keep_dims: Any = None,
) -> Any:
    """Norm of vectors or matrices.

    Args:
        tensor: a float or complex tensor.
        ord: ``"euclidean"`` (``"fro"`` for matrices), 1, 2, ``np.inf``, or any positive number for vectors.
        axis: None for all elements as one vector, an int for vectors, two ints for matrices.
        keepdims: keep the dimensions reduced, with length 1.
        name: name of the scope.
        keep_dims: old name of ``keepdims``.

    Returns:
        The norms; of the type of ``tensor`` for the Euclidean norm, real for the others.

    Raises:
        ValueError: an axis or order that is not among these.
    """
    keep = bool(pick("keepdims", keepdims, "keep_dims", keep_dims))
    of_matrices = isinstance(axis, (tuple, list)) and len(axis) == 2
    if of_matrices:
        axis = tuple(axis)
        if not all(isinstance(item, (int, np.integer)) for item in axis) or axis[0] == axis[1]:
            _refuse_axis(axis)
        if ord not in ("euclidean", "fro", 1, 2, np.inf):
            _refuse_order(ord, "matrix", "['euclidean', 'fro', 1, 2, inf]")
    else:
        if not (axis is None or isinstance(axis, (int, np.integer))):
            _refuse_axis(axis)
        if ord not in ("euclidean", 1, 2, np.inf) and (isinstance(ord, str) or not np.isreal(ord) or ord <= 0):
            _refuse_order(ord, "vector", "['euclidean', 1, 2, inf] or any positive number")
        axis = None if axis is None else (axis,)

    def over(value: Any) -> Any:
        return all_axes(value) if axis is None else list(axis)

    with name_scope(name, "norm", [tensor]):
        tensor = convert_to_tensor(tensor)
        if ord == 2 and of_matrices:
            result = _spectral(tensor, axis)
        elif ord in ("fro", "euclidean", 2):
            square = build("Mul", tensor, build("Conj", tensor) if tensor.dtype.is_complex else tensor, name="mul")
            result = build("Sqrt", build("Sum", square, over(square), keep_dims=True))
        else:
            result = _magnitude(tensor)
            if ord == 1:
                result = build("Sum", result, [axis[0]] if of_matrices else over(result), keep_dims=True)
                if of_matrices:
                    result = build("Max", result, [axis[1]], keep_dims=True)
            elif ord == np.inf:
                if of_matrices:
                    result = build("Sum", result, [axis[1]], keep_dims=True)
                result = build("Max", result, [axis[0]] if of_matrices else over(result), keep_dims=True)
            else:
                power = convert_to_tensor(float(ord), result.dtype.base)
                powers = build("Pow", result, power)
                total = build("Sum", powers, over(powers), keep_dims=True)
                result = build("Pow", total, convert_to_tensor(1.0 / ord, result.dtype.base))
        if keep:
            return result
        return build("Squeeze", result, squeeze_dims=list(axis) if axis is not None else [])


@public("linalg.normalize")
def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """``tensor`` over its norm, and the norm with dimensions of size 1; arguments are those of :func:`norm`."""
    with name_scope(name, "normalize", [tensor]):
        tensor = convert_to_tensor(tensor)
        size = build("Cast", norm(tensor, ord, axis, keepdims=True), DstT=tensor.dtype.base)
        return build("RealDiv", tensor, size), size


def _spectral(tensor: Any, axis: tuple[int, int]) -> Any:
    """Largest singular values, with the two dimensions kept as 1."""
    if tensor._shape is None:
        raise NotImplementedError(
            errors.message(
                "the spectral norm of a tensor of unknown rank", "a tensor of known rank", "x.set_shape([None, None])"
            )
        )
    rank = len(tensor._shape)
    pair = [item % rank for item in axis]
    order = np.array([*(i for i in range(rank) if i not in pair), *pair], np.int32)
    values = build("Svd", build("Transpose", tensor, order), compute_uv=False).s
    largest = build("ExpandDims", build("Max", values, [-1], keep_dims=True), -1)
    if largest.dtype.is_complex:
        largest = build("Real", largest, Tout=largest.dtype.real_dtype)
    return build("Transpose", largest, np.argsort(order).astype(np.int32))
