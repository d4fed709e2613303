"""Values of variables seen from the host without a copy, for as long as a version is pinned.

``numpy.asarray`` of a device array leaves a reference in the array that keeps XLA from ever reusing its buffer. What is
borrowed here leaves none: the caller pins the version, and lets go of the view before it unpins it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from anabranch.runtime.state.slots import Version
from anabranch.runtime.values import to_host


def borrowed(version: Version) -> np.ndarray:
    """The value of a pinned version: a view of its buffer if it is in the host's memory, a copy otherwise."""
    value = version.unexposed
    if isinstance(value, np.ndarray):
        return value
    if version._host is not None:
        return version._host
    view = _view(value)
    return np.asarray(value) if view is None else view


def lent(value: Any) -> Any:
    """An operand of a kernel that borrows; versions are pinned while it runs."""
    return borrowed(value) if isinstance(value, Version) else to_host(value)


def may_borrow(definition: Any) -> bool:
    """Whether the host kernel of an op may be lent variables: it looks at no more than their shapes, or says so."""
    return definition.shape_only or getattr(definition.host_kernel or definition.kernel, "borrows", False)


def _view(array: Any) -> np.ndarray | None:
    """The memory of a device array that is on the CPU, in one piece and in the order of its dimensions."""
    dtype = np.dtype(array.dtype)
    devices = array.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or dtype.itemsize * 8 < 8 or dtype.names:
        return None
    layout = getattr(getattr(array, "format", None), "layout", None)
    order = getattr(layout, "major_to_minor", None)
    if order is not None and tuple(order) != tuple(range(array.ndim)):
        return None
    if not array.size:
        return np.empty(array.shape, dtype)
    array.block_until_ready()
    memory = (ctypes.c_uint8 * (array.size * dtype.itemsize)).from_address(array.unsafe_buffer_pointer())
    view = np.frombuffer(memory, np.uint8).view(dtype).reshape(array.shape)
    view.flags.writeable = False
    return view
