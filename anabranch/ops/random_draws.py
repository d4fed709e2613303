"""What is drawn from a Philox stream: uniform and normal numbers, truncated ones, integers, categories.

Each function takes a kernel's context and a stream ``(key uint32[2], counter uint32[4])``, so that ops with a stream of
their own and ops with a seed as input share it. Elements come from the stream's words in TensorFlow's order: for the
same stream, uniform numbers and integers are the very same, normal ones up to the last bits of sine and logarithm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.ops import philox

Stream = tuple[Any, Any]

RESERVED = 256
"""Blocks that an op reserves for an element, whatever it uses."""


def uniform(ctx: Any, stream: Stream, count: int, dtype: np.dtype) -> Any:
    """``count`` uniform numbers in [0, 1) of ``dtype``."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    if dtype == np.float64:
        bits = philox.words(xp, stream, 2 * count).reshape(-1, 2)
        return philox.float64(xp, bits[:, 0], bits[:, 1], view)
    bits = philox.words(xp, stream, count)
    if dtype == np.float32:
        return philox.float32(xp, bits, view)
    if dtype == np.float16:
        small = ((bits & np.uint32(0x3FF)) | np.uint32(15 << 10)).astype(np.uint16)
        return view(small, np.float16) - np.float16(1)
    small = ((bits & np.uint32(0x7F)) | np.uint32(127 << 7)).astype(np.uint16)
    return (view(small, dtype).astype(np.float32) - np.float32(1)).astype(dtype)


def unsigned(xp: Any, stream: Stream, count: int, wide: bool) -> Any:
    """``count`` integers of 32 bits, or of 64 if ``wide``."""
    if not wide:
        return philox.words(xp, stream, count)
    pairs = philox.words(xp, stream, 2 * count).reshape(-1, 2)
    return pairs[:, 0].astype(np.uint64) | (pairs[:, 1].astype(np.uint64) << np.uint64(32))


def integers(ctx: Any, stream: Stream, count: int, low: Any, high: Any, dtype: np.dtype) -> Any:
    """``count`` integers in ``[low, high)`` of ``dtype``; fails the step unless ``low < high``."""
    xp = ctx.xp
    kind = np.uint32 if dtype == np.int32 else np.uint64
    low, high = xp.asarray(low), xp.asarray(high)
    ctx.check(
        (low < high).all() if count else True,
        errors.InvalidArgumentError,
        "Need minval < maxval, got {0} >= {1}",
        low,
        high,
    )
    bits = unsigned(xp, stream, count, kind == np.uint64)
    start = low.astype(kind)
    span = high.astype(kind) - start
    span = xp.where(span == 0, kind(1), span)  # refused above; never divide by zero on the way
    return (bits % span + start).astype(dtype)


def _box_muller(ctx: Any, first: Any, second: Any, real: Any) -> tuple[Any, Any]:
    """Two normal numbers from two uniform ones (Box and Muller, 1958), in TensorFlow's order: sine, then cosine."""
    xp = ctx.xp
    if not ctx.host:
        # Without the barrier XLA computes the generator anew inside each use of its words.
        first, second = ctx.lax.optimization_barrier((first, second))
    radius = xp.sqrt(real(-2.0) * xp.log(xp.maximum(first, real(1.0e-7))))
    angle = real(2.0 * math.pi) * second
    return xp.sin(angle) * radius, xp.cos(angle) * radius


