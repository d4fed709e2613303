"""Sums, products and the like of ragged tensors, along axes and by segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes
from anabranch.ragged import row_partitions as parts
from anabranch.ragged.arrays import expand_dims
from anabranch.ragged.ragged_tensor import RaggedTensor, as_ragged_or_tensor, nrows_of

_SEGMENTS = {
    "sum": "UnsortedSegmentSum",
    "prod": "UnsortedSegmentProd",
    "max": "UnsortedSegmentMax",
    "min": "UnsortedSegmentMin",
}
_DENSE = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "mean": "Mean", "any": "Any", "all": "All"}


# ------------------------------------------------------------------------------------------------------------ segments
def segments(how: str, data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """What slices of ``data`` with the same segment id come to, element by element.

    Args:
        how: ``"sum"``, ``"prod"``, ``"max"``, ``"min"``, ``"mean"`` or ``"sqrt_n"``.
        data: ragged or dense.
        segment_ids: of the slices; ragged if it says the segment of deeper slices, with the same rows.
        num_segments: how many segments there are.
        name: without effect on values.
    """
    del name
    data, ids = as_ragged_or_tensor(data), as_ragged_or_tensor(segment_ids)
    if how in ("mean", "sqrt_n"):
        total = segments("sum", data, ids, num_segments)
        count = segments("sum", _ones_like(data), ids, num_segments)
        if how == "sqrt_n":
            count = _flat(lambda x: build("Sqrt", x), count)
        if isinstance(total, RaggedTensor):
            return total.with_flat_values(total.flat_values / count.flat_values)
        return total / count
    if isinstance(ids, RaggedTensor):
        if not isinstance(data, RaggedTensor):
            raise ValueError(
                "segment_ids cannot be ragged for non-ragged data\n"
                + errors.message("ragged segment_ids of a dense tensor", "dense segment_ids", "segment_ids.to_tensor()")
            )
        return segments(how, data.values, ids.values, num_segments)
    if not isinstance(data, RaggedTensor):
        return build(_SEGMENTS[how], data, ids, num_segments)
    kind = data.row_splits.dtype.base
    ids = parts.cast(ids, kind)
    count = parts.cast(convert.convert_to_tensor(num_segments), kind)
    lengths = parts.lengths_of(data.row_splits)
    # A segment is as long as the longest of its rows.
    longest = build("Maximum", build("UnsortedSegmentMax", lengths, ids, count), convert.constant(0, kind))
    splits = parts.splits_of_lengths(longest)
    rowids = parts.rowids_of(data.row_splits)
    places = parts.places_in_rows(data.row_splits, rowids)
    at = build("GatherV2", splits, build("GatherV2", ids, rowids, 0), 0) + places
    values = segments(how, data.values, at, splits[-1])
    return RaggedTensor.from_row_splits(values, splits, validate=False)


def _ones_like(data: Any) -> Any:
    return _flat(lambda x: build("OnesLike", x), data)


def _flat(op: Callable[[Any], Any], value: Any) -> Any:
    return value.with_flat_values(op(value.flat_values)) if isinstance(value, RaggedTensor) else op(value)


# ---------------------------------------------------------------------------------------------------------------- axes
def reduced(how: str, input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None) -> Any:
    """What the elements of a ragged tensor along axes come to.

    Args:
        how: ``"sum"``, ``"prod"``, ``"max"``, ``"min"``, ``"mean"``, ``"any"`` or ``"all"``.
        input_tensor: ragged, or dense where it is reduced below ragged dimensions.
        axis: axis, or axes; all if None.
        keepdims: whether a reduced dimension stays, with size 1.
        name: without effect on values.
    """
    del name
    value = as_ragged_or_tensor(input_tensor)
    if isinstance(axis, (np.ndarray, list, tuple)) and np.ndim(axis) == 0:
        axis = int(np.asarray(axis))
    if not isinstance(value, RaggedTensor):
        axes = list(range(len(value.shape))) if axis is None else axis
        return build(_DENSE[how], value, axes, keep_dims=bool(keepdims))
    if axis is None:
        flat = value.flat_values
        result = build(_DENSE[how], flat, list(range(len(flat.shape))))
        if keepdims:
            for _ in value.shape:
                result = build("ExpandDims", result, 0)
        return result
    rank = len(value.shape)
    axes = [int(one) for one in (axis if isinstance(axis, (list, tuple, np.ndarray)) else [axis])]
    axes = sorted({one + rank if one < 0 else one for one in axes})
    if any(not 0 <= one < rank for one in axes):
        raise ValueError(
            f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}\n"
            + errors.message(f"axis={axis} of a ragged tensor of rank {rank}", f"{-rank} to {rank - 1}", "axis=1")
        )
    if len(axes) > 1:
        if how == "mean":
            total = reduced("sum", value, axes, keepdims)
            count = reduced("sum", _ones_like(value), axes, keepdims)
            if isinstance(total, RaggedTensor):
                return total.with_flat_values(total.flat_values / count.flat_values)
            return total / count
        inner = reduced(how, value, axes[-1], keepdims)
        return reduced(how, inner, axes[:-1], keepdims)
    (only,) = axes
    result = _along(how, value, only)
    if keepdims:
        result = expand_dims(result, only)
    return result


def _along(how: str, value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return build(_DENSE[how], value, [axis])
    if axis > 1:
        return value.with_values(_along(how, value.values, axis - 1))
    if how in ("any", "all"):
        flags = value.with_flat_values(parts.cast(value.flat_values, dtypes.int32))
        found = _along("max" if how == "any" else "min", flags, axis)
        # Of no elements, the extreme of the type: none is true, all are.
        test = ("Greater", 0) if how == "any" else ("NotEqual", 0)
        return _flat(lambda x: build(test[0], x, convert.constant(test[1], dtypes.int32)), found)
    if how == "mean":
        total, count = _along("sum", value, axis), _along("sum", _ones_like(value), axis)
        if isinstance(total, RaggedTensor):
            return total.with_flat_values(total.flat_values / count.flat_values)
        return total / count
    kind = value.row_splits.dtype.base
    if axis == 0:
        longest = parts.longest(value.row_splits)
        return segments(how, value.values, parts.places_in_rows(value.row_splits), longest)
    return segments(how, value.values, parts.rowids_of(value.row_splits), nrows_of(value, kind))
