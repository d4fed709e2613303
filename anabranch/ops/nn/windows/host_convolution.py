"""Convolutions in NumPy for any number of spatial dimensions: the interpreted tier's kernels, channels last.

Policy. Each of the three products (output, input gradient, filter gradient) is a matrix product over windows, which are
copied out block by block: a block's windows stay in the cache between the copy and the product, and whole rows of a
window with all their channels are adjacent, so that the copy is one of long runs. The input gradient of steps of one
is the output of the turned filter over the gradient, or, as that of longer steps, a product whose columns are added to
where they belong: whichever costs less (:func:`_turning_pays`; a window nearly as wide as the input has few places and
many entries). Groups are a loop. Two-byte floats are computed in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.ops.nn.windows.geometry import (
    Axis,
    covered_axis,
    fold_filter,
    from_channels,
    pad_spatial,
    tap,
    without_axis,
)
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.widening import widen

BLOCK = 1 << 20
"""Bytes of windows that are copied out at a time."""
COPY, ADD, RUN, MULTIPLY = 0.5, 2.5, 40.0, 1 / 30
"""Nanoseconds of an entry that is copied to a window or added from one, of a run of channels that is added, of a
product; measured on one thread.
"""


def _windows(x: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """``[batch, *out, *window, channels]``, a view."""
    padded = pad_spatial(np, x, axes)
    spatial = tuple(range(1, 1 + len(axes)))
    view = np.lib.stride_tricks.sliding_window_view(padded, tuple(a.extent for a in axes), axis=spatial)
    steps = tuple(slice(0, (a.out - 1) * a.stride + 1, a.stride) for a in axes)
    view = view[(slice(None), *steps, slice(None), *(slice(None, None, a.dilation) for a in axes))]
    return np.moveaxis(view, 1 + len(axes), -1)


def _blocks(positions: Sequence[int], size: int) -> Iterator[tuple[slice, ...]]:
    """Parts of ``[batch, rows, ...]`` positions of which each takes ``size`` bytes: some of the batch, or of an
    element's rows.
    """
    batch, rows = positions[0], positions[1]
    row = max(1, size * math.prod(positions[2:]))
    if row * rows <= BLOCK:
        step = max(1, BLOCK // (row * rows))
        yield from ((slice(i, i + step),) for i in range(0, batch, step))
        return
    step = max(1, BLOCK // row)
    yield from ((slice(i, i + 1), slice(j, j + step)) for i in range(batch) for j in range(0, rows, step))


class _Rows:
    """Memory that blocks of windows are copied to, one after the other; the first is the largest."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._memory: np.ndarray | None = None

    def of(self, windows: np.ndarray) -> np.ndarray:
        """``[positions, columns]``, valid until the next call."""
        count = windows.size // self._columns
        if self._memory is None or len(self._memory) < count:
            self._memory = np.empty((count, self._columns), windows.dtype)
        rows = self._memory[:count]
        np.copyto(rows.reshape(windows.shape), windows)
        return rows


def _positions(axes: Sequence[Axis]) -> Any:
    return itertools.product(*(range(a.window) for a in axes))


