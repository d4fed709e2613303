"""``tf.keras.constraints``: what a weight is brought back to after each update."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1 import state
from anabranch.keras.v1.objects import Registry

registry = Registry("constraint", makers=True)


@registry.add()
class Constraint:
    """Base of constraints."""

    def __call__(self, w: Any) -> Any:
        return w

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {}


def _norm(w: Any, axis: Any) -> Any:
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis, True))


@registry.add("max_norm", "maxnorm")
class MaxNorm(Constraint):
    """Norms of at most ``max_value`` along an axis."""

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        norms = _norm(w, self.axis)
        return w * (tf.clip_by_value(norms, 0.0, self.max_value) / (state.epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"max_value": self.max_value, "axis": self.axis}


@registry.add("non_neg", "nonneg")
class NonNeg(Constraint):
    """No negative elements."""

    def __call__(self, w: Any) -> Any:
        return w * tf.cast(w >= 0.0, w.dtype.base_dtype)


@registry.add("unit_norm", "unitnorm")
class UnitNorm(Constraint):
    """Norms of 1 along an axis."""

    def __init__(self, axis: Any = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        return w / (state.epsilon() + _norm(w, self.axis))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"axis": self.axis}


@registry.add("min_max_norm")
class MinMaxNorm(Constraint):
    """Norms within two bounds along an axis; ``rate`` says how far they are brought there."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Any:
        norms = _norm(w, self.axis)
        wanted = self.rate * tf.clip_by_value(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        return w * (wanted / (state.epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


@registry.add("radial_constraint")
class RadialConstraint(Constraint):
    """Kernels of ``[height, width, ...]`` with one value for each distance from the centre."""

    def __call__(self, w: Any) -> Any:
        size, other = w.shape.as_list()[:2]
        if size != other or len(w.shape.as_list()) != 4:
            raise ValueError(
                f"The weight tensor must be of rank 4 and square, but is: {w.shape}\nGiven: shape {w.shape}\n"
                "Expected: shape [size, size, channels, filters]\nInstead: Conv2D(filters, 3)"
            )
        middle = (size - 1) / 2
        rings = [[max(abs(i - middle), abs(j - middle)) for j in range(size)] for i in range(size)]
        row = int(middle)
        radius = [[w[row, row + int(r) if size % 2 else int(middle + 0.5 + r - 0.5)] for r in line] for line in rings]
        return tf.stack([tf.stack(line) for line in radius])


max_norm, non_neg, unit_norm, min_max_norm, radial_constraint = MaxNorm, NonNeg, UnitNorm, MinMaxNorm, RadialConstraint
get, serialize, deserialize = registry.get, registry.serialize, registry.deserialize
