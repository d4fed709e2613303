"""Widening of two-byte floats: kernels that sum or exponentiate compute them in float32 and round once."""

from __future__ import annotations

from typing import Any

import numpy as np

_HALVES = frozenset(["float16", "bfloat16"])


def is_half(dtype: Any) -> bool:
    """Whether ``dtype`` (a NumPy dtype) is a float of two bytes."""
    return dtype.itemsize == 2 and dtype.name in _HALVES


def widen(x: Any) -> Any:
    """``x`` in float32 if it is a float of two bytes, unchanged otherwise; works on arrays of both tiers."""
    return x.astype(np.float32) if is_half(x.dtype) else x


def constant(x: Any, value: float | int) -> Any:
    """``value`` as a scalar of the dtype of ``x``, so that no namespace promotes the result."""
    return x.dtype.type(value)
