"""Replicas of a step: what several devices compute alike, and exchange, becomes one program over all of them.

A strategy (or a program that builds its towers by hand) has the same ops once for each device, with variables, feeds
and gradients of their own, and ops that take a value from each of them: a sum of gradients, on every device. Built op
by op these are programs for each device with copies in between. Here they are found and made one SPMD program
(:mod:`anabranch.xla.replicated_program`), in which such an op is a collective.

*Meetings.* Where it begins are ops that are the same on several devices, with the same inputs, of which one comes from
each of these devices. Nothing else gives rise to a program over devices: independent towers stay programs of their own.

*Members.* From there ops are matched, one from each device: what makes the inputs of matched ops, what takes the same
inputs or their outputs, and writes of variables that are left (counters). Members have one type and equal attributes
(names and seeds apart), and each of their inputs is again matched, or the same for all, or an equal constant. What does
not fit is left out, and stays where it was: it hands its values to the program, or takes them, as from device to
device.

*Contraction.* For the order of a segment the members of a match are one op, on a place of its own, which waits for
whatever any of them waits for. If that made a circle (a replica that waits for another by a way of its own) there is no
such program.

*Replicas that differ.* A step in which they are given different shapes (the rest of a data set) is interpreted. When
that happens again and again they stay programs of their own.
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from anabranch.core.contract import opdef
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.placement.devices import Device, Mesh
from anabranch.rewrite import effects
from anabranch.runtime.plans import layers
from anabranch.xla import replicated_program
from anabranch.xla.program import Program
from anabranch.xla.program_function import ProgramOps

LEAST_UNLIKE, MOST_UNLIKE = 4, 0.125
"""Replicas that were given values of different shapes so often, and in such a share of all runs, are kept apart."""


class KeptApart(Exception):
    """Replicas differ too often to be one program."""


class Matches:
    """The matched ops of a segment.

    Args:
        devices: of the replicas, in their order.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.mesh = Mesh(tuple(devices))
        self.members: dict[Operation, tuple[Operation, ...]] = {}
        """By the first replica's op those of all."""
        self.first: dict[Operation, Operation] = {}
        """By each of these ops the first replica's."""
        self.twins: dict[ValueKey, tuple[ValueKey, ...]] = {}
        """By a value of the first replica those of all; the same one for all where they share it."""
        self.meetings: dict[Operation, tuple[int, ...]] = {}
        """Ops of the first replica that take a value from each, and at which positions."""

    def replication(self) -> replicated_program.Replication:
        """What a program is told of it."""
        return replicated_program.Replication(
            self.mesh, self.members, self.first, self.twins, self.meetings, effects.random_ops_of
        )


def find(plan: Any, ops: Sequence[Operation], on_host: Mapping[Operation, bool]) -> Matches | None:
    """The matched ops of a segment; None if nothing meets."""
    if plan.varying.batch or plan.varying.open or plan.dynamic_on_host or plan.nested or plan.replicas_apart:
        return None
    return _Matcher(plan, [op for op in ops if not on_host[op]]).matches()


