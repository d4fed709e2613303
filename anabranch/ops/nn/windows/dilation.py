"""Grey-scale morphological dilation of images and its two gradients.

Policy. ``output = max over the window of input + filter``; the padding never wins. A window's gradient goes to the
first largest sum in row-major order. A sum that is NaN, or -inf, counts as the lowest number, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import DERIVED, PURE, List, Op, String, Type
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import shapes
from anabranch.ops.math.reduce import least
from anabranch.ops.nn.windows import geometry, pooling_rules
from anabranch.ops.nn.windows.geometry import Axis, axis, pad_spatial, tap

_REALS = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
_ATTRS = {
    "T": Type(_REALS),
    "strides": List("int", minimum=4),
    "rates": List("int", minimum=4),
    "padding": String(allowed="SAME VALID"),
}


def _axes(x_shape: Any, f_shape: Any, attrs: Any) -> tuple[Axis, Axis]:
    first, second = (
        axis(x_shape[1 + i], f_shape[i], attrs["strides"][1 + i], attrs["rates"][1 + i], attrs["padding"])
        for i in (0, 1)
    )
    return first, second


def _output_shape(c: Any) -> Any:
    geometry.check_attrs(c, 4, "strides", "rates")
    source = c.with_rank("input", 4)
    kernel = c.with_rank("filter", 3)
    out = tuple(
        geometry.output_size(
            source[1 + i], kernel[i], c.attrs["strides"][1 + i], c.attrs["rates"][1 + i], c.attrs["padding"]
        )
        for i in (0, 1)
    )
    return (source[0], *out, shapes.merge_dim(source[3], kernel[2]))


def _inside(a: Axis, t: int) -> np.ndarray:
    places = np.arange(a.out) * a.stride - a.before + t * a.dilation
    return (places >= 0) & (places < a.size)


def _sums(ctx: Any, x: Any, f: Any, axes: Any) -> Iterator[tuple[tuple[int, int], Any, np.ndarray]]:
    """For each entry of the window its place, ``input + filter`` there, and where that is not padding."""
    padded = pad_spatial(ctx.xp, x, axes)
    for offsets in np.ndindex(axes[0].window, axes[1].window):
        valid = (_inside(axes[0], offsets[0])[:, None] & _inside(axes[1], offsets[1]))[None, :, :, None]
        total = tap(padded, axes, offsets) + f[offsets]
        if pooling_rules.has_nan(total.dtype):
            lowest = total.dtype.type(pooling_rules.lowest(total.dtype))
            total = ctx.xp.where(total > lowest, total, lowest)
        yield offsets, total, valid


def _dilate(ctx: Any, x: Any, f: Any, axes: Any) -> Any:
    best = None
    floor = least(x.dtype)
    for _, total, valid in _sums(ctx, x, f, axes):
        entry = total if valid.all() else ctx.xp.where(ctx.xp.asarray(valid), total, floor)
        best = entry if best is None else ctx.xp.maximum(best, entry)
    return best


def _shares(ctx: Any, x: Any, f: Any, g: Any, axes: Any) -> Iterator[tuple[tuple[int, int], Any]]:
    """For each entry of the window its place and the part of ``g`` that it receives."""
    xp = ctx.xp
    best = _dilate(ctx, x, f, axes)
    taken = None
    for offsets, total, valid in _sums(ctx, x, f, axes):
        hit = ~(total < best) & xp.asarray(valid)
        fresh = hit if taken is None else hit & ~taken
        taken = hit if taken is None else taken | hit
        yield offsets, xp.where(fresh, g, g.dtype.type(0))


class Dilation2D(Op):
    """``max(input[b, s * y + r * i, s * x + r * j, c] + filter[i, j, c])`` over ``i, j``, in NHWC."""

    signature = "input: T, filter: T -> output: T"
    attrs = _ATTRS
    effect = PURE
    shape = _output_shape

    def kernel(ctx, inputs, attrs):
        x, f = inputs
        axes = _axes(x.shape, f.shape, attrs)
        shape = (x.shape[0], axes[0].out, axes[1].out, x.shape[3])
        if 0 in shape or 0 in f.shape:
            return ctx.xp.zeros(shape, x.dtype)
        return _dilate(ctx, x, f, axes)

    def gradient(op, grad):
        attrs = {name: op.get_attr(name) for name in ("strides", "rates", "padding")}
        return [
            build("Dilation2DBackpropInput", *op.inputs, grad, **attrs),
            build("Dilation2DBackpropFilter", *op.inputs, grad, **attrs),
        ]


class Dilation2DBackpropInput(Op):
    """The gradient of Dilation2D with respect to its input."""

    signature = "input: T, filter: T, out_backprop: T -> in_backprop: T"
    attrs = _ATTRS
    effect = PURE
    gradient = DERIVED

    def shape(c):
        shapes.merge(_output_shape(c), c.shape("out_backprop"))
        return c.with_rank("input", 4)

    def kernel(ctx, inputs, attrs):
        x, f, g = inputs
        axes = _axes(x.shape, f.shape, attrs)
        if 0 in x.shape or 0 in f.shape or 0 in g.shape:
            return ctx.xp.zeros(x.shape, x.dtype)
        rows: list[list[Any]] = [[] for _ in range(f.shape[0])]
        for (i, _), share in _shares(ctx, x, f, g, axes):
            rows[i].append(share)
        return pooling_rules.add_back(ctx, [pooling_rules.add_back(ctx, row, axes[1], 2) for row in rows], axes[0], 1)


class Dilation2DBackpropFilter(Op):
    """The gradient of Dilation2D with respect to its filter."""

    signature = "input: T, filter: T, out_backprop: T -> filter_backprop: T"
    attrs = _ATTRS
    effect = PURE
    gradient = DERIVED

    def shape(c):
        shapes.merge(_output_shape(c), c.shape("out_backprop"))
        return c.with_rank("filter", 3)

    def kernel(ctx, inputs, attrs):
        x, f, g = inputs
        if 0 in x.shape or 0 in f.shape or 0 in g.shape:
            return ctx.xp.zeros(f.shape, f.dtype)
        axes = _axes(x.shape, f.shape, attrs)
        sums = [ctx.xp.sum(share, axis=(0, 1, 2), dtype=g.dtype) for _, share in _shares(ctx, x, f, g, axes)]
        return ctx.xp.stack(sums).reshape(f.shape)


def _once(first: Any, second: Any, first_name: str, second_name: str) -> Any:
    if (first is None) == (second is None):
        raise ValueError(
            errors.message(
                f"both or none of {first_name} and {second_name}",
                "one of the two arguments, which mean the same",
                f"{second_name}=",
            )
        )
    return first if first is not None else second


@public("nn.dilation2d")
def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Grey-scale dilation: ``max(input[b, s * y + r * i, s * x + r * j, c] + filter[i, j, c])`` over ``i, j``.

    Args:
        input: ``[batch, height, width, channels]``.
        filter: ``[height, width, channels]``; ``filters`` is its other name.
        strides: ``[1, s, s, 1]``.
        rates: ``[1, r, r, 1]``; ``dilations`` is its other name.
        padding: ``"SAME"`` or ``"VALID"``.
        name: name of the op.
    """
    return build(
        "Dilation2D",
        input,
        _once(filter, filters, "filter", "filters"),
        strides=strides,
        rates=_once(rates, dilations, "rates", "dilations"),
        padding=padding,
        name=name,
    )


@public("nn.erosion2d")
def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Any:
    """Grey-scale erosion, the dual of :func:`dilation2d`: ``min(value - kernel)`` over the window.

    Args:
        value: ``[batch, height, width, channels]``.
        kernel: ``[height, width, channels]``.
        strides: ``[1, s, s, 1]``.
        rates: ``[1, r, r, 1]``.
        padding: ``"SAME"`` or ``"VALID"``.
        name: name of the op.
    """
    with name_scope(name, "erosion2d", [value, kernel]):
        value, kernel = convert.convert_to_tensor(value), convert.convert_to_tensor(kernel)
        mirrored = build("ReverseV2", kernel, [0, 1])
        dilated = build("Dilation2D", build("Neg", value), mirrored, strides=strides, rates=rates, padding=padding)
        return build("Neg", dilated)
