"""The placer: device strings, reference edges and colocation groups to devices of this machine.

An op that names a device runs there; one that does not follows the variable whose reference it takes, then its
colocation group, then goes to the default device (the first accelerator, else the CPU). A named device that does not
exist is an error, as in TensorFlow, unless ``allow_soft_placement`` is set. Ops without a compiled kernel run on the
host wherever they were put.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.cache import Cache
from anabranch.core.graph.operation import Operation

LOCAL_JOB = "localhost"
LOCAL_TASK = f"/job:{LOCAL_JOB}/replica:0/task:0"
_PLATFORMS = {"CPU": "cpu", "XLA_CPU": "cpu", "GPU": "gpu", "XLA_GPU": "gpu", "TPU": "tpu"}


class Device(NamedTuple):
    """A device of this machine."""

    platform: str
    number: int

    def __str__(self) -> str:
        return f"{LOCAL_TASK}/device:{self.platform.upper()}:{self.number}"


class Placer:
    """Place the ops of steps. ``count(platform)`` says how many devices of a platform there are."""

    def __init__(self, count: Callable[[str], int], default: Callable[[], str], soft: bool = False):
        self._count = count
        self._default = default
        self._soft = soft
        self._known: Cache[str, Device | None] = Cache("devices by name", 1024)

    @property
    def default(self) -> Device:
        """Where ops go that nothing ties down. Asking starts the compiler's runtime."""
        return Device(self._default(), 0)

    def resolve(self, name: str, op: Operation) -> Device | None:
        """The device that a string names; None if it leaves the choice open.

        Raises:
            InvalidArgumentError: there is no such device and soft placement is off.
        """
        return self._known.get_or_make(name, lambda: self._resolve(name, op))

    def _resolve(self, name: str, op: Operation) -> Device | None:
        fields = device_names.parse(name)
        platform = _PLATFORMS.get((fields.device_type or "").upper())
        index = fields.device_index or 0
        local = fields.job in (None, LOCAL_JOB) and fields.replica in (None, 0) and fields.task in (None, 0)
        device: Device | None = None
        if not local or (fields.device_type is not None and not self._exists(platform, index)):
            if not (self._soft and local):
                raise errors.InvalidArgumentError(None, op, self._refusal(name, op))
        elif platform is not None:
            device = Device(platform, index)
        return device

    @property
    def caches(self) -> list[Cache[Any, Any]]:
        """The caches that it owns."""
        return [self._known]

    def _exists(self, platform: str | None, index: int) -> bool:
        return (platform == "cpu" and index == 0) or (platform is not None and index < self._count(platform))

    def check(self, ops: Sequence[Operation]) -> None:
        """Refuse ops that name a device which is not there."""
        for op in ops:
            if op._device:
                self.resolve(op._device, op)

    def _refusal(self, name: str, op: Operation) -> str:
        there = [
            str(Device(p, i)) for p in dict.fromkeys(("cpu", self.default.platform)) for i in range(self._count(p))
        ]
        return (
            f"Cannot assign a device for operation {op.name}: Operation was explicitly assigned to {name} but "
            "available "
            f"devices are [ {', '.join(there)} ]. Make sure the device specification refers to a valid device.\n"
            + errors.message(
                f"op {op.name!r} on {name!r}",
                f"one of {', '.join(there)}",
                "tf.Session(config=tf.ConfigProto(allow_soft_placement=True)), or another tf.device",
            )
        )

    def place(
        self, ops: Sequence[Operation], followed: Callable[[Operation], Operation | None]
    ) -> dict[Operation, Device]:
        """The device of each op. ``followed(op)`` makes the variable whose reference ``op`` takes, if any."""
        placed: dict[Operation, Device] = {}
        groups: dict[bytes, Device] = {}
        for op in ops:
            device = self.resolve(op._device, op) if op._device else None
            if device is None:
                maker = followed(op)
                if maker is not None and maker is not op:
                    device = placed.get(maker) or (self.resolve(maker._device, maker) if maker._device else None)
            if "_class" in op._attrs:
                members = op.colocation_groups()
                if device is None:
                    device = next((groups[group] for group in members if group in groups), None)
                if device is not None:
                    for group in members:
                        groups.setdefault(group, device)
            placed[op] = device or self.default
        return placed
