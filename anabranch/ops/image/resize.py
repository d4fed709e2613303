"""Resizing of images: each method is a weighted sum of a few pixels along the width, then along the height.

Policy. Places and weights are computed in float32 as TensorFlow computes them, since the floor of a product decides
which pixel is taken. Three ways to place pixels: by the ratio of sizes (the default), by corners (``align_corners``),
by centres (``half_pixel_centers``). Results are float32, but for the nearest neighbour, which copies pixels.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.values import spare_arrays
from anabranch.ops.math import xla_reductions

_NUMBERS = "bfloat16 double float half int16 int32 int64 int8 uint16 uint8"
_FLOAT = np.float32


class Taps(NamedTuple):
    """For each output place along an axis the input places ``[out, taps]`` and their weights."""

    places: np.ndarray
    weights: np.ndarray


def _scale(size: int, out: int, align_corners: bool) -> np.float32:
    if align_corners and out > 1:
        return _FLOAT(size - 1) / _FLOAT(out - 1)
    return _FLOAT(size) / _FLOAT(out)


def _positions(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    """Where each output pixel lies among the input's, as float32."""
    index, scale = np.arange(out, dtype=_FLOAT), _scale(size, out, align_corners)
    return (index + _FLOAT(0.5)) * scale - _FLOAT(0.5) if half_pixel_centers else index * scale


