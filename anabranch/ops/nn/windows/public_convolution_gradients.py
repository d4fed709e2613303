"""Public functions of the gradients of convolutions, and of the depthwise ops by their own names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.ops.nn.windows.public_convolution import depthwise_op, either, op_format, paddings, sequence


@public("nn.conv2d_backprop_input")
def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """The gradient of :func:`conv2d` with respect to an input of shape ``input_sizes``."""
    form = op_format(data_format, 2)
    return build(
        "Conv2DBackpropInput",
        input_sizes,
        either(filters, filter, "filters", "filter"),
        out_backprop,
        strides=sequence(strides, 2, form, "strides"),
        dilations=sequence(dilations, 2, form, "dilations"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=form,
        name=name,
        **paddings(padding, 2, form, "Conv2DBackpropInput"),
    )


@public("nn.conv2d_backprop_filter")
def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """The gradient of :func:`conv2d` with respect to a filter of shape ``filter_sizes``."""
    form = op_format(data_format, 2)
    return build(
        "Conv2DBackpropFilter",
        input,
        filter_sizes,
        out_backprop,
        strides=sequence(strides, 2, form, "strides"),
        dilations=sequence(dilations, 2, form, "dilations"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=form,
        name=name,
        **paddings(padding, 2, form, "Conv2DBackpropFilter"),
    )


@public("nn.conv3d_backprop_filter", "nn.conv3d_backprop_filter_v2")
def conv3d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """The gradient of :func:`conv3d` with respect to a filter of shape ``filter_sizes``."""
    form = op_format(data_format, 3)
    return build(
        "Conv3DBackpropFilterV2",
        input,
        filter_sizes,
        out_backprop,
        strides=sequence(strides, 3, form, "strides"),
        dilations=sequence(dilations, 3, form, "dilations"),
        padding=padding,
        data_format=form,
        name=name,
    )


def _depthwise_gradient(
    type_name: str, operands: Sequence[Any], strides: Any, padding: Any, form: str, dilations: Any, name: Any
) -> Any:
    return build(
        type_name,
        *operands,
        strides=sequence(strides, 2, form, "strides"),
        dilations=sequence(dilations, 2, form, "dilations"),
        data_format=form,
        name=name,
        **paddings(padding, 2, form, type_name),
    )


@public("nn.depthwise_conv2d_native")
def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """The op behind :func:`depthwise_conv2d`."""
    return depthwise_op(input, filter, strides, padding, dilations, name, data_format)


@public("nn.depthwise_conv2d_native_backprop_input", "nn.depthwise_conv2d_backprop_input")
def depthwise_conv2d_native_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """The gradient of :func:`depthwise_conv2d` with respect to an input of shape ``input_sizes``."""
    operands = (input_sizes, filter, out_backprop)
    form = op_format(data_format, 2)
    return _depthwise_gradient("DepthwiseConv2dNativeBackpropInput", operands, strides, padding, form, dilations, name)


@public("nn.depthwise_conv2d_native_backprop_filter", "nn.depthwise_conv2d_backprop_filter")
def depthwise_conv2d_native_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """The gradient of :func:`depthwise_conv2d` with respect to a filter of shape ``filter_sizes``."""
    operands = (input, filter_sizes, out_backprop)
    form = op_format(data_format, 2)
    return _depthwise_gradient("DepthwiseConv2dNativeBackpropFilter", operands, strides, padding, form, dilations, name)
