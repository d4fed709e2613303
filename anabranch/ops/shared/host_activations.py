"""Activations of float arrays of one dimension and more in NumPy, with one array besides the operands.

Both short ways of the host run them: of ops whose shapes stay (:mod:`~anabranch.ops.shared.unchecked`) and of those
whose sizes change (:mod:`~anabranch.ops.shared.open_forms`).

What takes several passes over large arrays makes them block by block (:func:`by_blocks`): what is between two passes
stays in the caches, and no memory is asked for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BLOCK = 1 << 15
"""Elements of a block."""
LARGE = 1 << 18
"""Elements from which on blocks are worth their calls."""


def by_blocks(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """``function(first, *others)`` of arrays, which works element by element and gives what ``first`` is like."""
    alike = first.size >= LARGE and all(
        [array.shape == first.shape and array.flags.c_contiguous for array in (first, *others)]
    )
    if not alike:
        return function(first, *others)
    out = np.empty(first.shape, first.dtype)
    rows, *operands = (array.reshape(-1) for array in (out, first, *others))
    for start in range(0, first.size, BLOCK):
        part = slice(start, start + BLOCK)
        rows[part] = function(*[operand[part] for operand in operands])
    return out


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    out = np.negative(x)
    np.exp(out, out)
    np.add(out, 1, out)
    return np.divide(1, out, out)


def sigmoid_gradient(y: Any, dy: Any) -> Any:
    """``dy * y * (1 - y)`` for the value ``y`` of a sigmoid."""
    out = np.subtract(1, y)
    return np.multiply(np.multiply(dy, y), out, out)


def tanh_gradient(y: Any, dy: Any) -> Any:
    """``dy * (1 - y * y)`` for the value ``y`` of a hyperbolic tangent."""
    out = np.multiply(y, y)
    np.subtract(1, out, out)
    return np.multiply(dy, out, out)