def bilinear_taps(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Taps:
    """The two neighbours."""
    position = _positions(size, out, align_corners, half_pixel_centers)
    lower = np.floor(position)
    low = np.maximum(lower.astype(np.int64), 0)
    high = np.minimum(np.ceil(position).astype(np.int64), size - 1)
    weight = position - lower
    return Taps(np.stack([np.minimum(low, size - 1), high], 1), np.stack([1 - weight, weight], 1))


def nearest_taps(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Taps:
    """The nearest pixel, or the one at or before the place."""
    index, scale = np.arange(out, dtype=_FLOAT), _scale(size, out, align_corners)
    position = (index + _FLOAT(0.5)) * scale if half_pixel_centers else index * scale
    place = np.floor(position + _FLOAT(0.5)) if align_corners else np.floor(position)
    return Taps(np.clip(place.astype(np.int64), 0, size - 1)[:, None], np.ones((out, 1), _FLOAT))


_TABLE_SIZE = 1 << 10


def _cubic_table(a: float) -> np.ndarray:
    """Keys' kernel with parameter ``a`` at 1025 distances from 0 to 1, and from 1 to 2."""
    near = np.arange(_TABLE_SIZE + 1, dtype=_FLOAT) / _FLOAT(_TABLE_SIZE)
    far = near + _FLOAT(1)
    a = _FLOAT(a)
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return np.stack([inner, outer], 1).astype(_FLOAT)


def bicubic_taps(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Taps:
    """Four neighbours by Keys' cubic kernel, tabulated in 1024 steps as in TensorFlow."""
    position = _positions(size, out, align_corners, half_pixel_centers)
    lower = np.floor(position)
    offset = np.rint((position - lower) * _FLOAT(_TABLE_SIZE)).astype(np.int64)
    table = _cubic_table(-0.5 if half_pixel_centers else -0.75)
    complement = _TABLE_SIZE - offset
    weights = np.stack([table[offset, 1], table[offset, 0], table[complement, 0], table[complement, 1]], 1)
    places = lower.astype(np.int64)[:, None] + np.arange(-1, 3)
    bounded = np.clip(places, 0, size - 1)
    if half_pixel_centers:  # pixels outside do not count
        weights = np.where(places == bounded, weights, _FLOAT(0))
        total = weights.sum(1, keepdims=True)
        weights = np.where(np.abs(total) >= 1000 * np.finfo(_FLOAT).tiny, weights / total, weights)
    return Taps(bounded, weights.astype(_FLOAT))


def area_taps(size: int, out: int, align_corners: bool, half_pixel_centers: bool = False) -> Taps:
    """All pixels that an output pixel covers, by the part of each that is covered."""
    scale = _scale(size, out, align_corners)
    start = np.arange(out, dtype=_FLOAT) * scale
    end = np.arange(1, out + 1, dtype=_FLOAT) * scale
    first = np.floor(start).astype(np.int64)
    count = int((np.ceil(end).astype(np.int64) - first).max(initial=1))
    places = first[:, None] + np.arange(count)
    covered = np.minimum(places + 1, end[:, None]) - np.maximum(places, start[:, None])
    weights = np.maximum(covered, 0).astype(_FLOAT) / scale
    return Taps(np.clip(places, 0, size - 1), weights)


def _matrix(taps: Taps, size: int) -> np.ndarray:
    """The weights as a matrix ``[out, size]``."""
    out = len(taps.places)
    matrix = np.zeros((out, size), _FLOAT)
    np.add.at(matrix, (np.arange(out)[:, None], taps.places), taps.weights)
    return matrix


def _along(ctx: Any, x: Any, taps: Taps, axis: int) -> Any:
    """The weighted sum along an axis of an image batch, in float32; of one pixel, as it is."""
    xp = ctx.xp
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    parts = [xp.take(x, xp.asarray(taps.places[:, i]), axis=axis) for i in range(taps.places.shape[1])]
    if len(parts) == 1:
        return parts[0]
    weights = [xp.asarray(taps.weights[:, i].reshape(shape)) for i in range(taps.places.shape[1])]
    parts = [part.astype(_FLOAT) for part in parts]
    if len(parts) == 2:  # as TensorFlow rounds it
        return parts[0] + (parts[1] - parts[0]) * weights[1]
    total = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = total + part * weight
    return total


@functools.lru_cache(maxsize=256)
def _host_taps(method: Any, sizes: tuple[int, int], options: tuple[bool, bool], channels: int) -> Taps:
    """Places and weights as :func:`_weighted` takes them, ``[taps, out]``, for the numbers of pixels.

    Photographs come in few sizes, and are cropped to many.
    """
    places, weights = method(*sizes, *options)
    if channels > 1:
        places = (places[:, np.newaxis] * channels + np.arange(channels)[:, np.newaxis]).reshape(-1, places.shape[1])
        weights = np.repeat(weights, channels, axis=0)
    return Taps(np.ascontiguousarray(places.T), np.ascontiguousarray(weights.T))


@functools.lru_cache(maxsize=256)
def _host_rows(method: Any, sizes: tuple[int, int], options: tuple[bool, bool]) -> tuple[Taps, np.ndarray | None]:
    """The same for rows, and which rows are used at all, if others are not; places then count these."""
    rows = _host_taps(method, sizes, options, 1)
    if rows.places.size >= sizes[0]:
        return rows, None
    used = np.unique(rows.places)
    return Taps(np.searchsorted(used, rows.places), rows.weights), used


_BLOCK = 1 << 17
"""Bytes of numbers that are computed together: what stands between two steps of arithmetic stays in the caches. With
whole images photographs of 240 by 265 pixels took a third more time.
"""


def _resized_on_host(x: np.ndarray, height: int, width: int, options: tuple[bool, bool], method: Any) -> np.ndarray:
    """The same in NumPy: numbers along rows, then whole rows, of which only those are looked at that are used."""
    batch, old_height, old_width, channels = x.shape
    columns = _host_taps(method, (old_width, width), options, channels)
    rows, used = _host_rows(method, (old_height, height), options)
    if len(rows.places) == len(columns.places) == 1:  # nothing is computed: what is fewer comes first
        if height < old_height:
            x = x.take(rows.places[0] if used is None else used[rows.places[0]], axis=1)
        lines = x.reshape(-1, old_width * channels).take(columns.places[0], axis=1, mode="clip")
        lines = lines.reshape(batch, x.shape[1], width * channels)
        out = lines if height < old_height else lines.take(rows.places[0], axis=1)
        return out.reshape(batch, height, width, channels)
    if used is not None:
        x = x.take(used, axis=1)
    out = spare_arrays.empty((batch, height, width * channels), _FLOAT)
    source = x.reshape(batch, x.shape[1], old_width * channels)
    together = max(1, _BLOCK // max(1, 4 * width * channels * max(x.shape[1], height)))
    for first in range(0, batch, together):
        images = slice(first, first + together)
        _resized_together(source[images], rows, columns, out[images])
    return out.reshape(batch, height, width, channels)


def _resized_together(source: np.ndarray, rows: Taps, columns: Taps, out: np.ndarray) -> None:
    """Images, rows and numbers, in blocks: of some images, or of some rows of one."""
    count, old_height, _ = source.shape
    _, height, numbers = out.shape
    step = max(1, _BLOCK // (4 * numbers)) if count == 1 else max(old_height, height)
    size = count * min(step, max(old_height, height)) * numbers
    lines, part, pixels = spare_arrays.scratch(
        (count * old_height * numbers, _FLOAT), (size, _FLOAT), (size, source.dtype)
    )
    lines = lines.reshape(count, old_height, numbers)
    for first in range(0, old_height, step):
        some = slice(first, first + step)
        _weighted(source[:, some], columns, 2, lines[:, some], part, pixels)
    for first in range(0, height, step):
        some = slice(first, first + step)
        weights = rows.weights[:, some, np.newaxis]
        _weighted(lines, Taps(rows.places[:, some], weights), 1, out[:, some], part, pixels)


def _weighted(source: np.ndarray, taps: Taps, axis: int, out: np.ndarray, part: np.ndarray, pixels: np.ndarray) -> None:
    """The weighted sum of what stands at places of an axis, in float32; of one place, that itself. ``part`` and
    ``pixels`` are memory for it.

    Pixels become floats by a copy: arithmetic on arrays of two dtypes goes through a buffer, at four times the price.
    """
    places, weights = taps
    part = part[: out.size].reshape(out.shape)
    pixels = pixels[: out.size].reshape(out.shape)

    def pick(i: int, into: np.ndarray) -> np.ndarray:
        if source.dtype == _FLOAT:
            return source.take(places[i], axis=axis, out=into, mode="clip")
        np.copyto(into, source.take(places[i], axis=axis, out=pixels, mode="clip"), casting="unsafe")
        return into

    if len(places) == 2:  # as TensorFlow rounds it
        first = pick(0, part)
        pick(1, out)
        out -= first
        out *= weights[1]
        out += first
        return
    pick(0, out)
    if len(places) == 1:
        return
    out *= weights[0]
    for i in range(1, len(places)):
        pick(i, part)
        part *= weights[i]
        out += part


def _outside(ctx: Any, x: Any) -> Any:
    """Resized images, which whatever sums them up does not compute pixel by pixel. (Not between height and width, where
    it would cost a quarter.)
    """
    return xla_reductions.outside(ctx, x) if x.dtype == _FLOAT else x


_MOST_TAPS = 16
"""Output places of one input place up to which a gradient gathers them."""


def _back(ctx: Any, grad: Any, taps: Taps, size: int, axis: int) -> Any:
    """The transpose of :func:`_along`."""
    xp = ctx.xp
    matrix = _matrix(taps, size).astype(grad.dtype)
    most = int(np.count_nonzero(matrix, axis=0).max(initial=0))
    if not (ctx.host or ctx.platform == "cpu") or not 1 <= most <= _MOST_TAPS:
        return xp.moveaxis(xp.tensordot(grad, xp.asarray(matrix), ([axis], [0])), -1, axis)
    # On CPUs a sixth to two thirds of the product's time: images have few channels, and most of the matrix is zero.
    shape = [1] * grad.ndim
    shape[axis] = -1
    order = np.argsort(matrix == 0, axis=0, kind="stable")[:most]
    weights = np.take_along_axis(matrix, order, axis=0)
    order = np.where(weights != 0, order, order[0])
    total = None
    for places, weight in zip(order, weights, strict=True):
        part = xp.take(grad, places, axis=axis) * weight.reshape(shape)
        total = part if total is None else total + part
    return total


def image_sizes(c: Any, operand: str) -> tuple[Any, Any]:
    """Height and width that a shape rule knows from an operand of sizes."""
    c.with_rank(operand, 1)
    known = c.vector(operand)
    if known is None:
        return None, None
    if len(known) != 2:
        raise ValueError(errors.message(f"size of {len(known)} elements", "[height, width]", "size=[224, 224]"))
    height, width = (None if size is None else int(size) for size in known)
    for size in (height, width):
        if size is not None and size <= 0:
            raise ValueError(
                "output dimensions must be positive\n"
                + errors.message(f"size {[height, width]}", "positive sizes", "size=[224, 224]")
            )
    return height, width


def _resized(c: Any) -> Any:
    images = c.with_rank("images", 4)
    return (images[0], *image_sizes(c, "size"), images[3])


_ATTRS = {"T": Type(_NUMBERS), "align_corners": Bool(False), "half_pixel_centers": Bool(False)}


def _check(ctx: Any, size: Any, shape: Any, attrs: Any) -> tuple[int, int]:
    height, width = (int(value) for value in np.asarray(size).ravel())
    if height <= 0 or width <= 0 or not shape[1] or not shape[2]:
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message(f"images {list(shape)} to {height} by {width}", "positive sizes", "size=[224, 224]"),
        )
    if attrs.get("half_pixel_centers") and attrs["align_corners"]:
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message("align_corners and half_pixel_centers", "one of the two arguments", "align_corners=False"),
        )
    return height, width


def _resize(ctx: Any, x: Any, size: Any, attrs: Any, taps: Any) -> Any:
    height, width = _check(ctx, size, x.shape, attrs)
    options = (attrs["align_corners"], attrs.get("half_pixel_centers", False))
    if ctx.xp is np:
        return _resized_on_host(x, height, width, options, taps)
    rows = taps(x.shape[1], height, *options)
    columns = taps(x.shape[2], width, *options)
    return _outside(ctx, _along(ctx, _along(ctx, x, columns, 2), rows, 1))


class ResizeBilinear(Op):
    """Images of another size by bilinear interpolation."""

    signature = "images: T, size: int32 -> resized_images: float"
    attrs = _ATTRS
    effect = PURE
    compile_time = ("size",)
    shape = _resized

    def kernel(ctx, inputs, attrs):
        return _resize(ctx, inputs[0], inputs[1], attrs, bilinear_taps)

    def gradient(op, grad):
        attrs = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
        return [build("ResizeBilinearGrad", grad, op.inputs[0], **attrs), None]


class ResizeBicubic(Op):
    """Images of another size by bicubic interpolation."""

    signature = "images: T, size: int32 -> resized_images: float"
    attrs = _ATTRS
    effect = PURE
    compile_time = ("size",)
    shape = _resized

    def kernel(ctx, inputs, attrs):
        return _resize(ctx, inputs[0], inputs[1], attrs, bicubic_taps)

    def gradient(op, grad):
        attrs = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
        if op.inputs[0].dtype.base.name not in ("float32", "float64"):
            return [None, None]
        return [build("ResizeBicubicGrad", grad, op.inputs[0], **attrs), None]


class ResizeNearestNeighbor(Op):
    """Images of another size by copies of the nearest pixels."""

    signature = "images: T, size: int32 -> resized_images: T"
    attrs = _ATTRS
    effect = PURE
    compile_time = ("size",)
    shape = _resized

    def kernel(ctx, inputs, attrs):
        return _resize(ctx, inputs[0], inputs[1], attrs, nearest_taps)

    def gradient(op, grad):
        attrs = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
        image = op.inputs[0]
        known = image.shape.as_list()[1:3] if image.shape.ndims == 4 else [None]
        size = known if None not in known else build("StridedSlice", build("Shape", image), [1], [3], [1])
        return [build("ResizeNearestNeighborGrad", grad, size, **attrs), None]


class ResizeArea(Op):
    """Images of another size by the mean of the area that an output pixel covers."""

    signature = "images: T, size: int32 -> resized_images: float"
    attrs = {"T": Type(_NUMBERS), "align_corners": Bool(False)}
    effect = PURE
    compile_time = ("size",)
    shape = _resized
    gradient = NotDifferentiable("TensorFlow has no gradient of it; resize_bilinear has one")

    def kernel(ctx, inputs, attrs):
        return _resize(ctx, inputs[0].astype(_FLOAT, copy=False), inputs[1], attrs, area_taps)


def _grad_kernel(taps: Any) -> Any:
    def kernel(ctx, inputs, attrs):
        grad, image = inputs
        _check(ctx, grad.shape[1:3], image.shape, attrs)
        options = (attrs["align_corners"], attrs["half_pixel_centers"])
        columns = taps(image.shape[2], grad.shape[2], *options)
        rows = taps(image.shape[1], grad.shape[1], *options)
        slope = _outside(ctx, _back(ctx, _back(ctx, grad, rows, image.shape[1], 1), columns, image.shape[2], 2))
        return slope.astype(image.dtype)

    return kernel


class ResizeBilinearGrad(Op):
    """The gradient of ResizeBilinear with respect to its images."""

    signature = "grads: float, original_image: T -> output: T"
    attrs = {"T": Type("bfloat16 double float half"), "align_corners": Bool(False), "half_pixel_centers": Bool(False)}
    effect = PURE
    kernel = _grad_kernel(bilinear_taps)

    def shape(c):
        return c.with_rank("original_image", 4)

    def gradient(op, grad):
        attrs = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
        shape = op.inputs[0].shape.as_list()[1:3] if op.inputs[0].shape.ndims == 4 else [None]
        size = shape if None not in shape else build("StridedSlice", build("Shape", op.inputs[0]), [1], [3], [1])
        return [build("ResizeBilinear", grad, size, **attrs), None]


class ResizeBicubicGrad(Op):
    """The gradient of ResizeBicubic with respect to its images."""

    signature = "grads: float, original_image: T -> output: T"
    attrs = {"T": Type("double float"), "align_corners": Bool(False), "half_pixel_centers": Bool(False)}
    effect = PURE
    kernel = _grad_kernel(bicubic_taps)
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def shape(c):
        return c.with_rank("original_image", 4)


class ResizeNearestNeighborGrad(Op):
    """The gradient of ResizeNearestNeighbor with respect to its images."""

    signature = "grads: T, size: int32 -> output: T"
    attrs = {
        "T": Type("bfloat16 double float half int32 int8 uint8"),
        "align_corners": Bool(False),
        "half_pixel_centers": Bool(False),
    }
    effect = PURE
    compile_time = ("size",)
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def shape(c):
        grads = c.with_rank("grads", 4)
        return (grads[0], *image_sizes(c, "size"), grads[3])

    def kernel(ctx, inputs, attrs):
        grad, size = inputs
        height, width = _check(ctx, size, grad.shape, attrs)
        options = (attrs["align_corners"], attrs["half_pixel_centers"])
        columns = nearest_taps(width, grad.shape[2], *options)
        rows = nearest_taps(height, grad.shape[1], *options)
        wide = grad.astype(_FLOAT) if grad.dtype.itemsize < 4 else grad
        return _outside(ctx, _back(ctx, _back(ctx, wide, rows, height, 1), columns, width, 2)).astype(grad.dtype)
