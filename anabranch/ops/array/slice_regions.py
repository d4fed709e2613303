"""Where a strided slice reaches: specifications resolved to one entry per dimension, and regions taken and put.

A strided slice names per *specified* dimension a begin, an end and a stride; bit i of a mask says of specification i
that its begin or end does not matter, that it stands for all dimensions not named (ellipsis), for a new dimension of
size 1, or for one index whose dimension goes away (shrink). :func:`resolve` turns that into one entry per dimension of
the input, as far as the numbers are known; every rule and kernel of slices starts from it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract.kernels import KernelContext
from anabranch.core.errors import InvalidArgumentError
from anabranch.ops.shared.array_rules import ints, require

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


class Entry(NamedTuple):
    """How one dimension is sliced. Unknown numbers are None; `spec` is the position in begin, -1 for a whole one."""

    spec: int
    begin: int | None
    end: int | None
    stride: int | None
    begin_masked: bool
    end_masked: bool
    shrink: bool

    @property
    def whole_masks(self) -> bool:
        return self.begin_masked and self.end_masked

    def as_slice(self) -> slice:
        """The Python slice of a range entry whose numbers are known."""
        return slice(None if self.begin_masked else self.begin, None if self.end_masked else self.end, self.stride)


class Resolved(NamedTuple):
    """Entries per input dimension, and the layout of the result: an input dimension, or -1 for a new one."""

    entries: list[Entry]
    layout: list[int]


def simple_index(size: tuple[int, ...], spec: Any, attrs: dict[str, Any]) -> tuple[Any, ...] | None:
    """What Python takes for a slice, if it is in range; None if it is not, or where there are two ellipses."""
    begin, end, strides = [part.tolist() for part in spec]
    if not len(begin) == len(end) == len(strides) or 0 in strides:
        return None
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = (attrs[name] for name in MASKS)
    ellipsis_mask &= (1 << len(begin)) - 1
    taken = sum(not (ellipsis_mask | new_axis_mask) >> i & 1 for i in range(len(begin)))
    if ellipsis_mask & (ellipsis_mask - 1) or taken > len(size):
        return None
    index: list[Any] = []
    dim = 0
    for i, first in enumerate(begin):
        if ellipsis_mask >> i & 1:
            index.append(...)
            dim += len(size) - taken
        elif new_axis_mask >> i & 1:
            index.append(None)
        else:
            if shrink_mask >> i & 1:
                if strides[i] < 0 or not -size[dim] <= first < size[dim]:
                    return None
                index.append(first)
            else:
                bounds = None if begin_mask >> i & 1 else first, None if end_mask >> i & 1 else end[i]
                index.append(slice(*bounds, strides[i]))
            dim += 1
    return tuple(index) if ellipsis_mask else (*index, ...)


class BadSlice(ValueError):
    """A slice that no value makes valid; the text is TensorFlow's sentence."""


def resolve(rank: int, begin: Any, end: Any, strides: Any, attrs: dict[str, Any]) -> Resolved:
    """Entries of a strided slice of `rank` dimensions; `begin` etc. are sequences with None for unknown numbers."""
    count = len(begin)
    if not count == len(end) == len(strides):
        raise BadSlice("Expected begin, end, and strides to be 1D equal size tensors")
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = (attrs[name] for name in MASKS)
    ellipses = [i for i in range(count) if ellipsis_mask >> i & 1]
    if len(ellipses) > 1:
        raise BadSlice("Multiple ellipses in slice spec not allowed")
    at = ellipses[0] if ellipses else count
    new_axes_after = sum(1 for i in range(at + 1, count) if new_axis_mask >> i & 1)
    entries: list[Entry] = []
    layout: list[int] = []

    def whole(until: int) -> None:
        while len(entries) < until:
            layout.append(len(entries))
            entries.append(Entry(-1, None, None, 1, True, True, False))

    for i in range(count):
        if i == at:
            whole(min(rank - (count - i) + 1 + new_axes_after, rank))
        elif new_axis_mask >> i & 1:
            layout.append(-1)
        else:
            if len(entries) == rank:
                raise BadSlice(f"Index out of range using input dim {rank}; input has only {rank} dims")
            shrink = bool(shrink_mask >> i & 1)
            if strides[i] == 0:
                raise BadSlice(f"strides[{i}] must be non-zero")
            if shrink and strides[i] is not None and strides[i] <= 0:
                raise BadSlice("only stride 1 allowed on non-range indexing.")
            if not shrink:
                layout.append(len(entries))
            entries.append(
                Entry(
                    i,
                    begin[i],
                    end[i],
                    strides[i],
                    bool(begin_mask >> i & 1) and not shrink,
                    bool(end_mask >> i & 1) and not shrink,
                    shrink,
                )
            )
    whole(rank)
    return Resolved(entries, layout)


def _entry_size(entry: Entry, size: int | None) -> int | None:
    if entry.stride is None or size is None:
        return None
    if (entry.begin is None and not entry.begin_masked) or (entry.end is None and not entry.end_masked):
        return None
    return len(range(*entry.as_slice().indices(size)))


def sliced_shape(raw: tuple[int | None, ...], resolved: Resolved) -> tuple[int | None, ...]:
    """Shape of the result of a resolved slice; BadSlice if an index is out of bounds."""
    for dim, (entry, size) in enumerate(zip(resolved.entries, raw, strict=True)):
        if entry.shrink and entry.begin is not None and size is not None and not -size <= entry.begin < size:
            raise BadSlice(f"slice index {entry.begin} of dimension {dim} out of bounds.")
    return tuple([1 if dim < 0 else _entry_size(resolved.entries[dim], raw[dim]) for dim in resolved.layout])


