"""Rows of a ragged tensor, picked by their numbers."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph.build import build
from anabranch.ragged import row_partitions as parts
from anabranch.ragged.ragged_tensor import RaggedTensor, nrows_of


def gather_rows(params: Any, indices: Any) -> Any:
    """Rows ``indices``, a vector, of a ragged or dense tensor."""
    if not isinstance(params, RaggedTensor):
        return build("GatherV2", params, indices, 0)
    lengths = build("GatherV2", parts.lengths_of(params.row_splits), indices, 0)
    splits = parts.splits_of_lengths(lengths)
    rowids = parts.rowids_of(splits)
    starts = build("GatherV2", params.row_splits, build("GatherV2", indices, rowids, 0), 0)
    values = gather_rows(params.values, starts + parts.places_in_rows(splits, rowids))
    return RaggedTensor.from_row_splits(values, splits, validate=False)


def rows_of(value: RaggedTensor, key: slice) -> RaggedTensor:
    """Rows by a slice."""
    kind = value.row_splits.dtype.base
    return gather_rows(value, parts.counted(nrows_of(value, kind), kind)[key])


def row_of(value: RaggedTensor, index: Any) -> Any:
    """One row."""
    starts, limits = value.row_splits[:-1][index], value.row_splits[1:][index]
    if isinstance(value.values, RaggedTensor):
        return rows_of(value.values, slice(starts, limits))
    return value.values[starts:limits]
