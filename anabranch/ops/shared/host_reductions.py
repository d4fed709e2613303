"""Sums and extrema of short rows in NumPy, column by column.

Policy. A reduction over the last dimension takes NumPy's inner loop for each row: 20 to 50 nanoseconds, whatever is in
it. Softmax over ten classes, squared distances of points, gates and pairs have short rows, many of them. Their columns,
combined one after the other, are as many long loops as a row has entries. CPU-ms of 131,072 floats, NumPy's reduction
and column by column, for sums and for maxima:

=======  ============  ============
entries  sum           maximum
=======  ============  ============
2        0.75, 0.02    1.92, 0.02
4        0.42, 0.03    1.14, 0.03
8        0.24, 0.04    0.77, 0.04
16       0.14, 0.06    0.69, 0.06
32       0.07, 0.10    0.35, 0.10
=======  ============  ============

Images have as few entries, their channels, behind the dimensions that are reduced: then each channel is reduced by
itself. (Sums are nearer to the truth so, as NumPy adds up a vector in pairs, and rows one behind the other.)

Otherwise sums are added in the order in which NumPy adds the entries of a contiguous row (eight partial sums, then
their pairs), so that results are the same to the bit, and whoever reduces need not know which way is taken.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

MOST = {np.add: 16, np.maximum: 32, np.minimum: 32}
"""Entries of a row up to which its columns are combined."""
ROWS = 64
"""Rows for each entry from which on that is worth its calls."""
_DTYPES = frozenset(np.dtype(name) for name in ("float32", "float64", "int32", "int64"))


def _are_short(ufunc: Any, x: Any, axis: Any) -> bool:
    shape = x.shape
    if len(shape) < 2 or axis not in (-1, len(shape) - 1, (len(shape) - 1,), (-1,)):
        return False
    count = shape[-1]
    if not 2 <= count <= MOST[ufunc] or x.size < ROWS * count * count:
        return False
    return isinstance(x, np.ndarray) and x.dtype in _DTYPES and bool(x.flags.c_contiguous)


def _added(x: Any) -> Any:
    """The sums of rows in NumPy's order."""
    count = x.shape[-1]
    columns = [x[..., k] for k in range(count)]
    if count < 8:
        total, rest = columns[0] + columns[1], columns[2:]
    else:
        whole = count // 8 * 8
        parts = columns[:8]
        for start in range(8, whole, 8):
            parts = [part + column for part, column in zip(parts, columns[start : start + 8], strict=True)]
        while len(parts) > 1:
            parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
        total, rest = parts[0], columns[whole:]
    for column in rest:
        np.add(total, column, out=total)
    return np.add(total, 0, out=total)  # NumPy begins with 0, which a sum of negative zeros becomes


def _chosen(ufunc: Any, x: Any) -> Any:
    result = ufunc(x[..., 0], x[..., 1])
    for k in range(2, x.shape[-1]):
        ufunc(result, x[..., k], out=result)
    return result


def _few_channels(x: Any, axis: Any) -> tuple[int, int] | None:
    """The first and the last of axes behind which there is no more than a few channels; None if it is otherwise."""
    if type(axis) is not tuple or type(x) is not np.ndarray or x.ndim < 2 or not 2 <= x.shape[-1] <= MOST[np.add]:
        return None
    first, last = axis[0] % x.ndim if axis else 0, x.ndim - 2
    if tuple([a % x.ndim for a in axis]) != tuple(range(first, last + 1)) or x.dtype not in _DTYPES:
        return None
    if math.prod(x.shape[first : last + 1]) < ROWS * x.shape[-1] or not x.flags.c_contiguous:
        return None
    return first, last


def _by_channel(ufunc: Any, x: Any, first: int, keepdims: bool) -> Any:
    """The reduction of pixels channel by channel: 15 instead of 112 us for the sum of 96 x 96 x 3."""
    before, channels = x.shape[:first], x.shape[-1]
    pixels = x.reshape(*before, -1, channels)
    out = np.empty((*before, channels), x.dtype)
    for channel in range(channels):
        out[..., channel] = ufunc.reduce(pixels[..., channel], axis=-1, dtype=x.dtype)
    return out.reshape(*before, *(1,) * (x.ndim - 1 - first), channels) if keepdims else out


def _reduction(ufunc: Any) -> Callable[..., Any]:
    plain = ufunc.reduce

    def reduce(x: Any, axis: Any = -1, dtype: Any = None, out: None = None, keepdims: bool = False) -> Any:
        if dtype is not None and dtype != x.dtype:
            return plain(x, axis, dtype, None, keepdims)
        if not _are_short(ufunc, x, axis):
            axes = _few_channels(x, axis)
            return plain(x, axis, dtype, None, keepdims) if axes is None else _by_channel(ufunc, x, axes[0], keepdims)
        result = _added(x) if ufunc is np.add else _chosen(ufunc, x)
        return result[..., None] if keepdims else result

    return reduce


total = _reduction(np.add)
"""``np.add.reduce``, with its arguments up to ``keepdims``."""
greatest = _reduction(np.maximum)
"""``np.maximum.reduce``, likewise."""
least = _reduction(np.minimum)
"""``np.minimum.reduce``, likewise."""
_OWN = {np.add: total, np.maximum: greatest, np.minimum: least}


@functools.cache
def of(ufunc: Any) -> Callable[..., Any]:
    """The reduction by a function of NumPy."""
    return _OWN.get(ufunc, ufunc.reduce)
