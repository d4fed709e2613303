"""Resizing of images ``[batch, height, width, channels]``: bilinear and nearest neighbour, and their gradients.

Positions are found in single precision, as TensorFlow finds them, so that the same pixels are taken. A resize is two
gathers along one dimension after the other; its gradient is two scatters. ``align_corners`` maps the outermost pixels
onto each other; ``half_pixel_centers`` takes pixels as squares, with their centres at one half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors, shapes
from anabranch.core.build import build
from anabranch.core.opdef import DERIVED, PURE, Bool, Op, Type

_ANY = "int8 uint8 int16 uint16 int32 int64 half float double bfloat16"
_FLAGS = {"align_corners": Bool(False), "half_pixel_centers": Bool(False)}


def _scale(size: int, new: int, attrs: dict[str, Any]) -> np.float32:
    if attrs["align_corners"] and new > 1:
        return np.float32(size - 1) / np.float32(new - 1)
    return np.float32(size) / np.float32(new)


def _taps(size: int, new: int, attrs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each new position: the pixels before and after it, and the weight of the latter."""
    place = np.arange(new, dtype=np.float32)
    scale = _scale(size, new, attrs)
    half = np.float32(0.5)
    found = (place + half) * scale - half if attrs["half_pixel_centers"] else place * scale
    before = np.floor(found)
    lower = np.maximum(before.astype(np.int32), 0)
    upper = np.minimum(np.ceil(found).astype(np.int32), size - 1)
    return np.minimum(lower, size - 1), np.maximum(upper, 0), (found - before).astype(np.float32)


def _nearest(size: int, new: int, attrs: dict[str, Any]) -> np.ndarray:
    """For each new position: the nearest pixel."""
    place = np.arange(new, dtype=np.float32)
    scale = _scale(size, new, attrs)
    found = (place + np.float32(0.5)) * scale if attrs["half_pixel_centers"] else place * scale
    if attrs["align_corners"]:
        found = np.floor(found + np.float32(0.5))  # positions are not negative: halves go up
    return np.clip(np.floor(found).astype(np.int32), 0, size - 1)


def _check_flags(c: Any) -> None:
    if c.attrs["align_corners"] and c.attrs["half_pixel_centers"]:
        raise ValueError(
            "If half_pixel_centers is True, align_corners must be False.\n"
            + errors.message("align_corners and half_pixel_centers", "one of them", "align_corners=False")
        )


def _resized_shape(c: Any) -> Any:
    _check_flags(c)
    batch, _, _, channels = c.with_rank(0, 4)
    size = c.vector(1) or [None, None]
    if len(size) != 2:
        raise ValueError(f"size must be a vector of 2 elements, not {len(size)}")
    return (batch, *(None if n is None else int(n) for n in size), channels)


def _checked_size(ctx: Any, image: Any, size: Any) -> tuple[int, int]:
    size = np.asarray(size)
    ctx.check(
        size.shape == (2,),
        errors.InvalidArgumentError,
        f"shape_t must be 1-dimensional with 2 elements, not {shapes.show(size.shape)}",
    )
    height, width = (int(n) for n in size)
    ctx.check(
        height > 0 and width > 0, errors.InvalidArgumentError, "output dimensions must be positive, but are {0}", size
    )
    ctx.check(
        image.shape[1] > 0 and image.shape[2] > 0,
        errors.InvalidArgumentError,
        "input image must be of non-zero size, but is {0}",
        np.array(image.shape[1:3]),
    )
    return height, width


def _weights(weights: np.ndarray, axis: int, dtype: Any) -> np.ndarray:
    return weights.astype(dtype).reshape([-1 if i == axis else 1 for i in range(4)])


def _scattered(ctx: Any, size: int, axis: int, parts: list[tuple[np.ndarray, Any]]) -> Any:
    """Sums of slices along ``axis`` at the positions that are given for each part."""
    first = parts[0][1]
    shape = [size if i == axis else n for i, n in enumerate(first.shape)]
    out = ctx.xp.zeros(shape, first.dtype)
    before: Any = (slice(None),) * axis
    for places, values in parts:
        index: Any = (*before, places)
        if ctx.host:
            np.add.at(out, index, values)
        else:
            out = out.at[index].add(values)
    return out


