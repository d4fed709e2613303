"""Whether traces of one computation are the same: their equations, parameters and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def is_beginning(arrays: Sequence[np.ndarray]) -> bool:
    """Whether all arrays are beginnings of the first one, such as the numbers of the rows."""
    first = arrays[0]
    return all(other.ndim == first.ndim and equal(first[tuple(map(slice, other.shape))], other) for other in arrays[1:])


def equal(first: Any, second: Any) -> bool:
    """Whether two values are the same, NaN equal to itself."""
    one, other = np.asarray(first), np.asarray(second)
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def same_params(all_params: Sequence[dict[str, Any]]) -> bool:
    """Whether parameters, and jaxprs among them, are the same."""
    first = all_params[0]
    return all(
        other.keys() == first.keys() and all(same_value(first[key], other[key]) for key in first)
        for other in all_params[1:]
    )


def same_value(first: Any, second: Any) -> bool:
    """Whether two parameters are the same; jaxprs are if their equations are."""
    if first is second:
        return True
    if hasattr(first, "eqns") or hasattr(first, "jaxpr"):
        return _same_jaxpr(first, second)
    if isinstance(first, (tuple, list)) and isinstance(second, (tuple, list)):
        return len(first) == len(second) and all(same_value(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, (np.ndarray, np.generic)):
        return isinstance(second, (np.ndarray, np.generic)) and equal(first, second)
    return bool(first == second) or (callable(first) and callable(second) and type(first) is type(second))


def _same_jaxpr(first: Any, second: Any) -> bool:
    if hasattr(first, "consts") and not same_value(tuple(first.consts), tuple(second.consts)):
        return False
    one, other = getattr(first, "jaxpr", first), getattr(second, "jaxpr", second)
    if len(one.eqns) != len(other.eqns):
        return False
    names: dict[Any, Any] = {}

    def alike(a: Any, b: Any) -> bool:
        if hasattr(a, "val") or hasattr(b, "val"):
            return hasattr(a, "val") and hasattr(b, "val") and equal(a.val, b.val)
        return names.setdefault(a, b) is b and a.aval == b.aval

    pairs = [*zip(one.invars, other.invars, strict=False), *zip(one.constvars, other.constvars, strict=False)]
    if len(one.invars) != len(other.invars) or not all(alike(a, b) for a, b in pairs):
        return False
    for a, b in zip(one.eqns, other.eqns, strict=True):
        if a.primitive is not b.primitive or len(a.invars) != len(b.invars) or len(a.outvars) != len(b.outvars):
            return False
        if not all(alike(x, y) for x, y in zip(a.invars, b.invars, strict=True)):
            return False
        if not all(alike(x, y) for x, y in zip(a.outvars, b.outvars, strict=True)):
            return False
        if not same_params([a.params, b.params]):
            return False
    return all(alike(a, b) for a, b in zip(one.outvars, other.outvars, strict=True))
