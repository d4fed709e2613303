"""Counts of hits and misses, and what is made of them: precision, recall, areas under curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.metrics.state import Pair, finished, matched, metric_variable, ratio, read, spread_weights
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import reshape
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.math.compare import where
from anabranch.ops.math.public_assert import assert_greater_equal, assert_less_equal
from anabranch.ops.math.public_reduce import reduce_sum
from anabranch.variables.scope import variable_scope

_EPSILON = 1e-7
# What each count takes: whether the label holds, whether the prediction does.
KINDS = {
    "true_positives": (True, True),
    "false_positives": (False, True),
    "true_negatives": (False, False),
    "false_negatives": (True, False),
}
# The order in which TensorFlow makes the variables of all four.
IN_ORDER = ["true_positives", "false_negatives", "true_negatives", "false_positives"]


def _holds(condition: Tensor, wanted: bool) -> Tensor:
    return condition if wanted else build("LogicalNot", condition)


def counted(kind: str, labels: Any, predictions: Any, weights: Any, where_to: tuple[Any, Any], name: Any) -> Pair:
    """The number of examples of one kind, and its update."""
    with variable_scope(name, kind, (predictions, labels, weights)):
        labels, predictions = matched(labels, predictions, dtypes.bool)
        label, prediction = KINDS[kind]
        holding = build("LogicalAnd", _holds(labels, label), _holds(predictions, prediction))
        count = metric_variable([], dtypes.float32, "count")
        count_more(5 - (not label) - (not prediction))  # comparisons with constants, and of dtypes
        values = cast(holding, dtypes.float32)
        if weights is not None:
            spread = spread_weights(weights, values)
            known = values.shape.is_fully_defined() and spread.shape.is_fully_defined()
            count_more(5 if known and spread.shape == values.shape else -4)
            values = build("Mul", values, spread)
        value = read(count)
        return finished(build("Identity", value), count.assign_add(reduce_sum(values)), *where_to)


def at_thresholds(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, kinds: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts at each threshold: values and updates by kind. An update refuses predictions outside [0, 1]."""
    labels, predictions = cast(convert_to_tensor(labels), dtypes.bool), convert_to_tensor(predictions)
    predictions = cast(predictions, dtypes.float32)
    in_range = [
        assert_greater_equal(predictions, 0.0, message="predictions must be in [0, 1]"),
        assert_less_equal(predictions, 1.0, message="predictions must be in [0, 1]"),
    ]
    labels, predictions = matched(labels, with_dependencies(in_range, predictions))
    row = reshape(labels, [1, -1])
    above = build("Greater", reshape(predictions, [1, -1]), constant([[t] for t in thresholds], dtypes.float32))
    if weights is not None:
        weights = reshape(spread_weights(weights, predictions), [1, -1])
    values, updates = {}, {}
    for kind in kinds:
        label, prediction = KINDS[kind]
        count = metric_variable([len(thresholds)], dtypes.float32, kind)
        holding = cast(build("LogicalAnd", _holds(row, label), _holds(above, prediction)), dtypes.float32)
        if weights is not None:
            holding = build("Mul", holding, weights)
        values[kind] = read(count)
        updates[kind] = convert_to_tensor(count.assign_add(reduce_sum(holding, 1)))
    return values, updates


@public("metrics.true_positives")
def true_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number (sum of weights) of labels that hold and are predicted.

    Args:
        labels: booleans, or numbers that are cast to them.
        predictions: likewise, of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    return counted("true_positives", labels, predictions, weights, (metrics_collections, updates_collections), name)


@public("metrics.false_positives")
def false_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number (sum of weights) of predictions whose labels do not hold.

    Args:
        labels: booleans, or numbers that are cast to them.
        predictions: likewise, of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    return counted("false_positives", labels, predictions, weights, (metrics_collections, updates_collections), name)


@public("metrics.true_negatives")
def true_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number (sum of weights) of labels that do not hold and are not predicted.

    Args:
        labels: booleans, or numbers that are cast to them.
        predictions: likewise, of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    return counted("true_negatives", labels, predictions, weights, (metrics_collections, updates_collections), name)


