"""Metrics at the point of a curve where another metric has a given value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.metrics.counts import IN_ORDER, at_thresholds
from anabranch.metrics.state import Pair, finished
from anabranch.ops.array.cast import cast
from anabranch.ops.math.public_reduce import reduce_min
from anabranch.variables.scope import variable_scope

EPSILON = 1e-7
Counts = dict[str, Any]


def even_thresholds(number: int, last: float = 1.0 + EPSILON) -> list[float]:
    """``number`` thresholds, even in [0, 1], the ends a little beyond."""
    return [-EPSILON, *((i + 1) / (number - 1) for i in range(number - 2)), last]


def rate(counts: Counts, of: str, beside: str) -> Any:
    """The share of one count in its sum with another."""
    return counts[of] / (counts[of] + counts[beside] + EPSILON)


def at_point(
    labels: Any,
    predictions: Any,
    weights: Any,
    num_thresholds: int,
    where_to: tuple[Any, Any],
    compute: Callable[[Counts], Tensor],
    name: str | None,
    default: str,
    kinds: Sequence[str] = IN_ORDER,
    last: float = 1.0 + EPSILON,
) -> Pair:
    """A metric that is computed of the counts at even thresholds."""
    with variable_scope(name, default, (predictions, labels, weights)):
        values, updates = at_thresholds(labels, predictions, even_thresholds(num_thresholds, last), weights, kinds)
        return finished(
            build("Identity", compute(values), name="value"),
            build("Identity", compute(updates), name="update_op"),
            *where_to,
        )


def _in_unit_interval(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(
            f"`{name}` must be in the range [0, 1].\n"
            + errors.message(f"{name}={value}", "a value from 0 to 1", f"{name}=0.9")
        )


@public("metrics.sensitivity_at_specificity")
def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of labels that hold which are predicted, where that of the others is nearest to ``specificity``.

    Args:
        labels: booleans.
        predictions: floats in [0, 1] of the same shape.
        specificity: share of the labels that do not hold and are not predicted.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        num_thresholds: number of thresholds among which the point is looked for.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    _in_unit_interval("specificity", specificity)

    def compute(counts: Counts) -> Tensor:
        distance = build("Abs", rate(counts, "true_negatives", "false_positives") - specificity)
        nearest = build("ArgMin", distance, 0)
        best: Tensor = build("GatherV2", rate(counts, "true_positives", "false_negatives"), nearest, 0)
        return best

    return at_point(
        labels,
        predictions,
        weights,
        num_thresholds,
        (metrics_collections, updates_collections),
        compute,
        name,
        "sensitivity_at_specificity",
    )


@public("metrics.specificity_at_sensitivity")
def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of labels that do not hold which are not predicted, where that of the others is ``sensitivity``.

    Args:
        labels: booleans.
        predictions: floats in [0, 1] of the same shape.
        sensitivity: share of the labels that hold and are predicted; the last point nearest to it is taken.
        weights: None, or a tensor of the rank of the labels whose sizes are 1 or theirs.
        num_thresholds: number of thresholds among which the point is looked for.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    _in_unit_interval("sensitivity", sensitivity)

    def compute(counts: Counts) -> Tensor:
        distance = build("Abs", rate(counts, "true_positives", "false_negatives") - sensitivity)
        nearest = cast(build("Equal", distance, reduce_min(distance)), dtypes.int64)
        places = build("Cumsum", nearest, 0)
        last = build("ArgMax", build("Mul", nearest, places), 0)
        best: Tensor = build("GatherV2", rate(counts, "true_negatives", "false_positives"), last, 0)
        return best

    return at_point(
        labels,
        predictions,
        weights,
        num_thresholds,
        (metrics_collections, updates_collections),
        compute,
        name,
        "specificity_at_sensitivity",
        last=1.0 - EPSILON,  # as in TensorFlow: there is no threshold that a prediction of 1 does not reach
    )
