"""Ops on a variable or table that a conditional chooses: ``op(cond(p, a, b))`` is run as ``cond(p, op(a), op(b))``.

A plan knows the state that a step touches before the step runs. So an op whose handle comes out of a conditional is put
into its branches, in the functional view of the step: each copy has a handle that leads to the op that makes it, and a
conditional has the effects of what is inside. Channels (queues, iterators) need none of this: they are found when they
are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.core.contract import opdef
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops, passing
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import BodyUse, bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import IrregularError
from anabranch.rewrite import reach


def chosen(
    op: Operation, inputs: Sequence[Tensor], outer: Mapping[Tensor, Tensor] | None = None
) -> tuple[int, Tensor] | None:
    """The first operand of an op on state whose handle a conditional chooses, and what the conditional gives.

    ``outer`` has the tensors that arguments of bodies stand for that are still being built.
    """
    if op.definition.effect.kind not in ("read", "write"):
        return None
    for position in op.definition.resource_positions(op._attrs):
        handle = inputs[position]
        if not handle.dtype.is_ref:
            maker, last = reach.followed(handle)
            while maker is None and outer is not None and last in outer:
                maker, last = reach.followed(outer[last])
            if maker is None and last.op.role is Role.CONDITIONAL:
                return position, last
    return None


def occurs(op: Operation) -> bool:
    """Whether an op acts on state that a conditional chooses."""
    return chosen(op, op._inputs) is not None


def emit(builder: Any, op: Operation, inputs: Sequence[Tensor], controls: Sequence[Operation], body: Body) -> Operation:
    """Build ``op`` in the branches of the conditionals that choose its handles; what has its outputs."""
    found = chosen(op, inputs, builder.arguments)
    if found is None:
        with builder.graph.building(body):
            emitted: Operation = builder.create(op.definition, inputs, dict(op._attrs), op.name, controls)
        emitted.user_site, emitted.original, emitted._device = op.user_site, op.original, op._device
        builder.user[emitted] = op
        return emitted
    position, handle = found
    conditional = handle.op
    branches = []
    for use in bodies_of(conditional):
        with builder.graph.building(body):
            branch = builder.graph.new_body(use.body.name.rsplit("/", 1)[-1])
        operands = list(inputs)
        operands[position] = _given(use, use.body.outputs[handle.value_index], conditional)
        inner = emit(builder, op, [branch.capture(operand) for operand in operands], (), branch)
        branch.outputs = list(inner._outputs)
        branch.control_outputs.append(inner)
        branches.append(branch)
    with builder.graph.building(body):
        captured = body_ops.line_up(branches)
        attrs = {key: value for key, value in conditional._attrs.items() if key != "output_shapes"}
        bodies = iter(branches)
        for key, value in attrs.items():
            if isinstance(value, Body):
                attrs[key] = next(bodies)
            elif isinstance(value, tuple) and any(isinstance(part, Body) for part in value):
                attrs[key] = tuple(bodies)
        attrs |= {
            "Tin": tuple(tensor.dtype.base for tensor in captured),
            "Tout": tuple(output.dtype.base for output in op._outputs),
            "output_shapes": (),
        }
        stateless = "Stateless" if not any(map(body_ops.is_stateful, branches)) else ""
        kind = "Case" if body_ops.chosen_by_number(conditional) else "If"
        definition = opdef.lookup(f"{stateless}{kind}")
        predicate = body.capture(conditional._inputs[0])
        made: Operation = builder.create(definition, [predicate, *captured], attrs, op.name, controls)
        body_ops.own(made)
    made.user_site, made.original = op.user_site, op.original
    builder.user[made] = op
    return made


def _given(use: BodyUse, output: Tensor, conditional: Operation) -> Tensor:
    """The handle that a branch gives, as a tensor of where the conditional stands."""
    output = passing.origin(output)
    if output.op.role is Role.ARGUMENT and output.op.body is use.body:
        index: int = output.op._attrs["index"]
        return conditional._inputs[use.first + index]
    raise IrregularError(f"a branch of {conditional.name!r} computes a handle")
