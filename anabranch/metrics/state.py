"""What the metrics share: local variables that add up, arguments of one shape, and the pair that each returns."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder, require_graph
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import counted_as
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.losses.weighted import checked_weights, fitted_weights, squeezed_last
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import zeros
from anabranch.variables import replica_frames
from anabranch.variables.scope_state import VariableAggregation
from anabranch.variables.variable import make_variable

Pair = tuple[Tensor, Tensor]


def metric_variable(shape: Any, dtype: Any, name: str) -> Any:
    """A local variable of zeros, in the collections LOCAL_VARIABLES and METRIC_VARIABLES."""
    require_graph(
        "tf.metrics are not supported when eager execution is enabled.",
        f"a metric with variable {name!r}, which each call makes anew,",
        "tf.contrib.eager.metrics.Mean and its kin",
    )
    return make_variable(
        lambda: zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        name=name,
        **replica_frames.statistics(VariableAggregation.SUM),
    )


def ratio(total: Any, count: Any, name: str | None = None) -> Tensor:
    """``total / count``, and 0 where the count is 0."""
    return build("DivNoNan", total, count, name=name)


def read(variable: Any) -> Tensor:
    """The variable's value."""
    return convert_to_tensor(variable)


def finished(value: Tensor, update: Tensor, metrics_collections: Any, updates_collections: Any) -> Pair:
    """The pair that a metric returns, added to the collections that were named."""
    builder = current_builder()
    for names, item in ((metrics_collections, value), (updates_collections, update)):
        if names:
            for name in [names] if isinstance(names, str) else names:
                builder.add_to_collection(name, item)
    return value, update


def spread_weights(weights: Any, values: Tensor, dtype: Any = dtypes.float32) -> Tensor:
    """Weights in the shape of the values."""
    weights = fitted_weights(cast(convert_to_tensor(weights), dtype), values)
    if weights.shape.is_fully_defined() and values.shape.is_fully_defined() and weights.shape == values.shape:
        with counted_as(0):
            return build("Mul", checked_weights(weights, values), ones_like(values, dtype=dtype))
    return build("Mul", checked_weights(weights, values), ones_like(values, dtype=dtype))


def _reason(first: TensorShape, second: TensorShape) -> str:
    """Why two shapes do not fit, which have known ranks: an axis that is not squeezed, or a dimension."""
    larger, smaller = sorted([first, second], key=len, reverse=True)
    if len(larger) == len(smaller) + 1:
        return f": Can not squeeze dim[{len(smaller)}], expected a dimension of 1, got {larger[-1]}"
    for at, (one, other) in enumerate(zip(first.as_list(), second.as_list(), strict=False)):
        if len(first) == len(second) and None not in (one, other) and one != other:
            return f": Dimension {at} in both shapes must be equal, but are {one} and {other}"
    return ""


def matched(labels: Any, predictions: Any, dtype: Any = None) -> Pair:
    """Labels and predictions of one shape: a last axis of size 1 that only one of them has is taken off.

    Raises:
        ValueError: their shapes differ.
    """
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    if dtype is not None:
        labels, predictions = cast(labels, dtype), cast(predictions, dtype)
    if labels.shape.ndims is not None and predictions.shape.ndims is not None:
        labels, predictions = squeezed_last(labels, predictions), squeezed_last(predictions, labels)
    if not labels.shape.is_compatible_with(predictions.shape):
        reason = _reason(labels.shape, predictions.shape)
        raise ValueError(
            f"Shapes {predictions.shape} and {labels.shape} are incompatible{reason}\n"
            + errors.message(
                f"labels of shape {labels.shape} for predictions of shape {predictions.shape}",
                "one shape",
                "tf.argmax(predictions, -1), tf.reshape or tf.squeeze",
            )
        )
    return labels, predictions
