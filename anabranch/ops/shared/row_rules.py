"""How an op is computed for many rows in one run of its kernel: what changes of its operands and attributes.

Some operands are given for ``n`` rows, stacked along a new first dimension; the others are the same for all rows. A
rule gives operands and attributes with which the op's own kernel gives, for each output, the rows' results, stacked: an
axis counts one more, a shape gets the number of rows in front. Where the kernel has no such run, a rule may give a
function of the operands (a place that differs from row to row); it raises
:class:`~anabranch.ops.shared.unchecked.Changed` for what the kernel refuses. Where there is no form it gives None, and
the op is run row by row. An op names its rule in its block (``by_rows``); one that works by element needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import spare_arrays
from anabranch.ops.shared.unchecked import Changed

Adapted = tuple[list[Any], dict[str, Any]] | Callable[..., Any] | None
"""Operands and attributes for a run over rows, or a function of the operands."""
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


def last_axis(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """An op along the last dimension of its operand, which a row must have."""
    return (operands, attrs) if operands[0].ndim > 1 else None


def same_shapes(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """Operands of one shape, and scalars."""
    ranks = {rank(value, is_rows) for value, is_rows in zip(operands, rows, strict=True)}
    if ranks == {0}:
        return operands, attrs
    if any(is_rows and value.ndim == 1 for value, is_rows in zip(operands, rows, strict=True)):
        return None  # a scalar of each row beside vectors
    count = next(len(value) for value, is_rows in zip(operands, rows, strict=True) if is_rows)
    return [
        value if is_rows or not np.ndim(value) else np.broadcast_to(value, (count, *np.shape(value)))
        for value, is_rows in zip(operands, rows, strict=True)
    ], attrs


def split(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """The axis, and the rows."""
    axis, x = operands
    return ([_axes(axis, rank(x, True)), x], attrs) if tuple(rows) == (False, True) else None


def tile(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """A number of copies that is the same for all rows."""
    x, times = operands
    if tuple(rows) != (True, False):
        return None
    return [x, np.concatenate([np.ones(1, times.dtype), times])], attrs


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
    """Indices are rows, and are looked up in the first dimension of what is the same for all, or each in its row."""
    if any(rows[2:]) or attrs.get("batch_dims") or attrs.get("bad_indices_policy") not in _REFUSED:
        return None
    axis = int(np.asarray(operands[2])) if len(operands) > 2 else 0
    if tuple(rows[:2]) == (False, True) and not axis:
        return operands, attrs
    x, indices = operands[:2]
    if tuple(rows[:2]) != (True, True) or indices.ndim != 2 or not 0 <= axis < x.ndim - 1 or x.dtype.hasobject:
        return None
    unsigned = np.dtype(f"u{indices.dtype.itemsize}")

    def take(x: Any, indices: Any, *_: Any) -> Any:
        if not indices.size or np.maximum.reduce(indices.view(unsigned), None) >= x.shape[axis + 1]:
            raise Changed
        out = spare_arrays.empty((len(x), *x.shape[1 : axis + 1], indices.shape[1], *x.shape[axis + 2 :]), x.dtype)
        for row, places, result in zip(x, indices, out, strict=True):
            row.take(places, axis, result, "clip")
        return out

    return take


_REFUSED = (None, "", "DEFAULT", "ERROR")
"""Policies by which indices out of range fail a step."""


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
    """Begin and size of each dimension: all rows in front. A begin may differ from row to row."""
    x, begin, size = operands
    if tuple(rows) == (True, False, False):
        whole = np.concatenate([[0], begin]).astype(begin.dtype), np.concatenate([[-1], size]).astype(size.dtype)
        return [x, *whole], attrs
    sizes = size.tolist()
    if tuple(rows) != (True, True, False) or len(sizes) != x.ndim - 1 or min(sizes, default=0) < 0:
        return None

    def parts(x: Any, begin: Any, _: Any) -> Any:
        if begin.shape != (len(x), len(sizes)) or (begin < 0).any() or (begin + size > x.shape[1:]).any():
            raise Changed
        out = spare_arrays.empty((len(x), *sizes), x.dtype)
        for row, starts, result in zip(x, begin.tolist(), out, strict=True):
            result[...] = row[tuple([slice(at, at + count) for at, count in zip(starts, sizes, strict=True)])]
        return out

    return parts


def pad(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Adapted:
    """Paddings of each dimension, none of the rows; another operand is what is put there."""
    x, paddings, *value = operands
    if not rows[0] or any(rows[1:]) or paddings.shape != (x.ndim - 1, 2):
        return None
    return [x, np.concatenate([np.zeros((1, 2), paddings.dtype), paddings]), *value], attrs


def with_number(fewer: int = 0) -> Rule:
    """An op that takes any number of images, and a number, which may differ from row to row.

    ``fewer`` dimensions than those of the images have what it is combined with.
    """

    def rule(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Any:
        x, number = operands
        if not rows[0]:
            return None
        return [x, number.reshape(-1, *[1] * (x.ndim - 1 - fewer)) if rows[1] else number], attrs

    return rule
