"""Diagonals and bands of matrices.

Policy. All ops work on the last two dimensions of a batch, except `Diag` and `DiagPart`, which double or halve the
rank. The forms with a range `k` of diagonals place each element by an index map that is computed when shapes are
known; a diagonal shorter than the longest is padded at the end that `align` names (`"RIGHT_LEFT"`: those above the
main diagonal are right-aligned, those below left-aligned).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Op, String, Type, define
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import shapes
from anabranch.ops.shared.array_rules import INDEX, dense, like, refuse, require

_ALIGN = "LEFT_RIGHT RIGHT_LEFT LEFT_LEFT RIGHT_RIGHT"


def zeros_like(tensor: Any) -> Any:
    """Zeros of the shape of ``tensor``."""
    return build("ZerosLike", tensor)


# ---------------------------------------------------------------------------------------------------------------- band
def _band_shape(c: Any) -> Any:
    for operand in (1, 2):
        if c.shapes[operand] not in (None, ()):
            c.with_rank(operand, 0)
    return c.with_rank_at_least(0, 2)


class MatrixBandPart(Op):
    """`input` with zeros outside a band: `num_lower` diagonals below the main one and `num_upper` above (all, if
    negative).
    """

    signature = "input: T, num_lower: Tindex, num_upper: Tindex -> band: T"
    attrs = {"T": Type(), "Tindex": Type(INDEX, "int64")}
    effect = PURE
    moves = True
    shape = _band_shape

    def kernel(ctx, inputs, attrs):
        x, lower, upper = inputs
        xp = ctx.xp
        require(ctx, x.ndim >= 2, f"input must be at least 2-dim, received shape: {shapes.show(x.shape)}")
        rows, columns = x.shape[-2:]
        for name, value, what, size in (("lower", lower, "rows", rows), ("upper", upper, "columns", columns)):
            ctx.check(
                xp.all(value <= size),
                errors.InvalidArgumentError,
                f"num_{name} must be negative or less or equal to number of {what} ({size}) got: {{0}}",
                value,
            )
        offset = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        inside = ((lower < 0) | (-offset <= lower)) & ((upper < 0) | (offset <= upper))
        return xp.where(inside, x, np.zeros((), x.dtype))

    def gradient(op, grad):
        return [build("MatrixBandPart", dense(grad), op.inputs[1], op.inputs[2]), None, None]


# ------------------------------------------------------------------------------------------------------- main diagonal
def _eye(rows: int, columns: int) -> np.ndarray:
    return np.eye(rows, columns, dtype=bool)


def _set_main(xp: Any, x: Any, diagonal: Any) -> Any:
    rows, columns = x.shape[-2:]
    spread = xp.expand_dims(diagonal, -1 if rows <= columns else -2)
    return xp.where(_eye(rows, columns), spread, x)


class MatrixDiag(Op):
    """Matrices with `diagonal`, `[..., n]`, on the main diagonal and zeros elsewhere: `[..., n, n]`."""

    signature = "diagonal: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    moves = True

    def shape(c):
        raw = c.with_rank_at_least(0, 1)
        return None if raw is None else (*raw, raw[-1])

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        require(ctx, x.ndim >= 1, "input must be at least 1-dim")
        return ctx.xp.where(_eye(x.shape[-1], x.shape[-1]), ctx.xp.expand_dims(x, -1), np.zeros((), x.dtype))

    def gradient(op, grad):
        return [build("MatrixDiagPart", dense(grad))]


def _main_part(ctx: Any, x: Any) -> Any:
    require(ctx, x.ndim >= 2, f"input must be at least 2-dim, received shape: {shapes.show(x.shape)}")
    return ctx.xp.diagonal(x, axis1=-2, axis2=-1)


def _part_shape(raw: Any) -> Any:
    if raw is None:
        return None
    rows, columns = raw[-2:]
    known = None if rows is None or columns is None else min(rows, columns)
    return (*raw[:-2], 0 if 0 in (rows, columns) else known)


class MatrixDiagPart(Op):
    """The main diagonals of `input`, `[..., m, n]`: `[..., min(m, n)]`."""

    signature = "input: T -> diagonal: T"
    attrs = {"T": Type()}
    effect = PURE
    moves = True

    def shape(c):
        return _part_shape(c.with_rank_at_least(0, 2))

    def kernel(ctx, inputs, attrs):
        return _main_part(ctx, inputs[0])

    def gradient(op, grad):
        grad = dense(grad)
        raw = op.inputs[0]._shape
        if raw is not None and raw[-1] is not None and raw[-1] == raw[-2]:
            return [build("MatrixDiag", grad)]
        return [build("MatrixSetDiag", zeros_like(op.inputs[0]), grad)]


class MatrixSetDiag(Op):
    """`input`, `[..., m, n]`, with its main diagonals replaced by `diagonal`, `[..., min(m, n)]`."""

    signature = "input: T, diagonal: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    moves = True

    def shape(c):
        raw = c.with_rank_at_least(0, 2)
        diagonal = c.with_rank_at_least(1, 1)
        if raw is None:
            return None
        shapes.merge(_part_shape(raw), diagonal)
        return raw if diagonal is None else (*shapes.merge(raw[:-2], diagonal[:-1]), *raw[-2:])

    def kernel(ctx, inputs, attrs):
        x, diagonal = inputs
        require(ctx, x.ndim >= 2, f"input must be at least 2-dim, received shape: {shapes.show(x.shape)}")
        wanted = (*x.shape[:-2], min(x.shape[-2:]))
        require(
            ctx,
            diagonal.shape == wanted,
            f"must have diagonal.shape == input.shape[:-2] + min(input.shape[-2:]), but received input shape: "
            f"{shapes.show(x.shape)} and diagonal shape: {shapes.show(diagonal.shape)}",
        )
        return _set_main(ctx.xp, x, diagonal)

    def gradient(op, grad):
        grad = dense(grad)
        outside = build("MatrixSetDiag", grad, zeros_like(op.inputs[1]))
        return [outside, build("MatrixDiagPart", grad)]


# ------------------------------------------------------------------------------------------------- ranges of diagonals
def _band(k: Any) -> tuple[int, int]:
    flat = np.asarray(k).ravel().tolist()
    return int(flat[0]), int(flat[-1])


def _longest(rows: int, columns: int, low: int, high: int) -> int:
    return min(rows + min(high, 0), columns - max(low, 0))


def _places(rows: int, columns: int, low: int, high: int, align: str) -> tuple[np.ndarray, np.ndarray]:
    """For each place of a matrix, the flat position in the packed diagonals, and whether it is inside the band."""
    longest = _longest(rows, columns, low, high)
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    offset = column - row
    inside = (offset >= low) & (offset <= high)
    length = np.minimum(rows + np.minimum(offset, 0), columns - np.maximum(offset, 0))
    above, below = align.split("_")
    left = ((offset >= 0) & (above == "LEFT")) | ((offset <= 0) & (below == "LEFT"))
    position = np.minimum(row, column) + np.where(left, 0, longest - length)
    return np.where(inside, (high - offset) * longest + position, 0), inside


def _pack(xp: Any, x: Any, low: int, high: int, align: str, padding: Any) -> Any:
    """The diagonals of ``x``: ``[..., high - low + 1, longest]``, without the first of these dimensions if it is 1."""
    rows, columns = x.shape[-2:]
    longest = _longest(rows, columns, low, high)
    place, inside = _places(rows, columns, low, high, align)
    source = np.full((high - low + 1) * longest, rows * columns)
    source[place[inside]] = np.flatnonzero(inside)
    flat = xp.reshape(x, (*x.shape[:-2], rows * columns))
    padded = xp.concatenate([flat, xp.broadcast_to(xp.asarray(padding, x.dtype), (*x.shape[:-2], 1))], axis=-1)
    inner = (longest,) if low == high else (high - low + 1, longest)
    return xp.reshape(xp.take(padded, source, axis=-1), (*x.shape[:-2], *inner))


def _unpack(xp: Any, diagonal: Any, rows: int, columns: int, low: int, high: int, align: str, outside: Any) -> Any:
    """A matrix with the packed diagonals in its band and ``outside`` (which broadcasts) elsewhere."""
    place, inside = _places(rows, columns, low, high, align)
    lead = diagonal.shape[: -1 if low == high else -2]
    count = math.prod(diagonal.shape[len(lead) :])
    if count == 0:
        return xp.broadcast_to(outside, (*lead, rows, columns))
    spread = xp.take(xp.reshape(diagonal, (*lead, count)), place.ravel(), axis=-1)
    return xp.where(inside, xp.reshape(spread, (*lead, rows, columns)), outside)


def _check_band(ctx: Any, k: Any, rows: int, columns: int) -> tuple[int, int]:
    k = np.asarray(k)
    require(
        ctx,
        k.ndim <= 1 and k.size in (1, 2),
        f"k must have one or two elements, received shape: {shapes.show(k.shape)}",
    )
    low, high = _band(k)
    for name, value in (("lower_diag_index", low), ("upper_diag_index", high)):
        require(
            ctx,
            -rows < value < columns or (value == 0),
            f"{name} is out of bound: {value}. It must be between {-rows} and {columns}",
        )
    require(ctx, low <= high, f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}")
    return low, high


def _known_band(c: Any, operand: int) -> tuple[int, int] | None:
    k = c.value(operand)
    if k is None:
        return None
    if k.ndim > 1 or k.size not in (1, 2):
        refuse(c, f"k of shape {shapes.show(k.shape)}", "one or two elements", "pass k or [lowest, highest]")
    low, high = _band(k)
    if low > high:
        refuse(c, f"k = [{low}, {high}]", "the lower diagonal first", f"k=({high}, {low})")
    return low, high


def _diag_size(low: int, high: int, longest: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of the matrix that diagonals are put into (-1: as few as possible, square if both are)."""
    least_rows, least_columns = longest - min(high, 0), longest + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows:
        raise ValueError(f"The number of rows is too small: {rows} for at least {least_rows}.")
    if columns < least_columns:
        raise ValueError(f"The number of columns is too small: {columns} for at least {least_columns}.")
    if rows != least_rows and columns != least_columns:
        raise ValueError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal."
        )
    return rows, columns