@public("metrics.false_negatives")
def false_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number (sum of weights) of labels that hold and are not predicted.

    Args:
        labels: booleans, or numbers that are cast to them.
        predictions: likewise, of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    return counted("false_negatives", labels, predictions, weights, (metrics_collections, updates_collections), name)


@public("metrics.true_positives_at_thresholds")
def true_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number of labels that hold and are predicted, by predictions above each threshold.

    Args:
        labels: booleans.
        predictions: floats of the same shape.
        thresholds: numbers.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "true_positives", (predictions, labels, weights)):
        values, updates = at_thresholds(labels, predictions, thresholds, weights, ["true_positives"])
        return finished(values["true_positives"], updates["true_positives"], metrics_collections, updates_collections)


@public("metrics.false_positives_at_thresholds")
def false_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number of predictions whose labels do not hold, by predictions above each threshold.

    Args:
        labels: booleans.
        predictions: floats of the same shape.
        thresholds: numbers.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "false_positives", (predictions, labels, weights)):
        values, updates = at_thresholds(labels, predictions, thresholds, weights, ["false_positives"])
        return finished(values["false_positives"], updates["false_positives"], metrics_collections, updates_collections)


@public("metrics.true_negatives_at_thresholds")
def true_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number of labels that do not hold and are not predicted, by predictions above each threshold.

    Args:
        labels: booleans.
        predictions: floats of the same shape.
        thresholds: numbers.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "true_negatives", (predictions, labels, weights)):
        values, updates = at_thresholds(labels, predictions, thresholds, weights, ["true_negatives"])
        return finished(values["true_negatives"], updates["true_negatives"], metrics_collections, updates_collections)


@public("metrics.false_negatives_at_thresholds")
def false_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The number of labels that hold and are not predicted, by predictions above each threshold.

    Args:
        labels: booleans.
        predictions: floats of the same shape.
        thresholds: numbers.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "false_negatives", (predictions, labels, weights)):
        values, updates = at_thresholds(labels, predictions, thresholds, weights, ["false_negatives"])
        return finished(values["false_negatives"], updates["false_negatives"], metrics_collections, updates_collections)


def _share(missed: str, labels: Any, predictions: Any, weights: Any) -> Pair:
    """Right predictions among them and those that are counted as ``missed``, so far and with the batch."""
    hits, hit = counted("true_positives", labels, predictions, weights, (None, None), None)
    misses, miss = counted(missed, labels, predictions, weights, (None, None), None)
    given = (convert_to_tensor(item) for item in (labels, predictions) if hasattr(item, "dtype"))
    count_more(10 - sum(item.dtype.base != dtypes.bool_ for item in given))  # selections; both are cast once
    return ratio(hits, build("AddV2", hits, misses), "value"), ratio(hit, build("AddV2", hit, miss), "update_op")


def _count_tables(number: int, predictions: Any, weights: Any) -> None:
    """Count the tables of all thresholds that TensorFlow makes."""
    known = convert_to_tensor(predictions).shape.is_fully_defined()
    count_more(number + 6 * (not known) + 2 * (weights is not None))


def _share_at(kind: str, missed: str, labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any) -> Pair:
    shares = at_thresholds(labels, predictions, thresholds, weights, ["true_positives", missed])
    _count_tables(9, predictions, weights)
    value, update = (
        build("RealDiv", hits, build("AddV2", build("AddV2", hits, counts[missed]), _EPSILON), name=f"{kind}_{suffix}")
        for counts, suffix in zip(shares, ("value", "update_op"), strict=True)
        for hits in [counts["true_positives"]]
    )
    return value, update


@public("metrics.precision")
def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the predictions that are right: ``tp / (tp + fp)``, 0 if there are none.

    Args:
        labels: booleans, or numbers that are cast to them.
        predictions: likewise, of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "precision", (predictions, labels, weights)):
        value, update = _share("false_positives", labels, predictions, weights)
        return finished(value, update, metrics_collections, updates_collections)


