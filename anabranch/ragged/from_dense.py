"""Rows of different lengths out of a dense tensor: by their lengths, by what is padding, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes
from anabranch.ragged import row_partitions as parts


def rows_of_tensor(
    cls: Any, tensor: Any, lengths: Any, padding: Any, ragged_rank: int, name: str | None, row_splits_dtype: Any
) -> Any:
    """Make a ragged tensor of class ``cls``; arguments are those of ``tf.RaggedTensor.from_tensor``."""
    kind = dtypes.as_dtype(row_splits_dtype)
    if lengths is not None and padding is not None:
        raise ValueError(
            "Specify lengths or padding, but not both\n"
            + errors.message("both", "one of the two arguments", "padding=None")
        )
    if isinstance(ragged_rank, bool) or not isinstance(ragged_rank, int):
        raise TypeError(f"ragged_rank expected int, got {ragged_rank!r}")
    if ragged_rank <= 0:
        raise ValueError(
            f"ragged_rank must be greater than 0; got {ragged_rank}\n"
            + errors.message(f"ragged_rank={ragged_rank}", "a number from 1 on", "ragged_rank=1")
        )
    with name_scope(name, "RaggedFromTensor", [tensor, lengths, padding]):
        tensor = convert.convert_to_tensor(tensor, name="tensor")
        tensor.shape.with_rank_at_least(ragged_rank + 1)
        size = parts.cast(build("Shape", tensor, out_type=kind), kind)
        static = tensor._shape
        if isinstance(lengths, (list, tuple)) and lengths and _nested_lengths(lengths):
            return _cut_by_nested_lengths(cls, tensor, lengths, kind)
        if ragged_rank > 1:
            flat = build("Reshape", tensor, parts.joined([convert.constant([-1], kind), size[ragged_rank:]]))
            result = rows_of_tensor(cls, flat, lengths, padding, 1, None, kind)
            # The dimensions outside of the innermost ragged one have equal rows.
            inner = result
            for axis in range(ragged_rank - 1, 0, -1):
                count = build("Prod", size[:axis], [0])
                splits = parts.multiples(count, size[axis])
                if static is not None and None not in static[:axis]:
                    splits.set_shape([int(np.prod(static[:axis])) + 1])
                inner = cls.from_row_splits(inner, splits, validate=False)
            return inner
        rows, columns = size[0], size[1]
        if padding is not None:
            lengths = _lengths_without_padding(tensor, padding, kind)
        if lengths is not None:
            count = parts.as_partition(lengths, "lengths", kind)
            count = build("Minimum", build("Maximum", count, convert.constant(0, kind)), columns)
            inside = parts.row_mask(count, columns)
            values = parts.masked(tensor, inside)
            return cls.from_row_lengths(values, count, validate=False)
        values = build("Reshape", tensor, parts.joined([parts.vector_of(rows * columns), size[2:]]))
        if static is not None:
            flat_size = None if None in static[:2] else static[0] * static[1]
            values.set_shape([flat_size, *static[2:]])
        splits = parts.multiples(rows, columns)
        if static is not None and static[0] is not None:
            splits.set_shape([static[0] + 1])
        return cls.from_row_splits(values, splits, validate=False)


def _nested_lengths(lengths: Sequence[Any]) -> bool:
    return isinstance(lengths[0], (list, tuple, np.ndarray, Tensor)) and all(
        np.ndim(one) == 1 if not isinstance(one, Tensor) else one.shape.ndims == 1 for one in lengths
    )


def _cut_by_nested_lengths(cls: Any, tensor: Any, lengths: Sequence[Any], kind: dtypes.DType) -> Any:
    """A tensor cut by the lengths of the rows of several dimensions."""
    result, splits = tensor, []
    for one in lengths:
        cut = rows_of_tensor(cls, result, one, None, 1, None, kind)
        splits.append(cut.row_splits)
        result = cut.values
    return cls.from_nested_row_splits(result, splits, validate=False)


def _lengths_without_padding(tensor: Any, padding: Any, kind: dtypes.DType) -> Any:
    """The length of each row of a tensor ``[rows, columns, ...]`` up to its last element that is not padding."""
    padding = convert.convert_to_tensor(padding, tensor.dtype.base, "padding")
    other = build("NotEqual", tensor, padding)
    rank = tensor.shape.ndims
    if rank is None or rank > 2:
        other = build(
            "Any", other, list(range(2, rank)) if rank is not None else build("Range", 2, build("Rank", tensor), 1)
        )
    columns = build("Shape", tensor, out_type=kind)[1]
    behind = build("Range", convert.constant(1, kind), columns + convert.constant(1, kind), convert.constant(1, kind))
    ends = parts.cast(other, kind) * behind
    zeros = build(
        "Fill",
        parts.joined([build("Shape", tensor)[:1], convert.constant([1], dtypes.int32)]),
        convert.constant(0, kind),
    )
    return build("Max", parts.joined([ends, zeros], 1), [1])
