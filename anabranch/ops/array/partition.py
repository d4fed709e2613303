"""Ops whose result has as many elements as the data says: where, unique, difference, partition, stitch; searches.

All but the searches run on the host, since XLA needs to know shapes before it sees data. `Unique` keeps the order of
first occurrence; NaN differs from itself.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Literal

import numpy as np

from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Cost, Int, NotDifferentiable, Op, Role, Type
from anabranch.core.errors import InvalidArgumentError
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import row_sums
from anabranch.ops.shared.array_rules import NUMBERS, Index, dense, ints, refuse, require, shape_of

_POSITIONS = NotDifferentiable("its results are positions, or elements chosen by comparison")


def _sortable(x: np.ndarray) -> np.ndarray:
    """`x` in a type that NumPy sorts; bfloat16 is widened."""
    return x if x.dtype.kind in "biufcO" else x.astype(np.float32)


class Where(Op):
    """The positions of the elements of `input` that are true (or not zero), in row-major order: `[count, rank]`."""

    signature = "input: T -> index: int64"
    attrs = {"T": Type(NUMBERS + " bool", "bool")}
    effect = PURE
    cost = Cost.HEAVY
    gradient = NotDifferentiable("its result is positions")

    def shape(c):
        raw = c.shapes[0]
        return (None, None if raw is None else len(raw))

    def bound(c):
        raw = c.shapes[0]
        size = shapes.num_elements(raw)
        return None if size is None else (size, len(raw))

    def host_kernel(ctx, inputs, attrs):
        (x,) = inputs
        if x.ndim == 0:
            return np.zeros((int(bool(x)), 0), np.int64)
        return np.argwhere(x if x.dtype == np.bool_ else x != 0)


# -------------------------------------------------------------------------------------------------------------- unique
LARGEST_TABLE = 1 << 22
"""Span of integers up to which the places of the distinct ones are found in a table that is kept, without sorting."""
_kept = threading.local()


def _table(span: int) -> np.ndarray:
    """Memory for a place per integer, with anything in it; the operating system gives only what is touched."""
    if span > LARGEST_TABLE:
        return np.empty(span, np.int64)
    table: np.ndarray | None = getattr(_kept, "table", None)
    if table is None or len(table) < span:
        table = _kept.table = np.empty(1 << (span - 1).bit_length(), np.int64)
    return table


def _numbered(count: int) -> np.ndarray:
    """The numbers of ``[0, count)``, to be read only."""
    numbers: np.ndarray | None = getattr(_kept, "numbers", None)
    if numbers is None or len(numbers) < count:
        numbers = np.arange(1 << max(count - 1, 0).bit_length())
        if count <= LARGEST_TABLE:
            _kept.numbers = numbers
    return numbers[:count]


def _unique_by_table(x: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of some integers in order of first occurrence, and the number of each."""
    if low >= 0 and high < LARGEST_TABLE:
        low, places = 0, x
    else:  # The span is small, but a signed difference may still leave a narrow type.
        places = (x - x.dtype.type(low)).astype(np.int64) if x.dtype.kind == "u" else x.astype(np.int64) - low
    table, numbers = _table(high - low + 1), _numbered(x.size)
    table[places[::-1]] = numbers[::-1]  # of equal places the last one written, the first of x, stays
    is_first = table.take(places) == numbers
    found = x[is_first]
    distinct = found if places is x else places[is_first]
    table[distinct] = numbers[: len(distinct)]
    return found, table.take(places)


def _firsts_by_sorting(x: np.ndarray) -> np.ndarray:
    """The same for numbers and strings, of which NaNs equal nothing."""
    _, first, inverse = np.unique(_sortable(x), return_index=True, return_inverse=True, equal_nan=False)
    return first[inverse.reshape(-1)]


def _firsts_of_slices(x: np.ndarray, axis: int) -> np.ndarray:
    """The same for the slices of an array."""
    places: dict[Any, int] = {}
    slices = np.moveaxis(x, axis, 0)
    return np.array([places.setdefault(tuple(part.ravel().tolist()), i) for i, part in enumerate(slices)], np.int64)


