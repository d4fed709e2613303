"""How an op is computed for many rows in one run of its kernel: what changes of its operands and attributes.

Some operands are given for ``n`` rows, stacked along a new first dimension; the others are the same for all rows. A
rule gives operands and attributes with which the op's own kernel gives, for each output, the rows' results, stacked: an
axis counts one more, a shape gets the number of rows in front. Where there is no such form it gives None, and the op is
run row by row. An op names its rule in its block (``by_rows``); one that works by element needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Adapted = tuple[list[Any], dict[str, Any]] | None
"""Operands and attributes for a run over rows."""
Rule = Callable[[list[Any], Sequence[bool], dict[str, Any]], Adapted]


def rank(value: Any, is_rows: bool) -> int:
    """The rank of an operand of one row."""
    return int(np.ndim(value)) - is_rows


def by_element(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Operands that broadcast: those of lower rank get dimensions behind the rows."""
    most = max(rank(value, is_rows) for value, is_rows in zip(operands, rows, strict=True))
    return [
        value.reshape(value.shape[0], *[1] * (most - value.ndim + 1), *value.shape[1:])
        if is_rows and value.ndim <= most
        else value
        for value, is_rows in zip(operands, rows, strict=True)
    ], attrs


def as_it_is(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """An op whose first operand may have any shape, which comes first in the results; the others are parameters."""
    return (operands, attrs) if not any(rows[1:]) else None


def _axes(value: Any, axis_rank: int) -> np.ndarray:
    axes = np.asarray(value)
    return np.where(axes < 0, axes + axis_rank, axes).astype(axes.dtype) + axes.dtype.type(1)


def axes_behind(extra: int = 0) -> Rule:
    """The second operand has axes of the first, of whose rank and ``extra`` they are."""

    def rule(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Any:
        x, axes = operands
        return ([x, _axes(axes, rank(x, True) + extra)], attrs) if tuple(rows) == (True, False) else None

    return rule


def reshape(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """A shape that is the same for all rows."""
    x, shape = operands
    if tuple(rows) != (True, False) or not x.size:
        return None
    shape = np.asarray(shape)
    return [x, np.concatenate([np.array([len(x)], shape.dtype), shape])], attrs


def transpose(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """An order of dimensions, behind which the rows stay in front."""
    x, order = operands
    if tuple(rows) != (True, False):
        return None
    order = np.asarray(order)
    return [x, np.concatenate([np.zeros(1, order.dtype), _axes(order, rank(x, True))])], attrs


def squeeze(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """Dimensions by their numbers; where none are named, those that have size 1 in a row."""
    (x,) = operands
    dims = attrs["squeeze_dims"] or [i for i, size in enumerate(x.shape[1:]) if size == 1]
    if not dims:
        return None
    return [x], {**attrs, "squeeze_dims": tuple(int(axis) for axis in _axes(dims, rank(x, True)))}


def new_axis(of_first: bool) -> Rule:
    """An attribute ``axis`` says where a new dimension goes; ``of_first``: only the first operand may be rows."""

    def rule(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Any:
        if of_first and any(rows[1:]):
            return None
        axis = attrs["axis"]
        changed = {**attrs, "axis": axis + 1 if axis >= 0 else axis}
        return (operands if of_first else _stacked(operands, rows)), changed

    return rule


def concat(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """Values, and the axis as the last operand."""
    *values, axis = operands
    if rows[-1]:
        return None
    return [*_stacked(values, rows[:-1]), _axes(axis, rank(values[0], rows[0]))], attrs


def _stacked(operands: Sequence[Any], rows: Sequence[bool]) -> list[Any]:
    """All operands as rows."""
    count = next(len(value) for value, is_rows in zip(operands, rows, strict=True) if is_rows)
    return [
        value if is_rows else np.broadcast_to(value, (count, *np.shape(value)))
        for value, is_rows in zip(operands, rows, strict=True)
    ]


def gather(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """Indices are rows, and are looked up in the first dimension of what is the same for all."""
    if tuple(rows[:2]) != (False, True) or any(rows[2:]) or attrs.get("batch_dims"):
        return None
    if len(operands) > 2 and int(np.asarray(operands[2])):
        return None
    return operands, attrs


def strided_slice(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """A slice of all rows in front; an ellipsis moves on by one like the other places."""
    if tuple(rows) != (True, False, False, False):
        return None
    x, begin, end, strides = operands
    ahead = [
        np.concatenate([np.array([first], np.asarray(v).dtype), np.asarray(v)])
        for first, v in ((0, begin), (0, end), (1, strides))
    ]
    masks = {name: attrs[name] << 1 for name in attrs if name.endswith("_mask")}
    masks["begin_mask"] |= 1
    masks["end_mask"] |= 1
    return [x, *[part.astype(begin.dtype) for part in ahead]], {**attrs, **masks}


def slices(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """Begin and size of each dimension: all rows in front."""
    if tuple(rows) != (True, False, False):
        return None
    x, begin, size = operands
    return [x, np.concatenate([[0], begin]).astype(begin.dtype), np.concatenate([[-1], size]).astype(size.dtype)], attrs
