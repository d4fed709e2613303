"""Pooling, channels last, for any number of spatial dimensions and both tiers.

Policy. A window's maximum is taken dimension by dimension, the last one first, and so are its gradients: the first
row that holds the maximum, then the first column in that row, is the first entry in row-major order, which is the one
that receives the gradient. ``k + k`` shifted slices thus do the work of ``k * k``, they fuse under XLA, and no entry
of the padding can be chosen. Averages leave the padding out.

NaN is never a maximum, as in TensorFlow: a window of nothing but NaN gives the lowest number (-inf in volumes), and its
gradient goes to its first entry.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes, shapes
from anabranch.ops.math.reduce import least
from anabranch.ops.nn.windows import geometry
from anabranch.ops.nn.windows.geometry import Axis, from_last, shape_from_last, shape_to_last, spatial, to_last
from anabranch.ops.nn.windows.xla_convolution import add_along, interleave, scatter_taps, sources_of
from anabranch.ops.shared import host_choice
from anabranch.ops.shared.widening import widen

BLOCK = 1 << 16
"""Elements of images whose maxima's gradients are made at a time on the host."""

MOST_ENTRIES = 16
"""Entries of a whole dimension that a program compares one by one: half the time of a reduction that leaves out NaN."""


# ---------------------------------------------------------------------------------------------------------- shape rules
def across_channels(attrs: dict[str, Any]) -> int:
    """How many channels a window takes together: 1 for the usual pooling."""
    size = attrs.get("ksize", ())
    channels_first = geometry.channels_first(attrs.get("data_format", "NHWC"))
    return int(size[1] if channels_first else size[-1]) if len(size) in (4, 5) else 1


def _check_across_channels(attrs: dict[str, Any], channels: int | None) -> None:
    """Refuse what TensorFlow refuses of a pooling of images over their channels."""
    size, strides = list(attrs["ksize"]), list(attrs["strides"])
    heading, expected = "", ""
    if attrs.get("data_format", "NHWC") != "NHWC":
        heading, expected = "Depthwise max pooling is for data_format='NHWC' only.", "channels last"
    elif max(size[:-1]) > 1 or max(strides[:-1]) > 1:
        heading = "MaxPooling supports exactly one of pooling across depth or pooling across width/height."
        expected = f"ksize=strides=[1, 1, 1, {size[-1]}]"
    elif strides[-1] != size[-1]:
        heading = "Depthwise max pooling requires the depth window to equal the depth stride."
        expected = f"strides=[1, 1, 1, {size[-1]}]"
    elif channels is not None and channels % size[-1]:
        heading = "Depthwise max pooling requires the depth window to evenly divide the input depth."
        expected = f"a divisor of the {channels} channels"
    if heading:
        given = errors.message(f"ksize={size}, strides={strides}", expected, "pool twice, or pad the channels")
        raise ValueError(f"{heading}\n{given}")


def check(c: Any, rank: int, over_channels: bool = False) -> str:
    """Refuse attributes that pool over batch, or over channels where that is not allowed; return the data format."""
    data_format = c.attrs.get("data_format", "NHWC" if rank == 4 else "NDHWC")
    if data_format == "NCHW_VECT_C":
        raise NotImplementedError(
            errors.message(
                "data_format='NCHW_VECT_C'", "'NHWC' or 'NCHW'", "tf.transpose to NHWC, then data_format='NHWC'"
            )
        )
    if "ksize" in c.attrs:
        size = c.attrs["ksize"]
        if len(size) == rank and len(c.attrs["strides"]) == rank and across_channels(c.attrs) > 1:
            if over_channels:
                _check_across_channels(c.attrs, None)
                return data_format
            raise NotImplementedError(
                errors.message(
                    f"ksize={list(size)}: {c.definition.type_name} over channels",
                    "1 for the channels: tf.nn.max_pool of images takes more",
                    "tf.reduce_max(tf.reshape(x, [n, h, w, c // k, k]), -1)",
                )
            )
        geometry.check_attrs(c, rank, "ksize", "strides")
    return data_format


