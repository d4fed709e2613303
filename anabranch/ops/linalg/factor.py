"""Eigenvalues, singular values, QR, the matrix exponential, and the vector product.

Policy. NumPy's LAPACK on the host, XLA's under it. Signs (phases) of eigenvectors, singular vectors and rows of `R`
are those of the routine that ran: what they are multiplied by is the same everywhere. Gradients assume distinct
eigenvalues and singular values, as TensorFlow's do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, Bool, Cost, Op, Type
from anabranch.core.graph.build import build, build_operation
from anabranch.core.values import shapes
from anabranch.ops.linalg.rules import (
    FLOATS,
    adjoint,
    by_tier,
    finite,
    matrices,
    mm,
    multiply,
    routine,
    scale_diagonal,
    square,
    square_shape,
    transposed,
)
from anabranch.ops.shared.array_rules import dense, refuse


def _smaller(rows: int | None, columns: int | None) -> int | None:
    if rows is None or columns is None:
        return 0 if 0 in (rows, columns) else None
    return min(rows, columns)


def _diagonal(vector: Any) -> Any:
    return build("MatrixDiag", vector)


def _or_zeros(grad: Any, like_tensor: Any) -> Any:
    return build("ZerosLike", like_tensor) if grad is None else dense(grad)


def _reciprocal_gaps(values: Any) -> Any:
    """``1 / (values[j] - values[i])``, and 0 on the diagonal and where two values are equal."""
    gaps = build("Sub", build("ExpandDims", values, -2), build("ExpandDims", values, -1))
    # The diagonal is set to 1 before the division, so that no infinity is made that a second derivative would meet.
    safe = build("MatrixSetDiag", gaps, build("OnesLike", values))
    return build("MatrixSetDiag", _safe_reciprocal(safe), build("ZerosLike", values))


def _safe_reciprocal(x: Any) -> Any:
    """``1 / x``, and 0 at 0, as TensorFlow 2 has it: ``x / (x ** 2 + 1e-20)``."""
    return build("DivNoNan", x, build("AddV2", build("Square", x), 1e-20))


# --------------------------------------------------------------------------------------------------------- eigenvalues
class SelfAdjointEigV2(Op):
    """Eigenvalues `e`, ascending, and eigenvectors `v`, in columns, of self-adjoint matrices, of which the lower
    triangle is read.

    Without `compute_v` the output `v` is empty.
    """

    signature = "input: T -> e: T, v: T"
    attrs = {"compute_v": Bool(True), "T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        raw = square(c)
        vectors = raw if c.attrs["compute_v"] else (0,)
        return [None if raw is None else raw[:-1], vectors]

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _eigen(ctx, inputs[0], attrs["compute_v"])

    def host_kernel(ctx, inputs, attrs):
        return _eigen(ctx, inputs[0], attrs["compute_v"])

    def gradient(op, grad_e, grad_v):
        if op.get_attr("compute_v"):
            values, vectors = op.outputs
        else:
            values, vectors = build("SelfAdjointEigV2", op.inputs[0], compute_v=True)
        middle = None if grad_e is None else _diagonal(dense(grad_e))
        if op.get_attr("compute_v") and grad_v is not None:
            turn = build("Mul", _reciprocal_gaps(values), mm(vectors, dense(grad_v), adj_x=True))
            middle = turn if middle is None else build("Add", middle, turn)
        slope = mm(vectors, mm(middle, vectors, adj_y=True))
        # Only the lower triangle is read: fold the upper one onto it.
        folded = build("MatrixBandPart", build("Add", slope, transposed(slope)), np.int64(-1), np.int64(0))
        return [scale_diagonal(folded, 0.5)]


class Eig(Op):
    """Eigenvalues `e`, in no order, and eigenvectors `v`, in columns and of length 1, of square matrices.

    They are complex. Without `compute_v` the output `v` is empty. Computed on the host.
    """

    signature = "input: T -> e: Tout, v: Tout"
    attrs = {
        "compute_v": Bool(True),
        "T": Type("float double complex64 complex128"),
        "Tout": Type("complex64 complex128"),
    }
    effect = PURE
    cost = Cost.HEAVY
    kernel = None

    def shape(c):
        raw = square(c)
        vectors = raw if c.attrs["compute_v"] else (0,)
        return [None if raw is None else raw[:-1], vectors]

    def host_kernel(ctx, inputs, attrs):
        x, kind = inputs[0], attrs["Tout"].np
        ctx.check(np.isfinite(x).all(), errors.InvalidArgumentError, "Eigen decomposition was not successful.")
        x = np.where(np.isfinite(x), x, 0)
        if not attrs["compute_v"]:
            return routine(np.linalg.eigvals, x).astype(kind), np.zeros((0,), kind)
        values, vectors = routine(np.linalg.eig, x)
        return values.astype(kind), vectors.astype(kind)

    def gradient(op, grad_e, grad_v):
        kind = op.get_attr("Tout")
        if op.get_attr("compute_v"):
            values, vectors = op.outputs
        else:
            values, vectors = build("Eig", op.inputs[0], compute_v=True, Tout=kind)
        middle = None if grad_e is None else _diagonal(dense(grad_e))
        if op.get_attr("compute_v") and grad_v is not None:
            turned = mm(vectors, dense(grad_v), adj_x=True)
            # A vector's length is kept at 1, and its phase is free: what would change them is taken out.
            along = build("Cast", build("Real", build("MatrixDiagPart", turned), Tout=_real_of(kind)), DstT=kind)
            kept = mm(vectors, build("Mul", vectors, build("ExpandDims", along, -2)), adj_x=True)
            turn = build("Mul", build("Conj", _reciprocal_gaps(values)), build("Sub", turned, kept))
            middle = turn if middle is None else build("Add", middle, turn)
        slope = build("MatrixSolve", vectors, mm(middle, vectors, adj_y=True), adjoint=True)
        return [slope if op.inputs[0].dtype.base == slope.dtype.base else build("Cast", slope, DstT=op.get_attr("T"))]


def _real_of(kind: Any) -> str:
    return "double" if kind.name == "complex128" else "float"


class SelfAdjointEig(Op):
    """Eigenvalues and eigenvectors as one array ``[..., n + 1, n]``: the form of GraphDefs before version 11.

    Its first row holds the eigenvalues, ascending, and below them stand the eigenvectors, in columns.
    """

    signature = "input: T -> output: T"
    attrs = {"T": Type("double float half")}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        raw = square(c)
        return None if raw is None else (*raw[:-2], None if raw[-1] is None else raw[-1] + 1, raw[-1])

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _stacked(ctx, inputs[0])

    def host_kernel(ctx, inputs, attrs):
        return _stacked(ctx, inputs[0])

    def gradient(op, grad):
        eigen = build_operation("SelfAdjointEigV2", (op.inputs[0],), {"compute_v": True})
        first = build("Squeeze", grad[..., :1, :], squeeze_dims=[-2])
        return SelfAdjointEigV2.definition.gradient(eigen, first, grad[..., 1:, :])


def _stacked(ctx: Any, x: Any) -> Any:
    e, v = _eigen(ctx, x, True)
    return ctx.xp.concatenate([e[..., None, :], v], axis=-2)


def _eigen(ctx: Any, x: Any, vectors: bool) -> Any:
    xp = ctx.xp
    wide = matrices(ctx, x)
    if x.size == 0:
        return xp.zeros(x.shape[:-1], x.dtype), x if vectors else xp.zeros((0,), x.dtype)
    if ctx.host:
        # LAPACK's loop does not end well on NaN, and NumPy refuses it: such matrices give NaN.
        good = finite(np, wide)
        safe = np.where(good[..., None, None], wide, np.zeros((), wide.dtype))
        e, v = routine(np.linalg.eigh, safe)
        e, v = np.where(good[..., None], e, np.nan), np.where(good[..., None, None], v, np.nan)
    else:
        v, e = ctx.lax.linalg.eigh(wide, lower=True, symmetrize_input=False)
    empty = xp.zeros((0,), x.dtype)
    return xp.asarray(e).astype(x.dtype), xp.asarray(v).astype(x.dtype) if vectors else empty


# ------------------------------------------------------------------------------------------------------------------ QR
class Qr(Op):
    """`q`, with orthonormal columns, and the upper triangular `r` with `q @ r = input`, `[..., m, n]`."""

    signature = "input: T -> q: T, r: T"
    attrs = {"full_matrices": Bool(False), "T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        raw = c.with_rank_at_least(0, 2)
        if raw is None:
            return [None, None]
        inner = raw[-2] if c.attrs["full_matrices"] else _smaller(*raw[-2:])
        return [(*raw[:-1], inner), (*raw[:-2], inner, raw[-1])]

    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        wide = matrices(ctx, x, need_square=False)
        q, r = by_tier(ctx, ctx.xp.linalg.qr, wide, mode="complete" if attrs["full_matrices"] else "reduced")
        return q.astype(x.dtype), r.astype(x.dtype)

    def gradient(op, grad_q, grad_r):
        q, r = op.outputs
        if r._shape is None or None in r._shape[-2:] or q._shape is None or None in q._shape[-2:]:
            raise NotImplementedError(
                errors.message(
                    "QrGrad not implemented with dynamic shapes: " + shapes.show(op.inputs[0]._shape),
                    "known numbers of rows and columns",
                    "x.set_shape([..., rows, columns])",
                )
            )
        rows, columns = r._shape[-2:]
        if rows > columns:
            raise NotImplementedError(
                errors.message(
                    "QrGrad not implemented when nrows > ncols and full_matrices is true",
                    "the reduced factorisation",
                    "tf.qr(x, full_matrices=False)",
                )
            )
        grad_q, grad_r = _or_zeros(grad_q, q), _or_zeros(grad_r, r)
        if rows == columns:
            return [_deep_qr_gradient(q, r, grad_q, grad_r)]
        # A wide matrix is [x, y] with r = [u, v]: x = q @ u is square, and v = q^H @ y.
        y = _columns(op.inputs[0], rows, None)
        grad_v = _columns(grad_r, rows, None)
        grad_square = build("Add", grad_q, mm(y, grad_v, adj_y=True))
        left = _deep_qr_gradient(q, _columns(r, 0, rows), grad_square, _columns(grad_r, 0, rows))
        return [build("ConcatV2", [left, mm(q, grad_v)], -1)]


def _columns(x: Any, start: int, stop: int | None) -> Any:
    """``x[..., start:stop]``."""
    bounds = [0, start], [0, stop or 0], [1, 1]
    return build("StridedSlice", x, *bounds, ellipsis_mask=1, end_mask=2 if stop is None else 0)


def _times_inverse_adjoint(x: Any, r: Any) -> Any:
    """``x @ r^-H`` for upper triangular ``r``."""
    return transposed(build("MatrixTriangularSolve", r, transposed(x), lower=False, adjoint=False))


def _deep_qr_gradient(q: Any, r: Any, grad_q: Any, grad_r: Any) -> Any:
    """The gradient for matrices with at least as many rows as columns."""
    qdq = mm(q, grad_q, adj_x=True)
    rdr = mm(r, grad_r, adj_y=True)
    skew = build("Add", build("Sub", qdq, transposed(qdq)), build("Sub", rdr, transposed(rdr)))
    lower = build("MatrixBandPart", skew, np.int64(-1), np.int64(0))
    slope = mm(q, build("Add", grad_r, _times_inverse_adjoint(lower, r)))
    slope = build("Add", slope, _times_inverse_adjoint(build("Sub", grad_q, mm(q, qdq)), r))
    if q.dtype.is_complex:
        diagonal = build("MatrixDiagPart", build("Sub", rdr, transposed(qdq)))
        real = build("Cast", build("Real", diagonal, Tout=q.dtype.real_dtype), DstT=q.dtype.base)
        phase = _diagonal(build("Conj", build("Sub", diagonal, real)))
        slope = build("Add", slope, _times_inverse_adjoint(mm(q, phase), r))
    return slope


# ----------------------------------------------------------------------------------------------------- singular values
class Svd(Op):
    """`input = u @ diag(s) @ v^H`: singular values `s`, descending, and singular vectors in the columns of `u` and `v`.

    Without `compute_uv` the outputs `u` and `v` are empty.
    """

    signature = "input: T -> s: T, u: T, v: T"
    attrs = {"compute_uv": Bool(True), "full_matrices": Bool(False), "T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        raw = c.with_rank_at_least(0, 2)
        if raw is None:
            return [None, None, None] if c.attrs["compute_uv"] else [None, (0,), (0,)]
        rows, columns = raw[-2:]
        count = _smaller(rows, columns)
        if not c.attrs["compute_uv"]:
            return [(*raw[:-2], count), (0,), (0,)]
        left, right = (rows, columns) if c.attrs["full_matrices"] else (count, count)
        return [(*raw[:-2], count), (*raw[:-2], rows, left), (*raw[:-2], columns, right)]

    def kernel(ctx, inputs, attrs):
        x = inputs[0]
        xp = ctx.xp
        wide = matrices(ctx, x, need_square=False)
        if ctx.host:
            good = finite(np, wide)
            wide = np.where(good[..., None, None], wide, np.zeros((), wide.dtype))
        else:
            good = None
        if not attrs["compute_uv"]:
            s = _mark(by_tier(ctx, xp.linalg.svd, wide, compute_uv=False), good)
            return xp.asarray(s).astype(x.dtype), xp.zeros((0,), x.dtype), xp.zeros((0,), x.dtype)
        u, s, vh = by_tier(ctx, xp.linalg.svd, wide, full_matrices=attrs["full_matrices"])
        marked = (_mark(s, good), _mark(u, good), _mark(adjoint(xp, vh), good))
        return tuple(xp.asarray(item).astype(x.dtype) for item in marked)

    def gradient(op, grad_s, grad_u, grad_v):
        if op.inputs[0].dtype.is_complex and (grad_u is not None or grad_v is not None) and op.get_attr("compute_uv"):
            raise NotImplementedError(
                errors.message(
                    "the gradient of complex singular vectors, whose phases are arbitrary",
                    "the gradient of singular values, or a real matrix",
                    "tf.svd(x, compute_uv=False)",
                )
            )
        if not op.get_attr("compute_uv"):
            _, u, v = build("Svd", op.inputs[0], compute_uv=True, full_matrices=False)
            return [mm(u, mm(_diagonal(dense(grad_s)), v, adj_y=True))]
        return [_svd_gradient(op, grad_s, grad_u, grad_v)]


def _mark(x: Any, good: Any) -> Any:
    """``x`` with NaN in the matrices (or vectors) of a batch that are not ``good``."""
    if good is None or good.all():
        return x
    return np.where(good.reshape(good.shape + (1,) * (x.ndim - good.ndim)), x, np.nan)


def _svd_gradient(op: Any, grad_s: Any, grad_u: Any, grad_v: Any) -> Any:
    s, u, v = op.outputs
    raw = op.inputs[0]._shape
    if raw is None or None in raw[-2:]:
        raise NotImplementedError(
            errors.message(
                f"SVD gradient has not been implemented for input with unknown inner matrix shape {shapes.show(raw)}",
                "known numbers of rows and columns",
                "x.set_shape([..., rows, columns])",
            )
        )
    rows, columns = raw[-2:]
    full = op.get_attr("full_matrices")
    if full and abs(rows - columns) > 1 and (grad_u is not None or grad_v is not None):
        raise NotImplementedError(
            errors.message(
                f"the gradient of all singular vectors of matrices of shape {shapes.show(raw)}",
                "full_matrices=False, or sizes that differ by at most 1: the others are not determined by the input",
                "tf.svd(x, full_matrices=False)",
            )
        )
    count = min(rows, columns)
    if full:
        left, right = u, v
        u, v = _columns(u, 0, count), _columns(v, 0, count)
    middle = None if grad_s is None else _diagonal(dense(grad_s))
    squares = build("Square", s)
    gaps = None if grad_u is None and grad_v is None else _reciprocal_gaps(squares)
    row, column = build("ExpandDims", s, -2), build("ExpandDims", s, -1)
    inverse = _safe_reciprocal(row)
    outside = None
    if full and rows != columns:
        # One vector completes the basis of the longer side. It turns against them: d last = -own own' (d own) last.
        longer, own, grad = (left, u, grad_u) if rows > columns else (right, v, grad_v)
        if grad is not None:
            last, last_grad = (_columns(dense(x), count, count + 1) for x in (longer, grad))
            along = build("Mul", mm(last_grad, own, adj_x=True), build("Neg", inverse))
            if rows > columns:
                outside = mm(last, mm(along, v, adj_y=True))
            else:
                outside = mm(u, mm(last, along), adj_y=True)
        if grad_u is not None:
            grad_u = _columns(dense(grad_u), 0, count)
        if grad_v is not None:
            grad_v = _columns(dense(grad_v), 0, count)
    for grad, own, scale in ((grad_u, u, row), (grad_v, v, column)):
        if grad is None:
            continue
        grad = dense(grad)
        turn = mm(own, grad, adj_x=True)
        skew = build("Mul", gaps, build("Sub", turn, transposed(turn)))
        part = build("Mul", skew, scale)
        middle = part if middle is None else build("Add", middle, part)
        if own._shape[-2] > count:
            # The part of the gradient outside the space that the vectors span.
            rest = build("Mul", build("Sub", grad, mm(own, turn)), inverse)
            more = mm(rest, v, adj_y=True) if own is u else mm(u, rest, adj_y=True)
            outside = more if outside is None else build("Add", outside, more)
    slope = mm(u, mm(middle, v, adj_y=True))
    return slope if outside is None else build("Add", slope, outside)


# --------------------------------------------------------------------------------------------------------- exponential
_PADE = {
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    13: (
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
}
_REACH = {7: 3.925724783138660, 13: 5.371920351148152}
"""Largest 1-norm for which the rational approximation is exact to rounding (Higham 2005, table 2.3)."""
_MOST_SQUARINGS = 64
"""More would only be needed by matrices whose exponential overflows anyway."""


class MatrixExponential(Op):
    """`exp(input)` of square matrices `[..., n, n]`, by scaling, rational approximation, squaring (Higham 2005)."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY
    shape = square_shape

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _exponential(ctx, inputs[0])

    def host_kernel(ctx, inputs, attrs):
        return _exponential(ctx, inputs[0])

    def gradient(op, grad):
        # The derivative in direction g is the corner of exp([[a, g], [0, a]]); its adjoint takes a^H.
        x, grad = transposed(op.inputs[0]), dense(grad)
        raw = x._shape
        if raw is None or raw[-1] is None:
            raise NotImplementedError(
                errors.message(
                    f"the gradient of MatrixExponential for matrices of shape {shapes.show(raw)}",
                    "a known number of rows",
                    "x.set_shape([..., n, n])",
                )
            )
        top = build("ConcatV2", [x, grad], -1)
        bottom = build("ConcatV2", [build("ZerosLike", x), x], -1)
        whole = build("MatrixExponential", build("ConcatV2", [top, bottom], -2))
        size = raw[-1]
        corner = build("StridedSlice", whole, [0, 0, size], [0, size, 0], [1, 1, 1], ellipsis_mask=1, end_mask=4)
        return [corner]


