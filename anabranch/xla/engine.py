"""The one place that imports jax, late: importing the package starts no runtime.

No global configuration of JAX is changed. 64-bit types are enabled around each trace and call by :func:`x64`.
"""

from __future__ import annotations

import functools
from typing import Any

from anabranch.xla import memory


@functools.cache
def jax() -> Any:
    """The jax module, imported on first use."""
    memory.keep_if_asked()
    import jax as module

    return module


def x64() -> Any:
    """A context manager under which JAX keeps 64-bit types."""
    return jax().enable_x64(True)


@functools.cache
def devices(platform: str) -> tuple[Any, ...]:
    """JAX devices of a platform (``cpu``, ``gpu``, ``tpu``); empty if there are none."""
    try:
        return tuple(jax().devices(platform))
    except RuntimeError:
        return ()


@functools.cache
def default_platform() -> str:
    """Platform of the first device that a program runs on when nothing is said."""
    platform = jax().default_backend()
    return "gpu" if platform in ("cuda", "rocm") else platform


_other_devices_used = False


def jax_device(device: Any) -> Any:
    """The JAX device of a placed device (anything with ``platform`` and ``number``); None means the default one."""
    global _other_devices_used
    if device is None:
        return devices(default_platform())[0]
    _other_devices_used = True
    return devices(device.platform)[device.number]


def moved(values: Any, device: Any) -> Any:
    """``values`` with the arrays of other devices copied to ``device`` (None: the default one)."""
    if not _other_devices_used:
        return values
    module = jax()
    target = jax_device(device) if device is not None else devices(default_platform())[0]
    put = device is not None
    return [
        module.device_put(value, target)
        if (put and not hasattr(value, "devices")) or (hasattr(value, "devices") and value.devices() != {target})
        else value
        for value in values
    ]