def _diag_range_shape(c: Any) -> Any:
    diagonal = c.with_rank_at_least(0, 1)
    band, rows, columns = _known_band(c, 1), c.scalar(2), c.scalar(3)
    if diagonal is None or band is None:
        return None
    low, high = band
    lead = diagonal[:-1] if low == high else diagonal[:-2]
    if low != high and diagonal[-2] is not None and diagonal[-2] != high - low + 1:
        refuse(
            c,
            f"{diagonal[-2]} diagonals of shape {shapes.show(diagonal)} for k = [{low}, {high}]",
            f"{high - low + 1} diagonals",
            "correct k",
            "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index",
        )
    if diagonal[-1] is None or rows is None or columns is None:
        return (*lead, None, None)
    try:
        return (*lead, *_diag_size(low, high, diagonal[-1], int(rows), int(columns)))
    except ValueError as problem:
        refuse(
            c, f"num_rows={rows}, num_cols={columns}", "sizes that the diagonals fill", "leave one at -1", str(problem)
        )


def _diag_range_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    diagonal, k, rows, columns, padding = inputs
    low, high = _band(k)
    require(ctx, low <= high, f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}")
    require(
        ctx,
        low == high or (diagonal.ndim >= 2 and diagonal.shape[-2] == high - low + 1),
        "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index range.",
    )
    try:
        size = _diag_size(low, high, diagonal.shape[-1], int(rows), int(columns))
    except ValueError as problem:
        require(ctx, False, str(problem))
    outside = ctx.xp.reshape(padding, (1, 1))
    return _unpack(ctx.xp, diagonal, *size, low, high, attrs.get("align", "LEFT_LEFT"), outside)


