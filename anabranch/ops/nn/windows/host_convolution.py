"""Convolutions in NumPy for any number of spatial dimensions: the interpreted tier's kernels, channels last.

Policy. Windows are views of the padded input, and each of the three products (output, input gradient, filter
gradient) is a ``tensordot`` over them. Groups are a loop. Two-byte floats are computed in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.ops.nn.windows.geometry import Axis, pad_spatial, tap
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.widening import widen


def _windows(x: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """``[batch, *out, channels, *window]``, a view."""
    padded = pad_spatial(np, x, axes)
    spatial = tuple(range(1, 1 + len(axes)))
    view = np.lib.stride_tricks.sliding_window_view(padded, tuple(a.extent for a in axes), axis=spatial)
    steps = tuple(slice(0, (a.out - 1) * a.stride + 1, a.stride) for a in axes)
    return view[(slice(None), *steps, slice(None), *(slice(None, None, a.dilation) for a in axes))]


def _positions(axes: Sequence[Axis]) -> Any:
    return itertools.product(*(range(a.window) for a in axes))


@host_blas.on_one_thread(lambda x, f, axes: x.size * math.prod(f.shape[:-2]) * f.shape[-1])
def forward(x: np.ndarray, f: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """``[batch, *size, in]`` and ``[*window, in / groups, out]`` -> ``[batch, *out, out]``."""
    n, per_group, features = len(axes), f.shape[-2], f.shape[-1]
    shape = (x.shape[0], *(a.out for a in axes), features)
    if 0 in shape or 0 in x.shape or 0 in f.shape:
        return np.zeros(shape, x.dtype)
    groups = x.shape[-1] // per_group
    wide, kernel = widen(x), widen(f)
    view = _windows(wide, axes)
    window_axes = (1 + n, *range(2 + n, 2 + 2 * n))
    parts = [
        np.tensordot(
            view[(slice(None),) * (1 + n) + (slice(i * per_group, (i + 1) * per_group),)],
            kernel[..., i * (features // groups) : (i + 1) * (features // groups)],
            (window_axes, (n, *range(n))),
        )
        for i in range(groups)
    ]
    return (parts[0] if groups == 1 else np.concatenate(parts, -1)).astype(x.dtype)


@host_blas.on_one_thread(lambda g, f, axes, channels: g.size * math.prod(f.shape[:-1]))
def input_gradient(g: np.ndarray, f: np.ndarray, axes: Sequence[Axis], channels: int) -> np.ndarray:
    """The gradient of the input ``[batch, *size, channels]`` from that of the output."""
    per_group, features = f.shape[-2], f.shape[-1]
    groups = max(channels // per_group, 1) if per_group else 1
    wide, kernel = widen(g), widen(f)
    padded = np.zeros(
        (g.shape[0], *(max(a.size + a.before + max(a.after, 0), a.extent) for a in axes), channels), wide.dtype
    )
    for i in range(groups):
        into = padded[..., i * per_group : (i + 1) * per_group]
        cut = slice(i * (features // groups), (i + 1) * (features // groups))
        for offsets in _positions(axes):
            target = tap(into, axes, offsets)
            target += wide[..., cut] @ kernel[offsets][:, cut].T
    return padded[(slice(None), *(slice(a.before, a.before + a.size) for a in axes))].astype(g.dtype)


@host_blas.on_one_thread(lambda x, g, axes, per_group: g.size * math.prod(a.window for a in axes) * per_group)
def filter_gradient(x: np.ndarray, g: np.ndarray, axes: Sequence[Axis], per_group: int) -> np.ndarray:
    """The gradient of the filter ``[*window, per_group, out]`` from that of the output."""
    n, features = len(axes), g.shape[-1]
    shape = (*(a.window for a in axes), per_group, features)
    if 0 in shape or 0 in x.shape or 0 in g.shape:
        return np.zeros(shape, x.dtype)
    groups = x.shape[-1] // per_group
    wide, grad = widen(x), widen(g)
    view = _windows(wide, axes)
    summed = tuple(range(1 + n))
    each = features // groups
    parts = [
        np.moveaxis(
            np.tensordot(
                view[(slice(None),) * (1 + n) + (slice(i * per_group, (i + 1) * per_group),)],
                grad[..., i * each : (i + 1) * each],
                (summed, summed),
            ),
            0,
            n,
        )
        for i in range(groups)
    ]
    return (parts[0] if groups == 1 else np.concatenate(parts, -1)).astype(x.dtype)


def depthwise_input_gradient(g: np.ndarray, f: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """The gradient of the input of a depthwise convolution whose filter is ``[*window, in, multiplier]``."""
    channels, multiplier = f.shape[-2:]
    wide, kernel = widen(g), widen(f)
    wide = wide.reshape(wide.shape[:-1] + (channels, multiplier))
    padded = np.zeros(
        (g.shape[0], *(max(a.size + a.before + max(a.after, 0), a.extent) for a in axes), channels), wide.dtype
    )
    for offsets in _positions(axes):
        target = tap(padded, axes, offsets)
        target += np.sum(wide * kernel[offsets], axis=-1)
    return padded[(slice(None), *(slice(a.before, a.before + a.size) for a in axes))].astype(g.dtype)
