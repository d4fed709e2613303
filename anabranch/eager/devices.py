"""``tf.config.experimental``: which devices the process has, which of them it uses, and in how many parts.

A *physical* device is one of the machine, a *logical* one is what ops are placed on. The CPU may be several logical
devices. What is asked for holds if it comes before the devices start, which is when something is first compiled, or
where there may be a GPU, when the devices are listed; see :mod:`anabranch.xla.startup`.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.eager.mode import EAGER
from anabranch.eager.scopes import (
    DEVICE_PLACEMENT_EXPLICIT,
    DEVICE_PLACEMENT_SILENT,
    DEVICE_PLACEMENT_SILENT_FOR_INT32,
    DEVICE_PLACEMENT_WARN,
)
from anabranch.xla import startup


class PhysicalDevice(NamedTuple):
    """A device of the machine."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that ops are placed on."""

    name: str
    device_type: str


@public("config.experimental.VirtualDeviceConfiguration")
class VirtualDeviceConfiguration(collections.namedtuple("VirtualDeviceConfiguration", ["memory_limit"])):
    """One of the logical devices that a physical device is to be.

    Args:
        memory_limit: MB of a GPU's memory; None for the CPU.

    Example:
        >>> import anabranch as tf
        >>> tf.config.experimental.VirtualDeviceConfiguration()
        VirtualDeviceConfiguration(memory_limit=None)
    """

    __slots__ = ()

    def __new__(cls, memory_limit: float | None = None) -> VirtualDeviceConfiguration:
        return super().__new__(cls, memory_limit)


_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")
_parts: dict[PhysicalDevice, list[VirtualDeviceConfiguration]] = {}
_modes: dict[str, Any] = {"synchronous": True}
_POLICIES = {
    "explicit": DEVICE_PLACEMENT_EXPLICIT,
    "warn": DEVICE_PLACEMENT_WARN,
    "silent": DEVICE_PLACEMENT_SILENT,
    "silent_for_int32": DEVICE_PLACEMENT_SILENT_FOR_INT32,
}


def _known(device: Any) -> PhysicalDevice:
    if device not in ([_CPU] if device == _CPU else list_physical_devices()):
        raise ValueError(
            f"Unrecognized device: {device!r}\n"
            + errors.message(
                f"{device!r}", "a device of the machine", "one of tf.config.experimental.list_physical_devices()"
            )
        )
    return device


