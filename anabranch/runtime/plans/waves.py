"""Segments whose programs run on several devices: what each device is given, and who owns the buffers of variables.

*Reads.* An op takes the value of a variable of another device from the variable itself, not from a read op on that
device: a version moves (:meth:`anabranch.runtime.state.slots.Version.on`), and no program has to hand it out first.

*Ownership.* Programs that own the buffers of variables are called last, and only if nothing that may fail is called
beside or after them: a failed segment changes no state, and what such a program has overwritten does not come back. So,
in the last layer of a segment,

- if no program has checks, all own what they write;
- if one has, all do, and this one is called first: it holds its own writes back if it fails, and then the others are
  not called;
- if several have, they write new buffers, and are called first; the others own what they write.

Checks that nobody had expected are met when a program is traced, before any of its wave is called: then the plan is
arranged anew, as the types of ops that make them are known by then. If there still are such, any program is taken to
have checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.placement.devices import Device, Mesh
from anabranch.rewrite import reach
from anabranch.runtime.plans import layers, program_groups, replicas
from anabranch.runtime.plans.items import ProgramItem
from anabranch.xla import lowering


def are_needed(plan: Any) -> bool:
    """Whether a plan has programs on several devices."""
    devices = {
        plan.device[op]
        for op in plan.analysis.order
        if op.definition.makes is None and op.role not in (Role.CONSTANT, Role.ORDERING) and not plan.needs_host(op)
    }
    return len(devices) > 1


def read_where_used(plan: Any) -> None:
    """Let ops take variables of other devices from the variables themselves."""
    analysis, device = plan.analysis, plan.device
    for op in analysis.order:
        if op.definition.effect.kind == "body":
            continue
        sources = plan.sources(op)
        for i, key in enumerate(sources):
            if not isinstance(key, Tensor) or key in plan.fed:
                continue
            read = key.op
            if (
                read.definition.effect.kind != "read"
                or read.definition.passes is None
                or analysis.segment.get(read) != analysis.segment[op]
                or device[read] == device[op]
            ):
                continue
            for version in analysis.state_of(read).seen():
                if version.index == 0 and version.segment == analysis.segment[op]:
                    sources = (*sources[:i], version, *sources[i + 1 :])
        if sources is not plan.sources(op):
            plan.take_from(op, sources)


def without_unused(plan: Any, ops: Sequence[Operation], order: layers.Ordering) -> list[Operation]:
    """The ops of a segment but for reads that nobody takes a value from any more."""
    unused: set[Operation] = set()
    for op in reversed(ops):
        if (
            (op.definition.effect.kind == "read" or reach.is_transparent_read(op, plan.fed))
            and not any(child not in unused for child, _ in order.children[op])
            and not any(user not in unused for output in op._outputs for user in plan.consumers.get(output, ()))
            and not plan.is_fetched(op)
        ):
            unused.add(op)
    return [op for op in ops if op not in unused]


def arrange(plan: Any, segment: Any, ops: Sequence[Operation], order: layers.Ordering) -> list[Any]:
    """The items of a segment."""
    device: dict[Operation, Device | Mesh] = dict(plan.device)
    matches = replicas.find(plan, ops, order.on_host)
    if matches is not None:
        contracted = replicas.contracted(ops, order, matches, plan.analysis.position)
        if contracted is None:
            matches = None
        else:
            ops, order = contracted
            order = order._replace(apart=replicas.apart(order.apart, matches))
            device.update(dict.fromkeys(matches.members, matches.mesh))
    rows = layers.of_several_devices(ops, order, device, () if matches is None else matches.members)
    if program_groups.may_donate(plan, segment) and layers.elements(segment.written) >= layers.WORTH_OWNING:
        writers = {op for op in ops if not order.on_host[op] and plan.analysis.state_of(op).writes}
        rows = layers.with_writes_last(rows, order, device, writers, lowering.expects_checks)
    items: list[Any] = []
    waves = itertools.count()
    for row in rows:
        if row.on_host:
            items += plan.host_items(row.ops)
            continue
        groups: dict[Device | Mesh, list[Operation]] = {}
        for op in row.ops:
            groups.setdefault(device[op], []).append(op)
        checking = {place for place, group in groups.items() if plan.unsure or any(map(lowering.expects_checks, group))}
        owners: set[Device | Mesh] = set()
        if row is rows[-1]:
            owners = set(groups) if len(checking) < 2 else set(groups) - checking
        programs: dict[Device | Mesh, ProgramItem] = {}
        for place, group in groups.items():
            if matches is not None and place is matches.mesh:
                every = replicas.members_of(matches, group, plan.analysis.position)
                programs[place] = program_groups.make_program(
                    plan, segment, every, place, False, replication=matches.replication()
                )
            else:
                programs[place] = program_groups.make_program(plan, segment, group, place, place in owners)
        own = {place for place, item in programs.items() if item.program.donated}
        number = next(waves)
        for place, item in programs.items():
            item.wave = number
            item.goes_last = bool(own - checking) and place not in checking
            item.must_not_fail = bool(own - {place}) and place not in checking
            items.append(item)
    return items
