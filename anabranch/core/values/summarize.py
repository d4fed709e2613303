"""Values as short texts: what assertions, failed checks and print ops show of a tensor.

Two layouts, both TensorFlow's. :func:`summarize` shows the first ``limit`` elements (``[0 1 2...]`` without the outer
brackets); :func:`summarize_ends` shows ``limit`` elements at both ends of each dimension, over several lines.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

_ESCAPES = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}


def _escaped(item: Any) -> str:
    data = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape")
    safe = "".join(
        _ESCAPES.get(byte) or (f"\\{byte:03o}" if byte < 0x20 or byte == 0x7F else chr(byte)) for byte in data
    )
    return safe.encode("latin-1").decode("utf-8", "replace")


def _float(item: Any, digits: int, exact: int) -> str:
    short = f"{float(item):.{digits}g}"
    return short if type(item)(float(short)) == item or item != item else f"{float(item):.{exact}g}"


def element(item: Any, quoted: bool = False) -> str:
    """One element: the fewest digits that tell a float from its neighbours, 1 and 0 for bools, strings escaped."""
    if isinstance(item, (bytes, str)):
        return f'"{_escaped(item)}"' if quoted else _escaped(item)
    if isinstance(item, (bool, np.bool_)):
        return "1" if item else "0"
    if isinstance(item, (np.float16, ml_dtypes.bfloat16)):
        item = np.float32(item)
    if isinstance(item, np.float32):
        return _float(item, 6, 9)
    if isinstance(item, float):  # np.float64 is one
        return _float(np.float64(item), 15, 17)
    if isinstance(item, (complex, np.complexfloating)):
        return f"{element(item.real)}{'' if str(item.imag).startswith(('-', 'n')) else '+'}{element(item.imag)}j"
    return str(item)


def summarize(value: Any, limit: int) -> str:
    """The first ``limit`` elements of ``value`` (all if negative), rows in brackets, ``...`` for those left out."""
    array = np.asarray(value, object) if isinstance(value, (bytes, str)) else np.asarray(value)
    count = array.size if limit < 0 else min(limit, array.size)
    if array.ndim == 0:
        return element(array[()]) if count else "..."
    flat = array.reshape(-1)
    parts: list[str] = []
    _rows(flat, array.shape, 0, count, [0], parts)
    return "".join(parts) + ("..." if array.size > count else "")


def _rows(flat: Any, shape: tuple[int, ...], axis: int, limit: int, position: list[int], parts: list[str]) -> None:
    if position[0] >= limit:
        return
    if axis == len(shape) - 1:
        for i in range(shape[axis]):
            if position[0] >= limit:
                if axis:
                    parts.append("...")
                return
            parts.append((" " if i else "") + element(flat[position[0]]))
            position[0] += 1
        return
    for _ in range(shape[axis]):
        if position[0] >= limit:
            return
        parts.append("[")
        _rows(flat, shape, axis + 1, limit, position, parts)
        parts.append("]")


def summarize_ends(value: Any, limit: int) -> str:
    """``value`` with ``limit`` elements at both ends of each dimension (all if negative), strings in quotes."""
    array = np.asarray(value, object) if isinstance(value, (bytes, str)) else np.asarray(value)
    return _ends(array, 0, array.ndim, limit if limit >= 0 else max(array.shape, default=1))


def _ends(array: Any, axis: int, rank: int, limit: int) -> str:
    if axis == rank:
        return element(array[()], quoted=True)
    gap = " " if axis == rank - 1 else "\n" * (rank - axis - 1) + " " * (axis + 1)
    size = array.shape[0]
    shown = [_ends(array[i, ...], axis + 1, rank, limit) for i in range(min(limit, size))]
    if size > 2 * limit:
        shown.append("...")
    shown += [_ends(array[i, ...], axis + 1, rank, limit) for i in range(max(limit, size - limit), size)]
    return f"[{gap.join(shown)}]"
