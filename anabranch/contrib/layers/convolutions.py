"""Convolutions and pools over one, two and three axes.

The functions of one kind differ only in how many axes they ask for, so each kind is written once. Their ``__name__`` is
TensorFlow's long name (``convolution2d``), from which :func:`~anabranch.contrib.layers.repetition.repeat` names scopes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.conventions import (
    XAVIER,
    ZEROS,
    applied,
    biased,
    finished,
    regularizer_of,
    renamed,
    sizes,
)
from anabranch.contrib.layers.output_collections import collect_named_outputs, get_variable_collections
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more

LAST, FIRST = ("NWC", "NHWC", "NDHWC"), ("NCW", "NCHW", "NCDHW")


def channels_first(data_format: str | None, axes: int | None = None) -> bool:
    """Whether channels come before the spatial axes.

    Raises:
        ValueError: there is no such format, or it is one for another number of axes.
    """
    known = (*LAST, *FIRST) if axes is None else (LAST[axes - 1], FIRST[axes - 1])
    if data_format is not None and data_format not in known:
        raise ValueError(
            f"data_format has to be either {FIRST[(axes or 2) - 1]} or {LAST[(axes or 2) - 1]}.\n"
            f"Invalid data_format: {data_format}\n"
            + errors.message(f"data_format={data_format!r}", f"one of {', '.join(known)}", f"data_format={known[0]!r}")
        )
    return data_format in FIRST


def _known_channels(inputs: Tensor, axis: int, layer: str) -> int:
    channels = inputs.shape.as_list()[axis]
    if channels is None:
        raise ValueError(
            "The channel dimension of the inputs should be defined. Found `None`.\n"
            + errors.message(f"{layer} of shape {inputs.shape}", "known channels", "inputs.set_shape([..., n])")
        )
    return int(channels)


def _convolution_of(axes: int | None, name: str) -> Callable[..., Any]:
    def convolve(
        inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
        data_format: str | None = None, rate: Any = 1, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
        normalizer_params: Any = None, weights_initializer: Any = XAVIER, weights_regularizer: Any = None,
        biases_initializer: Any = ZEROS, biases_regularizer: Any = None, reuse: Any = None,
        variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
    ) -> Tensor:  # fmt: skip
        """Convolution ``[batch, spatial..., in]`` to ``[batch, spatial..., num_outputs]``, normalised or with biases.

        ``rate`` spreads the kernel (atrous convolution). A ``normalizer_fn`` stands in place of the biases.
        """
        with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
            inputs = tf.convert_to_tensor(inputs)
            spatial = inputs.shape.ndims - 2 if inputs.shape.ndims is not None else None
            if spatial not in (1, 2, 3) or axes not in (None, spatial):
                rank = "3, 4 or 5" if axes is None else str(axes + 2)
                raise ValueError(
                    f"Convolution expects input with rank {rank}, got {inputs.shape.ndims}\n"
                    + errors.message(f"inputs of shape {inputs.shape}", f"rank {rank}", "tf.reshape or tf.expand_dims")
                )
            first = channels_first(data_format, spatial)
            form = (FIRST if first else LAST)[spatial - 1]
            channels = _known_channels(inputs, 1 if first else -1, "inputs")
            weights = model_variable(
                "weights",
                [*sizes(kernel_size, spatial), channels, num_outputs],
                inputs.dtype.base_dtype,
                weights_initializer,
                regularizer_of("kernel", weights_regularizer),
                trainable,
                get_variable_collections(variables_collections, "weights"),
            )
            strides, rates = sizes(stride, spatial), sizes(rate, spatial)
            if spatial == 2:
                spaced = any(step != 1 for step in rates)
                count_more((12 if padding.upper() == "SAME" else 11) if spaced else 1)  # the rates
                outputs = tf.nn.conv2d(inputs, weights, strides, padding.upper(), data_format=form, dilations=rates)
            else:
                outputs = tf.nn.convolution(inputs, weights, padding.upper(), strides, rates, data_format=form)
            outputs = biased(
                outputs,
                num_outputs,
                normalizer_fn,
                normalizer_params,
                biases_initializer,
                regularizer_of("bias", biases_regularizer),
                variables_collections,
                trainable,
                first,
            )
            return finished(outputs, activation_fn, outputs_collections, sc)

    convolve.__name__ = convolve.__qualname__ = name
    return add_arg_scope(convolve)


conv1d = convolution1d = _convolution_of(1, "convolution1d")
conv2d = convolution2d = _convolution_of(2, "convolution2d")
conv3d = convolution3d = _convolution_of(3, "convolution3d")
for _name in ("conv1d", "convolution1d", "conv2d", "convolution2d", "conv3d", "convolution3d"):
    public(f"contrib.layers.{_name}")(globals()[_name])
_ANY = _convolution_of(None, "convolution")


@public("contrib.layers.convolution")
@add_arg_scope
def convolution(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str | None = None, rate: Any = 1, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
    conv_dims: int | None = None,
) -> Tensor:  # fmt: skip
    """Convolution over as many axes as the inputs have, or over ``conv_dims`` of them."""
    output: Tensor = {None: _ANY, 1: conv1d, 2: conv2d, 3: conv3d}[conv_dims](
        inputs, num_outputs, kernel_size, stride, padding, data_format, rate, activation_fn, normalizer_fn,
        normalizer_params, weights_initializer, weights_regularizer, biases_initializer, biases_regularizer, reuse,
        variables_collections, outputs_collections, trainable, scope,
    )  # fmt: skip
    return output


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
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
    """One kernel ``[height, width]`` over each channel of ``[batch, height, width, channels]``."""
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        channels = _known_channels(inputs, -1, "inputs")
        weights = model_variable(
            "weights",
            [*sizes(kernel_size, 2), 1, 1],
            inputs.dtype.base_dtype,
            weights_initializer,
            weights_regularizer,
            trainable,
            get_variable_collections(variables_collections, "weights"),
        )
        strides = [1, *sizes(stride, 2), 1]
        outputs = tf.nn.depthwise_conv2d(inputs, tf.tile(weights, [1, 1, channels, 1]), strides, padding.upper())
        outputs = biased(
            outputs,
            channels,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            variables_collections,
            trainable,
            False,
        )
        return finished(outputs, activation_fn, outputs_collections, sc)


@add_arg_scope
def convolution3d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME", data_format: str = "NDHWC",
    activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = XAVIER, weights_regularizer: Any = None, biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Transposed convolution ``[batch, depth, height, width, in]`` to ``[batch, ..., num_outputs]``."""
    first = channels_first(data_format, 3)
    with tf.variable_scope(scope, "Conv3d_transpose", [inputs], reuse=reuse, custom_getter=renamed) as sc:
        layer = tf.layers.Conv3DTranspose(
            num_outputs,
            kernel_size,
            stride,
            padding,
            "channels_first" if first else "channels_last",
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


public("contrib.layers.conv2d_in_plane", "contrib.layers.convolution2d_in_plane")(convolution2d_in_plane)
public("contrib.layers.conv3d_transpose", "contrib.layers.convolution3d_transpose")(convolution3d_transpose)


def _pooled(kind: str, axes: int) -> Callable[..., Any]:
    name = f"{kind.lower()}_pool{axes}d"
    scope_name = f"{kind.capitalize()}Pool{axes}D"
    function = getattr(tf.nn, name if axes == 3 else f"{kind.lower()}_pool")

    def pool_layer(
        inputs: Any,
        kernel_size: Any,
        stride: Any = 2,
        padding: str = "VALID",
        data_format: str = LAST[axes - 1],
        outputs_collections: Any = None,
        scope: Any = None,
    ) -> Tensor:
        """The largest value, or the mean, of each window of ``[batch, spatial..., channels]``."""
        first = channels_first(data_format, axes)
        with tf.name_scope(scope, scope_name, [inputs]) as sc:
            windows, strides = (
                [1, 1, *sizes(given, axes)] if first else [1, *sizes(given, axes), 1] for given in (kernel_size, stride)
            )
            outputs = function(tf.convert_to_tensor(inputs), windows, strides, padding.upper(), data_format=data_format)
            collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), outputs)
            return collected

    pool_layer.__name__ = pool_layer.__qualname__ = name
    return public(f"contrib.layers.{name}")(add_arg_scope(pool_layer))


max_pool2d, avg_pool2d = _pooled("MAX", 2), _pooled("AVG", 2)
max_pool3d, avg_pool3d = _pooled("MAX", 3), _pooled("AVG", 3)


@public("contrib.layers.pool")
@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Tensor:
    """The largest value (``pooling_type="MAX"``) or the mean (``"AVG"``) of each window, which may be spread."""
    with tf.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        axes = inputs.shape.ndims - 2
        outputs = tf.nn.pool(
            inputs,
            sizes(kernel_size, axes),
            pooling_type,
            padding.upper(),
            sizes(dilation_rate, axes),
            sizes(stride, axes),
            data_format=data_format,
        )
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), outputs)
        return collected