def _exponential(ctx: Any, x: Any) -> Any:
    xp = ctx.xp
    wide = matrices(ctx, x)
    if x.size == 0:
        return x
    degree = 13 if wide.dtype in (np.float64, np.complex128) else 7
    norm = xp.max(xp.sum(xp.abs(wide), axis=-2), axis=-1)
    needed = xp.ceil(xp.log2(norm / _REACH[degree]))
    # NaN compares false: such a matrix is not scaled and its exponential is NaN.
    steps = xp.where(needed > 0, xp.minimum(needed, _MOST_SQUARINGS), 0).astype(np.int32)[..., None, None]
    scale = xp.exp2(-steps.astype(norm.dtype))
    a = wide * scale.astype(wide.dtype)
    b = [wide.dtype.type(item) for item in _PADE[degree]]
    square_ = multiply(ctx, a, a)
    power = xp.broadcast_to(np.eye(x.shape[-1], dtype=wide.dtype), wide.shape)
    odd, even = b[1] * power, b[0] * power
    for i in range(2, degree, 2):
        power = multiply(ctx, power, square_)
        even = even + b[i] * power
        odd = odd + b[i + 1] * power
    odd = multiply(ctx, a, odd)
    if ctx.host:
        good = finite(np, odd) & finite(np, even)
        left = np.where(good[..., None, None], even - odd, np.eye(x.shape[-1], dtype=wide.dtype))
        exponential = np.where(
            good[..., None, None], routine(np.linalg.solve, left, even + odd), wide.dtype.type(np.nan)
        )
        for i in range(int(steps.max(initial=0))):
            exponential = np.where(i < steps, multiply(ctx, exponential, exponential), exponential)
    else:
        exponential = xp.linalg.solve(even - odd, even + odd)
        most = xp.max(steps, initial=0)
        exponential = ctx.lax.fori_loop(0, most, lambda i, y: xp.where(i < steps, multiply(ctx, y, y), y), exponential)
    return exponential.astype(x.dtype)


