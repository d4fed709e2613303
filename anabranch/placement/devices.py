"""The devices that a session may use: those of this machine, or as many of them as it has asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

LOCAL_JOB = "localhost"
LOCAL_TASK = f"/job:{LOCAL_JOB}/replica:0/task:0"
PLATFORMS = {"CPU": "cpu", "XLA_CPU": "cpu", "GPU": "gpu", "XLA_GPU": "gpu", "TPU": "tpu"}


class Device(NamedTuple):
    """A device of this machine."""

    platform: str
    number: int

    def __str__(self) -> str:
        return self.name_at(LOCAL_TASK)

    def name_at(self, task: str) -> str:
        """Its name as a device of a task."""
        return f"{task}/device:{self.platform.upper()}:{self.number}"


class Mesh(NamedTuple):
    """Devices on which one program runs, the same on each."""

    devices: tuple[Device, ...]

    @property
    def platform(self) -> str:
        """That of the devices."""
        return self.devices[0].platform

    @property
    def number(self) -> int:
        """That of the first."""
        return self.devices[0].number

    def __str__(self) -> str:
        first, last = self.devices[0], self.devices[-1]
        return f"{len(self.devices)} devices as one, {first} to {last.platform.upper()}:{last.number}"


class Devices:
    """The devices of a session. Asking how many there are starts the compiler's runtime.

    Args:
        count: how many devices of a platform the machine has.
        default: the platform on which programs run when nothing is said.
        limits: ``device_count`` of a ConfigProto: at most how many devices of a type the session uses.
    """

    def __init__(
        self, count: Callable[[str], int], default: Callable[[], str], limits: Mapping[str, int] | None = None
    ) -> None:
        self._count = count
        self._default = default
        self._limits = {PLATFORMS[kind]: most for kind, most in (limits or {}).items() if kind in ("CPU", "GPU", "TPU")}

    def count(self, platform: str) -> int:
        """How many devices of a platform there are."""
        there = self._count(platform)
        return min(there, self._limits.get(platform, there))

    @property
    def default(self) -> Device:
        """Where ops go that nothing ties down: the first accelerator, else the CPU."""
        platform = self._default()
        return Device(platform if self._limits.get(platform, 1) else "cpu", 0)

    def listed(self) -> list[Device]:
        """All devices, those of the CPU first."""
        platforms = dict.fromkeys(("cpu", self.default.platform))
        return [Device(platform, i) for platform in platforms for i in range(self.count(platform))]
