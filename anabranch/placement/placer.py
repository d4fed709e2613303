"""The placer: device strings, variables and colocation groups to devices of this machine.

What decides, in this order:

1. An op that takes a variable's handle or reference runs where the variable is, whatever it says itself: variables
   live where they were placed. (TensorFlow does not refuse such an op either.)
2. Members of a colocation group (``_class``) are together: where the first of them is that names a device. Two that
   name different ones are an error, unless ``allow_soft_placement`` is set.
3. An op that names a device runs there. A named device that does not exist is an error, as in TensorFlow, unless
   ``allow_soft_placement`` is set: then the op names nothing.
4. An op that names nothing goes where what it uses is, variables included, if that is one device; failing that,
   where all that use it are. So gradients of a tower stay with the tower. A device of another platform than the default
   one draws nothing after it: preprocessing on the CPU does not keep the model there.
5. Anything else goes to the default device (the first accelerator, else the CPU).

Ops without a compiled kernel run on the host wherever they were put; so do small integers that a program must know
when it is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.cache import Cache
from anabranch.core.graph.operation import Operation
from anabranch.placement.devices import LOCAL_TASK, PLATFORMS, Device, Devices

NAMED = "named"
WITH_VARIABLE = "with their variables"
COLOCATED = "colocated"
WITH_INPUTS = "where their inputs are"
WITH_USERS = "where their users are"
FREE = "free"
REASONS = (NAMED, WITH_VARIABLE, COLOCATED, WITH_INPUTS, WITH_USERS, FREE)


class Placement(dict[Operation, Device]):
    """The device of each op, and the reasons of those that are not free."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[Operation, str] = {}

    def reasons_of(self, ops: Iterable[Operation]) -> str:
        """How many of ``ops`` are where they are for which reason; '' if nothing ties any of them down."""
        counts = dict.fromkeys(REASONS, 0)
        for op in ops:
            counts[self.reasons.get(op, FREE)] += 1
        tied = any(count for reason, count in counts.items() if reason != FREE)
        return ", ".join(f"{count} {reason}" for reason, count in counts.items() if count) if tied else ""


