"""Activations of float arrays of one dimension and more in NumPy, with one array besides the operands.

Both short ways of the host run them: of ops whose shapes stay (:mod:`~anabranch.ops.shared.unchecked`) and of those
whose sizes change (:mod:`~anabranch.ops.shared.open_forms`).
"""

from __future__ import annotations

from typing import Any

import numpy as np


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