# ------------------------------------------------------------------------------------------------------------- kernels
class Region(NamedTuple):
    """A slice with its numbers: per dimension a start, a size and a stride; starts may be traced scalars."""

    starts: list[Any]
    sizes: list[int]
    strides: list[int]
    shape: tuple[int, ...]
    """Shape of the result."""
    dynamic: bool


def _numbers(ctx: KernelContext, value: Any, position: int) -> list[Any]:
    """A vector's elements: Python ints where known, traced scalars (or None) elsewhere."""
    if isinstance(value, np.ndarray):
        return list(ints(value))
    numbers = ctx.known(position)
    return [None] * value.shape[0] if numbers is None else list(numbers)


def region(ctx: KernelContext, size: tuple[int, ...], operands: Any, attrs: dict[str, Any], first: int = 1) -> Region:
    """The region that begin, end and strides (`operands`, inputs `first` and on) name in a tensor of shape `size`."""
    begin, end, strides = (_numbers(ctx, value, first + i) for i, value in enumerate(operands))
    try:
        resolved = resolve(len(size), begin, end, strides, attrs)
        sliced_shape(size, resolved)
    except BadSlice as problem:
        require(ctx, False, "{0}", str(problem))
        raise
    starts: list[Any] = []
    counts: list[int] = []
    steps: list[int] = []
    dynamic = False
    for dim, entry in enumerate(resolved.entries):
        if entry.shrink:
            start = entry.begin
            if start is None:
                dynamic = True
                start = operands[0][entry.spec]
                ok = ctx.xp.logical_and(start >= -size[dim], start < size[dim])
                ctx.check(
                    ok, InvalidArgumentError, "slice index {0} of dimension {1} out of bounds.", start, np.int32(dim)
                )
                start = ctx.xp.where(start < 0, start + size[dim], start)
            elif start < 0:
                start += size[dim]
            starts.append(start)
            counts.append(1)
            steps.append(1)
        else:
            taken = range(*entry.as_slice().indices(size[dim]))
            starts.append(taken.start if len(taken) else 0)
            counts.append(len(taken))
            steps.append(taken.step)
    shape = tuple([1 if dim < 0 else counts[dim] for dim in resolved.layout])
    return Region(starts, counts, steps, shape, dynamic)


def _python_slices(part: Region) -> tuple[slice, ...]:
    slices = []
    for start, count, step in zip(part.starts, part.sizes, part.strides, strict=True):
        stop = start + count * step if count else start
        slices.append(slice(start, stop if stop >= 0 else None, step))
    return tuple(slices)


def take(ctx: KernelContext, x: Any, part: Region) -> Any:
    """The region of `x`, in the shape of the result."""
    if ctx.host:
        return x[_python_slices(part)].reshape(part.shape)
    lax = ctx.lax
    if part.dynamic:
        # Whole or stepped dimensions first, so that what is left for the dynamic slice is one position per dimension.
        starts = [start if not isinstance(start, int) else 0 for start in part.starts]
        static = part._replace(
            starts=[start if isinstance(start, int) else 0 for start in part.starts],
            sizes=[
                count if isinstance(start, int) else full
                for start, count, full in zip(part.starts, part.sizes, x.shape, strict=True)
            ],
            dynamic=False,
        )
        x = _static_take(lax, x, static)
        return lax.reshape(lax.dynamic_slice(x, _index_vector(ctx, starts), tuple(part.sizes)), part.shape)
    return lax.reshape(_static_take(lax, x, part), part.shape)


def _static_take(lax: Any, x: Any, part: Region) -> Any:
    backwards = tuple([dim for dim, step in enumerate(part.strides) if step < 0 and part.sizes[dim]])
    starts, limits, steps = [], [], []
    for start, count, step in zip(part.starts, part.sizes, part.strides, strict=True):
        low = start + (count - 1) * step if step < 0 and count else start
        starts.append(low)
        limits.append(low + (count - 1) * abs(step) + 1 if count else low)
        steps.append(abs(step) if count else 1)
    if tuple(limits) != tuple(x.shape) or any(starts) or any(step != 1 for step in steps):
        x = lax.slice(x, starts, limits, steps)
    return lax.rev(x, backwards) if backwards else x


def _index_vector(ctx: KernelContext, starts: list[Any]) -> list[Any]:
    """Start indices of one dtype."""
    dtype = next((start.dtype for start in starts if not isinstance(start, int)), np.int32)
    return [ctx.xp.asarray(start, dtype) for start in starts]


def put(ctx: KernelContext, x: Any, part: Region, value: Any) -> Any:
    """`x` with `value`, of the region's shape, in the region."""
    xp = ctx.xp
    value = xp.reshape(value, tuple(part.sizes))
    if ctx.host:
        changed = np.array(x)
        changed[_python_slices(part)] = value
        return changed
    if math.prod(part.sizes) == 0:
        return xp.asarray(x)
    if all(step == 1 for step in part.strides):
        return ctx.lax.dynamic_update_slice(x, value, _index_vector(ctx, part.starts))
    if not part.dynamic:
        return x.at[_python_slices(part)].set(value)
    spans = [
        start + np.arange(count, dtype=np.int32) * step
        for start, count, step in zip(part.starts, part.sizes, part.strides, strict=True)
    ]
    return x.at[xp.ix_(*spans)].set(value)