def _unique(ctx: Any, x: np.ndarray, axis: int, out: Any, count: bool = True) -> list[np.ndarray]:
    """Unique slices along `axis` in order of first occurrence, the number of each of `x`, how often each occurs."""
    first: np.ndarray | None = None
    if x.ndim != 1:
        first = _firsts_of_slices(x, axis)
    elif x.dtype.kind in "iu" and x.size:
        low, high = int(np.minimum.reduce(x)), int(np.maximum.reduce(x))
        if high - low < max(LARGEST_TABLE, 4 * x.size):
            y, index = _unique_by_table(x, low, high)
            return _counted([y, index.astype(out.np, copy=False)], index, count)
    if first is None:
        first = _firsts_by_sorting(x)
    is_first = first == np.arange(len(first))
    numbers = np.cumsum(is_first) - 1
    index = numbers[first]
    y = np.compress(is_first, x, axis=axis)
    return _counted([y, index.astype(out.np)], index, count)


def _counted(found: list[np.ndarray], index: np.ndarray, count: bool) -> list[np.ndarray]:
    """``found``, and how often each number of ``index`` occurs, in the type of the numbers there, if that is asked."""
    return [*found, np.bincount(index).astype(found[1].dtype)] if count else found


def _numbering(count: bool) -> Any:
    """The maker of what numbers the distinct ones of as many integers as there are."""

    def make(operands: Any, attrs: Any) -> Any:
        (x,) = operands
        if x.ndim != 1 or x.dtype not in (np.int32, np.int64):
            return None
        out = attrs["out_idx"]
        return lambda x: _unique_few(x, out.np, count) if len(x) <= _FEW else _unique(None, x, 0, out, count)

    return make


_FEW = 64
"""Integers that are numbered sooner by a dictionary."""


def _unique_few(x: np.ndarray, out: Any, count: bool) -> list[np.ndarray]:
    """What :func:`_unique` gives for a few integers."""
    numbers: dict[int, int] = {}
    index = [numbers.setdefault(value, len(numbers)) for value in x.tolist()]
    found = [np.array(list(numbers), x.dtype), np.array(index, out)]
    if count:
        times = [0] * len(numbers)
        for number in index:
            times[number] += 1
        found.append(np.array(times, out))
    return found


def _unique_vector(c: Any) -> shapes.RawShape:
    return c.with_rank("x", 1)


def _unique_axis(ctx: Any, x: np.ndarray, axis: np.ndarray) -> int:
    require(ctx, np.size(axis) <= 1, "axis does not support input tensors larger than 1 elements")
    if np.size(axis) == 0:
        require(ctx, x.ndim == 1, "unique expects a 1D vector.")
        return 0
    axis_number = ints(axis)[0]
    require(ctx, -x.ndim <= axis_number < x.ndim, "axis has to be between [{0}, {1})", -x.ndim, x.ndim)
    return axis_number % x.ndim


def _unique_axis_shapes(c: Any) -> list[shapes.RawShape]:
    raw, axis = c.shapes[0], c.value("axis")
    if raw is None or axis is None:
        return [None if raw is None else (None,) * len(raw), (None,)]
    dim = ints(axis)[0] if axis.size else 0
    if not -len(raw) <= dim < len(raw):
        refuse(c, f"axis {dim} of shape {shapes.show(raw)}", f"axis in [{-len(raw)}, {len(raw)})", "another axis")
    dim %= len(raw)
    return [(*raw[:dim], None, *raw[dim + 1 :]), (raw[dim],)]


class Unique(Op):
    """The distinct elements `y` of the vector `x`, and `idx` with `x[i] = y[idx[i]]`."""

    signature = "x: T -> y: T, idx: out_idx"
    attrs = {"T": Type(), "out_idx": Index()}
    effect = PURE
    cost = Cost.HEAVY
    any_size = _numbering(False)
    role = Role.DISTINCT
    gradient = _POSITIONS

    def shape(c):
        return [(None,), _unique_vector(c)]

    def bound(c):
        return [_unique_vector(c)] * 2

    def host_kernel(ctx, inputs, attrs):
        return _unique(ctx, inputs[0], 0, attrs["out_idx"], count=False)


