"""Batch normalisation as a function: by the layer of `tf.layers` where that fits, by moments otherwise."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import add_model_variable, model_variable
from anabranch.contrib.layers.conventions import finished, joined
from anabranch.contrib.layers.convolutions import channels_first
from anabranch.contrib.layers.output_collections import get_variable_collections
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import counted_as
from anabranch.ops.control.public_cond import smart_constant_value
from anabranch.train.moving_averages import assign_moving_average

_UPDATES = tf.GraphKeys.UPDATE_OPS
_COUNTED: dict[bool, dict[tuple[int | None, bool | None], int]] = {
    False: {
        (4, True): 11,
        (4, False): 1,
        (4, None): 41,
        (2, True): 15,
        (2, False): 5,
        (2, None): 45,
        (None, True): 23,
        (None, False): 7,
        (None, None): 55,
    },
    True: {
        (4, True): 12,
        (4, False): 1,
        (4, None): 41,
        (2, True): 16,
        (2, False): 5,
        (2, None): 45,
        (None, True): 25,
        (None, False): 7,
        (None, None): 39,
    },
}
"""How many operations TensorFlow builds beside variables: by whether updates are part of the output, the rank where one
op does it all, and whether it is known to be training."""


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
    starts, penalties = param_initializers or {}, param_regularizers or {}
    first = channels_first(data_format)
    inputs = tf.convert_to_tensor(inputs)
    rank = _rank(inputs)
    # The layer of `tf.layers` knows neither weights nor other collections; the moments know neither renorm nor
    # adjustment.
    by_layer = batch_weights is None and not zero_debias_moving_mean and updates_collections == _UPDATES
    if renorm or adjustment is not None or (by_layer and (rank != 2 or fused is False)):
        if not by_layer:
            raise NotImplementedError(
                errors.message(
                    "renorm or adjustment with batch_weights, zero_debias_moving_mean or other updates_collections",
                    "the default of these",
                    "tf.layers.batch_normalization(..., renorm=True)",
                )
            )
        with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
            layer = tf.layers.BatchNormalization(
                1 if first else -1,
                decay,
                epsilon,
                center,
                scale,
                beta_initializer=starts.get("beta", tf.zeros_initializer()),
                gamma_initializer=starts.get("gamma", tf.ones_initializer()),
                moving_mean_initializer=starts.get("moving_mean", tf.zeros_initializer()),
                moving_variance_initializer=starts.get("moving_variance", tf.ones_initializer()),
                beta_regularizer=penalties.get("beta"),
                gamma_regularizer=penalties.get("gamma"),
                fused=fused,
                renorm=renorm,
                renorm_clipping=renorm_clipping,
                renorm_momentum=renorm_decay,
                adjustment=adjustment,
                trainable=trainable,
                name=sc.name,
                _scope=sc,
                _reuse=reuse,
            )
            outputs = layer(inputs, training=is_training)
            joined(layer, variables_collections)
            return finished(outputs, activation_fn, outputs_collections, sc)
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        channels, dtype = inputs.shape.as_list()[1 if first else -1], inputs.dtype.base_dtype
        if channels is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}.\n"
                + errors.message(f"inputs of shape {inputs.shape}", "known channels", "inputs.set_shape([..., n])")
            )
        variables: dict[str, Any] = {}
        partitioner = sc.partitioner
        for name, wanted, default in (
            ("beta", center, 0.0),
            ("gamma", scale, 1.0),
            ("moving_mean", True, 0.0),
            ("moving_variance", True, 1.0),
        ):
            if wanted:
                moving = name.startswith("moving")
                sc.set_partitioner(None if moving else partitioner)  # averages stay whole
                variables[name] = model_variable(
                    name,
                    [channels],
                    dtype,
                    starts.get(name, tf.constant_initializer(default)),
                    penalties.get(name),
                    trainable and not moving,
                    get_variable_collections(variables_collections, name),
                )
        sc.set_partitioner(partitioner)
        known = smart_constant_value(is_training)
        key = (rank if fused is not False and rank in (2, 4) else None), None if known is None else bool(known)
        missing = 0 if key[0] is None else 2 - bool(scale) - bool(center)  # constants in place of variables
        debiased = (19 if known is None else 17) if zero_debias_moving_mean and known is not False else 0
        with counted_as(_COUNTED[updates_collections is None][key] + missing + debiased):
            outputs = _by_moments(
                inputs,
                variables,
                decay,
                epsilon,
                is_training,
                updates_collections,
                batch_weights,
                fused is not False,
                zero_debias_moving_mean,
                first,
            )
        return finished(outputs, activation_fn, outputs_collections, sc)


def _rank(inputs: Tensor) -> int:
    if inputs.shape.ndims is None:
        raise ValueError(
            f"Inputs {inputs.name} has undefined rank\n"
            + errors.message("inputs of unknown rank", "a tensor of known rank", "inputs.set_shape([None, ...])")
        )
    return inputs.shape.ndims


def _by_moments(
    inputs: Tensor,
    variables: dict[str, Any],
    decay: Any,
    epsilon: float,
    is_training: Any,
    collections: Any,
    batch_weights: Any,
    fused: bool,
    zero_debias: bool,
    first: bool,
) -> Any:
    """Batch normalisation with the batch's moments while training, and the moving averages' otherwise."""
    rank = _rank(inputs)
    axes = [i for i in range(rank) if i != (1 if first else rank - 1)]
    # The fused op, which is for ranks 2 and 4, lets the average follow the variance over n - 1, the others that over n.
    unbiased = fused and batch_weights is None and rank in (2, 4)

    def spread(values: Any) -> Any:
        return tf.reshape(values, [1, -1] + [1] * (rank - 2)) if first and rank > 2 else values

    def normalised(mean: Any, variance: Any) -> Any:
        beta, gamma = (spread(variables[name]) if name in variables else None for name in ("beta", "gamma"))
        outputs = tf.nn.batch_normalization(inputs, spread(mean), spread(variance), beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def training() -> tuple[Any, ...]:
        if batch_weights is None:
            mean, variance = tf.nn.moments(inputs, axes)
        else:
            weights = tf.reshape(tf.cast(batch_weights, inputs.dtype.base_dtype), [-1] + [1] * (rank - 1))
            mean, variance = tf.nn.weighted_moments(inputs, axes, weights)
        followed = variance
        if unbiased:
            count = tf.cast(tf.size(inputs), variance.dtype) / tf.cast(tf.size(mean), variance.dtype)
            followed = variance * count / tf.maximum(count - 1.0, 1.0)
        return normalised(mean, variance), mean, followed

    known = smart_constant_value(is_training)
    if known is False:
        return normalised(variables["moving_mean"], variables["moving_variance"])
    if known:
        outputs, mean, variance = training()
        share: Any = decay
    else:
        still = tf.convert_to_tensor(variables["moving_mean"]), tf.convert_to_tensor(variables["moving_variance"])
        outputs, mean, variance = tf.cond(is_training, training, lambda: (normalised(*still), *still))
        share = tf.cond(is_training, lambda: tf.constant(float(decay)), lambda: tf.constant(1.0))
    before = len(tf.global_variables())
    updates = [
        assign_moving_average(variables["moving_mean"], mean, share, zero_debias=zero_debias),
        assign_moving_average(variables["moving_variance"], variance, share, zero_debias=False),
    ]
    for variable in tf.global_variables()[before:]:  # sums that zero_debias keeps
        add_model_variable(variable)
    if collections is None:
        with tf.control_dependencies(updates):
            return tf.identity(outputs)
    for name in [collections] if isinstance(collections, str) else collections:
        for update in updates:
            tf.add_to_collection(name, update)
    return outputs
