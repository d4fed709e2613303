"""The loss of sequences of logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.seq2seq.sequence_loss")
def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Weighted cross-entropy of sequences of logits.

    What is summed is divided by what was summed of the weights: by their sum where it is averaged, by the number of
    weights that are not zero where it is summed (as TensorFlow 1.x has it).

    Args:
        logits: ``[batch, time, classes]``.
        targets: int ``[batch, time]``.
        weights: ``[batch, time]``; 0 for padding.
        average_across_timesteps: average over time.
        average_across_batch: average over the batch.
        sum_over_timesteps: sum over time; not together with ``average_across_timesteps``.
        sum_over_batch: sum over the batch; not together with ``average_across_batch``.
        softmax_loss_function: function of ``labels`` ``[batch * time]`` and ``logits`` ``[batch * time, classes]`` in
            place of the sparse cross-entropy.
        name: name of the scope.

    Returns:
        A scalar, ``[batch]``, ``[time]`` or ``[batch, time]``.

    Raises:
        ValueError: ranks differ from these, or a dimension is both averaged and summed.

    Example:
        >>> import anabranch as tf
        >>> loss = tf.contrib.seq2seq.sequence_loss(tf.zeros([2, 3, 4]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
        >>> print(round(float(tf.Session().run(loss)), 4))
        1.3863
    """
    logits, targets, weights = (tf.convert_to_tensor(item) for item in (logits, targets, weights))
    for argument, tensor, form in (
        ("Logits", logits, "[batch_size x sequence_length x logits]"),
        ("Targets", targets, "[batch_size x sequence_length]"),
        ("Weights", weights, "[batch_size x sequence_length]"),
    ):
        if tensor.shape.ndims != (3 if tensor is logits else 2):
            raise ValueError(
                f"{argument} must be a {form} tensor\n"
                + errors.message(f"{argument.lower()} of shape {tensor.shape}", form, "tf.reshape or set_shape")
            )
    for which, both in (
        ("timesteps", average_across_timesteps and sum_over_timesteps),
        ("batch", average_across_batch and sum_over_batch),
    ):
        if both:
            raise ValueError(
                f"average_across_{which} and sum_over_{which} cannot be set to True at same time.\n"
                + errors.message("both", "one of the two arguments", f"average_across_{which}=False")
            )
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        flat_logits = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        losses = function(labels=tf.reshape(targets, [-1]), logits=flat_logits) * tf.reshape(weights, [-1])
        averaged = [axis for axis, on in enumerate((average_across_batch, average_across_timesteps)) if on]
        summed = [axis for axis, on in enumerate((sum_over_batch, sum_over_timesteps)) if on]
        # One of each, or one alone: the average comes first, and nothing is summed beside it.
        axes: list[int] | None = averaged or summed
        if len(axes or ()) == 2:
            axes = None  # of all, in which the losses need no shape
        else:
            losses = tf.reshape(losses, tf.shape(logits)[:2])
            losses.set_shape(logits.shape[:2])
            if not axes:
                return losses
        size = tf.reduce_sum(weights, axes) if averaged else tf.count_nonzero(weights, axes, dtype=losses.dtype)
        return tf.div_no_nan(tf.reduce_sum(losses, axes), size)