@host_blas.on_one_thread(lambda *_: host_blas.LARGE - 1)  # block by block, none of them is large
def forward(x: np.ndarray, f: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """``[batch, *size, in]`` and ``[*window, in / groups, out]`` -> ``[batch, *out, out]``."""
    n, per_group, features = len(axes), f.shape[-2], f.shape[-1]
    shape = (x.shape[0], *(a.out for a in axes), features)
    if 0 in shape or 0 in x.shape or 0 in f.shape:
        return np.zeros(shape, x.dtype)
    groups = x.shape[-1] // per_group
    wide, kernel = widen(x), widen(f)
    view = _windows(wide, axes)
    columns = math.prod(f.shape[:-1])
    each = features // groups
    rows = _Rows(columns)
    result = np.empty(shape, wide.dtype)
    for i in range(groups):
        windows = view[..., i * per_group : (i + 1) * per_group]
        into = result[..., i * each : (i + 1) * each]
        part = kernel[..., i * each : (i + 1) * each].reshape(columns, each)
        for block in _blocks(shape[: 1 + n], columns * wide.itemsize):
            target = into[block]
            if groups == 1:
                np.matmul(rows.of(windows[block]), part, out=target.reshape(-1, each))
            else:
                target[...] = (rows.of(windows[block]) @ part).reshape(target.shape)
    return result.astype(x.dtype, copy=False)


@host_blas.on_one_thread(lambda *_: host_blas.LARGE - 1)  # block by block, none of them is large
def input_gradient(g: np.ndarray, f: np.ndarray, axes: Sequence[Axis], channels: int) -> np.ndarray:
    """The gradient of the input ``[batch, *size, channels]`` from that of the output."""
    per_group, features = f.shape[-2], f.shape[-1]
    if 0 in g.shape:
        return np.zeros((g.shape[0], *(axis.size for axis in axes), channels), g.dtype)
    groups = max(channels // per_group, 1) if per_group else 1
    each = features // groups
    covered = covered_axis(axes) if groups == 1 else None
    if covered is not None:
        slope = input_gradient(g, fold_filter(np, f, covered), without_axis(axes, covered), channels * f.shape[covered])
        return from_channels(np, slope, covered + 1, f.shape[covered])
    if 0 not in g.shape and 0 not in f.shape and channels and _turning_pays(axes, per_group, each):
        turned = np.flip(f, tuple(range(len(axes))))
        by_group = turned.reshape(*turned.shape[:-1], groups, each)
        filters = np.swapaxes(by_group, -1, -3).reshape(*turned.shape[:-2], each, groups * per_group)
        return forward(g, filters, [_turned(axis) for axis in axes])
    wide, kernel = widen(g), widen(f)
    if all(a.dilation == 1 and a.window % a.stride == 0 for a in axes) and 0 not in g.shape and 0 not in f.shape:
        padded = _tiled_input_gradient(wide, kernel, axes, groups)
    else:
        lengths = [max(a.size + a.before + max(a.after, 0), a.extent) for a in axes]
        padded = np.zeros((g.shape[0], *lengths, channels), wide.dtype)
        window = f.shape[:-2]
        columns = math.prod(window) * per_group
        step = max(1, BLOCK // max(1, columns * wide.itemsize * math.prod(g.shape[1:-1])))
        for i in range(groups):
            part = kernel[..., i * each : (i + 1) * each].reshape(columns, each).T
            for first in range(0, g.shape[0], step):
                block = wide[first : first + step, ..., i * each : (i + 1) * each]
                shares = (block.reshape(-1, each) @ part).reshape(*block.shape[:-1], *window, per_group)
                into = padded[first : first + step, ..., i * per_group : (i + 1) * per_group]
                for offsets in _positions(axes):
                    target = tap(into, axes, offsets)
                    target += shares[(*[slice(None)] * (1 + len(axes)), *offsets)]
    return padded[(slice(None), *(slice(a.before, a.before + a.size) for a in axes))].astype(g.dtype, copy=False)


def _turning_pays(axes: Sequence[Axis], channels: int, features: int) -> bool:
    """Whether the turned filter over the gradient costs less than adding each place's share of the input."""
    if any(axis.stride > 1 or axis.before >= axis.extent for axis in axes):  # or windows of nothing but padding
        return False
    turned = math.prod(axis.size for axis in axes) * features * (COPY + channels * MULTIPLY)
    added = math.prod(axis.out for axis in axes) * channels * (ADD + RUN / channels + features * MULTIPLY)
    return turned <= added


def _tiled_input_gradient(g: np.ndarray, f: np.ndarray, axes: Sequence[Axis], groups: int) -> np.ndarray:
    """The gradient of the padded input, where windows are whole numbers of steps: cut into tiles of a step, of which
    what one position gives to all channels is added at a time.
    """
    n, per_group, each = len(axes), f.shape[-2], f.shape[-1] // groups
    tiles = [axis.window // axis.stride for axis in axes]
    steps = [axis.stride for axis in axes]
    lengths = [
        max(axis.out - 1 + tile, -(-(axis.before + axis.size) // axis.stride))
        for axis, tile in zip(axes, tiles, strict=True)
    ]
    form = [size for pair in zip(lengths, steps, strict=True) for size in pair]
    result = np.zeros((g.shape[0], *form, groups * per_group), g.dtype)
    columns = math.prod(tiles) * math.prod(steps) * per_group
    batch = max(1, BLOCK // max(1, columns * g.itemsize * math.prod(g.shape[1:-1])))
    pairs = [size for pair in zip(tiles, steps, strict=True) for size in pair]
    order = [0, *(axis for i in range(n) for axis in (1 + i, 1 + n + i)), 1 + 2 * n]
    for i in range(groups):
        part = np.ascontiguousarray(f[..., i * each : (i + 1) * each].reshape(columns, each).T)
        for first in range(0, g.shape[0], batch):
            block = g[first : first + batch, ..., i * each : (i + 1) * each]
            shares = (block.reshape(-1, each) @ part).reshape(*block.shape[:-1], *pairs, per_group)
            into = result[first : first + batch, ..., i * per_group : (i + 1) * per_group]
            for tile in itertools.product(*map(range, tiles)):
                places = [cut for t, a in zip(tile, axes, strict=True) for cut in (slice(t, t + a.out), slice(None))]
                share = [slice(None)] * (1 + n) + [cut for t in tile for cut in (t, slice(None))]
                target = into[(slice(None), *places)]
                target += shares[tuple(share)].transpose(order)
    whole = [length * step for length, step in zip(lengths, steps, strict=True)]
    return result.reshape(g.shape[0], *whole, groups * per_group)


def _turned(axis: Axis) -> Axis:
    """How the turned filter moves over the gradient of a convolution with steps of one."""
    return Axis(axis.out, axis.window, 1, axis.dilation, axis.size, axis.extent - 1 - axis.before)


@host_blas.on_one_thread(lambda *_: host_blas.LARGE - 1)  # block by block, none of them is large
def filter_gradient(x: np.ndarray, g: np.ndarray, axes: Sequence[Axis], per_group: int) -> np.ndarray:
    """The gradient of the filter ``[*window, per_group, out]`` from that of the output."""
    n, features = len(axes), g.shape[-1]
    shape = (*(a.window for a in axes), per_group, features)
    if 0 in shape or 0 in x.shape or 0 in g.shape:
        return np.zeros(shape, x.dtype)
    groups = x.shape[-1] // per_group
    wide, grad = widen(x), widen(g)
    view = _windows(wide, axes)
    each = features // groups
    columns = math.prod(shape[:-1])
    rows = _Rows(columns)
    parts = []
    for i in range(groups):
        windows = view[..., i * per_group : (i + 1) * per_group]
        gradient = grad[..., i * each : (i + 1) * each]
        total = np.zeros((columns, each), wide.dtype)
        for block in _blocks(g.shape[: 1 + n], columns * wide.itemsize):
            total += rows.of(windows[block]).T @ gradient[block].reshape(-1, each)
        parts.append(total.reshape(*shape[:-1], each))
    return (parts[0] if groups == 1 else np.concatenate(parts, -1)).astype(x.dtype, copy=False)
