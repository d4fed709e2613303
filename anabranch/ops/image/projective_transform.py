"""Projective transformations of images: each output place reads from where the transformation takes it.

Policy. Places are computed in float32. The gradient is TensorFlow's: the inverse transformation of what came in, which
is close to the true one where the transformation does not stretch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes

_F = np.float32
_TYPES = "uint8 int32 int64 half bfloat16 float double"
_FILLS = ("CONSTANT", "REFLECT", "WRAP", "NEAREST")


def _mapped(xp: Any, place: Any, size: int, mode: str) -> Any:
    """Places beyond the edge brought inside, as the mode says."""
    if mode == "CONSTANT":
        return place
    last = _F(size - 1)
    if mode != "NEAREST" and size <= 1:
        place = xp.zeros_like(place)
    elif mode == "REFLECT":
        period = _F(2 * size)
        low = xp.where(place < -period, place + period * xp.trunc(-place / period), place)
        low = xp.where(low < -_F(size), low + period, -low - 1)
        high = place - period * xp.trunc(place / period)
        high = xp.where(high >= size, period - high - 1, high)
        place = xp.where(place < 0, low, xp.where(place > last, high, place))
    elif mode == "WRAP":
        low = place + _F(size) * (xp.trunc(-place / last) + 1)
        high = place - _F(size) * xp.trunc(place / last)
        place = xp.where(place < 0, low, xp.where(place > last, high, place))
    return xp.clip(place, _F(0), last)


def _read(xp: Any, images: Any, y: Any, x: Any, fill: Any) -> Any:
    """Pixels ``[batch, height, width, channels]`` at whole places ``[batch, height, width]``."""
    height, width = images.shape[1:3]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows = xp.where(inside, y, 0).astype(np.int32)
    columns = xp.where(inside, x, 0).astype(np.int32)
    batch = xp.arange(images.shape[0])[:, None, None]
    return xp.where(inside[..., None], images[batch, rows, columns], fill)


def _transformed(ctx: Any, images: Any, transforms: Any, size: Any, fill: Any, attrs: Any) -> Any:
    xp = ctx.xp
    kind = images.dtype
    rows, columns = (int(item) for item in np.asarray(size).ravel())
    ctx.check(
        transforms.ndim == 2 and transforms.shape[1] == 8 and transforms.shape[0] in (1, images.shape[0]),
        errors.InvalidArgumentError,
        f"Input transform should be num_images x 8 or 1 x 8, got {shapes.show(transforms.shape)}",
    )
    ctx.check(
        rows > 0 and columns > 0, errors.InvalidArgumentError, f"new dimensions must be positive: {rows, columns}"
    )
    if not images.size:
        return xp.zeros((images.shape[0], rows, columns, images.shape[3]), kind)
    y, x = (item.astype(_F) for item in xp.meshgrid(xp.arange(rows), xp.arange(columns), indexing="ij"))
    a = [transforms[:, i, None, None] for i in range(8)]
    depth = a[6] * x + a[7] * y + _F(1)
    possible = depth != 0
    safe = xp.where(possible, depth, _F(1))
    from_x, from_y = (a[0] * x + a[1] * y + a[2]) / safe, (a[3] * x + a[4] * y + a[5]) / safe
    shape = (images.shape[0], rows, columns)
    mode = attrs["fill_mode"]
    from_x = xp.broadcast_to(_mapped(xp, from_x, images.shape[2], mode), shape)
    from_y = xp.broadcast_to(_mapped(xp, from_y, images.shape[1], mode), shape)
    fill = xp.asarray(fill).astype(kind)
    if attrs["interpolation"] == "NEAREST":
        pixels = _read(xp, images, _round_away(xp, from_y), _round_away(xp, from_x), fill)
    else:
        wide = np.float64 if kind == np.float64 else _F
        top, left = xp.floor(from_y), xp.floor(from_x)
        down, across = (part.astype(wide)[..., None] for part in (from_y - top, from_x - left))

        def at(row: Any, column: Any) -> Any:
            return _read(xp, images, row, column, fill).astype(wide)

        above = (1 - across) * at(top, left) + across * at(top, left + 1)
        below = (1 - across) * at(top + 1, left) + across * at(top + 1, left + 1)
        pixels = ((1 - down) * above + down * below).astype(kind)
    return xp.where(xp.broadcast_to(possible, shape)[..., None], pixels, fill)


def _round_away(xp: Any, x: Any) -> Any:
    return xp.trunc(x + xp.copysign(_F(0.5), x))


def _shape(c: Any) -> Any:
    images, transforms = c.with_rank("images", 4), c.with_rank("transforms", 2)
    c.with_rank("output_shape", 1)
    if transforms[1] not in (None, 8):
        raise ValueError(
            errors.message(f"transforms of shape {shapes.show(transforms)}", "[n, 8]", "[[1, 0, 0, 0, 1, 0, 0, 0]]")
        )
    for key, allowed in (("interpolation", ("NEAREST", "BILINEAR")), ("fill_mode", _FILLS)):
        if c.attrs[key] not in allowed:
            raise ValueError(errors.message(f"{key}={c.attrs[key]!r}", f"one of {', '.join(allowed)}", allowed[0]))
    size = c.vector("output_shape")
    if size is not None and len(size) != 2:
        raise ValueError(errors.message(f"output_shape of {len(size)} elements", "[height, width]", "[64, 64]"))
    return (images[0], *(size or (None, None)), images[3])


def inverse(transforms: Any) -> Any:
    """The inverse projective transformations ``[n, 8]``, in the graph."""
    ones = build("OnesLike", transforms[:, :1])
    matrices = build("Reshape", build("ConcatV2", [transforms, ones], 1), [-1, 3, 3])
    flat = build("Reshape", build("MatrixInverse", matrices), [-1, 9])
    return build("RealDiv", flat, flat[:, 8:9])[:, :8]


def _back(op: Any, grad: Any, fill: bool) -> list[Any]:
    images, transforms = op.inputs[:2]
    if not images.dtype.base.is_floating:
        return [None] * len(op.inputs)
    options = {key: op.get_attr(key) for key in ("interpolation", "fill_mode")}
    size = build("Shape", images)[1:3]
    operands = (grad, inverse(transforms), size)
    name = "ImageProjectiveTransformV3" if fill else "ImageProjectiveTransformV2"
    slope = build(name, *operands, np.float32(0), **options) if fill else build(name, *operands, **options)
    return [slope, *[None] * (len(op.inputs) - 1)]


class ImageProjectiveTransformV2(Op):
    """Images of ``output_shape`` that show at ``(x, y)`` the input at ``((a x + b y + c) / k, (d x + e y + f) / k)``.

    ``transforms`` ``[n, 8]`` holds ``a`` to ``h`` for each image, or for all, and ``k = g x + h y + 1``.
    """

    signature = "images: dtype, transforms: float, output_shape: int32 -> transformed_images: dtype"
    attrs = {"dtype": Type(_TYPES), "interpolation": String(), "fill_mode": String("CONSTANT")}
    effect = PURE
    compile_time = ("output_shape",)
    shape = _shape

    def kernel(ctx, inputs, attrs):
        return _transformed(ctx, *inputs, 0, attrs)

    def gradient(op, grad):
        return _back(op, grad, False)


class ImageProjectiveTransformV3(Op):
    """ImageProjectiveTransformV2 with the value of places outside the image as an operand."""

    signature = "images: dtype, transforms: float, output_shape: int32, fill_value: float -> transformed_images: dtype"
    attrs = {"dtype": Type(_TYPES), "interpolation": String(), "fill_mode": String("CONSTANT")}
    effect = PURE
    compile_time = ("output_shape",)
    shape = _shape

    def kernel(ctx, inputs, attrs):
        return _transformed(ctx, *inputs, attrs)

    def gradient(op, grad):
        return _back(op, grad, True)
