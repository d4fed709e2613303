"""``tf.nn.safe_embedding_lookup_sparse``: lookups of sparse ids that may be missing or invalid."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor, as_sparse
from anabranch.core.graph.static_value import constant_value_as_shape
from anabranch.ops.nn.public_embedding import embedding_lookup_sparse
from anabranch.ops.sparse.public import sparse_fill_empty_rows, sparse_reshape, sparse_retain


@public("nn.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Any:
    """For each row of ids one combination of their embeddings; rows without a valid id are zeros.

    Ids below 0 take no part, nor, unless the combiner is ``"sum"``, do those whose weight is not above 0.

    Args:
        embedding_weights: table, or list of tables over which the rows are spread.
        sparse_ids: ``SparseTensor`` ``[d0, ..., dn]`` of int64 ids; rows are along the last dimension.
        sparse_weights: ``SparseTensor`` of the same coordinates with float weights, or None for 1.
        combiner: ``"mean"``, ``"sqrtn"`` or ``"sum"``.
        default_id: the id of rows without one, instead of zeros.
        name: name of the op.
        partition_strategy: with several tables, ``"div"`` or ``"mod"``.
        max_norm: embeddings with a larger l2 norm are scaled down to it.

    Returns:
        ``[d0, ..., dn-1, ...]``.
    """
    if embedding_weights is None or (isinstance(embedding_weights, (list, tuple)) and not embedding_weights):
        raise ValueError(
            f"Missing embedding_weights {embedding_weights}.\n"
            + errors.message("no table", "a table, or a list of tables", "pass the variable of embeddings")
        )
    tables = embedding_weights
    if hasattr(tables, "__iter__") and hasattr(tables, "_get_partitions"):
        tables = list(tables)
    ids = as_sparse(sparse_ids, "sparse_ids")
    weights = None if sparse_weights is None else as_sparse(sparse_weights, "sparse_weights")
    with name_scope(name, "embedding_lookup", [ids, weights]) as scope:
        original = ids.dense_shape
        rank = None if original._shape is None else original._shape[0]
        lead = None
        if rank != 2:  # rows are what is ahead of the last dimension
            ahead = build("Sub", build("Size", original), 1) if rank is None else rank - 1
            lead = build("Slice", original, [0], build("Pack", [ahead]) if rank is None else [ahead])
            last = build("GatherV2", original, ahead, 0)
            ids = sparse_reshape(ids, build("Pack", [build("Prod", lead, [0]), last]))
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        valid = build("GreaterEqual", ids.values, np.zeros((), ids.dtype.base.np))
        if weights is not None and combiner != "sum":
            positive = build("Greater", weights.values, np.zeros((), weights.dtype.base.np))
            valid = build("LogicalAnd", valid, positive)
        ids = sparse_retain(ids, valid)
        if weights is not None:
            weights = sparse_retain(weights, valid)
        ids, empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        result = embedding_lookup_sparse(
            tables, ids, weights, partition_strategy, None if default_id is None else scope, combiner, max_norm
        )
        if default_id is None:
            ones = [1] * (len(result._shape) - 1) if result._shape is not None else [1]
            shaped = build("Reshape", empty, [-1, *ones])
            result = build("SelectV2", shaped, build("ZerosLike", result), result, name=scope)
        if lead is None:
            if result._shape is not None:
                result.set_shape([constant_value_as_shape(original)[0], *result._shape[1:]])
            return result
        lead32 = build("Cast", lead, DstT="int32")
        tail = build("StridedSlice", build("Shape", result), [1], [0], [1], end_mask=1)
        final = build("Reshape", result, build("ConcatV2", [lead32, tail], 0))
        if rank is not None and result._shape is not None:
            final.set_shape((None,) * (rank - 1) + tuple(result._shape[1:]))
        return final
