"""Layers on the last dimension: fully connected ones, biases, dropout, flattening, softmax."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.conventions import XAVIER, ZEROS, biased, finished, regularizer_of
from anabranch.contrib.layers.convolutions import channels_first
from anabranch.contrib.layers.output_collections import (
    collect_named_outputs,
    get_variable_collections,
)
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


@public("contrib.layers.fully_connected")
@add_arg_scope
def fully_connected(
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
            "weights",
            [depth, num_outputs],
            inputs.dtype.base_dtype,
            weights_initializer,
            regularizer_of("kernel", weights_regularizer),
            trainable,
            get_variable_collections(variables_collections, "weights"),
        )
        if inputs.shape.ndims == 2:
            outputs = tf.matmul(inputs, weights)
        else:
            outputs = tf.tensordot(inputs, weights, [[inputs.shape.ndims - 1], [0]])
        outputs = biased(
            outputs,
            num_outputs,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            regularizer_of("bias", biases_regularizer),
            variables_collections,
            trainable,
        )
        return finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.bias_add")
@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = ZEROS,
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Tensor:
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
            "biases",
            [channels],
            inputs.dtype.base_dtype,
            initializer,
            regularizer,
            trainable,
            get_variable_collections(variables_collections, "biases"),
        )
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        return finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.dropout")
@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Tensor:
    """Keep elements with probability ``keep_prob`` while training, scaled by its inverse."""
    with tf.variable_scope(scope, "Dropout", [inputs]) as sc:
        layer = tf.layers.Dropout(1 - keep_prob, noise_shape, seed, name=sc.name, _scope=sc)
        return finished(layer(tf.convert_to_tensor(inputs), training=is_training), None, outputs_collections, sc)


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
    """Softmax over the last axis; the output is called ``<scope>/Reshape_1``, as programs that freeze graphs expect."""
    with tf.variable_scope(scope, "softmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        if logits.shape.as_list()[-1] is None:
            raise ValueError(
                f"dimension -1 of shape must be known but is None: {logits.shape}\n"
                + errors.message(f"logits of shape {logits.shape}", "[..., known number]", "logits.set_shape(shape)")
            )
        rows = tf.nn.softmax(tf.reshape(logits, [-1, logits.shape.as_list()[-1]]))
        shape = logits.shape.as_list() if logits.shape.is_fully_defined() else tf.shape(logits)
        probabilities: Tensor = tf.reshape(rows, shape)
        probabilities.set_shape(logits.shape)
        return probabilities
