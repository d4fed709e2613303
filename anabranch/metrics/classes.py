"""Metrics of classes: the confusion matrix, intersection over union, accuracy by class."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.metrics.state import Pair, finished, matched, metric_variable, ratio, read, spread_weights
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import reshape
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.linalg.diagonals import matrix_diag_part
from anabranch.ops.math.compare import equal
from anabranch.ops.math.public_assert import assert_less, assert_non_negative
from anabranch.ops.math.public_reduce import reduce_max, reduce_mean, reduce_sum
from anabranch.variables.scope import variable_scope


@public("confusion_matrix", "math.confusion_matrix")
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """How often each class is predicted for each label: ``[classes, classes]``, labels in rows.

    Args:
        labels: class numbers ``[n]``.
        predictions: class numbers ``[n]``.
        num_classes: number of classes; one more than the largest number if None.
        dtype: dtype of the counts.
        name: name of the scope.
        weights: None, or ``[n]``: what each example counts.
    """
    with name_scope(name, "confusion_matrix", (predictions, labels, num_classes, weights)):
        labels, predictions = matched(labels, predictions, dtypes.int64)
        labels = _checked(labels, assert_non_negative(labels, message="`labels` contains negative values"))
        predictions = _checked(
            predictions, assert_non_negative(predictions, message="`predictions` contains negative values")
        )
        if num_classes is None:
            number = build("AddV2", build("Maximum", reduce_max(predictions), reduce_max(labels)), 1)
        else:
            number = cast(convert_to_tensor(num_classes), dtypes.int64)
            labels = _checked(labels, assert_less(labels, number, message="`labels` out of bound"))
            predictions = _checked(predictions, assert_less(predictions, number, message="`predictions` out of bound"))
        places = build("AddV2", build("Mul", labels, number), predictions)
        values = ones_like(places, dtype=dtype) if weights is None else cast(convert_to_tensor(weights), dtype)
        counts = build("UnsortedSegmentSum", reshape(values, [-1]), reshape(places, [-1]), build("Mul", number, number))
        known = num_classes if isinstance(num_classes, int) else None
        size = [known, known] if known else build("Pack", [number, number], axis=0)
        matrix: Tensor = reshape(counts, size, name="SparseTensorDenseAdd")  # TensorFlow's name, which programs fetch
        count_more(-4)  # TensorFlow adds a sparse tensor
        return matrix


def _checked(item: Any, check: Any) -> Any:
    """Class numbers that are there once a check has passed."""
    return item if check is None else with_dependencies([check], item)


def accumulated(labels: Any, predictions: Any, num_classes: int, weights: Any = None) -> Pair:
    """The confusion matrix of all batches so far, a variable ``[num_classes, num_classes]``, and its update."""
    labels, predictions = (reshape(item, [-1]) for item in matched(labels, predictions, dtypes.int64))
    if weights is not None:
        weights = reshape(cast(convert_to_tensor(weights), dtypes.float64), [-1])
    matrix = metric_variable([num_classes, num_classes], dtypes.float64, "total_confusion_matrix")
    current = confusion_matrix(labels, predictions, num_classes, dtypes.float64, weights=weights)
    return matrix, convert_to_tensor(matrix.assign_add(current))  # gives the counts, as TensorFlow's does


@public("metrics.mean_iou")
def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean over classes of intersection over union: ``tp / (tp + fp + fn)``, of the classes that occur.

    Args:
        labels: class numbers.
        predictions: class numbers of the same shape.
        num_classes: number of classes.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "mean_iou", (predictions, labels, weights)):
        matrix, update = accumulated(labels, predictions, num_classes, weights)
        flat = convert_to_tensor(predictions).shape.ndims == 1
        count_more(8 + 4 * (not flat))  # casts, and shapes that TensorFlow needs

        def of(counts: Any, op_name: str) -> Tensor:
            hits = matrix_diag_part(counts)
            union = build("Sub", build("AddV2", reduce_sum(counts, 0), reduce_sum(counts, 1)), hits)
            occurring = reduce_sum(cast(build("Greater", union, 0.0), dtypes.float32))
            return ratio(reduce_sum(cast(ratio(hits, union), dtypes.float32)), occurring, op_name)

        return finished(of(read(matrix), "mean_iou"), update, metrics_collections, updates_collections)


@public("metrics.mean_per_class_accuracy")
def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean over classes of the share of its labels that are predicted.

    Args:
        labels: class numbers.
        predictions: class numbers of the same shape.
        num_classes: number of classes.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the share of each
        class, of shape ``[num_classes]``.
    """
    with variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels, predictions = (reshape(item, [-1]) for item in matched(labels, predictions, dtypes.int64))
        count_more(-1 - 2 * (weights is not None))  # labels that are flat already stay
        total = metric_variable([num_classes], dtypes.float32, "total")
        count = metric_variable([num_classes], dtypes.float32, "count")
        ones = ones_like(labels, dtype=dtypes.float32)
        right = cast(equal(predictions, labels), dtypes.float32)
        if weights is not None:
            weights = spread_weights(reshape(convert_to_tensor(weights), [-1]), labels)
            ones, right = build("Mul", ones, weights), build("Mul", right, weights)
        all_labels = convert_to_tensor(total.assign_add(build("UnsortedSegmentSum", ones, labels, num_classes)))
        all_right = convert_to_tensor(count.assign_add(build("UnsortedSegmentSum", right, labels, num_classes)))
        value = reduce_mean(ratio(read(count), read(total)), name="mean_accuracy")
        update = ratio(all_right, all_labels, "update_op")
        return finished(value, update, metrics_collections, updates_collections)