def _part_range_shape(c: Any) -> Any:
    raw = c.with_rank_at_least(0, 2)
    band = _known_band(c, 1)
    if raw is None or band is None:
        return None
    low, high = band
    rows, columns = raw[-2:]
    longest = None if rows is None or columns is None else _longest(rows, columns, low, high)
    return (*raw[:-2], longest) if low == high else (*raw[:-2], high - low + 1, longest)


def _part_range_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, k, padding = inputs
    require(ctx, x.ndim >= 2, f"input must be at least 2-dim, received shape: {shapes.show(x.shape)}")
    low, high = _check_band(ctx, k, *x.shape[-2:])
    if low == high == 0:
        return _main_part(ctx, x)
    return _pack(ctx.xp, x, low, high, attrs.get("align", "LEFT_LEFT"), padding)


def _set_range_shape(c: Any) -> Any:
    raw = c.with_rank_at_least(0, 2)
    band = _known_band(c, 2)
    diagonal = c.with_rank_at_least(1, 1)
    if raw is None or band is None or diagonal is None:
        return raw
    lead = diagonal[:-1] if band[0] == band[1] else diagonal[:-2]
    return (*shapes.merge(raw[:-2], lead), *raw[-2:])


def _set_range_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, diagonal, k = inputs
    require(ctx, x.ndim >= 2, f"input must be at least 2-dim, received shape: {shapes.show(x.shape)}")
    rows, columns = x.shape[-2:]
    low, high = _check_band(ctx, k, rows, columns)
    longest = _longest(rows, columns, low, high)
    wanted = (*x.shape[:-2], longest) if low == high else (*x.shape[:-2], high - low + 1, longest)
    require(
        ctx,
        diagonal.shape == wanted,
        f"Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to "
        f"the longests diagonal: input of shape {shapes.show(x.shape)} wants {shapes.show(wanted)}, got "
        f"{shapes.show(diagonal.shape)}",
    )
    if low == high == 0:
        return _set_main(ctx.xp, x, diagonal)
    return _unpack(ctx.xp, diagonal, rows, columns, low, high, attrs.get("align", "LEFT_LEFT"), x)


