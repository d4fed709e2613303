"""Metrics of one batch, without variables."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


@public("contrib.metrics.accuracy")
def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Tensor:
    """The share of predictions that equal their labels, in one batch.

    Raises:
        ValueError: dtypes differ, or are not bool, integers or strings.
    """
    predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ValueError(
            f"Labels should have bool, integer, or string dtype, not {labels.dtype}\n"
            + errors.message(f"labels of {labels.dtype}", "class numbers", "tf.cast(labels, tf.int32)")
        )
    predictions.shape.assert_is_compatible_with(labels.shape)
    if labels.dtype != predictions.dtype:
        raise ValueError(
            f"Dtypes of predictions and labels should match. Given: predictions ({predictions.dtype}) and labels "
            f"({labels.dtype})\n"
            + errors.message(
                f"{predictions.dtype} and {labels.dtype}", "one dtype", "tf.cast(predictions, labels.dtype)"
            )
        )
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        right = tf.to_float(tf.equal(predictions, labels))
        if weights is None:
            share: Tensor = tf.reduce_mean(right)
            return share
        weights = tf.to_float(weights)
        share = tf.div(tf.reduce_sum(right * weights), tf.reduce_sum(tf.ones_like(right) * weights))
        return share


public("contrib.metrics.confusion_matrix")(tf.confusion_matrix)
