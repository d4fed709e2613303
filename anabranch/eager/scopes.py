"""Name scopes and devices of ops that run at once: those that a thread is in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from anabranch.core import device as devices
from anabranch.core import errors
from anabranch.placement.devices import LOCAL_TASK

DEVICE_PLACEMENT_EXPLICIT, DEVICE_PLACEMENT_WARN, DEVICE_PLACEMENT_SILENT, DEVICE_PLACEMENT_SILENT_FOR_INT32 = range(4)


class Scopes(threading.local):
    """The name scope and the device of a thread."""

    def __init__(self) -> None:
        self.name = ""
        self.device: Any = None
        self.variable_watchers: tuple[Callable[[Any], None], ...] = ()
        """What is told of each variable that the thread makes, before it has a value."""
        self.value_watchers: tuple[Callable[[Any], None], ...] = ()
        """What is told of it then."""


class NameScope:
    """Enter a name scope: a string, and nothing else."""

    __slots__ = ("_before", "_name", "_scopes")

    def __init__(self, scopes: Scopes, name: str | None) -> None:
        self._scopes = scopes
        self._name = name

    def __enter__(self) -> str:
        scopes, name = self._scopes, self._name
        self._before = scopes.name
        if not name:
            scopes.name = ""
            return ""
        if isinstance(name, bytes):
            name = name.decode()
        scopes.name = name[:-1] if name[-1] == "/" else f"{scopes.name}/{name}" if scopes.name else name
        return f"{scopes.name}/"

    def __exit__(self, *error: object) -> None:
        self._scopes.name = self._before


class DeviceScope:
    """Enter a device scope: a canonical name, or None.

    Raises:
        ValueError: a function, or a string that names no device.
    """

    __slots__ = ("_before", "_builder", "_name", "_scopes")

    def __init__(self, builder: Any, scopes: Scopes, name: Any) -> None:
        if callable(name):
            raise RuntimeError(
                "tf.device does not support functions when eager execution is enabled.\n"
                + errors.message(f"tf.device({name!r})", "the name of a device", 'tf.device("/cpu:0")')
            )
        self._scopes = scopes
        self._builder = builder
        self._name = None if name is None else devices.canonical_name(name)

    def __enter__(self) -> None:
        name = None if self._name is None else placed(self._builder, self._name)
        self._before = self._scopes.device
        self._scopes.device = name

    def __exit__(self, *error: object) -> None:
        self._scopes.device = self._before


def placed(builder: Any, name: str) -> str:
    """Refuse a device that is not there, and one that ops which run at once are not placed on.

    Under `allow_soft_placement` it is the CPU instead.

    Raises:
        RuntimeError: there is no such device. UnimplementedError: it is not the first of its type.
    """
    fields = devices.parse(name)
    kind, index = fields.device_type or "CPU", fields.device_index or 0
    if kind == "CPU" and not index:
        return name
    if builder.device_policy in (DEVICE_PLACEMENT_EXPLICIT, DEVICE_PLACEMENT_WARN):
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"tf.device({name!r}) under a policy that refuses or reports copies between devices",
                "the CPU alone, or a policy that lets operands be moved",
                "tf.enable_eager_execution(device_policy=tf.contrib.eager.DEVICE_PLACEMENT_SILENT)",
            ),
        )
    listed = builder.worker.devices.listed()
    is_there = any((device.platform.upper(), device.number) == (kind, index) for device in listed)
    if (index or not is_there) and builder.config is not None and builder.config.allow_soft_placement:
        return f"{LOCAL_TASK}/device:CPU:0"
    if not is_there:
        raise RuntimeError(
            f"{LOCAL_TASK}/device:{kind}:{index} unknown device.\n"
            + errors.message(f"tf.device({name!r})", f"one of {', '.join(map(str, listed))}", 'tf.device("/cpu:0")')
        )
    if index:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"tf.device({name!r}) where ops run at once",
                "the first device of a type",
                f"tf.device('/{kind.lower()}:0'), or a graph: sessions place ops on every device",
            ),
        )
    return name
