"""Means of values over batches, and metrics that are such means."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import control_dependencies
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.metrics.state import Pair, finished, matched, metric_variable, ratio, read, spread_weights
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import size
from anabranch.ops.math.compare import equal
from anabranch.ops.math.public_reduce import reduce_sum
from anabranch.variables.scope import variable_scope


@public("metrics.mean")
def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of all values.

    Args:
        values: tensor of any shape.
        weights: None, or a tensor of the rank of the values whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "mean", (values, weights)):
        values = cast(convert_to_tensor(values), dtypes.float32)
        total, count = metric_variable([], dtypes.float32, "total"), metric_variable([], dtypes.float32, "count")
        if weights is None:
            number = cast(size(values), dtypes.float32)
        else:
            weights = spread_weights(weights, values)
            values, number = build("Mul", values, weights), reduce_sum(weights)
        added = total.assign_add(reduce_sum(values))
        with control_dependencies([values]):
            counted = count.assign_add(number)
        count_more(4)  # a count of at least 0, for each of the two
        value = ratio(read(total), read(count), "value")
        return finished(value, ratio(added, counted, "update_op"), metrics_collections, updates_collections)


@public("metrics.mean_tensor")
def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of each element over all batches.

    Args:
        values: tensor of a known shape, the same for each batch.
        weights: None, or a tensor of the rank of the values whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "mean", (values, weights)):
        values = cast(convert_to_tensor(values), dtypes.float32)
        total = metric_variable(values.shape, dtypes.float32, "total_tensor")
        count = metric_variable(values.shape, dtypes.float32, "count_tensor")
        number = ones_like(values)
        if weights is not None:
            number = spread_weights(weights, values)
            values = build("Mul", values, number)
        added = total.assign_add(values)
        with control_dependencies([values]):
            counted = count.assign_add(number)
        count_more(4)  # a count of at least 0, for each of the two
        value = ratio(read(total), read(count), "value")
        return finished(value, ratio(added, counted, "update_op"), metrics_collections, updates_collections)


@public("metrics.accuracy")
def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often predictions equal labels.

    Args:
        labels: the true values.
        predictions: tensor of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    labels, predictions = matched(labels, predictions)
    values = cast(equal(cast(predictions, labels.dtype.base), labels), dtypes.float32)
    return mean(values, weights, metrics_collections, updates_collections, name or "accuracy")


@public("metrics.mean_absolute_error")
def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of ``|labels - predictions|``.

    Args:
        labels: the true values.
        predictions: tensor of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    labels, predictions = matched(labels, predictions, dtypes.float32)
    values = build("Abs", build("Sub", predictions, labels))
    return mean(values, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


@public("metrics.mean_squared_error")
def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of ``(labels - predictions) ** 2``.

    Args:
        labels: the true values.
        predictions: tensor of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    labels, predictions = matched(labels, predictions, dtypes.float32)
    values = build("SquaredDifference", labels, predictions)
    return mean(values, weights, metrics_collections, updates_collections, name or "mean_squared_error")


@public("metrics.root_mean_squared_error")
def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The root of the mean of ``(labels - predictions) ** 2``.

    Args:
        labels: the true values.
        predictions: tensor of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    labels, predictions = matched(labels, predictions, dtypes.float32)
    values = build("SquaredDifference", labels, predictions)
    value, update = mean(values, weights, None, None, name or "root_mean_squared_error")
    value, update = build("Sqrt", value), build("Sqrt", update)
    return finished(value, update, metrics_collections, updates_collections)


@public("metrics.mean_relative_error")
def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of ``|labels - predictions| / normalizer``, 0 where the normalizer is 0.

    Args:
        labels: the true values.
        predictions: tensor of the same shape.
        normalizer: tensor of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    labels, predictions = matched(labels, predictions, dtypes.float32)
    normalizer, predictions = matched(normalizer, predictions, dtypes.float32)
    count_more(4)  # zeros where the normalizer is 0 are selected
    values = ratio(build("Abs", build("Sub", labels, predictions)), normalizer)
    return mean(values, weights, metrics_collections, updates_collections, name or "mean_relative_error")


@public("metrics.mean_cosine_distance")
def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """One minus the mean of ``sum(labels * predictions, dim)``, for vectors of length 1.

    Args:
        labels: the true values.
        predictions: tensor of the same shape.
        dim: the axis of the vectors.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    labels, predictions = matched(labels, predictions, dtypes.float32)
    values = reduce_sum(build("Mul", predictions, labels), axis=[dim], keepdims=True)
    value, update = mean(values, weights, None, None, name or "mean_cosine_distance")
    value, update = build("Sub", 1.0, value), build("Sub", 1.0, update)
    return finished(value, update, metrics_collections, updates_collections)


@public("metrics.percentage_below")
def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of values that are less than a threshold.

    Args:
        values: tensor of any shape.
        threshold: a number.
        weights: None, or a tensor of the rank of the values whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    values = convert_to_tensor(values)
    values = cast(build("Less", values, convert_to_tensor(threshold, values.dtype.base)), dtypes.float32)
    return mean(values, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")