def _align(op: Any) -> dict[str, Any]:
    return {"align": op.get_attr("align")} if op.type.endswith("V3") else {}


def _diag_range_gradient(op: Any, grad: Any) -> Any:
    version = op.type[-2:]
    diagonals = build("MatrixDiagPart" + version, dense(grad), op.inputs[1], like(0, op.inputs[0]), **_align(op))
    return [diagonals, None, None, None, None]


def _part_range_gradient(op: Any, grad: Any) -> Any:
    version = op.type[-2:]
    matrix = build("MatrixSetDiag" + version, zeros_like(op.inputs[0]), dense(grad), op.inputs[1], **_align(op))
    return [matrix, None, None]


def _set_range_gradient(op: Any, grad: Any) -> Any:
    version, grad, k = op.type[-2:], dense(grad), op.inputs[2]
    outside = build("MatrixSetDiag" + version, grad, zeros_like(op.inputs[1]), k, **_align(op))
    return [outside, build("MatrixDiagPart" + version, grad, k, like(0, grad), **_align(op)), None]


for _version in ("V2", "V3"):
    _attrs: dict[str, Any] = {"T": Type()} | ({"align": String("RIGHT_LEFT", _ALIGN)} if _version == "V3" else {})
    define(
        "MatrixDiag" + _version,
        "Matrices with the packed diagonals `k[0]` to `k[1]` in place and `padding_value` elsewhere.",
        signature="diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> output: T",
        attrs=_attrs,
        effect=PURE,
        moves=True,
        shape=_diag_range_shape,
        compile_time=("k", "num_rows", "num_cols"),
        ranks={"num_rows": 0, "num_cols": 0},
        kernel=_diag_range_kernel,
        gradient=_diag_range_gradient,
    )
    define(
        "MatrixDiagPart" + _version,
        "The diagonals `k[0]` to `k[1]` of matrices, highest first, packed into rows as long as the longest.",
        signature="input: T, k: int32, padding_value: T -> diagonal: T",
        attrs=_attrs,
        effect=PURE,
        moves=True,
        shape=_part_range_shape,
        compile_time=("k",),
        kernel=_part_range_kernel,
        gradient=_part_range_gradient,
    )
    define(
        "MatrixSetDiag" + _version,
        "Matrices with their diagonals `k[0]` to `k[1]` replaced by packed ones.",
        signature="input: T, diagonal: T, k: int32 -> output: T",
        attrs=_attrs,
        effect=PURE,
        moves=True,
        shape=_set_range_shape,
        compile_time=("k",),
        kernel=_set_range_kernel,
        gradient=_set_range_gradient,
    )


# ------------------------------------------------------------------------------------------------------- whole tensors
_TENSOR_TYPES = "bfloat16 half float double int32 int64 complex64 complex128"


class Diag(Op):
    """A tensor of twice the rank that has `diagonal` where both halves of the position are equal, and zeros
    elsewhere.
    """

    signature = "diagonal: T -> output: T"
    attrs = {"T": Type(_TENSOR_TYPES)}
    effect = PURE
    moves = True

    def shape(c):
        raw = c.with_rank_at_least(0, 1)
        return None if raw is None else raw + raw

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        require(ctx, x.ndim >= 1, "Input must be at least rank 1, got 0")
        flat = ctx.xp.reshape(x, (-1,)) if x.size else ctx.xp.zeros((0,), x.dtype)
        square = ctx.xp.where(_eye(flat.shape[0], flat.shape[0]), flat, np.zeros((), x.dtype))
        return ctx.xp.reshape(square, x.shape + x.shape)

    def gradient(op, grad):
        return [build("DiagPart", dense(grad))]