class ResizeBilinear(Op):
    """Images resized to ``size`` (height and width), each pixel from the four around its place; float32."""

    signature = "images: T, size: int32 -> resized_images: float"
    attrs = {"T": Type(_ANY), **_FLAGS}
    effect = PURE
    compile_time = ("size",)
    shape = _resized_shape

    def kernel(ctx, inputs, attrs):
        image = inputs[0].astype(np.float32)
        for axis, new in zip((1, 2), _checked_size(ctx, image, inputs[1]), strict=True):
            lower, upper, share = _taps(image.shape[axis], new, attrs)
            low, high = ctx.xp.take(image, lower, axis=axis), ctx.xp.take(image, upper, axis=axis)
            image = low + (high - low) * _weights(share, axis, np.float32)
        return image

    def gradient(op, grad):
        if not op.inputs[0].dtype.is_floating:
            return [None, None]
        flags = {key: op.get_attr(key) for key in _FLAGS}
        return [build("ResizeBilinearGrad", grad, op.inputs[0], **flags), None]


class ResizeBilinearGrad(Op):
    """Gradient of `ResizeBilinear` with respect to the images: each pixel of ``grads`` to those it was made from."""

    signature = "grads: float, original_image: T -> output: T"
    attrs = {"T": Type("float bfloat16 half double"), **_FLAGS}
    effect = PURE
    gradient = DERIVED

    def shape(c):
        _check_flags(c)
        batch, _, _, channels = c.with_rank(0, 4)
        found = c.with_rank(1, 4)
        return (batch, found[1], found[2], channels)

    def kernel(ctx, inputs, attrs):
        grads, like = inputs
        dtype = np.dtype(like.dtype)
        wide = np.float64 if dtype == np.float64 else np.float32
        out = grads.astype(wide)
        for axis in (2, 1):
            size = like.shape[axis]
            lower, upper, share = _taps(size, grads.shape[axis], attrs)
            part = _weights(share, axis, wide)
            out = _scattered(ctx, size, axis, [(lower, out * (wide(1) - part)), (upper, out * part)])
        return out.astype(dtype)


class ResizeNearestNeighbor(Op):
    """Images resized to ``size`` (height and width), each pixel a copy of the nearest one."""

    signature = "images: T, size: int32 -> resized_images: T"
    attrs = {"T": Type(_ANY), **_FLAGS}
    effect = PURE
    compile_time = ("size",)
    shape = _resized_shape

    def kernel(ctx, inputs, attrs):
        image = inputs[0]
        for axis, new in zip((1, 2), _checked_size(ctx, image, inputs[1]), strict=True):
            image = ctx.xp.take(image, _nearest(image.shape[axis], new, attrs), axis=axis)
        return image

    def gradient(op, grad):
        known = op.inputs[0].get_shape()
        size: Any = known[1:3].as_list() if known.ndims is not None else [None]
        if None in size:
            size = build("StridedSlice", build("Shape", op.inputs[0]), [1], [3], [1])
        flags = {key: op.get_attr(key) for key in _FLAGS}
        return [build("ResizeNearestNeighborGrad", grad, size, **flags), None]


class ResizeNearestNeighborGrad(Op):
    """Gradient of `ResizeNearestNeighbor` with respect to images of height and width ``size``."""

    signature = "grads: T, size: int32 -> output: T"
    attrs = {"T": Type("uint8 int8 int32 half float double bfloat16"), **_FLAGS}
    effect = PURE
    compile_time = ("size",)
    shape = _resized_shape
    gradient = DERIVED

    def kernel(ctx, inputs, attrs):
        out = inputs[0]
        height, width = _checked_size(ctx, out, inputs[1])
        for axis, size in ((2, width), (1, height)):
            out = _scattered(ctx, size, axis, [(_nearest(size, out.shape[axis], attrs), out)])
        return out
