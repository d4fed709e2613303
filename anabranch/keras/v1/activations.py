"""``tf.keras.activations``."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn
from anabranch.keras.v1.objects import Registry

registry = Registry("activation function")


@registry.add()
def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax along an axis."""
    if not K.ndim(x) or K.ndim(x) < 2:
        raise ValueError(
            f"Cannot apply softmax to a tensor that is 1D\nGiven: a tensor of rank {K.ndim(x)}\n"
            "Expected: a tensor of rank 2 or more\nInstead: tf.expand_dims(x, 0)"
        )
    return tf.nn.softmax(x, axis=axis)


@registry.add()
def elu(x: Any, alpha: float = 1.0) -> Any:
    """Exponential linear unit."""
    return backend_nn.elu(x, alpha)


@registry.add()
def selu(x: Any) -> Any:
    """Scaled exponential linear unit."""
    return tf.nn.selu(x)


@registry.add()
def softplus(x: Any) -> Any:
    """Logarithm of ``1 + exp(x)``."""
    return tf.nn.softplus(x)


@registry.add()
def softsign(x: Any) -> Any:
    """Return ``x / (1 + |x|)``."""
    return tf.nn.softsign(x)


@registry.add()
def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0) -> Any:
    """Rectified linear unit."""
    return backend_nn.relu(x, alpha=alpha, max_value=max_value, threshold=threshold)


@registry.add()
def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return tf.nn.tanh(x)


@registry.add()
def sigmoid(x: Any) -> Any:
    """Logistic function."""
    return tf.nn.sigmoid(x)


@registry.add()
def exponential(x: Any) -> Any:
    """Exponential."""
    return tf.exp(x)


@registry.add()
def hard_sigmoid(x: Any) -> Any:
    """The sigmoid as three straight lines."""
    return backend_nn.hard_sigmoid(x)


@registry.add()
def linear(x: Any) -> Any:
    """Return ``x``."""
    return x


serialize, deserialize = registry.public_functions("activation", "name")


def get(identifier: Any) -> Any:
    """An activation by its name; ``linear`` if None."""
    return linear if identifier is None else registry.get(identifier)
