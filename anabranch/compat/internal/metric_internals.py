"""What TensorFlow's metrics are made of, as ``metrics_impl`` names it: libraries build metrics of their own on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.metrics import at_k, classes, counts
from anabranch.metrics.state import metric_variable, ratio, spread_weights

__all__ = ["metric_variable"]
_KEYS = {"tp": "true_positives", "fn": "false_negatives", "tn": "true_negatives", "fp": "false_positives"}


def _safe_div(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    """``numerator / denominator``, and 0 where the denominator is 0."""
    return ratio(tf.convert_to_tensor(numerator), tf.convert_to_tensor(denominator), name)


def _safe_scalar_div(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    """``numerator / denominator`` of scalars, and 0 if the denominator is 0."""
    return ratio(tf.convert_to_tensor(numerator), tf.convert_to_tensor(denominator), name)


def _aggregate_across_replicas(metrics_collections: Any, metric_value_fn: Callable[..., Any], *args: Any) -> Any:
    """The value of a metric, of the one replica: ``metric_value_fn(strategy, *args)``, added to collections."""
    value = metric_value_fn(tf.get_default_graph(), *args)
    _collect(metrics_collections, value)
    return value


def _aggregate_variable(v: Any, collections: Any) -> Any:
    """The value of a variable, added to collections."""
    value = tf.identity(v)
    _collect(collections, value)
    return value


def _collect(collections: Any, value: Any) -> None:
    for name in [collections] if isinstance(collections, str) else collections or ():
        tf.add_to_collection(name, value)


def _confusion_matrix_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    includes: Sequence[str] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts at each threshold: values and updates, by ``"tp"``, ``"fn"``, ``"tn"`` and ``"fp"``.

    Args:
        labels: tensor of the shape of the predictions, cast to bool.
        predictions: floating tensor of values in [0, 1].
        thresholds: numbers.
        weights: None, or what broadcasts to the labels.
        includes: which of the four are wanted; all if None.
    """
    wanted = list(_KEYS) if includes is None else list(includes)
    for key in wanted:
        if key not in _KEYS:
            raise ValueError(
                f"Invalid key: {key}.\n" + errors.message(f"includes of {key!r}", f"some of {list(_KEYS)}", "['tp']")
            )
    kinds = [kind for key, kind in _KEYS.items() if key in wanted]
    values, updates = counts.at_thresholds(labels, predictions, thresholds, weights, kinds)
    return {key: values[_KEYS[key]] for key in wanted}, {key: updates[_KEYS[key]] for key in wanted}


def _streaming_confusion_matrix(labels: Any, predictions: Any, num_classes: int, weights: Any = None) -> Any:
    """The confusion matrix of all batches so far, a variable of float64, and its update."""
    return classes.accumulated(labels, predictions, num_classes, weights)


def _streaming_sparse_average_precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The mean average precision of classes that are predicted already, and its update."""
    where_to = metrics_collections, updates_collections
    return at_k.average_precision_at_top_k(labels, predictions_idx, weights, where_to, name)


def _sparse_average_precision_at_top_k(labels: Any, predictions_idx: Any) -> Any:
    """The average precision of each row of classes that are predicted already."""
    return at_k.average_precision_of(labels, tf.cast(predictions_idx, tf.int64))


def _broadcast_weights(weights: Any, values: Any) -> Any:
    """Weights in the shape of the values."""
    return spread_weights(weights, values, values.dtype.base_dtype)


def _maybe_expand_labels(labels: Any, predictions: Any) -> Any:
    """Labels with a last axis of size 1 if predictions have one axis more."""
    with tf.name_scope(None, "expand_labels", [labels, predictions]):
        labels = tf.convert_to_tensor_or_sparse_tensor(labels)
        ranks = labels.shape.ndims, predictions.shape.ndims
        if None not in ranks and ranks[0] == ranks[1]:
            return labels
        if isinstance(labels, tf.SparseTensor):
            return tf.sparse_reshape(labels, tf.concat([labels.dense_shape, tf.constant([1], tf.int64)], 0))
        if None in ranks:
            return tf.cond(
                tf.equal(tf.rank(predictions), tf.rank(labels) + 1),
                lambda: tf.expand_dims(labels, -1),
                lambda: labels,
            )
        return tf.expand_dims(labels, -1)
