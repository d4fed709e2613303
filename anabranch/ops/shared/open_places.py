"""Forms of kernels that look elements up by their places, or say where they are; see ``open_forms.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.ops.shared import row_sums
from anabranch.ops.shared.open_forms import FLOATS, MOST, MOVED, PLAIN, Form, Maker, room, takes_sizes
from anabranch.ops.shared.unchecked import Changed

_INTEGERS = frozenset(np.dtype(name) for name in ("int32", "int64"))


def _rows_of(indices: Any, sizes: tuple[int, ...]) -> Any:
    """The numbers of the slices that the last dimension of indices names, where all dimensions before are one."""
    if indices.shape[-1] != len(sizes) or not indices.size or math.prod(sizes) > MOST:
        raise Changed
    unsigned = np.dtype(f"u{indices.dtype.itemsize}")
    rows: Any = None
    for axis, size in enumerate(sizes):
        column = indices[..., axis]
        if np.maximum.reduce(column.view(unsigned), None) >= size:
            raise Changed
        rows = column if rows is None else rows * size + column
    return rows


def gather_nd(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Slices that are in range."""
    params, indices = operands
    if params.dtype not in PLAIN or indices.dtype not in _INTEGERS or not indices.ndim or attrs["bad_indices_policy"]:
        return None
    depth = indices.shape[-1]
    if not 0 < depth <= params.ndim:
        return None

    def pick(params: Any, indices: Any) -> Any:
        shape = params.shape
        rows = _rows_of(indices, shape[:depth])
        return params.reshape((-1, *shape[depth:])).take(rows, 0)

    return pick


@takes_sizes(2)
def scatter_nd(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Sums of slices that are in range."""
    indices, updates, shape = operands
    if updates.dtype not in PLAIN - {np.dtype(bool)} or indices.dtype not in _INTEGERS or not indices.ndim:
        return None
    depth, rank, dtype = indices.shape[-1], np.size(shape), updates.dtype
    if attrs["bad_indices_policy"] or not 0 < depth <= rank:
        return None

    def put(indices: Any, updates: Any, shape: tuple[int, ...]) -> Any:
        if len(shape) != rank or min(shape) < 1 or math.prod(shape) > MOST:
            raise Changed
        if updates.shape != (*indices.shape[:-1], *shape[depth:]):
            raise Changed
        rows = _rows_of(indices, shape[:depth]).ravel()
        out = np.zeros((math.prod(shape[:depth]), *shape[depth:]), dtype)
        row_sums.add_to_rows(out, rows, updates.reshape((len(rows), *shape[depth:])))
        return out.reshape(shape)

    return put


def place_of(function: Any, reduce: Any) -> Maker:
    """The maker of an op that says where the greatest or least element along an axis is, which a form is for."""

    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        x, axis = operands
        out = attrs["output_type"].np
        if x.dtype not in FLOATS | _INTEGERS or np.size(axis) != 1 or not -x.ndim <= int(np.ravel(axis)[0]) < x.ndim:
            return None
        along = int(np.ravel(axis)[0])
        limits = np.finfo(x.dtype) if x.dtype in FLOATS else None
        worst = None if limits is None else (limits.min if reduce is np.maximum else limits.max)

        def place(x: Any, _: Any) -> Any:
            if not x.size:
                raise Changed
            if worst is not None:  # NaN, and infinity that is worst, are no better than the worst number
                best = reduce.reduce(x, along)
                if not np.all(best > worst if reduce is np.maximum else best < worst):
                    raise Changed
            return np.asarray(function(x, along), out)

        place.fixes = (1,)  # type: ignore[attr-defined]
        return place

    return make


@takes_sizes(1)
def one_hot(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Along the last dimension."""
    indices, depth, on, off = operands
    if indices.dtype not in _INTEGERS or on.dtype not in PLAIN or on.ndim or off.ndim or depth.ndim:
        return None
    if attrs["axis"] not in (-1, indices.ndim):
        return None
    dtype = indices.dtype

    def spread(indices: Any, depth: tuple[int, ...], on: Any, off: Any) -> Any:
        if depth[0] < 0 or indices.size * depth[0] > MOST:
            raise Changed
        return np.where(indices[..., None] == np.arange(depth[0], dtype=dtype), on, off)

    return spread


@takes_sizes(1)
def transpose(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """NumPy refuses what is not a permutation, but for places that count from the end."""

    def turned(x: Any, perm: tuple[int, ...]) -> Any:
        if min(perm, default=0) < 0:
            raise Changed
        return x.transpose(perm)

    return turned if operands[0].dtype in PLAIN else None


def gather(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Slices of a dimension that a form is for."""
    params, indices, *rest = operands
    if params.dtype not in MOVED or not params.ndim or attrs.get("batch_dims", 0):
        return None
    if rest and (np.size(rest[0]) != 1 or not -params.ndim <= int(np.ravel(rest[0])[0]) < params.ndim):
        return None
    axis = int(np.ravel(rest[0])[0]) % params.ndim if rest else 0
    unsigned = np.dtype(f"u{indices.dtype.itemsize}")

    def slices(params: Any, indices: Any, *_: Any) -> Any:
        if not indices.size or np.maximum.reduce(indices.view(unsigned), None) >= params.shape[axis]:
            raise Changed
        return params.take(indices, axis)

    slices.fixes = (2,) if rest else ()  # type: ignore[attr-defined]
    return slices


def unsorted_sum(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Sums of rows by a vector of numbers."""
    data, ids, count = operands
    if data.dtype not in PLAIN or data.dtype == bool or ids.ndim != 1 or count.ndim:
        return None
    unsigned = np.dtype(f"u{ids.dtype.itemsize}")

    def sums(data: Any, ids: Any, count: Any) -> Any:
        rows = int(count)
        if len(data) != len(ids) or not len(ids) or rows < 0:
            raise Changed
        if np.maximum.reduce(ids.view(unsigned)) >= rows:
            raise Changed
        out = np.zeros(room((rows, *data.shape[1:])), data.dtype)
        row_sums.add_to_rows(out, ids, data)
        return out

    return sums
