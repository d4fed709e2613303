"""The losses, each by its formula; all share weights and reductions with :func:`compute_weighted_loss`."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.losses.collected import add_loss
from anabranch.losses.weighted import (
    Reduction,
    checked_weights,
    compute_weighted_loss,
    quotient,
    squeezed_last,
)
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import shape
from anabranch.ops.array.sources import stop_gradient
from anabranch.ops.math.compare import not_equal
from anabranch.ops.math.public_reduce import reduce_sum
from anabranch.ops.nn.public_losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)

_BY_WEIGHTS = Reduction.SUM_BY_NONZERO_WEIGHTS


def _required(**given: Any) -> None:
    for name, value in given.items():
        if value is None:
            raise ValueError(
                f"{name} must not be None.\n" + errors.message(f"{name}=None", "a tensor", f"pass {name} as a tensor")
            )


def _pair(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Both in float32, in which TensorFlow computes these losses whatever the dtype, and of one shape."""
    return _of_one_shape(labels, cast(convert_to_tensor(predictions), dtypes.float32))


def _of_one_shape(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Labels in the dtype of predictions, and both of one shape."""
    predictions = convert_to_tensor(predictions)
    if not predictions.dtype.is_floating:
        predictions = cast(predictions, dtypes.float32)
    labels = cast(convert_to_tensor(labels), predictions.dtype.base)
    if not predictions.shape.is_compatible_with(labels.shape):
        raise ValueError(
            f"Shapes {predictions.shape} and {labels.shape} are incompatible\n"
            + errors.message(
                f"labels of shape {labels.shape} for predictions of shape {predictions.shape}",
                "one shape",
                "tf.reshape or tf.squeeze one of them",
            )
        )
    return labels, predictions


@public("losses.absolute_difference")
def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``|predictions - labels|``.

    Args:
        labels: tensor of the shape of the predictions.
        predictions: tensor of any shape.
        weights: a scalar, or a tensor that broadcasts to the losses.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(labels=labels, predictions=predictions)
    with name_scope(scope, "absolute_difference", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = build("Abs", build("Sub", predictions, labels))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.cosine_distance")
def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """``1 - sum(predictions * labels, axis)``, the cosine distance of vectors of length 1.

    Args:
        labels: tensor of the shape of the predictions.
        predictions: tensor of any shape, vectors of length 1 along ``axis``.
        axis: the axis of the vectors, kept with size 1.
        weights: a scalar, or a tensor that broadcasts to the losses.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
        dim: the first name of ``axis``.
    """
    axis = dim if axis is None else axis
    _required(labels=labels, predictions=predictions)
    if axis is None:
        raise ValueError(
            "You must specify 'axis'.\n" + errors.message("axis=None", "the axis of the vectors", "axis=-1")
        )
    with name_scope(scope, "cosine_distance_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        product = reduce_sum(build("Mul", predictions, labels), axis=(axis,), keepdims=True)
        return compute_weighted_loss(build("Sub", 1.0, product), weights, scope, loss_collection, reduction)


@public("losses.hinge_loss")
def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``max(0, 1 - (2 * labels - 1) * logits)``.

    Args:
        labels: zeros and ones, of the shape of the logits.
        logits: tensor of any shape.
        weights: a scalar, or a tensor that broadcasts to the losses.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(labels=labels, logits=logits)
    with name_scope(scope, "hinge_loss", (logits, labels, weights)) as scope:
        labels, logits = _pair(labels, logits)
        signs = build("Sub", build("Mul", 2.0, labels), ones_like(labels))
        losses = build("Relu", build("Sub", ones_like(labels), build("Mul", signs, logits)))
        count_more(-3)  # the ones are the same in TensorFlow
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.huber_loss")
def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Half the squared error up to ``delta``, linear beyond: ``delta * |error| - delta ** 2 / 2``.

    Args:
        labels: tensor of the shape of the predictions.
        predictions: tensor of any shape.
        weights: a scalar, or a tensor that broadcasts to the losses.
        delta: where it becomes linear.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(labels=labels, predictions=predictions)
    with name_scope(scope, "huber_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        error = build("Abs", build("Sub", predictions, labels))
        near = build("Minimum", error, delta)
        beyond = build("Sub", error, near)
        losses = build("AddV2", build("Mul", 0.5, build("Mul", near, near)), build("Mul", delta, beyond))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.log_loss")
def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``-labels * log(predictions + epsilon) - (1 - labels) * log(1 - predictions + epsilon)``.

    Args:
        labels: tensor of the shape of the predictions.
        predictions: probabilities.
        weights: a scalar, or a tensor that broadcasts to the losses.
        epsilon: keeps the logarithms away from 0.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(labels=labels, predictions=predictions)
    with name_scope(scope, "log_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        hit = build("Mul", labels, build("Log", build("AddV2", predictions, epsilon)))
        log_of_complement = build("Log", build("AddV2", build("Sub", 1.0, predictions), epsilon))
        losses = build("Sub", build("Neg", hit), build("Mul", build("Sub", 1.0, labels), log_of_complement))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.mean_squared_error")
def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``(predictions - labels) ** 2``.

    Args:
        labels: tensor of the shape of the predictions.
        predictions: tensor of any shape.
        weights: a scalar, or a tensor that broadcasts to the losses.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.

    Example:
        >>> import anabranch as tf
        >>> loss = tf.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0])
        >>> float(tf.Session().run(loss))
        2.0
    """
    _required(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_squared_error", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = build("SquaredDifference", predictions, labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """Mean over each example's pairs of elements of the squared difference between the pair's errors.

    With errors ``e = predictions - labels`` of one example, the mean of ``(e_i - e_j) ** 2`` over ``i != j``.

    Args:
        labels: tensor of the shape of the predictions.
        predictions: ``[batch, d0, ..., dN]``.
        weights: a scalar, or one for each example: ``[batch, 1, ...]``.
        scope: name of the scope.
        loss_collection: collection to add the loss to.

    Returns:
        A scalar: the weighted losses of the examples, summed.
    """
    _required(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_pairwise_squared_error", (predictions, labels, weights)):
        labels, predictions = _pair(labels, predictions)
        weights = cast(convert_to_tensor(weights), dtypes.float32)
        weights = checked_weights(weights, labels)
        error = build("Sub", predictions, labels)
        rank = error.shape.ndims
        inner = build("Range", 1, build("Rank", error), 1) if rank is None else list(range(1, rank))
        squares = reduce_sum(build("Mul", error, error), inner, keepdims=True)
        total = reduce_sum(error, inner, keepdims=True)
        ones = build("Mul", ones_like(error), cast(not_equal(weights, 0.0), error.dtype.base))
        count = reduce_sum(ones, inner, keepdims=True)
        less = build("Maximum", build("Sub", count, 1.0), 0.0)
        # sum over i != j of (e_i - e_j) ** 2 is 2 n sum(e ** 2) - 2 sum(e) ** 2; over n (n - 1) pairs
        first = quotient(squares, less)
        second = quotient(build("Mul", total, total), build("Mul", count, less))
        terms = build("Mul", 2.0, build("Sub", first, second))
        weighted = build("Mul", terms, cast(weights, terms.dtype.base))
        loss: Tensor = reduce_sum(weighted, name="value")
        count_more(26)  # TensorFlow checks the weights, and counts pairs anew
        add_loss(loss, loss_collection)
        return loss


@public("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Cross entropy of independent classes.

    Args:
        multi_class_labels: ``[batch, classes]`` in [0, 1].
        logits: ``[batch, classes]``.
        weights: a scalar, or a tensor that broadcasts to the losses.
        label_smoothing: moves labels this far towards 1/2.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(multi_class_labels=multi_class_labels, logits=logits)
    with name_scope(scope, "sigmoid_cross_entropy_loss", (logits, multi_class_labels, weights)) as scope:
        labels, logits = _of_one_shape(multi_class_labels, logits)
        if not (isinstance(label_smoothing, (int, float)) and label_smoothing <= 0):
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.softmax_cross_entropy")
def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Cross entropy of classes that exclude each other. No gradient flows into the labels.

    Args:
        onehot_labels: ``[batch, classes]``.
        logits: ``[batch, classes]``.
        weights: a scalar, or one for each example: ``[batch]`` or ``[batch, 1]``.
        label_smoothing: moves labels this far towards ``1 / classes``.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(onehot_labels=onehot_labels, logits=logits)
    with name_scope(scope, "softmax_cross_entropy_loss", (logits, onehot_labels, weights)) as scope:
        labels, logits = _of_one_shape(onehot_labels, logits)
        if not (isinstance(label_smoothing, (int, float)) and label_smoothing <= 0):
            classes = cast(shape(labels)[-1], logits.dtype.base)
            labels = labels * (1 - label_smoothing) + label_smoothing / classes
        labels = stop_gradient(labels, name="labels_stop_gradient")
        losses = softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        count_more(not hasattr(weights, "graph"))  # twice in TensorFlow
        weights = squeezed_last(convert_to_tensor(weights), losses)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


@public("losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Cross entropy of classes that exclude each other, by their numbers.

    Args:
        labels: integers ``[d0, ..., dN]`` in ``[0, classes)``; a last axis of size 1 is taken off.
        logits: ``[d0, ..., dN, classes]``.
        weights: a scalar, or a tensor that broadcasts to the labels; a last axis of size 1 is taken off.
        scope: name of the scope.
        loss_collection: collection to add the loss to.
        reduction: a member of `Reduction`.
    """
    _required(labels=labels, logits=logits)
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", (logits, labels, weights)) as scope:
        count_more(not hasattr(weights, "graph"))  # twice in TensorFlow
        labels, logits, weights = (convert_to_tensor(item) for item in (labels, logits, weights))
        if labels.shape.ndims is None or labels.shape.ndims == logits.shape.ndims:
            per_class = reduce_sum(logits, -1)
            labels = squeezed_last(labels, per_class)
        losses = sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        count_more(-1)
        weights = squeezed_last(weights, losses)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)
