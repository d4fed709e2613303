"""``tf.keras.regularizers``: what is added to the loss for a weight."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1.objects import Registry

registry = Registry("regularizer", makers=True)


@registry.add()
class Regularizer:
    """Base of regularizers."""

    def __call__(self, x: Any) -> Any:
        return 0.0

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The regularizer that a config describes."""
        return cls(**config)


@registry.add()
class L1L2(Regularizer):
    """A multiple of the absolute values and one of the squares."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x: Any) -> Any:
        total: Any = tf.constant(0.0, x.dtype.base_dtype)
        if self.l1:
            total += tf.reduce_sum(self.l1 * tf.abs(x))
        if self.l2:
            total += tf.reduce_sum(self.l2 * tf.square(x))
        return total

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"l1": self.l1, "l2": self.l2}


@registry.add()
def l1(l: float = 0.01) -> L1L2:  # noqa: E741
    """A multiple of the absolute values."""
    return L1L2(l1=l)


@registry.add()
def l2(l: float = 0.01) -> L1L2:  # noqa: E741
    """A multiple of the squares."""
    return L1L2(l2=l)


@registry.add()
def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """A multiple of the absolute values and one of the squares."""
    return L1L2(l1=l1, l2=l2)


get, serialize, deserialize = registry.get, registry.serialize, registry.deserialize