class UniqueV2(Op):
    """The distinct slices `y` of `x` along `axis` (an empty vector: 0), and the number `idx` of each slice of `x`."""

    signature = "x: T, axis: Taxis -> y: T, idx: out_idx"
    attrs = {"T": Type(), "Taxis": Index("int64"), "out_idx": Index()}
    effect = PURE
    cost = Cost.HEAVY
    role = Role.DISTINCT
    gradient = _POSITIONS
    shape = _unique_axis_shapes

    def bound(c):
        return [c.shapes[0], _unique_axis_shapes(c)[1]]

    def host_kernel(ctx, inputs, attrs):
        x, axis = inputs
        return _unique(ctx, x, _unique_axis(ctx, x, axis), attrs["out_idx"], count=False)


class UniqueWithCounts(Op):
    """The distinct elements `y` of the vector `x`, `idx` with `x[i] = y[idx[i]]`, and how often each occurs."""

    signature = "x: T -> y: T, idx: out_idx, count: out_idx"
    attrs = {"T": Type(), "out_idx": Index()}
    effect = PURE
    cost = Cost.HEAVY
    any_size = _numbering(True)
    role = Role.DISTINCT
    gradient = _POSITIONS

    def shape(c):
        return [(None,), _unique_vector(c), (None,)]

    def bound(c):
        return [_unique_vector(c)] * 3

    def host_kernel(ctx, inputs, attrs):
        return _unique(ctx, inputs[0], 0, attrs["out_idx"])


class UniqueWithCountsV2(Op):
    """`UniqueV2`, and how often each slice occurs."""

    signature = "x: T, axis: Taxis -> y: T, idx: out_idx, count: out_idx"
    attrs = {"T": Type(), "Taxis": Index("int64"), "out_idx": Index()}
    effect = PURE
    cost = Cost.HEAVY
    role = Role.DISTINCT
    gradient = _POSITIONS

    def shape(c):
        return [*_unique_axis_shapes(c), (None,)]

    def bound(c):
        size = _unique_axis_shapes(c)[1]
        return [c.shapes[0], size, size]

    def host_kernel(ctx, inputs, attrs):
        x, axis = inputs
        return _unique(ctx, x, _unique_axis(ctx, x, axis), attrs["out_idx"])


class ListDiff(Op):
    """The elements of the vector `x` that are not in the vector `y`, in order, and their positions `idx` in `x`."""

    signature = "x: T, y: T -> out: T, idx: out_idx"
    attrs = {"T": Type(), "out_idx": Index()}
    effect = PURE
    cost = Cost.HEAVY
    gradient = _POSITIONS

    def shape(c):
        c.with_rank("x", 1)
        c.with_rank("y", 1)
        return [(None,), (None,)]

    def bound(c):
        return [c.with_rank("x", 1)] * 2

    def host_kernel(ctx, inputs, attrs):
        x, y = inputs
        if x.dtype.kind == "O":
            there = set(y.tolist())
            absent = np.array([item not in there for item in x.tolist()], bool)
        else:
            absent = ~np.isin(_sortable(x), _sortable(y))
        idx = np.flatnonzero(absent)
        return x[idx], idx.astype(attrs["out_idx"].np)


# ------------------------------------------------------------------------------------------------- partition and stitch
FEW_PARTS = 4
"""Parts up to which each is looked for by itself: 20,000 numbers in 2, 4 and 8 take 46, 80 and 142 us, sorted 85."""


