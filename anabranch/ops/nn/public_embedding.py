"""Lookup of rows in one table or in a table that is split over several tensors.

Policy. A lookup is a gather, so that the gradient is an ``IndexedSlices`` of the rows used and the table itself is
never read as a whole. Ids outside the table are an error of the gather; nothing is clamped.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes


def _tables(params: Any, function: str) -> list[Any]:
    if params is None or (isinstance(params, (list, tuple)) and not params):
        raise ValueError(
            "Need at least one param\n"
            + errors.message(
                f"{function} with params={params!r}",
                "a table, or a list of its parts",
                "tf.nn.embedding_lookup(embeddings, ids) with the variable of embeddings",
            )
        )
    if isinstance(params, (list, tuple)):
        return list(params)
    # A partitioned variable is a sequence of its parts and not a variable itself.
    return list(params) if hasattr(params, "__iter__") and hasattr(params, "_get_partitions") else [params]


def _gather(table: Any, ids: Any, name: str | None) -> Any:
    if hasattr(table, "sparse_read"):
        return table.sparse_read(ids, name=name)
    return build("GatherV2", table, ids, 0, name=name)


def _clipped(rows: Any, ids: Any, max_norm: Any) -> Any:
    """Rows whose norm exceeds ``max_norm``, scaled down to it."""
    if max_norm is None:
        return rows
    if ids.shape.ndims is not None and rows.shape.ndims is not None:
        axes: Any = list(range(ids.shape.ndims, rows.shape.ndims))
    else:
        axes = build("Range", build("Rank", ids), build("Rank", rows), 1)
    squared = build("Sum", build("Mul", rows, rows), axes, keep_dims=True)
    positive = build("Greater", squared, 0.0)
    # The root of 0 has no gradient, so that 1 stands in for it.
    safe = build("Select", positive, squared, build("OnesLike", squared))
    norm = build("Select", positive, build("Sqrt", safe), squared)
    return build("RealDiv", build("Mul", rows, max_norm), build("Maximum", norm, max_norm))


def _first_size(table: Any) -> Any:
    raw = table.shape.raw if hasattr(table.shape, "raw") else None
    if raw is not None and raw[0] is not None:
        return raw[0]
    return build("StridedSlice", build("Shape", table), [0], [1], [1], shrink_axis_mask=1)


def _assign(ids: Any, tables: list[Any], strategy: str) -> tuple[Any, Any]:
    """The part in which each id lies, and its row there."""
    count = len(tables)
    kind = ids.dtype.base
    if strategy == "mod":
        return build("FloorMod", ids, count), build("FloorDiv", ids, count)
    if strategy != "div":
        raise ValueError(
            f"Unrecognized partition strategy: {strategy}\n"
            + errors.message(f"partition_strategy={strategy!r}", "'mod' or 'div'", "partition_strategy='div'")
        )
    sizes = [_first_size(table) for table in tables]
    if all(isinstance(size, int) for size in sizes):
        total: Any = convert.constant(sum(sizes), kind)
    else:
        total = build("Sum", build("Pack", [convert.convert_to_tensor(size, "int32") for size in sizes], axis=0), [0])
        total = total if total.dtype.base == kind else build("Cast", total, DstT=kind)
    each = build("FloorDiv", total, count)
    extras = build("FloorMod", total, count)
    longer = build("Add", each, 1)
    # The first `extras` parts hold one row more than the others.
    part = build("Maximum", build("FloorDiv", ids, longer), build("FloorDiv", build("Sub", ids, extras), each))
    # Select takes a condition of the shape of the ids.
    row = build(
        "Select",
        build("Less", part, extras),
        build("FloorMod", ids, longer),
        build("FloorMod", build("Sub", ids, extras), each),
    )
    return part, row


@public("nn.embedding_lookup")
def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Any:
    """Rows of a table.

    Args:
        params: the table ``[rows, ...]``, or a list of tables over which the rows are spread.
        ids: int32 or int64 numbers of rows, any shape.
        partition_strategy: with several tables, ``"mod"`` (id ``i`` lies in table ``i % n``) or ``"div"``
            (consecutive ids together).
        name: name of the op.
        validate_indices: kept for its name; ids are always checked.
        max_norm: rows with a larger l2 norm are scaled down to it.

    Returns:
        ``ids.shape + params.shape[1:]``.

    Raises:
        ValueError: no table, or another strategy. InvalidArgumentError (when it runs): an id without a row.
    """
    tables = _tables(params, "tf.nn.embedding_lookup")
    with name_scope(name, "embedding_lookup", [*tables, ids]) as scope:
        ids = convert.convert_to_tensor(ids, name="ids")
        tables = [
            table if hasattr(table, "sparse_read") else convert.convert_to_tensor(table, name="params", as_ref=True)
            for table in tables
        ]
        if len(tables) == 1:
            with current_builder().colocate_with(getattr(tables[0], "op", None), ignore_existing=True):
                rows = _clipped(_gather(tables[0], ids, scope), ids, max_norm)
            return build("Identity", rows)
        flat = build("Reshape", ids, [-1])
        positions = build("Range", 0, build("Size", flat), 1)
        part, row = _assign(flat, tables, partition_strategy)
        part = part if part.dtype.base == dtypes.int32 else build("Cast", part, DstT="int32")
        wanted = build("DynamicPartition", row, part, num_partitions=len(tables))
        places = build("DynamicPartition", positions, part, num_partitions=len(tables))
        parts = []
        for table, rows_wanted in zip(tables, wanted, strict=True):
            with current_builder().colocate_with(getattr(table, "op", None), ignore_existing=True):
                parts.append(_gather(table, rows_wanted, None))
        joined = build("DynamicStitch", places, parts, name=scope)
        tail = None
        for table in tables:
            tail = tail if tail is not None and None not in tail else table.shape.raw and table.shape.raw[1:]
        if tail is not None and None not in tail:
            target = build("ConcatV2", [build("Shape", ids), convert.constant(list(tail), "int32")], 0)
        else:
            row_shape = build("StridedSlice", build("Shape", joined), [1], [0], [1], end_mask=1)
            target = build("ConcatV2", [build("Shape", ids), row_shape], 0)
        result = build("Reshape", joined, target)
        if ids.shape.raw is not None and tail is not None:
            result.set_shape(ids.shape.raw + tail)
        return _clipped(result, ids, max_norm)


_COMBINERS = ("mean", "sqrtn", "sum")


@public("nn.embedding_lookup_sparse")
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
) -> Any:
    """For each row of a sparse matrix of ids, one combination of the embeddings of its ids.

    Args:
        params: tables as :func:`embedding_lookup` takes them.
        sp_ids: ``SparseTensor`` ``[n, m]`` of int64 ids; every row needs at least one.
        sp_weights: ``SparseTensor`` of the same indices with float weights, or None for 1.
        partition_strategy: as for :func:`embedding_lookup`.
        name: name of the op.
        combiner: ``"sum"``, ``"mean"`` (by the sum of weights; the default) or ``"sqrtn"`` (by the root of the sum of
            squared weights).
        max_norm: as for :func:`embedding_lookup`.

    Returns:
        ``[n, ...]``.
    """
    combiner = "mean" if combiner is None else combiner
    if combiner not in _COMBINERS:
        raise ValueError(
            "combiner must be one of 'mean', 'sqrtn' or 'sum'\n"
            + errors.message(f"combiner={combiner!r}", f"one of {', '.join(_COMBINERS)}", "combiner='mean'")
        )
    tables = _tables(params, "tf.nn.embedding_lookup_sparse")
    for given, what in ((sp_ids, "sp_ids"), (sp_weights, "sp_weights")):
        if not (hasattr(given, "indices") and hasattr(given, "values") and hasattr(given, "dense_shape")) and not (
            given is None and what == "sp_weights"
        ):
            raise TypeError(
                f"{what} must be SparseTensor\n"
                + errors.message(
                    f"{what} of type {type(given).__name__}",
                    "a SparseTensor",
                    "tf.SparseTensor(indices, values, dense_shape)",
                )
            )
    if sp_weights is not None and not sp_weights.values.dtype.base.is_floating:
        raise TypeError(
            errors.message(
                f"weights of dtype {sp_weights.values.dtype.base.name}",
                "weights of a float dtype",
                "tf.cast them to tf.float32",
            )
        )
    given_tensors = [sp_ids.values] + ([] if sp_weights is None else [sp_weights.values])
    with name_scope(name, "embedding_lookup_sparse", given_tensors) as scope:
        segments = build(
            "StridedSlice", sp_ids.indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
        )
        if segments.dtype.base != dtypes.int32:
            segments = build("Cast", segments, DstT="int32")
        if sp_weights is None:
            unique = build("Unique", sp_ids.values)
            rows = embedding_lookup(tables, unique[0], partition_strategy, max_norm=max_norm)
            kind = {"sum": "SparseSegmentSum", "mean": "SparseSegmentMean", "sqrtn": "SparseSegmentSqrtN"}[combiner]
            return build(kind, rows, unique[1], segments, name=scope)
        rows = embedding_lookup(tables, sp_ids.values, partition_strategy, max_norm=max_norm)
        weights = sp_weights.values
        if weights.dtype.base != rows.dtype.base:
            weights = build("Cast", weights, DstT=rows.dtype.base)
        ones = build("Fill", build("ExpandDims", build("Sub", build("Rank", rows), 1), 0), 1)
        shaped = build("Reshape", weights, build("ConcatV2", [build("Shape", weights), ones], 0))
        if rows.shape.ndims is not None and weights.shape.raw is not None:
            shaped.set_shape(weights.shape.raw + (1,) * (rows.shape.ndims - 1))
        rows = build("Mul", rows, shaped)
        if combiner == "sum":
            return build("SegmentSum", rows, segments, name=scope)
        total = build("SegmentSum", rows, segments)
        if combiner == "mean":
            return build("RealDiv", total, build("SegmentSum", shaped, segments), name=scope)
        squares = build("SegmentSum", build("Mul", shaped, shaped), segments)
        return build("RealDiv", total, build("Sqrt", squares), name=scope)
