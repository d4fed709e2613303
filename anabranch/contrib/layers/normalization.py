"""Normalisation by groups of channels and by length."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.conventions import finished
from anabranch.contrib.layers.convolutions import channels_first
from anabranch.contrib.layers.output_collections import get_variable_collections
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more


def _axis(axis: int, rank: int) -> int:
    position = axis + rank if axis < 0 else axis
    if not 0 <= position < rank:
        raise ValueError(
            f"Axis is out of bounds: {axis}\n"
            + errors.message(
                f"axis {axis} of a tensor of rank {rank}", f"an axis from {-rank} to {rank - 1}", "axis=-1"
            )
        )
    return position


@public("contrib.layers.group_norm")
@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Any = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> Tensor:
    """Group normalisation (Wu and He, 2018): each group of channels of each example over ``reduction_axes``.

    Args:
        inputs: tensor of known rank and channels.
        groups: number of groups; must divide the number of channels.
        channels_axis: the axis of the channels.
        reduction_axes: axes to take the moments over, beside the channels of a group.
        center: add a variable ``beta``.
        scale: multiply by a variable ``gamma``.
        epsilon: added to the variance.
        activation_fn: function of the result.
        param_initializers: dictionary of initializers of ``beta`` and ``gamma``.
        reuse: whether to use variables that exist.
        variables_collections: collections of the variables.
        outputs_collections: collections of the output.
        trainable: whether the variables are trained.
        scope: name of the variable scope.
        mean_close_to_zero: take the variance as mean of squares minus squared mean, in one pass.
    """
    starts = param_initializers or {}
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        shape, dtype = inputs.shape, inputs.dtype.base_dtype
        if shape.ndims is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined rank.\n"
                + errors.message(
                    "inputs of unknown rank", "a tensor of known rank", "inputs.set_shape([None, h, w, c])"
                )
            )
        place = _axis(channels_axis, shape.ndims)
        reduced = [_axis(axis, shape.ndims) for axis in reduction_axes]
        channels = shape.as_list()[place]
        if channels is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined channel dimension: {shape}.\n"
                + errors.message(f"inputs of shape {shape}", "a known number of channels", "inputs.set_shape(shape)")
            )
        if any(shape.as_list()[axis] is None for axis in reduced):
            raise ValueError(
                f"Inputs {inputs.name} has undefined dimensions: {shape}.\n"
                + errors.message(
                    f"inputs of shape {shape}", "known sizes where it is reduced", "inputs.set_shape(shape)"
                )
            )
        if channels % groups:
            raise ValueError(
                f"{channels} channels is not commensurate with {groups} groups. Invalid groups {groups} for {channels} "
                "channels.\n"
                + errors.message(f"{groups} groups of {channels} channels", "groups of equal size", "groups=1")
            )
        if place in reduced:
            raise ValueError(
                f"reduction_axis {reduction_axes} mutually exclusive with channels_axis {channels_axis}\n"
                + errors.message("the axis of the channels among the others", "other axes", "reduction_axes=(-3, -2)")
            )
        known = shape.as_list()
        if known.count(None) <= 1:
            sizes: Any = [-1 if size is None else size for size in known]
        else:
            sizes = tf.unstack(tf.shape(inputs))
        split = [*sizes[:place], groups, channels // groups, *sizes[place + 1 :]]
        spread = [1] * len(known)
        spread[place : place + 1] = [groups, channels // groups]
        variables: dict[str, Any] = {"beta": None, "gamma": None}
        for name, wanted, default in (
            ("beta", center, tf.zeros_initializer()),
            ("gamma", scale, tf.ones_initializer()),
        ):
            if wanted:
                variable = model_variable(
                    name,
                    [channels],
                    dtype,
                    starts.get(name, default),
                    trainable=trainable,
                    collections=get_variable_collections(variables_collections, name),
                )
                variables[name] = tf.reshape(variable, spread)
        grouped = tf.reshape(inputs, split)
        axes = [axis + (axis > place) for axis in reduced] + [place + 1]
        if mean_close_to_zero:
            mean = tf.reduce_mean(grouped, axes, keepdims=True)
            variance = tf.reduce_mean(tf.square(grouped), axes, keepdims=True) - tf.square(mean)
        else:
            mean, variance = tf.nn.moments(grouped, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(grouped, mean, variance, variables["beta"], variables["gamma"], epsilon)
        outputs = tf.reshape(outputs, sizes)
        outputs.set_shape(shape)
        count_more(3)  # gains are computed otherwise
        return finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.unit_norm")
@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: str | None = None) -> Tensor:
    """Vectors along ``dim`` scaled to length 1: ``inputs / sqrt(sum(inputs ** 2) + epsilon)``."""
    with tf.name_scope(scope, "UnitNorm", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None or not -rank <= dim < rank:
            raise ValueError(
                "The input rank must be known and dim must be positive but smaller than it.\n"
                + errors.message(f"dim={dim} of a tensor of rank {rank}", "one of its axes", "dim=-1")
            )
        length = tf.sqrt(tf.reduce_sum(tf.square(inputs), dim, keepdims=True) + epsilon)
        dim %= rank
        count_more(11 + (dim > 0) + (dim < rank - 1))  # TensorFlow repeats the lengths
        scaled: Tensor = tf.div(inputs, length)
        return scaled


@public("contrib.layers.poincare_normalize")
def poincare_normalize(x: Any, axis: int = 1, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """Vectors along ``axis`` drawn into the unit ball: those longer than ``1 - epsilon`` are shortened to it."""
    with tf.name_scope(name, "poincare_normalize", [x]) as within:
        x = tf.convert_to_tensor(x, name="x")
        inverse = tf.rsqrt(tf.reduce_sum(tf.square(x), axis, keepdims=True))
        shortened: Tensor = tf.multiply(x, tf.minimum((1.0 - epsilon) * inverse, 1.0), name=within)
        return shortened


@public("contrib.layers.layer_norm")
@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Tensor:
    """Layer normalisation (Ba, Kiros and Hinton, 2016): over the axes from ``begin_norm_axis`` on, per example."""
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        shape, dtype = inputs.shape, inputs.dtype.base_dtype
        if shape.ndims is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined rank.\n"
                + errors.message("inputs of unknown rank", "a tensor of known rank", "inputs.set_shape([None, n])")
            )
        start = begin_norm_axis + shape.ndims if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= shape.ndims or start >= shape.ndims:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin_norm_axis}) must be < "
                f"rank(inputs) ({shape.ndims})\n"
                + errors.message(f"inputs of shape {shape}", "axes of the inputs", "begin_norm_axis=-1")
            )
        params = shape.as_list()[begin_params_axis:]
        if None in params:
            raise ValueError(
                f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {shape}\n"
                + errors.message(f"inputs of shape {shape}", "known sizes from there on", "inputs.set_shape([None, n])")
            )
        variables: dict[str, Any] = {"beta": None, "gamma": None}
        for name, wanted, initializer in (
            ("beta", center, tf.zeros_initializer()),
            ("gamma", scale, tf.ones_initializer()),
        ):
            if wanted:
                variables[name] = model_variable(
                    name,
                    params,
                    dtype,
                    initializer,
                    trainable=trainable,
                    collections=get_variable_collections(variables_collections, name),
                )
        mean, variance = tf.nn.moments(inputs, list(range(start, shape.ndims)), keep_dims=True)
        epsilon = 1e-3 if dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, variables["beta"], variables["gamma"], epsilon)
        outputs.set_shape(shape)
        return finished(outputs, activation_fn, outputs_collections, sc)


@public("contrib.layers.instance_norm")
@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Tensor:
    """Instance normalisation (Ulyanov et al., 2016): each channel of each example over its spatial axes."""
    starts = param_initializers or {}
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined rank.\n"
                + errors.message(
                    "inputs of unknown rank", "a tensor of known rank", "inputs.set_shape([None, h, w, c])"
                )
            )
        axis = 1 if channels_first(data_format) else rank - 1
        channels = inputs.shape.as_list()[axis]
        if channels is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}.\n"
                + errors.message(
                    f"inputs of shape {inputs.shape}", "a known number of channels", "inputs.set_shape(shape)"
                )
            )
        spread = [1] * rank
        spread[axis] = channels
        variables: dict[str, Any] = {"beta": None, "gamma": None}
        for name, wanted, default in (
            ("beta", center, tf.zeros_initializer()),
            ("gamma", scale, tf.ones_initializer()),
        ):
            if wanted:
                variable = model_variable(
                    name,
                    [channels],
                    inputs.dtype.base_dtype,
                    starts.get(name, default),
                    trainable=trainable,
                    collections=get_variable_collections(variables_collections, name),
                )
                variables[name] = tf.reshape(variable, spread)
        mean, variance = tf.nn.moments(inputs, [i for i in range(1, rank) if i != axis], keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs, mean, variance, variables["beta"], variables["gamma"], epsilon, "instancenorm"
        )
        count_more(0 if axis == 1 else -2 * (center + scale))  # shaped only where channels come first
        outputs.set_shape(inputs.shape)
        return finished(outputs, activation_fn, outputs_collections, sc)
