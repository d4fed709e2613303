"""Ragged rows made, gathered and turned into sparse tensors; strings joined by segment. On the host.

A ragged tensor is its row splits, outermost first, and the values of all rows one after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, AtLeast, Int, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build, build_operation
from anabranch.core.values import shapes
from anabranch.ops.ragged.to_dense import checked_splits


class RaggedRange(Op):
    """Rows of numbers from ``starts`` below ``limits`` by ``deltas``; each a vector or, for all rows, a scalar."""

    signature = "starts: T, limits: T, deltas: T -> rt_nested_splits: Tsplits, rt_dense_values: T"
    attrs = {
        "T": Type("bfloat16 double float int32 int64", default="int32"),
        "Tsplits": Type("int32 int64", default="int64"),
    }
    effect = PURE
    gradient = NotDifferentiable("how many numbers a row has depends on the inputs")

    def shape(c):
        rows: int | None = 1
        for operand in c.shapes:
            if operand is None:
                rows = None if rows == 1 else rows
            elif len(operand) > 1:
                raise ValueError(
                    errors.message(
                        f"an operand of shape {shapes.show(operand)}",
                        "a scalar, or a vector with an element for each row",
                        "one number per row",
                    )
                )
            elif operand:
                rows = operand[0]
        if all(operand == () for operand in c.shapes):
            rows = 1
        return [(None if rows is None else rows + 1,), (None,)]

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        lengths = {len(item) for item in inputs if item.ndim}
        ctx.check(
            len(lengths) <= 1,
            errors.InvalidArgumentError,
            "starts, limits, and deltas must have the same shape: {0}",
            np.array(sorted(lengths)),
        )
        rows = lengths.pop() if lengths else 1
        starts, limits, deltas = (np.broadcast_to(item, (rows,)) for item in inputs)
        ctx.check(bool(np.all(deltas != 0)), errors.InvalidArgumentError, "Requires delta != 0")
        parts, splits = [], [0]
        for start, limit, delta in zip(starts, limits, deltas, strict=True):
            size = _range_size(start, limit, delta)
            ctx.check(
                size < 1 << 31,
                errors.InvalidArgumentError,
                "Requires ((limit - start) / delta) to be at most 2147483647: {0} numbers",
                size,
            )
            steps = np.full(size, delta, starts.dtype)
            steps[:1] = start
            parts.append(np.cumsum(steps, dtype=starts.dtype))  # number by number, as rounding goes
            splits.append(splits[-1] + size)
        values = np.concatenate(parts) if parts else np.zeros(0, starts.dtype)
        return np.array(splits, attrs["Tsplits"].np), values


def _range_size(start: Any, limit: Any, delta: Any) -> int:
    if (delta > 0 and limit < start) or (delta < 0 and limit > start):
        return 0
    if start.dtype.kind in "iu":
        return (abs(int(limit) - int(start)) + abs(int(delta)) - 1) // abs(int(delta))
    size = float(np.ceil(np.abs((limit - start) / delta)))
    return int(size) if size < 1 << 40 else 1 << 40  # infinite, or far too much


class RaggedGather(Op):
    """Rows ``indices`` of a ragged tensor."""

    signature = (
        "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, indices: Tindices "
        "-> output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues"
    )
    attrs = {
        "Tvalues": Type(),
        "Tindices": Type("int32 int64"),
        "Tsplits": Type("int32 int64", default="int64"),
        "PARAMS_RAGGED_RANK": Int(minimum=1),
        "OUTPUT_RAGGED_RANK": Int(),
    }
    effect = PURE

    def shape(c):
        indices, values = c.shape("indices"), c.shape("params_dense_values")
        depth, wanted = c.attrs["PARAMS_RAGGED_RANK"], c.attrs["OUTPUT_RAGGED_RANK"]
        if wanted < 0 or (indices is not None and wanted != depth + len(indices) - 1):
            raise ValueError(
                errors.message(
                    f"OUTPUT_RAGGED_RANK={wanted} for indices {shapes.show(indices)} of {depth} ragged dimensions",
                    "PARAMS_RAGGED_RANK + indices.ndim - 1",
                    "give it that value",
                )
            )
        return [*[(None,)] * wanted, None if values is None else (None, *values[1:])]

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        *splits, values, indices = inputs
        ctx.check(
            values.ndim > 0,
            errors.InvalidArgumentError,
            "params_dense_values must have rank 1 or more, but is a scalar",
        )
        for position, one in enumerate(splits):
            below = splits[position + 1].size - 1 if position + 1 < len(splits) else values.shape[0]
            checked_splits(ctx, one, below)
        rows = splits[0].size - 1
        outside = (indices < 0) | (indices >= rows)
        ctx.check(
            not outside.any(),
            errors.InvalidArgumentError,
            "indices = {0} is not in [0, {1})",
            indices[outside][:1],
            rows,
        )
        places, repeats = [], 1
        for size in indices.shape[:-1]:  # rows of rows, all equally long
            count = int(size) * repeats
            places.append((size, count))
            repeats = count
        dtype = attrs["Tsplits"].np
        outer = [
            (np.arange(count + 1, dtype=np.int64) * indices.shape[position + 1]).astype(dtype)
            for position, (_, count) in enumerate(places)
        ]
        chosen = indices.astype(np.int64).ravel()
        inner = []
        for one in splits:
            wide = one.astype(np.int64)
            starts, lengths = wide[chosen], (wide[1:] - wide[:-1])[chosen]
            cut = np.concatenate([[0], np.cumsum(lengths)])
            inner.append(cut.astype(dtype))
            chosen = np.repeat(starts - cut[:-1], lengths) + np.arange(cut[-1])
        all_splits = [*outer, *inner]
        return (*(all_splits if indices.ndim else all_splits[1:]), values[chosen])

    def gradient(op, *grads):
        count = op.get_attr("PARAMS_RAGGED_RANK")
        splits, values, indices = op.inputs[:count], op.inputs[count], op.inputs[count + 1]
        size = build("StridedSlice", build("Shape", values), [0], [1], [1], shrink_axis_mask=1)
        places = build_operation(
            "RaggedGather",
            (list(splits), build("Range", 0, size, 1), indices),
            {"OUTPUT_RAGGED_RANK": op.get_attr("OUTPUT_RAGGED_RANK")},
        )
        return [*[None] * count, build("UnsortedSegmentSum", grads[-1], places.outputs[-1], size), None]


class RaggedTensorToSparse(Op):
    """The values of a ragged tensor with their coordinates, and the shape that holds the longest rows."""

    signature = (
        "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T "
        "-> sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64"
    )
    attrs = {"RAGGED_RANK": Int(minimum=1), "T": Type(), "Tsplits": Type("int32 int64", default="int64")}
    effect = PURE
    ranks = {"rt_nested_splits": 1, "rt_dense_values": AtLeast(1)}

    def shape(c):
        values = c.shape("rt_dense_values")
        rank = None if values is None else len(values) + c.attrs["RAGGED_RANK"]
        count = shapes.num_elements(values)
        return [(count, rank), (count,), (rank,)]

    def host_kernel(ctx, inputs, attrs):
        *splits, values = inputs
        for position, one in enumerate(splits):
            below = splits[position + 1].size - 1 if position + 1 < len(splits) else values.shape[0]
            checked_splits(ctx, one, below)
        sizes = [splits[0].size - 1]
        places = [np.arange(sizes[0])]
        for one in splits:
            lengths = np.diff(one.astype(np.int64))
            sizes.append(int(lengths.max(initial=0)))
            row = np.repeat(np.arange(len(lengths)), lengths)
            places = [place[row] for place in places]
            places.append(np.arange(len(row)) - one.astype(np.int64)[:-1][row])
        inner = values.shape[1:]
        coordinates = np.stack(places, 1)
        if inner:
            within = np.indices(inner).reshape(len(inner), -1).T
            coordinates = np.concatenate(
                [np.repeat(coordinates, len(within), 0), np.tile(within, (len(coordinates), 1))], 1
            )
        return coordinates.astype(np.int64), values.reshape(-1), np.array([*sizes, *inner], np.int64)

    def gradient(op, _indices, grad, _shape):
        values = op.inputs[-1]
        return [*[None] * (len(op.inputs) - 1), build("Reshape", grad, build("Shape", values))]


class UnsortedSegmentJoin(Op):
    """The strings of each segment joined, in their order; empty strings for segments without any."""

    signature = "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments -> output: string"
    attrs = {
        "separator": String(""),
        "Tindices": Type("int32 int64"),
        "Tnumsegments": Type("int32 int64", default="int32"),
    }
    effect = PURE
    ranks = {"num_segments": 0}
    compile_time = ("num_segments",)
    gradient = NotDifferentiable("a string has no gradient")

    def shape(c):
        inputs, ids = c.shape("inputs"), c.shape("segment_ids")
        number = c.scalar("num_segments")
        if inputs is None or ids is None:
            return None
        return (None if number is None else int(number), *inputs[len(ids) :])

    def host_kernel(ctx, inputs, attrs):
        values, ids, number = inputs
        count = int(number)
        ctx.check(count >= 0, errors.InvalidArgumentError, "num_segments must be at least 0, got {0}", count)
        ctx.check(
            values.shape[: ids.ndim] == ids.shape,
            errors.InvalidArgumentError,
            f"segment_ids {shapes.show(ids.shape)} must be a prefix of the shape of inputs {shapes.show(values.shape)}",
        )
        outside = (ids < 0) | (ids >= count)
        ctx.check(
            not outside.any(),
            errors.InvalidArgumentError,
            "segment id {0} is not in [0, {1})",
            ids[outside][:1],
            count,
        )
        inner = values.shape[ids.ndim :]
        rows = values.reshape(ids.size, -1) if ids.size else values.reshape(0, int(np.prod(inner)))
        parts: list[list[list[bytes]]] = [[[] for _ in range(rows.shape[1])] for _ in range(count)]
        for segment, row in zip(ids.ravel().tolist(), rows.tolist(), strict=True):
            for place, value in enumerate(row):
                parts[segment][place].append(value)
        separator = attrs["separator"]
        joined = separator if isinstance(separator, bytes) else separator.encode()
        lines_joined = np.empty((count, rows.shape[1]), object)
        for segment, lines in enumerate(parts):
            lines_joined[segment] = [joined.join(line) for line in lines]
        return lines_joined.reshape(count, *inner)
