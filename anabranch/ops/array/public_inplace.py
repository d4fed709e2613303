"""Updates of rows: what TensorFlow calls in-place operations.

Here a tensor never changes: each function gives a new tensor, and the buffer is reused where nobody else reads it. So
``alias_inplace_add(x, i, v)`` differs from TensorFlow's for a program that reads ``x`` afterwards and counts on the
change.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes


def _updated(op_type: str, x: Any, i: Any, v: Any) -> Any:
    x = convert.convert_to_tensor(x)
    v = convert.convert_to_tensor(v, x.dtype.base)
    if i is None:  # the whole tensor, as one row
        row = build(op_type, build("Reshape", x, [1, -1]), [0], build("Reshape", v, [1, -1]))
        return build("Reshape", row, build("Shape", x))
    i = convert.convert_to_tensor(i)
    if i.dtype.base is not dtypes.int32:
        i = build("Cast", i, DstT=dtypes.int32)
    if i.shape.ndims == 0:
        return build(op_type, x, build("Reshape", i, [1]), build("ExpandDims", v, 0))
    return build(op_type, x, i, v)


def alias_inplace_update(x: Any, i: Any, v: Any) -> Any:
    """``x`` with ``x[i, :] = v``.

    Args:
        x: tensor of rank 1 or more.
        i: None for all of ``x``; a number of a row; or ``[n]`` numbers of rows.
        v: what to write: like ``x``, like a row, or ``[n, ...]``.
    """
    return _updated("InplaceUpdate", x, i, v)


def alias_inplace_add(x: Any, i: Any, v: Any) -> Any:
    """``x`` with ``x[i, :] += v``; arguments are those of :func:`alias_inplace_update`."""
    return _updated("InplaceAdd", x, i, v)


def alias_inplace_sub(x: Any, i: Any, v: Any) -> Any:
    """``x`` with ``x[i, :] -= v``; arguments are those of :func:`alias_inplace_update`."""
    return _updated("InplaceSub", x, i, v)


inplace_update = alias_inplace_update
inplace_add = alias_inplace_add
inplace_sub = alias_inplace_sub


def empty_like(x: Any, init: bool | None = None) -> Any:
    """A tensor of the shape and dtype of ``x``; what it holds is not defined unless ``init``: zeros."""
    x = convert.convert_to_tensor(x)
    return build("Empty", build("Shape", x), dtype=x.dtype.base, init=bool(init))


def empty(shape: Any, dtype: Any, init: bool = False, name: str | None = None) -> Any:
    """A tensor of the shape ``shape``; what it holds is not defined unless ``init``: zeros."""
    return build("Empty", convert.convert_to_tensor(shape, dtypes.int32), dtype=dtype, init=init, name=name)
