"""Depthwise convolutions of images in NumPy: the interpreted tier's kernels, channels last.

Policy. Each of the three products is a sum over the window's entries of shifted images times a filter of one number for
each channel. A row of an image with all its channels is one run, for which the filter's numbers are repeated, as few
channels alone would leave NumPy's inner loop short. Where windows are more than one step apart, the columns that one
entry of them meets are brought together first. Some images are taken at a time, so that they stay in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.ops.nn.windows.geometry import Axis, pad_spatial
from anabranch.ops.shared.widening import widen

BLOCK = 1 << 15
"""Elements of an output that are computed at a time."""


def _entries(axes: Sequence[Axis], channels: int) -> Iterator[tuple[int, int, int, slice, slice]]:
    """Of each entry of a window its place, which part of the columns it meets, and where in it rows and runs lie."""
    high, wide = axes
    for i in range(high.window):
        first = i * high.dilation
        rows = slice(first, first + (high.out - 1) * high.stride + 1, high.stride)
        for j in range(wide.window):
            start, part = divmod(j * wide.dilation, wide.stride)
            yield i, j, part, rows, slice(start * channels, (start + wide.out) * channels)


def _parts(padded: np.ndarray, wide: Axis) -> list[np.ndarray]:
    """``[images, rows, columns * channels]`` of the columns that are whole steps from the first, the second, ..."""
    n, rows = padded.shape[:2]
    return [padded[:, :, part :: wide.stride].reshape(n, rows, -1) for part in range(min(wide.stride, wide.extent))]


def _blocks(images: int, each: int) -> Iterator[slice]:
    step = max(1, BLOCK // max(1, each))
    return (slice(first, first + step) for first in range(0, images, step))


def forward(x: np.ndarray, f: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """``[batch, height, width, in]`` and ``[*window, in, multiplier]`` -> ``[batch, *out, in * multiplier]``."""
    high, wide = axes
    kernel, channels = widen(f), f.shape[2] * f.shape[3]
    values = widen(x)
    out = np.empty((x.shape[0], high.out, wide.out * channels), values.dtype)
    filters = np.tile(kernel.reshape(high.window, wide.window, channels), wide.out)
    for block in _blocks(x.shape[0], out[:1].size):
        images = pad_spatial(np, values[block], axes)
        parts = _parts(np.repeat(images, f.shape[3], -1) if f.shape[3] > 1 else images, wide)
        target = out[block]
        share = np.empty_like(target)
        for i, j, part, rows, run in _entries(axes, channels):
            first = i == j == 0
            np.multiply(parts[part][:, rows, run], filters[i, j], target if first else share)
            if not first:
                target += share
    return out.reshape(x.shape[0], high.out, wide.out, channels).astype(x.dtype, copy=False)


def input_gradient(g: np.ndarray, f: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """The gradient of the input ``[batch, height, width, in]`` from that of the output."""
    high, wide = axes
    kernel, grad = widen(f), widen(g)
    inputs, times = f.shape[2:]
    channels = inputs * times
    lengths = [max(a.size + a.before + max(a.after, 0), a.extent) for a in axes]
    each = -(-lengths[1] // wide.stride)
    out = np.empty((g.shape[0], high.size, wide.size, inputs), grad.dtype)
    filters = np.tile(kernel.reshape(high.window, wide.window, channels), wide.out)
    for block in _blocks(g.shape[0], g[:1].size):
        source = grad[block].reshape(-1, high.out, wide.out * channels)
        share = np.empty_like(source)
        parts = np.zeros((source.shape[0], lengths[0], wide.stride, each * channels), grad.dtype)
        for i, j, part, rows, run in _entries(axes, channels):
            target = parts[:, rows, part, run]
            target += np.multiply(source, filters[i, j], share)
        whole = parts.reshape(*parts.shape[:3], each, channels).swapaxes(2, 3)
        whole = whole.reshape(*parts.shape[:2], each * wide.stride, channels)
        cut = whole[:, high.before : high.before + high.size, wide.before : wide.before + wide.size]
        out[block] = cut if times == 1 else cut.reshape(*cut.shape[:3], inputs, times).sum(-1)
    return out.astype(g.dtype, copy=False)


def filter_gradient(x: np.ndarray, g: np.ndarray, axes: Sequence[Axis], multiplier: int) -> np.ndarray:
    """The gradient of the filter ``[*window, in, multiplier]`` from that of the output."""
    high, wide = axes
    values, grad, channels = widen(x), widen(g), g.shape[-1]
    total: Any = np.zeros((high.window, wide.window, wide.out * channels), grad.dtype)
    for block in _blocks(g.shape[0], g[:1].size):
        images = pad_spatial(np, values[block], axes)
        parts = _parts(np.repeat(images, multiplier, -1) if multiplier > 1 else images, wide)
        source = grad[block].reshape(-1, high.out, wide.out * channels)
        share = np.empty_like(source)
        for i, j, part, rows, run in _entries(axes, channels):
            total[i, j] += np.multiply(parts[part][:, rows, run], source, share).sum((0, 1))
    sums = total.reshape(high.window, wide.window, wide.out, channels).sum(2)
    return sums.reshape(high.window, wide.window, -1, multiplier).astype(x.dtype, copy=False)
