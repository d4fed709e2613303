"""Ops that round a tensor to a few bits of a range, which is fixed, the last one seen, or an average of those seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.train.moving_averages import assign_moving_average


def FixedQuantize(inputs: Any, init_min: float = -6.0, init_max: float = 6.0, scope: str | None = None) -> Any:
    """The tensor, rounded to 8 bits of a range that stays the same.

    Args:
        inputs: a tensor.
        init_min: lower end of the range.
        init_max: upper end of the range.
        scope: name of the operations.
    """
    with tf.name_scope(scope, "FixedQuantize", values=[inputs]):
        return tf.fake_quant_with_min_max_args(inputs, min=init_min, max=init_max)


def _extreme(reduce: Callable[..., Any], inputs: Any, per_channel: bool, name: str) -> Any:
    if not per_channel:
        return reduce(inputs, name=name)
    rank = inputs.shape.ndims
    return inputs if rank == 1 else reduce(inputs, axis=list(range(rank - 1)), name=name)


def _quantized(
    inputs: Any,
    assign: Callable[[Any, Any, str], Any],
    names: tuple[str, str],
    per_channel: bool,
    init_min: float,
    init_max: float,
    vars_collection: str | None,
    name_prefix: str,
    reuse: Any,
    is_training: bool,
    num_bits: int,
    narrow_range: bool,
    symmetric: bool,
) -> Any:
    with tf.variable_scope(None, default_name=name_prefix, values=[inputs], reuse=reuse) as scope:
        scope.set_partitioner(None)
        if per_channel and inputs.shape.ndims not in (1, 2, 4):
            raise ValueError(
                f"Expected 1D, 2D or 4D input, was: {inputs.shape} in  scope: {name_prefix}\n"
                + errors.message(f"shape {inputs.shape}", "a tensor of 1, 2 or 4 axes", "per_channel=False")
            )
        collections = {tf.GraphKeys.GLOBAL_VARIABLES, *([vars_collection] if vars_collection else [])}
        low, high = (
            tf.get_variable(
                name,
                shape=[inputs.shape[-1]] if per_channel else [],
                initializer=tf.constant_initializer(start),
                collections=sorted(collections),
                trainable=False,
            )
            for name, start in (("min", init_min), ("max", init_max))
        )
        least: Any = low
        most: Any = high
        if is_training:
            smallest = _extreme(tf.reduce_min, inputs, per_channel, "BatchMin")
            largest = _extreme(tf.reduce_max, inputs, per_channel, "BatchMax")
            if symmetric:
                # With all values of a code there is one more below zero than above.
                ratio = -1 if narrow_range else -((1 << num_bits) - 2) / (1 << num_bits)
                smallest, largest = tf.minimum(smallest, largest / ratio), tf.maximum(largest, smallest * ratio)
            else:
                smallest, largest = tf.minimum(smallest, 0.0), tf.maximum(largest, 0.0)
            least, most = assign(low, smallest, names[0]), assign(high, largest, names[1])
        quantize = tf.fake_quant_with_min_max_vars_per_channel if per_channel else tf.fake_quant_with_min_max_vars
        return quantize(inputs, least, most, num_bits=num_bits, narrow_range=narrow_range)


def LastValueQuantize(
    inputs: Any,
    per_channel: bool = False,
    init_min: float = -6.0,
    init_max: float = 6.0,
    vars_collection: str | None = None,
    name_prefix: str = "LastValueQuant",
    reuse: Any = None,
    is_training: bool = True,
    num_bits: int = 8,
    narrow_range: bool = False,
    symmetric: bool = False,
) -> Any:
    """The tensor, rounded to a range that variables keep: while training, the range of the tensor itself.

    Args:
        inputs: a tensor.
        per_channel: a range for each index of the last axis.
        init_min: lower end of the range at first.
        init_max: upper end of the range at first.
        vars_collection: collection of the variables, beside the global ones.
        name_prefix: variable scope.
        reuse: use the variables of before.
        is_training: keep the range of the tensor.
        num_bits: number of bits.
        narrow_range: leave the lowest code out.
        symmetric: make the range symmetric to zero.

    Raises:
        ValueError: ``per_channel`` of a tensor with another number of axes than 1, 2 or 4.
    """
    return _quantized(
        inputs,
        lambda variable, value, name: tf.assign(variable, value, name=name),
        ("AssignMinLast", "AssignMaxLast"),
        per_channel,
        init_min,
        init_max,
        vars_collection,
        name_prefix,
        reuse,
        is_training,
        num_bits,
        narrow_range,
        symmetric,
    )


def MovingAvgQuantize(
    inputs: Any,
    per_channel: bool = False,
    init_min: float = -6.0,
    init_max: float = 6.0,
    ema_decay: float = 0.999,
    vars_collection: str | None = tf.GraphKeys.MOVING_AVERAGE_VARIABLES,
    name_prefix: str = "MovingAvgQuantize",
    reuse: Any = None,
    is_training: bool = True,
    num_bits: int = 8,
    narrow_range: bool = False,
    symmetric: bool = False,
) -> Any:
    """The tensor, rounded to a range that variables keep: while training, an average of ranges seen.

    Args:
        inputs: a tensor.
        per_channel: a range for each index of the last axis.
        init_min: lower end of the range at first.
        init_max: upper end of the range at first.
        ema_decay: weight of what was seen before; the averages are free of bias.
        vars_collection: collection of the variables, beside the global ones.
        name_prefix: variable scope.
        reuse: use the variables of before.
        is_training: change the range.
        num_bits: number of bits.
        narrow_range: leave the lowest code out.
        symmetric: make the range symmetric to zero.

    Raises:
        ValueError: ``per_channel`` of a tensor with another number of axes than 1, 2 or 4.
    """

    def assign(variable: Any, value: Any, name: str) -> Any:
        return assign_moving_average(variable, value, ema_decay, name=name)

    return _quantized(
        inputs,
        assign,
        ("AssignMinEma", "AssignMaxEma"),
        per_channel,
        init_min,
        init_max,
        vars_collection,
        name_prefix,
        reuse,
        is_training,
        num_bits,
        narrow_range,
        symmetric,
    )
