"""Random ops: uniform, normal, truncated normal, shuffles and draws from categories, from Philox streams.

An execution reserves blocks by TensorFlow's rule (256 words an output, whatever it uses), so that streams of successive
runs never overlap and stay where TensorFlow's are. Elements come from the stream's words in TensorFlow's order too: for
the same seeds, uniform numbers and integers are the very same, normal ones up to the last bits of sine and logarithm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.opdef import RANDOM, Int, NotDifferentiable, Op, Type
from anabranch.ops import philox

_FLOATS = "half bfloat16 float double"
_DRAWN = NotDifferentiable("random numbers do not depend on the inputs")
_RESERVED = 256


def _shape_of(c: Any) -> Any:
    dims = c.vector("shape")
    if dims is None:
        return None
    for dim in dims:
        if dim is not None and dim < 0:
            raise ValueError(
                errors.message(f"a random tensor of shape {dims}", "sizes of at least 0", "check the shape")
            )
    return tuple(dims)


def _reserve(c: Any) -> int:
    return _count(c.value("shape")) * _RESERVED


def _count(shape: Any) -> int:
    return int(np.prod(np.asarray(shape), dtype=np.int64))


def _dims(shape: Any) -> tuple[int, ...]:
    return tuple(int(dim) for dim in np.asarray(shape).ravel())


def uniform(ctx: Any, count: int, dtype: np.dtype) -> Any:
    """``count`` uniform numbers in [0, 1) of ``dtype``."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    if dtype == np.float64:
        bits = philox.words(xp, ctx.philox, 2 * count).reshape(-1, 2)
        return philox.float64(xp, bits[:, 0], bits[:, 1], view)
    bits = philox.words(xp, ctx.philox, count)
    if dtype == np.float32:
        return philox.float32(xp, bits, view)
    if dtype == np.float16:
        small = ((bits & np.uint32(0x3FF)) | np.uint32(15 << 10)).astype(np.uint16)
        return view(small, np.float16) - np.float16(1)
    small = ((bits & np.uint32(0x7F)) | np.uint32(127 << 7)).astype(np.uint16)
    return (view(small, dtype).astype(np.float32) - np.float32(1)).astype(dtype)


def _box_muller(ctx: Any, first: Any, second: Any, real: Any) -> tuple[Any, Any]:
    """Two normal numbers from two uniform ones (Box and Muller, 1958), in TensorFlow's order: sine, then cosine."""
    xp = ctx.xp
    if not ctx.host:
        # Without the barrier XLA computes the generator anew inside each use of its words.
        first, second = ctx.lax.optimization_barrier((first, second))
    radius = xp.sqrt(real(-2.0) * xp.log(xp.maximum(first, real(1.0e-7))))
    angle = real(2.0 * math.pi) * second
    return xp.sin(angle) * radius, xp.cos(angle) * radius