class _Matcher:
    def __init__(self, plan: Any, ops: Sequence[Operation]) -> None:
        self._plan = plan
        self._ops = ops
        self._inside = frozenset(ops)
        self._found: Matches | None = None
        self._waiting: collections.deque[tuple[Operation, ...]] = collections.deque()
        self._first: dict[ValueKey, ValueKey] = {}
        """By a value of any replica the first one's; by one that all share itself."""

    def matches(self) -> Matches | None:
        """The matched ops."""
        for members, positions in self._meetings():
            found = self._found
            assert found is not None
            if self._match(members, positions):
                found.meetings[members[0]] = positions
        if self._found is None or not self._found.meetings:
            return None
        self._follow()
        for members in self._writers():
            self._match(members)
        self._follow()
        return self._found

    def _follow(self) -> None:
        while self._waiting:
            self._match(self._waiting.popleft())

    def _writers(self) -> Iterator[tuple[Operation, ...]]:
        """Writes that no value ties to what is matched (of counters), one from each replica: in order, those alike."""
        found, plan = self._found, self._plan
        assert found is not None
        alike: dict[Any, dict[Device, list[Operation]]] = {}
        for op in self._ops:
            writes = plan.analysis.state_of(op).writes
            if writes and op not in found.first and plan.device[op] in found.mesh.devices:
                made = [(key.maker._attrs.get("dtype"), key.maker._attrs.get("shape")) for key in writes]
                by_device = alike.setdefault((op.type, _attributes(op), tuple(made)), {})
                by_device.setdefault(plan.device[op], []).append(op)
        for by_device in alike.values():
            rows = [by_device.get(device, []) for device in found.mesh.devices]
            if len({len(row) for row in rows}) == 1:
                yield from zip(*rows, strict=True)

    # ------------------------------------------------------------------------------------------------------- meetings
    def _meetings(self) -> Iterator[tuple[tuple[Operation, ...], tuple[int, ...]]]:
        """Ops that are the same on the devices that each of them takes a value from, in the order of the replicas."""
        alike: dict[Any, dict[Device, Operation]] = {}
        for op in self._ops:
            sources = self._plan.sources(op)
            if len(sources) > 1 and self._plan.analysis.kind[op] == "pure" and not bodies_of(op):
                same = tuple([self._constant(key) or key for key in sources])
                alike.setdefault((op.type, _attributes(op), same), {}).setdefault(self._plan.device[op], op)
        for by_device in alike.values():
            if len(by_device) < 2:
                continue
            sources = self._plan.sources(next(iter(by_device.values())))
            homes = [self._home(key) for key in sources]
            positions = tuple([i for i, home in enumerate(homes) if home is not None])
            devices = [homes[i] for i in positions]
            if len(set(devices)) != len(devices) or set(devices) != set(by_device):
                continue
            if self._found is None:
                self._found = Matches([device for device in devices if device is not None])
            if tuple(devices) == self._found.mesh.devices:
                yield tuple([by_device[device] for device in self._found.mesh.devices]), positions

    def _constant(self, key: ValueKey | None) -> Any:
        """What equal constants have in common; None for anything else."""
        constants = self._plan.constants
        return ("constant", opdef.attr_key(constants[key])) if key in constants else None

    def _home(self, key: ValueKey | None) -> Device | None:
        """The device that a value comes from; None if that is none, or the host."""
        if isinstance(key, StateKey):
            maker = self._plan.writers.get(key, key.maker)
        else:
            maker = self._plan.producer(key)
        if maker is None or (maker not in self._inside and not isinstance(key, StateKey)):
            return None
        device: Device | None = self._plan.device.get(maker)
        return device

    # -------------------------------------------------------------------------------------------------------- matching
    def _match(self, members: tuple[Operation, ...], meets: tuple[int, ...] = ()) -> bool:
        """Match ops, one from each replica, if they fit; then what makes their inputs and takes their outputs waits."""
        found, plan = self._found, self._plan
        assert found is not None
        first = members[0]
        if first in found.members or len(set(members)) != len(members):
            return False
        if any(op not in self._inside or op in found.first for op in members):
            return False
        if tuple([plan.device[op] for op in members]) != found.mesh.devices or not self._alike(members):
            return False
        twins: dict[ValueKey, tuple[ValueKey, ...]] = {}
        sources = [plan.sources(op) for op in members]
        if meets:
            inputs = [tuple([sources[0][i] for i in meets])]
            inputs += [keys for i, keys in enumerate(zip(*sources, strict=True)) if i not in meets]
        else:
            inputs = list(zip(*sources, strict=True))
        for keys in inputs:
            if keys[0] is None:
                if any(key is not None for key in keys):
                    return False
            elif not self._may_be_twins(keys, twins):
                return False
        state = [plan.analysis.state_of(op).writes for op in members]
        results = [*zip(*[op._outputs for op in members], strict=True), *zip(*state, strict=True)]
        for keys in results:
            if not self._may_be_twins(keys, twins):
                return False
        found.twins.update(twins)
        self._first.update({key: own for own, keys in twins.items() for key in keys})
        found.members[first] = members
        found.first.update(dict.fromkeys(members, first))
        for keys in inputs:
            makers = [plan.producer(key) for key in keys]
            if None not in makers and len(set(makers)) == len(makers):
                self._waiting.append(tuple(makers))
        for keys in (*inputs, *results):
            self._waiting.extend(self._users(keys))
        return True

    def _alike(self, members: Sequence[Operation]) -> bool:
        """Whether ops do the same."""
        first, plan = members[0], self._plan
        row = _attributes(first)
        if any(
            op.type != first.type
            or len(plan.sources(op)) != len(plan.sources(first))
            or len(plan.analysis.state_of(op).writes) != len(plan.analysis.state_of(first).writes)
            or _attributes(op) != row
            for op in members[1:]
        ):
            return False
        if bodies_of(first):
            rows = [_structure(plan, op) for op in members]
            return all(other == rows[0] for other in rows[1:])
        return True

    def _may_be_twins(self, keys: tuple[ValueKey | None, ...], twins: dict[ValueKey, tuple[ValueKey, ...]]) -> bool:
        """Whether values may stand for each other, which is noted in ``twins``."""
        found, plan = self._found, self._plan
        assert found is not None
        first = keys[0]
        if first is None or any(key is None for key in keys):
            return False
        known = twins.get(first) or found.twins.get(first)
        if known is not None:
            return known == keys
        if any(key in self._first for key in keys):
            return False
        if all(key == first for key in keys):
            pass
        elif isinstance(first, StateKey):
            for key, device in zip(keys, found.mesh.devices, strict=True):
                if (
                    not isinstance(key, StateKey)
                    or (key.segment, key.index) != (first.segment, first.index)
                    or plan.device.get(key.maker, device) != device
                    or key.maker._attrs.get("dtype") != first.maker._attrs.get("dtype")
                    or key.maker._attrs.get("shape") != first.maker._attrs.get("shape")
                ):
                    return False
        else:
            for key in keys:
                if not isinstance(key, Tensor) or key.dtype != first.dtype or key in plan.handles:
                    return False
                if self._constant(key) != self._constant(first) or key.dtype.base.host_only:
                    return False
        twins[first] = keys  # type: ignore[assignment]
        return True

    def _users(self, keys: tuple[ValueKey | None, ...]) -> Iterator[tuple[Operation, ...]]:
        """Ops that take values which are twins, one from each replica: in order, those of a type."""
        by_type: list[dict[tuple[str, int], list[Operation]]] = []
        found = self._found
        assert found is not None
        if len(set(keys)) < len(keys):
            return  # one for all: who takes it says nothing of replicas
        for key, device in zip(keys, found.mesh.devices, strict=True):
            users: dict[tuple[str, int], list[Operation]] = {}
            for user in self._plan.consumers.get(key, ()):
                if user in self._inside and self._plan.device[user] == device:
                    users.setdefault((user.type, self._plan.sources(user).index(key)), []).append(user)
            by_type.append(users)
        for kind, firsts in by_type[0].items():
            rows = [users.get(kind, []) for users in by_type]
            if all(len(row) == len(firsts) for row in rows):
                yield from zip(*rows, strict=True)


