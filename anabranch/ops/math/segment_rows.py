"""Sums and means over segments of selected rows: what `embedding_lookup_sparse` is made of.

Policy. Row ``indices[i]`` of the data takes part in segment ``segment_ids[i]``; the latter are sorted. Without a
number of segments the result's shape depends on data and the op lives on the host; with one, and in the gradients, it
runs in both tiers. All indices are checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import publish_as
from anabranch.core.contract.opdef import PURE, Bool, Cost, Type, define
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.ops.math import xla_reductions
from anabranch.ops.math.segment import are_sorted, check_sorted, known_segments, reduce_sorted, rows_of
from anabranch.ops.shared import row_sums
from anabranch.ops.shared.array_rules import INDEX, dense, like, refuse, require, shape_of
from anabranch.ops.shared.unchecked import Changed
from anabranch.ops.shared.widening import widen

_FLOATS = "bfloat16 half float double"
_REAL = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"


# --------------------------------------------------------------------------------------------------------- shape rules
def _same_length(c: Any) -> None:
    indices, ids = c.with_rank(1, 1), c.with_rank(2, 1)
    if indices[0] is not None and ids[0] is not None and indices[0] != ids[0]:
        words = (
            f"Dimension 0 in both shapes must be equal, but are {indices[0]} and {ids[0]}. "
            f"Shapes are [{indices[0]}] and [{ids[0]}]."
        )
        refuse(
            c, f"{indices[0]} indices and {ids[0]} segment_ids", "as many of each", "pass one segment per index", words
        )


def _shape(c: Any) -> Any:
    _same_length(c)
    data = c.with_rank_at_least(0, 1)
    return None if data is None else (known_segments(c, "segment_ids"), *data[1:])


def _sized_shape(c: Any) -> Any:
    """With the number of rows in input 3."""
    _same_length(c)
    if c.shapes[3] not in (None, ()):
        c.with_rank(3, 0)
    rows = c.scalar(3)
    if rows is not None and rows < 0:
        name = c.definition.inputs[3].name
        refuse(c, f"{name} = {rows}", "0 or more", "count the rows", f"Cannot specify a negative value for {name}")
    data = c.with_rank_at_least(0, 1)
    return None if data is None else (None if rows is None else int(rows), *data[1:])


# ------------------------------------------------------------------------------------------------------------- kernels
def _check_lengths(ctx: Any, data: Any, indices: Any, ids: Any) -> None:
    require(ctx, data.ndim >= 1, "input must be at least rank 1")
    require(ctx, indices.ndim == 1, "indices should be a vector.")
    require(ctx, ids.ndim == 1, "segment_ids should be a vector.")
    require(ctx, indices.shape == ids.shape, "segment_ids and indices should have same size.")


def _check_indices(ctx: Any, indices: Any, rows: int, text: str = "Bad: indices[{0}] == {1} out of range [0, ") -> None:
    if ctx.host and row_sums.is_within(indices, rows):
        return
    bad = (indices < 0) | (indices >= rows)
    at = ctx.xp.argmax(bad)
    ctx.check(~ctx.xp.any(bad), errors.InvalidArgumentError, f"{text}{rows})", at, indices[at])


def _divisor(xp: Any, counts: Any, mode: str) -> Any:
    counts = xp.maximum(counts, counts.dtype.type(1))
    return xp.sqrt(counts) if mode == "SqrtN" else counts


def _column(vector: Any, rank: int) -> Any:
    return vector.reshape(vector.shape + (1,) * (rank - 1))


def _kernel(mode: str) -> Any:
    def host_kernel(ctx, inputs, attrs):
        data, indices, ids = inputs
        _check_lengths(ctx, data, indices, ids)
        check_sorted(ctx, ids)
        return _on_host(ctx, mode, data, indices, ids, int(ids[-1]) + 1 if ids.size else 0)

    return host_kernel


def _on_host(ctx: Any, mode: str, data: Any, indices: Any, ids: Any, rows: int) -> Any:
    if indices.size:
        _check_indices(ctx, indices, data.shape[0])
    return _sums(mode, data, indices, ids, rows)


def _sums(mode: str, data: Any, indices: Any, ids: Any, rows: int) -> Any:
    starts = row_sums.counted_starts(ids, rows)
    result = row_sums.sums_of_runs(data, indices, starts)
    if result is None:
        result = reduce_sorted(np.add, widen(data.take(indices, axis=0)), ids, rows, 0)
    if mode != "Sum":
        counts = np.diff(starts).astype(result.dtype)
        result = result / _column(_divisor(np, counts, mode), result.ndim)
    return result.astype(data.dtype, copy=False)


def _sized_kernel(mode: str) -> Any:
    def kernel(ctx, inputs, attrs):
        data, indices, ids, count = inputs
        xp = ctx.xp
        _check_lengths(ctx, data, indices, ids)
        rows = int(np.asarray(count).reshape(()))
        require(ctx, rows >= 0, "Cannot specify a negative value for num_segments")
        if indices.shape[0] == 0:
            return xp.zeros((rows,) + data.shape[1:], data.dtype)
        if ctx.host:
            check_sorted(ctx, ids)
            ctx.check(int(ids[-1]) < rows, errors.InvalidArgumentError, "segment ids must be < num_segments")
            return _on_host(ctx, mode, data, indices, ids, rows)
        _check_indices(ctx, indices, data.shape[0])
        negative = ids < 0
        ctx.check(
            ~xp.any(negative),
            errors.InvalidArgumentError,
            f"Segment id {{0}} out of range [0, {rows}), possibly because 'segment_ids' input is not sorted.",
            ids[xp.argmax(negative)],
        )
        ctx.check(xp.all(ids[1:] >= ids[:-1]), errors.InvalidArgumentError, "segment ids are not increasing")
        ctx.check(xp.all(ids < rows), errors.InvalidArgumentError, "segment ids must be < num_segments")
        wide = widen(data)
        places = xp.where(negative, rows, ids)
        result = xp.zeros((rows,) + data.shape[1:], wide.dtype)
        result = xla_reductions.add_picked_rows(ctx, result, places, wide, indices)
        if mode != "Sum":
            counts = xp.zeros((rows,), wide.dtype).at[places].add(wide.dtype.type(1), mode="drop")
            result = result / _column(_divisor(xp, counts, mode), result.ndim)
        return result.astype(data.dtype)

    return kernel


def _grad_kernel(mode: str) -> Any:
    def kernel(ctx, inputs, attrs):
        grad, indices, ids, count = inputs
        xp = ctx.xp
        _check_lengths(ctx, grad, indices, ids)
        rows = int(np.asarray(count).reshape(()))
        segments = grad.shape[0]
        if indices.shape[0] == 0:
            return xp.zeros((rows,) + grad.shape[1:], grad.dtype)
        if ctx.host and row_sums.is_within(ids, segments) and row_sums.is_within(indices, rows):
            return _grad_on_host(mode, grad, indices, ids, rows)
        last = ids[-1] + ids.dtype.type(1)
        ctx.check(last <= segments, errors.InvalidArgumentError, "Invalid number of segments")
        outside = (ids < 0) | (ids >= segments)
        ctx.check(
            ~xp.any(outside),
            errors.InvalidArgumentError,
            f"Segment id {{0}} out of range [0, {segments}).",
            ids[xp.argmax(outside)],
        )
        bad = (indices < 0) | (indices >= rows)
        wrong = indices[xp.argmax(bad)]
        ctx.check(~xp.any(bad), errors.InvalidArgumentError, f"Index {{0}} out of range [0, {rows}).", wrong)
        wide = widen(grad)
        safe = xp.clip(ids, 0, max(segments - 1, 0))
        if mode != "Sum":
            counts = xp.zeros((segments,), wide.dtype).at[safe].add(wide.dtype.type(1), mode="drop")
            wide = wide / _column(_divisor(xp, counts, mode), wide.ndim)
        total = xp.zeros((rows,) + grad.shape[1:], wide.dtype)
        places = xp.where(bad, rows, indices)
        return xla_reductions.add_picked_rows(ctx, total, places, wide, safe).astype(grad.dtype)

    return kernel


def _grad_on_host(mode: str, grad: Any, indices: Any, ids: Any, rows: int) -> Any:
    wide = widen(grad)
    if mode != "Sum":
        counts = np.maximum(np.bincount(ids, minlength=grad.shape[0]), 1).astype(wide.dtype)
        wide = wide / _column(np.sqrt(counts) if mode == "SqrtN" else counts, wide.ndim)
    out = np.zeros((rows,) + grad.shape[1:], wide.dtype)
    row_sums.add_to_rows(out, indices, wide.take(ids, axis=0))
    return out.astype(grad.dtype, copy=False)


_PLAIN = (np.float32, np.float64)


def _any_size(mode: str) -> Any:
    def make(operands: Any, attrs: Any) -> Any:
        data, indices, ids, *_ = operands
        if data.dtype not in _PLAIN or not data.ndim or indices.ndim != 1 or ids.ndim != 1:
            return None

        def sums(data: Any, indices: Any, ids: Any, *count: Any) -> Any:
            if len(indices) != len(ids) or not are_sorted(ids) or not row_sums.is_within(indices, len(data)):
                raise Changed
            rows = int(ids[-1]) + 1
            if count:
                if int(count[0]) < rows:
                    raise Changed
                rows = int(count[0])
            return _sums(mode, data, indices, ids, rows)

        return sums

    return make


def _grad_any_size(mode: str) -> Any:
    def make(operands: Any, attrs: Any) -> Any:
        grad, indices, ids, count = operands
        if grad.dtype not in _PLAIN or not grad.ndim or indices.ndim != 1 or ids.ndim != 1 or count.ndim:
            return None

        def spread(grad: Any, indices: Any, ids: Any, count: Any) -> Any:
            rows = int(count)
            if len(indices) != len(ids) or not len(ids) or rows < 0:
                raise Changed
            if not row_sums.is_within(ids, len(grad)) or not row_sums.is_within(indices, rows):
                raise Changed
            return _grad_on_host(mode, grad, indices, ids, rows)

        return spread

    return make


# ----------------------------------------------------------------------------------------------------------- gradients
def _scaled(op: Any, grad: Any, mode: str) -> Any:
    """The gradient of each selected row."""
    ids = op.inputs[2]
    if mode != "Sum":
        ones = build("Fill", shape_of(ids), like(1, grad))
        rows = build("StridedSlice", shape_of(grad), [0], [1], [1], shrink_axis_mask=1)
        counts = build("UnsortedSegmentSum", ones, ids, rows)
        divisor = build("Maximum", counts, like(1, counts))
        divisor = build("Sqrt", divisor) if mode == "SqrtN" else divisor
        raw = grad._shape
        if raw is None:
            own = build("Shape", divisor)
            inner_rank = build("Sub", build("Rank", grad), 1)
            column = build("ConcatV2", [own, build("Fill", build("Reshape", inner_rank, [1]), like(1, own))], 0)
            divisor = build("Reshape", divisor, column)
        else:
            for _ in range(len(raw) - 1):
                divisor = build("ExpandDims", divisor, -1)
        grad = build("RealDiv", grad, divisor)
    return rows_of(grad, ids)


def _gradient(mode: str, sized: bool) -> Any:
    def gradient(op, grad):
        grad = dense(grad)
        no_gradients = [None] * (3 if sized else 2)
        if op.get_attr("sparse_gradient"):
            values = _scaled(op, grad, mode)
            return [IndexedSlices(values, op.inputs[1], shape_of(op.inputs[0])), *no_gradients]
        rows = build("StridedSlice", shape_of(op.inputs[0]), [0], [1], [1], shrink_axis_mask=1)
        if mode == "Sum":
            return [build("UnsortedSegmentSum", rows_of(grad, op.inputs[2]), op.inputs[1], rows), *no_gradients]
        return [build(f"SparseSegment{mode}Grad", grad, op.inputs[1], op.inputs[2], rows), *no_gradients]

    return gradient


def _second_gradient(mode: str) -> Any:
    def gradient(op, grad):
        _, indices, ids, _ = op.inputs
        segments = build("StridedSlice", shape_of(op.inputs[0]), [0], [1], [1], shrink_axis_mask=1)
        slope = build(f"SparseSegment{mode}WithNumSegments", dense(grad), indices, ids, segments)
        return [slope, None, None, None]

    return gradient


# --------------------------------------------------------------------------------------------------------- definitions
for _mode, _what, _types in (
    ("Sum", "Sum", _REAL),
    ("Mean", "Mean", _FLOATS),
    ("SqrtN", "Sum divided by the root of the count", _FLOATS),
):
    _index = {"Tidx": Type(INDEX, "int32"), "Tsegmentids": Type(INDEX, "int32")}
    define(
        f"SparseSegment{_mode}",
        f"{_what} over the rows `data[indices]` with equal `segment_ids`, a sorted vector: `[last number + 1, ...]`.",
        signature="data: T, indices: Tidx, segment_ids: Tsegmentids -> output: T",
        attrs={"T": Type(_types), **_index, "sparse_gradient": Bool(False)},
        effect=PURE,
        cost=Cost.INDEXED,
        shape=_shape,
        bound=lambda c: None,
        host_kernel=_kernel(_mode),
        any_size=_any_size(_mode),
        gradient=_gradient(_mode, False),
    )
    define(
        f"SparseSegment{_mode}WithNumSegments",
        f"{_what} over the rows `data[indices]` with equal `segment_ids`, a sorted vector: `[num_segments, ...]`.",
        signature="data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments -> output: T",
        attrs={
            "T": Type(_types),
            "Tidx": Type(INDEX, "int32"),
            "Tnumsegments": Type(INDEX, "int32"),
            "Tsegmentids": Type(INDEX, "int32"),
            "sparse_gradient": Bool(False),
        },
        effect=PURE,
        cost=Cost.INDEXED,
        shape=_sized_shape,
        compile_time=("num_segments",),
        kernel=_sized_kernel(_mode),
        any_size=_any_size(_mode),
        gradient=_gradient(_mode, True),
    )
    define(
        f"SparseSegment{_mode}Grad",
        f"Gradient of `SparseSegment{_mode}` with respect to its data: `[output_dim0, ...]`.",
        signature="grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T",
        attrs={"T": Type(_FLOATS), **_index},
        effect=PURE,
        cost=Cost.INDEXED,
        shape=_sized_shape,
        compile_time=("output_dim0",),
        kernel=_grad_kernel(_mode),
        any_size=_grad_any_size(_mode),
        gradient=_second_gradient(_mode),
    )


# -------------------------------------------------------------------------------------------------------------- public
def _make(mode: str, suffix: str, sentence: str) -> None:
    def function(data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None) -> Any:
        if num_segments is None:
            return build(f"SparseSegment{mode}", data, indices, segment_ids, name=name)
        return build(f"SparseSegment{mode}WithNumSegments", data, indices, segment_ids, num_segments, name=name)

    function.__name__ = function.__qualname__ = f"sparse_segment_{suffix}"
    function.__doc__ = f"""{sentence} over the rows ``data[indices]`` that have the same number in ``segment_ids``.

    Args:
        data: ``[rows, ...]``.
        indices: int vector; rows of ``data``.
        segment_ids: int vector as long as ``indices``, sorted.
        name: name of the op.
        num_segments: how many segments there are; one more than the last number if None.
    """
    publish_as(function.__name__, function)
    publish_as(f"sparse.segment_{suffix}", function)


_make("Sum", "sum", "Sum")
_make("Mean", "mean", "Mean")
_make("SqrtN", "sqrt_n", "Sum divided by the root of the count")
