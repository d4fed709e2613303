"""The losses of ``tf.losses`` with predictions before labels. Each is the weighted mean over weights that are not 0."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more

for _name in ("get_losses", "get_regularization_losses"):
    public(f"contrib.losses.{_name}")(getattr(tf.losses, _name))


@public("contrib.losses.add_loss")
@add_arg_scope
def add_loss(loss: Any, loss_collection: str | None = tf.GraphKeys.LOSSES) -> None:
    """Add a loss to the collection; with None, which an argument scope may say for all losses in it, to none."""
    tf.losses.add_loss(loss, loss_collection)


@public("contrib.losses.get_total_loss")
def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Tensor:
    """Sum of the collected losses."""
    total: Tensor = tf.losses.get_total_loss(add_regularization_losses, name)
    return total


@public("contrib.losses.compute_weighted_loss")
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """The weighted mean of losses over weights that are not 0, added to the collection of losses.

    Args:
        losses: ``[batch, d1, ..., dn]``.
        weights: a number, or ``[batch, d1, ..., dk]``: the first axes are those of the losses, whose other axes share
            a weight. A last axis of 1 does not count.
        scope: name of the operations.
    """
    with tf.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = tf.convert_to_tensor(losses)
        dtype = losses.dtype.base
        losses, weights = tf.to_float(losses), tf.to_float(tf.convert_to_tensor(weights))
        for name, tensor in (("losses", losses), ("weights", weights)):
            if tensor.shape.ndims is None:
                raise ValueError(
                    f"{name}.get_shape().ndims cannot be None\n"
                    + errors.message(f"{name} of unknown rank", "a tensor of known rank", "tensor.set_shape([None, n])")
                )
        if weights.shape.ndims > 1 and weights.shape[-1].is_compatible_with(1):
            weights = tf.squeeze(weights, [-1])
        if weights.shape.ndims > losses.shape.ndims:
            raise ValueError(
                f"weights of rank {weights.shape.ndims} for losses of rank {losses.shape.ndims}\n"
                + errors.message(
                    f"weights of shape {weights.shape} for losses of shape {losses.shape}",
                    "a weight for each of the first axes of the losses",
                    "weights of shape [batch]",
                )
            )
        count_more(18)  # the weights that are not 0, counted otherwise
        shared = list(range(weights.shape.ndims, losses.shape.ndims))
        total = tf.reduce_sum(tf.reduce_sum(losses, axis=shared) * weights)
        counted = tf.to_float(tf.not_equal(weights, 0.0))
        if weights.shape.ndims == 0:
            present = counted * tf.to_float(tf.size(losses))
        else:
            present = tf.reduce_sum(counted) * tf.to_float(tf.reduce_prod(tf.shape(losses)[weights.shape.ndims :]))
        loss: Tensor = tf.cast(tf.div_no_nan(total, present, name="value"), dtype)
        add_loss(loss)
        return loss


def _weighted(name: str, scope: str | None, weights: Any, of: str, *args: Any, **kwargs: Any) -> Tensor:
    """The weighted mean of what a function of ``tf.losses`` gives for each element."""
    with tf.name_scope(scope, name, [*args[:2], weights]) as entered:
        none = tf.losses.Reduction.NONE
        losses = getattr(tf.losses, of)(*args, loss_collection=None, reduction=none, **kwargs)
        return compute_weighted_loss(losses, weights, scope=entered)


@public("contrib.losses.absolute_difference")
def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """``|predictions - labels|``."""
    return _weighted("absolute_difference", scope, weights, "absolute_difference", labels, predictions)


@public("contrib.losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: Any = 0, scope: str | None = None
) -> Tensor:
    """Cross entropy of independent classes."""
    return _weighted(
        "sigmoid_cross_entropy_loss",
        scope,
        weights,
        "sigmoid_cross_entropy",
        multi_class_labels,
        logits,
        label_smoothing=label_smoothing,
    )


@public("contrib.losses.softmax_cross_entropy")
def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: Any = 0, scope: str | None = None
) -> Tensor:
    """Cross entropy of classes that exclude each other."""
    return _weighted(
        "softmax_cross_entropy_loss",
        scope,
        weights,
        "softmax_cross_entropy",
        onehot_labels,
        logits,
        label_smoothing=label_smoothing,
    )


@public("contrib.losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """Cross entropy of class numbers."""
    return _weighted(
        "sparse_softmax_cross_entropy_loss", scope, weights, "sparse_softmax_cross_entropy", labels, logits
    )


@public("contrib.losses.log_loss")
def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Tensor:
    """``-labels * log(predictions + epsilon) - (1 - labels) * log(1 - predictions + epsilon)``."""
    return _weighted("log_loss", scope, weights, "log_loss", labels, predictions, epsilon=epsilon)


@public("contrib.losses.hinge_loss")
def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Tensor:
    """``max(0, 1 - (2 * labels - 1) * logits)`` of each element: not reduced, and not collected."""
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        logits = tf.convert_to_tensor(logits)
        labels = tf.cast(labels, tf.float32)
        logits.shape.assert_is_compatible_with(labels.shape)
        losses: Tensor = tf.nn.relu(1.0 - (2.0 * labels - 1.0) * logits)
        return losses


@public("contrib.losses.mean_squared_error")
def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """``(predictions - labels) ** 2``."""
    return _weighted("mean_squared_error", scope, weights, "mean_squared_error", labels, predictions)


@public("contrib.losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """Mean over each example's pairs of elements of the squared difference between the pair's errors.

    Pairs of an element with itself count, too, as version 1.0 counted them.
    """
    with tf.name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        predictions = tf.to_float(predictions)
        labels = tf.to_float(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        weights = tf.to_float(weights)
        error = predictions - labels
        axes = list(range(1, error.shape.ndims))
        if weights.shape.ndims == 1:
            weights = tf.reshape(weights, [-1] + [1] * len(axes))
        present = tf.cast(tf.not_equal(weights, 0.0), tf.float32) * tf.ones_like(error)
        number = tf.reduce_sum(present, axes, keepdims=True)
        squares = tf.reduce_sum(tf.square(error), axes, keepdims=True)
        total = tf.reduce_sum(error, axes, keepdims=True)
        terms = 2.0 * (tf.div_no_nan(squares, number) - tf.div_no_nan(tf.square(total), tf.square(number)))
        loss: Tensor = tf.reduce_sum(terms * weights)
        loss = tf.where(tf.reduce_sum(present) > 0, loss, tf.zeros_like(loss), name="value")
        add_loss(loss)
        return loss


@public("contrib.losses.cosine_distance")
def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """``1 - sum(predictions * labels, axis)``, for vectors of length 1. ``dim`` is the first name of ``axis``."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError(
            "You must specify 'axis'.\n" + errors.message("axis=None", "the axis of the vectors", "axis=-1")
        )
    return _weighted("cosine_distance_loss", scope, weights, "cosine_distance", labels, predictions, axis)
