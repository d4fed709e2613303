"""Sparse tensors of ids: as indicators, joined with values, without what a mask names."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor, as_sparse
from anabranch.core.values import dtypes
from anabranch.ops.sparse.public import sparse_reorder, sparse_tensor_to_dense


@public("sparse_to_indicator", "sparse.to_indicator")
def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """Ids in the last dimension as bools ``[..., vocab_size]``: whether each id occurs.

    Args:
        sp_input: sparse int32 or int64 ids below ``vocab_size``.
        vocab_size: how many ids there are.
        name: name of the op.
    """
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [sparse]) as scope:
        ones = build("Fill", build("Shape", sparse.values), np.array(True))
        merged = sparse_merge(sparse, SparseTensor(sparse.indices, ones, sparse.dense_shape), vocab_size)
        # An id that occurs twice is as good as one that occurs once.
        return sparse_tensor_to_dense(merged, False, validate_indices=False, name=scope)


@public("sparse_merge", "sparse.merge")
def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """Ids and values in two sparse tensors as one whose last dimension is the ids.

    Args:
        sp_ids: sparse int32 or int64 ids, or a list of those (one for each new dimension).
        sp_values: sparse values at the same coordinates.
        vocab_size: size of the new dimension, or a list of sizes.
        name: name of the op.
        already_sorted: whether the ids of each row are known to be in order.
    """
    given: list[Any]
    if not isinstance(sp_ids, (list, tuple)) or hasattr(sp_ids, "_fields"):
        given = [sp_ids]
        if isinstance(vocab_size, (list, tuple)):
            raise TypeError(
                f"vocab_size has to be a Tensor or Python int. Found {type(vocab_size)}\n"
                + errors.message(f"vocab_size={vocab_size}", "one size for one SparseTensor", "sp_ids=[ids]")
            )
        sizes: list[Any] = [vocab_size]
    else:
        given = list(sp_ids)
        if not isinstance(vocab_size, (list, tuple)):
            raise TypeError(
                f"vocab_size has to be a list of Tensors or Python ints. Found {type(vocab_size)}\n"
                + errors.message(f"vocab_size={vocab_size}", "a list of the length of sp_ids", "[100, 200]")
            )
        sizes = list(vocab_size)
    if len(given) != len(sizes):
        raise ValueError(
            errors.message(
                f"{len(given)} sp_ids, {len(sizes)} sizes",
                "one size for each of sp_ids",
                "vocab_size=[100, 200], one for each",
            )
        )
    ids_list = [as_sparse(ids, "sp_ids") for ids in given]
    values = as_sparse(sp_values, "sp_values")
    with name_scope(name, "SparseMerge", [*ids_list, values]):
        columns = []
        for ids in ids_list:
            numbers = ids.values if ids.dtype.base == dtypes.int64 else build("Cast", ids.values, DstT="int64")
            columns.append(build("ExpandDims", numbers, 1))
        own = ids_list[0]
        lead = build("StridedSlice", own.indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
        indices = build("ConcatV2", [lead, *columns], 1)
        lead_shape = build("StridedSlice", own.dense_shape, [0], [-1], [1], begin_mask=1)
        tail = build("Pack", [convert.convert_to_tensor(_as_int64(size), dtypes.int64) for size in sizes])
        merged = SparseTensor(indices, values.values, build("ConcatV2", [lead_shape, tail], 0))
        return merged if already_sorted else sparse_reorder(merged)


def _as_int64(size: Any) -> Any:
    if isinstance(size, Tensor) and size.dtype.base != dtypes.int64:
        return build("Cast", size, DstT="int64")
    return size


@public("sparse_mask", "sparse.mask")
def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """The slices of an ``IndexedSlices`` without those at ``mask_indices``."""
    with name_scope(name, "sparse_mask", [a, mask_indices]) as scope:
        kept_rows, where = build("ListDiff", a.indices, convert.convert_to_tensor(mask_indices, a.indices.dtype.base))
        return IndexedSlices(build("GatherV2", a.values, where, 0, name=scope), kept_rows, a.dense_shape)
