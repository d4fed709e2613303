"""What a plan says of itself: segments, programs, where they run and why, host ops, the tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.core.contract.roles import Role
from anabranch.core.graph.state_key import StateKey
from anabranch.placement.devices import Device, Mesh


def explain(plan: Any) -> str:
    """A text that says what the plan does: segments, programs, host ops, tier and why."""
    lines = [
        f"plan of {len(plan.analysis.order)} ops for {len(plan.fetches)} fetches, "
        f"tier: {plan.tier or 'not chosen yet'}" + (f" ({plan.why})" if plan.why else "")
    ]
    lines.append(f"  cost: {plan.cost.describe()}; run {plan.runs} times")
    if plan.varying.batch:
        names = ", ".join(tensor.name for tensor in plan.varying.batch)
        lines.append(f"  batches of any size: {names} are padded")
    elif plan.varying.stopped:
        lines.append(f"  batches are not padded: {plan.varying.stopped}")
    for segment in plan.segments:
        names = ", ".join(maker.name for maker in segment.written)
        lines.append(f"  segment {segment.index}: {len(segment.ops)} ops" + (f", writes {names}" if names else ""))
        wave = -1
        for item in segment.items:
            if not hasattr(item, "program"):
                lines.append(f"    host     {item.op.name} ({item.op.type})")
                continue
            types: dict[str, int] = {}
            for op in item.program.group.ops:
                types[op.type] = types.get(op.type, 0) + 1
            text = ", ".join(f"{count} {name}" if count > 1 else name for name, count in sorted(types.items()))
            device = _device_of(plan, item)
            beside = wave == item.wave >= 0
            wave = item.wave
            where = f"{device}, beside the last" if beside else f"{device}"
            lines.append(f"    program  {len(item.program.group.ops)} ops on {where}: {text}")
            lines += [f"             {text}" for text in _placement(plan, item)] if plan.several_devices else []
            if item.refused:
                lines.append(f"             interpreted: {item.refused}")
            lines += [f"             {text}" for text in item.program.explain_forms()]
            if item.program.donated:
                names = ", ".join(base.maker.name for base in item.program.donated)
                lines.append(f"             owns the buffers of {names}")
            if item.static:
                names = ", ".join(getattr(item.program.inputs[i], "name", "?") for i in item.static)
                lines.append(f"             compiled per value of {names}")
            for name in item.program.tentative_writes():
                lines.append(
                    f"             a check reads what {name} writes: it is written first and taken back on failure"
                )
        if segment.carried:
            names = ", ".join(key.maker.name for key in segment.carried)
            lines.append(f"  carried to what follows: {names}")
        if segment.channel is not None:
            lines.append(f"  channel {segment.channel.name} ({segment.channel.type}): what came before is committed")
    return "\n".join(lines)


def _device_of(plan: Any, item: Any) -> Device | Mesh:
    mesh = item.program.device
    if isinstance(mesh, Mesh):
        return mesh
    device: Device = plan.device[item.program.group.ops[-1]]
    return device


def _placement(plan: Any, item: Any) -> Iterator[str]:
    """Why a program is where it is, and what comes to it from other devices."""
    device = _device_of(plan, item)
    inside = device.devices if isinstance(device, Mesh) else (device,)
    ops = [op for op in item.program.group.ops if op.role is not Role.CONSTANT]
    reasons = plan.device.reasons_of(ops)
    if reasons:
        yield f"placed: {reasons}"
    moved: dict[Device, list[str]] = {}
    for key in item.program.inputs:
        maker = key.maker if isinstance(key, StateKey) else plan.producer(key)
        source = plan.device.get(maker, inside[0])
        if source not in inside and not plan.runs_on_host(maker):
            moved.setdefault(source, []).append(maker.name)
    for source, names in moved.items():
        yield f"moved here from {source}: {', '.join(names)}"
    if item.goes_last:
        yield "called when the checks of the programs beside it have passed"
