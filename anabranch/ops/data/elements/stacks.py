"""Elements of datasets as rows of arrays: stacked, gathered from a table, joined, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import shapes, spare_arrays

Element = tuple[Any, ...]
Rows = range | np.ndarray
"""Numbers of rows, in order."""


def joined(parts: Sequence[Any]) -> Rows:
    """Rows of several parts in a row."""
    filled = [part for part in parts if len(part)]
    if len(filled) == 1 and not isinstance(filled[0], list):
        only: Rows = filled[0]
        return only
    return np.concatenate([np.asarray(part, np.int64) for part in filled]) if filled else range(0)


def gathered(column: Any, rows: Rows) -> Any:
    """Rows of a column; those in a row are not copied."""
    if isinstance(rows, range):
        return column[rows.start : rows.stop]
    if isinstance(column, np.ndarray) and column.nbytes >= spare_arrays.LEAST:
        batch = spare_arrays.empty((len(rows), *column.shape[1:]), column.dtype)
        return column.take(rows, axis=0, out=batch, mode="clip")
    return column.take(rows, axis=0)


def stacked(elements: Sequence[Element], dataset: Any) -> list[Any] | None:
    """Elements as an array for each component; None if there are none."""
    if not elements:
        return None
    batch = []
    for i, parts in enumerate(zip(*elements, strict=True)):
        first = parts[0].shape
        for part in parts:
            if part.shape != first:
                raise errors.InvalidArgumentError(
                    None,
                    dataset.op,
                    "Cannot batch tensors with different shapes in component "
                    f"{i}. First element had shape {shapes.show(first)} and element "
                    f"{next(n for n, other in enumerate(parts) if other.shape != first)} had shape "
                    f"{shapes.show(next(other.shape for other in parts if other.shape != first))}.",
                )
        batch.append(stack(parts))
    return batch


def joined_columns(parts: Sequence[Sequence[Any]], dataset: Any) -> Sequence[Any] | None:
    """Batches one behind the other, as one; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    columns = list(zip(*parts, strict=True))
    if any(part.shape[1:] != column[0].shape[1:] for column in columns for part in column):
        return stacked(all_rows(parts), dataset)
    return [np.concatenate(column) for column in columns]


def stack(parts: Sequence[Any]) -> np.ndarray:
    """Values of one shape as rows of an array."""
    first = parts[0]
    if not isinstance(first, np.ndarray | np.generic):  # datasets, optionals: objects
        array = np.empty(len(parts), object)
        array[:] = parts
        return array
    array = spare_arrays.empty((len(parts), *first.shape), first.dtype)
    for i, part in enumerate(parts):
        array[i, ...] = part
    return array


def all_rows(parts: Sequence[Sequence[Any]]) -> list[Element]:
    """The rows of several stacks, one behind the other."""
    return [element for columns in parts for element in rows_of(columns)]


def unstacked(column: np.ndarray, row: int) -> Any:
    """A row of what :func:`stack` made."""
    value = column[row, ...]
    if column.dtype != object or value.ndim or isinstance(value.item(), bytes):
        return value
    return value.item()


def rows_of(columns: Sequence[Any]) -> list[Element]:
    """The rows of arrays as elements."""
    if not columns:
        return []
    return list(zip(*[[column[row, ...] for row in range(len(column))] for column in columns], strict=True))
