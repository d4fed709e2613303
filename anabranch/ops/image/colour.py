"""Colours of images: hue, saturation and value, contrast. The last dimension holds the three channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import DERIVED, PURE, Op, Type
from anabranch.core.values import shapes
from anabranch.ops.math import xla_reductions
from anabranch.ops.shared import row_rules


def _colours(c: Any) -> Any:
    shape = c.shapes[0]
    if shape is not None and (not shape or shape[-1] not in (None, 3)):
        raise ValueError(
            errors.message(
                f"images of shape {shapes.show(shape)}", "3 channels in the last dimension", "images[..., :3]"
            )
        )
    return shape


def to_hsv(xp: Any, rgb: Any) -> Any:
    """Hue, saturation and value in [0, 1] of red, green and blue."""
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    value = xp.maximum(red, xp.maximum(green, blue))
    spread = value - xp.minimum(red, xp.minimum(green, blue))
    zero, one = rgb.dtype.type(0), rgb.dtype.type(1)
    saturation = xp.where(value > 0, spread / xp.where(value > 0, value, one), zero)
    norm = one / (rgb.dtype.type(6) * xp.where(spread > 0, spread, one))
    hue = xp.where(
        red == value,
        norm * (green - blue),
        xp.where(
            green == value, norm * (blue - red) + rgb.dtype.type(2 / 6), norm * (red - green) + rgb.dtype.type(4 / 6)
        ),
    )
    hue = xp.where(spread > 0, hue, zero)
    return xp.stack([xp.where(hue < 0, hue + one, hue), saturation, value], axis=-1)


def to_rgb(xp: Any, hsv: Any) -> Any:
    """Red, green and blue of hue, saturation and value in [0, 1]."""
    kind = hsv.dtype.type
    hue, saturation, value = hsv[..., 0], hsv[..., 1], hsv[..., 2]
    six = hue * kind(6)
    parts = (
        xp.abs(six - kind(3)) - kind(1),
        kind(2) - xp.abs(six - kind(2)),
        kind(2) - xp.abs(six - kind(4)),
    )
    one_less = kind(1) - saturation
    return xp.stack([(one_less + saturation * xp.clip(part, kind(0), kind(1))) * value for part in parts], axis=-1)


def _planes(images: np.ndarray) -> list[np.ndarray]:
    """The three channels in float32, each of them contiguous: NumPy takes half the time for these."""
    return [images[..., channel].astype(np.float32, order="C") for channel in range(3)]


def _hsv_planes(red: Any, green: Any, blue: Any) -> tuple[Any, Any, Any]:
    """:func:`to_hsv` on the host, by channels: what the choices are between is computed everywhere, and overwritten."""
    kind = red.dtype.type
    value = np.maximum(red, np.maximum(green, blue))
    spread = value - np.minimum(red, np.minimum(green, blue))
    coloured = spread > 0
    saturation = spread / value
    saturation[~(value > 0)] = 0
    norm = np.multiply(spread, kind(6))
    np.divide(kind(1), norm, out=norm)
    hue = green - blue
    hue *= norm
    of_green = blue - red
    of_green *= norm
    of_green += kind(2 / 6)
    of_blue = red - green
    of_blue *= norm
    of_blue += kind(4 / 6)
    hue = np.where(red == value, hue, np.where(green == value, of_green, of_blue))
    hue[~coloured] = 0
    np.add(hue, kind(1), out=hue, where=hue < 0)
    return hue, saturation, value


def _rgb_of_planes(hue: Any, saturation: Any, value: Any) -> np.ndarray:
    """:func:`to_rgb` on the host, by channels."""
    kind = hue.dtype.type
    six = hue * kind(6)
    less = kind(1) - saturation
    out = np.empty((*hue.shape, 3), hue.dtype)
    for channel, (place, sign, more) in enumerate(((3, 1, -1), (2, -1, 2), (4, -1, 2))):
        part = six - kind(place)
        np.abs(part, out=part)
        if sign < 0:
            np.subtract(kind(more), part, out=part)
        else:
            part += kind(more)
        np.clip(part, kind(0), kind(1), out=part)
        part *= saturation
        part += less
        np.multiply(part, value, out=out[..., channel])
    return out


_FLOATS = {"T": Type("bfloat16 double float half", "float")}
_HALVES = {"T": Type("float half", "float")}


class RGBToHSV(Op):
    """Images of red, green and blue as hue, saturation and value, all in [0, 1]."""

    signature = "images: T -> output: T"
    attrs = _FLOATS
    effect = PURE
    by_rows = row_rules.as_it_is
    shape = _colours
    gradient = DERIVED

    def kernel(ctx, inputs, attrs):
        return to_hsv(ctx.xp, inputs[0])


class HSVToRGB(Op):
    """Images of hue, saturation and value as red, green and blue, all in [0, 1]."""

    signature = "images: T -> output: T"
    attrs = _FLOATS
    effect = PURE
    by_rows = row_rules.as_it_is
    shape = _colours
    gradient = DERIVED

    def kernel(ctx, inputs, attrs):
        return to_rgb(ctx.xp, inputs[0])


class AdjustContrastv2(Op):
    """``(x - mean) * factor + mean`` with the mean over height and width of each image and channel."""

    signature = "images: T, contrast_factor: float -> output: T"
    attrs = _HALVES
    effect = PURE
    by_rows = row_rules.with_number()
    gradient = DERIVED

    def shape(c):
        c.with_rank("contrast_factor", 0)
        return c.with_rank_at_least("images", 3)

    def kernel(ctx, inputs, attrs):
        x, factor = inputs
        wide = x.astype(np.float32)
        axes = x.ndim - 3, x.ndim - 2
        pixels = np.float32(x.shape[-3] * x.shape[-2])
        mean = xla_reductions.reduce(ctx, "sum", wide, axes, True) / pixels
        return ((wide - mean) * factor + mean).astype(x.dtype)


class AdjustHue(Op):
    """Images whose hue is turned by ``delta``, a part of the whole circle."""

    signature = "images: T, delta: float -> output: T"
    attrs = _HALVES
    effect = PURE
    by_rows = row_rules.with_number(fewer=1)
    gradient = DERIVED

    def shape(c):
        c.with_rank("delta", 0)
        c.with_rank_at_least("images", 3)
        return _colours(c)

    def kernel(ctx, inputs, attrs):
        xp, (x, delta) = ctx.xp, inputs
        if xp is np:
            hue, saturation, value = _hsv_planes(*_planes(x))
            hue += delta
            hue -= np.floor(hue)
            return _rgb_of_planes(hue, saturation, value).astype(x.dtype, copy=False)
        hsv = to_hsv(xp, x.astype(np.float32))
        hue = hsv[..., 0] + delta
        turned = xp.stack([hue - xp.floor(hue), hsv[..., 1], hsv[..., 2]], axis=-1)
        return to_rgb(xp, turned).astype(x.dtype)


class AdjustSaturation(Op):
    """Images whose saturation is multiplied by ``scale``, at most 1."""

    signature = "images: T, scale: float -> output: T"
    attrs = _HALVES
    effect = PURE
    by_rows = row_rules.with_number(fewer=1)
    gradient = DERIVED

    def shape(c):
        c.with_rank("scale", 0)
        c.with_rank_at_least("images", 3)
        return _colours(c)

    def kernel(ctx, inputs, attrs):
        xp, (x, scale) = ctx.xp, inputs
        if xp is np:
            hue, saturation, value = _hsv_planes(*_planes(x))
            saturation *= scale
            np.clip(saturation, np.float32(0), np.float32(1), out=saturation)
            return _rgb_of_planes(hue, saturation, value).astype(x.dtype, copy=False)
        hsv = to_hsv(xp, x.astype(np.float32))
        saturation = xp.clip(hsv[..., 1] * scale, np.float32(0), np.float32(1))
        return to_rgb(xp, xp.stack([hsv[..., 0], saturation, hsv[..., 2]], axis=-1)).astype(x.dtype)