def pooled_shape(c: Any, source: Any, rank: int, over_channels: bool = False) -> Any:
    """Shape of a pooling of ``source`` by the op's attributes."""
    data_format = check(c, rank, over_channels)
    last = shape_to_last(shapes.with_rank(source, rank), data_format)
    together = across_channels(c.attrs)
    if together > 1:
        _check_across_channels(c.attrs, last[-1])
        return (*last[:-1], None if last[-1] is None else last[-1] // together)
    out = geometry.output_sizes(c, last[1:-1], spatial(c.attrs["ksize"], data_format))
    return shape_from_last((last[0], *out, last[-1]), data_format)


def axes_for(x_shape: Sequence[int], attrs: dict[str, Any]) -> tuple[Axis, ...]:
    """Axes of a pooling of a channels-last shape."""
    data_format = attrs.get("data_format", "NHWC" if len(x_shape) == 4 else "NDHWC")
    return geometry.axes_of(x_shape[1:-1], spatial(attrs["ksize"], data_format), attrs, data_format)


def last(ctx: Any, attrs: dict[str, Any], *arrays: Any) -> list[Any]:
    """The arrays with their channels last."""
    data_format = attrs.get("data_format", "NHWC")
    return [to_last(ctx.xp, array, data_format) for array in arrays]


def first(ctx: Any, attrs: dict[str, Any], array: Any) -> Any:
    """Undo :func:`last`."""
    return from_last(ctx.xp, array, attrs.get("data_format", "NHWC"))


def arranged(ctx: Any, attrs: dict[str, Any], *arrays: Any) -> tuple[list[Any], tuple[Axis, ...], Any]:
    """Images as ``[batch, *size, channels]`` with the axes that windows move along, and how to undo it.

    A window over channels moves along one axis of images that have a single channel. The first array is the pooling's
    input.
    """
    together = across_channels(attrs)
    if together == 1:
        columns = last(ctx, attrs, *arrays)
        return columns, axes_for(columns[0].shape, attrs), lambda result: first(ctx, attrs, result)
    shape = arrays[0].shape
    _check_across_channels(attrs, shape[-1])
    axes = (Axis(shape[-1], together, together, 1, shape[-1] // together, 0),)
    rows = math.prod(shape[:-1])
    columns = [array.reshape(rows, array.shape[-1], 1) for array in arrays]
    return columns, axes, lambda result: result.reshape(*shape[:-1], result.shape[1])


# ------------------------------------------------------------------------------------------------------- one dimension
def _along(dimension: int, cut: slice) -> tuple[Any, ...]:
    return (slice(None),) * dimension + (cut,)


class Run(NamedTuple):
    """Windows side by side, ``first`` to before ``end``, that have the same entries ``taps`` inside the input."""

    first: int
    end: int
    taps: range


@functools.lru_cache(512)
def _runs(a: Axis) -> tuple[Run, ...]:
    """The windows along one dimension, cut where the padding begins and ends."""
    runs: list[Run] = []
    for i in range(a.out):
        start = i * a.stride - a.before
        taps = range(max(0, -start), max(0, -start, min(a.window, a.size - start)))
        if runs and runs[-1].taps == taps:
            runs[-1] = runs[-1]._replace(end=i + 1)
        else:
            runs.append(Run(i, i + 1, taps))
    return tuple(runs)


def _entries(x: Any, a: Axis, dimension: int, run: Run, tap: int) -> Any:
    """Of each window of a run, the entry ``tap``."""
    start = run.first * a.stride - a.before + tap
    return x[_along(dimension, slice(start, start + (run.end - run.first - 1) * a.stride + 1, a.stride))]


def _by_runs(ctx: Any, x: Any, a: Axis, dimension: int, function: Callable[[Run, list[Any]], Any], empty: Any) -> Any:
    """``function(run, entries)`` of the windows along one dimension; ``empty`` where a window has no entry.

    Nothing is padded: XLA's code for a padded array in a fusion asks for each element where it comes from, and the loop
    around it is no longer one of vectors (maxima of 3x3 with SAME padding took 2.3 times as long).
    """
    parts = []
    for run in _runs(a):
        if run.taps:
            parts.append(function(run, [_entries(x, a, dimension, run, t) for t in run.taps]))
        else:
            shape = x.shape[:dimension] + (run.end - run.first,) + x.shape[dimension + 1 :]
            parts.append(ctx.xp.full(shape, empty))
    return parts[0] if len(parts) == 1 else ctx.xp.concatenate(parts, axis=dimension)


def lowest(dtype: Any) -> Any:
    """The lowest finite number of a dtype: what a window of images holds that has no number above it."""
    return dtypes.as_dtype(dtype).min if dtype.kind in "fV" else least(dtype)


def has_nan(dtype: Any) -> bool:
    """Whether entries of a NumPy dtype may be NaN."""
    return dtype.kind in "fV"  # V: bfloat16


def _larger(ctx: Any, best: Any, entry: Any) -> Any:
    """The larger number in a program, element by element; ``entry`` may be NaN, which is none."""
    return ctx.xp.where(best < entry, entry, best) if has_nan(entry.dtype) else ctx.xp.maximum(best, entry)


def _whole(a: Axis) -> bool:
    """Whether one window covers the dimension."""
    return a.out == 1 and a.before == 0 and a.after == 0


def _maximum(ctx: Any, x: Any, a: Axis, dimension: int) -> Any:
    if not has_nan(x.dtype) and _whole(a):
        return ctx.xp.max(x, axis=dimension, keepdims=True)
    floor = least(x.dtype)
    if ctx.host:  # NaN comes through here where there is nothing else
        if _whole(a):
            return np.fmax.reduce(x, axis=dimension, keepdims=True)
        return _by_runs(ctx, x, a, dimension, lambda _, entries: functools.reduce(np.fmax, entries), floor)
    if _whole(a) and a.size > MOST_ENTRIES:
        return ctx.xp.max(ctx.xp.where(x == x, x, floor), axis=dimension, keepdims=True)

    def greatest(_: Run, entries: list[Any]) -> Any:
        return functools.reduce(lambda best, entry: _larger(ctx, best, entry), entries, floor)

    return _by_runs(ctx, x, a, dimension, greatest, floor)


def _first_hits(ctx: Any, x: Any, y: Any, a: Axis, dimension: int) -> Any:
    """For each window, the number of its first entry that reaches the maximum ``y``: int8 (int32 for long windows)."""
    kind = np.int8 if a.window < 127 else np.int32

    def number(run: Run, entries: list[Any]) -> Any:
        greatest = y[_along(dimension, slice(run.first, run.end))]
        if ctx.host:  # how many entries before it are smaller, counted without a branch
            smaller = entries[0] < greatest
            counted = smaller.astype(kind)
            for entry in entries[1:-1]:
                np.logical_and(smaller, entry < greatest, out=smaller)
                np.add(counted, smaller, out=counted)
            return np.add(counted, kind(run.taps[0]), out=counted) if run.taps[0] else counted
        hits: Any = kind(run.taps[0])
        for t, entry in zip(reversed(run.taps), reversed(entries), strict=True):
            hits = ctx.xp.where(entry >= greatest, kind(t), hits)
        if has_nan(x.dtype):  # without a number above -inf the first entry, so that the gradient is not lost
            hits = ctx.xp.where(greatest > least(x.dtype), hits, kind(run.taps[0]))
        return hits

    hits = _by_runs(ctx, x, a, dimension, number, kind(-1))
    # Else the comparisons are repeated for each entry that the gradient is added back to. That costs little where each
    # is added to one, and where the windows are one run less than to write the numbers down.
    repeats = a.window > a.stride and (a.before > 0 or a.after > 0)
    return ctx.apart(hits) if repeats or ctx.platform != "cpu" else hits


def _stages(ctx: Any, x: Any, axes: Sequence[Axis]) -> list[Any]:
    stages = [x]
    for dimension in range(len(axes), 0, -1):
        stages.append(_maximum(ctx, stages[-1], axes[dimension - 1], dimension))
    return stages


def add_back(ctx: Any, parts: Sequence[Any], a: Axis, dimension: int) -> Any:
    """Add each window entry's values back to the place it was read from."""
    if not ctx.host:
        return scatter_taps(ctx, parts, a, dimension)
    length = max(a.size + a.before + max(a.after, 0), a.extent)
    shape = list(parts[0].shape)
    shape[dimension] = length
    reach = (a.out - 1) * a.stride + 1
    if a.window == a.stride and a.dilation == 1 and length == a.out * a.stride:  # each place is that of one entry
        padded = np.empty(shape, parts[0].dtype)
        for t, part in enumerate(parts):
            padded[_along(dimension, slice(t, t + reach, a.stride))] = part
    else:
        padded = np.zeros(shape, parts[0].dtype)
        for t, part in enumerate(parts):
            start = t * a.dilation
            padded[_along(dimension, slice(start, start + reach, a.stride))] += part
    return padded[_along(dimension, slice(a.before, a.before + a.size))]


def _return(ctx: Any, g: Any, a: Axis, dimension: int, hits: Any = None) -> Any:
    """Add ``g`` back to each entry of its window, or only to the one that ``hits`` numbers."""
    zero = g.dtype.type(0)

    def part(tap: int, cut: tuple[Any, ...]) -> Any:
        if hits is None:
            return g[cut]
        return host_choice.or_zero(hits == tap, g) if ctx.host else ctx.xp.where(hits[cut] == tap, g[cut], zero)

    if ctx.host:
        return add_back(ctx, [part(t, (...,)) for t in range(a.window)], a, dimension)
    shape = g.shape[:dimension] + (-1,) + g.shape[dimension + 1 :]
    phases = [add_along(ctx, sources, part, dimension, shape, g.dtype) for sources in sources_of(a)]
    return interleave(ctx, phases, a, dimension)


# ------------------------------------------------------------------------------------------------------------- maximum
def _empty(*arrays: Any) -> bool:
    return any(0 in array.shape for array in arrays)


def max_forward(ctx: Any, x: Any, axes: Sequence[Axis], floor: Any = None) -> Any:
    """``[batch, *size, channels]`` -> ``[batch, *out, channels]``; at least ``floor``, or -inf."""
    shape = (x.shape[0], *(a.out for a in axes), x.shape[-1])
    if 0 in shape:
        return ctx.xp.zeros(shape, x.dtype)
    if ctx.host and (pooled := ctx.pool("maximum", x.shape, axes, x)) is not None:
        return pooled
    result = _stages(ctx, x, axes)[-1]
    if not has_nan(x.dtype) or (floor is None and not ctx.host):
        return result
    floor = least(x.dtype) if floor is None else floor
    return np.fmax(result, floor) if ctx.host else ctx.xp.maximum(result, floor)


def _without_nan(ctx: Any, x: Any) -> Any:
    """What is compared on the host to find where the maxima are: -inf in place of NaN."""
    if not ctx.host or not has_nan(x.dtype) or np.min(x) == np.min(x):
        return x
    return np.where(x == x, x, least(x.dtype))


def first_entries(ctx: Any, x: Any, axes: Sequence[Axis]) -> Any:
    """The first entry of each window."""
    for dimension in range(len(axes), 0, -1):
        x = _by_runs(ctx, x, axes[dimension - 1], dimension, lambda _, entries: entries[0], x.dtype.type(0))
    return x


def max_gradient(ctx: Any, x: Any, g: Any, axes: Sequence[Axis]) -> Any:
    """The gradient of the input from that of the output."""
    if _empty(x, g):
        return ctx.xp.zeros(x.shape, g.dtype)
    if ctx.host and (slope := ctx.pool("maximum gradient", x.shape, axes, x, g)) is not None:
        return slope
    each = max(1, BLOCK * x.shape[0] // x.size)
    if ctx.host and each < x.shape[0]:  # what some images need stays in the caches
        slope = np.empty(x.shape, g.dtype)
        for i in range(0, x.shape[0], each):
            slope[i : i + each] = max_gradient(ctx, x[i : i + each], g[i : i + each], axes)
        return slope
    x = _without_nan(ctx, x)
    stages = _stages(ctx, x, axes)
    zero = g.dtype.type(0)
    for dimension, a in enumerate(axes, 1):
        y, source = stages.pop(), stages[-1]
        if _whole(a):
            if ctx.host:
                g = _at_first(source, y, g, dimension)
            else:
                g = ctx.xp.where(_whole_hit(ctx, source, y, dimension), g, zero)
            continue
        g = _return(ctx, g, a, dimension, _first_hits(ctx, source, y, a, dimension))
    return g


def _at_first(x: Any, y: Any, g: Any, dimension: int) -> Any:
    """``g`` at the first entry of ``x`` along a dimension that reaches the maximum ``y``, 0 elsewhere, on the host."""
    if x.shape[dimension] == 1:
        return g
    behind = math.prod(x.shape[dimension + 1 :])
    hits = np.flatnonzero(~(x < y))
    results = hits // (x.shape[dimension] * behind) * behind + hits % behind
    if len(hits) > g.size:  # of several in one result the last one that is written stays
        place = np.empty(g.size, hits.dtype)
        place[results[::-1]] = hits[::-1]
        hits, results = place, slice(None)
    slope = np.zeros(x.shape, g.dtype)
    slope.reshape(-1)[hits] = g.reshape(-1)[results]
    return slope


def _whole_hit(ctx: Any, x: Any, y: Any, dimension: int) -> Any:
    """Where the first entry along a dimension is that reaches the maximum ``y``.

    It has the least number of those that do: under XLA a least number is quicker than the place of a greatest one.
    """
    xp, count = ctx.xp, x.shape[dimension]
    numbers = xp.arange(count, dtype=np.int32).reshape((-1,) + (1,) * (x.ndim - dimension - 1))
    place = xp.min(xp.where(x >= y, numbers, np.int32(count)), axis=dimension, keepdims=True)
    if has_nan(x.dtype):  # where there is no number, the first entry, so that the gradient is not lost
        place = xp.where(place == count, np.int32(0), place)
    return numbers == place


def max_gather(ctx: Any, x: Any, values: Any, axes: Sequence[Axis]) -> Any:
    """For each window of ``x``, the entry of ``values`` (shaped like ``x``) where the first maximum is."""
    shape = (x.shape[0], *(a.out for a in axes), x.shape[-1])
    if 0 in shape:
        return ctx.xp.zeros(shape, values.dtype)
    x = _without_nan(ctx, x)
    for dimension in range(len(axes), 0, -1):
        a = axes[dimension - 1]
        y = _maximum(ctx, x, a, dimension)
        if _whole(a):
            hit = _whole_hit(ctx, x, y, dimension)
            zero = values.dtype.type(0)
            values = ctx.xp.sum(ctx.xp.where(hit, values, zero), axis=dimension, keepdims=True, dtype=values.dtype)
        else:
            values = _at_hits(ctx, values, _first_hits(ctx, x, y, a, dimension), a, dimension)
        x = y
    return values


def _at_hits(ctx: Any, values: Any, hits: Any, a: Axis, dimension: int) -> Any:
    """Of each window along one dimension, the entry that ``hits`` numbers."""
    zero = values.dtype.type(0)
    choose = host_choice.choose if ctx.host else ctx.xp.where

    def at_hits(run: Run, entries: list[Any]) -> Any:
        of_run, chosen = hits[_along(dimension, slice(run.first, run.end))], zero
        for t, entry in zip(run.taps, entries, strict=True):
            chosen = choose(of_run == t, entry, chosen)
        return chosen

    return _by_runs(ctx, values, a, dimension, at_hits, zero)


def max_with_index(ctx: Any, x: Any, axes: Sequence[Axis], index_type: Any, with_batch: bool) -> tuple[Any, Any]:
    """Maxima and the flat places ``(row * width + column) * channels + channel`` of their first entries.

    A window that begins with NaN has its place, as in TensorFlow.
    """
    xp = ctx.xp
    count = math.prod(x.shape[1:])
    places = xp.arange(count, dtype=index_type).reshape(x.shape[1:])[None]
    if with_batch:
        batches = xp.arange(x.shape[0], dtype=index_type).reshape((-1,) + (1,) * (x.ndim - 1))
        places = places + batches * index_type.type(count)
    places = xp.broadcast_to(places, x.shape)
    maxima, chosen = max_forward(ctx, x, axes), max_gather(ctx, x, places, axes)
    if not has_nan(x.dtype) or 0 in maxima.shape:
        return maxima, chosen
    begin = first_entries(ctx, x, axes)
    return xp.where(begin == begin, maxima, begin), xp.where(begin == begin, chosen, first_entries(ctx, places, axes))


# ------------------------------------------------------------------------------------------------------------- average
def _counts(axes: Sequence[Axis], dtype: Any) -> Any:
    """How many entries of the input each window holds: a number, or an array that broadcasts."""
    per_axis = []
    for a in axes:
        starts = np.arange(a.out) * a.stride - a.before
        per_axis.append(np.minimum(starts + a.window, a.size) - np.maximum(starts, 0))
    if all((counts == counts[:1]).all() for counts in per_axis):
        return dtype.type(math.prod(int(counts[0]) for counts in per_axis))
    total = per_axis[0]
    for counts in per_axis[1:]:
        total = total[..., None] * counts
    return total[..., None].astype(dtype)


def average_forward(ctx: Any, x: Any, axes: Sequence[Axis]) -> Any:
    """``[batch, *size, channels]`` -> ``[batch, *out, channels]``."""
    shape = (x.shape[0], *(a.out for a in axes), x.shape[-1])
    if 0 in shape:
        return ctx.xp.zeros(shape, x.dtype)
    if ctx.host and (pooled := ctx.pool("average", x.shape, axes, x)) is not None:
        return pooled
    total = widen(x)
    for dimension in range(len(axes), 0, -1):
        a = axes[dimension - 1]
        if _whole(a):
            total = ctx.xp.sum(total, axis=dimension, keepdims=True)
            continue
        total = _by_runs(ctx, total, a, dimension, lambda _, entries: sum(entries[1:], entries[0]), total.dtype.type(0))
    return (total / _counts(axes, total.dtype)).astype(x.dtype)


def average_gradient(ctx: Any, g: Any, axes: Sequence[Axis], shape: Sequence[int]) -> Any:
    """The gradient of the input, of the channels-last ``shape``, from that of the output."""
    if 0 in shape or _empty(g):
        return ctx.xp.zeros(tuple(shape), g.dtype)
    if ctx.host and (slope := ctx.pool("average gradient", shape, axes, g)) is not None:
        return slope
    wide = widen(g)
    wide = wide / _counts(axes, wide.dtype)
    for dimension in range(len(axes), 0, -1):  # the array is smallest while what lies far apart is copied
        a = axes[dimension - 1]
        if _whole(a):
            wide = ctx.xp.broadcast_to(wide, wide.shape[:dimension] + (a.size,) + wide.shape[dimension + 1 :])
        else:
            wide = _return(ctx, wide, a, dimension)
    return wide.astype(g.dtype)
