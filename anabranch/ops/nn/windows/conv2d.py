"""Two-dimensional convolution and its gradients, as ops.

Policy. Each gradient of a convolution is again a convolution, so the three products differentiate into each other to
any order. Kernels and shape rules are those of ``conv_rules``; how they run under XLA is in ``lowerings_conv``.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.opdef import PURE, Bool, List, Op, String, Type
from anabranch.core.contract.roles import Cost
from anabranch.core.graph.build import build
from anabranch.ops.nn.windows import convolution_rules
from anabranch.ops.nn.windows.convolution_rules import attrs_of, shape_tensor

_NAMES = ("strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations")


def _attrs(types: str) -> dict[str, Any]:
    return {
        "T": Type(types),
        "strides": List("int"),
        "use_cudnn_on_gpu": Bool(True),
        "padding": String(allowed="SAME VALID EXPLICIT"),
        "explicit_paddings": List("int", ()),
        "data_format": String("NHWC", "NHWC NCHW"),
        "dilations": List("int", (1, 1, 1, 1)),
    }


_WITH_INT = "half bfloat16 float double int32"
_FLOATS = "half bfloat16 float double"


class Conv2D(Op):
    """2-D convolution (correlation) of ``[batch, height, width, in]`` with ``[height, width, in / groups, out]``."""

    signature = "input: T, filter: T -> output: T"
    attrs = _attrs(_WITH_INT)
    effect = PURE
    shape = convolution_rules.conv_shape(4)
    kernel, host_kernel = convolution_rules.conv_kernels()
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        x, f = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("Conv2DBackpropInput", shape_tensor(x), f, grad, **attrs),
            build("Conv2DBackpropFilter", x, shape_tensor(f), grad, **attrs),
        ]


class Conv2DBackpropInput(Op):
    """The gradient of Conv2D with respect to its input, which has the shape ``input_sizes``."""

    signature = "input_sizes: int32, filter: T, out_backprop: T -> output: T"
    attrs = _attrs(_WITH_INT)
    effect = PURE
    compile_time = ("input_sizes",)
    shape = convolution_rules.input_gradient_shape(4)
    stricter_when_run = True
    kernel, host_kernel = convolution_rules.input_gradient_kernels()
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        _, f, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            None,
            build("Conv2DBackpropFilter", grad, shape_tensor(f), g, **attrs),
            build("Conv2D", grad, f, **attrs),
        ]


class Conv2DBackpropFilter(Op):
    """The gradient of Conv2D with respect to its filter, which has the shape ``filter_sizes``."""

    signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T"
    attrs = _attrs(_FLOATS)
    effect = PURE
    compile_time = ("filter_sizes",)
    shape = convolution_rules.filter_gradient_shape(4)
    stricter_when_run = True
    kernel, host_kernel = convolution_rules.filter_gradient_kernels()
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        x, _, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("Conv2DBackpropInput", shape_tensor(x), grad, g, **attrs),
            None,
            build("Conv2D", x, grad, **attrs),
        ]


class Conv2DBackpropInputV2(Op):
    """Like :class:`Conv2DBackpropInput`, with the input itself in place of its shape."""

    signature = "input: T, filter: T, out_backprop: T -> output: T"
    attrs = _attrs(_WITH_INT)
    effect = PURE
    kernel, host_kernel = convolution_rules.input_gradient_kernels(shape_operand=False)
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    shape = convolution_rules.gradient_shape(4, "input")
    stricter_when_run = True

    def gradient(op, grad):
        _, f, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            None,
            build("Conv2DBackpropFilter", grad, shape_tensor(f), g, **attrs),
            build("Conv2D", grad, f, **attrs),
        ]


class Conv2DBackpropFilterV2(Op):
    """Like :class:`Conv2DBackpropFilter`, with the filter itself in place of its shape."""

    signature = "input: T, filter: T, out_backprop: T -> output: T"
    attrs = _attrs(_FLOATS)
    effect = PURE
    kernel, host_kernel = convolution_rules.filter_gradient_kernels(shape_operand=False)
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    shape = convolution_rules.gradient_shape(4, "filter")
    stricter_when_run = True

    def gradient(op, grad):
        x, _, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("Conv2DBackpropInput", shape_tensor(x), grad, g, **attrs),
            None,
            build("Conv2D", x, grad, **attrs),
        ]