class Placer:
    """Place the ops of steps.

    Args:
        devices: what there is.
        soft: whether an op that names a device which is not there goes to another one.
        logs: whether to write the device of each op to the standard error, once.
        task: the task whose devices these are; a name of another task's device names nothing here.
    """

    def __init__(self, devices: Devices, soft: bool = False, logs: bool = False, task: str = LOCAL_TASK):
        self.devices = devices
        self._task_name = task
        self._task = device_names.parse(task)
        self.logs = logs
        self._soft = soft
        self._known: Cache[str, Device | None] = Cache("devices by name", 1024)
        self._logged: set[str] = set()

    @property
    def default(self) -> Device:
        """Where ops go that nothing ties down. Asking starts the compiler's runtime."""
        return self.devices.default

    def resolve(self, name: str, op: Operation) -> Device | None:
        """The device that a string names; None if it leaves the choice open.

        Raises:
            InvalidArgumentError: there is no such device and soft placement is off.
        """
        return self._known.get_or_make(name, lambda: self._resolve(name, op))

    def _resolve(self, name: str, op: Operation) -> Device | None:
        fields = device_names.parse(name)
        platform = PLATFORMS.get((fields.device_type or "").upper())
        index = fields.device_index or 0
        local = all(part in (None, own) for part, own in zip(fields[:3], self._task[:3], strict=True))
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
        return (platform == "cpu" and index == 0) or (platform is not None and index < self.devices.count(platform))

    def check(self, ops: Sequence[Operation]) -> None:
        """Refuse ops that name a device which is not there."""
        for op in ops:
            if op._device:
                self.resolve(op._device, op)

    def _refusal(self, name: str, op: Operation) -> str:
        there = [device.name_at(self._task_name) for device in self.devices.listed()]
        fields = device_names.parse(name)
        more = ""
        if (fields.device_type or "").upper() == "CPU":
            config = f"tf.ConfigProto(device_count={{'CPU': {(fields.device_index or 0) + 1}}})"
            more = f"tf.Session(config={config}) before anything runs, for more CPU devices; "
        return (
            f"Cannot assign a device for operation {op.name}: Operation was explicitly assigned to {name} but "
            "available "
            f"devices are [ {', '.join(there)} ]. Make sure the device specification refers to a valid device.\n"
            + errors.message(
                f"op {op.name!r} on {name!r}",
                f"one of {', '.join(there)}",
                f"{more}tf.Session(config=tf.ConfigProto(allow_soft_placement=True)), or another tf.device",
            )
        )

    # -- placing ------------------------------------------------------------------------------------------------------
    def place(
        self,
        ops: Sequence[Operation],
        owner: Callable[[Operation], Operation | None],
        uses: Callable[[Operation], Iterable[Operation]],
    ) -> Placement:
        """The device of each op.

        Args:
            ops: in an order in which each comes after what it uses.
            owner: what makes the variable whose handle or reference an op takes, if it takes one.
            uses: what makes the values that an op uses: ops, and makers of variables.
        """
        placement = Placement()
        default = self.default
        if not any(op._device for op in ops):
            placement.update(dict.fromkeys(ops, default))
            return placement
        named = {op: device for op in ops if op._device and (device := self.resolve(op._device, op)) is not None}
        grouped = groups(ops, named, self._soft)
        tied: dict[Operation, Device] = {}

        def at(maker: Operation) -> Device | None:
            if maker in tied or not maker._device:
                return tied.get(maker)
            return self.resolve(maker._device, maker)  # of a body's surroundings: it is not among the ops

        def near(others: Iterable[Device]) -> Device | None:
            """The one device of all others, if it is one that draws ops after it."""
            devices = set(others)
            if len(devices) != 1:
                return None
            (device,) = devices
            return device if device.platform == default.platform else None

        def tie(op: Operation, device: Device | None, reason: str) -> bool:
            if device is None:
                return False
            tied[op] = device
            placement.reasons[op] = reason
            return True

        users: dict[Operation, list[Operation]] = {}
        for op in ops:
            used = list(uses(op))
            for other in used:
                users.setdefault(other, []).append(op)
            maker = owner(op)
            if maker is not None and maker is not op:
                tie(op, at(maker) or default, WITH_VARIABLE)
            elif not tie(op, grouped.get(op), NAMED if op in named else COLOCATED) and not tie(
                op, named.get(op), NAMED
            ):
                tie(op, near(device for other in used if (device := at(other)) is not None), WITH_INPUTS)
        for op in reversed(ops):
            if op not in tied and op.definition.makes is None:
                tie(op, near(tied.get(user, default) for user in users.get(op, ())), WITH_USERS)
        for op in ops:
            placement[op] = tied.get(op, default)
        return placement

    def log(self, placement: Placement) -> None:
        """Write the device of each op to the standard error, as TensorFlow does, unless it has been written."""
        lines = [
            f"{op.name}: ({op.type}): {device.name_at(self._task_name)}"
            for op, device in placement.items()
            if op.name not in self._logged
        ]
        self._logged.update(op.name for op in placement)
        if lines:
            print(*lines, sep="\n", file=sys.stderr)


Place = TypeVar("Place")


def groups(ops: Sequence[Operation], named: dict[Operation, Place], soft: bool) -> dict[Operation, Place]:
    """The place (a device, or a task) of each op that is in a colocation group with one that names a place.

    Args:
        ops: the ops of a step.
        named: the place of each op that names one.
        soft: whether the first member decides where two name different ones.

    Raises:
        InvalidArgumentError: two members name different places.
    """
    if not any("_class" in op._attrs for op in ops):
        return {}
    mentioned = {group for op in ops if "_class" in op._attrs for group in op.colocation_groups()}
    root: dict[bytes, bytes] = {group: group for group in mentioned}

    def find(group: bytes) -> bytes:
        while root[group] != group:
            root[group] = group = root[root[group]]
        return group

    members: dict[Operation, bytes] = {}
    for op in ops:
        own = [group for group in (*op.colocation_groups(), b"loc:@" + op.name.encode()) if group in mentioned]
        for group in own:
            root[find(group)] = find(own[0])
        if own:
            members[op] = own[0]
    first: dict[bytes, Operation] = {}
    for op in members:
        if op in named:
            other = first.setdefault(find(members[op]), op)
            if named[other] != named[op] and not soft and op._device:
                raise errors.InvalidArgumentError(None, op, _conflict(other, op))
    return {op: named[first[find(group)]] for op, group in members.items() if find(group) in first}


def _conflict(one: Operation, other: Operation) -> str:
    return (
        f"Cannot colocate nodes {other.name!r} placed on {other._device!r} and {one.name!r} placed on "
        f"{one._device!r}: Cannot merge devices with incompatible ids: {other._device!r} and {one._device!r}\n"
        + errors.message(
            f"op {other.name!r} on {other._device!r}, colocated with {one.name!r} on {one._device!r}",
            "one device for both",
            "one tf.device around both, or tf.Session(config=tf.ConfigProto(allow_soft_placement=True))",
        )
    )
