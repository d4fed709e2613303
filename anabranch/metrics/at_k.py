"""Metrics of the k classes predicted: precision, recall, average precision."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.graph.sparse_tensor import SparseTensor, SparseTensorValue
from anabranch.core.values import dtypes
from anabranch.losses.weighted import squeezed_last
from anabranch.metrics.state import Pair, finished, metric_variable, ratio, read, spread_weights
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import expand_dims, size
from anabranch.ops.math.public_reduce import reduce_any, reduce_sum
from anabranch.ops.sparse.public import sparse_tensor_to_dense
from anabranch.variables.scope import variable_scope


def _named(kind: str, k: int | None, class_id: int | None) -> str:
    name = f"{kind}_at_{'k' if k is None else k}"
    return name if class_id is None else f"{name}_class{class_id}"


def top_classes(predictions: Any, k: int) -> Tensor:
    """The numbers of the k classes that are predicted."""
    return cast(build("TopKV2", convert_to_tensor(predictions), k)[1], dtypes.int64)


def _labels(labels: Any, top: Tensor) -> tuple[Tensor, Tensor | None]:
    """Labels with an axis of their own, and which of them are there (None for all)."""
    there = None
    if isinstance(labels, SparseTensorValue):
        labels = SparseTensor.from_value(labels)
    if hasattr(labels, "dense_shape"):
        absent = constant(labels.dtype.min, labels.dtype)  # a number outside of the classes is a label all the same
        labels = sparse_tensor_to_dense(labels, absent)
        there = build("NotEqual", labels, absent)
    labels = cast(convert_to_tensor(labels), dtypes.int64)
    if labels.shape.ndims is not None and labels.shape.ndims == (top.shape.ndims or 0) - 1:
        labels = expand_dims(labels, -1)
    return labels, there


def _among(items: Tensor, others: Tensor) -> Tensor:
    return reduce_any(build("Equal", expand_dims(items, -1), expand_dims(others, -2)), -1)


def _weighted(values: Tensor, weights: Any) -> Tensor:
    if weights is None:
        return values
    fitted = squeezed_last(convert_to_tensor(weights), values)
    weighted: Tensor = build("Mul", values, spread_weights(fitted, values, dtypes.float64))
    return weighted


def _at_k(kind: str, labels: Any, top: Tensor, k: int | None, class_id: Any, weights: Any, where_to: Any) -> Pair:
    labels, there = _labels(labels, top)
    items, others = (top, labels) if kind == "precision" else (labels, top)
    hit, counted_in = _among(items, others), ones_like(items, dtype=dtypes.bool)
    if there is not None and kind == "recall":
        counted_in = there
    if class_id is not None:
        counted_in = build("LogicalAnd", counted_in, build("Equal", items, constant(class_id, dtypes.int64)))
    miss_name = "false_positive" if kind == "precision" else "false_negative"
    counts = []
    for name, counted in (("true_positive", hit), (miss_name, build("LogicalNot", hit))):
        values = _weighted(reduce_sum(cast(build("LogicalAnd", counted, counted_in), dtypes.float64), -1), weights)
        count = metric_variable([], dtypes.float64, _named(name, k, class_id))
        counts.append((read(count), count.assign_add(reduce_sum(values))))
    (hits, more_hits), (misses, more_misses) = counts
    if class_id is None and weights is None:
        count_more(-7)  # sets of TensorFlow's
    # Before any label (prediction) of the class has come, the share is 0 / 0, and TensorFlow says so: NaN.
    value = build("RealDiv", hits, build("AddV2", hits, misses), name=current_builder().get_name_scope() + "/")
    update = build("RealDiv", more_hits, build("AddV2", more_hits, more_misses), name="update")
    return finished(value, update, *where_to)


@public("metrics.precision_at_k")
def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """Share of the k classes predicted, those that are labels.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions: logits ``[d1, ..., dN, classes]``.
        k: number of classes predicted.
        class_id: count this class only.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, _named("precision", k, class_id), (predictions, labels, weights)):
        top = top_classes(predictions, k)
        return _at_k("precision", labels, top, k, class_id, weights, (metrics_collections, updates_collections))


@public("metrics.sparse_precision_at_k")
def sparse_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The first name of :func:`precision_at_k`.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions: logits ``[d1, ..., dN, classes]``.
        k: number of classes predicted.
        class_id: count this class only.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, _named("precision", k, class_id), (predictions, labels, weights)):
        top = top_classes(predictions, k)
        return _at_k("precision", labels, top, k, class_id, weights, (metrics_collections, updates_collections))


