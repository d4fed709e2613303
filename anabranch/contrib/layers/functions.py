"""Layers as functions: variables in the collection of the model's variables, defaults from argument scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import add_model_variable, model_variable
from anabranch.contrib.layers.parts import collect_named_outputs, get_variable_collections, xavier_initializer
from anabranch.core import errors
from anabranch.core.api import public
from anabranch.core.operation import Tensor
from anabranch.variables.initializers import Zeros

_XAVIER, _ZEROS = xavier_initializer(), Zeros()
_UPDATES = tf.GraphKeys.UPDATE_OPS


def _finished(outputs: Any, activation_fn: Any, outputs_collections: Any, scope: Any) -> Tensor:
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    collected: Tensor = collect_named_outputs(outputs_collections, scope.original_name_scope.rstrip("/"), outputs)
    return collected


def _normalized_or_biased(
    outputs: Any, size: int, normalizer: Any, params: Any, initializer: Any, regularizer: Any, collections: Any,
    trainable: bool, data_format: str = "NHWC",
) -> Any:  # fmt: skip
    if normalizer is not None:
        return normalizer(outputs, **(params or {}))
    if initializer is None:
        return outputs
    biases = model_variable(
        "biases", [size], outputs.dtype.base_dtype, initializer, regularizer, trainable,
        get_variable_collections(collections, "biases"),
    )  # fmt: skip
    return tf.nn.bias_add(outputs, biases, data_format=data_format)


@public("contrib.layers.fully_connected")
@add_arg_scope
def fully_connected(
    inputs: Any, num_outputs: int, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """``activation_fn(inputs @ weights + biases)``: ``[..., in]`` to ``[..., num_outputs]``.

    A ``normalizer_fn`` (called with ``normalizer_params``) stands in place of the biases.
    """
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        depth = inputs.shape.as_list()[-1]
        if depth is None:
            raise ValueError(
                "The last dimension of the inputs to `fully_connected` should be defined. Found `None`.\n"
                + errors.message(f"inputs of shape {inputs.shape}", "a known last size", "inputs.set_shape([..., n])")
            )
        weights = model_variable(
            "weights", [depth, num_outputs], inputs.dtype.base_dtype, weights_initializer, weights_regularizer,
            trainable, get_variable_collections(variables_collections, "weights"),
        )  # fmt: skip
        if inputs.shape.ndims == 2:
            outputs = tf.matmul(inputs, weights)
        else:
            outputs = tf.tensordot(inputs, weights, [[inputs.shape.ndims - 1], [0]])
        outputs = _normalized_or_biased(
            outputs, num_outputs, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer,
            variables_collections, trainable,
        )  # fmt: skip
        return _finished(outputs, activation_fn, outputs_collections, sc)


def _pair(value: Any) -> list[int]:
    return [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)] * 2


def _first(data_format: str | None) -> bool:
    if data_format not in (None, "NHWC", "NCHW"):
        raise ValueError(
            f"data_format has to be either NCHW or NHWC: {data_format}\n"
            + errors.message(f"data_format={data_format!r}", "'NHWC' or 'NCHW'", "data_format='NHWC'")
        )
    return data_format == "NCHW"


@public("contrib.layers.conv2d", "contrib.layers.convolution2d")
@add_arg_scope
def conv2d(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str | None = None, rate: Any = 1, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Convolution ``[batch, height, width, in]`` to ``[batch, ..., num_outputs]``, normalised or with biases."""
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        form = "NCHW" if _first(data_format) else "NHWC"
        channels = inputs.shape.as_list()[1 if form == "NCHW" else -1]
        weights = model_variable(
            "weights", [*_pair(kernel_size), channels, num_outputs], inputs.dtype.base_dtype, weights_initializer,
            weights_regularizer, trainable, get_variable_collections(variables_collections, "weights"),
        )  # fmt: skip
        outputs = tf.nn.conv2d(inputs, weights, _pair(stride), padding.upper(), data_format=form, dilations=_pair(rate))
        outputs = _normalized_or_biased(
            outputs, num_outputs, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer,
            variables_collections, trainable, form,
        )  # fmt: skip
        return _finished(outputs, activation_fn, outputs_collections, sc)


def _pooled(
    function: Callable[..., Any], default: str, inputs: Any, kernel_size: Any, stride: Any, padding: str,
    data_format: str, outputs_collections: Any, scope: Any,
) -> Tensor:  # fmt: skip
    form = "NCHW" if _first(data_format) else "NHWC"
    with tf.name_scope(scope, default, [inputs]) as sc:
        outputs = function(inputs, _pair(kernel_size), _pair(stride), padding.upper(), data_format=form)
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), outputs)
        return collected


@public("contrib.layers.max_pool2d")
@add_arg_scope
def max_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Largest value of each window of ``[batch, height, width, channels]``."""
    return _pooled(
        tf.nn.max_pool, "MaxPool2D", inputs, kernel_size, stride, padding, data_format, outputs_collections, scope
    )


@public("contrib.layers.avg_pool2d")
@add_arg_scope
def avg_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Mean of each window of ``[batch, height, width, channels]``."""
    return _pooled(
        tf.nn.avg_pool, "AvgPool2D", inputs, kernel_size, stride, padding, data_format, outputs_collections, scope
    )


