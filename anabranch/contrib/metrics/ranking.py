"""Metrics of predictions against thresholds: rates, F1, precision at a recall, points of curves."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.metrics.counts import IN_ORDER, at_thresholds, counted
from anabranch.metrics.curves import EPSILON, Counts, at_point, even_thresholds, rate
from anabranch.metrics.state import Pair, finished, metric_variable, ratio

_WITHOUT_TRUE_NEGATIVES = ("true_positives", "false_negatives", "false_positives")


def _rate(kind: str, beside: str, name: Any, labels: Any, predictions: Any, weights: Any, where_to: Any) -> Pair:
    with tf.variable_scope(name, f"{kind}_rate", (predictions, labels, weights)):
        of = counted(f"{kind}s", labels, predictions, weights, (None, None), None)
        others = counted(beside, labels, predictions, weights, (None, None), None)
        value, update = (
            ratio(of[i], tf.add(of[i], others[i]), op_name) for i, op_name in enumerate(("value", "update_op"))
        )
        return finished(value, update, *where_to)


@public("contrib.metrics.streaming_false_positive_rate")
def streaming_false_positive_rate(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that do not hold which are predicted."""
    where_to = metrics_collections, updates_collections
    return _rate("false_positive", "true_negatives", name, labels, predictions, weights, where_to)


