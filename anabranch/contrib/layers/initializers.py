"""Initial values of weights whose variance fits the number of inputs and outputs (Glorot and Bengio, 2010)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes


@public("contrib.layers.variance_scaling_initializer")
def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: Any = tf.float32
) -> Callable[..., Tensor]:
    """An initializer with variance ``factor / n``, n being the number of inputs, of outputs, or their mean.

    Args:
        factor: 2 for rectified units (He et al., 2015), 1 for linear ones.
        mode: ``FAN_IN``, ``FAN_OUT`` or ``FAN_AVG``.
        uniform: draw from a uniform distribution, not a truncated normal one.
        seed: seed of the op.
        dtype: a floating dtype.
    """
    if not dtypes.as_dtype(dtype).is_floating or mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(
            "Cannot create initializer for non-floating point type, or Unknown mode\n"
            + errors.message(f"dtype={dtype}, mode={mode!r}", "floats; FAN_IN, FAN_OUT or FAN_AVG", "mode='FAN_AVG'")
        )

    def initializer(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Tensor:
        if not dtypes.as_dtype(dtype).is_floating:
            raise TypeError(
                "Cannot create initializer for non-floating point type.\n"
                + errors.message(
                    f"a variable of {dtypes.as_dtype(dtype).name}", "floats", "tf.cast(inputs, tf.float32)"
                )
            )
        sizes = [float(size) for size in (shape if partition_info is None else partition_info.full_shape)]
        field = math.prod(sizes[:-2])
        fan_in = (sizes[-2] if len(sizes) > 1 else sizes[-1] if sizes else 1.0) * field
        fan_out = (sizes[-1] if sizes else 1.0) * field
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            drawn: Tensor = tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        else:  # cutting at two deviations takes off about a quarter of the variance
            drawn = tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / n), dtype, seed=seed)
        return drawn

    return initializer


@public("contrib.layers.xavier_initializer", "contrib.layers.xavier_initializer_conv2d")
def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32) -> Callable[..., Tensor]:
    """Glorot and Bengio's initializer (2010): variance ``2 / (inputs + outputs)``."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)
