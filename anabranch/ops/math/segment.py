"""Reductions of rows that share a segment number.

Policy. `Segment*` takes sorted numbers and has as many rows as the last number says plus one: its shape depends on
data, so it lives on the host. `UnsortedSegment*` is told how many segments there are and runs in both tiers; rows
with a negative number take no part, and a number too large is an error everywhere. A segment without rows gets 0
(`Sum`, `Mean`, and the sorted extrema), 1 (`Prod`), or the lowest or highest finite number (unsorted extrema). NaN
wins over numbers. Two-byte floats are summed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.contract.opdef import PURE, Cost, Role, Type, define
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import open_places, row_sums
from anabranch.ops.shared.array_rules import INDEX, NUMBERS, dense, like, refuse, require, shape_of
from anabranch.ops.shared.unchecked import Changed
from anabranch.ops.shared.widening import widen

_REAL = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"


_LONG = 16
"""Rows of runs of one length that are reduced side by side at most, half of what others may have; and how few runs are
always reduced one by one.
"""
_INNER_LOOP, _CALL = 60, 1500
"""Nanoseconds. An element more takes ``reduceat`` a quarter of one longer."""


# ------------------------------------------------------------------------------------------------------------- sorted
def known_segments(c: Any, operand: str) -> int | None:
    """The number of rows that sorted segment numbers ask for, if they are known."""
    ids = c.value(operand)
    if ids is None or ids.ndim != 1:
        return None
    return int(ids[-1]) + 1 if ids.size else 0


def _sorted_shape(c: Any) -> Any:
    data = c.with_rank_at_least(0, 1)
    c.with_rank(1, 1)
    if data is None:
        return None
    return (known_segments(c, "segment_ids"), *data[1:])


def check_sorted(ctx: Any, ids: np.ndarray) -> None:
    """Check (on the host) that segment numbers are not negative and do not decrease.

    The first run of equal numbers that is wrong is told: it is followed by a smaller number, or beyond the last one.
    """
    require(ctx, ids.ndim == 1, "segment_ids should be a vector.")
    if ids.size == 0 or (ids[0] >= 0 and (ids[1:] >= ids[:-1]).all()):  # then the last one is the largest
        return
    rows = int(ids[-1]) + 1
    require(ctx, rows > 0, "segment ids must be >= 0")
    if ids[0] >= 0 and np.all(ids[1:] >= ids[:-1]):
        return
    runs = ids[np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))]
    falling = np.append(runs[1:] < runs[:-1], False)
    at = int(np.argmax(falling | (runs < 0) | (runs >= rows)))
    text = (
        "segment ids are not increasing"
        if falling[at]
        else f"Segment id {runs[at]} out of range [0, {rows}), possibly because 'segment_ids' input is not sorted."
    )
    ctx.check(False, errors.InvalidArgumentError, text)


def reduce_sorted(ufunc: Any, data: np.ndarray, ids: np.ndarray, rows: int, empty: Any) -> np.ndarray:
    """Reduce runs of rows with equal ``ids`` by ``ufunc`` into ``rows`` rows; rows without any are ``empty``."""
    if ufunc is np.add:
        sums = row_sums.sums_of_runs(data, None, row_sums.counted_starts(ids, rows))
        if sums is not None:
            return sums
    out = np.full((rows,) + data.shape[1:], empty, data.dtype)
    if not ids.size:
        return out
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    if data.ndim > 1 and len(starts) < len(ids):
        out[ids[starts]] = _reduced_runs(ufunc, data, starts)
    else:
        out[ids[starts]] = ufunc.reduceat(data, starts, axis=0, dtype=data.dtype)
    return out


def _reduced_runs(ufunc: Any, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Runs of rows, each reduced in order; ``reduceat`` takes an inner loop for each of their elements.

    Runs of one length take the first rows of all, then the second ones, and so on. Of others the long ones, and a few,
    are reduced one by one; what is left begins with the longest runs, and those that have a second, third, ... row go
    on. Where that is more calls of NumPy than inner loops are worth, ``reduceat`` it is.
    """
    lengths = np.diff(np.append(starts, len(data)))
    every, runs = int(lengths[0]), len(starts)
    if every <= _LONG and runs * every == len(data) and (lengths == every).all():
        total = np.array(data[::every])
        for k in range(1, every):
            ufunc(total, data[k::every], out=total)
        return total
    alone = np.arange(runs) if runs <= _LONG else np.flatnonzero(lengths > 2 * _LONG)
    short = np.flatnonzero(lengths <= 2 * _LONG) if len(alone) < runs else alone[:0]
    longest = int(lengths[short].max(initial=0))
    calls = len(alone) + 3 * longest
    if _INNER_LOOP * runs * (data.size // len(data)) + data.size // 4 < _CALL * calls:
        return ufunc.reduceat(data, starts, axis=0, dtype=data.dtype)
    total = np.empty((runs, *data.shape[1:]), data.dtype)
    begins = starts[alone]
    for place, begin, end in zip(alone.tolist(), begins.tolist(), (begins + lengths[alone]).tolist(), strict=True):
        ufunc.reduce(data[begin:end], 0, None, total[place])
    if longest:
        order = short[np.argsort(-lengths[short], kind="stable")]
        begin, falling = starts[order], -lengths[order]
        part = data.take(begin, axis=0)
        for k in range(1, longest):
            count = int(np.searchsorted(falling, -k, side="left"))
            ufunc(part[:count], data.take(begin[:count] + k, axis=0), out=part[:count])
        total[order] = part
    return total


def divide_rows(total: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``total`` by ``counts`` (at least 1), row by row; integers toward 0, as C does."""
    divisor = counts.astype(total.dtype).reshape(counts.shape + (1,) * (total.ndim - counts.ndim))
    if total.dtype.kind not in "iu":
        return total / divisor
    quotient = total // divisor
    return quotient + ((total < 0) & (quotient * divisor != total)).astype(total.dtype)


def _sorted_kernel(ufunc: Any, empty: int, mean: bool = False) -> Any:
    def host_kernel(ctx, inputs, attrs):
        data, ids = inputs
        require(ctx, ids.ndim == 1, "segment_ids should be a vector.")
        require(ctx, data.ndim >= 1, "input must be at least rank 1")
        require(ctx, ids.shape[0] == data.shape[0], "segment_ids should be the same size as dimension 0 of input.")
        check_sorted(ctx, ids)
        rows = int(ids[-1]) + 1 if ids.size else 0
        result = reduce_sorted(ufunc, widen(data), ids, rows, empty)
        if mean:
            result = divide_rows(result, np.maximum(np.bincount(ids, minlength=rows), 1))
        return result.astype(data.dtype)

    return host_kernel


def are_sorted(ids: np.ndarray) -> bool:
    """Whether there are segment numbers, none of them negative, in their order."""
    return bool(len(ids)) and bool(ids[0] >= 0) and bool((ids[1:] >= ids[:-1]).all())


def _sorted_any_size(mean: bool) -> Any:
    def make(operands: Any, attrs: Any) -> Any:
        data, ids = operands
        if data.dtype not in (np.float32, np.float64) or not data.ndim or ids.ndim != 1:
            return None

        def sums(data: Any, ids: Any) -> Any:
            if len(data) != len(ids) or not are_sorted(ids):
                raise Changed
            rows = int(ids[-1]) + 1
            total = reduce_sorted(np.add, data, ids, rows, 0)
            return divide_rows(total, np.maximum(np.bincount(ids, minlength=rows), 1)) if mean else total

        return sums

    return make


# ----------------------------------------------------------------------------------------------------------- unsorted
def unsorted_shape(c: Any) -> Any:
    """``[num_segments, *data dimensions after those of segment_ids]``."""
    data, ids = c.shapes[0], c.shapes[1]
    if c.shapes[2] not in (None, ()):
        c.with_rank(2, 0)
    rows = c.scalar(2)
    if rows is not None and rows < 0:
        refuse(
            c,
            f"num_segments = {rows}",
            "0 or more",
            "count the segments",
            f"Dimension size, given by scalar input 2, must be non-negative but is {rows}",
        )
    if data is None or ids is None:
        return None
    if len(ids) > len(data):
        refuse(
            c,
            f"segment_ids of shape {shapes.show(ids)} for data of shape {shapes.show(data)}",
            "a shape that data.shape begins with",
            "reshape segment_ids",
        )
    try:
        shapes.merge(data[: len(ids)], ids)
    except ValueError:
        refuse(
            c,
            f"segment_ids of shape {shapes.show(ids)} for data of shape {shapes.show(data)}",
            "a shape that data.shape begins with",
            "reshape segment_ids",
            "Dimensions must be equal, but are "
            + next(
                f"{one} and {two}" for one, two in zip(data, ids, strict=False) if None not in (one, two) and one != two
            ),
        )
    return (None if rows is None else int(rows), *data[len(ids) :])


def lowest(dtype: Any) -> Any:
    """The lowest finite number of a NumPy dtype."""
    return dtypes.as_dtype(dtype).min


def highest(dtype: Any) -> Any:
    """The highest finite number of a NumPy dtype."""
    return dtypes.as_dtype(dtype).max


_WIDE_ROWS = 8
"""Elements of a row from which on rows are sorted by their segments."""


def _unsorted_kernel(mode: str, ufunc: Any, start: Any) -> Any:
    def kernel(ctx, inputs, attrs):
        data, ids, count = inputs
        xp = ctx.xp
        count = np.asarray(count)
        require(ctx, count.ndim == 0, "num_segments should be a scalar, not shape {0}", count.shape)
        rows = int(count)
        require(ctx, rows >= 0, "Input num_segments == {0} must not be negative.", rows)
        require(
            ctx,
            data.shape[: ids.ndim] == ids.shape,
            "data.shape = {0} does not start with segment_ids.shape = {1}",
            tuple(data.shape),
            tuple(ids.shape),
        )
        flat = xp.reshape(ids, (-1,))
        inner = data.shape[ids.ndim :]
        wide = widen(xp.reshape(data, (flat.shape[0],) + inner))
        # The bounds of the type that was asked for: those of float32 would round to infinities.
        first = start(data.dtype) if callable(start) else start
        out = xp.full((rows,) + inner, first, wide.dtype)
        if flat.shape[0] == 0:
            return out.astype(data.dtype)
        _check_below(ctx, ids, flat, rows)
        if ctx.host:
            used = flat >= 0
            if not used.all():
                flat, wide = flat[used], wide[used]
            if ufunc is np.add:
                row_sums.add_to_rows(out, flat, wide)
            elif wide.size < _WIDE_ROWS * len(flat):
                ufunc.at(out, flat, wide)
            else:  # an inner loop for each element takes longer than to sort rows
                order = np.argsort(flat, kind="stable")
                out = ufunc(out, reduce_sorted(ufunc, wide.take(order, 0), flat[order], rows, first))
            return out.astype(data.dtype)
        where = xp.where((flat < 0) | (flat >= rows), rows, flat)
        return getattr(out.at[where], mode)(wide, mode="drop").astype(data.dtype)

    return kernel


def _check_below(ctx: Any, ids: Any, flat: Any, rows: int) -> None:
    if ctx.host and int(flat.max()) < rows:
        return
    bad = flat >= rows
    at = ctx.xp.argmax(bad)
    place: list[Any] = []
    flat_index = at
    for size in reversed(ids.shape):
        place.insert(0, flat_index % size)
        flat_index = flat_index // size
    index_text = "[" + ",".join(f"{{{i}}}" for i in range(len(place))) + "]" if place else ""
    ctx.check(
        ~ctx.xp.any(bad),
        errors.InvalidArgumentError,
        f"segment_ids{index_text} = {{{len(place)}}} is out of range [0, {rows})",
        *place,
        flat[at],
    )


# ----------------------------------------------------------------------------------------------------------- gradients
def rows_of(params: Any, ids: Any) -> Any:
    """Rows of dimension 0."""
    return build("GatherV2", params, ids, 0)


def _cast(tensor: Any, dtype: Any) -> Any:
    return build("Cast", tensor, DstT=dtype)


def _at_least_one(counts: Any) -> Any:
    """No row reads the quotient of an empty segment, but a second derivative would meet 0 / 0."""
    if counts.dtype.is_complex:
        return build("SelectV2", build("Equal", counts, like(0, counts)), like(1, counts), counts)
    return build("Maximum", counts, like(1, counts))


def _sum_gradient(op: Any, grad: Any) -> Any:
    return [rows_of(dense(grad), op.inputs[1]), None]


def _per_row(vector: Any, data: Any, ids: Any) -> Any:
    """``vector``, with the shape of ``ids`` (or one number per segment), given dimensions of length 1 to broadcast
    with data.
    """
    raw, lead = data._shape, ids._shape
    if raw is not None and lead is not None:
        for _ in range(len(raw) - len(lead)):
            vector = build("ExpandDims", vector, -1)
        return vector
    own = build("Shape", vector)
    missing = build("Sub", build("Rank", data), build("Rank", ids))
    ones = build("Fill", build("Reshape", missing, [1]), like(1, own))
    return build("Reshape", vector, build("ConcatV2", [own, ones], 0))


def _ones(ids: Any, dtype: Any) -> Any:
    return build("Fill", shape_of(ids), convert_to_tensor(1, dtype))


def _mean_gradient(op: Any, grad: Any) -> Any:
    data, ids = op.inputs
    grad = dense(grad)
    counts = _at_least_one(build("SegmentSum", _ones(ids, grad.dtype.base), ids))
    return [rows_of(build("RealDiv", grad, _per_row(counts, data, ids)), ids), None]


def _extremum_gradient(op: Any, grad: Any) -> Any:
    data, ids = op.inputs
    grad = dense(grad)
    selected = build("Equal", data, rows_of(op.outputs[0], ids))
    count = _at_least_one(build("SegmentSum", _cast(selected, grad.dtype.base), ids))
    shares = rows_of(build("RealDiv", grad, count), ids)
    return [build("SelectV2", selected, shares, build("ZerosLike", shares)), None]


def _prod_gradient(op: Any, grad: Any) -> Any:
    ids = op.inputs[1]
    return [_product_gradient(op, grad, lambda t: build("SegmentSum", t, ids), lambda t: rows_of(t, ids)), None]


def _product_gradient(op: Any, grad: Any, add: Any, gather: Any) -> Any:
    """The product of the other rows: by division, or by the product of all that are not zero where the row itself is
    zero.
    """
    data, product = op.inputs[0], op.outputs[0]
    if data.dtype.is_complex:
        data, product = build("Conj", data), build("Conj", product)
    grad = dense(grad)
    is_zero = build("Equal", data, like(0, data))
    zeros = add(_cast(is_zero, dtypes.int32))
    # Two zeros in a segment: nothing that one of them does changes the product.
    grad = build("SelectV2", build("Greater", zeros, like(1, zeros)), build("ZerosLike", grad), grad)
    filled = build("SelectV2", is_zero, build("OnesLike", data), data)
    of_others = gather(build(op.type, filled, *list(op.inputs)[1:]))
    # Zeros are replaced before the division: its quotient is not used there, but a second derivative would meet it.
    divided = build("RealDiv", gather(product), filled)
    return build("Mul", gather(grad), build("SelectV2", is_zero, of_others, divided))


def _gather_used(params: Any, data: Any, ids: Any) -> tuple[Any, Any]:
    """Rows of ``params`` with zeros for negative ``ids``, and where these are not negative (broadcasts with data)."""
    zero = like(0, ids)
    gathered = rows_of(params, build("Maximum", ids, zero))
    used = _per_row(build("GreaterEqual", ids, zero), data, ids)
    return build("SelectV2", used, gathered, build("ZerosLike", gathered)), used


def _unsorted_sum_gradient(op: Any, grad: Any) -> Any:
    data, ids, _ = op.inputs
    return [_gather_used(dense(grad), data, ids)[0], None, None]


def _unsorted_extremum_gradient(op: Any, grad: Any) -> Any:
    data, ids, rows = op.inputs
    grad = dense(grad)
    extremum, used = _gather_used(op.outputs[0], data, ids)
    selected = build("LogicalAnd", build("Equal", data, extremum), used)
    count = _at_least_one(build("UnsortedSegmentSum", _cast(selected, grad.dtype.base), ids, rows))
    shares = _gather_used(build("RealDiv", grad, count), data, ids)[0]
    return [build("SelectV2", selected, shares, build("ZerosLike", shares)), None, None]


def _unsorted_prod_gradient(op: Any, grad: Any) -> Any:
    data, ids, rows = op.inputs
    slope = _product_gradient(
        op, grad, lambda t: build("UnsortedSegmentSum", t, ids, rows), lambda t: _gather_used(t, data, ids)[0]
    )
    return [slope, None, None]


# --------------------------------------------------------------------------------------------------------- definitions
for _name, _types, _ufunc, _mode, _empty, _start, _sorted_grad, _unsorted_grad in (
    ("Sum", NUMBERS, np.add, "add", 0, 0, _sum_gradient, _unsorted_sum_gradient),
    ("Prod", NUMBERS, np.multiply, "multiply", 1, 1, _prod_gradient, _unsorted_prod_gradient),
    ("Max", _REAL, np.maximum, "max", 0, lowest, _extremum_gradient, _unsorted_extremum_gradient),
    ("Min", _REAL, np.minimum, "min", 0, highest, _extremum_gradient, _unsorted_extremum_gradient),
):
    define(
        "Segment" + _name,
        f"{_name} over rows of `data` with equal `segment_ids`, a sorted vector: `[last number + 1, ...]`.",
        signature="data: T, segment_ids: Tindices -> output: T",
        attrs={"T": Type(_types), "Tindices": Type(INDEX)},
        effect=PURE,
        shape=_sorted_shape,
        bound=lambda c: None,
        cost=Cost.INDEXED,
        host_kernel=_sorted_kernel(_ufunc, _empty),
        any_size=_sorted_any_size(False) if _name == "Sum" else None,
        gradient=_sorted_grad,
    )
    define(
        "UnsortedSegment" + _name,
        f"{_name} over the parts of `data` with equal `segment_ids`, of any order and rank: `[num_segments, ...]`.",
        signature="data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
        attrs={
            "T": Type(_types),
            "Tindices": Type("int16 int32 int64" if _name == "Sum" else INDEX),
            "Tnumsegments": Type(INDEX, "int32"),
        },
        effect=PURE,
        shape=unsorted_shape,
        compile_time=("num_segments",),
        cost=Cost.INDEXED,
        role=Role.ROW_SUMS if _name == "Sum" else None,
        any_size=open_places.unsorted_sum if _name == "Sum" else None,
        kernel=_unsorted_kernel(_mode, _ufunc, _start),
        gradient=_unsorted_grad,
    )

define(
    "SegmentMean",
    "Mean over rows of `data` with equal `segment_ids`, a sorted vector: `[last number + 1, ...]`.",
    signature="data: T, segment_ids: Tindices -> output: T",
    attrs={"T": Type(NUMBERS), "Tindices": Type(INDEX)},
    effect=PURE,
    shape=_sorted_shape,
    bound=lambda c: None,
    cost=Cost.INDEXED,
    host_kernel=_sorted_kernel(np.add, 0, mean=True),
    any_size=_sorted_any_size(True),
    gradient=_mean_gradient,
)


# -------------------------------------------------------------------------------------------------------------- public
def _make_sorted(kind: str) -> None:
    def function(data: Any, segment_ids: Any, name: str | None = None) -> Any:
        return build("Segment" + kind, data, segment_ids, name=name)

    function.__name__ = function.__qualname__ = f"segment_{kind.lower()}"
    function.__doc__ = f"""{kind} over rows of ``data`` that have the same number in ``segment_ids``, a sorted vector.

    Args:
        data: ``[rows, ...]``.
        segment_ids: int vector ``[rows]``, sorted.
        name: name of the op.

    Returns:
        ``[last number + 1, ...]``.
    """
    publish_as(function.__name__, function)
    publish_as("math." + function.__name__, function)


def _make_unsorted(kind: str) -> None:
    def function(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return build("UnsortedSegment" + kind, data, segment_ids, num_segments, name=name)

    function.__name__ = function.__qualname__ = f"unsorted_segment_{kind.lower()}"
    function.__doc__ = f"""{kind} over the parts of ``data`` that have the same number in ``segment_ids``.

    Args:
        data: a tensor whose shape begins with that of ``segment_ids``.
        segment_ids: ints; parts with a negative one take no part.
        num_segments: how many segments there are.
        name: name of the op.

    Returns:
        ``[num_segments, ...]``.
    """
    publish_as(function.__name__, function)
    publish_as("math." + function.__name__, function)


for _kind in ("Sum", "Mean", "Prod", "Max", "Min"):
    _make_sorted(_kind)
for _kind in ("Sum", "Prod", "Max", "Min"):
    _make_unsorted(_kind)


def _counts(data: Any, segment_ids: Any, num_segments: Any) -> Any:
    """Rows per segment (at least 1), to divide sums by."""
    ids = convert_to_tensor(segment_ids, name="segment_ids")
    row_counts = build("UnsortedSegmentSum", _ones(ids, data.dtype.base), ids, num_segments)
    if data._shape is None or ids._shape is None:
        inner_rank = build("Sub", build("Rank", data), build("Rank", ids))
        own = build("Shape", row_counts)
        ones = build("Fill", build("Reshape", inner_rank, [1]), like(1, own))
        row_counts = build("Reshape", row_counts, build("ConcatV2", [own, ones], 0))
    else:
        for _ in range(len(data._shape) - len(ids._shape)):
            row_counts = build("ExpandDims", row_counts, -1)
    return build("Maximum", row_counts, like(1, row_counts))


@public("unsorted_segment_mean", "math.unsorted_segment_mean")
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Mean over the parts of ``data`` that have the same number in ``segment_ids``; 0 for a segment without any.

    Means of integers are floats: float64 of 32 and 64 bits, float32 of fewer.
    """
    with name_scope(name, "UnsortedSegmentMean", [data, segment_ids]):
        data = convert_to_tensor(data)
        total = build("UnsortedSegmentSum", data, segment_ids, num_segments)
        return total / _counts(data, segment_ids, num_segments)


@public("unsorted_segment_sqrt_n", "math.unsorted_segment_sqrt_n")
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Sum over the parts of ``data`` with the same number in ``segment_ids``, divided by the root of how many these
    are.
    """
    with name_scope(name, "UnsortedSegmentSqrtN", [data, segment_ids]):
        data = convert_to_tensor(data)
        total = build("UnsortedSegmentSum", data, segment_ids, num_segments)
        return build("RealDiv", total, build("Sqrt", _counts(data, segment_ids, num_segments)), name="truediv")