class DiagPart(Op):
    """The elements of `input`, of even rank, whose position has two equal halves: half the rank."""

    signature = "input: T -> diagonal: T"
    attrs = {"T": Type(_TENSOR_TYPES)}
    effect = PURE
    moves = True

    def shape(c):
        raw = c.shapes[0]
        if raw is None:
            return None
        if len(raw) % 2 or not raw:
            refuse(c, f"a tensor of rank {len(raw)}", "an even rank of at least 2", "reshape it")
        half = len(raw) // 2
        for one, other in zip(raw[:half], raw[half:], strict=True):
            if one is not None and other is not None and one != other:
                refuse(
                    c,
                    f"shape {shapes.show(raw)}",
                    "two equal halves",
                    "tf.matrix_diag_part for a matrix that is not square",
                    f"Dimensions must be equal, but are {one} and {other}",
                )
        return shapes.merge(raw[:half], raw[half:])

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        half = x.ndim // 2
        require(
            ctx,
            x.ndim % 2 == 0 and x.ndim > 0,
            f"The rank of the tensor should be even and positive, got shape {shapes.show(x.shape)}",
        )
        lead = x.shape[:half]
        require(
            ctx,
            lead == x.shape[half:],
            f"Invalid shape {shapes.show(x.shape)}: dimensions i and i + {half} must be equal",
        )
        size = math.prod(lead)
        return ctx.xp.reshape(ctx.xp.diagonal(ctx.xp.reshape(x, (size, size))), lead)

    def gradient(op, grad):
        return [build("Diag", dense(grad))]


# -------------------------------------------------------------------------------------------------------------- public
@public("matrix_band_part", "linalg.band_part")
def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """``input`` with zeros outside the band of ``num_lower`` diagonals below, ``num_upper`` above (negative: all)."""
    return build("MatrixBandPart", input, num_lower, num_upper, name=name)


@public("matrix_diag", "linalg.diag")
def matrix_diag(
    diagonal: Any,
    name: str | None = None,
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Matrices with the given diagonals.

    Args:
        diagonal: ``[..., n]``, or ``[..., diagonals, longest]`` for a range ``k``.
        name: name of the op.
        k: number of the diagonal (positive above the main one), or a pair of the lowest and the highest.
        num_rows: rows of the result; as few as possible if -1.
        num_cols: columns of the result; as few as possible if -1.
        padding_value: value outside the diagonals.
        align: at which end of its row a short diagonal stands, above and below the main one.
    """
    if _is(k, 0) and _is(num_rows, -1) and _is(num_cols, -1) and _is(padding_value, 0):
        return build("MatrixDiag", diagonal, name=name)
    diagonal = convert_to_tensor(diagonal, name="diagonal")
    padding = convert_to_tensor(padding_value, diagonal.dtype.base)
    return build("MatrixDiagV3", diagonal, k, num_rows, num_cols, padding, align=align, name=name or "MatrixDiag")


def _is(value: Any, default: int) -> bool:
    return isinstance(value, (int, float)) and value == default


@public("matrix_diag_part", "linalg.diag_part")
def matrix_diag_part(
    input: Any, name: str | None = None, k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Any:
    """The main diagonals of matrices, or the diagonals ``k``; see :func:`matrix_diag`."""
    if _is(k, 0):
        return build("MatrixDiagPart", input, name=name)
    tensor = convert_to_tensor(input, name="input")
    padding = convert_to_tensor(padding_value, tensor.dtype.base)
    return build("MatrixDiagPartV3", tensor, k, padding, align=align, name=name or "MatrixDiagPart")


@public("matrix_set_diag", "linalg.set_diag")
def matrix_set_diag(input: Any, diagonal: Any, name: str | None = None, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """Matrices with their main diagonals, or the diagonals ``k``, replaced; see :func:`matrix_diag`."""
    if _is(k, 0):
        return build("MatrixSetDiag", input, diagonal, name=name)
    return build("MatrixSetDiagV3", input, diagonal, k, align=align, name=name or "MatrixSetDiag")


@public("diag", "linalg.tensor_diag")
def diag(diagonal: Any, name: str | None = None) -> Any:
    """A tensor of twice the rank with ``diagonal`` where both halves of the position are equal, and zeros elsewhere."""
    return build("Diag", diagonal, name=name)


@public("diag_part", "linalg.tensor_diag_part")
def diag_part(input: Any, name: str | None = None) -> Any:
    """The elements of ``input`` whose position has two equal halves."""
    return build("DiagPart", input, name=name)


@public("trace", "linalg.trace")
def trace(x: Any, name: str | None = None) -> Any:
    """The sum of the main diagonal of each matrix ``[..., m, n]``."""
    with name_scope(name, "Trace", [x]) as scope:
        return build("Sum", build("MatrixDiagPart", convert_to_tensor(x, name="x")), [-1], name=scope)
