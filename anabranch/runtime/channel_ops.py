"""Channel ops: what runs between two segments, while the step holds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime import host_ops
from anabranch.runtime.interpreter import nested
from anabranch.runtime.step import ItemTime, Step
from anabranch.runtime.values import to_host

if TYPE_CHECKING:
    from anabranch.runtime.runner import Runner


def run(runner: Runner, op: Operation, env: dict[ValueKey, Any], step: Step) -> None:
    """Run a channel op; variables that it reads are looked at, not held."""
    if op.definition.effect.kind == "body":
        nested.run_channel(runner, op, env, step)
        return
    step.token.at = op
    plan = runner.plan
    carried = plan.analysis.carried
    operands = [env[key] if isinstance(key, Tensor) or key in carried else None for key in plan.sources(op)]
    # Variables that the segment itself has written are read once it has committed.
    reads = {at: key for at, key in plan.analysis.state_of(op).reads.items() if key not in carried}
    if reads:
        versions = runner.manager.pin([runner.slot(key.maker) for key in reads.values()], op, None, step.token)
        try:
            for position, version in zip(reads, versions, strict=True):
                operands[position] = version.host()
        finally:
            runner.manager.unpin(versions)
    pieces: list[Any] | None = None if step.stats is None else []
    values = host_ops.call(runner, op, [to_host(value) for value in operands], step.token, pieces=pieces)
    if step.stats is not None:
        step.stats += [ItemTime((at,), False, start, end, note=note) for at, start, end, note in pieces or ()]
    for output, value in zip(op._outputs, values, strict=True):
        if output not in plan.fed:
            env[output] = value
