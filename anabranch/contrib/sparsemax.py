"""``tf.contrib.sparsemax``: probabilities of which most are zero, and their loss (Martins and Astudillo, 2016)."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract import api
from anabranch.core.contract.api import public


@public("contrib.sparsemax.sparsemax")
def sparsemax(logits: Any, name: str | None = None) -> Any:
    """The nearest probabilities to each row, by their Euclidean distance: NaN in a row makes all of it NaN.

    Args:
        logits: ``[batch, classes]``.
        name: of the operations.

    >>> with tf.Session() as session:
    ...     print(session.run(tf.contrib.sparsemax.sparsemax([[1.0, 0.8, -3.0]])).round(2))
    [[0.6 0.4 0. ]]
    """
    with tf.name_scope(name, "sparsemax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        classes = tf.shape(logits)[1]
        ordered, _ = tf.nn.top_k(logits, k=classes)
        sums = tf.cumsum(ordered, axis=1)
        ranks = tf.range(1, tf.cast(classes, logits.dtype) + 1, dtype=logits.dtype)
        kept = 1 + ranks * ordered > sums
        count = tf.reduce_sum(tf.cast(kept, tf.int32), axis=1)
        last = tf.maximum(count, 1) - 1
        rows = tf.range(tf.shape(logits)[0])
        threshold = (tf.gather_nd(sums, tf.stack([rows, last], 1)) - 1) / tf.cast(count, logits.dtype)
        values = tf.maximum(tf.cast(0, logits.dtype), logits - threshold[:, None])
        broken = tf.equal(count, 0) | tf.is_nan(sums[:, -1])  # of a row with NaN or infinity no rank is kept
        return tf.where(broken, tf.fill(tf.shape(logits), tf.constant(float("nan"), logits.dtype)), values)


@public("contrib.sparsemax.sparsemax_loss")
def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: str | None = None) -> Any:
    """The loss of each row, ``[batch]``: zero where the probabilities are the labels.

    Args:
        logits: ``[batch, classes]``.
        sparsemax: the probabilities of the logits.
        labels: the right probabilities.
        name: of the operations.
    """
    with tf.name_scope(name, "sparsemax_loss", [logits, sparsemax, labels]):
        logits, sparsemax, labels = map(tf.convert_to_tensor, (logits, sparsemax, labels))
        zeros = tf.zeros_like(logits)
        own = tf.where((sparsemax > 0) | tf.is_nan(sparsemax), sparsemax * (logits - 0.5 * sparsemax), zeros)
        free = tf.equal(labels, 0) & tf.is_inf(logits)  # zero times infinity costs nothing
        return tf.reduce_sum(own + tf.where(free, zeros, labels * (0.5 * labels - logits)), axis=1)


__getattr__, __dir__ = api.module_attributes("contrib.sparsemax")
