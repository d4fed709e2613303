"""Colours of images: hue, saturation and value, contrast. The last dimension holds the three channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import DERIVED, PURE, Op, Type
from anabranch.core.values import shapes, spare_arrays
from anabranch.ops.math import xla_reductions
from anabranch.ops.shared import host_choice, row_rules


def _colours(c: Any) -> Any:
    shape = c.shapes[0]
    if shape is not None and (not shape or shape[-1] not in (None, 3)):
        raise ValueError(
            errors.message(
                f"images of shape {shapes.show(shape)}", "3 channels in the last dimension", "images[..., :3]"
            )
        )
    return shape


def _three_colours(c: Any) -> Any:
    shape = _colours(c)
    return shape if shape is None else (*shape[:-1], 3)


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


_BLOCK = 1 << 14
"""Pixels that are recoloured together, for which a dozen planes stay in the caches."""


def _recoloured(recolour: Any, images: np.ndarray, number: Any) -> np.ndarray:
    """Images whose colours a function changes, in blocks of pixels, with a number for all or for each image."""
    out = spare_arrays.empty(images.shape, np.float32)
    number = np.asarray(number, np.float32)
    count = out.size // 3
    if count <= _BLOCK:
        recolour(_planes(images), number, out)
        return out
    pixels, into = images.reshape(-1, 3), out.reshape(-1, 3)
    numbers = np.broadcast_to(number, images.shape[:-1]).reshape(-1) if number.ndim else None
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        recolour(_planes(pixels[block]), number if numbers is None else numbers[block], into[block])
    return out


def _planes(images: np.ndarray) -> list[np.ndarray]:
    """The three channels in float32, each of them contiguous: NumPy takes half the time for these."""
    planes = [spare_arrays.empty(images.shape[:-1], np.float32) for _ in range(3)]
    for channel, plane in enumerate(planes):
        plane[...] = images[..., channel]
    return planes


def _like(plane: np.ndarray) -> np.ndarray:
    return spare_arrays.empty(plane.shape, plane.dtype)


def _largest(planes: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The value of colours, and how far their least channel is from it."""
    red, green, blue = planes
    value, spread = np.maximum(red, green, out=_like(red)), np.minimum(red, green, out=_like(red))
    np.maximum(value, blue, out=value)
    np.minimum(spread, blue, out=spread)
    return value, np.subtract(value, spread, out=spread)


def _turn(planes: Sequence[np.ndarray], delta: np.ndarray, out: np.ndarray) -> None:
    """Channels of another hue, by whole planes: what the choices are between is computed everywhere, and overwritten.

    Value and spread stay. Of six parts of the circle a channel is the largest in two, the least in two, and goes from
    one to the other in those between them.
    """
    kind = np.float32
    red, green, blue = planes
    value, spread = _largest(planes)
    norm, hue, part = _like(red), _like(red), _like(red)
    np.maximum(spread, np.finfo(kind).tiny, out=norm)
    np.divide(kind(1), norm, out=norm)
    for minuend, subtrahend, more, where in (
        (red, green, 4, None),
        (blue, red, 2, green == value),
        (green, blue, 0, red == value),
    ):
        into = hue if where is None else part
        np.subtract(minuend, subtrahend, out=into)
        into *= norm
        into += kind(more)
        if where is not None:
            hue = host_choice.choose(where, part, hue)
    hue *= kind(1 / 6)
    hue += delta
    hue -= np.floor(hue, out=part)
    hue *= kind(6)
    spread *= value > 0  # the saturation of what is not positive is 0
    for channel, place in enumerate((3, 2, 4)):
        np.subtract(hue, kind(place), out=part)
        np.abs(part, out=part)
        if channel:
            part -= kind(1)
        else:
            np.subtract(kind(2), part, out=part)
        np.maximum(part, kind(0), out=part)
        np.minimum(part, kind(1), out=part)
        part *= spread
        np.subtract(value, part, out=out[..., channel])


