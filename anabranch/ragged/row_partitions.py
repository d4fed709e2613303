"""Arithmetic on what says where rows are: splits, lengths, starts, and the number of each value's row.

All are vectors of int32 or int64. Where they are constants, what is computed of them is one too, or is folded when the
graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import dtypes


def cast(tensor: Any, kind: dtypes.DType) -> Any:
    """A tensor in a dtype; itself if it has it."""
    return tensor if tensor.dtype.base == kind else build("Cast", tensor, DstT=kind)


def constant_of(tensor: Any) -> Any:
    """The value of a tensor as an array if it is known while the graph is built."""
    return constant_value(tensor)


def joined(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Tensors one behind another."""
    return build("ConcatV2", list(tensors), axis) if len(tensors) > 1 else tensors[0]


def vector_of(scalar: Any) -> Any:
    """A vector of one element."""
    return build("ExpandDims", scalar, 0)


def size_of(tensor: Any, kind: dtypes.DType) -> Any:
    """The size of a tensor's first dimension, a constant if it is known."""
    shape = tensor._shape
    if shape and shape[0] is not None:
        return convert.constant(shape[0], kind)
    return build("Shape", tensor, out_type=kind)[0]


def counted(count: Any, kind: dtypes.DType) -> Any:
    """0, 1, ... below ``count``."""
    return build("Range", convert.constant(0, kind), count, convert.constant(1, kind))


def multiples(count: Any, step: Any) -> Any:
    """The splits of ``count`` rows of ``step`` values."""
    kind = step.dtype.base
    return counted(count + convert.constant(1, kind), kind) * step


def splits_of_lengths(lengths: Any) -> Any:
    """The splits of rows of given lengths."""
    kind = lengths.dtype.base
    splits = joined([convert.constant([0], kind), build("Cumsum", lengths, 0)])
    if lengths._shape is not None and lengths._shape[0] is not None:
        splits.set_shape([lengths._shape[0] + 1])
    return splits


def lengths_of(splits: Any) -> Any:
    """The lengths of rows."""
    return splits[1:] - splits[:-1]


def longest(splits: Any) -> Any:
    """The length of the longest row, 0 if there is none."""
    return build("Max", joined([lengths_of(splits), convert.constant([0], splits.dtype.base)]), [0])


def splits_of_rowids(rowids: Any, rows: Any) -> Any:
    """The splits of rows when the row of each value is known, which do not fall."""
    kind = rowids.dtype.base
    ones = build("OnesLike", rowids)
    lengths = build("UnsortedSegmentSum", ones, rowids, build("Maximum", rows, convert.constant(0, kind)))
    return splits_of_lengths(lengths)


def rowids_of(splits: Any) -> Any:
    """The number of the row that each value is in."""
    kind = splits.dtype.base
    rows = size_of(splits, kind) - convert.constant(1, kind)
    return repeated(counted(rows, kind), lengths_of(splits))


def repeated(values: Any, counts: Any) -> Any:
    """Each element as often as its count says."""
    kind = counts.dtype.base
    ends = build("Cumsum", counts, 0)
    total = build("Sum", counts, [0])
    places = counted(total, kind)
    # The row of a place is how many rows end at or before it.
    rows = build("UpperBound", vector_of(ends), vector_of(places), out_type=kind)[0]
    return build("GatherV2", values, rows, 0)


def places_in_rows(splits: Any, rowids: Any = None) -> Any:
    """How far each value is from the beginning of its row."""
    kind = splits.dtype.base
    rowids = rowids_of(splits) if rowids is None else rowids
    return counted(size_of(rowids, kind), kind) - build("GatherV2", splits, rowids, 0)


def last_or(vector: Any, otherwise: int) -> Any:
    """The last element of a vector that does not fall and is not below 0; ``otherwise`` if it is empty."""
    return build("Max", joined([convert.constant([otherwise], vector.dtype.base), vector[-1:]]), [0])


def row_mask(lengths: Any, columns: Any) -> Any:
    """``[rows, columns]``: whether a place is before the end of its row."""
    return build("Less", vector_of(counted(columns, lengths.dtype.base)), build("ExpandDims", lengths, 1))


def masked(tensor: Any, mask: Any) -> Any:
    """The elements ``[n, ...]`` of a tensor where a mask of its first two dimensions holds."""
    size = build("Shape", tensor)
    flat = build("Reshape", tensor, joined([convert.constant([-1], dtypes.int32), size[2:]]))
    static = tensor._shape
    if static is not None:
        flat.set_shape([None, *static[2:]])
    where = build("Where", build("Reshape", mask, [-1]))
    return build("GatherV2", flat, build("Squeeze", where, squeeze_dims=[1]), 0)


# --------------------------------------------------------------------------------------------------------------- checks
def starts_with_zero(splits: Any) -> Any:
    """Whether splits begin with 0."""
    return build("Equal", splits[0], convert.constant(0, splits.dtype.base))


def does_not_fall(vector: Any) -> Any:
    """Whether each element is at least the one before."""
    return build("All", build("LessEqual", vector[:-1], vector[1:]), [0])


def ends_with(splits: Any, count: Any) -> Any:
    """Whether the last element is a number."""
    return build("Equal", splits[-1], count)


def all_at_least_zero(vector: Any) -> Any:
    """Whether no element is negative."""
    return build("All", build("GreaterEqual", vector, convert.constant(0, vector.dtype.base)), [0])


def all_below(vector: Any, limit: Any) -> Any:
    """Whether all elements are below a number."""
    return build("All", build("Less", vector, limit), [0])


def checked(tensor: Any, checks: Sequence[tuple[Callable[[], Any], str]], factory: str = "") -> Any:
    """A tensor that is there only if conditions hold; those that are known are looked at now.

    Args:
        tensor: the tensor.
        checks: conditions, scalars, with what is wrong if one does not hold.
        factory: the factory function that asks, if one does.

    Raises:
        InvalidArgumentError: one is known not to hold.
    """
    waiting = []
    for condition, problem in checks:
        text = f"Arguments to {factory} do not form a valid RaggedTensor: {problem}" if factory else problem
        holds = condition()
        known = constant_value(holds)
        if known is None:
            waiting.append(build("Assert", holds, [text, tensor]))
        elif not np.all(known):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{text}\n" + errors.message(f"{constant_value(tensor)}", "what forms rows", "tf.ragged.constant"),
            )
    waiting = [one for one in waiting if one is not None]
    if not waiting:
        return tensor
    with current_builder().control_dependencies(waiting):
        return build("Identity", tensor)


def as_partition(value: Any, name: str, dtype: dtypes.DType | None = None) -> Any:
    """Numbers that say where rows are: int64, or int32 if they are that already."""
    known = getattr(value, "dtype", None)
    if known is not None and dtypes.as_dtype(known).base == dtypes.int32:
        tensor = convert.convert_to_tensor(value, dtypes.int32, name)
    else:
        tensor = convert.convert_to_tensor(value, dtype or dtypes.int64, name)
    if dtype is not None and tensor.dtype.base != dtype:
        tensor = cast(tensor, dtype)
    tensor.shape.assert_has_rank(1)
    return tensor
