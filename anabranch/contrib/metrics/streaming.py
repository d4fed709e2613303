"""Metrics of ``tf.metrics`` under their first names, ``streaming_*``, which take predictions before labels.

Each gives ``(value, update_op)``: the metric so far, and the operation that takes a batch in and gives the new value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.metrics.at_k import average_precision_at_top_k
from anabranch.metrics.counts import at_thresholds
from anabranch.metrics.state import Pair


def _turned(name: str, metric: Callable[..., Pair]) -> Callable[..., Pair]:
    def streaming(
        predictions: Any,
        labels: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Pair:
        return metric(labels, predictions, weights, metrics_collections, updates_collections, name)

    return _named(name, metric, streaming)


def _at_thresholds(name: str, metric: Callable[..., Pair]) -> Callable[..., Pair]:
    def streaming(
        predictions: Any,
        labels: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Pair:
        return metric(labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)

    return _named(name, metric, streaming)


def _counts_at_thresholds(kind: str, metric: Callable[..., Pair]) -> Callable[..., Pair]:
    def streaming(predictions: Any, labels: Any, thresholds: Sequence[float], weights: Any = None) -> Pair:
        values, updates = at_thresholds(labels, predictions, thresholds, weights, [kind])
        return values[kind], updates[kind]

    return _named(f"{kind}_at_thresholds", metric, streaming)


def _at_k(name: str, metric: Callable[..., Pair]) -> Callable[..., Pair]:
    def streaming(
        predictions: Any,
        labels: Any,
        k: int,
        class_id: int | None = None,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Pair:
        return metric(labels, predictions, k, class_id, weights, metrics_collections, updates_collections, name)

    return _named(name, metric, streaming)


def _named(name: str, metric: Callable[..., Pair], streaming: Callable[..., Pair]) -> Callable[..., Pair]:
    streaming.__name__ = streaming.__qualname__ = f"streaming_{name}"
    streaming.__doc__ = f"``tf.metrics.{metric.__name__}`` with predictions before labels."
    return public(f"contrib.metrics.streaming_{name}")(streaming)


for _name in (
    "accuracy",
    "precision",
    "recall",
    "true_positives",
    "false_positives",
    "true_negatives",
    "false_negatives",
    "mean_absolute_error",
    "mean_squared_error",
    "root_mean_squared_error",
):
    _turned(_name, getattr(tf.metrics, _name))
for _name in ("precision_at_thresholds", "recall_at_thresholds"):
    _at_thresholds(_name, getattr(tf.metrics, _name))
for _name in ("true_positives", "false_positives", "true_negatives", "false_negatives"):
    _counts_at_thresholds(_name, getattr(tf.metrics, f"{_name}_at_thresholds"))
_at_k("sparse_precision_at_k", tf.metrics.precision_at_k)
_at_k("sparse_recall_at_k", tf.metrics.recall_at_k)
for _name, _metric in (
    ("mean", tf.metrics.mean),
    ("mean_tensor", tf.metrics.mean_tensor),
    ("percentage_less", tf.metrics.percentage_below),
):
    public(f"contrib.metrics.streaming_{_name}")(_metric)


@public("contrib.metrics.streaming_auc")
def streaming_auc(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
) -> Pair:
    """``tf.metrics.auc`` with predictions before labels."""
    return tf.metrics.auc(
        labels, predictions, weights, num_thresholds, metrics_collections, updates_collections, curve, name
    )


@public("contrib.metrics.streaming_mean_iou")
def streaming_mean_iou(
    predictions: Any,
    labels: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.mean_iou`` with predictions before labels."""
    return tf.metrics.mean_iou(
        labels, predictions, num_classes, weights, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_mean_cosine_distance")
def streaming_mean_cosine_distance(
    predictions: Any,
    labels: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.mean_cosine_distance`` with predictions before labels."""
    return tf.metrics.mean_cosine_distance(
        labels, predictions, dim, weights, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_mean_relative_error")
def streaming_mean_relative_error(
    predictions: Any,
    labels: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.mean_relative_error`` with predictions before labels."""
    return tf.metrics.mean_relative_error(
        labels, predictions, normalizer, weights, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_sensitivity_at_specificity")
def streaming_sensitivity_at_specificity(
    predictions: Any,
    labels: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.sensitivity_at_specificity`` with predictions before labels."""
    return tf.metrics.sensitivity_at_specificity(
        labels, predictions, specificity, weights, num_thresholds, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_specificity_at_sensitivity")
def streaming_specificity_at_sensitivity(
    predictions: Any,
    labels: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.specificity_at_sensitivity`` with predictions before labels."""
    return tf.metrics.specificity_at_sensitivity(
        labels, predictions, sensitivity, weights, num_thresholds, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_sparse_average_precision_at_k")
def streaming_sparse_average_precision_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.average_precision_at_k`` with predictions before labels."""
    return tf.metrics.average_precision_at_k(
        labels, predictions, k, weights, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_sparse_average_precision_at_top_k")
def streaming_sparse_average_precision_at_top_k(
    top_k_predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean average precision of classes ``[d1, ..., dN, k]`` that are predicted already."""
    return average_precision_at_top_k(
        labels, top_k_predictions, weights, (metrics_collections, updates_collections), name
    )


@public("contrib.metrics.streaming_sparse_precision_at_top_k")
def streaming_sparse_precision_at_top_k(
    top_k_predictions: Any,
    labels: Any,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.precision_at_top_k`` with predictions before labels."""
    return tf.metrics.precision_at_top_k(
        labels, top_k_predictions, None, class_id, weights, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.sparse_recall_at_top_k")
def sparse_recall_at_top_k(
    labels: Any,
    top_k_predictions: Any,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """``tf.metrics.recall_at_top_k`` under its first name."""
    return tf.metrics.recall_at_top_k(
        labels, top_k_predictions, None, class_id, weights, metrics_collections, updates_collections, name
    )


@public("contrib.metrics.streaming_recall_at_k")
def streaming_recall_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often the label ``[batch]`` is among the k classes predicted (logits ``[batch, classes]``)."""
    hits = tf.to_float(tf.nn.in_top_k(predictions, labels, k))
    return tf.metrics.mean(hits, weights, metrics_collections, updates_collections, name or f"recall_at_{k}")


@public("contrib.metrics.aggregate_metrics")
def aggregate_metrics(*value_update_tuples: Pair) -> tuple[list[Any], list[Any]]:
    """Values and updates of several metrics, as two lists."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


@public("contrib.metrics.aggregate_metric_map")
def aggregate_metric_map(names_to_tuples: dict[str, Pair]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values and updates of several metrics, as two dictionaries by name."""
    return (
        {name: value for name, (value, _) in names_to_tuples.items()},
        {name: update for name, (_, update) in names_to_tuples.items()},
    )
