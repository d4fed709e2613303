"""The one place that imports jax, late: importing the package starts no runtime.

No global configuration of JAX is changed. 64-bit types are enabled around each trace and call by :func:`x64`.
"""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def jax() -> Any:
    """The jax module, imported on first use."""
    import jax as module

    return module


@functools.cache
def _x64_factory() -> Any:
    module = jax()
    if hasattr(module, "enable_x64"):
        return module.enable_x64
    from jax.experimental import enable_x64

    return enable_x64


def x64() -> Any:
    """A context manager under which JAX keeps 64-bit types."""
    return _x64_factory()(True)


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
