"""Blocks of space moved into depth or batch and back, one-hot vectors, and patches of images and volumes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import open_places, row_rules
from anabranch.ops.shared.array_rules import Index, axis_in, dense, ints, refuse, require, shape_of


# ---------------------------------------------------------------------------------------------------- space and depth
def _layout(c: Any) -> shapes.RawShape:
    """The input's shape as (batch, height, width, depth, lanes), lanes being 1 but for NCHW_VECT_C."""
    name = c.attrs["data_format"]
    raw = c.with_rank(0, 5 if name == "NCHW_VECT_C" else 4)
    if name == "NHWC":
        return (*raw, 1)
    return (raw[0], raw[2], raw[3], raw[1], raw[4] if name == "NCHW_VECT_C" else 1)


def _laid_out(name: str, n: Any, h: Any, w: Any, d: Any, lanes: Any) -> tuple[Any, ...]:
    return (n, h, w, d) if name == "NHWC" else (n, d, h, w) if name == "NCHW" else (n, d, h, w, lanes)


def _block_shape(c: Any, deeper: bool) -> shapes.RawShape:
    n, h, w, d, lanes = _layout(c)
    block = c.attrs["block_size"]
    square = block * block
    if deeper:
        for size in (h, w):
            if size is not None and size % block:
                refuse(
                    c,
                    f"an image of {h} x {w} for block_size {block}",
                    f"a height and width that are multiples of {block}",
                    "tf.pad the image, or use another block_size",
                    f"Dimension size must be evenly divisible by {block} but is {size}",
                )
        dims = (n, _over(h, block), _over(w, block), None if d is None else d * square)
    else:
        if d is not None and d * (lanes or 1) % square:
            refuse(
                c,
                f"a depth of {d} for block_size {block}",
                f"a multiple of {square}",
                "use another block_size",
                f"Dimension size must be evenly divisible by {square} but is {d}",
            )
        dims = (n, _times(h, block), _times(w, block), _over(d, square))
    return _laid_out(c.attrs["data_format"], *dims, lanes)


def _over(size: int | None, by: int) -> int | None:
    return None if size is None else size // by


def _times(size: int | None, by: int) -> int | None:
    return None if size is None else size * by