def normals(ctx: Any, stream: Stream, offsets: Any, double: bool) -> Any:
    """Normal numbers of the blocks at ``offsets``: ``[..., 4]`` float32, or ``[..., 2]`` float64."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    a, b, c, d = philox.blocks(xp, stream, offsets)
    if double:
        pair = _box_muller(ctx, philox.float64(xp, a, b, view), philox.float64(xp, c, d, view), np.float64)
        return xp.stack(pair, axis=-1)
    one = _box_muller(ctx, philox.float32(xp, a, view), philox.float32(xp, b, view), np.float32)
    two = _box_muller(ctx, philox.float32(xp, c, view), philox.float32(xp, d, view), np.float32)
    return xp.stack((*one, *two), axis=-1)


def normal(ctx: Any, stream: Stream, count: int, dtype: np.dtype) -> Any:
    """``count`` normal numbers of mean 0 and deviation 1."""
    double = dtype == np.float64
    number = -(-count // (2 if double else 4))
    return normals(ctx, stream, ctx.xp.arange(number, dtype=np.uint64), double).reshape(-1)[:count].astype(dtype)


def _first_accepted(xp: Any, drawn: Any, size: int) -> tuple[Any, Any]:
    """The first ``size`` numbers of each row that lie within two deviations, and whether the row has so many."""
    accepted = xp.abs(drawn) < drawn.dtype.type(2.0)
    rank = xp.cumsum(accepted, axis=1) - 1
    found = [
        xp.sum(xp.where(accepted & (rank == i), drawn, drawn.dtype.type(0)), axis=1, dtype=drawn.dtype)
        for i in range(size)
    ]
    return xp.stack(found, axis=1), rank[:, -1] >= size - 1


def _truncated_groups(ctx: Any, stream: Stream, groups: int, stride: int, size: int, double: bool) -> Any:
    xp = ctx.xp
    start = xp.arange(groups, dtype=np.uint64) * np.uint64(stride)

    def attempt(blocks: int) -> tuple[Any, Any]:
        offsets = start[:, None] + xp.arange(blocks, dtype=np.uint64)
        return _first_accepted(xp, normals(ctx, stream, offsets, double).reshape(groups, -1), size)

    few, many = (6, 24) if double else (3, 12)
    first, enough = attempt(few)
    # One row in five billion needs more.
    return ctx.lax.cond(enough.all(), lambda: first, lambda: attempt(many)[0])


def _truncated_groups_on_host(
    ctx: Any, stream: Stream, groups: int, stride: int, size: int, double: bool
) -> np.ndarray:
    found = np.empty((groups, size), np.float64 if double else np.float32)
    todo = np.arange(groups, dtype=np.uint64)
    tries = 1
    while todo.size:
        offsets = (todo * np.uint64(stride))[:, None] + np.arange(tries, dtype=np.uint64)
        drawn = normals(ctx, stream, offsets, double).reshape(todo.size, -1)
        accepted = np.abs(drawn) < 2.0
        enough = accepted.sum(1) >= size
        good, mask = drawn[enough], accepted[enough]
        mask &= np.cumsum(mask, axis=1) <= size
        found[todo[enough].astype(np.int64)] = good[mask].reshape(-1, size)
        todo = todo[~enough]
        tries = min(4 * tries, stride)
    return found


def truncated_normal(ctx: Any, stream: Stream, count: int, dtype: np.dtype) -> Any:
    """``count`` normal numbers within two deviations.

    Each group of four (two for float64) has a stretch of the stream to itself and takes the first numbers in it that
    pass.
    """
    double = dtype == np.float64
    size = 2 if double else 4
    stride = size * RESERVED // 4
    groups = -(-count // size)
    if groups == 0:
        return ctx.xp.zeros((0,), dtype)
    make = _truncated_groups_on_host if ctx.host else _truncated_groups
    return make(ctx, stream, groups, stride, size, double).reshape(-1)[:count].astype(dtype)


def categories(ctx: Any, stream: Stream, logits: Any, samples: int, dtype: np.dtype) -> Any:
    """Numbers of classes ``[rows, samples]`` drawn by unnormalised log-probabilities ``[rows, classes]``."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    rows, classes = logits.shape
    ctx.check(
        classes > 0 or rows * samples == 0,
        errors.InvalidArgumentError,
        "num_classes should be positive, got {0}",
        classes,
    )
    if rows * samples == 0 or classes == 0:
        return xp.zeros((rows, samples), dtype)
    wide = logits.astype(np.float64)
    finite = xp.isfinite(wide)
    top = xp.max(xp.where(finite, wide, -np.inf), axis=1, keepdims=True)
    cumulated = xp.cumsum(xp.where(finite, xp.exp(wide - top), 0.0), axis=1)
    bits = philox.words(xp, stream, 2 * rows * samples).reshape(rows, samples, 2)
    drawn = philox.float64(xp, bits[..., 0], bits[..., 1], view) * cumulated[:, -1:]
    # The first class whose cumulated weight exceeds the drawn one.
    if ctx.host:
        found = np.stack([np.searchsorted(c, d, side="right") for c, d in zip(cumulated, drawn, strict=True)])
    else:
        found = xp.sum(cumulated[:, None, :] <= drawn[:, :, None], axis=2)
    return xp.minimum(found, classes - 1).astype(dtype)