def _saturate(planes: Sequence[np.ndarray], scale: np.ndarray, out: np.ndarray) -> None:
    """Channels of another saturation. Hue and value stay, so that each channel goes to or from the largest one, by
    the factor by which the saturation grows: by ``scale``, or until it is 1.
    """
    value, spread = _largest(planes)
    factor = np.divide(value, spread, out=spread)
    np.fmin(factor, scale, out=factor)
    np.maximum(factor, np.float32(0), out=factor)
    for channel, plane in enumerate(planes):
        np.subtract(value, plane, out=plane)
        plane *= factor
        np.subtract(value, plane, out=out[..., channel])


def _channels(xp: Any, images: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The three channels, each with a last dimension of 1, the value, and how far the least channel is from it.

    What is computed of these is broadcast over the channels at the end: XLA's CPU backend computes what is stacked for
    each of the three anew, with a choice between them for each element.
    """
    red, green, blue = images[..., 0:1], images[..., 1:2], images[..., 2:3]
    value = xp.maximum(xp.maximum(red, green), blue)
    return red, green, blue, value, value - xp.minimum(xp.minimum(red, green), blue)


def _turned(xp: Any, images: Any, delta: Any) -> Any:
    """:func:`_turn` for programs."""
    kind = np.float32
    red, green, blue, value, spread = _channels(xp, images)
    norm = kind(1) / xp.where(spread > 0, spread, kind(1))
    hue = xp.where(
        red == value,
        (green - blue) * norm,
        xp.where(green == value, (blue - red) * norm + kind(2), (red - green) * norm + kind(4)),
    )
    hue = hue * kind(1 / 6) + delta
    hue = (hue - xp.floor(hue)) * kind(6)
    places, apart, sign = (np.array(row, np.float32) for row in ((3, 2, 4), (2, 1, 1), (-1, 1, 1)))
    part = xp.clip((xp.abs(hue - places) - apart) * sign, kind(0), kind(1))
    return value - part * xp.where(value > 0, spread, kind(0))


def _saturated(xp: Any, images: Any, scale: Any) -> Any:
    """:func:`_saturate` for programs."""
    kind = np.float32
    _, _, _, value, spread = _channels(xp, images)
    most = xp.where(spread > 0, value / xp.where(spread > 0, spread, kind(1)), scale)
    return value - (value - images) * xp.maximum(xp.minimum(most, scale), kind(0))


_FLOATS = {"T": Type("bfloat16 double float half", "float")}
_HALVES = {"T": Type("float half", "float")}


class RGBToHSV(Op):
    """Images of red, green and blue as hue, saturation and value, all in [0, 1]."""

    signature = "images: T -> output: T"
    attrs = _FLOATS
    effect = PURE
    by_rows = row_rules.as_it_is
    shape = _three_colours
    gradient = DERIVED

    def kernel(ctx, inputs, attrs):
        return to_hsv(ctx.xp, inputs[0])


class HSVToRGB(Op):
    """Images of hue, saturation and value as red, green and blue, all in [0, 1]."""

    signature = "images: T -> output: T"
    attrs = _FLOATS
    effect = PURE
    by_rows = row_rules.as_it_is
    shape = _three_colours
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
        axes = x.ndim - 3, x.ndim - 2
        pixels = np.float32(x.shape[-3] * x.shape[-2])
        if ctx.xp is np:
            wide = x.astype(np.float32, copy=False)
            mean = xla_reductions.reduce(ctx, "sum", wide, axes, True) / pixels
            apart = spare_arrays.arithmetic(np.subtract, wide, mean)
            apart *= factor
            return spare_arrays.arithmetic(np.add, apart, mean).astype(x.dtype, copy=False)
        wide = x.astype(np.float32)
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
            return _recoloured(_turn, x, delta).astype(x.dtype, copy=False)
        return _turned(xp, x.astype(np.float32), delta).astype(x.dtype)


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
            return _recoloured(_saturate, x, scale).astype(x.dtype, copy=False)
        return _saturated(xp, x.astype(np.float32), scale).astype(x.dtype)