@public("metrics.precision_at_top_k")
def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """Share of the classes predicted, those that are labels.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions_idx: the numbers of the classes predicted, ``[d1, ..., dN, k]``.
        k: their number, for names only.
        class_id: count this class only.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, _named("precision", k, class_id), (predictions_idx, labels, weights)):
        top = cast(convert_to_tensor(predictions_idx), dtypes.int64)
        return _at_k("precision", labels, top, k, class_id, weights, (metrics_collections, updates_collections))


@public("metrics.recall_at_k")
def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """Share of the labels, those among the k classes predicted.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions: logits ``[d1, ..., dN, classes]``.
        k: number of classes predicted.
        class_id: count this class only.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, _named("recall", k, class_id), (predictions, labels, weights)):
        top = top_classes(predictions, k)
        return _at_k("recall", labels, top, k, class_id, weights, (metrics_collections, updates_collections))


@public("metrics.recall_at_top_k")
def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """Share of the labels, those among the classes predicted.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions_idx: the numbers of the classes predicted, ``[d1, ..., dN, k]``.
        k: their number, for names only.
        class_id: count this class only.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, _named("recall", k, class_id), (predictions_idx, labels, weights)):
        top = cast(convert_to_tensor(predictions_idx), dtypes.int64)
        return _at_k("recall", labels, top, k, class_id, weights, (metrics_collections, updates_collections))


def average_precision_of(labels: Any, top: Tensor) -> Tensor:
    """Average precision of each row: the mean, over its labels, of the precision among the classes down to each.

    Labels that are not among the k classes count 0; no more than k labels count.
    """
    labels, there = _labels(labels, top)
    k = int(top.shape.as_list()[-1] or 0)
    hits = cast(_among(top, labels), dtypes.float64)
    ranks = constant([float(i + 1) for i in range(k)], dtypes.float64)
    precisions = build("RealDiv", build("Cumsum", hits, -1), ranks)
    total = reduce_sum(build("Mul", precisions, hits), -1)
    counted = ones_like(labels, dtype=dtypes.float64) if there is None else cast(there, dtypes.float64)
    number = build("Minimum", reduce_sum(counted, -1), constant(float(k), dtypes.float64))
    return ratio(total, number)


def _average_precision(labels: Any, top: Tensor, weights: Any, where_to: Any) -> Pair:
    values = average_precision_of(labels, top)
    weighted = _weighted(values, weights)
    rows = cast(size(values), dtypes.float64) if weights is None else reduce_sum(_weighted(ones_like(values), weights))
    most, total = metric_variable([], dtypes.float64, "max"), metric_variable([], dtypes.float64, "total")
    more_most, more_total = most.assign_add(rows), total.assign_add(reduce_sum(weighted))
    value = ratio(read(total), read(most), "mean")
    return finished(value, ratio(more_total, more_most, current_builder().get_name_scope() + "/"), *where_to)


@public("metrics.average_precision_at_k")
def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean over examples of the average precision of the k classes predicted.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions: logits ``[d1, ..., dN, classes]``.
        k: number of classes predicted.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, f"average_precision_at_{k}", (predictions, labels, weights)):
        top = top_classes(predictions, k)
        return _average_precision(labels, top, weights, (metrics_collections, updates_collections))


@public("metrics.sparse_average_precision_at_k")
def sparse_average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The first name of :func:`average_precision_at_k`.

    Args:
        labels: class numbers, different ones for each example: ``[d1, ..., dN, labels]``, or ``[d1, ..., dN]``; a
            SparseTensor if their number differs.
        predictions: logits ``[d1, ..., dN, classes]``.
        k: number of classes predicted.
        weights: None, or a tensor of the shape of the labels without their last axis, or that broadcasts to it.
        metrics_collections: collections to add the value to.
        updates_collections: collections to add the update to.
        name: name of the variables' scope.

    Returns:
        ``(value, update_op)``: the metric so far, and the operation that takes the batch in and gives the new value.
    """
    with variable_scope(name, f"average_precision_at_{k}", (predictions, labels, weights)):
        top = top_classes(predictions, k)
        return _average_precision(labels, top, weights, (metrics_collections, updates_collections))


def average_precision_at_top_k(labels: Any, top: Any, weights: Any, where_to: Any, name: str | None) -> Pair:
    """Average precision of classes that are predicted already."""
    top = cast(convert_to_tensor(top), dtypes.int64)
    with variable_scope(name, "average_precision_at_top_k", (top, labels, weights)):
        return _average_precision(labels, top, weights, where_to)
