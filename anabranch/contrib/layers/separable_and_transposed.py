"""Transposed and separable convolutions."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.conventions import XAVIER, ZEROS, applied, finished, renamed
from anabranch.contrib.layers.convolutions import channels_first
from anabranch.contrib.layers.output_collections import get_variable_collections
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


def _format(data_format: str | None) -> str:
    return "channels_first" if channels_first(data_format) else "channels_last"


@add_arg_scope
def convolution2d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME", data_format: str = "NHWC",
    activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = XAVIER, weights_regularizer: Any = None, biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Transposed convolution ``[batch, height, width, in]`` to ``[batch, ..., num_outputs]``."""
    with tf.variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse, custom_getter=renamed) as sc:
        layer = tf.layers.Conv2DTranspose(
            num_outputs,
            kernel_size,
            stride,
            padding,
            _format(data_format),
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name=sc.name,
            _scope=sc,
            _reuse=reuse,
        )
        return applied(
            layer,
            inputs,
            normalizer_fn,
            normalizer_params,
            activation_fn,
            variables_collections,
            outputs_collections,
            sc,
        )


@add_arg_scope
def separable_convolution2d(
    inputs: Any, num_outputs: int | None, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1,
    padding: str = "SAME", data_format: str = "NHWC", rate: Any = 1, activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = XAVIER,
    pointwise_initializer: Any = None, weights_regularizer: Any = None, biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Depthwise and pointwise convolution; the depthwise part alone if ``num_outputs`` is None."""
    biased = normalizer_fn is None and biases_initializer is not None
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse, custom_getter=renamed) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if num_outputs is not None:
            layer = tf.layers.SeparableConv2D(
                num_outputs, kernel_size, stride, padding, _format(data_format), rate, depth_multiplier,
                use_bias=biased, depthwise_initializer=weights_initializer,
                pointwise_initializer=pointwise_initializer or weights_initializer, bias_initializer=biases_initializer,
                depthwise_regularizer=weights_regularizer, pointwise_regularizer=weights_regularizer,
                bias_regularizer=biases_regularizer, trainable=trainable, name=sc.name, _scope=sc, _reuse=reuse,
            )  # fmt: skip
            return applied(
                layer,
                inputs,
                normalizer_fn,
                normalizer_params,
                activation_fn,
                variables_collections,
                outputs_collections,
                sc,
            )
        form = "NCHW" if channels_first(data_format) else "NHWC"
        channels = inputs.shape.as_list()[1 if form == "NCHW" else -1]
        sizes = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size] * 2
        weights = model_variable(
            "depthwise_weights",
            [*sizes, channels, depth_multiplier],
            inputs.dtype.base_dtype,
            weights_initializer,
            weights_regularizer,
            trainable,
            get_variable_collections(variables_collections, "weights"),
        )
        outputs = tf.nn.depthwise_conv2d(inputs, weights, stride, padding.upper(), rate, data_format=form)
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biased:
            biases = model_variable(
                "biases",
                [channels * depth_multiplier],
                inputs.dtype.base_dtype,
                biases_initializer,
                biases_regularizer,
                trainable,
                get_variable_collections(variables_collections, "biases"),
            )
            outputs = tf.nn.bias_add(outputs, biases, data_format=form)
        return finished(outputs, activation_fn, outputs_collections, sc)


public("contrib.layers.conv2d_transpose", "contrib.layers.convolution2d_transpose")(convolution2d_transpose)


public("contrib.layers.separable_conv2d", "contrib.layers.separable_convolution2d")(separable_convolution2d)
