"""``tf.contrib.training.resample_at_rate`` and ``weighted_resample``: rows left out, or taken several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.train.moving_averages import assign_moving_average


@public("contrib.training.resample_at_rate")
def resample_at_rate(
    inputs: Sequence[Any], rates: Any, scope: str | None = None, seed: int | None = None, back_prop: bool = False
) -> list[Any]:
    """Rows of a batch, each as often as a Poisson number of a rate of its own says.

    Args:
        inputs: tensors ``[batch, ...]``.
        rates: how often each row comes on average ``[batch]``.
        scope: name of the operations.
        seed: of the drawing.
        back_prop: whether gradients flow to the rates (there are none through what is drawn).

    Returns:
        A tensor like each input, with as many rows as were drawn.
    """
    with tf.name_scope(scope, "resample_at_rate", [*inputs, rates]):
        rates = tf.convert_to_tensor(rates, name="rates")
        counts = tf.cast(tf.random_poisson(rates, (), rates.dtype, seed=seed), tf.int32)
        rows = tf.repeat(tf.range(tf.shape(counts)[0]), counts)
        if not back_prop:
            rows = tf.stop_gradient(rows)
        return [tf.gather(each, rows) for each in inputs]


@public("contrib.training.weighted_resample")
def weighted_resample(
    inputs: Sequence[Any],
    weights: Any,
    overall_rate: Any,
    scope: str | None = None,
    mean_decay: float = 0.999,
    seed: int | None = None,
) -> tuple[list[Any], Any]:
    """Rows of a batch, drawn in proportion to weights; see :func:`resample_at_rate`.

    The mean of the weights is estimated by a moving average over batches, a local variable.

    Args:
        inputs: tensors ``[batch, ...]``.
        weights: of the rows ``[batch]``.
        overall_rate: how often a row of mean weight comes on average.
        scope: name of the operations, and of the variable's scope.
        mean_decay: how slowly the estimate of the mean moves.
        seed: of the drawing.

    Returns:
        A tensor like each input, and the rates of the rows that were drawn.
    """
    with tf.name_scope(scope, "weighted_resample", [*inputs, weights]) as within:
        with tf.variable_scope(scope, "estimate_mean"):
            estimate = tf.get_local_variable(
                "estimated_mean", initializer=tf.cast(0, weights.dtype), dtype=weights.dtype
            )
            mean = assign_moving_average(estimate, tf.reduce_mean(weights), mean_decay)
        rates = weights * overall_rate / mean
        drawn = resample_at_rate([rates, *inputs], rates, scope=within, seed=seed)
        return drawn[1:], drawn[0]
