"""Programs of a plan: what a group of ops takes and gives, and which buffers of variables it may own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes, shapes
from anabranch.placement.devices import Device, Mesh
from anabranch.rewrite import effects
from anabranch.runtime.plans import shape_families
from anabranch.runtime.plans.items import ProgramItem, Segment
from anabranch.xla import engine
from anabranch.xla import program as programs
from anabranch.xla.program_function import ProgramOps
from anabranch.xla.replicated_program import ReplicatedProgram, Replication


def make_program(
    plan: Any,
    segment: Segment,
    group: list[Operation],
    device: Device | Mesh,
    final: bool,
    waiting: Sequence[Operation] = (),
    replication: Replication | None = None,
) -> ProgramItem:
    """A program; one after which nothing can fail is *final*, and given the ops that wait for it, whose checks it
    makes. What ``replication`` describes is one program over several devices.
    """
    make: Any = programs.Program
    if replication is not None:
        make = functools.partial(ReplicatedProgram, replication)
    inside = set(group)
    constants = {
        key.op for op in group for key in plan.sources(op) if not isinstance(key, StateKey) and key in plan.constants
    }
    group = sorted(constants, key=lambda op: op._id) + group
    values: list[ValueKey] = []
    for op in group:
        values += [*op._outputs, *plan.analysis.state_of(op).writes]
    consumers_outside = {
        key for key in values if key in plan.fetched or not inside.issuperset(plan.consumers.get(key, ()))
    }
    sources = {op: plan.sources(op) for op in group}
    writes = {op: plan.analysis.state_of(op).writes for op in group}
    outputs: list[ValueKey] = [
        output
        for op in group
        if op not in constants
        for output in op._outputs
        if output in consumers_outside and output not in plan.fed and not (output.dtype.is_ref and writes[op])
    ]
    group_outputs = [key for op in group for key in writes[op]]
    donated: dict[StateKey, StateKey] = {}
    kept: list[StateKey] = []
    owns = final and may_donate(plan, segment)
    read = {key for op in group for key in sources[op] if isinstance(key, StateKey)}
    for key in group_outputs:
        is_final = segment.written[key.maker] == key
        base = StateKey(key.maker, segment.index, 0)
        whole_chain = all(
            plan.writers[StateKey(key.maker, segment.index, i)] in inside for i in range(1, key.index + 1)
        )
        first = plan.writers[StateKey(key.maker, segment.index, 1)]
        known = base in plan.required_static  # a value that the program is compiled for is not one of its arguments
        if is_final and owns and whole_chain and not known and (first.definition.effect.reads or base in read):
            donated[base] = key
        elif is_final or key in consumers_outside:
            kept.append(key)
    for key in group_outputs:
        if key in consumers_outside and key not in kept and key not in donated.values():
            kept.append(key)
    checked = tuple(op for op in waiting if op.definition.checks is not None)
    for op in checked:
        sources[op] = tuple(
            key if isinstance(key, Tensor) and not key.dtype.base.host_only else None for key in plan.sources(op)
        )
    program = make(
        ProgramOps(
            tuple(group),
            sources,
            writes,
            plan.analysis.position,
            plan.fed,
            plan.view,
            tuple(dict.fromkeys(inner for op in group for inner in effects.random_ops_of(op))),
            frozenset(plan.analysis.awaited.intersection(output for op in group for output in op._outputs)),
            checked,
        ),
        [*outputs, *kept],
        donated,
        device.platform,
        device=None if isinstance(device, Device) and engine.is_default(device) else device,
        precision=plan.options.precision,
        sizes_change=plan.nested or plan.dynamic_on_host or bool(plan.varying.open),
    )
    if not plan.varying.batch:
        program.open_axes.update(shape_families.open_axes(plan, program.inputs))
    if plan.dynamic_on_host:
        program.open_axes = {
            i: tuple(axis for axis, size in enumerate(key._shape) if size is None)
            for i, key in enumerate(program.inputs)
            if isinstance(key, Tensor) and key._shape is not None and may_vary(key)
        }
    bounds = tuple(i for i, key in enumerate(program.inputs) if key in plan.required_bounds)
    static = tuple(
        i
        for i, key in enumerate(program.inputs)
        if key in plan.required_static
        or (
            not isinstance(key, StateKey)
            and (key in plan.handles or (key.dtype.base.host_only and key.dtype.base is not dtypes.variant))
        )
    )
    if plan.varying.batch:
        needed = [i for i in (*static, *bounds) if program.inputs[i] not in plan.handles]
        axes = shape_families.batch_axes(plan, program.inputs, needed)
        program.batch_axes = {i: batch for i, batch in axes.items() if i not in program.open_axes}
    settled = (
        not static
        and not bounds
        and not plan.nested
        and all(
            plan.producer(key) is None
            and key not in plan.varying.open
            and not (isinstance(key, StateKey) and key.segment != segment.index)
            for key in program.inputs
        )
    )
    return ProgramItem(program, static, tuple(outputs), tuple(kept), settled, bounds=bounds)


def may_donate(plan: Any, segment: Segment) -> bool:
    """Whether the last programs of a segment may own the buffers of variables."""
    return not segment.calls_python and not plan.options.recoverable and shapes_certain(plan, segment)


def shapes_certain(plan: Any, segment: Segment) -> bool:
    """Whether no value that replaces a variable can turn out to have a wrong shape once buffers are given away."""
    for maker, key in segment.written.items():
        writer = plan.writers[key]
        if writer.definition.effect.reads:
            continue
        value = writer._inputs[-1]
        if not shapes.is_static(value._shape) or not shapes.is_compatible(value._shape, maker._attrs["shape"]):
            return False
    return True


def may_vary(tensor: Tensor) -> bool:
    """Whether the shape of an array is not fully known before the step runs."""
    return tensor.dtype.base.np is not None and not tensor.dtype.is_ref and not shapes.is_static(tensor._shape)