@public("config.experimental.list_physical_devices", "config.list_physical_devices")
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine, of one type if it is given (``"CPU"``, ``"GPU"``).

    Example:
        >>> import anabranch as tf
        >>> tf.config.experimental.list_physical_devices("CPU")
        [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    found = [_CPU]
    if device_type != "CPU" and startup.may_find_accelerators():
        counts: collections.Counter[str] = collections.Counter()
        for device in list_logical_devices():
            kind = device.device_type
            if kind != "CPU":
                found.append(PhysicalDevice(f"/physical_device:{kind}:{counts[kind]}", kind))
                counts[kind] += 1
    return [device for device in found if device_type in (None, device.device_type)]


@public("config.experimental.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that ops are placed on, of one type if it is given; the devices start."""
    listed = [LogicalDevice(str(one), one.platform.upper()) for one in EAGER.worker.devices.listed()]
    return [device for device in listed if device_type in (None, device.device_type)]


@public("config.experimental_list_devices")
def list_devices() -> list[str]:
    """The names of the devices that ops are placed on."""
    return [device.name for device in list_logical_devices()]


# --------------------------------------------------------------------------------------------------- which are used
@public("config.experimental.get_visible_devices")
def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine that are used: all that are found."""
    return list_physical_devices(device_type)


@public("config.experimental.set_visible_devices")
def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Use some of the devices only.

    Args:
        devices: one or several of `tf.config.experimental.list_physical_devices`.
        device_type: the type that this is about; the others are used as before.

    Raises:
        ValueError: there is no such device, or it is of another type.
        RuntimeError: other devices are used already: which GPUs are found is fixed by the environment.
    """
    chosen = list(devices) if isinstance(devices, list) else [devices]
    for device in chosen:
        _known(device)
        if device_type not in (None, device.device_type):
            raise ValueError(
                f"Unrecognized device: {device!r}\n"
                + errors.message(
                    f"{device.name}", f"devices of type {device_type}", f"device_type={device.device_type!r}"
                )
            )
    if set(chosen) == set(get_visible_devices(device_type)):
        return
    numbers = ",".join(device.name.rpartition(":")[2] for device in chosen if device.device_type == "GPU")
    raise RuntimeError(
        "Visible devices cannot be modified after being initialized\n"
        + errors.message(
            f"{[device.name for device in chosen]} as the devices to use",
            f"those that were found: {[device.name for device in get_visible_devices(device_type)]}",
            f"set CUDA_VISIBLE_DEVICES={numbers!r}, or JAX_PLATFORMS='cpu' in the environment; the CPU is always there",
        )
    )


# ---------------------------------------------------------------------------------------------------- in how many parts
@public("config.experimental.get_virtual_device_configuration")
def get_virtual_device_configuration(device: Any) -> list[VirtualDeviceConfiguration] | None:
    """What :func:`set_virtual_device_configuration` was last told of a device, or None."""
    return _parts.get(_known(device))


@public("config.experimental.set_virtual_device_configuration")
def set_virtual_device_configuration(device: Any, virtual_devices: Sequence[VirtualDeviceConfiguration]) -> None:
    """Make a physical device several logical ones.

    Args:
        device: the CPU, as `tf.config.experimental.list_physical_devices` gives it.
        virtual_devices: one :class:`VirtualDeviceConfiguration` for each.

    Raises:
        ValueError: there is no such device, or a limit of memory is given for the CPU, or none for a GPU.
        RuntimeError: the devices have started.
        NotImplementedError: the device is a GPU.

    Example:
        >>> import anabranch as tf
        >>> cpu = tf.config.experimental.list_physical_devices("CPU")[0]
        >>> two = [tf.config.experimental.VirtualDeviceConfiguration()] * 2
        >>> tf.config.experimental.set_virtual_device_configuration(cpu, two)  # doctest: +SKIP
    """
    _known(device)
    limits = [one.memory_limit for one in virtual_devices]
    if device.device_type == "CPU" and any(limit is not None for limit in limits):
        raise ValueError(
            "Setting memory limit on CPU virtual devices is currently not supported\n"
            + errors.message(f"memory_limit of {limits}", "None for the CPU", "VirtualDeviceConfiguration()")
        )
    if device.device_type != "CPU":
        if any(limit is None for limit in limits):
            raise ValueError(
                "Setting memory limit is required for GPU virtual devices\n"
                + errors.message("memory_limit=None for a GPU", "MB", "VirtualDeviceConfiguration(memory_limit=1024)")
            )
        raise NotImplementedError(
            errors.message(
                f"{len(limits)} parts of {device.name}",
                "a GPU as a whole",
                "tf.GPUOptions(per_process_gpu_memory_fraction=0.5) for a limit of memory",
            )
        )
    wanted = list(virtual_devices)
    if _parts.get(device) == wanted:
        return
    if startup.choices.started and startup.choices.cpu_devices != len(wanted):
        raise RuntimeError(
            "Virtual devices cannot be modified after being initialized\n"
            + errors.message(
                f"{len(wanted)} parts of the CPU when {startup.choices.cpu_devices} have started",
                "it before something is compiled, or devices are listed where there may be a GPU",
                f"call it right after the import, or set {startup.CPU_DEVICES}={len(wanted)} in the environment",
            )
        )
    startup.choices.cpu_devices = max(startup.choices.cpu_devices, len(wanted))
    _parts[device] = wanted


# --------------------------------------------------------------------------------------------------------------- memory
@public("config.experimental.set_memory_growth")
def set_memory_growth(device: Any, enable: bool) -> None:
    """Accepted before the first session; memory is taken as ``XLA_PYTHON_CLIENT_PREALLOCATE`` says.

    Raises:
        ValueError: there is no such device, or it has several parts.
    """
    if _known(device) in _parts:
        raise ValueError(
            "Cannot set memory growth on device when virtual devices configured\n"
            + errors.message(
                f"set_memory_growth of {device.name}, which has parts", "a device as a whole", "leave it out"
            )
        )
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false" if enable else "true")


@public("config.experimental.get_memory_growth")
def get_memory_growth(device: Any) -> bool:
    """Whether memory is taken as it is needed."""
    _known(device)
    return os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true").lower() == "false"


# ---------------------------------------------------------------------------------------------------------------- modes
@public("config.experimental.get_synchronous_execution")
def get_synchronous_execution() -> bool:
    """What :func:`set_synchronous_execution` was last told."""
    return bool(_modes["synchronous"])


@public("config.experimental.set_synchronous_execution")
def set_synchronous_execution(enable: bool) -> None:
    """Say whether ops are done when they return: they are in any case, so that an error comes where it is made."""
    _modes["synchronous"] = bool(enable)


@public("config.experimental.get_device_policy")
def get_device_policy() -> str:
    """What `set_device_policy` or `tf.enable_eager_execution` was last told."""
    return next(name for name, number in _POLICIES.items() if number == EAGER.device_policy)


@public("config.experimental.set_device_policy")
def set_device_policy(device_policy: str | None) -> None:
    """Say what to do about operands on other devices; see `tf.enable_eager_execution`.

    Args:
        device_policy: ``"silent"`` (or None), ``"silent_for_int32"``, ``"warn"`` or ``"explicit"``.

    Raises:
        ValueError: it is something else.
    """
    policy = "silent" if device_policy is None else device_policy
    if policy not in _POLICIES:
        raise ValueError(
            f"Not a valid device policy: {device_policy!r}\n"
            + errors.message(f"device_policy={device_policy!r}", f"one of {sorted(_POLICIES)}", "'silent'")
        )
    EAGER.device_policy = _POLICIES[policy]


__all__ = ["LogicalDevice", "PhysicalDevice"]
