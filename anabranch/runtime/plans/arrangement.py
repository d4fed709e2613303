"""Items of a segment: which ops run on the host, which are one program, what goes before what.

A value that XLA must know at compile time, and that is not known then, is computed in an earlier layer: its cheap
ancestors (its *slice*) on the host.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.contract import kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import shapes
from anabranch.runtime.plans import epilogue, layers, program_groups, shape_families, waves
from anabranch.runtime.plans.items import HostItem, Segment

MAX_HOST_SLICE = 4096
"""Elements up to which a value that must be known at compile time is computed on the host."""


def host_slices(plan: Any, segment: Segment) -> frozenset[Operation]:
    """Cheap ops before a value that must be known: they run on the host instead of in a program of their own."""
    slices: set[Operation] = set()
    plan.host_slices = frozenset()
    inside = set(segment.ops)
    needed = (*plan.required_static, *plan.required_bounds)
    stack = [key.op for key in needed if not isinstance(key, StateKey) and plan.producer(key) is not None]
    while stack:
        op = stack.pop()
        definition = op.definition
        if (
            op in slices
            or op not in inside
            or definition.is_stateful
            or kernels.needs_lax(definition)
            or plan.runs_on_host(op)
        ):
            continue
        sizes = [shapes.num_elements(output._shape) for output in op._outputs]
        if any(
            (size is None and output._shape is not None and len(output._shape) > 1) or (size or 0) > MAX_HOST_SLICE
            for size, output in zip(sizes, op._outputs, strict=True)
        ):
            continue
        makers = [plan.producer(key) for key in plan.sources(op)]
        if definition.shape_only and any(maker is not None for maker in makers):
            continue  # known while its input's program is traced; the input itself need not come to the host
        if any((shapes.num_elements(tensor._shape) or 0) > MAX_HOST_SLICE for tensor in op._inputs):
            continue
        slices.add(op)
        stack.extend(maker for maker in makers if maker is not None)
    return frozenset(slices)


def arrange_segment(plan: Any, segment: Segment) -> list[Any]:
    """Items of a segment that runs compiled, in the order in which they run."""
    several = plan.several_devices
    plan.host_slices = host_slices(plan, segment)
    ops = [op for op in segment.ops if op.role is not Role.ORDERING]  # whose control edges are followed
    inside = set(ops)
    on_host = {op: plan.runs_on_host(op) for op in ops}
    parents: dict[Operation, list[tuple[Operation, bool]]] = {}
    children: dict[Operation, list[tuple[Operation, bool]]] = {op: [] for op in ops}
    last_io: Operation | None = None
    before: dict[Operation, tuple[Operation, ...]] = {}
    for op in segment.ops:
        firsts = [(first,) if first in inside else before.get(first, ()) for first in op._control_inputs]
        before[op] = tuple(dict.fromkeys(first for group in firsts for first in group))
    for op in ops:
        links: dict[Operation, bool] = {}
        for position, key in enumerate(plan.sources(op)):
            maker = plan.producer(key)
            if maker in inside and maker is not None:
                links[maker] = links.get(maker, False) or _known_before(plan, op, position, key)
        for first in before[op]:
            if on_host[first] or on_host[op] or plan.device[first] == plan.device[op]:
                links.setdefault(first, False)  # else all effects of both commit together, in any order
        if plan.analysis.kind[op] == "io" or plan.calls_python(op):
            if last_io is not None:
                links.setdefault(last_io, False)
            last_io = op
        parents[op] = list(links.items())
        for maker, static in parents[op]:
            children[maker].append((op, static))

    def apart(maker: Operation, child: Operation, static: bool) -> bool:
        """Whether two device ops must be in different programs."""
        return static or plan.device[maker] != plan.device[child]

    def early(op: Operation) -> bool:
        return plan.analysis.kind[op] == "pure" and not plan.calls_python(op)

    order = layers.Ordering(parents, children, on_host, apart, early)
    if several:
        return waves.arrange(plan, segment, waves.without_unused(plan, ops, order), order)
    waiting = epilogue.find(plan, ops, on_host, parents, children)
    later = frozenset(waiting)
    rows = layers.of_one_device([op for op in ops if op not in later], order)
    if program_groups.may_donate(plan, segment):

        def makers(op: Operation) -> list[Operation]:
            return [key.maker for key in plan.analysis.state_of(op).writes]

        def movable(op: Operation) -> bool:
            return early(op) and (op.definition.elementwise or op.definition.only_passes) and not plan.is_fetched(op)

        rows = layers.with_writes_behind_host(rows, order, makers, movable)
    items: list[Any] = []
    small = shape_families.small_programs(plan, [row.ops for row in rows if not row.on_host])
    for row in rows:
        if row.on_host or row.ops in small:
            items += plan.host_items(row.ops)
        else:
            final = row is rows[-1]
            device = plan.device[row.ops[0]]
            items.append(program_groups.make_program(plan, segment, row.ops, device, final, waiting if final else ()))
    return [*items, *(HostItem(op, plan.sources(op), ()) for op in waiting)]


def _known_before(plan: Any, op: Operation, position: int, key: ValueKey | None) -> bool:
    """Whether an input must be there before the program of ``op`` is compiled."""
    if position >= len(op._inputs):
        return False
    if key in plan.required_static:
        return True
    return op._inputs[position] in plan.required_bounds and op.definition.effect.kind == "body"
