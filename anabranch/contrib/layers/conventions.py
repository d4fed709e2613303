"""What the layers share: defaults, names of variables, what comes after the product of inputs and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.variables import add_model_variable, model_variable
from anabranch.contrib.layers.initializers import xavier_initializer
from anabranch.contrib.layers.output_collections import collect_named_outputs, get_variable_collections
from anabranch.core.graph.operation import Tensor
from anabranch.variables.initializers import Zeros

XAVIER, ZEROS = xavier_initializer(), Zeros()
_NAMES = {
    "kernel": "weights",
    "bias": "biases",
    "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
}


def sizes(value: Any, axes: int) -> list[int]:
    """One size for each axis, from one for all or from a sequence."""
    given = value.as_list() if isinstance(value, tf.TensorShape) else value
    return [int(v) for v in given] if isinstance(given, (list, tuple)) else [int(given)] * axes


def renamed(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """A custom getter that gives variables of ``tf.layers`` the names they have in ``tf.contrib.layers``."""
    head, slash, last = name.rpartition("/")
    return getter(head + slash + _NAMES.get(last, last), *args, **kwargs)


def regularizer_of(layer_name: str, regularizer: Any) -> Any:
    """A regularizer whose loss has the name that the variable has in ``tf.layers``: ``Conv/kernel/Regularizer``.

    As there, it comes on top of the variable scope's own regularizer, and does not take its place.
    """
    if regularizer is None:
        return None
    scope = tf.get_default_graph().get_name_scope()
    around = tf.get_variable_scope().regularizer

    def regularize(variable: Any) -> Any:
        loss = None if around is None else around(variable)
        if loss is not None:
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)
        with tf.name_scope(f"{scope}/"), tf.name_scope(f"{layer_name}/Regularizer"):
            return regularizer(variable)

    return regularize


def finished(outputs: Any, activation_fn: Any, outputs_collections: Any, scope: Any) -> Tensor:
    """The outputs, activated, in the collections that were named, under the name of the variable scope."""
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    collected: Tensor = collect_named_outputs(outputs_collections, scope.name, outputs)
    return collected


def biased(
    outputs: Any,
    size: int,
    normalizer: Any,
    params: Any,
    initializer: Any,
    regularizer: Any,
    collections: Any,
    trainable: bool,
    channels_first: bool = False,
) -> Any:
    """The outputs, normalised if there is a normalizer, else with biases if they have an initializer."""
    if normalizer is not None:
        return normalizer(outputs, **(params or {}))
    if initializer is None:
        return outputs
    biases = model_variable(
        "biases",
        [size],
        outputs.dtype.base_dtype,
        initializer,
        regularizer,
        trainable,
        get_variable_collections(collections, "biases"),
    )
    if outputs.shape.ndims in (2, 4) or not channels_first:
        return tf.nn.bias_add(outputs, biases, data_format="NCHW" if channels_first else "NHWC")
    return outputs + tf.reshape(biases, [size] + [1] * (outputs.shape.ndims - 2))


def applied(
    layer: Any,
    inputs: Any,
    normalizer: Any,
    params: Any,
    activation: Any,
    variables_collections: Any,
    outputs_collections: Any,
    scope: Any,
) -> Tensor:
    """A layer's output, normalised and activated; its variables join the model's."""
    outputs = layer(inputs)
    joined(layer, variables_collections)
    if normalizer is not None:
        outputs = normalizer(outputs, **(params or {}))
    return finished(outputs, activation, outputs_collections, scope)


def joined(layer: Any, variables_collections: Any) -> None:
    """Add a layer's variables to the model's and to the collections that were named."""
    for variable in layer.variables:
        add_model_variable(variable)
        name = variable.op.name.rpartition("/")[2]
        for collection in get_variable_collections(variables_collections, name) or ():
            tf.add_to_collection(collection, variable)