class DynamicPartition(Op):
    """The slices of `data` sorted into `num_partitions` tensors by `partitions`, whose shape starts that of `data`."""

    signature = "data: T, partitions: int32 -> outputs: num_partitions * T"
    attrs = {"num_partitions": Int(minimum=1), "T": Type()}
    effect = PURE

    def shape(c):
        data, partitions = c.shapes
        count = c.attrs["num_partitions"]
        if data is None or partitions is None:
            return [None] * count
        if len(partitions) > len(data) or not shapes.is_compatible(data[: len(partitions)], partitions):
            refuse(
                c,
                f"partitions of shape {shapes.show(partitions)} for data of shape {shapes.show(data)}",
                "a shape that is a prefix of that of data",
                "give one partition number per leading element of data",
                "data.shape must start with partitions.shape",
            )
        return [(None, *data[len(partitions) :])] * count

    def bound(c):
        data, partitions = c.shapes
        if data is None or partitions is None:
            return [None] * c.attrs["num_partitions"]
        size = shapes.num_elements(shapes.merge(data[: len(partitions)], partitions))
        return [None if size is None else (size, *data[len(partitions) :])] * c.attrs["num_partitions"]

    def host_kernel(ctx, inputs, attrs):
        data, partitions = inputs
        count = attrs["num_partitions"]
        require(
            ctx,
            data.shape[: partitions.ndim] == partitions.shape,
            "data.shape must start with partitions.shape, got data.shape = {0}, partitions.shape = {1}",
            shapes.show(data.shape),
            shapes.show(partitions.shape),
        )
        flat = partitions.ravel()
        if not row_sums.is_within(flat, count):
            first = int(np.argmax((flat < 0) | (flat >= count)))
            place = ",".join(str(int(i)) for i in np.unravel_index(first, partitions.shape)) if partitions.ndim else ""
            ctx.check(
                False,
                InvalidArgumentError,
                "partitions{0} = {1} is not in [0, {2})",
                f"[{place}]" if place else "",
                flat[first],
                count,
            )
        rows = data.reshape((flat.size, *data.shape[partitions.ndim :]))
        if count <= FEW_PARTS:
            return [rows.take(np.flatnonzero(flat == i), 0) for i in range(count)]
        if count <= 1 << 16:  # NumPy counts numbers of one or two bytes to sort them
            flat = flat.astype(np.uint8 if count <= 1 << 8 else np.uint16)
        ordered = rows.take(np.argsort(flat, kind="stable"), 0)
        ends = np.bincount(flat, minlength=count).cumsum().tolist()
        return [ordered[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def gradient(op, *grads):
        data, partitions = op.inputs
        count = op.get_attr("num_partitions")
        prefix = shape_of(partitions)
        places = build("Reshape", build("Range", 0, build("Prod", prefix, [0]), 1), prefix)
        parts = build("DynamicPartition", places, partitions, num_partitions=count)
        parts = parts if isinstance(parts, list) else [parts]
        joined = build("ParallelDynamicStitch", parts, [dense(grad) for grad in grads])
        return [build("Reshape", joined, shape_of(data)), None]


def _stitch_shape(c: Any) -> shapes.RawShape:
    count = c.attrs["N"]
    row_shape: shapes.RawShape = None
    highest: int | None = -1
    for i in range(count):
        indices, data = c.shapes[i], c.shapes[count + i]
        if indices is not None and data is not None:
            if not shapes.is_compatible(data[: len(indices)], indices):
                refuse(
                    c,
                    f"data[{i}] of shape {shapes.show(data)} for indices of shape {shapes.show(indices)}",
                    "data whose shape starts with that of its indices",
                    "give one slice of data per index",
                )
            row_shape = shapes.merge(row_shape, data[len(indices) :])
        vector = c.value(i)
        highest = None if highest is None or vector is None else max(highest, int(vector.max()) if vector.size else -1)
    return None if row_shape is None else (None if highest is None else highest + 1, *row_shape)


def _stitch_bound(c: Any) -> shapes.RawShape:
    return _stitch_shape(c)


def _stitched(ctx: Any, inputs: Any, attrs: Any) -> np.ndarray:
    count = attrs["N"]
    row_shape = inputs[count].shape[inputs[0].ndim :]
    size = 1 + max((int(item.max()) for item in inputs[:count] if item.size), default=-1)
    dtype = inputs[count].dtype
    merged = np.full((size, *row_shape), b"", object) if dtype.kind == "O" else np.zeros((size, *row_shape), dtype)
    for i, (indices, data) in enumerate(zip(inputs[:count], inputs[count:], strict=True)):
        require(
            ctx,
            data.shape[: indices.ndim] == indices.shape and data.shape[indices.ndim :] == row_shape,
            "data[{0}].shape = {1} does not start with indices[{0}].shape = {2}, or differs from the others after it",
            i,
            shapes.show(data.shape),
            shapes.show(indices.shape),
        )
        if indices.size and indices.min() < 0:
            ctx.check(False, InvalidArgumentError, "indices[{0}] is out of range: {1} < 0", i, int(indices.min()))
        merged[indices.ravel()] = data.reshape((math.prod(indices.shape), *row_shape))
    return merged


def _stitch_gradient(op: Any, grad: Any) -> list[Any]:
    count = op.get_attr("N")
    grad = dense(grad)
    return [None] * count + [build("GatherV2", grad, indices, 0) for indices in list(op.inputs)[:count]]


class DynamicStitch(Op):
    """One tensor with `data[i][j, ...]` at `indices[i][j]`; where an index comes again, the later data stands."""

    signature = "indices: N * int32, data: N * T -> merged: T"
    attrs = {"N": Int(minimum=1), "T": Type()}
    effect = PURE
    shape = _stitch_shape
    bound = _stitch_bound
    host_kernel = _stitched
    gradient = _stitch_gradient


class ParallelDynamicStitch(Op):
    """`DynamicStitch`, with no promise of which data stands where an index comes again."""

    signature = "indices: N * int32, data: N * T -> merged: T"
    attrs = {"N": Int(minimum=1), "T": Type()}
    effect = PURE
    shape = _stitch_shape
    bound = _stitch_bound
    host_kernel = _stitched
    gradient = _stitch_gradient


# -------------------------------------------------------------------------------------------------------------- search
def _search_shape(c: Any) -> shapes.RawShape:
    rows, values = c.with_rank("sorted_inputs", 2), c.with_rank("values", 2)
    return (shapes.merge_dim(rows[0], values[0]), values[1])


def _search(ctx: Any, inputs: Any, attrs: Any, side: Literal["left", "right"]) -> Any:
    rows, values = inputs
    require(
        ctx,
        len(rows.shape) == len(values.shape) == 2 and rows.shape[0] == values.shape[0],
        "sorted_inputs of shape {0} and values of shape {1}: expected two matrices with as many rows",
        shapes.show(tuple(rows.shape)),
        shapes.show(tuple(values.shape)),
    )
    dtype = attrs["out_type"].np
    if ctx.host:
        rows, values = _sortable(rows), _sortable(values)
        positions = np.empty(values.shape, dtype)
        for i, row in enumerate(rows):
            positions[i] = np.searchsorted(row, values[i], side)
        return positions
    if 0 in values.shape or rows.shape[1] == 0:
        return ctx.xp.zeros(values.shape, dtype)

    def one(row: Any, wanted: Any) -> Any:
        return ctx.xp.searchsorted(row, wanted, side=side)

    return ctx.xp.vectorize(one, signature="(n),(m)->(m)")(rows, values).astype(dtype)


class LowerBound(Op):
    """Per row, the first position in `sorted_inputs` `[b, n]` before which each of `values` `[b, m]` can be put in."""

    signature = "sorted_inputs: T, values: T -> output: out_type"
    attrs = {"T": Type(), "out_type": Index()}
    effect = PURE
    shape = _search_shape
    gradient = _POSITIONS

    def kernel(ctx, inputs, attrs):
        return _search(ctx, inputs, attrs, "left")


class UpperBound(Op):
    """Per row, the last position in `sorted_inputs` `[b, n]` before which each of `values` `[b, m]` can be put in."""

    signature = "sorted_inputs: T, values: T -> output: out_type"
    attrs = {"T": Type(), "out_type": Index()}
    effect = PURE
    shape = _search_shape
    gradient = _POSITIONS

    def kernel(ctx, inputs, attrs):
        return _search(ctx, inputs, attrs, "right")


dynamic_partition = public_op("DynamicPartition", "dynamic_partition", arguments="data partitions num_partitions")
