"""Configs of layers from their arguments: which are kept, and how each is written."""

from __future__ import annotations

from typing import Any

from anabranch.keras.v1 import activations, constraints, initializers, regularizers
from anabranch.keras.v1.layer import Layer

_READ = {
    "activation": activations.get,
    "initializer": initializers.get,
    "regularizer": regularizers.get,
    "constraint": constraints.get,
}
_WRITE = {
    "activation": activations.serialize,
    "initializer": initializers.serialize,
    "regularizer": regularizers.serialize,
    "constraint": constraints.serialize,
}


def _kind(name: str) -> str:
    return name.rpartition("_")[2]


class Configured(Layer):
    """A layer whose arguments are attributes of the same names, which its config holds."""

    _config_names: tuple[str, ...] = ()

    def _keep(self, **arguments: Any) -> None:
        """Keep arguments: activations, initializers, regularizers and constraints by their names or configs."""
        for name, value in arguments.items():
            read = _READ.get(_kind(name))
            value = read(value) if read is not None else value
            if name == "activity_regularizer":
                self._activity_regularizer = value
            else:
                setattr(self, name, value)
        self._config_names = (*self._config_names, *[name for name in arguments if name not in self._config_names])

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        config = super().get_config()
        for name in self._config_names:
            value, write = getattr(self, name), _WRITE.get(_kind(name))
            config[name] = write(value) if write is not None else value
        return config


def counted(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """A number for each spatial axis."""
    if isinstance(value, int):
        return (value,) * rank
    sizes = tuple(value) if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") else ()
    if len(sizes) != rank or not all(isinstance(size, int) or hasattr(size, "__index__") for size in sizes):
        raise ValueError(
            f"The `{name}` argument must be a tuple of {rank} integers. Received: {value}\n"
            f"Given: {name}={value!r}\nExpected: {rank} integers\nInstead: {name}={(3,) * rank}"
        )
    return tuple(int(size) for size in sizes)


def window_length(length: int | None, size: int, padding: str, stride: int, dilation: int = 1) -> int | None:
    """Number of windows along an axis."""
    if length is None:
        return None
    span = (size - 1) * dilation + 1
    if padding == "valid":
        length = length - span + 1
    elif padding == "full":
        length = length + span - 1
    return -(-length // stride)


def transposed_length(length: int | None, size: int, padding: str, stride: int, extra: int | None = None) -> int | None:
    """Length of an axis whose windows these would be."""
    if length is None:
        return None
    if extra is not None:
        pad = {"same": size // 2, "valid": 0, "full": size - 1}[padding]
        return (length - 1) * stride + size - 2 * pad + extra
    if padding == "valid":
        return length * stride + max(size - stride, 0)
    return length * stride - (stride + size - 2) if padding == "full" else length * stride