@public("contrib.layers.batch_norm")
@add_arg_scope
def batch_norm(
    inputs: Any, decay: Any = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
    activation_fn: Any = None, param_initializers: Any = None, param_regularizers: Any = None,
    updates_collections: Any = _UPDATES, is_training: Any = True, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, batch_weights: Any = None, fused: bool | None = None,
    data_format: str = "NHWC", zero_debias_moving_mean: bool = False, scope: Any = None, renorm: bool = False,
    renorm_clipping: Any = None, renorm_decay: Any = 0.99, adjustment: Any = None,
) -> Tensor:  # fmt: skip
    """Batch normalisation with variables ``beta``, ``gamma``, ``moving_mean``, ``moving_variance``.

    The averages' updates go to ``updates_collections``; with None they happen whenever the output is computed.
    """
    for told, given in (("batch_weights", batch_weights), ("zero_debias_moving_mean", zero_debias_moving_mean or None)):
        if given is not None:
            raise NotImplementedError(
                errors.message(f"{told} of batch_norm", "its default", "tf.nn.weighted_moments and batch_normalization")
            )
    starts, penalties = param_initializers or {}, param_regularizers or {}
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        layer = tf.layers.BatchNormalization(
            1 if _first(data_format) else -1, decay, epsilon, center, scale,
            beta_initializer=starts.get("beta", tf.zeros_initializer()),
            gamma_initializer=starts.get("gamma", tf.ones_initializer()),
            moving_mean_initializer=starts.get("moving_mean", tf.zeros_initializer()),
            moving_variance_initializer=starts.get("moving_variance", tf.ones_initializer()),
            beta_regularizer=penalties.get("beta"), gamma_regularizer=penalties.get("gamma"), fused=fused,
            renorm=renorm, renorm_clipping=renorm_clipping, renorm_momentum=renorm_decay, adjustment=adjustment,
            trainable=trainable, name=sc.name, _scope=sc, _reuse=reuse,
        )  # fmt: skip
        known = list(tf.get_collection(_UPDATES))
        outputs = layer(inputs, training=is_training)
        if updates_collections != _UPDATES:
            tf.get_collection_ref(_UPDATES)[:] = known
            if updates_collections is None:
                with tf.control_dependencies([tf.convert_to_tensor(update) for update in layer.updates]):
                    outputs = tf.identity(outputs)
            for name in [updates_collections] if isinstance(updates_collections, str) else updates_collections or ():
                for update in layer.updates:
                    tf.add_to_collection(name, update)
        for variable in layer.variables:
            add_model_variable(variable)
            own = variable.op.name.rpartition("/")[2]
            for name in get_variable_collections(variables_collections, own) or ():
                tf.add_to_collection(name, variable)
        return _finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.layer_norm")
@add_arg_scope
def layer_norm(
    inputs: Any, center: bool = True, scale: bool = True, activation_fn: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Layer normalisation (Ba, Kiros and Hinton, 2016): over the axes from ``begin_norm_axis`` on, per example."""
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        shape, dtype = inputs.shape, inputs.dtype.base_dtype
        start = begin_norm_axis + shape.ndims if begin_norm_axis < 0 else begin_norm_axis
        params = shape.as_list()[begin_params_axis:]
        made: dict[str, Any] = {"beta": None, "gamma": None}
        for name, wanted, initializer in (
            ("beta", center, tf.zeros_initializer()),
            ("gamma", scale, tf.ones_initializer()),
        ):
            if wanted:
                made[name] = model_variable(
                    name, params, dtype, initializer, trainable=trainable,
                    collections=get_variable_collections(variables_collections, name),
                )  # fmt: skip
        mean, variance = tf.nn.moments(inputs, list(range(start, shape.ndims)), keep_dims=True)
        epsilon = 1e-3 if dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, made["beta"], made["gamma"], epsilon)
        outputs.set_shape(shape)
        return _finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.dropout")
@add_arg_scope
def dropout(
    inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True,
    outputs_collections: Any = None, scope: Any = None, seed: int | None = None,
) -> Tensor:  # fmt: skip
    """Keeps elements with probability ``keep_prob`` while training, scaled by its inverse."""
    with tf.variable_scope(scope, "Dropout", [inputs]) as sc:
        layer = tf.layers.Dropout(1 - keep_prob, noise_shape, seed, name=sc.name, _scope=sc)
        return _finished(layer(tf.convert_to_tensor(inputs), training=is_training), None, outputs_collections, sc)


@public("contrib.layers.flatten")
@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """``[batch, ...]`` to ``[batch, product of the rest]``."""
    with tf.name_scope(scope, "Flatten", [inputs]) as sc:
        outputs = tf.layers.flatten(inputs)
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), outputs)
        return collected


@public("contrib.layers.softmax")
def softmax(logits: Any, scope: str | None = None) -> Tensor:
    """Softmax over the last axis."""
    with tf.variable_scope(scope, "softmax", [logits]):
        found: Tensor = tf.nn.softmax(logits)
        return found


@public("contrib.layers.repeat")
@add_arg_scope
def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer applied again and again, in scopes ``scope_1``, ``scope_2`` and so on."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        base = scope or getattr(layer, "__name__", "repeat")
        for i in range(repetitions):
            inputs = layer(inputs, *args, scope=f"{base}_{i + 1}", **kwargs)
        return inputs


@public("contrib.layers.stack")
@add_arg_scope
def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """A layer applied again and again with other arguments each time, in scopes ``scope_1``, ``scope_2`` and so on."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Stack", [inputs]):
        base = scope or getattr(layer, "__name__", "stack")
        for i, given in enumerate(stack_args, 1):
            given = given if isinstance(given, (list, tuple)) else [given]
            inputs = layer(inputs, *given, scope=f"{base}_{i}", **kwargs)
        return inputs
