"""Forms of kernels that make, join, cut and turn arrays whose sizes change; see ``open_forms.py``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import spare_arrays
from anabranch.ops.shared.open_forms import MOVED, PLAIN, Form, plain, room, takes_sizes
from anabranch.ops.shared.unchecked import Changed


def pack(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Arrays of one shape side by side."""
    dtype, rank = operands[0].dtype, operands[0].ndim
    if (not plain(operands, MOVED) and dtype.kind != "O") or any(value.ndim != rank for value in operands):
        return None
    if not -rank - 1 <= attrs["axis"] <= rank:
        return None
    axis = attrs["axis"] % (rank + 1)
    if not rank and dtype.kind != "O":
        return lambda *values: np.array(values, dtype)
    if len(operands) == 1:
        return lambda value: value.reshape((*value.shape[:axis], 1, *value.shape[axis:]))
    places = [(*(slice(None),) * axis, i, ...) for i in range(len(operands))]

    def packed(*values: Any) -> Any:
        shape = values[0].shape
        out = spare_arrays.empty(room((*shape[:axis], len(values), *shape[axis:])), dtype)
        for place, value in zip(places, values, strict=True):
            if value.shape != shape:
                raise Changed
            out[place] = value
        return out

    return packed


@takes_sizes(1)
def reshape(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """NumPy refuses what the kernel does, and sizes of -1 where nothing is left."""
    return lambda x, shape: x.reshape(shape)


@takes_sizes(0)
def fill(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """One number everywhere."""
    dtype, rank = operands[1].dtype, operands[1].ndim
    if rank or dtype not in PLAIN:
        return None

    def filled(shape: tuple[int, ...], value: Any) -> Any:
        out = np.empty(room(shape), dtype)
        out.fill(value)
        return out

    return filled


@takes_sizes(1)
def broadcast_to(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Small arrays are written out: what reads a view of them takes longer than that."""
    x, _ = operands
    dtype = x.dtype
    if dtype not in PLAIN:
        return None

    def spread(x: Any, shape: tuple[int, ...]) -> Any:
        if x.shape == shape:
            return x
        if x.ndim > len(shape) or math.prod(shape) > _LARGE:
            raise Changed
        out = np.empty(room(shape), dtype)
        out[...] = x
        return out

    return spread if operands[0].size < _LARGE else None


_LARGE = 1 << 16


def expand_dims(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """One dimension more, at a place that a form is for."""
    x, axis = operands
    if np.size(axis) != 1:
        return None
    place, rank = int(np.ravel(axis)[0]), x.ndim
    if not -rank - 1 <= place <= rank:
        return None
    place %= rank + 1
    at = (*(slice(None),) * place, None, ...)

    def expand(x: Any, axis: Any) -> Any:
        return x[at]

    expand.fixes = (1,)  # type: ignore[attr-defined]
    return expand


def squeeze(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Without dimensions that are named; which are of size 1 if none is named, sizes tell each time."""
    rank = operands[0].ndim
    if not attrs["squeeze_dims"]:
        return None
    chosen = tuple(sorted({dim % rank for dim in attrs["squeeze_dims"] if -rank <= dim < rank}))
    return (lambda x: x.squeeze(chosen)) if chosen else None


def concat(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Arrays along an axis that a form is for."""
    *values, place = operands
    first = values[0]
    if np.size(place) != 1 or any(value.dtype != first.dtype or value.ndim != first.ndim for value in values):
        return None
    axis, join = int(np.ravel(place)[0]), np.concatenate
    if not -first.ndim <= axis < first.ndim or first.dtype not in MOVED:
        return None

    def joined(*values: Any) -> Any:
        return join(values[:-1], axis)

    joined.fixes = (len(values),)  # type: ignore[attr-defined]
    return joined


def split(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Equal parts along an axis that a form is for."""
    place, x = operands
    count = attrs["num_split"]
    if count == 1 or np.size(place) != 1 or not -x.ndim <= int(np.ravel(place)[0]) < x.ndim:
        return None
    axis = int(np.ravel(place)[0]) % x.ndim
    before = (slice(None),) * axis

    def parts(_: Any, x: Any) -> Any:
        size, rest = divmod(x.shape[axis], count)
        if rest:
            raise Changed
        return [x[(*before, slice(i * size, (i + 1) * size))] for i in range(count)]

    parts.fixes = (0,)  # type: ignore[attr-defined]
    return parts


@takes_sizes(1)
def tile(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A number of copies side by side."""
    if operands[0].dtype not in MOVED:
        return None

    def copies(x: Any, times: tuple[int, ...]) -> Any:
        apart: list[int] = []
        whole: list[int] = []
        result = []
        for size, count in zip(x.shape, times, strict=True):
            apart += [1, size]
            whole += [count, size]
            result.append(count * size)
        if min(times, default=0) < 1:
            raise Changed
        return np.broadcast_to(x.reshape(apart), whole).reshape(room(tuple(result)))

    return copies


@takes_sizes(1)
def pad(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Zeros, or another number, around an array."""
    dtype, rank = operands[0].dtype, operands[0].ndim
    if dtype not in MOVED or (len(operands) > 2 and operands[2].ndim):
        return None

    def padded(x: Any, sizes: tuple[int, ...], *value: Any) -> Any:
        shape = x.shape
        if len(sizes) != 2 * rank or min(sizes, default=0) < 0:
            raise Changed
        whole = tuple([sizes[2 * i] + size + sizes[2 * i + 1] for i, size in enumerate(shape)])
        if whole == shape:
            return x
        out = spare_arrays.empty(room(whole), dtype)
        out.fill(value[0] if value else 0)
        out[tuple([slice(sizes[2 * i], sizes[2 * i] + size) for i, size in enumerate(shape)])] = x
        return out

    return padded


@takes_sizes(1, 2, settled=[2])
def window(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A part of an array."""

    def part(x: Any, begin: tuple[int, ...], size: tuple[int, ...]) -> Any:
        index = []
        for whole, start, count in zip(x.shape, begin, size, strict=True):
            end = whole if count == -1 else start + count
            if not 0 <= start <= end <= whole:
                raise Changed
            index.append(slice(start, end))
        return x[tuple(index)]

    return part


def _index(attrs: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    masks = [attrs[name] for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")]
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks

    def index(begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Any, ...]:
        if not len(begin) == len(end) == len(strides) or 0 in strides:
            raise Changed
        parts: list[Any] = []
        for i, step in enumerate(strides):
            bit = 1 << i
            if ellipsis_mask & bit:
                parts.append(...)
            elif new_axis_mask & bit:
                parts.append(None)
            elif shrink_mask & bit:
                if step < 0:
                    raise Changed
                parts.append(begin[i])
            else:
                start, stop = None if begin_mask & bit else begin[i], None if end_mask & bit else end[i]
                parts.append(slice(start, stop, step))
        return tuple(parts)

    return index


def _with_the_rest(index: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    return lambda *spec: (*index(*spec), ...)


@takes_sizes(1, 2, 3, settled=[])
def strided(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A strided slice: NumPy's, whose bounds are cut off where TensorFlow cuts them off."""
    x = operands[0]
    if x.dtype not in MOVED and x.dtype != object:
        return None
    # What is left of an array of objects is an array, too, and not the one object in it.
    index = _index(attrs) if x.dtype != object or attrs["ellipsis_mask"] else _with_the_rest(_index(attrs))
    kept: dict[Any, Any] = {}

    def part(x: Any, *spec: tuple[int, ...]) -> Any:
        at = kept.get(spec)
        if at is None:
            at = index(*spec)
            if len(kept) < 64:
                kept[spec] = at
        try:
            return x[at]
        except IndexError:
            raise Changed from None

    return part


@takes_sizes(0, 1, 2, 3, settled=[0])
def strided_gradient(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Zeros around a strided slice."""
    dtype = operands[4].dtype
    if dtype not in PLAIN:
        return None
    index = _index(attrs)

    def put(shape: tuple[int, ...], begin: Any, end: Any, strides: Any, dy: Any) -> Any:
        out = np.zeros(room(shape), dtype)
        try:
            at = index(begin, end, strides)
            if np.shape(out[at]) != dy.shape:
                raise Changed
            out[at] = dy
        except IndexError:
            raise Changed from None
        return out

    return put
