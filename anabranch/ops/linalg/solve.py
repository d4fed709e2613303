"""Cholesky and LU factorisations, determinants, inverses and systems of equations.

Policy. NumPy's LAPACK on the host, XLA's under it; two-byte floats are computed in float32. A matrix that is exactly
singular, or not positive definite where it must be, is an error that names the op, as in TensorFlow 1; NaN in the
input is not: it gives NaN. Triangular ops read their triangle only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import DERIVED, PURE, Bool, Cost, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.linalg.rules import (
    FLOATS,
    adjoint,
    by_tier,
    each,
    finite,
    matrices,
    mm,
    multiply,
    number,
    scale_diagonal,
    solve_triangular,
    square,
    square_shape,
    times,
    transposed,
)
from anabranch.ops.shared.array_rules import dense, refuse, require
from anabranch.ops.shared.broadcast_gradients import reduce_to_shape_of


# ------------------------------------------------------------------------------------------------------------ Cholesky
def cholesky(ctx: Any, x: Any, failure: str) -> Any:
    """The lower factor; checks that the matrices are positive definite (``failure`` is the error's text)."""
    xp = ctx.xp
    if x.size == 0:
        return x
    lower = xp.tril(x)
    if ctx.host:
        factor, _ = each(np.linalg.cholesky, lower)
    else:
        factor = ctx.lax.linalg.cholesky(lower, symmetrize_input=False)
    ok = finite(xp, factor) | ~finite(xp, lower)
    ctx.check(xp.all(ok), errors.InvalidArgumentError, failure)
    return factor


class Cholesky(Op):
    """The lower triangular `L` with `L @ L^H = input`; only the lower triangle of `input`, `[..., n, n]`, is read."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY
    shape = square_shape

    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        failure = "Cholesky decomposition was not successful. The input might not be valid."
        return cholesky(ctx, matrices(ctx, x), failure).astype(x.dtype)

    def gradient(op, grad):
        # L^-H @ phi(L^H @ grad) @ L^-1, made symmetric, where phi takes the lower triangle with half of the diagonal.
        factor = op.outputs[0]
        middle = scale_diagonal(mm(factor, dense(grad), adj_x=True), 0.5)
        middle = build("MatrixBandPart", middle, np.int64(-1), np.int64(0))
        left = build("MatrixTriangularSolve", factor, middle, lower=True, adjoint=True)
        slope = build("MatrixTriangularSolve", factor, transposed(left), lower=True, adjoint=True)
        return [build("Mul", build("Add", slope, transposed(slope)), number(0.5, slope))]


class CholeskyGrad(Op):
    """The gradient of `Cholesky`, symmetric, from its output `l` and the gradient of that output."""

    signature = "l: T, grad: T -> output: T"
    attrs = {"T": Type("half float double")}
    effect = PURE
    cost = Cost.HEAVY
    gradient = DERIVED

    def shape(c):
        return shapes.merge(square(c, 0), square(c, 1))

    def kernel(ctx, inputs, attrs):
        factor, grad = (matrices(ctx, x) for x in inputs)
        xp = ctx.xp
        require(ctx, factor.shape == grad.shape, "l and grad must have the same shape")
        factor, grad = xp.tril(factor), xp.tril(grad)
        middle = xp.tril(multiply(ctx, xp.swapaxes(factor, -1, -2), grad))
        half = np.where(np.eye(factor.shape[-1], dtype=bool), 0.5, 1.0).astype(factor.dtype)
        left = solve_triangular(ctx, factor, middle * half, True, True)
        solution = solve_triangular(ctx, factor, xp.swapaxes(left, -1, -2), True, True)
        return ((solution + xp.swapaxes(solution, -1, -2)) * factor.dtype.type(0.5)).astype(inputs[0].dtype)


# ---------------------------------------------------------------------------------------------------------- LU and kin
def _factor(ctx: Any, x: Any, failure: str | None) -> tuple[Any, Any]:
    """XLA's LU factorisation and row order; checks that no pivot is zero."""
    lu, _, order = ctx.lax.linalg.lu(x)
    if failure is not None:
        pivots = ctx.xp.diagonal(lu, axis1=-2, axis2=-1)
        ctx.check(ctx.xp.all(pivots != 0), errors.InvalidArgumentError, failure)
    return lu, order


def _lu_solve(ctx: Any, lu: Any, order: Any, rhs: Any) -> Any:
    ordered = ctx.xp.take_along_axis(rhs, order[..., None], axis=-2)
    return solve_triangular(ctx, lu, solve_triangular(ctx, lu, ordered, True, False, unit=True), False, False)


def _solve(ctx: Any, a: Any, rhs: Any, failure: str) -> Any:
    if ctx.host:
        result, worked = each(np.linalg.solve, a, rhs)
        ctx.check(bool(worked.all()), errors.InvalidArgumentError, failure)
        return result
    return _lu_solve(ctx, *_factor(ctx, a, failure), rhs)


class MatrixInverse(Op):
    """The inverses of square matrices `[..., n, n]`, or of their adjoints."""

    signature = "input: T -> output: T"
    attrs = {"adjoint": Bool(False), "T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY
    shape = square_shape

    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        wide = matrices(ctx, x)
        if x.size == 0:
            return x
        if attrs["adjoint"]:
            wide = adjoint(ctx.xp, wide)
        eye = ctx.xp.broadcast_to(np.eye(x.shape[-1], dtype=wide.dtype), wide.shape)
        return _solve(ctx, wide, eye, "Input is not invertible.").astype(x.dtype)

    def gradient(op, grad):
        inverse, flag = op.outputs[0], op.get_attr("adjoint")
        inner = mm(dense(grad), inverse, adj_x=flag, adj_y=not flag)
        return [build("Neg", mm(inverse, inner, adj_x=not flag))]


def _batch_scalars(c: Any) -> Any:
    raw = square(c)
    return None if raw is None else raw[:-2]


def _against(op: Any, scalars: Any) -> Any:
    """``scalars`` per matrix times the inverse adjoint of the input."""
    inverse = build("MatrixInverse", op.inputs[0], adjoint=True)
    return build("Mul", build("ExpandDims", build("ExpandDims", scalars, -1), -1), inverse)


class MatrixDeterminant(Op):
    """The determinants of square matrices `[..., n, n]`: `[...]`."""

    signature = "input: T -> output: T"
    attrs = {"T": Type("half float double complex64 complex128")}
    effect = PURE
    cost = Cost.HEAVY
    shape = _batch_scalars

    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        wide = matrices(ctx, x)
        if x.shape[-1] == 0:
            return ctx.xp.ones(x.shape[:-2], x.dtype)
        return ctx.xp.asarray(by_tier(ctx, ctx.xp.linalg.det, wide)).astype(x.dtype)

    def gradient(op, grad):
        return [_against(op, build("Mul", dense(grad), op.outputs[0]))]


class LogMatrixDeterminant(Op):
    """Sign and logarithm of the absolute value of the determinants of square matrices: `[...]` each."""

    signature = "input: T -> sign: T, log_abs_determinant: T"
    attrs = {"T": Type("half float double complex64 complex128")}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        return [_batch_scalars(c), _batch_scalars(c)]

    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        wide = matrices(ctx, x)
        if x.shape[-1] == 0:
            return ctx.xp.ones(x.shape[:-2], x.dtype), ctx.xp.zeros(x.shape[:-2], x.dtype)
        sign, logarithm = by_tier(ctx, ctx.xp.linalg.slogdet, wide)
        return ctx.xp.asarray(sign).astype(x.dtype), ctx.xp.asarray(logarithm).astype(x.dtype)

    def gradient(op, grad_sign, grad_log):
        sign = op.outputs[0]
        if not sign.dtype.is_complex:
            # A real sign is constant wherever it has a derivative.
            return [None if grad_log is None else _against(op, dense(grad_log))]
        # With c = tr(input^-1 d input), the logarithm moves by the real part of c, the sign by i times the other.
        part = sign.dtype.real_dtype
        along = turn = None
        if grad_log is not None:
            along = build("Real", dense(grad_log), Tout=part)
        if grad_sign is not None:
            turn = build("Neg", build("Imag", build("Mul", build("Conj", dense(grad_sign)), sign), Tout=part))
        if along is None or turn is None:
            zeros = build("ZerosLike", turn if along is None else along)
            along, turn = (zeros, turn) if along is None else (along, zeros)
        return [_against(op, build("Complex", along, turn, Tout=sign.dtype.base))]


class Lu(Op):
    """`lu`, the unit lower and the upper factor in one matrix, and `p`, the order of rows: `input[p] = L @ U`."""

    signature = "input: T -> lu: T, p: output_idx_type"
    attrs = {"T": Type(FLOATS), "output_idx_type": Type("int32 int64", "int32")}
    effect = PURE
    cost = Cost.HEAVY
    gradient = DERIVED

    def shape(c):
        raw = square(c)
        return [raw, None if raw is None else raw[:-1]]

    @uses_lax
    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        wide = matrices(ctx, x)
        if x.size == 0:
            return x, ctx.xp.zeros(x.shape[:-1], attrs["output_idx_type"].np)
        lu, order = _factor(ctx, wide, "Input is not invertible.")
        return lu.astype(x.dtype), order.astype(attrs["output_idx_type"].np)


# -------------------------------------------------------------------------------------------------------------- systems
def _system_shape(c: Any, broadcasts: bool) -> Any:
    a = square(c)
    rhs = c.with_rank_at_least(1, 2)
    if a is None or rhs is None:
        return None
    if a[-1] is not None and rhs[-2] is not None and a[-1] != rhs[-2]:
        refuse(
            c,
            f"matrices of shape {shapes.show(a)} and right-hand sides of shape {shapes.show(rhs)}",
            "right-hand sides with as many rows as the matrices",
            "tf.expand_dims(rhs, -1) if it is a vector",
            f"Dimensions must be equal, but are {a[-1]} and {rhs[-2]}",
        )
    batch = shapes.broadcast(a[:-2], rhs[:-2]) if broadcasts else shapes.merge(a[:-2], rhs[:-2])
    return times(batch, a[-1] if rhs[-2] is None else rhs[-2], rhs[-1])


def _check_system(ctx: Any, a: Any, rhs: Any, broadcasts: bool = False) -> None:
    require(ctx, rhs.ndim >= 2, f"Input tensor rhs must have rank >= 2, got {rhs.ndim}")
    both_shapes = f"{shapes.show(a.shape)} and {shapes.show(rhs.shape)}"
    require(ctx, a.shape[-2] == rhs.shape[-2], f"Input matrix and rhs are incompatible: {both_shapes}")
    require(
        ctx, broadcasts or a.shape[:-2] == rhs.shape[:-2], f"Batch dimensions of matrix and rhs differ: {both_shapes}"
    )


class MatrixSolve(Op):
    """`x` with `matrix @ x = rhs` (or `matrix^H @ x = rhs`): `[..., n, n]` and `[..., n, k]` give `[..., n, k]`."""

    signature = "matrix: T, rhs: T -> output: T"
    attrs = {"adjoint": Bool(False), "T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        return _system_shape(c, False)

    def kernel(ctx, inputs, attrs):
        a, rhs = inputs
        wide = matrices(ctx, a)
        _check_system(ctx, a, rhs)
        if rhs.size == 0 or a.size == 0:
            return rhs
        if attrs["adjoint"]:
            wide = adjoint(ctx.xp, wide)
        return _solve(ctx, wide, rhs.astype(wide.dtype), "Input matrix is not invertible.").astype(a.dtype)

    def gradient(op, grad):
        flag, solution = op.get_attr("adjoint"), op.outputs[0]
        grad_rhs = build("MatrixSolve", op.inputs[0], dense(grad), adjoint=not flag)
        pair = (solution, grad_rhs) if flag else (grad_rhs, solution)
        return [build("Neg", mm(*pair, adj_y=True)), grad_rhs]


class MatrixTriangularSolve(Op):
    """`x` with `matrix @ x = rhs` (or the adjoint's), where one triangle of `matrix` counts; batches broadcast."""

    signature = "matrix: T, rhs: T -> output: T"
    attrs = {"lower": Bool(True), "adjoint": Bool(False), "T": Type("bfloat16 " + FLOATS)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        return _system_shape(c, True)

    def kernel(ctx, inputs, attrs):
        a, rhs = inputs
        wide = matrices(ctx, a)
        _check_system(ctx, a, rhs, broadcasts=True)
        try:
            batch = np.broadcast_shapes(a.shape[:-2], rhs.shape[:-2])
        except ValueError:
            require(
                ctx,
                False,
                f"Batch dimensions of matrix and rhs differ: {shapes.show(a.shape)} and {shapes.show(rhs.shape)}",
            )
        xp = ctx.xp
        wide = xp.broadcast_to(wide, batch + a.shape[-2:])
        right = xp.broadcast_to(rhs.astype(wide.dtype), batch + rhs.shape[-2:])
        if right.size == 0:
            return xp.zeros(right.shape, a.dtype)
        pivots = xp.all(xp.diagonal(wide, axis1=-2, axis2=-1) != 0)
        ctx.check(pivots, errors.InvalidArgumentError, "Input matrix is not invertible.")
        return solve_triangular(ctx, wide, right, attrs["lower"], attrs["adjoint"]).astype(a.dtype)

    def gradient(op, grad):
        a, rhs = op.inputs
        lower, flag, solution = op.get_attr("lower"), op.get_attr("adjoint"), op.outputs[0]
        grad_rhs = build("MatrixTriangularSolve", a, dense(grad), lower=lower, adjoint=not flag)
        pair = (solution, grad_rhs) if flag else (grad_rhs, solution)
        full = build("Neg", mm(*pair, adj_y=True))
        below, above = (-1, 0) if lower else (0, -1)
        grad_a = build("MatrixBandPart", full, np.int64(below), np.int64(above))
        return [reduce_to_shape_of(grad_a, a), reduce_to_shape_of(grad_rhs, rhs)]


# ------------------------------------------------------------------------------------------------------- least squares
def _normal_equations(ctx: Any, a: Any, rhs: Any, ridge: Any) -> Any:
    """``argmin |a @ x - rhs|^2 + ridge |x|^2``, or the shortest solution where there are fewer equations than
    unknowns.
    """
    xp = ctx.xp
    rows, columns = a.shape[-2:]
    conjugate = adjoint(xp, a)
    gram = multiply(ctx, conjugate, a) if rows >= columns else multiply(ctx, a, conjugate)
    gram = gram + np.eye(min(rows, columns), dtype=a.dtype) * ridge
    failure = (
        "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger "
        "l2_regularizer > 0."
    )
    factor = cholesky(ctx, gram, failure)
    right = multiply(ctx, conjugate, rhs) if rows >= columns else rhs
    solution = solve_triangular(ctx, factor, solve_triangular(ctx, factor, right, True, False), True, True)
    return solution if rows >= columns else multiply(ctx, conjugate, solution)


def _shortest_solution(ctx: Any, a: Any, rhs: Any) -> Any:
    """The least squares solution of least norm, through the singular values."""
    xp = ctx.xp
    u, s, vh = by_tier(ctx, xp.linalg.svd, a, full_matrices=False)
    limit = np.finfo(s.dtype).eps * max(a.shape[-2:]) * xp.max(s, axis=-1, keepdims=True)
    inverse = xp.where(s > limit, 1 / xp.where(s > limit, s, s.dtype.type(1)), s.dtype.type(0))
    return multiply(ctx, adjoint(xp, vh), inverse[..., None] * multiply(ctx, adjoint(xp, u), rhs))


class MatrixSolveLs(Op):
    """Least squares: `x` that minimises `|matrix @ x - rhs|^2 + l2_regularizer |x|^2`, `[..., m, n]` and `[..., m, k]`.

    With `fast` by the normal equations; without, the shortest minimiser by singular values, and no regularisation, as
    TensorFlow has it.
    """

    signature = "matrix: T, rhs: T, l2_regularizer: double -> output: T"
    attrs = {"T": Type(FLOATS), "fast": Bool(True)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        a, rhs = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 2)
        c.with_rank(2, 0)
        if a is None or rhs is None:
            return None
        if a[-2] is not None and rhs[-2] is not None and a[-2] != rhs[-2]:
            refuse(
                c,
                f"matrices of shape {shapes.show(a)} and right-hand sides of shape {shapes.show(rhs)}",
                "right-hand sides with as many rows as the matrices",
                "tf.expand_dims(rhs, -1) if it is a vector",
                f"Dimensions must be equal, but are {a[-2]} and {rhs[-2]}",
            )
        return times(shapes.merge(a[:-2], rhs[:-2]), a[-1], rhs[-1])

    def kernel(ctx, inputs, attrs):
        a, rhs, ridge = inputs
        wide = matrices(ctx, a, need_square=False)
        _check_system(ctx, a, rhs)
        rows, columns = a.shape[-2:]
        if rows == 0 or columns == 0 or rhs.size == 0 or a.size == 0:
            return ctx.xp.zeros((*a.shape[:-2], columns, rhs.shape[-1]), a.dtype)
        right = rhs.astype(wide.dtype)
        if not attrs["fast"]:
            return _shortest_solution(ctx, wide, right).astype(a.dtype)
        ctx.check(ridge >= 0, errors.InvalidArgumentError, "l2_regularizer must be >= 0.")
        return _normal_equations(ctx, wide, right, ctx.xp.asarray(ridge).astype(wide.dtype)).astype(a.dtype)

    def gradient(op, grad):
        a, rhs, ridge = op.inputs
        raw = a._shape
        if raw is None or None in raw[-2:]:
            raise NotImplementedError(
                errors.message(
                    f"the gradient of MatrixSolveLs for matrices of shape {shapes.show(raw)}",
                    "known numbers of rows and columns",
                    "matrix.set_shape([..., rows, columns])",
                )
            )
        solution, grad = op.outputs[0], dense(grad)
        more_rows = raw[-2] >= raw[-1]
        gram = mm(a, a, adj_x=more_rows, adj_y=not more_rows)
        shift = build("Cast", ridge, DstT=a.dtype.base)
        shifted = build("Add", build("MatrixDiagPart", gram), shift)
        factor = build("Cholesky", build("MatrixSetDiag", gram, shifted))

        def solve(right):
            half = build("MatrixTriangularSolve", factor, right, lower=True, adjoint=False)
            return build("MatrixTriangularSolve", factor, half, lower=True, adjoint=True)

        if more_rows:
            z = solve(grad)
            cross = mm(solution, z, adj_y=True)
            both = mm(a, build("Add", cross, transposed(cross)))
            return [build("Sub", mm(rhs, z, adj_y=True), both), mm(a, z), None]
        z, w = solve(mm(a, grad)), solve(rhs)
        fit = build("Sub", mm(w, grad, adj_y=True), mm(z, solution, adj_y=True))
        return [build("Sub", fit, mm(mm(w, z, adj_y=True), a)), z, None]
