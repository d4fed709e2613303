"""Crops of images resized to one size, and the gradients by image and by boxes (He et al., 2017, call it RoIAlign).

Policy. Places are computed in float32 as TensorFlow computes them. Whether a place lies inside the image, and
between which pixels, is decided once (:func:`_axis`) for the crop and both gradients. Pixels are rows of a matrix: the
host looks them up some boxes at a time (:func:`_blocks`), so that they stay in the caches; what the gradient by the
image adds to them are products with the sparse matrix of their weights, there and under XLA, whose own form writes all
of these rows down before it adds them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Float, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes
from anabranch.ops.math import xla_reductions
from anabranch.ops.shared import row_sums

_TYPES = "uint8 uint16 int8 int16 int32 int64 half float double"
_METHODS = "bilinear nearest"
_NO_SECOND = NotDifferentiable("TensorFlow has no second derivative of crops")


class _Axis(NamedTuple):
    """For each box and place of a crop along one axis, ``[boxes, size]``."""

    inside: Any
    low: Any
    high: Any
    weight: Any
    """Of the pixel at ``high``."""
    scale: Any
    """How the place moves with the far end of the box; with the near end it moves by ``image size - 1 - scale``."""


def _axis(xp: Any, start: Any, end: Any, size: int, image: int) -> _Axis:
    one = np.float32(image - 1)
    index = xp.arange(size, dtype=np.float32)
    if size > 1:
        step = (end - start) * one / np.float32(size - 1)
        place = start[:, None] * one + index * step[:, None]
        scale = xp.broadcast_to(index * (one / np.float32(size - 1)), place.shape)
    else:
        place = (np.float32(0.5) * (start + end) * one)[:, None]
        scale = xp.full(place.shape, np.float32(0.5) * one)
    inside = (place >= 0) & (place <= one)
    safe = xp.where(inside, place, np.float32(0))
    low = xp.floor(safe)
    return _Axis(inside, low.astype(np.int32), xp.ceil(safe).astype(np.int32), safe - low, scale)


def _check(ctx: Any, boxes: Any, index: Any, batch: int) -> None:
    ctx.check(
        boxes.ndim == 2 and boxes.shape[1] == 4 and index.shape == boxes.shape[:1],
        errors.InvalidArgumentError,
        f"boxes must be [n, 4] and box_ind [n], got {shapes.show(boxes.shape)} and {shapes.show(index.shape)}",
    )
    if index.size:
        wrong = (index < 0) | (index >= batch)
        ctx.check(
            ~wrong.any(),
            errors.OutOfRangeError,
            f"box_index has values outside [0, batch_size), which is [0, {batch}): {{0}}",
            index[ctx.xp.argmax(wrong)],
        )


def _axes(xp: Any, boxes: Any, crop: tuple[int, int], image: Any) -> tuple[_Axis, _Axis]:
    return (
        _axis(xp, boxes[:, 0], boxes[:, 2], crop[0], image[1]),
        _axis(xp, boxes[:, 1], boxes[:, 3], crop[1], image[2]),
    )


_BLOCK = 1 << 15
"""Elements of the crops that are computed at a time on the host."""


def _pixels(xp: Any, index: Any, row: Any, column: Any, image: tuple[int, ...]) -> Any:
    """Which pixels those at ``row`` and ``column`` are, of all of the batch: ``[boxes, crop height, crop width]``."""
    above = (index[:, None] * image[1] + row) * image[2]
    return above[:, :, None] + column[:, None, :]


def _blocks(boxes: int, each: int) -> Iterator[slice]:
    """Boxes whose crops, of ``each`` elements, together stay in the caches."""
    count = max(1, _BLOCK // max(1, each))
    return (slice(begin, begin + count) for begin in range(0, boxes, count))


def _nearest(axis: _Axis) -> Any:
    """The nearest pixel, the higher one in the middle between two."""
    return axis.low + (axis.weight >= np.float32(0.5)).astype(np.int32)


def _corners(ctx: Any, index: Any, y: _Axis, x: _Axis, image: Any) -> list[Any]:
    """The pixels above left, above right, below left and below right of each place, in float32."""
    rows = image.reshape(-1, image.shape[3])
    mode = {} if ctx.host else {"mode": "clip"}
    return [
        rows.take(_pixels(ctx.xp, index, row, column, image.shape), axis=0, **mode).astype(np.float32, copy=False)
        for row in (y.low, y.high)
        for column in (x.low, x.high)
    ]


def _part(axis: _Axis, boxes: slice) -> _Axis:
    return _Axis(*(values[boxes] for values in axis))


def _between(a: Any, b: Any, c: Any, d: Any, across: Any, down: Any, host: bool) -> Any:
    if host:  # in place: the pixels are this function's own
        for first, second, weight in ((a, b, across), (c, d, across), (a, c, down)):
            second -= first
            second *= weight
            first += second
        return a
    above, below = a + (b - a) * across, c + (d - c) * across
    return above + (below - above) * down


def _crops(ctx: Any, image: Any, index: Any, y: _Axis, x: _Axis, nearest: bool, value: np.float32) -> Any:
    xp = ctx.xp
    if nearest:
        rows = image.reshape(-1, image.shape[3])
        crops = rows[_pixels(xp, index, _nearest(y), _nearest(x), image.shape)].astype(np.float32)
    else:
        across, down = x.weight[:, None, :, None], y.weight[:, :, None, None]
        a, b, c, d = _corners(ctx, index, y, x, image)
        crops = _between(a, b, c, d, across, down, ctx.host)
    inside = y.inside[:, :, None] & x.inside[:, None, :]
    if ctx.host:
        if not inside.all():
            crops[~inside] = value
        return crops
    return xp.where(inside[..., None], crops, value)


def _add_pairs(one: Any, other: Any) -> Any:
    return one[0] + other[0], one[1] + other[1]


def _slopes(ctx: Any, grads: Any, image: Any, index: Any, y: _Axis, x: _Axis) -> tuple[Any, Any]:
    """How the sum of ``crops * grads`` moves with each place, down and across: ``[boxes, crop height, crop width]``."""
    xp = ctx.xp
    a, b, c, d = _corners(ctx, index, y, x, image)
    across, down = x.weight[:, None, :, None], y.weight[:, :, None, None]
    if ctx.host:
        left, right, top, bottom = (
            np.einsum("nijc,nijc->nij", one - other, grads) for one, other in ((c, a), (d, b), (b, a), (d, c))
        )
        across, down = across[..., 0], down[..., 0]
        by_y, by_x = (1 - across) * left + across * right, (1 - down) * top + down * bottom
    else:
        by_y, by_x = (1 - across) * (c - a) + across * (d - b), (1 - down) * (b - a) + down * (d - c)
        # One loop looks up the pixels for both.
        by_y, by_x = ctx.lax.reduce((by_y * grads, by_x * grads), (np.float32(0),) * 2, _add_pairs, (3,))
    inside = y.inside[:, :, None] & x.inside[:, None, :]
    return xp.where(inside, by_y, np.float32(0)), xp.where(inside, by_x, np.float32(0))


def _crop_size(c: Any, operand: str) -> tuple[int | None, int | None]:
    c.with_rank(operand, 1)
    known = c.vector(operand)
    if known is None:
        return None, None
    if len(known) != 2:
        raise ValueError(errors.message(f"{operand} of {len(known)} elements", "[height, width]", "crop_size=[14, 14]"))
    for size in known:
        if size is not None and size <= 0:
            raise ValueError(
                "crop dimensions must be positive\n"
                + errors.message(f"{operand} {known}", "positive sizes", f"{operand}=[14, 14]")
            )
    return known[0], known[1]


def _check_boxes(c: Any) -> int | None:
    boxes, index = c.with_rank("boxes", 2), c.with_rank("box_ind", 1)
    if boxes[1] not in (None, 4):
        raise ValueError(
            f"Dimension must be 4 but is {boxes[1]}\n"
            + errors.message(f"boxes of shape {shapes.show(boxes)}", "[n, 4]", "[y1, x1, y2, x2] each")
        )
    return shapes.merge_dim(boxes[0], index[0])


class CropAndResize(Op):
    """For each box ``[y1, x1, y2, x2]``, in parts of height and width, that part of the image ``box_ind``, resized.

    ``[batch, height, width, channels]`` gives ``[boxes, *crop_size, channels]`` in float32; places outside the image
    get ``extrapolation_value``.
    """

    signature = "image: T, boxes: float, box_ind: int32, crop_size: int32 -> crops: float"
    attrs = {"T": Type(_TYPES), "method": String("bilinear", allowed=_METHODS), "extrapolation_value": Float(0.0)}
    effect = PURE
    compile_time = ("crop_size",)

    def shape(c):
        image = c.with_rank("image", 4)
        return (_check_boxes(c), *_crop_size(c, "crop_size"), image[3])

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        image, boxes, index, size = inputs
        crop = tuple(int(item) for item in np.asarray(size))
        _check(ctx, boxes, index, image.shape[0])
        if not (image.shape[0] and image.shape[1] and image.shape[2]):
            return xp.full((len(boxes), *crop, image.shape[3]), np.float32(attrs["extrapolation_value"]))
        y, x = _axes(xp, boxes, crop, image.shape)
        index = xp.clip(index, 0, image.shape[0] - 1)
        settings = attrs["method"] == "nearest", np.float32(attrs["extrapolation_value"])
        if not ctx.host:
            return _crops(ctx, image, index, y, x, *settings)
        crops = np.empty((len(boxes), *crop, image.shape[3]), np.float32)
        for some in _blocks(len(boxes), crops[:1].size):
            crops[some] = _crops(ctx, image, index[some], _part(y, some), _part(x, some), *settings)
        return crops

    def gradient(op, grad):
        image, boxes, index, _ = op.inputs
        by_image = None
        if image.dtype.base.is_floating:
            by_image = build(
                "CropAndResizeGradImage",
                grad,
                boxes,
                index,
                build("Shape", image),
                T=image.dtype.base,
                method=op.get_attr("method"),
            )
        return [by_image, build("CropAndResizeGradBoxes", grad, image, boxes, index), None, None]


class CropAndResizeGradImage(Op):
    """The gradient of CropAndResize by its image, whose shape is ``image_size``."""

    signature = "grads: float, boxes: float, box_ind: int32, image_size: int32 -> output: T"
    attrs = {"T": Type("float half double"), "method": String("bilinear", allowed=_METHODS)}
    effect = PURE
    compile_time = ("image_size",)
    gradient = _NO_SECOND

    def shape(c):
        c.with_rank("grads", 4)
        _check_boxes(c)
        known = c.vector("image_size")
        if known is not None and len(known) != 4:
            raise ValueError(errors.message(f"image_size of {len(known)} elements", "4 elements", "tf.shape(image)"))
        return (None,) * 4 if known is None else tuple(known)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        grads, boxes, index, size = inputs
        image = tuple(int(item) for item in np.asarray(size))
        kind = attrs["T"].np
        _check(ctx, boxes, index, image[0])
        if not all(image) or not grads.size:
            return xp.zeros(image, kind)
        y, x = _axes(xp, boxes, grads.shape[1:3], image)
        wide = np.float64 if kind == np.float64 else np.float32
        index = xp.clip(index, 0, image[0] - 1)
        one = wide(1)
        if attrs["method"] == "nearest":
            parts = [(_nearest(y), _nearest(x), xp.ones(y.low.shape, wide), xp.ones(x.low.shape, wide))]
        else:
            across, down = x.weight.astype(wide), y.weight.astype(wide)
            parts = [
                (row, column, part_y, part_x)
                for row, part_y in ((y.low, one - down), (y.high, down))
                for column, part_x in ((x.low, one - across), (x.high, across))
            ]
        inside = (y.inside[:, :, None] & x.inside[:, None, :]).reshape(-1)
        places = xp.stack([_pixels(xp, index, row, column, image).reshape(-1) for row, column, _, _ in parts], axis=1)
        factors = xp.stack([(down[:, :, None] * across[:, None]).reshape(-1) for _, _, down, across in parts], axis=1)
        total = xp.zeros((math.prod(image[:3]), image[3]), wide)
        rows = grads.reshape(-1, image[3]).astype(wide, copy=False)
        if ctx.host:
            row_sums.add_scaled_rows(total, places[inside], factors[inside], rows, np.where(inside, len(parts), 0))
        else:
            places = xp.where(inside[:, None], places, len(total)).reshape(-1)
            picked = xp.repeat(xp.arange(len(rows), dtype=np.int32), len(parts))
            total = xla_reductions.add_picked_rows(ctx, total, places, rows, picked, factors.reshape(-1))
        return total.reshape(image).astype(kind, copy=False)


class CropAndResizeGradBoxes(Op):
    """The gradient of CropAndResize by its boxes ``[n, 4]``."""

    signature = "grads: float, image: T, boxes: float, box_ind: int32 -> output: float"
    attrs = {"T": Type(_TYPES), "method": String("bilinear", allowed="bilinear")}
    effect = PURE
    gradient = _NO_SECOND

    def shape(c):
        c.with_rank("grads", 4)
        c.with_rank("image", 4)
        return (_check_boxes(c), 4)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        grads, image, boxes, index = inputs
        _check(ctx, boxes, index, image.shape[0])
        if not (image.size and grads.size):
            return xp.zeros((len(boxes), 4), np.float32)
        y, x = _axes(xp, boxes, grads.shape[1:3], image.shape)
        index = xp.clip(index, 0, image.shape[0] - 1)
        if ctx.host:
            by_y, by_x = np.empty((2, *grads.shape[:3]), np.float32)
            for some in _blocks(len(boxes), grads[:1].size):
                parts = _part(y, some), _part(x, some)
                by_y[some], by_x[some] = _slopes(ctx, grads[some], image, index[some], *parts)
        else:
            by_y, by_x = _slopes(ctx, grads, image, index, y, x)
        by_y, by_x = xp.sum(by_y, axis=2), xp.sum(by_x, axis=1)
        height, width = np.float32(image.shape[1] - 1), np.float32(image.shape[2] - 1)
        parts = [by_y * (height - y.scale), by_x * (width - x.scale), by_y * y.scale, by_x * x.scale]
        return xp.stack([xp.sum(part, axis=1) for part in parts], axis=1)


@public("image.crop_and_resize")
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Parts of images, all resized to one size.

    Args:
        image: ``[batch, height, width, channels]``.
        boxes: ``[n, 4]``: ``[y1, x1, y2, x2]`` each, in parts of height and width; ``y1 > y2`` turns the crop over.
        box_ind: int32 ``[n]``: the image of each box.
        crop_size: ``[height, width]``.
        method: ``"bilinear"`` or ``"nearest"``.
        extrapolation_value: the value of places outside the image.
        name: of the op.
        box_indices: another name of ``box_ind``.

    Returns:
        float32 ``[n, height, width, channels]``.
    """
    index = box_ind if box_indices is None else box_indices
    if index is None or crop_size is None:
        raise TypeError(
            errors.message(
                "crop_and_resize without box_ind or crop_size",
                "a box number and a size for each crop",
                "crop_and_resize(image, boxes, [0], [14, 14])",
            )
        )
    options = {"method": method, "extrapolation_value": extrapolation_value}
    return build("CropAndResize", image, boxes, index, crop_size, name=name, **options)