@public("contrib.metrics.streaming_false_negative_rate")
def streaming_false_negative_rate(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that hold which are not predicted."""
    where_to = metrics_collections, updates_collections
    return _rate("false_negative", "true_positives", name, labels, predictions, weights, where_to)


def _rates(kind: str, beside: str, name: Any, given: tuple[Any, ...], where_to: Any) -> Pair:
    with tf.variable_scope(name, f"{kind}_rate_at_thresholds", given[:2]):
        predictions, labels, thresholds, weights = given
        values, updates = at_thresholds(
            labels, predictions, thresholds, weights, sorted((f"{kind}s", beside), key=IN_ORDER.index)
        )
        short = "fpr" if kind == "false_positive" else "fnr"
        value, update = (
            tf.identity(rate(counts, f"{kind}s", beside), name=f"{short}_{suffix}")
            for counts, suffix in ((values, "value"), (updates, "update_op"))
        )
        return finished(value, update, *where_to)


@public("contrib.metrics.streaming_false_positive_rate_at_thresholds")
def streaming_false_positive_rate_at_thresholds(
    predictions: Any,
    labels: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that do not hold which are predicted, by predictions above each threshold."""
    given = predictions, labels, thresholds, weights
    return _rates("false_positive", "true_negatives", name, given, (metrics_collections, updates_collections))


@public("contrib.metrics.streaming_false_negative_rate_at_thresholds")
def streaming_false_negative_rate_at_thresholds(
    predictions: Any,
    labels: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that hold which are not predicted, by predictions above each threshold."""
    given = predictions, labels, thresholds, weights
    return _rates("false_negative", "true_positives", name, given, (metrics_collections, updates_collections))


@public("contrib.metrics.f1_score")
def f1_score(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The largest harmonic mean of precision and recall over even thresholds."""

    def compute(counts: Counts) -> Any:
        precision = rate(counts, "true_positives", "false_positives")
        recall = rate(counts, "true_positives", "false_negatives")
        return tf.reduce_max(2.0 * precision * recall / (precision + recall + EPSILON))

    where_to = metrics_collections, updates_collections
    return at_point(
        labels, predictions, weights, num_thresholds, where_to, compute, name, "f1", _WITHOUT_TRUE_NEGATIVES
    )


@public("contrib.metrics.precision_at_recall")
def precision_at_recall(
    labels: Any,
    predictions: Any,
    target_recall: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The precision at the largest threshold whose recall is at least ``target_recall``."""
    if not 0 <= target_recall <= 1:
        raise ValueError("`target_recall` must be in the range [0, 1].")

    def compute(counts: Counts) -> Any:
        admitted = rate(counts, "true_positives", "false_negatives") >= target_recall
        last = tf.reduce_sum(tf.cast(admitted, tf.int64)) - 1  # recall falls from one threshold to the next
        hits, others = counts["true_positives"][last], counts["false_positives"][last]
        return (hits + EPSILON) / (hits + others + EPSILON)

    where_to = metrics_collections, updates_collections
    return at_point(labels, predictions, weights, num_thresholds, where_to, compute, name, "precision_at_recall")


@public("contrib.metrics.recall_at_precision")
def recall_at_precision(
    labels: Any,
    predictions: Any,
    precision: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
    strict_mode: bool = False,
) -> Pair:
    """The recall at the threshold whose precision is nearest to a given one.

    With ``strict_mode``, the recall at the smallest precision that is at least the given one (0 if there is none).
    """
    if not 0 <= precision <= 1:
        raise ValueError("`precision` must be in the range [0, 1].")

    def compute(counts: Counts) -> Any:
        precisions = rate(counts, "true_positives", "false_positives")
        recalls = rate(counts, "true_positives", "false_negatives")
        if strict_mode:
            least = tf.argmax(1.0 / (precisions - precision + EPSILON))  # the first of those just above
            return tf.where(precisions[least] >= precision, recalls[least], 0.0)
        return tf.gather(recalls, tf.argmin(tf.abs(precisions - precision)))

    where_to = metrics_collections, updates_collections
    return at_point(labels, predictions, weights, num_thresholds, where_to, compute, name, "recall_at_precision")


@public("contrib.metrics.streaming_curve_points")
def streaming_curve_points(
    labels: Any = None,
    predictions: Any = None,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
) -> Pair:
    """Points ``[num_thresholds, 2]`` of a curve: false and true positive rate (ROC), or recall and precision (PR)."""
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")

    def compute(counts: Counts) -> Any:
        recall = (counts["true_positives"] + EPSILON) / (counts["true_positives"] + counts["false_negatives"] + EPSILON)
        if curve == "ROC":
            return tf.stack([rate(counts, "false_positives", "true_negatives"), recall], 1)
        precision = (counts["true_positives"] + EPSILON) / (
            counts["true_positives"] + counts["false_positives"] + EPSILON
        )
        return tf.stack([recall, precision], 1)

    with tf.variable_scope(name, "curve_points", (labels, predictions, weights)):
        values, updates = at_thresholds(labels, predictions, even_thresholds(num_thresholds), weights, IN_ORDER)
        return finished(compute(values), compute(updates), metrics_collections, updates_collections)


PrecisionRecallData = collections.namedtuple(
    "PrecisionRecallData", ["tp", "fp", "tn", "fn", "precision", "recall", "thresholds"]
)


@public("contrib.metrics.precision_recall_at_equal_thresholds")
def precision_recall_at_equal_thresholds(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Counts, precision and recall at thresholds that divide [0, 1] evenly, in time that does not grow with them.

    Args:
        labels: booleans.
        predictions: floats in [0, 1] of the same shape.
        weights: None, or a tensor of the same shape.
        num_thresholds: number of thresholds, 201 by default.
        use_locking: has no effect: a step's updates are one transaction.
        name: name of the variables' scope.

    Returns:
        A named tuple of vectors (``tp``, ``fp``, ``tn``, ``fn``, ``precision``, ``recall``, ``thresholds``), and the
        operation that takes the batch in.
    """
    del use_locking
    number = 201 if num_thresholds is None else num_thresholds
    if number <= 1:
        raise ValueError(f"num_thresholds must be > 1, not {number}")
    with tf.variable_scope(name, "precision_recall_at_equal_thresholds", (labels, predictions, weights)):
        labels = tf.cast(tf.reshape(labels, [-1]), tf.bool)
        predictions = tf.reshape(tf.cast(predictions, tf.float32), [-1])
        one = tf.ones_like(predictions) if weights is None else tf.reshape(tf.cast(weights, tf.float32), [-1])
        hits = tf.where(labels, one, tf.zeros_like(one))
        # All predictions in [i / (n - 1), (i + 1) / (n - 1)) are at least threshold i, and below the next.
        bucket = tf.to_int32(tf.floor(predictions * (number - 1)))
        with tf.variable_scope("variables"):
            tp, fp = (metric_variable([number], tf.float32, f"{prefix}_buckets") for prefix in ("tp", "fp"))
        added = [
            variable.assign_add(tf.unsorted_segment_sum(values, bucket, number))
            for variable, values in ((tp, hits), (fp, one - hits))
        ]
        below = [tf.convert_to_tensor(variable) for variable in (tp, fp)]
        above_tp, above_fp = (tf.cumsum(each, reverse=True) for each in below)
        tn, fn = above_fp[0] - above_fp, above_tp[0] - above_tp
        data = PrecisionRecallData(
            above_tp,
            above_fp,
            tn,
            fn,
            above_tp / tf.maximum(EPSILON, above_tp + above_fp),
            above_tp / tf.maximum(EPSILON, above_tp + fn),
            tf.linspace(0.0, 1.0, number),
        )
        return data, tf.group(*added)