def _block_moved(ctx: Any, x: Any, attrs: Any, deeper: bool) -> Any:
    """Space to depth or back. Depth is counted block row, block column, channel, in every layout."""
    name, block = attrs["data_format"], attrs["block_size"]
    xp = ctx.xp
    require(ctx, len(x.shape) == (5 if name == "NCHW_VECT_C" else 4), "Input rank should be 4 (5 for NCHW_VECT_C)")
    if name == "NCHW_VECT_C":  # lanes of 4 are the fastest part of the channel
        n, d, h, w, lanes = x.shape
        flat = xp.reshape(xp.transpose(x, (0, 1, 4, 2, 3)), (n, d * lanes, h, w))
        moved = _block_moved(ctx, flat, {**attrs, "data_format": "NCHW"}, deeper)
        n, d, h, w = moved.shape
        return xp.transpose(xp.reshape(moved, (n, d // lanes, lanes, h, w)), (0, 1, 3, 4, 2))
    n, h, w, d = x.shape if name == "NHWC" else (x.shape[0], x.shape[2], x.shape[3], x.shape[1])
    if deeper:
        require(
            ctx,
            h % block == 0 and w % block == 0,
            "Image height {0} and width {1} should be divisible by block_size: {2}",
            h,
            w,
            block,
        )
        if name == "NHWC":
            x = xp.reshape(x, (n, h // block, block, w // block, block, d))
            x = xp.transpose(x, (0, 1, 3, 2, 4, 5))
            return xp.reshape(x, (n, h // block, w // block, block * block * d))
        x = xp.reshape(x, (n, d, h // block, block, w // block, block))
        x = xp.transpose(x, (0, 3, 5, 1, 2, 4))
        return xp.reshape(x, (n, block * block * d, h // block, w // block))
    require(ctx, d % (block * block) == 0, "Input depth dimension {0} should be divisible by: {1}", d, block * block)
    inner = d // (block * block)
    if name == "NHWC":
        x = xp.reshape(x, (n, h, w, block, block, inner))
        x = xp.transpose(x, (0, 1, 3, 2, 4, 5))
        return xp.reshape(x, (n, h * block, w * block, inner))
    x = xp.reshape(x, (n, block, block, inner, h, w))
    x = xp.transpose(x, (0, 3, 4, 1, 5, 2))
    return xp.reshape(x, (n, inner, h * block, w * block))


_BLOCK_ATTRS = {
    "T": Type(),
    "block_size": Int(minimum=2),
    "data_format": String("NHWC", "NHWC NCHW NCHW_VECT_C"),
}


def _opposite(type_name: str) -> Any:
    def gradient(op, grad):
        moved = build(
            type_name,
            dense(grad),
            block_size=op.get_attr("block_size"),
            data_format=op.get_attr("data_format"),
        )
        return [moved]

    return gradient


class SpaceToDepth(Op):
    """Blocks of `block_size` x `block_size` pixels as channels: `[n, h, w, d]` to `[n, h / b, w / b, d * b * b]`."""

    signature = "input: T -> output: T"
    attrs = _BLOCK_ATTRS
    effect = PURE
    moves = True
    gradient = _opposite("DepthToSpace")

    def shape(c):
        return _block_shape(c, True)

    def kernel(ctx, inputs, attrs):
        return _block_moved(ctx, inputs[0], attrs, True)


class DepthToSpace(Op):
    """Channels as blocks of `block_size` x `block_size` pixels: `[n, h, w, d]` to `[n, h * b, w * b, d / (b * b)]`."""

    signature = "input: T -> output: T"
    attrs = _BLOCK_ATTRS
    effect = PURE
    moves = True
    gradient = _opposite("SpaceToDepth")

    def shape(c):
        return _block_shape(c, False)

    def kernel(ctx, inputs, attrs):
        return _block_moved(ctx, inputs[0], attrs, False)


# ---------------------------------------------------------------------------------------------------- space and batch
def _pairs(c: Any, operand: str) -> list[tuple[int, int]] | None:
    raw = c.shape(operand)
    if raw is not None and (len(raw) != 2 or raw[1] not in (2, None)):
        refuse(c, f"{operand} of shape {shapes.show(raw)}", "shape [m, 2]", "give (before, after) per dimension")
    pairs = c.value(operand)
    if pairs is None:
        return None
    if (pairs < 0).any():
        refuse(
            c, f"{operand} {pairs.tolist()}", "numbers of 0 and more", "correct them", f"{operand} cannot be negative"
        )
    return [(int(a), int(b)) for a, b in pairs]


def _batched_shape(c: Any, block: list[int] | None, pairs: Any, to_batch: bool) -> shapes.RawShape:
    raw = c.shapes[0]
    if raw is None or block is None:
        return None if raw is None else (None,) * len(raw)
    if len(raw) < len(block) + 1:
        refuse(
            c,
            f"a tensor of shape {shapes.show(raw)} for {len(block)} block dimensions",
            f"rank {len(block) + 1} or more",
            "tf.expand_dims the tensor",
            f"Shape must be at least rank {len(block) + 1} but is rank {len(raw)}",
        )
    if any(size is not None and size < 1 for size in block):
        refuse(c, f"block_shape {block}", "sizes of 1 and more", "correct them", "block_shape must be positive")
    if pairs is not None and len(pairs) != len(block):
        refuse(
            c,
            f"{len(pairs)} pairs for {len(block)} block dimensions",
            "a pair for each",
            "give (before, after) per dimension",
            f"Dimension 0 in both shapes must be equal, but are {len(pairs)} and {len(block)}. "
            f"Shapes are [{len(pairs)},2] and [{len(block)},2].",
        )
    cells = None if None in block else math.prod(block)
    batch = raw[0]
    if to_batch:
        batch = None if batch is None or cells is None else batch * cells
    elif batch is not None and cells is not None:
        if batch % cells:
            refuse(
                c,
                f"a batch of {batch} for block_shape {block}",
                f"a multiple of {cells}",
                "correct block_shape",
                f"Dimension size must be evenly divisible by {cells} but is {batch}",
            )
        batch //= cells
    else:
        batch = None
    space: list[int | None] = []
    for i, size in enumerate(block):
        extent = raw[1 + i]
        if extent is None or size is None or pairs is None:
            space.append(None)
            continue
        around = sum(pairs[i])
        if to_batch:
            if (extent + around) % size:
                refuse(
                    c,
                    f"dimension {i + 1} of size {extent}, padded to {extent + around}, for blocks of {size}",
                    f"a multiple of {size}",
                    "tf.required_space_to_batch_paddings(shape, block_shape) gives paddings that fit",
                    f"Dimension size must be evenly divisible by {size} but is {extent + around}",
                )
            space.append((extent + around) // size)
        else:
            if extent * size < around:
                words = f"Negative dimension size caused by subtracting {around} from {extent * size}"
                refuse(c, f"crops {pairs[i]} of {extent * size}", "crops within the dimension", "crop less", words)
            space.append(extent * size - around)
    return (batch, *space, *raw[1 + len(block) :])


def _to_batch(ctx: Any, x: Any, block: tuple[int, ...], paddings: Any) -> Any:
    xp = ctx.xp
    pairs = [(int(a), int(b)) for a, b in np.asarray(paddings).reshape(-1, 2)]
    _check_blocks(ctx, x, block, pairs)
    count = len(block)
    for i, size in enumerate(block):
        padded = x.shape[1 + i] + sum(pairs[i])
        require(
            ctx, padded % size == 0, "padded_shape[{0}]={1} is not divisible by block_shape[{0}]={2}", i, padded, size
        )
    if any(any(pair) for pair in pairs):
        x = _padded(ctx, x, [(0, 0), *pairs, *[(0, 0)] * (len(x.shape) - 1 - count)])
    inner_dims = x.shape[1 + count :]
    inner = [part for i, size in enumerate(block) for part in (x.shape[1 + i] // size, size)]
    y = xp.reshape(x, (x.shape[0], *inner, *inner_dims))
    order = [2 * i + 2 for i in range(count)] + [0] + [2 * i + 1 for i in range(count)]
    order += range(2 * count + 1, len(y.shape))
    y = xp.transpose(y, order)
    return xp.reshape(y, (x.shape[0] * math.prod(block), *(inner[2 * i] for i in range(count)), *inner_dims))


def _to_space(ctx: Any, x: Any, block: tuple[int, ...], crops: Any) -> Any:
    xp = ctx.xp
    pairs = [(int(a), int(b)) for a, b in np.asarray(crops).reshape(-1, 2)]
    _check_blocks(ctx, x, block, pairs)
    count, cells = len(block), math.prod(block)
    require(
        ctx,
        x.shape[0] % cells == 0,
        "Input batch dimension ({0}) is not divisible by product of block sizes ({1})",
        x.shape[0],
        cells,
    )
    space, inner_dims = x.shape[1 : 1 + count], x.shape[1 + count :]
    batch = x.shape[0] // cells
    y = xp.reshape(x, (*block, batch, *space, *inner_dims))
    order = [count] + [part for i in range(count) for part in (count + 1 + i, i)]
    order += range(2 * count + 1, len(y.shape))
    whole = [size * extent for size, extent in zip(block, space, strict=True)]
    y = xp.reshape(xp.transpose(y, order), (batch, *whole, *inner_dims))
    for i, (before, after) in enumerate(pairs):
        require(
            ctx, before + after <= whole[i], "crops[{0}] = [{1}, {2}] exceed the size {3}", i, before, after, whole[i]
        )
    return y[(slice(None), *(slice(b, w - a) for (b, a), w in zip(pairs, whole, strict=True)))]


def _check_blocks(ctx: Any, x: Any, block: tuple[int, ...], pairs: Any) -> None:
    require(
        ctx, len(x.shape) >= len(block) + 1, "input rank should be >= {0} instead of {1}", len(block) + 1, len(x.shape)
    )
    require(ctx, len(pairs) == len(block), "{0} pairs for {1} block dimensions", len(pairs), len(block))
    require(ctx, all(size >= 1 for size in block), "All values in block_shape must be positive, got {0}", list(block))
    require(ctx, all(n >= 0 for pair in pairs for n in pair), "paddings and crops must be non-negative, got {0}", pairs)


def _padded(ctx: Any, x: Any, pairs: Any) -> Any:
    if x.dtype == object:
        return np.pad(x, pairs, constant_values=b"")
    return ctx.xp.pad(x, pairs)


class SpaceToBatchND(Op):
    """Zero-pad dimensions 1 to m and move blocks of `block_shape` from them to the batch, block position first."""

    signature = "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T"
    attrs = {"T": Type(), "Tblock_shape": Index(), "Tpaddings": Index()}
    effect = PURE
    moves = True
    compile_time = ("block_shape", "paddings")

    def shape(c):
        return _batched_shape(c, c.vector("block_shape"), _pairs(c, "paddings"), True)

    def kernel(ctx, inputs, attrs):
        return _to_batch(ctx, inputs[0], ints(inputs[1]), inputs[2])

    def gradient(op, grad):
        return [build("BatchToSpaceND", dense(grad), op.inputs[1], op.inputs[2]), None, None]


class BatchToSpaceND(Op):
    """Move blocks of `block_shape` out of the batch into dimensions 1 to m and cut off `crops`."""

    signature = "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T"
    attrs = {"T": Type(), "Tblock_shape": Index(), "Tcrops": Index()}
    effect = PURE
    moves = True
    compile_time = ("block_shape", "crops")

    def shape(c):
        return _batched_shape(c, c.vector("block_shape"), _pairs(c, "crops"), False)

    def kernel(ctx, inputs, attrs):
        return _to_space(ctx, inputs[0], ints(inputs[1]), inputs[2])

    def gradient(op, grad):
        return [build("SpaceToBatchND", dense(grad), op.inputs[1], op.inputs[2]), None, None]


class SpaceToBatch(Op):
    """`SpaceToBatchND` of a 4-D image with square blocks of `block_size`."""

    signature = "input: T, paddings: Tpaddings -> output: T"
    attrs = {"T": Type(), "Tpaddings": Index(), "block_size": Int(minimum=2)}
    effect = PURE
    moves = True
    compile_time = ("paddings",)

    def shape(c):
        c.with_rank(0, 4)
        return _batched_shape(c, [c.attrs["block_size"]] * 2, _pairs(c, "paddings"), True)

    def kernel(ctx, inputs, attrs):
        return _to_batch(ctx, inputs[0], (attrs["block_size"],) * 2, inputs[1])

    def gradient(op, grad):
        return [build("BatchToSpace", dense(grad), op.inputs[1], block_size=op.get_attr("block_size")), None]


class BatchToSpace(Op):
    """`BatchToSpaceND` of a 4-D image with square blocks of `block_size`."""

    signature = "input: T, crops: Tidx -> output: T"
    attrs = {"T": Type(), "block_size": Int(minimum=2), "Tidx": Index()}
    effect = PURE
    moves = True
    compile_time = ("crops",)

    def shape(c):
        c.with_rank(0, 4)
        return _batched_shape(c, [c.attrs["block_size"]] * 2, _pairs(c, "crops"), False)

    def kernel(ctx, inputs, attrs):
        return _to_space(ctx, inputs[0], (attrs["block_size"],) * 2, inputs[1])

    def gradient(op, grad):
        return [build("SpaceToBatch", dense(grad), op.inputs[1], block_size=op.get_attr("block_size")), None]


# ------------------------------------------------------------------------------------------------------------- one-hot
class OneHot(Op):
    """A new dimension of size `depth` at `axis` that holds `on_value` at the index and `off_value` elsewhere."""

    signature = "indices: TI, depth: int32, on_value: T, off_value: T -> output: T"
    attrs = {"axis": Int(-1), "T": Type(), "TI": Type("uint8 int8 int32 int64", "int64")}
    effect = PURE
    by_rows = row_rules.new_axis(of_first=True)
    any_size = open_places.one_hot
    moves = True
    compile_time = ("depth",)
    gradient = NotDifferentiable("indices are integers")

    def shape(c):
        for name in ("depth", "on_value", "off_value"):
            c.with_rank(name, 0)
        raw, axis, depth = c.shapes[0], c.attrs["axis"], c.scalar("depth")
        if depth is not None and depth < 0:
            words = f"Dimension size, given by scalar input 1, must be non-negative but is {depth}"
            refuse(
                c, f"depth = {depth}", "0 or more", "correct it", f"{words}\ndepth must be non-negative, got: {depth}"
            )
        if raw is None:
            return None
        axis = axis_in(c, axis, len(raw) + 1)
        return (*raw[:axis], depth, *raw[axis:])

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        indices, depth, on, off = inputs
        depth = ints(depth)[0]
        require(ctx, depth >= 0, "depth must be non-negative, got: {0}", depth)
        rank = len(indices.shape)
        axis = attrs["axis"] if attrs["axis"] >= 0 else attrs["axis"] + rank + 1
        require(ctx, 0 <= axis <= rank, "Expected axis to be -1 or between [0, {0}). But received: {1}", rank + 1, axis)
        wide = indices.dtype if indices.dtype.itemsize >= 4 else np.dtype(np.int32)
        places = xp.arange(depth, dtype=wide).reshape((depth, *[1] * (rank - axis)))
        here = indices.astype(wide)[(slice(None),) * axis + (None,)] == places
        return xp.where(here, on, off)


# ------------------------------------------------------------------------------------------------------------- patches
def _window(size: int | None, kernel: int, stride: int, padding: str) -> tuple[int | None, int]:
    """How many windows of `kernel` (rate included) fit into `size`, and the zeros before it."""
    if size is None:
        return None, 0
    if padding == "VALID":
        return max(0, -((kernel - 1 - size) // stride)) if size >= kernel else 0, 0
    count = -(-size // stride)
    return count, max(0, (count - 1) * stride + kernel - size) // 2


def _patch_shape(c: Any, spatial: int) -> shapes.RawShape:
    raw = c.with_rank(0, spatial + 2)
    rates = c.attrs.get("rates", (1,) * (spatial + 2))
    sizes, strides = c.attrs["ksizes"], c.attrs["strides"]
    for name, given in (("ksizes", sizes), ("strides", strides), ("rates", rates)):
        if len(given) != spatial + 2 or given[0] != 1 or given[-1] != 1 or min(given) < 1:
            refuse(
                c,
                f"{name} = {list(given)}",
                f"{spatial + 2} positive numbers, the first and last of them 1",
                f"[1, {', '.join(['k'] * spatial)}, 1]",
            )
    counts = [
        _window(raw[i], (sizes[i] - 1) * rates[i] + 1, strides[i], c.attrs["padding"])[0] for i in range(1, spatial + 1)
    ]
    depth = None if raw[-1] is None else raw[-1] * math.prod(sizes)
    return (raw[0], *counts, depth)


def _patches(ctx: Any, x: Any, attrs: Any, spatial: int) -> Any:
    xp = ctx.xp
    require(
        ctx, len(x.shape) == spatial + 2, "input must be {0}-dimensional, got shape {1}", spatial + 2, list(x.shape)
    )
    sizes, strides = attrs["ksizes"], attrs["strides"]
    rates = attrs.get("rates", (1,) * (spatial + 2))
    counts: list[Any] = []
    pads = [(0, 0)]
    for i in range(1, spatial + 1):
        reach = (sizes[i] - 1) * rates[i] + 1
        count, before = _window(x.shape[i], reach, strides[i], attrs["padding"])
        counts.append(count)
        pads.append((before, max(0, (count - 1) * strides[i] + reach - x.shape[i] - before) if count else 0))
    if 0 in counts:
        return xp.zeros((x.shape[0], *counts, x.shape[-1] * math.prod(sizes)), x.dtype)
    x = xp.pad(x, [*pads, (0, 0)])
    parts = []
    for place in np.ndindex(*sizes[1:-1]):
        window = [slice(None)]
        for i, offset in enumerate(place):
            start = offset * rates[i + 1]
            window.append(slice(start, start + (counts[i] - 1) * strides[i + 1] + 1, strides[i + 1]))
        parts.append(x[tuple(window)])
    return xp.concatenate(parts, axis=-1)


def _window_of_run(size: Any, reach: int, stride: int, padding: str) -> tuple[Any, Any, Any]:
    """How many windows of `reach` fit into a size that only the run knows, the zeros before it, and both together."""
    if padding == "VALID":
        count = build("Maximum", build("FloorDiv", build("Add", size, stride - reach), stride), 0)
        return count, 0, size
    count = build("FloorDiv", build("Add", size, stride - 1), stride)
    covered = build("Add", build("Mul", build("Sub", count, 1), stride), reach)
    ahead = build("FloorDiv", build("Maximum", build("Sub", covered, size), 0), 2)
    return count, ahead, build("Maximum", build("Add", size, ahead), covered)


def _sizes(items: list[Any]) -> Any:
    """Sizes as a vector: a list where all are known."""
    return items if all(isinstance(item, int) for item in items) else build("Pack", items)


def _end(start: int, count: Any, stride: int) -> Any:
    """Behind the last of `count` places from `start` on."""
    if isinstance(count, int):
        return start + (count - 1) * stride + 1
    return build("Maximum", build("Add", build("Mul", build("Sub", count, 1), stride), start + 1), start)


def _patch_gradient(spatial: int) -> Any:
    """Each patch position's gradient put back where it was read, and all of them added."""

    def gradient(op, grad):
        x = op.inputs[0]
        grad = dense(grad)
        sizes, strides = op.get_attr("ksizes"), op.get_attr("strides")
        rates = op.get_attr("rates") if "rates" in op.definition.attrs else [1] * (spatial + 2)
        padding = op.get_attr("padding")
        padding = padding.decode() if isinstance(padding, bytes) else padding
        shape = shape_of(x)
        raw = x._shape if x._shape is not None else (None,) * (spatial + 2)
        # The image with its padding is built up and cut to size at the end, so that no patch is cut off.
        counts, before, padded = [], [], []
        for i in range(1, spatial + 1):
            reach = (sizes[i] - 1) * rates[i] + 1
            size = raw[i]
            if size is not None:
                count, ahead = _window(size, reach, strides[i], padding)
                whole_size = max(size + ahead, (count - 1) * strides[i] + reach)
            else:
                size = build("StridedSlice", shape, [i], [i + 1], [1], shrink_axis_mask=1)
                count, ahead, whole_size = _window_of_run(size, reach, strides[i], padding)
            counts.append(count)
            before.append(ahead)
            padded.append(whole_size)
        if 0 in [count for count in counts if isinstance(count, int)]:
            return [build("ZerosLike", x)]
        batch, depth = build("Slice", shape, [0], [1]), build("Slice", shape, [spatial + 1], [1])
        whole = build("ConcatV2", [batch, _sizes(padded), depth], 0)
        parts = []
        pieces = build("Split", spatial + 1, grad, num_split=math.prod(sizes))
        for piece, place in zip(
            pieces if isinstance(pieces, list) else [pieces], np.ndindex(*sizes[1:-1]), strict=True
        ):
            start = [0, *(offset * rates[i + 1] for i, offset in enumerate(place)), 0]
            stop = [0, *(_end(start[i + 1], counts[i], strides[i + 1]) for i in range(spatial)), 0]
            # Batch and channels are taken whole, whatever their sizes.
            ends = 1 | 1 << (spatial + 1)
            parts.append(
                build(
                    "StridedSliceGrad",
                    whole,
                    start,
                    _sizes(stop),
                    [1, *strides[1:-1], 1],
                    piece,
                    begin_mask=ends,
                    end_mask=ends,
                )
            )
        total = build("AddN", parts) if len(parts) > 1 else parts[0]
        return [build("Slice", total, _sizes([0, *before, 0]), shape)]

    return gradient


class ExtractImagePatches(Op):
    """Windows of `images` `[batch, height, width, depth]`, each laid out along depth: row, column, channel."""

    signature = "images: T -> patches: T"
    attrs = {
        "ksizes": List("int", minimum=4),
        "strides": List("int", minimum=4),
        "rates": List("int", minimum=4),
        "T": Type(
            "bfloat16 half float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128 bool"
        ),
        "padding": String(allowed="SAME VALID"),
    }
    effect = PURE
    moves = True
    gradient = _patch_gradient(2)

    def shape(c):
        return _patch_shape(c, 2)

    def kernel(ctx, inputs, attrs):
        return _patches(ctx, inputs[0], attrs, 2)


class ExtractVolumePatches(Op):
    """Windows of `input` `[batch, planes, height, width, depth]`, each laid out along depth."""

    signature = "input: T -> patches: T"
    attrs = {
        "ksizes": List("int", minimum=5),
        "strides": List("int", minimum=5),
        "T": Type("float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"),
        "padding": String(allowed="SAME VALID"),
    }
    effect = PURE
    moves = True
    gradient = _patch_gradient(3)

    def shape(c):
        return _patch_shape(c, 3)

    def kernel(ctx, inputs, attrs):
        return _patches(ctx, inputs[0], attrs, 3)


space_to_batch_nd = public_op(
    "SpaceToBatchND", "space_to_batch_nd", "manip.space_to_batch_nd", arguments="input block_shape paddings"
)
batch_to_space_nd = public_op(
    "BatchToSpaceND", "batch_to_space_nd", "manip.batch_to_space_nd", arguments="input block_shape crops"
)
extract_volume_patches = public_op(
    "ExtractVolumePatches", "extract_volume_patches", arguments="input ksizes strides padding"
)