def _attributes(op: Operation) -> Any:
    """What ops that do the same agree in: their attributes, but for names, seeds and bodies."""
    ignored = {use.attr for use in bodies_of(op)}
    if op.definition.effect.kind == "random":
        ignored |= {"seed", "seed2"}
    return tuple(
        (name, opdef.attr_key(value))
        for name, value in sorted(op._attrs.items())
        if name[:1] != "_" and name not in ignored
    )


def _structure(plan: Any, op: Operation) -> Any:
    """What ops with bodies that do the same agree in."""
    group = ProgramOps(
        (op,),
        {op: plan.sources(op)},
        {op: plan.analysis.state_of(op).writes},
        plan.analysis.position,
        plan.fed,
        plan.view,
        tuple(effects.random_ops_of(op)),
    )
    return Program(group, op._outputs, {}, "")._structure()


# -------------------------------------------------------------------------------------------------------- contraction
def contracted(
    ops: Sequence[Operation], order: layers.Ordering, found: Matches, position: Mapping[Operation, int]
) -> tuple[list[Operation], layers.Ordering] | None:
    """Ops and their order with one op for each match; None if these would wait for each other in a circle."""
    first = found.first

    def of(op: Operation) -> Operation:
        return first.get(op, op)

    parents: dict[Operation, dict[Operation, bool]] = {}
    for op in ops:
        row = parents.setdefault(of(op), {})
        for maker, static in order.parents[op]:
            if maker not in order.on_host:
                continue
            if of(maker) is of(op):
                return None
            row[of(maker)] = row.get(of(maker), False) or static
    kept = set(parents)
    children: dict[Operation, list[tuple[Operation, bool]]] = {op: [] for op in kept}
    left = {}
    for op, row in parents.items():
        parents[op] = {maker: static for maker, static in row.items() if maker in kept}
        left[op] = len(parents[op])
        for maker, static in parents[op].items():
            children[maker].append((op, static))
    ready = [(position[op], op._id, op) for op, count in left.items() if not count]
    heapq.heapify(ready)
    sequence: list[Operation] = []
    while ready:
        *_, op = heapq.heappop(ready)
        sequence.append(op)
        for child, _ in children[op]:
            left[child] -= 1
            if not left[child]:
                heapq.heappush(ready, (position[child], child._id, child))
    if len(sequence) != len(kept):
        return None
    rows = {op: list(row.items()) for op, row in parents.items()}
    return sequence, order._replace(parents=rows, children=children)


def members_of(found: Matches, ops: Sequence[Operation], position: Mapping[Operation, int]) -> list[Operation]:
    """All ops that matches stand for, in the order of effects."""
    every = [member for op in ops for member in found.members[op]]
    return sorted(every, key=lambda op: position[op])


def apart(
    before: Callable[[Operation, Operation, bool], bool], found: Matches
) -> Callable[[Operation, Operation, bool], bool]:
    """Whether two device ops must be in different programs, where matches have a place of their own."""

    def are_apart(maker: Operation, child: Operation, static: bool) -> bool:
        if (maker in found.members) != (child in found.members):
            return True
        return static if maker in found.members else before(maker, child, static)

    return are_apart


def note_unlike(plan: Any, program: Any) -> None:
    """Note that replicas differed in a run.

    Raises:
        KeptApart: they do so often.
    """
    program.unlike += 1
    if program.unlike >= max(LEAST_UNLIKE, plan.runs * MOST_UNLIKE):
        raise KeptApart