@public("metrics.precision_at_thresholds")
def precision_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the predictions that are right, by predictions above each threshold.

    Args:
        labels: booleans.
        predictions: floats in [0, 1] of the same shape.
        thresholds: numbers.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "precision_at_thresholds", (predictions, labels, weights)):
        value, update = _share_at("precision", "false_positives", labels, predictions, thresholds, weights)
        return finished(value, update, metrics_collections, updates_collections)


@public("metrics.recall")
def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that hold which are predicted: ``tp / (tp + fn)``, 0 if there are none.

    Args:
        labels: booleans, or numbers that are cast to them.
        predictions: likewise, of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "recall", (predictions, labels, weights)):
        value, update = _share("false_negatives", labels, predictions, weights)
        return finished(value, update, metrics_collections, updates_collections)


@public("metrics.recall_at_thresholds")
def recall_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that hold which are predicted, by predictions above each threshold.

    Args:
        labels: booleans.
        predictions: floats in [0, 1] of the same shape.
        thresholds: numbers.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, "recall_at_thresholds", (predictions, labels, weights)):
        value, update = _share_at("recall", "false_negatives", labels, predictions, thresholds, weights)
        return finished(value, update, metrics_collections, updates_collections)


def _area(counts: dict[str, Any], curve: str, method: str) -> Tensor:
    tp, fp, tn, fn = (counts[kind] for kind in KINDS)
    if curve == "PR" and method == "careful_interpolation":
        hits = tp[:-1] - tp[1:]
        taken = tp + fp
        slope = ratio(hits, build("Maximum", taken[:-1] - taken[1:], 0.0))
        start = tp[1:] - slope * taken[1:]
        both = build("LogicalAnd", build("Greater", taken[:-1], 0.0), build("Greater", taken[1:], 0.0))
        growth = where(both, ratio(taken[:-1], taken[1:]), ones_like(taken[1:]))
        return reduce_sum(ratio(slope * (hits + start * build("Log", growth)), tp[1:] + fn[1:]))
    recall_values = (tp + _EPSILON) / (tp + fn + _EPSILON)
    if curve == "ROC":
        x, y = fp / (fp + tn + _EPSILON), recall_values
    else:
        x, y = recall_values, (tp + _EPSILON) / (tp + fp + _EPSILON)
    if method in ("trapezoidal", "careful_interpolation"):
        heights = (y[:-1] + y[1:]) / 2.0
    else:
        heights = build("Minimum" if method == "minoring" else "Maximum", y[:-1], y[1:])
    return reduce_sum((x[:-1] - x[1:]) * heights)


@public("metrics.auc")
def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Pair:
    """The area under a curve, by a sum over thresholds.

    Args:
        labels: booleans.
        predictions: floats in [0, 1] of the same shape.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        num_thresholds: number of thresholds, evenly in [0, 1].
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        curve: ``"ROC"`` or ``"PR"``.
        name: name of the variables' scope.
        summation_method: ``"trapezoidal"``, ``"careful_interpolation"`` (for PR), ``"minoring"`` or ``"majoring"``.
        thresholds: thresholds in [0, 1] in place of even ones; the ends are added.

    Returns:
        ``(value, update_op)``: the area so far, and the operation that takes the batch in and gives the new value.
    """
    methods = ("trapezoidal", "careful_interpolation", "minoring", "majoring")
    if curve not in ("ROC", "PR") or summation_method not in methods:
        raise ValueError(
            f"curve must be either ROC or PR, {curve} unknown\n"
            + errors.message(
                f"curve={curve!r}, summation_method={summation_method!r}",
                f"ROC or PR; one of {', '.join(methods)}",
                "curve='ROC'",
            )
        )
    with variable_scope(name, "auc", (labels, predictions, weights)):
        if thresholds is None:
            inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        else:
            inner = sorted(thresholds)
        places = [-_EPSILON, *inner, 1.0 + _EPSILON]
        values, updates = at_thresholds(labels, predictions, places, weights, IN_ORDER)
        _count_tables(5, predictions, weights)
        value, update = (_area(counts, curve, summation_method) for counts in (values, updates))
        return finished(
            build("Identity", value, name="value"),
            build("Identity", update, name="update_op"),
            metrics_collections,
            updates_collections,
        )
