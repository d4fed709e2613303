"""Values of a running step: how they come to the host, and how they leave to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.values import spare_arrays
from anabranch.core.values.list_values import HostList, TracedList
from anabranch.core.values.optional_values import HostOptional
from anabranch.runtime.state.slots import ResourceHandle, Version
from anabranch.xla import engine, lists
from anabranch.xla.capacities import Padded


class Published:
    """A new version that is already current."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def carried(value: Any) -> Any:
    """A version's value, for use after the version may have been given away.

    On a CPU it is the host's copy, which all steps that ask for it share; elsewhere it stays on its device.
    """
    if not isinstance(value, Version):
        return value
    array = value.value
    if isinstance(array, np.ndarray) or not hasattr(array, "devices"):
        return array
    if all(device.platform == "cpu" for device in array.devices()):
        return value.host()
    with engine.x64():
        return engine.jax().numpy.copy(array)


def on_device(values: Sequence[Any], device: Any) -> list[Any]:
    """Values of a step as a program on a placed device (None: the default one) takes them."""
    if device is None and not engine.other_devices_used():
        return [value.for_program() if isinstance(value, Version) else device_value(value) for value in values]
    arrays = [value.on(device) if isinstance(value, Version) else device_value(value) for value in values]
    return engine.moved(arrays, device)


def on_devices(values: Sequence[Any], devices: Sequence[Any]) -> list[Any]:
    """Values of a step, each on a placed device, or (None) wherever it is."""
    return [
        device_value(value) if device is None else on_device([value], device)[0]
        for value, device in zip(values, devices, strict=True)
    ]


def device_value(value: Any) -> Any:
    """The array behind a value, where it lies: an interpreted step must not start JAX to look at its variables."""
    if isinstance(value, (Version, Published)):
        return value.value
    if isinstance(value, Padded):
        return value.exact()
    return lists.for_program(value) if isinstance(value, (HostList, HostOptional)) else value


def to_host(value: Any) -> Any:
    """A value of a step for a host kernel: a NumPy array (or a handle)."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Version):
        return value.host()
    if isinstance(value, np.generic):  # a predicate of a loop
        return np.array(value)
    if isinstance(value, Published):
        return np.array(value.value)
    if value is None or isinstance(value, ResourceHandle):
        return value
    if isinstance(value, (TracedList, lists.TracedOptional)):
        return lists.for_host(value)
    if isinstance(value, Padded):
        return value.exact()
    return np.array(value) if hasattr(value, "__array__") else value


def seen(value: Any) -> Any:
    """A value that a program has made, for those who only look at it: a CPU's memory is not copied."""
    return np.asarray(value) if hasattr(value, "addressable_shards") else to_host(value)


_device_arrays: set[type] = set()
"""The class of JAX's arrays, once one has been seen."""


def own(value: Any) -> Any:
    """A fetched value: an array that the caller owns, or a scalar."""
    if type(value) in _device_arrays:
        array = spare_arrays.copy(value)
        return array if array.ndim else array[()]
    if isinstance(value, (Version, Published)):
        value = value.unexposed if isinstance(value, Version) else value.value  # copied while the version is held
    if isinstance(value, Padded):
        return value.exact()
    if isinstance(value, ResourceHandle) or not hasattr(value, "__array__"):  # a handle, a list of tensors
        return value
    if hasattr(value, "addressable_shards"):
        _device_arrays.add(type(value))
    array = spare_arrays.copy(value)
    return array[()] if array.ndim == 0 else array
