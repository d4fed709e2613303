"""What the families of linear algebra share: precision, shape rules, small graphs of gradient rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.array_rules import refuse, require
from anabranch.ops.shared.widening import widen

FLOATS = "double float half complex64 complex128"


# --------------------------------------------------------------------------------------------------------- shape rules
def square(c: Any, operand: int = 0) -> Any:
    """The shape of an operand that must hold square matrices."""
    raw = c.with_rank_at_least(operand, 2)
    if raw is None:
        return None
    rows, columns = raw[-2:]
    if rows is not None and columns is not None and rows != columns:
        refuse(
            c,
            f"matrices of shape {shapes.show(raw)}",
            "square matrices [..., n, n]",
            "tf.matrix_solve_ls, tf.svd or tf.qr for others",
            f"Dimensions must be equal, but are {rows} and {columns}",
        )
    side = columns if rows is None else rows
    return (*raw[:-2], side, side)


def square_shape(c: Any) -> Any:
    """Shape rule: the output has the shape of input 0, which holds square matrices."""
    return square(c)


def times(batch: Any, *inner: Any) -> Any:
    """A batch shape followed by dimensions; None if the batch is unknown."""
    return None if batch is None else (*batch, *inner)


# ------------------------------------------------------------------------------------------------------------- kernels
def matrices(ctx: Any, x: Any, what: str = "Input", need_square: bool = True) -> Any:
    """``x`` widened, after checks that it holds (square) matrices."""
    require(ctx, x.ndim >= 2, f"{what} tensor must have rank >= 2, got {x.ndim}")
    dims = list(x.shape)
    require(ctx, not need_square or x.shape[-1] == x.shape[-2], f"{what} matrix must be square. Its shape is {dims}")
    return widen(x)


def adjoint(xp: Any, x: Any) -> Any:
    """The conjugate transposes of matrices."""
    swapped = xp.swapaxes(x, -1, -2)
    return xp.conj(swapped) if x.dtype.kind == "c" else swapped


def multiply(ctx: Any, a: Any, b: Any) -> Any:
    """``a @ b`` in full precision: accelerators that round float32 factors would spoil a factorisation."""
    return host_blas.product(a, b) if ctx.host else ctx.xp.matmul(a, b, precision="highest")


def finite(xp: Any, x: Any) -> Any:
    """Per matrix: whether no element is NaN or infinite."""
    return xp.all(xp.isfinite(x), axis=(-2, -1))


SMALL_MATRIX = 900
"""Elements of a matrix below which LAPACK's routines take one thread anyway."""


def _work(_: Any, *arrays: np.ndarray, **__: Any) -> int:
    """Multiplications for one matrix, of the largest array."""
    most = max(array.shape[-2] * array.shape[-1] if array.ndim > 1 else 1 for array in arrays)
    return int(most**1.5) if most >= SMALL_MATRIX else 0


@host_blas.on_one_thread(_work)
def routine(function: Any, *arrays: np.ndarray, **settings: Any) -> Any:
    """``function(*arrays, **settings)``, a routine of ``np.linalg``, on one thread.

    A solution of 100 equations takes 0.25 ms so; between two threads that wait for each other in a loop it took 87
    where other processes wanted the cores, singular values of a 50x50 matrix 0.4 and 44.
    """
    return function(*arrays, **settings)


def by_tier(ctx: Any, function: Any, *arrays: Any, **settings: Any) -> Any:
    """The same, where ``function`` is a routine of ``ctx.xp.linalg``."""
    return routine(function, *arrays, **settings) if ctx.host else function(*arrays, **settings)


def each(function: Any, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Run a NumPy routine on a batch, matrix by matrix if one of them makes it fail.

    Returns the results (NaN for the matrices that failed) and, per matrix, whether it worked.
    """
    batch = arrays[0].shape[:-2]
    try:
        return routine(function, *arrays), np.ones(batch, bool)
    except np.linalg.LinAlgError:
        pass  # some matrix of the batch: find out which
    worked = np.ones(batch, bool)
    results: dict[tuple[int, ...], np.ndarray] = {}
    for index in np.ndindex(*batch):
        try:
            results[index] = routine(function, *(array[index] for array in arrays))
        except np.linalg.LinAlgError:
            worked[index] = False
    inner = arrays[-1].shape[-2:]
    out = np.full(batch + inner, np.nan, arrays[0].dtype)
    for index, result in results.items():
        out[index] = result
    return out, worked


def solve_triangular(ctx: Any, a: Any, b: Any, lower: bool, adjoint_a: bool, unit: bool = False) -> Any:
    """``x`` with ``a @ x = b`` (or ``a^H @ x = b``) for triangular ``a``; zeros on the diagonal give infinities or
    NaN.
    """
    if not ctx.host:
        return ctx.lax.linalg.triangular_solve(
            a, b, left_side=True, lower=lower, transpose_a=adjoint_a, conjugate_a=adjoint_a, unit_diagonal=unit
        )
    if adjoint_a:
        a, lower = adjoint(np, a), not lower
    return routine(_substituted, a, b, lower=lower, unit=unit)


def _substituted(a: np.ndarray, b: np.ndarray, *, lower: bool, unit: bool) -> np.ndarray:
    """The solution row by row, each from those before it."""
    x = b.copy()
    size = a.shape[-1]
    for i in range(size) if lower else range(size - 1, -1, -1):
        done = slice(0, i) if lower else slice(i + 1, size)
        x[..., i, :] -= np.matmul(a[..., i : i + 1, done], x[..., done, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


# ----------------------------------------------------------------------------------------------------------- gradients
def mm(a: Any, b: Any, adj_x: bool = False, adj_y: bool = False) -> Any:
    """A (batch) matrix product in the graph."""
    plain = all(x._shape is not None and len(x._shape) == 2 for x in (a, b)) and not a.dtype.is_complex
    if plain:
        return build("MatMul", a, b, transpose_a=adj_x, transpose_b=adj_y)
    return build("BatchMatMulV2", a, b, adj_x=adj_x, adj_y=adj_y)


def transposed(x: Any, conjugate: bool = True) -> Any:
    """The (conjugate) transposes of matrices in the graph."""
    raw = x._shape
    if raw is not None:
        order: Any = np.array([*range(len(raw) - 2), len(raw) - 1, len(raw) - 2], np.int32)
    else:
        rank = build("Rank", x)
        last = build("Sub", rank, np.array([1, 2], np.int32))
        order = build("ConcatV2", [build("Range", 0, build("Sub", rank, 2), 1), last], 0)
    if conjugate and x.dtype.is_complex:
        x = build("Conj", x)
    return build("Transpose", x, order)


def scale_diagonal(x: Any, factor: float) -> Any:
    """``x`` with its main diagonal multiplied by ``factor``."""
    part = build("MatrixDiagPart", x)
    return build("MatrixSetDiag", x, build("Mul", part, number(factor, x)))


def number(value: float, like_tensor: Any) -> Any:
    """A scalar constant of the dtype of a tensor."""
    return np.array(value, like_tensor.dtype.base.np)
