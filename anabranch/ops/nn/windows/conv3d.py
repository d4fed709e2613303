"""Three-dimensional convolution and its gradients, as ops; the rules are those of two dimensions."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.opdef import PURE, List, Op, String, Type
from anabranch.core.contract.roles import Cost
from anabranch.core.graph.build import build
from anabranch.ops.nn.windows import convolution_rules
from anabranch.ops.nn.windows.convolution_rules import attrs_of, shape_tensor

_NAMES = ("strides", "padding", "data_format", "dilations")


def _attrs(types: str = "half bfloat16 float double", **more: Any) -> dict[str, Any]:
    return {
        "T": Type(types),
        "strides": List("int", minimum=5),
        "padding": String(allowed="SAME VALID"),
        "data_format": String("NDHWC", "NDHWC NCDHW"),
        "dilations": List("int", (1, 1, 1, 1, 1)),
    } | more


def _old_attrs() -> dict[str, Any]:
    attrs = _attrs("half float double")
    del attrs["data_format"]
    return attrs


class Conv3D(Op):
    """3-D correlation of ``[batch, depth, height, width, in]`` with ``[depth, height, width, in / groups, out]``."""

    signature = "input: T, filter: T -> output: T"
    attrs = _attrs()
    effect = PURE
    shape = convolution_rules.conv_shape(5)
    kernel, host_kernel = convolution_rules.conv_kernels()
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        x, f = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("Conv3DBackpropInputV2", shape_tensor(x), f, grad, **attrs),
            build("Conv3DBackpropFilterV2", x, shape_tensor(f), grad, **attrs),
        ]


class Conv3DBackpropInputV2(Op):
    """The gradient of Conv3D with respect to its input, which has the shape ``input_sizes``."""

    signature = "input_sizes: Tshape, filter: T, out_backprop: T -> output: T"
    attrs = _attrs(Tshape=Type("int32 int64", "int32"))
    effect = PURE
    compile_time = ("input_sizes",)
    shape = convolution_rules.input_gradient_shape(5)
    stricter_when_run = True
    kernel, host_kernel = convolution_rules.input_gradient_kernels()
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        _, f, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            None,
            build("Conv3DBackpropFilterV2", grad, shape_tensor(f), g, **attrs),
            build("Conv3D", grad, f, **attrs),
        ]


class Conv3DBackpropFilterV2(Op):
    """The gradient of Conv3D with respect to its filter, which has the shape ``filter_sizes``."""

    signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T"
    attrs = _attrs()
    effect = PURE
    compile_time = ("filter_sizes",)
    shape = convolution_rules.filter_gradient_shape(5)
    stricter_when_run = True
    kernel, host_kernel = convolution_rules.filter_gradient_kernels()
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        x, _, g = op.inputs
        attrs = attrs_of(op, *_NAMES)
        return [
            build("Conv3DBackpropInputV2", shape_tensor(x), grad, g, **attrs),
            None,
            build("Conv3D", x, grad, **attrs),
        ]


def _old_names(op: Any) -> dict[str, Any]:
    return attrs_of(op, "strides", "padding", "dilations")


class Conv3DBackpropInput(Op):
    """Like :class:`Conv3DBackpropInputV2`, with the input itself in place of its shape."""

    signature = "input: T, filter: T, out_backprop: T -> output: T"
    attrs = _old_attrs()
    effect = PURE
    shape = convolution_rules.gradient_shape(5, "input")
    stricter_when_run = True
    kernel, host_kernel = convolution_rules.input_gradient_kernels(shape_operand=False)
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        _, f, g = op.inputs
        attrs = _old_names(op)
        return [
            None,
            build("Conv3DBackpropFilterV2", grad, shape_tensor(f), g, **attrs),
            build("Conv3D", grad, f, **attrs),
        ]


class Conv3DBackpropFilter(Op):
    """Like :class:`Conv3DBackpropFilterV2`, with the filter itself in place of its shape."""

    signature = "input: T, filter: T, out_backprop: T -> output: T"
    attrs = _old_attrs()
    effect = PURE
    shape = convolution_rules.gradient_shape(5, "filter")
    stricter_when_run = True
    kernel, host_kernel = convolution_rules.filter_gradient_kernels(shape_operand=False)
    flops = convolution_rules.flops
    cost = Cost.WINDOWS

    def gradient(op, grad):
        x, _, g = op.inputs
        attrs = _old_names(op)
        return [
            build("Conv3DBackpropInputV2", shape_tensor(x), grad, g, **attrs),
            None,
            build("Conv3D", x, grad, **attrs),
        ]
