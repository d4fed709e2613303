"""Crops of images resized to one size, and the gradients by image and by boxes (He et al., 2017, call it RoIAlign).

Policy. Places are computed in float32 as TensorFlow computes them. Whether a place lies inside the image, and
between which pixels, is decided once (:func:`_axis`) for the crop and both gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Float, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes

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


def _rows(xp: Any, index: Any, y: Any, x: Any) -> tuple[Any, Any, Any]:
    """Indices of images, rows and columns of pixels ``[boxes, crop height, crop width]``."""
    return index[:, None, None], y[:, :, None], x[:, None, :]


def _nearest(axis: _Axis) -> Any:
    """The nearest pixel, the higher one in the middle between two."""
    return axis.low + (axis.weight >= np.float32(0.5)).astype(np.int32)


def _corners(xp: Any, index: Any, y: _Axis, x: _Axis, pixels: Any) -> list[Any]:
    """The pixels above left, above right, below left and below right of each place, in float32."""
    return [pixels[_rows(xp, index, row, column)] for row in (y.low, y.high) for column in (x.low, x.high)]


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
        if attrs["method"] == "nearest":
            crops = image[_rows(xp, index, _nearest(y), _nearest(x))].astype(np.float32)
        else:
            a, b, c, d = (pixels.astype(np.float32) for pixels in _corners(xp, index, y, x, image))
            across, down = x.weight[:, None, :, None], y.weight[:, :, None, None]
            above, below = a + (b - a) * across, c + (d - c) * across
            crops = above + (below - above) * down
        inside = (y.inside[:, :, None] & x.inside[:, None, :])[..., None]
        return xp.where(inside, crops, np.float32(attrs["extrapolation_value"]))

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
        inside = (y.inside[:, :, None] & x.inside[:, None, :])[..., None]
        wide = np.float64 if kind == np.float64 else np.float32
        grads = xp.where(inside, grads, np.float32(0)).astype(wide)
        index = xp.clip(index, 0, image[0] - 1)
        if attrs["method"] == "nearest":
            parts = [(_nearest(y), _nearest(x), grads)]
        else:
            across, down = x.weight[:, None, :, None].astype(wide), y.weight[:, :, None, None].astype(wide)
            parts = [
                (row, column, grads * part_y * part_x)
                for row, part_y in ((y.low, 1 - down), (y.high, down))
                for column, part_x in ((x.low, 1 - across), (x.high, across))
            ]
        out = xp.zeros(image, wide)
        for row, column, value in parts:
            place: Any = _rows(xp, index, row, column)
            if ctx.host:
                np.add.at(out, place, value)
            else:
                out = out.at[place].add(value)
        return out.astype(kind)


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
        a, b, c, d = (pixels.astype(np.float32) for pixels in _corners(xp, index, y, x, image))
        across, down = x.weight[:, None, :, None], y.weight[:, :, None, None]
        inside = (y.inside[:, :, None] & x.inside[:, None, :])[..., None]
        grads = xp.where(inside, grads, np.float32(0))
        by_y = xp.sum(((1 - across) * (c - a) + across * (d - b)) * grads, axis=(2, 3))
        by_x = xp.sum(((1 - down) * (b - a) + down * (d - c)) * grads, axis=(1, 3))
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
