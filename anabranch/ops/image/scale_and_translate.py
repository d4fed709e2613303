"""Images scaled and moved: each output pixel is a weighted mean of the pixels under a kernel around its place.

Policy. Places and weights are computed in float32 as TensorFlow computes them. The weights along an axis are a matrix
``[out, in]``: a program multiplies by two of them, and its transpose is the gradient. A kernel that is scaled up with
the image that is scaled down (``antialias``) looks at all pixels that an output pixel covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.image.resize import image_sizes

_NUMBERS = "bfloat16 double float half int16 int32 int64 int8 uint16 uint8"
_FLOAT = np.float32


def _lanczos(radius: float) -> Callable[[Any, Any], Any]:
    def kernel(xp: Any, x: Any) -> Any:
        safe = xp.where(x < 1e-3, _FLOAT(1), x) * _FLOAT(math.pi)
        value = _FLOAT(radius) * xp.sin(safe) * xp.sin(safe / _FLOAT(radius)) / (safe * safe)
        return xp.where(x > radius, _FLOAT(0), xp.where(x < 1e-3, _FLOAT(1), value))

    return kernel


def _gaussian(xp: Any, x: Any) -> Any:
    return xp.where(x >= 1.5, _FLOAT(0), xp.exp(-x * x / _FLOAT(2 * 0.5 * 0.5)))


def _box(xp: Any, x: Any) -> Any:
    return xp.where(x < 0.5, _FLOAT(1), xp.where(x == 0.5, _FLOAT(0.5), _FLOAT(0)))


def _triangle(xp: Any, x: Any) -> Any:
    return xp.where(x < 1, _FLOAT(1) - x, _FLOAT(0))


def _cubic(near: tuple[float, ...], far: tuple[float, ...]) -> Callable[[Any, Any], Any]:
    """A kernel of two polynomials, from the highest power down: up to distance 1, and from there to 2."""

    def kernel(xp: Any, x: Any) -> Any:
        inner, outer = (((_FLOAT(a) * x + _FLOAT(b)) * x + _FLOAT(c)) * x + _FLOAT(d) for a, b, c, d in (near, far))
        return xp.where(x >= 2, _FLOAT(0), xp.where(x >= 1, outer, inner))

    return kernel


KERNELS: dict[str, tuple[float, Callable[[Any, Any], Any]]] = {
    "lanczos1": (1.0, _lanczos(1.0)),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, _gaussian),
    "box": (1.0, _box),
    "triangle": (1.0, _triangle),
    "keyscubic": (2.0, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2.0, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}
"""By name how far a kernel reaches, and its value at a distance."""


def weights(xp: Any, attrs: Any, size: int, out: int, scale: Any, translation: Any) -> Any:
    """The matrix ``[out, size]`` of weights along an axis."""
    radius, kernel = KERNELS[attrs["kernel_type"]]
    back = _FLOAT(1) / scale
    wide = xp.maximum(back, _FLOAT(1)) if attrs["antialias"] else xp.ones_like(back)
    place = (xp.arange(out, dtype=_FLOAT) + _FLOAT(0.5)) * back - back * translation
    reach = _FLOAT(radius) * wide
    first = xp.clip(xp.ceil(place - reach - _FLOAT(0.5)), 0, max(size - 1, 0))
    last = xp.clip(xp.floor(place + reach - _FLOAT(0.5)), 0, max(size - 1, 0))
    pixel = xp.arange(size, dtype=_FLOAT)[None, :]
    distance = xp.abs(pixel + _FLOAT(0.5) - place[:, None]) / wide
    table = kernel(xp, distance)
    table = xp.where((pixel >= first[:, None]) & (pixel <= last[:, None]), table, _FLOAT(0))
    total = table.sum(1, keepdims=True)
    usable = xp.abs(total) >= _FLOAT(1000 * np.finfo(_FLOAT).tiny)
    table = xp.where(usable, table / xp.where(usable, total, _FLOAT(1)), table)
    inside = (place >= 0) & (place <= size)
    return xp.where(inside[:, None], table, _FLOAT(0)).astype(_FLOAT)


def _check_kernel(c: Any) -> None:
    if c.attrs["kernel_type"] not in KERNELS:
        raise ValueError(
            errors.message(f"kernel_type={c.attrs['kernel_type']!r}", f"one of {sorted(KERNELS)}", "'lanczos3'")
        )
    for operand in ("scale", "translation"):
        known_vector = c.with_rank(operand, 1)
        if known_vector is not None and known_vector[0] not in (None, 2):
            raise ValueError(
                errors.message(f"{operand} of {known_vector[0]} elements", "[height, width]", f"{operand}=[1, 1]")
            )


def _checked(ctx: Any, images: Any, height: int, width: int, scale: Any) -> None:
    ctx.check(
        height > 0 and width > 0 and images.shape[1] > 0 and images.shape[2] > 0,
        errors.InvalidArgumentError,
        errors.message(
            f"images {shapes.show(images.shape)} to {height} by {width}", "positive sizes", "size=[224, 224]"
        ),
    )
    ctx.check(
        ctx.xp.all(scale > 0),
        errors.InvalidArgumentError,
        "scale must be greater than zero\n" + errors.message("scale {0}", "positive numbers", "scale=[0.5, 0.5]"),
        scale,
    )


def _matrices(ctx: Any, attrs: Any, sizes: Any, outs: Any, scale: Any, translation: Any) -> tuple[Any, Any]:
    rows, columns = (weights(ctx.xp, attrs, sizes[i], outs[i], scale[i], translation[i]) for i in range(2))
    return rows, columns


class ScaleAndTranslate(Op):
    """Images ``[batch, height, width, channels]`` scaled by ``scale`` and then moved by ``translation`` (each
    ``[height, width]``), of which ``size`` is seen.
    """

    signature = "images: T, size: int32, scale: float, translation: float -> resized_images: float"
    attrs = {"T": Type(_NUMBERS), "kernel_type": String("lanczos3"), "antialias": Bool(True)}
    effect = PURE
    compile_time = ("size",)

    def shape(c):
        _check_kernel(c)
        images = c.with_rank("images", 4)
        return (images[0], *image_sizes(c, "size"), images[3])

    def kernel(ctx, inputs, attrs):
        images, size, scale, translation = inputs
        height, width = (int(value) for value in np.asarray(size).ravel())
        _checked(ctx, images, height, width, scale)
        rows, columns = _matrices(ctx, attrs, images.shape[1:3], (height, width), scale, translation)
        resized = ctx.xp.tensordot(images.astype(_FLOAT), columns, ([2], [1]))  # [batch, height, channels, out]
        resized = ctx.xp.tensordot(resized, rows, ([1], [1]))  # [batch, channels, out width, out height]
        return ctx.xp.transpose(resized, (0, 3, 2, 1))

    def gradient(op, grad):
        attrs = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
        images, _, scale, translation = op.inputs
        if images.dtype.base.name != "float32":
            return [None] * 4
        return [build("ScaleAndTranslateGrad", grad, images, scale, translation, **attrs), None, None, None]


class ScaleAndTranslateGrad(Op):
    """The gradient of ScaleAndTranslate with respect to its images."""

    signature = "grads: T, original_image: T, scale: float, translation: float -> output: T"
    attrs = {"T": Type("float"), "kernel_type": String("lanczos3"), "antialias": Bool(True)}
    effect = PURE
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def shape(c):
        _check_kernel(c)
        c.with_rank("grads", 4)
        return c.with_rank("original_image", 4)

    def kernel(ctx, inputs, attrs):
        grads, images, scale, translation = inputs
        _checked(ctx, images, grads.shape[1], grads.shape[2], scale)
        rows, columns = _matrices(ctx, attrs, images.shape[1:3], grads.shape[1:3], scale, translation)
        slope = ctx.xp.tensordot(grads, columns, ([2], [0]))
        slope = ctx.xp.tensordot(slope, rows, ([1], [0]))
        return ctx.xp.transpose(slope, (0, 3, 2, 1))