# ------------------------------------------------------------------------------------------------------ vector product
class Cross(Op):
    """The vector products of the vectors of three numbers in the last dimension of `a` and `b`."""

    signature = "a: T, b: T -> product: T"
    attrs = {"T": Type("float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64")}
    effect = PURE

    def shape(c):
        merged = shapes.merge(c.with_rank_at_least(0, 1), c.with_rank_at_least(1, 1))
        if merged is not None and merged[-1] not in (None, 3):
            refuse(
                c,
                f"vectors of shape {shapes.show(merged)}",
                "3 numbers in the last dimension",
                "tf.pad with zeros for vectors in a plane",
                f"Dimension must be 3 but is {merged[-1]}",
            )
        return None if merged is None else (*merged[:-1], 3)

    def kernel(ctx, inputs, attrs):
        a, b = inputs
        ok = a.shape == b.shape and a.shape[-1:] == (3,)
        if not ok:
            heading = (
                "both inputs must have the same shape and inner-most dimension 3: "
                f"{shapes.show(a.shape)}, {shapes.show(b.shape)}"
            )
            ctx.check(False, errors.InvalidArgumentError, heading)
            return ctx.xp.zeros(a.shape, a.dtype)
        (a0, a1, a2), (b0, b1, b2) = ([x[..., i] for i in range(3)] for x in (a, b))
        return ctx.xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)

    def gradient(op, grad):
        a, b = op.inputs
        grad = dense(grad)
        return [build("Cross", b, grad), build("Cross", grad, a)]
