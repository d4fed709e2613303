"""Sums of rows on the host, which rows are added up to which, and writes of rows.

Policy. NumPy has no such sum: `ufunc.at` and `reduceat` take an inner loop for each element or row, ten times what the
additions take. It is a product with a sparse matrix, entry by entry in their order, which SciPy has in compiled code.
SciPy's classes look at their parts for longer than a small product takes, so what is called here is the code beneath
them. Nothing there looks at indices: callers have checked that they are in range. What has no compiled code (floats of
two bytes, bools, objects), and sums of complex numbers, of which one times a number is not always that number, are
NumPy's.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np


@functools.cache
def _compiled() -> Any:
    """SciPy's products, whose import takes an eighth of a second."""
    from scipy.sparse import _sparsetools

    return _sparsetools


def _is_compiled(data: np.ndarray, kinds: str = "fiu") -> bool:
    return data.dtype.kind in kinds and data.dtype.itemsize > 2 and data.dtype.isnative


@functools.cache
def _of_length(length: int, dtype: np.dtype, counts: bool) -> np.ndarray:
    """The numbers from 0, or ones, read-only: every sum takes a part of them."""
    made = np.arange(length, dtype=dtype) if counts else np.ones(length, dtype)
    made.setflags(write=False)
    return made


def _series(count: int, dtype: np.dtype, counts: bool) -> np.ndarray:
    if count > _LONGEST_KEPT:
        return _of_length.__wrapped__(count, dtype, counts)
    return _of_length(max(64, 1 << (count - 1).bit_length()), dtype, counts)[:count]


_LONGEST_KEPT = 1 << 17
_INTEGERS = frozenset([np.dtype(np.int32), np.dtype(np.int64)])


def counted_starts(ids: np.ndarray, rows: int) -> np.ndarray:
    """Where the run of each number of ``[0, rows)`` begins in the sorted ``ids``, and where the last one ends."""
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(ids, minlength=rows), out=starts[1:])
    return starts


_INT64 = np.dtype(np.int64)


def _positions(indices: np.ndarray) -> np.ndarray:
    return indices.astype(np.int64, copy=False)


def sums_of_runs(data: np.ndarray, indices: np.ndarray | None, starts: np.ndarray) -> np.ndarray | None:
    """Row ``i`` is the sum of the rows ``data[indices[starts[i]:starts[i + 1]]]``; of ``data`` itself without indices.

    None if it is not a sum for compiled code.
    """
    if not _is_compiled(data):
        return None
    total = np.zeros((len(starts) - 1, *data.shape[1:]), data.dtype)
    if total.size and data.size:
        picked = _series(len(data), _INT64, True) if indices is None else _positions(indices)
        ones = _series(len(picked), data.dtype, False)
        width = data.size // len(data)
        _compiled().csr_matvecs(len(total), len(data), width, starts, picked, ones, data.ravel(), total.ravel())
    return total


def add_to_rows(total: np.ndarray, places: np.ndarray, data: np.ndarray) -> None:
    """Add row ``i`` of ``data`` to row ``places[i]`` of ``total``, in order; both have one dtype, rows of one shape."""
    if not _is_compiled(data) or not total.flags.c_contiguous:
        np.add.at(total, places, data)
    elif total.size and data.size:
        _add_products(total, places, _series(len(places), data.dtype, False), data)


def product(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, dense: np.ndarray, height: int) -> np.ndarray:
    """A sparse matrix of ``height`` rows times a dense one, entry by entry in their order."""
    total = np.zeros((height, dense.shape[1]), dense.dtype)
    if not _is_compiled(dense, "fiuc"):
        np.add.at(total, rows, values[:, None] * dense[columns])
    elif total.size and len(rows):
        if (rows[1:] >= rows[:-1]).all():
            width, starts = dense.shape[1], counted_starts(rows, height)
            parts = starts, _positions(columns), values, dense.ravel(), total.ravel()
            _compiled().csr_matvecs(height, len(dense), width, *parts)
        elif (columns[1:] >= columns[:-1]).all():  # the transpose of such a matrix
            width, starts = dense.shape[1], counted_starts(columns, len(dense))
            parts = starts, _positions(rows), values, dense.ravel(), total.ravel()
            _compiled().csc_matvecs(height, len(dense), width, *parts)
        else:
            _add_products(total, rows, values, dense.take(columns, axis=0))
    return total


def _add_products(total: np.ndarray, places: np.ndarray, factors: np.ndarray, data: np.ndarray) -> None:
    count = len(places)
    if places.dtype not in _INTEGERS:
        places = places.astype(np.int64)
    parts = _series(count + 1, places.dtype, True), places, factors, data.ravel(), total.ravel()
    _compiled().csc_matvecs(len(total), count, data.size // count, *parts)


def add_scaled_rows(
    total: np.ndarray, places: np.ndarray, factors: np.ndarray, data: np.ndarray, counts: np.ndarray
) -> None:
    """Add rows of ``data``, times ``factors``, to ``counts`` rows of ``total`` each: those at the next ``places``.

    All but ``places`` and ``counts`` are floats of one dtype; the sum of ``counts`` says how many elements two have.
    """
    if total.size and data.size:
        places, factors = np.ascontiguousarray(places).reshape(-1), np.ascontiguousarray(factors).reshape(-1)
        starts = np.zeros(len(data) + 1, places.dtype)
        np.cumsum(counts, out=starts[1:])
        parts = starts, places, factors, data.ravel(), total.ravel()
        _compiled().csc_matvecs(len(total), len(data), data.shape[1], *parts)


def write_rows(array: np.ndarray, places: np.ndarray, rows: np.ndarray) -> None:
    """``array[places] = rows``, in order; places are in range. Rows as one element each take half of NumPy's time."""
    if len(places) >= _LEAST_ROWS and array.ndim > 1 and places.ndim == 1 and rows.shape[1:] == array.shape[1:]:
        size = array.itemsize * math.prod(array.shape[1:])
        plain = array.dtype == rows.dtype and not array.dtype.hasobject and array.flags.c_contiguous
        if plain and rows.flags.c_contiguous and 8 <= size <= _LARGEST_ROW and len(rows) == len(places):
            as_one = np.dtype((np.void, size))
            array.reshape(-1).view(as_one).put(places, rows.reshape(-1).view(as_one), "clip")
            return
    array[places] = rows


_LEAST_ROWS = 256
_LARGEST_ROW = 256
"""Bytes beyond which copying them is all that counts."""


def is_within(indices: Any, limit: int) -> bool:
    """Whether all integers of an array on the host are in ``[0, limit)``."""
    if indices.dtype.kind == "i":  # a negative one is larger than any limit
        indices = indices.view(f"u{indices.dtype.itemsize}")
    return not indices.size or bool(np.maximum.reduce(indices, None) < limit)


def are_distinct(indices: np.ndarray) -> bool:
    """Whether no two integers of a vector are equal."""
    ranked = np.sort(indices)
    return bool((ranked[1:] != ranked[:-1]).all())
