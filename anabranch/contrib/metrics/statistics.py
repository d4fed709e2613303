"""Counts, covariance, correlation, agreement, and all values seen."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.metrics.state import Pair, finished, matched, metric_variable, ratio, read, spread_weights


@public("contrib.metrics.count")
def count(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number (sum of weights) of all values."""
    with tf.variable_scope(name, "count", (values, weights)):
        values = tf.convert_to_tensor(values)
        number = tf.to_float(tf.size(values)) if weights is None else tf.reduce_sum(spread_weights(weights, values))
        total = metric_variable([], tf.float32, "count")
        with tf.control_dependencies([values]):
            update = total.assign_add(number)
        return finished(
            tf.identity(read(total)), tf.convert_to_tensor(update), metrics_collections, updates_collections
        )


@public("contrib.metrics.streaming_covariance")
def streaming_covariance(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The unbiased covariance of predictions and labels, merged batch by batch (Chan et al., 1979).

    It is not a number before there are two values.
    """
    with tf.variable_scope(name, "covariance", (predictions, labels, weights)):
        labels, predictions = matched(labels, predictions, tf.float32)
        number, mean_x, mean_y, moment = (
            metric_variable([], tf.float32, variable_name)
            for variable_name in ("count", "mean_prediction", "mean_label", "comoment")
        )
        spread = tf.ones_like(predictions) if weights is None else spread_weights(weights, predictions)
        batch = tf.reduce_sum(spread)
        batch_x, batch_y = (ratio(tf.reduce_sum(each * spread), batch) for each in (predictions, labels))
        batch_moment = tf.reduce_sum((predictions - batch_x) * (labels - batch_y) * spread)
        before, old_x, old_y, old_moment = (tf.identity(read(each)) for each in (number, mean_x, mean_y, moment))
        total = before + batch
        delta_x, delta_y = batch_x - old_x, batch_y - old_y
        merged = old_moment + batch_moment + delta_x * delta_y * ratio(before * batch, total)
        with tf.control_dependencies([merged]):
            updated = [
                number.assign(total),
                mean_x.assign(old_x + delta_x * ratio(batch, total)),
                mean_y.assign(old_y + delta_y * ratio(batch, total)),
                moment.assign(merged),
            ]

        def of(moment_now: Any, number_now: Any, variable_name: str) -> Any:
            known = moment_now / tf.maximum(number_now - 1.0, 1e-30)
            return tf.where(number_now < 1.5, tf.fill([], float("nan")), known, name=variable_name)

        value = of(read(moment), read(number), "covariance")
        with tf.control_dependencies([tf.convert_to_tensor(each) for each in updated]):
            update = of(tf.identity(merged), total, "update_op")
        return finished(value, update, metrics_collections, updates_collections)


@public("contrib.metrics.streaming_pearson_correlation")
def streaming_pearson_correlation(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """Pearson's correlation of predictions and labels: covariance over the root of the product of variances."""
    with tf.variable_scope(name, "pearson_r", (predictions, labels, weights)):
        labels, predictions = matched(labels, predictions, tf.float32)
        if weights is not None:
            weights = spread_weights(weights, predictions)
        both = streaming_covariance(predictions, labels, weights, name="covariance")
        own = [
            streaming_covariance(each, each, weights, name=op_name)
            for each, op_name in ((predictions, "variance_predictions"), (labels, "variance_labels"))
        ]
        value, update = (both[i] / (tf.sqrt(own[0][i]) * tf.sqrt(own[1][i])) for i in (0, 1))
        return finished(
            tf.identity(value, name="pearson_r"),
            tf.identity(update, name="update_op"),
            metrics_collections,
            updates_collections,
        )


@public("contrib.metrics.cohen_kappa")
def cohen_kappa(
    labels: Any,
    predictions_idx: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """Cohen's kappa: how much more often labels ``[batch]`` and predicted classes agree than by chance.

    Args:
        labels: classes, from 0.
        predictions_idx: predicted classes, like ``labels``.
        num_classes: how many there are, two at least.
        weights: a weight for each label, 1 by default.
        metrics_collections: collections for the value.
        updates_collections: collections for the update.
        name: name of the variable scope.

    Returns:
        Kappa as a float64 scalar, and the op that adds a batch and gives it.

    Raises:
        ValueError: fewer than two classes. InvalidArgumentError: a class outside [0, num_classes).
    """
    if num_classes < 2:
        raise ValueError(
            f"`num_classes` must be >= 2. Found: {num_classes}\n"
            + errors.message(f"{num_classes} classes", "two classes at least", "num_classes=2")
        )
    with tf.variable_scope(name, "cohen_kappa", (labels, predictions_idx, weights)):
        labels, predictions = matched(labels, predictions_idx, tf.int64)
        labels, predictions = tf.reshape(labels, [-1]), tf.reshape(predictions, [-1])
        if weights is not None:
            weights = tf.reshape(tf.convert_to_tensor(weights), [-1])
        dtype = tf.int64 if weights is None or weights.dtype.is_integer else tf.float32
        table = tf.math.confusion_matrix(labels, predictions, num_classes, dtype=dtype, weights=weights)
        counters = [
            (variable, variable.assign_add(counts))
            for variable_name, counts in (
                ("po", tf.matrix_diag_part(table)),
                ("pe_row", tf.reduce_sum(table, 0)),
                ("pe_col", tf.reduce_sum(table, 1)),
            )
            for variable in [metric_variable([num_classes], dtype, variable_name)]
        ]

        def kappa(counts: list[Any], variable_name: str) -> Any:
            po, row, column = (tf.cast(tf.convert_to_tensor(each), tf.float64) for each in counts)
            total = tf.reduce_sum(row)
            chance = ratio(tf.reduce_sum(row * column), total)
            return ratio(tf.reduce_sum(po) - chance, total - chance, name=variable_name)

        value = kappa([variable for variable, _ in counters], "value")
        update = kappa([more for _, more in counters], "update_op")
        return finished(value, update, metrics_collections, updates_collections)


@public("contrib.metrics.streaming_concat")
def streaming_concat(
    values: Any,
    axis: int = 0,
    max_size: int | None = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """All values, joined along an axis; no more than ``max_size`` of them. Sizes of other axes must be known.

    The update gives how many there are.
    """
    with tf.variable_scope(name, "streaming_concat", (values,)):
        values = tf.convert_to_tensor(values)
        if values.shape.ndims is None:
            raise ValueError("`values` must have known statically known rank")
        shape = values.shape.as_list()
        place = axis + len(shape) if axis < 0 else axis
        if not 0 <= place < len(shape):
            raise ValueError(f"axis = {place!r} not in [0, {len(shape)!r})")
        if any(size is None for i, size in enumerate(shape) if i != place):
            raise ValueError(f"All dimensions except `axis` ({axis}) must be known: {values.shape}")
        empty = [0 if i == place else size for i, size in enumerate(shape)]
        held = tf.Variable(
            lambda: tf.zeros(empty, values.dtype),
            trainable=False,
            validate_shape=False,
            name="array",
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )
        joined = tf.concat([tf.convert_to_tensor(held), values], place)
        if max_size is not None:
            joined = tf.slice(joined, [0] * len(shape), _sizes(joined, place, max_size))
        update = tf.assign(held, joined, validate_shape=False)
        value = tf.identity(held)
        value.set_shape([None if i == place else size for i, size in enumerate(shape)])
        return finished(value, tf.shape(update)[place], metrics_collections, updates_collections)


def _sizes(tensor: Any, axis: int, most: int) -> Any:
    sizes = tf.unstack(tf.shape(tensor), tensor.shape.ndims)
    sizes[axis] = tf.minimum(sizes[axis], most)
    return tf.stack(sizes)
