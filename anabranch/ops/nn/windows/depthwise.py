"""Depthwise 2-D convolution and its gradients: each channel with filters of its own.

Policy. A depthwise convolution is a grouped one with one input channel per group. CPUs compute it by shifted slices,
which fuse; accelerators by their libraries' grouped convolution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, List, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.nn.windows import convolution_rules, geometry, host_depthwise, xla_convolution
from anabranch.ops.nn.windows.convolution_rules import (
    FILTER_GRADIENT,
    FORWARD,
    INPUT_GRADIENT,
    attrs_of,
    library,
    shape_tensor,
)
from anabranch.ops.nn.windows.geometry import axes_of, from_last, shape_from_last, shape_to_last, to_last

_NAMES = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
_ATTRS = {
    "T": Type("half bfloat16 float double"),
    "strides": List("int"),
    "padding": String(allowed="SAME VALID EXPLICIT"),
    "explicit_paddings": List("int", ()),
    "data_format": String("NHWC", "NHWC NCHW"),
    "dilations": List("int", (1, 1, 1, 1)),
}


def _empty(*arrays: Any) -> bool:
    return any(0 in array.shape for array in arrays)


def _as_grouped(f: Any) -> Any:
    return f.reshape(f.shape[:2] + (1, f.shape[2] * f.shape[3]))


def _forward(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, f = inputs
    data_format = attrs["data_format"]
    source = shape_to_last(x.shape, data_format)
    axes = axes_of(source[1:3], f.shape[:2], attrs)
    by_library = library(ctx, FORWARD, x, _as_grouped(f), axes, source[3], 1, data_format)
    if by_library is not None:
        return by_library
    x = to_last(ctx.xp, x, data_format)
    if ctx.host and not _empty(x, f):
        output = host_depthwise.forward(x, f, axes)
    elif _empty(x, f):
        output = ctx.xp.zeros((x.shape[0], *(a.out for a in axes), f.shape[2] * f.shape[3]), x.dtype)
    else:
        output = xla_convolution.forward(ctx, x, _as_grouped(f), axes)
    return from_last(ctx.xp, output, attrs["data_format"])


def _input_gradient(ctx: Any, inputs: Any, attrs: Any) -> Any:
    sizes, f, g = inputs
    shape = shape_to_last([int(size) for size in np.asarray(sizes)], attrs["data_format"])
    axes = axes_of(shape[1:3], f.shape[:2], attrs)
    by_library = library(ctx, INPUT_GRADIENT, g, _as_grouped(f), axes, shape[3], 1, attrs["data_format"])
    if by_library is not None:
        return by_library
    g = to_last(ctx.xp, g, attrs["data_format"])
    if 0 in shape or _empty(g, f):
        slope = ctx.xp.zeros(shape, g.dtype)
    elif ctx.host:
        slope = host_depthwise.input_gradient(g, f, axes)
    else:
        slope = xla_convolution.input_gradient(ctx, g, _as_grouped(f), axes, shape[-1])
    return from_last(ctx.xp, slope, attrs["data_format"])


def _filter_gradient(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, sizes, g = inputs
    shape = tuple(int(size) for size in np.asarray(sizes))
    source = shape_to_last(x.shape, attrs["data_format"])
    axes = axes_of(source[1:3], shape[:2], attrs)
    by_library = library(ctx, FILTER_GRADIENT, x, g, axes, source[3], 1, attrs["data_format"])
    if by_library is not None:
        return by_library.reshape(shape)
    x, g = to_last(ctx.xp, x, attrs["data_format"]), to_last(ctx.xp, g, attrs["data_format"])
    if 0 in shape or _empty(x, g):
        return ctx.xp.zeros(shape, x.dtype)
    if ctx.host:
        return host_depthwise.filter_gradient(x, g, axes, shape[3])
    return xla_convolution.filter_gradient(ctx, x, g, axes, 1).reshape(shape)


class DepthwiseConv2dNative(Op):
    """Convolve each channel of ``[batch, height, width, in]`` with its filters ``[height, width, in, multiplier]``.

    The output has ``in * multiplier`` channels, those of one input channel side by side.
    """

    signature = "input: T, filter: T -> output: T"
    attrs = _ATTRS
    effect = PURE
    kernel = uses_lax(lambda ctx, inputs, attrs: _forward(ctx, inputs, attrs))
    host_kernel = _forward

    def shape(c):
        data_format = c.attrs["data_format"]
        geometry.check_attrs(c, 4, "strides", "dilations")
        source = shape_to_last(c.with_rank("input", 4), data_format)
        kernel = c.with_rank("filter", 4)
        if source[3] is not None and kernel[2] is not None and source[3] != kernel[2]:
            raise ValueError(
                errors.message(
                    f"an input of {source[3]} channels, a filter of shape {shapes.show(kernel)}",
                    f"a filter [height, width, {source[3]}, multiplier]",
                    "check data_format, or reshape the filter",
                )
            )
        channels = shapes.merge_dim(source[3], kernel[2])
        features = None if channels is None or kernel[3] is None else channels * kernel[3]
        out = geometry.output_sizes(c, source[1:3], kernel[:2])
        return shape_from_last((source[0], *out, features), data_format)

    def gradient(op, grad):
        x, f = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("DepthwiseConv2dNativeBackpropInput", shape_tensor(x), f, grad, **attrs),
            build("DepthwiseConv2dNativeBackpropFilter", x, shape_tensor(f), grad, **attrs),
        ]


class DepthwiseConv2dNativeBackpropInput(Op):
    """The gradient of DepthwiseConv2dNative with respect to its input, which has the shape ``input_sizes``."""

    signature = "input_sizes: int32, filter: T, out_backprop: T -> output: T"
    attrs = _ATTRS
    effect = PURE
    compile_time = ("input_sizes",)
    shape = convolution_rules.input_gradient_shape(4)
    stricter_when_run = True
    kernel = uses_lax(lambda ctx, inputs, attrs: _input_gradient(ctx, inputs, attrs))
    host_kernel = _input_gradient

    def gradient(op, grad):
        _, f, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            None,
            build("DepthwiseConv2dNativeBackpropFilter", grad, shape_tensor(f), g, **attrs),
            build("DepthwiseConv2dNative", grad, f, **attrs),
        ]


class DepthwiseConv2dNativeBackpropFilter(Op):
    """The gradient of DepthwiseConv2dNative with respect to its filter, which has the shape ``filter_sizes``."""

    signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T"
    attrs = _ATTRS
    effect = PURE
    compile_time = ("filter_sizes",)
    shape = convolution_rules.filter_gradient_shape(4)
    stricter_when_run = True
    kernel = uses_lax(lambda ctx, inputs, attrs: _filter_gradient(ctx, inputs, attrs))
    host_kernel = _filter_gradient

    def gradient(op, grad):
        x, _, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("DepthwiseConv2dNativeBackpropInput", shape_tensor(x), grad, g, **attrs),
            None,
            build("DepthwiseConv2dNative", x, grad, **attrs),
        ]
