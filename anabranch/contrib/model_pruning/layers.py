"""Layers of ``tf.contrib.layers`` with a mask over the weights."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import add_model_variable
from anabranch.contrib.layers.conventions import XAVIER, ZEROS, finished, renamed
from anabranch.contrib.layers.output_collections import get_variable_collections
from anabranch.contrib.model_pruning.core_layers import MaskedConv2D, MaskedFullyConnected
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor

_FORMATS = {None: "channels_last", "NHWC": "channels_last", "NCHW": "channels_first"}


def _applied(
    layer: Any,
    inputs: Any,
    normalizer: Any,
    params: Any,
    activation: Any,
    variables_collections: Any,
    outputs_collections: Any,
    scope: Any,
) -> Tensor:
    outputs = layer(inputs)
    for variable in layer.variables:
        add_model_variable(variable)
    for variable, kind in ((layer.kernel, "weights"), (layer.bias, "biases")):
        for collection in get_variable_collections(variables_collections, kind) or () if variable is not None else ():
            if not any(variable is other for other in tf.get_collection(collection)):
                tf.add_to_collection(collection, variable)
    if normalizer is not None:
        outputs = normalizer(outputs, **(params or {}))
    return finished(outputs, activation, outputs_collections, scope)


@public("contrib.model_pruning.masked_convolution")
@add_arg_scope
def masked_convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """``tf.contrib.layers.conv2d`` with a mask over the weights.

    Args:
        inputs: ``[batch, height, width, channels]``, or with channels second by ``data_format="NCHW"``.
        num_outputs: channels of the result.
        kernel_size: of the window, one number or two.
        stride: steps of the window.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"``, also if None, or ``"NCHW"``.
        rate: steps between the taps of the window.
        activation_fn: function of the result.
        normalizer_fn: stands in place of the biases.
        normalizer_params: its arguments.
        weights_initializer: how the weights start.
        weights_regularizer: function of the weights, whose value joins the regularization losses.
        biases_initializer: how the biases start; None for no biases.
        biases_regularizer: as that of the weights.
        reuse: whether to use variables that exist.
        variables_collections: collections of the weights and biases, or a dictionary of them.
        outputs_collections: collections of the result.
        trainable: whether optimizers change the variables.
        scope: of the variables.

    Raises:
        ValueError: the rank of the inputs is not 4, or their channels are not known.
    """
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse, custom_getter=renamed) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.ndims != 4 or data_format not in _FORMATS:
            raise ValueError(
                f"Sparse Convolution not supported for input with rank {inputs.shape.ndims} and format {data_format}\n"
                + errors.message(
                    f"inputs of shape {inputs.shape} and data_format={data_format!r}",
                    "images of rank 4, with 'NHWC' or 'NCHW'",
                    "masked_convolution(images, num_outputs, kernel_size)",
                )
            )
        layer = MaskedConv2D(
            num_outputs,
            kernel_size,
            stride,
            padding,
            _FORMATS[data_format],
            rate,
            use_bias=not normalizer_fn and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        return _applied(
            layer,
            inputs,
            normalizer_fn,
            normalizer_params,
            activation_fn,
            variables_collections,
            outputs_collections,
            sc,
        )


masked_conv2d = masked_convolution
api.publish_as("contrib.model_pruning.masked_conv2d", masked_convolution)


@public("contrib.model_pruning.masked_fully_connected")
@add_arg_scope
def masked_fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """``tf.contrib.layers.fully_connected`` with a mask over the weights: ``[..., in]`` to ``[..., num_outputs]``.

    Arguments are those of :func:`masked_convolution` and of ``tf.contrib.layers.fully_connected``.

    Raises:
        ValueError: the last size of the inputs is not known, or ``num_outputs`` is not an integer.
    """
    if isinstance(num_outputs, bool) or not isinstance(num_outputs, int):
        raise ValueError(
            f"num_outputs should be int or long, got {num_outputs}.\n"
            + errors.message(f"num_outputs={num_outputs!r}", "an integer", "int(num_outputs)")
        )
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse, custom_getter=renamed) as sc:
        inputs = tf.convert_to_tensor(inputs)
        layer = MaskedFullyConnected(
            num_outputs,
            use_bias=not normalizer_fn and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        return _applied(
            layer,
            inputs,
            normalizer_fn,
            normalizer_params,
            activation_fn,
            variables_collections,
            outputs_collections,
            sc,
        )
