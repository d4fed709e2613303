"""Optional values in the interpreted tier: a tuple of values, or nothing.

An optional is the value of a scalar variant tensor. A conditional uses it for what only one of its branches computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class HostOptional:
    """A tuple of values, or None in :attr:`values`."""

    __slots__ = ("values",)
    shape = ()
    ndim = 0
    size = 1
    dtype = np.dtype(object)

    def __init__(self, values: Sequence[Any] | None = None) -> None:
        self.values = None if values is None else tuple(values)

    def zeros(self) -> HostOptional:
        """The same with zeros in place of the values."""
        return HostOptional(None if self.values is None else [zeros_like(value) for value in self.values])

    def plus(self, other: HostOptional) -> HostOptional:
        """The sum of two optionals; one that has no values counts as zeros."""
        if self.values is None or other.values is None:
            return other if self.values is None else self
        return HostOptional([plus(a, b) for a, b in zip(self.values, other.values, strict=True)])

    def __repr__(self) -> str:
        return "HostOptional()" if self.values is None else f"HostOptional({list(self.values)!r})"


def zeros_like(value: Any) -> Any:
    """Zeros like an array, or like an object of a variant tensor, which knows its own (``value.zeros()``)."""
    return value.zeros() if hasattr(value, "zeros") else np.zeros_like(value)


def plus(a: Any, b: Any) -> Any:
    """The sum of two arrays, or of two objects of variant tensors, which know their own (``a.plus(b)``)."""
    return a.plus(b) if hasattr(a, "plus") else np.asarray(a + b)
