"""Pooling of volumes; the rules are those of images."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.opdef import PURE, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.ops.nn.windows import pool2d, pooling_rules
from anabranch.ops.nn.windows.pool2d import kept, window_attrs
from anabranch.ops.nn.windows.pooling_rules import axes_for, first, last

_FORMAT = {"data_format": String("NDHWC", "NDHWC NCDHW")}
_REALS = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
_SMALL = "half bfloat16 float"
_FLOATS = "half bfloat16 float double"


def _zeros(tensor: Any) -> Any:
    return build("ZerosLike", tensor)


class MaxPool3D(Op):
    """The maximum of each window of ``[batch, depth, height, width, channels]``."""

    signature = "input: T -> output: T"
    attrs = window_attrs(5) | _FORMAT | {"T": Type(_SMALL)}
    effect = PURE

    def shape(c):
        return pooling_rules.pooled_shape(c, c.shapes[0], 5)

    def kernel(ctx, inputs, attrs):
        (x,) = last(ctx, attrs, inputs[0])
        return first(ctx, attrs, pooling_rules.max_forward(ctx, x, axes_for(x.shape, attrs)))

    def gradient(op, grad):
        return [build("MaxPool3DGrad", op.inputs[0], op.outputs[0], grad, **kept(op))]


class MaxPool3DGrad(Op):
    """The gradient of MaxPool3D: ``grad`` of each window at its first largest entry."""

    signature = "orig_input: TInput, orig_output: TInput, grad: T -> output: T"
    attrs = window_attrs(5) | _FORMAT | {"T": Type(_SMALL, "float"), "TInput": Type(_SMALL, "float")}
    effect = PURE
    shape = pool2d.gradient_shape(5)

    def kernel(ctx, inputs, attrs):
        x, g = last(ctx, attrs, inputs[0], inputs[2])
        return first(ctx, attrs, pooling_rules.max_gradient(ctx, x, g, axes_for(x.shape, attrs)))

    def gradient(op, grad):
        x, y = op.inputs[:2]
        return [_zeros(x), _zeros(y), build("MaxPool3DGradGrad", x, y, grad, **kept(op))]


class MaxPool3DGradGrad(Op):
    """The gradient of MaxPool3DGrad: of each window, the entry of ``grad`` at the first largest one."""

    signature = "orig_input: T, orig_output: T, grad: T -> output: T"
    attrs = window_attrs(5) | _FORMAT | {"T": Type(_REALS)}
    effect = PURE
    shape = pool2d.gather_shape(5)

    def kernel(ctx, inputs, attrs):
        x, values = last(ctx, attrs, inputs[0], inputs[2])
        return first(ctx, attrs, pooling_rules.max_gather(ctx, x, values, axes_for(x.shape, attrs)))

    def gradient(op, grad):
        x, y = op.inputs[:2]
        return [_zeros(x), _zeros(y), build("MaxPool3DGrad", x, y, grad, **kept(op))]


class AvgPool3D(Op):
    """The mean of each window of ``[batch, depth, height, width, channels]``, over the entries that are not padding."""

    signature = "input: T -> output: T"
    attrs = window_attrs(5) | _FORMAT | {"T": Type(_FLOATS)}
    effect = PURE

    def shape(c):
        return pooling_rules.pooled_shape(c, c.shapes[0], 5)

    def kernel(ctx, inputs, attrs):
        (x,) = last(ctx, attrs, inputs[0])
        return first(ctx, attrs, pooling_rules.average_forward(ctx, x, axes_for(x.shape, attrs)))

    def gradient(op, grad):
        return [build("AvgPool3DGrad", build("Shape", op.inputs[0]), grad, **kept(op))]


class AvgPool3DGrad(Op):
    """The gradient of AvgPool3D: each window's gradient in equal parts to its entries."""

    signature = "orig_input_shape: int32, grad: T -> output: T"
    attrs = window_attrs(5) | _FORMAT | {"T": Type(_FLOATS)}
    effect = PURE
    compile_time = ("orig_input_shape",)
    shape = pool2d.average_gradient_shape(5)
    kernel = pool2d.average_gradient

    def gradient(op, grad):
        return [None, build("AvgPool3D", grad, **kept(op))]
