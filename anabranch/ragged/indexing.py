"""Rows and parts of rows of a ragged tensor: ``x[1]``, ``x[:, :2]``, ``x[..., tf.newaxis]``."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.tensor import Tensor
from anabranch.ragged import row_partitions as parts
from anabranch.ragged.arrays import expand_dims
from anabranch.ragged.ragged_tensor import RaggedTensor, is_ragged
from anabranch.ragged.rows import gather_rows, row_of, rows_of


def get_item(value: RaggedTensor, key: Any) -> Any:
    """``value[key]``: rows by number or slice; slices in ragged dimensions; numbers where no dimension is ragged.

    Raises:
        ValueError: a number in an inner ragged dimension, whose rows need not have that element.
    """
    with name_scope(None, "RaggedGetItem", [value]):
        if is_ragged(key):
            raise TypeError("Not supported: RaggedTensor as a key; use tf.ragged.boolean_mask or tf.gather")
        keys = list(key) if isinstance(key, tuple) else [key]
        dots = [i for i, one in enumerate(keys) if one is Ellipsis]
        if len(dots) > 1:
            raise ValueError("Expected at most one ellipsis\n" + errors.message("two ...", "one ellipsis", "x[..., 0]"))
        if dots:
            if value.shape.ndims is None:
                raise ValueError("Ellipsis not supported for unknown shape RaggedTensors")
            named = sum(one is not None for one in keys) - 1
            missing = value.shape.ndims - named
            if missing < 0:
                raise ValueError(f"Too many indices for RaggedTensor: {len(keys)}")
            keys[dots[0] : dots[0] + 1] = [slice(None)] * missing
        return _picked(value, keys)


def _picked(value: Any, keys: list[Any]) -> Any:
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return value[tuple(keys)]
    first, rest = keys[0], keys[1:]
    if first is None:
        return expand_dims(_picked(value, rest), 0)
    if isinstance(first, slice):
        rows = value if first == slice(None) else rows_of(value, first)
        return _within(rows, rest)
    return _picked(row_of(value, first), rest)


def _within(value: RaggedTensor, keys: list[Any]) -> Any:
    """What keys pick in all rows; the first of them is for the ragged dimension below the rows."""
    if not keys:
        return value
    first, rest = keys[0], keys[1:]
    if first is None:
        inner = _within(value, rest) if rest else value
        return expand_dims(inner, 1)
    if not isinstance(first, slice):
        raise ValueError(
            "Cannot index into an inner ragged dimension.\n"
            + errors.message(f"{first!r} in a ragged dimension", "a slice", "x[:, :1], or x.to_tensor()[:, 0]")
        )
    if first != slice(None):
        value = _sliced_rows(value, first)
    if not rest:
        return value
    below = value.values
    if isinstance(below, RaggedTensor):
        return value.with_values(_within(below, rest))
    return value.with_values(below[(slice(None), *rest)])


def _sliced_rows(value: RaggedTensor, key: slice) -> RaggedTensor:
    """A slice of each row, by Python's rules."""
    kind = value.row_splits.dtype.base
    lengths = parts.lengths_of(value.row_splits)
    step = 1 if key.step is None else key.step
    if isinstance(step, Tensor):
        raise TypeError(
            "slice strides must be integers\n" + errors.message("a tensor as a step", "an int", "x[:, ::2]")
        )
    step = int(step)
    if not step:
        raise ValueError("slice step cannot be zero")
    zero = convert.constant(0, kind)
    lowest, highest = (zero, lengths) if step > 0 else (convert.constant(-1, kind), lengths - convert.constant(1, kind))

    def bound(given: Any, otherwise: Any) -> Any:
        if given is None:
            return build("BroadcastTo", otherwise, build("Shape", lengths)) if otherwise._shape == () else otherwise
        at = parts.cast(convert.convert_to_tensor(given), kind)
        at = build("SelectV2", build("Less", at, zero), at + lengths, at + build("ZerosLike", lengths))
        return build("Minimum", build("Maximum", at, lowest), highest)

    start = bound(key.start, lowest if step > 0 else highest)
    stop = bound(key.stop, highest if step > 0 else lowest)
    numbers = build("RaggedRange", start, stop, convert.constant(step, kind), Tsplits=kind)
    splits = numbers.rt_nested_splits
    rowids = parts.rowids_of(splits)
    at = build("GatherV2", value.row_splits, rowids, 0) + numbers.rt_dense_values
    return RaggedTensor.from_row_splits(gather_rows(value.values, at), splits, validate=False)


RaggedTensor.__getitem__ = get_item  # type: ignore[misc]