def normals(ctx: Any, offsets: Any, double: bool) -> Any:
    """Normal numbers of the blocks at ``offsets``: ``[..., 4]`` float32, or ``[..., 2]`` float64."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    a, b, c, d = philox.blocks(xp, ctx.philox, offsets)
    if double:
        pair = _box_muller(ctx, philox.float64(xp, a, b, view), philox.float64(xp, c, d, view), np.float64)
        return xp.stack(pair, axis=-1)
    one = _box_muller(ctx, philox.float32(xp, a, view), philox.float32(xp, b, view), np.float32)
    two = _box_muller(ctx, philox.float32(xp, c, view), philox.float32(xp, d, view), np.float32)
    return xp.stack((*one, *two), axis=-1)


class RandomUniform(Op):
    """Uniform numbers in [0, 1), of shape ``shape``."""

    signature = "shape: T -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type(_FLOATS), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = _shape_of
    consumes = _reserve
    gradient = _DRAWN

    def kernel(ctx, inputs, attrs):
        dims = _dims(inputs[0])
        return uniform(ctx, math.prod(dims), attrs["dtype"].np).reshape(dims)


class RandomUniformInt(Op):
    """Uniform integers in ``[minval, maxval)``, of shape ``shape``."""

    signature = "shape: T, minval: Tout, maxval: Tout -> output: Tout"
    attrs = {"seed": Int(0), "seed2": Int(0), "Tout": Type("int32 int64"), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = _shape_of
    consumes = _reserve
    gradient = _DRAWN

    def kernel(ctx, inputs, attrs):
        shape, low, high = inputs
        dims = _dims(shape)
        count = math.prod(dims)
        xp = ctx.xp
        dtype = attrs["Tout"].np
        unsigned = np.uint32 if dtype == np.int32 else np.uint64
        low, high = xp.asarray(low), xp.asarray(high)
        ctx.check(
            (low < high).all() if count else True,
            errors.InvalidArgumentError,
            "Need minval < maxval, got {0} >= {1}",
            low,
            high,
        )
        if dtype == np.int32:
            bits = philox.words(xp, ctx.philox, count)
        else:
            pairs = philox.words(xp, ctx.philox, 2 * count).reshape(-1, 2)
            bits = pairs[:, 0].astype(np.uint64) | (pairs[:, 1].astype(np.uint64) << np.uint64(32))
        start = low.astype(unsigned)
        span = high.astype(unsigned) - start
        span = xp.where(span == 0, unsigned(1), span)  # refused above; never divide by zero on the way
        return (bits % span + start).astype(dtype).reshape(dims)


class RandomStandardNormal(Op):
    """Normal numbers of mean 0 and deviation 1, of shape ``shape``."""

    signature = "shape: T -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type(_FLOATS), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = _shape_of
    consumes = _reserve
    gradient = _DRAWN

    def kernel(ctx, inputs, attrs):
        dims = _dims(inputs[0])
        dtype = attrs["dtype"].np
        double = dtype == np.float64
        count = math.prod(dims)
        number = -(-count // (2 if double else 4))
        drawn = normals(ctx, ctx.xp.arange(number, dtype=np.uint64), double).reshape(-1)[:count]
        return drawn.astype(dtype).reshape(dims)


def _first_accepted(xp: Any, drawn: Any, size: int) -> tuple[Any, Any]:
    """The first ``size`` numbers of each row that lie within two deviations, and whether the row has so many."""
    accepted = xp.abs(drawn) < drawn.dtype.type(2.0)
    rank = xp.cumsum(accepted, axis=1) - 1
    found = [
        xp.sum(xp.where(accepted & (rank == i), drawn, drawn.dtype.type(0)), axis=1, dtype=drawn.dtype)
        for i in range(size)
    ]
    return xp.stack(found, axis=1), rank[:, -1] >= size - 1


def _truncated_host(ctx: Any, groups: int, stride: int, size: int, double: bool) -> np.ndarray:
    found = np.empty((groups, size), np.float64 if double else np.float32)
    todo = np.arange(groups, dtype=np.uint64)
    tries = 1
    while todo.size:
        offsets = (todo * np.uint64(stride))[:, None] + np.arange(tries, dtype=np.uint64)
        drawn = normals(ctx, offsets, double).reshape(todo.size, -1)
        accepted = np.abs(drawn) < 2.0
        enough = accepted.sum(1) >= size
        good, mask = drawn[enough], accepted[enough]
        mask &= np.cumsum(mask, axis=1) <= size
        found[todo[enough].astype(np.int64)] = good[mask].reshape(-1, size)
        todo = todo[~enough]
        tries = min(4 * tries, stride)
    return found


class TruncatedNormal(Op):
    """Normal numbers of mean 0 and deviation 1, those beyond two deviations drawn again, of shape ``shape``.

    Each group of four (two for float64) has a stretch of the stream to itself and takes the first numbers in it that pass.
    """

    signature = "shape: T -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type(_FLOATS), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = _shape_of
    consumes = _reserve
    gradient = _DRAWN

    def kernel(ctx, inputs, attrs):
        dims = _dims(inputs[0])
        dtype = attrs["dtype"].np
        double = dtype == np.float64
        size = 2 if double else 4
        stride = size * _RESERVED // 4
        count = math.prod(dims)
        groups = -(-count // size)
        xp = ctx.xp
        start = xp.arange(groups, dtype=np.uint64) * np.uint64(stride)

        def attempt(blocks: int) -> tuple[Any, Any]:
            offsets = start[:, None] + xp.arange(blocks, dtype=np.uint64)
            return _first_accepted(xp, normals(ctx, offsets, double).reshape(groups, -1), size)

        if groups == 0:
            drawn = xp.zeros((0,), np.float64 if double else np.float32)
        else:
            few, many = (6, 24) if double else (3, 12)
            first, enough = attempt(few)
            # One row in five billion needs more.
            drawn = ctx.lax.cond(enough.all(), lambda: first, lambda: attempt(many)[0]).reshape(-1)[:count]
        return drawn.astype(dtype).reshape(dims)

    def host_kernel(ctx, inputs, attrs):
        dims = _dims(inputs[0])
        dtype = attrs["dtype"].np
        double = dtype == np.float64
        size = 2 if double else 4
        count = math.prod(dims)
        found = _truncated_host(ctx, -(-count // size), size * _RESERVED // 4, size, double)
        return found.reshape(-1)[:count].astype(dtype).reshape(dims)


class RandomShuffle(Op):
    """``value`` with the slices of dimension 0 in random order (Fisher and Yates)."""

    signature = "value: T -> output: T"
    attrs = {"seed": Int(0), "seed2": Int(0), "T": Type()}
    effect = RANDOM

    def shape(c):
        return c.shapes[0]

    def consumes(c):
        shape = c.shapes[0]
        return -(-shape[0] // 4) if shape else 0

    def kernel(ctx, inputs, attrs):
        (value,) = inputs
        if value.ndim == 0 or value.shape[0] <= 1:
            return value
        xp, count = ctx.xp, value.shape[0]
        bits = philox.words(xp, ctx.philox, count)
        left = xp.arange(count, 0, -1).astype(np.uint32)
        jump = (bits % left).astype(np.int64)

        def swap(i: Any, order: Any) -> Any:
            other = i + jump[i]
            here, there = order[i], order[other]
            return order.at[i].set(there).at[other].set(here)

        order = ctx.lax.fori_loop(0, count - 1, swap, xp.arange(count))
        return value[order]

    def host_kernel(ctx, inputs, attrs):
        (value,) = inputs
        if value.ndim == 0 or value.shape[0] <= 1:
            return value.copy()
        count = value.shape[0]
        bits = philox.words(np, ctx.philox, count)
        jumps = (bits % np.arange(count, 0, -1).astype(np.uint32)).tolist()
        order = list(range(count))
        for i in range(count - 1):
            other = i + jumps[i]
            order[i], order[other] = order[other], order[i]
        return value[order]

    def gradient(op, grad):
        raise LookupError(
            "RandomShuffle has no gradient: the order that it drew is not an output; gather with shuffled indices"
        )


class Multinomial(Op):
    """Category numbers drawn by unnormalised log-probabilities: ``[batch, classes]`` gives ``[batch, num_samples]``."""

    signature = "logits: T, num_samples: int32 -> output: output_dtype"
    attrs = {
        "seed": Int(0),
        "seed2": Int(0),
        "T": Type("float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"),
        "output_dtype": Type("int32 int64", default="int64"),
    }
    effect = RANDOM
    compile_time = ("num_samples",)
    gradient = _DRAWN

    def shape(c):
        rows = c.with_rank("logits", 2)[0]
        return (rows, c.scalar("num_samples"))

    def consumes(c):
        samples = int(c.scalar("num_samples"))
        return c.shapes[0][0] * (-(-samples // 4) * 4) * 2 * _RESERVED

    def kernel(ctx, inputs, attrs):
        logits, number = inputs
        xp, view = ctx.xp, philox.reinterpret(ctx)
        samples = int(np.asarray(number).reshape(()))
        rows, classes = logits.shape
        dtype = attrs["output_dtype"].np
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
        bits = philox.words(xp, ctx.philox, 2 * rows * samples).reshape(rows, samples, 2)
        drawn = philox.float64(xp, bits[..., 0], bits[..., 1], view) * cumulated[:, -1:]
        # The first class whose cumulated weight exceeds the drawn one.
        found = xp.sum(cumulated[:, None, :] <= drawn[:, :, None], axis=2)
        return xp.minimum(found, classes - 1).astype(dtype)
