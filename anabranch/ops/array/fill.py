"""Tensors made from a shape or a few numbers, and tensors repeated: fill, range, linspace, tile, broadcast."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, Type
from anabranch.core.errors import InvalidArgumentError
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.values import shapes
from anabranch.ops.shared import open_shapes, row_rules, unchecked
from anabranch.ops.shared.array_rules import Index, dense, ints, refuse, require, shape_from, shape_of


class Fill(Op):
    """A tensor of shape `dims` that holds the scalar `value` everywhere."""

    signature = "dims: index_type, value: T -> output: T"
    attrs = {"T": Type(), "index_type": Index()}
    effect = PURE
    any_size = open_shapes.fill
    moves = True
    compile_time = ("dims",)

    def shape(c):
        c.with_rank("dims", 1)
        c.with_rank("value", 0)
        dims = c.vector("dims")
        for size in dims or ():
            if size is not None and size < 0:
                refuse(
                    c,
                    f"dims {dims}",
                    "sizes of 0 and more",
                    "correct that size",
                    f"Fill dimensions must be >= 0, got {size}: Dimension {size} must be >= 0",
                )
        return None if dims is None else tuple(dims)

    def kernel(ctx, inputs, attrs):
        dims, value = inputs
        require(ctx, np.ndim(dims) == 1, "dims must be a vector, got shape {0}", tuple(np.shape(dims)))
        dims = ints(dims)
        require(ctx, len(value.shape) == 0, "value must be a scalar, got shape {0}", tuple(value.shape))
        for size in dims:
            require(ctx, size >= 0, "Dimension {0} must be >= 0; Fill dimensions must be >= 0, got {1}", size, dims)
        return ctx.xp.full(dims, value, dtype=value.dtype)

    def gradient(op, grad):
        grad = dense(grad)
        rank = grad._shape
        axes = build("Range", 0, build("Rank", grad), 1) if rank is None else np.arange(len(rank), dtype=np.int32)
        return [None, build("Sum", grad, axes)]


class Empty(Op):
    """A tensor of shape ``shape`` whose values do not matter: zeros, or empty strings."""

    signature = "shape: int32 -> output: dtype"
    attrs = {"dtype": Type(), "init": Bool(False)}
    effect = PURE
    compile_time = ("shape",)
    gradient = NotDifferentiable("its values depend on nothing")

    def shape(c):
        c.with_rank("shape", 1)
        dims = c.vector("shape")
        if dims is not None and any(size is not None and size < 0 for size in dims):
            refuse(c, f"shape {dims}", "sizes of 0 and more", "correct that size", f"Dimensions {dims} must be >= 0")
        return None if dims is None else tuple(dims)

    def kernel(ctx, inputs, attrs):
        dims = ints(inputs[0])
        require(ctx, all(size >= 0 for size in dims), "Dimensions {0} must be >= 0", list(dims))
        return ctx.xp.zeros(dims, attrs["dtype"].np)

    def host_kernel(ctx, inputs, attrs):
        dims = ints(inputs[0])
        require(ctx, all(size >= 0 for size in dims), "Dimensions {0} must be >= 0", list(dims))
        return np.full(dims, b"", object) if attrs["dtype"].name == "string" else np.zeros(dims, attrs["dtype"].np)


def _range_size(start: Any, limit: Any, delta: Any, dtype: Any) -> int:
    """Number of elements, computed in the dtype of the range: ``(1.1 - 0.1) / 0.1`` is 10 in float32, and above it if
    the float32 numbers are divided in float64.
    """
    if isinstance(start, int):
        return max(0, -((start - limit) // delta))
    if (limit - start) * delta <= 0:
        return 0
    first, last, step = np.asarray([start, limit, delta]).astype(dtype.np)
    return max(0, math.ceil(abs(float((last - first) / step))))


class Range(Op):
    """The numbers `start`, `start + delta`, ... before `limit`, a vector."""

    signature = "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx"
    attrs = {"Tidx": Type("bfloat16 half float double int8 int16 int32 int64 uint16 uint32 uint64", "int32")}
    effect = PURE
    compile_time = ("start", "limit", "delta")
    gradient = NotDifferentiable("a range is made of constants")

    def shape(c):
        for name in ("start", "limit", "delta"):
            c.with_rank(name, 0)
        start, limit, delta = c.scalar("start"), c.scalar("limit"), c.scalar("delta")
        if None in (start, limit, delta):
            return (None,)
        if not all(map(math.isfinite, (start, limit, delta))):
            refuse(
                c,
                f"start {start}, limit {limit}, delta {delta}",
                "finite numbers",
                "a limit such as 10",
                "Requires start, limit and delta to be finite",
            )
        if delta == 0:
            refuse(c, "delta = 0", "a delta other than 0", "for example delta=1", "Requires delta != 0")
        if (limit - start) * delta < 0:
            refuse(
                c,
                f"start {start}, limit {limit}, delta {delta}",
                "a limit that is reached from start in steps of delta",
                "change the sign of delta, or swap start and limit",
                f"Requires start {'<=' if delta > 0 else '>='} limit when delta {'>' if delta > 0 else '<'} 0",
            )
        return (_range_size(start, limit, delta, c.attrs["Tidx"]),)

    def kernel(ctx, inputs, attrs):
        for name, item in zip(("start", "limit", "delta"), inputs, strict=True):
            require(ctx, np.ndim(item) == 0, "{0} must be a scalar, not shape {1}", name, tuple(np.shape(item)))
        start, limit, delta = (np.asarray(item).reshape(()).item() for item in inputs)
        finite = all(map(math.isfinite, (start, limit, delta)))
        require(ctx, finite, "Requires start, limit and delta to be finite: {0}, {1}, {2}", start, limit, delta)
        require(ctx, delta != 0, "Requires delta != 0: {0}", delta)
        require(
            ctx,
            (limit - start) * delta >= 0,
            "Requires start {0} limit when delta {1} 0: {2}/{3}",
            "<=" if delta > 0 else ">=",
            ">" if delta > 0 else "<",
            start,
            limit,
        )
        size = _range_size(start, limit, delta, attrs["Tidx"])
        dtype = attrs["Tidx"].np
        if isinstance(start, int):
            if attrs["Tidx"].name == "uint64":
                return np.array([start + i * delta for i in range(size)], np.uint64)
            return (start + np.arange(size, dtype=np.int64) * delta).astype(dtype)
        return (start + np.arange(size, dtype=np.float64) * delta).astype(dtype)


class LinSpace(Op):
    """`num` numbers from `start` to `stop` at equal distances, a vector."""

    signature = "start: T, stop: T, num: Tidx -> output: T"
    attrs = {"T": Type("bfloat16 half float double"), "Tidx": Index()}
    effect = PURE
    compile_time = ("num",)
    gradient = NotDifferentiable("TensorFlow gives it none")

    def shape(c):
        for name in ("start", "stop", "num"):
            c.with_rank(name, 0)
        num = c.scalar("num")
        if num is not None and num <= 0:
            refuse(c, f"num = {num}", "1 or more", "give num > 0", f"Requires num > 0: {num}")
        return (num,)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        start, stop, num = inputs
        num = ints(num)[0]
        require(ctx, num > 0, "Requires num > 0: {0}", num)
        dtype = attrs["T"].np
        if num == 1:
            return xp.reshape(start, (1,))
        step = (stop - start) / np.asarray(num - 1, dtype)
        inner = start + step * xp.arange(num - 1).astype(dtype)
        return xp.concatenate([inner.astype(dtype), xp.reshape(stop, (1,))])


# -------------------------------------------------------------------------------------------------------------- repeat
class Tile(Op):
    """`input` repeated `multiples[i]` times along dimension i."""

    signature = "input: T, multiples: Tmultiples -> output: T"
    attrs = {"T": Type(), "Tmultiples": Index()}
    effect = PURE
    by_rows = row_rules.tile
    straight = unchecked.tile
    any_size = open_shapes.tile
    moves = True
    compile_time = ("multiples",)

    def shape(c):
        c.with_rank("multiples", 1)
        raw, multiples = c.shapes[0], c.vector("multiples")
        if raw is None:
            return None if multiples is None else (None,) * len(multiples)
        if multiples is None:
            return (None,) * len(raw)
        if len(multiples) != len(raw):
            refuse(
                c,
                f"{len(multiples)} multiples for a tensor of shape {shapes.show(raw)}",
                f"{len(raw)} multiples",
                "give one per dimension (1 where it shall stay), or tf.expand_dims the tensor first",
                f"Shape must be rank {len(raw)} but is rank {len(multiples)}",
            )
        for times in multiples:
            if times is not None and times < -1:  # -1 is a multiple that is not known, and fails when it runs
                refuse(c, f"multiples {multiples}", "multiples of 0 and more", "correct that multiple")
        return tuple(
            [
                0 if size == 0 or times == 0 else None if size is None or times in (None, -1) else size * times
                for size, times in zip(raw, multiples, strict=True)
            ]
        )

    def kernel(ctx, inputs, attrs):
        x, multiples = inputs
        require(
            ctx,
            np.ndim(multiples) == 1,
            "Expected multiples to be 1-D, but got shape {0}",
            tuple(np.shape(multiples)),
        )
        multiples = ints(multiples)
        require(
            ctx,
            len(multiples) == len(x.shape),
            "Expected multiples argument to be a vector of length {0} but got length {1}",
            len(x.shape),
            len(multiples),
        )
        for i, times in enumerate(multiples):
            require(ctx, times >= 0, "Expected multiples[{0}] >= 0, but got {1}", i, times)
        # A broadcast and a reshape, which XLA fuses with what reads the result.
        inner = [part for size in x.shape for part in (1, size)]
        outer = [part for size, times in zip(x.shape, multiples, strict=True) for part in (times, size)]
        whole = [size * times for size, times in zip(x.shape, multiples, strict=True)]
        return ctx.xp.reshape(ctx.xp.broadcast_to(ctx.xp.reshape(x, inner), outer), whole)

    def gradient(op, grad):
        x, multiples = op.inputs
        raw, times = x._shape, inference.partial_value(multiples)
        if isinstance(grad, IndexedSlices):
            grad = dense(grad)
        if shapes.is_static(raw) and isinstance(times, np.ndarray):
            split = np.stack([times.astype(np.int32), np.array(raw, np.int32)], axis=1).ravel()
            axes: Any = np.arange(0, 2 * len(raw), 2, dtype=np.int32)
        else:
            shape = build("Shape", x, out_type=multiples.dtype.base)
            split = build("Reshape", build("Pack", [multiples, shape], axis=1), [-1])
            axes = build("Range", 0, build("Size", split), 2)
        summed = build("Sum", build("Reshape", grad, split), axes)
        summed.set_shape(raw)
        return [summed, None]


class BroadcastTo(Op):
    """`input` repeated along dimensions of size 1 and new leading dimensions until it has `shape`."""

    signature = "input: T, shape: Tidx -> output: T"
    attrs = {"T": Type(), "Tidx": Index()}
    effect = PURE
    any_size = open_shapes.broadcast_to
    moves = True
    compile_time = ("shape",)

    def shape(c):
        c.with_rank("shape", 1)
        raw, wanted = c.shapes[0], shape_from(c.vector("shape"))
        if wanted is not None and raw is not None:
            pairs = list(zip(reversed(raw), reversed(wanted), strict=False))
            if len(raw) > len(wanted) or any(size != 1 and None not in (size, to) and size != to for size, to in pairs):
                refuse(
                    c,
                    f"a tensor of shape {shapes.show(raw)} for the shape {shapes.show(wanted)}",
                    "a shape to which it broadcasts: counted from the last, dimensions are equal or the tensor's is 1",
                    "tf.reshape the tensor, or correct the shape",
                    f"Incompatible shapes: {shapes.show(raw)} vs. {shapes.show(wanted)}",
                )
            lead = len(wanted) - len(raw)  # an unknown dimension is that of the tensor, unless it is repeated
            kept = (*(None,) * lead, *(None if size == 1 else size for size in raw))
            return tuple(size if to is None else to for size, to in zip(kept, wanted, strict=True))
        return wanted

    def kernel(ctx, inputs, attrs):
        x, shape = inputs
        shape = ints(shape)
        given = tuple(x.shape)
        fits = len(given) <= len(shape) and all(
            size in (1, to) for size, to in zip(reversed(given), reversed(shape), strict=False)
        )
        require(ctx, fits, "Incompatible shapes: {0} vs. {1}", given, tuple(shape))
        return ctx.xp.broadcast_to(x, shape)

    def gradient(op, grad):
        x = op.inputs[0]
        grad = dense(grad)
        raw, wanted = x._shape, grad._shape
        if shapes.is_static(raw) and shapes.is_static(wanted):
            lead = len(wanted) - len(raw)
            axes: Any = np.array(
                [*range(lead), *(lead + i for i, size in enumerate(raw) if size == 1 and wanted[lead + i] != 1)],
                np.int32,
            )
        else:
            axes = build("BroadcastGradientArgs", build("Shape", grad), build("Shape", x))[1]
        return [build("Reshape", build("Sum", grad, axes, keep_dims=True), shape_of(x)), None]


class BroadcastArgs(Op):
    """The shape to which the shapes `s0` and `s1` broadcast, a vector."""

    signature = "s0: T, s1: T -> r0: T"
    attrs = {"T": Index()}
    effect = PURE
    gradient = NotDifferentiable("shapes are integers")

    def shape(c):
        first, second = c.with_rank(0, 1), c.with_rank(1, 1)
        if first[0] is None or second[0] is None:
            return (None,)
        return (max(first[0], second[0]),)

    def value(c):
        first, second = c.vector(0), c.vector(1)
        if first is None or second is None:
            return None
        try:
            return shapes.broadcast(tuple(first), tuple(second))
        except ValueError:
            return None

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        rank = max(item.shape[0] for item in inputs)
        first, second = (xp.concatenate([xp.ones((rank - item.shape[0],), item.dtype), item]) for item in inputs)
        ok = xp.all((first == second) | (first == 1) | (second == 1))
        texts, values = [], []
        for item in inputs:
            places = range(len(values), len(values) + item.shape[0])
            texts.append("[" + ",".join(f"{{{at}}}" for at in places) + "]")
            values += [item[at] for at in range(item.shape[0])]
        ctx.check(ok, InvalidArgumentError, f"Incompatible shapes: {texts[0]} vs. {texts[1]}", *values)
        return xp.where(first == 1, second, first)


broadcast_to = public_op("BroadcastTo", "broadcast_to", arguments="input shape")
tile = public_op("Tile", "tile", "manip.tile")
