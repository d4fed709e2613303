"""Layers less often used: transposed and separable convolutions, normalisation of instances, one-hot codes."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.common import XAVIER, ZEROS, applied, finished, renamed
from anabranch.contrib.layers.convolutions import channels_first
from anabranch.contrib.layers.parts import collect_named_outputs, get_variable_collections
from anabranch.core import errors
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
            num_outputs, kernel_size, stride, padding, _format(data_format),
            use_bias=normalizer_fn is None and biases_initializer is not None, kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer, kernel_regularizer=weights_regularizer,
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
                layer, inputs, normalizer_fn, normalizer_params, activation_fn, variables_collections,
                outputs_collections, sc,
            )  # fmt: skip
        form = "NCHW" if channels_first(data_format) else "NHWC"
        channels = inputs.shape.as_list()[1 if form == "NCHW" else -1]
        sizes = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size] * 2
        weights = model_variable(
            "depthwise_weights", [*sizes, channels, depth_multiplier], inputs.dtype.base_dtype, weights_initializer,
            weights_regularizer, trainable, get_variable_collections(variables_collections, "weights"),
        )  # fmt: skip
        outputs = tf.nn.depthwise_conv2d(inputs, weights, stride, padding.upper(), rate, data_format=form)
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biased:
            biases = model_variable(
                "biases", [channels * depth_multiplier], inputs.dtype.base_dtype, biases_initializer,
                biases_regularizer, trainable, get_variable_collections(variables_collections, "biases"),
            )  # fmt: skip
            outputs = tf.nn.bias_add(outputs, biases, data_format=form)
        return finished(outputs, activation_fn, outputs_collections, sc)


public("contrib.layers.conv2d_transpose", "contrib.layers.convolution2d_transpose")(convolution2d_transpose)
public("contrib.layers.separable_conv2d", "contrib.layers.separable_convolution2d")(separable_convolution2d)


@public("contrib.layers.instance_norm")
@add_arg_scope
def instance_norm(
    inputs: Any, center: bool = True, scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None,
    param_initializers: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, data_format: str = "NHWC", scope: Any = None,
) -> Tensor:  # fmt: skip
    """Instance normalisation (Ulyanov et al., 2016): each channel of each example over its spatial axes."""
    starts = param_initializers or {}
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        axis = 1 if channels_first(data_format) else rank - 1
        channels = inputs.shape.as_list()[axis]
        spread = [1] * rank
        spread[axis] = channels
        variables: dict[str, Any] = {"beta": None, "gamma": None}
        for name, wanted, default in (
            ("beta", center, tf.zeros_initializer()),
            ("gamma", scale, tf.ones_initializer()),
        ):
            if wanted:
                variable = model_variable(
                    name, [channels], inputs.dtype.base_dtype, starts.get(name, default), trainable=trainable,
                    collections=get_variable_collections(variables_collections, name),
                )  # fmt: skip
                variables[name] = tf.reshape(variable, spread)
        mean, variance = tf.nn.moments(inputs, [i for i in range(1, rank) if i != axis], keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs, mean, variance, variables["beta"], variables["gamma"], epsilon, "instancenorm"
        )
        outputs.set_shape(inputs.shape)
        return finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.bias_add")
@add_arg_scope
def bias_add(
    inputs: Any, activation_fn: Any = None, initializer: Any = ZEROS, regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    data_format: str = "NHWC", scope: Any = None,
) -> Tensor:  # fmt: skip
    """The inputs plus a variable ``biases`` of one value for each channel."""
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        channels = inputs.shape.as_list()[1 if channels_first(data_format) else -1]
        if channels is None:
            raise ValueError(
                "`C` dimension must be known but is None\n"
                + errors.message(f"inputs of shape {inputs.shape}", "known channels", "inputs.set_shape([..., n])")
            )
        biases = model_variable(
            "biases", [channels], inputs.dtype.base_dtype, initializer, regularizer, trainable,
            get_variable_collections(variables_collections, "biases"),
        )  # fmt: skip
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        return finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.one_hot_encoding")
@add_arg_scope
def one_hot_encoding(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0, outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:  # fmt: skip
    """Class numbers ``[batch]`` as rows ``[batch, num_classes]``."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        codes = tf.one_hot(tf.cast(labels, tf.int64), num_classes, on_value=on_value, off_value=off_value)
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), codes)
        return collected
