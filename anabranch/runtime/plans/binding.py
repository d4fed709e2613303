"""A plan bound to the resources of one manager: which variables and counters its segments read and write."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey
from anabranch.core.values import dtypes
from anabranch.rewrite import effects
from anabranch.runtime.plans.items import Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Layout, RandomCounter, ResourceHandle, Slot


@dataclasses.dataclass
class SegmentState:
    """Resolved resources of a segment; valid while ``layout`` holds."""

    layout: Layout
    base: list[tuple[StateKey, Slot, Operation]]
    """Committed versions that are needed: key, variable, and the first op that reads it."""
    written: list[tuple[StateKey, Slot]]
    slots: dict[StateKey, Slot]
    counters: dict[Operation, RandomCounter]
    claim_reads: frozenset[Slot]
    claim_writes: frozenset[Slot | RandomCounter]

    def written_slot(self, key: StateKey) -> Slot:
        """The variable that ``key`` is a new version of."""
        return next(slot for written, slot in self.written if written.maker is key.maker)


class Binding(NamedTuple):
    """The states of all segments, and the layout for which they are valid."""

    layout: Layout
    states: list[SegmentState]


def unbound() -> Binding:
    """What a plan has before it is bound."""
    layout = Layout()
    layout.holds = False
    return Binding(layout, [])


class Names(Protocol):
    """What knows the handles of resources: a plan, or a worker."""

    @property
    def handle_of(self) -> Callable[[Operation], ResourceHandle]:
        """The resource that an op which makes handles names."""
        ...


def slot_of(plan: Names, manager: ResourceManager, maker: Operation, layout: Layout | None = None) -> Slot:
    """The variable that ``maker`` names, which becomes part of ``layout``."""
    create = maker.definition.create
    if create is not None:  # a table, which is there, empty, before anything fills it
        initial = functools.partial(create, maker._attrs, maker.name)
        return manager.slot(plan.handle_of(maker), dtypes.variant, (), initial, layout)
    return manager.slot(plan.handle_of(maker), maker._attrs["dtype"], maker._attrs["shape"], None, layout)


def counter_of(plan: Names, manager: ResourceManager, op: Operation, layout: Layout | None = None) -> RandomCounter:
    """The stream of a random op, which becomes part of ``layout``."""
    return manager.counter(plan.handle_of(op).name, op._attrs.get("seed", 0), op._attrs.get("seed2", 0), layout)


def readers(plan: Plan, segment: Segment) -> dict[StateKey, list[Operation]]:
    """The ops of a segment that read a version, in order."""
    readers_of: dict[StateKey, list[Operation]] = {}
    for op in segment.ops if segment.channel is None else [*segment.ops, segment.channel]:
        for key in dict.fromkeys(plan.analysis.state_of(op).seen()):
            readers_of.setdefault(key, []).append(op)
    return readers_of


def _only_asks(op: Operation) -> bool:
    return op.definition.effect.presence


def _does_without(op: Operation, maker: Operation, plan: Plan) -> bool:
    """Whether ``op`` runs although the variable of ``maker`` has no value."""
    within = effects.summary(op)
    if within is None:
        if not op.definition.allows_uninitialized:
            return False
        values = op.definition.by_value(plan.sources(op), op._attrs)
        return not any(isinstance(key, StateKey) and key.maker is maker for key in values)
    return maker not in {plan.analysis.variables.of(needed) for needed in within.needs}


def bind(plan: Plan, manager: ResourceManager) -> Binding:
    """Look up what the plan's handles name. Repeated until none of it appeared or vanished meanwhile."""
    while True:
        layout = Layout()
        binding = Binding(layout, [_bind_segment(plan, manager, segment, layout) for segment in plan.segments])
        if layout.holds:
            return binding


def _bind_segment(plan: Plan, manager: ResourceManager, segment: Segment, layout: Layout) -> SegmentState:
    base = []
    may_be_absent = []
    reading = readers(plan, segment)
    for maker in segment.base_reads:
        key = StateKey(maker, segment.index, 0)
        ops_reading = reading.get(key, [])
        # Who only asks whether a variable is initialised, or does without its value, does not need it to be.
        row = (key, slot_of(plan, manager, maker, layout), ops_reading[0] if ops_reading else maker)
        if not ops_reading or not all(_does_without(op, maker, plan) for op in ops_reading):
            base.append(row)
        elif not all(_only_asks(op) for op in ops_reading):
            may_be_absent.append(row)
    written = [(key, slot_of(plan, manager, maker, layout)) for maker, key in segment.written.items()]
    counters = {op: counter_of(plan, manager, op, layout) for op in segment.random_ops}
    writes = frozenset([slot for _, slot in written]) | frozenset(counters.values())
    reads = frozenset([slot for _, slot, _ in base + may_be_absent]) - writes
    # The layout ends when a variable gets its first value: then all this is done anew.
    base += [row for row in may_be_absent if row[1].version is not None]
    return SegmentState(layout, base, written, {row[0]: row[1] for row in base}, counters, reads, writes)
