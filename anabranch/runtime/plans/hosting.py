"""Which ops cannot be part of a program, for what they are, and which reads on the host need no copy."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from anabranch.core.contract.roles import Role
from anabranch.core.graph import shared_bodies
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes
from anabranch.rewrite import effects, reach
from anabranch.xla import control, known_values

MOST_INLINED = 512
"""Operations that shared bodies may add to a program, which has a copy of them for each call."""


def needs_host(
    op: Operation, sources: Sequence[ValueKey | None], fed: Container[Tensor], constants: Container[Tensor] = ()
) -> bool:
    """Whether an op of a body cannot be part of a program, for what it is or what its own bodies hold."""
    definition = op.definition
    effect = definition.effect
    if effect.kind == "body":
        if shared_bodies.executions(op) > MOST_INLINED or any(_made_inside(output) for output in op._outputs):
            return True
        inside = (inner for inner in effects.inner_ops(op) if inner.definition.effect.kind != "body")  # at any depth
        return any(needs_host(inner, inner._inputs, fed) for inner in inside) or any(
            isinstance(key, StateKey) and key.maker._outputs[0].dtype.base.name == "string" for key in sources
        )
    constant = definition.role is Role.CONSTANT
    if definition.role in control.OPTIONALS:
        return any(tensor.dtype.base is dtypes.string for tensor in (*op._inputs, *op._outputs))
    if definition.makes is not None or constant:
        return definition.makes is None and op._outputs[0].dtype.base is dtypes.string and not constant
    if definition.kernel is None or definition.data_dependent_shape:
        return not (known_values.folds(op) and known_values.follow_from_shapes(sources, fed))
    if effect.kind in ("io", "channel", "feed") or (effect.kind == "read" and definition.allows_uninitialized):
        return True
    if any(_only_on_host(output) for output in op._outputs if not output.dtype.is_ref or not effect.resources):
        return True
    owned = definition.resource_positions(op._attrs)
    for position, key in enumerate(sources):
        if key is None:
            continue
        if isinstance(key, StateKey):
            if key.maker._outputs[0].dtype.base is dtypes.string:
                return True
        elif _only_on_host(key) and key not in constants and key.op.role is not Role.CONSTANT and position not in owned:
            return True
    return False


def _made_inside(output: Tensor) -> bool:
    """Whether an output of an op with bodies is a handle that one of them makes or chooses: no value of a program."""
    if output.dtype.base is not dtypes.resource:
        return False
    maker = reach.known_maker_of(output)
    return maker is None or not maker.body.is_root


def _only_on_host(tensor: Tensor) -> bool:
    """Whether a program cannot hold a tensor: text, handles, and arrays of lists (a list by itself it can hold)."""
    base = tensor.dtype.base
    return base.host_only and (base is not dtypes.variant or bool(tensor._shape))


def lent_reads(plan: Any) -> frozenset[Operation]:
    """Reads of variables for nothing but ops that borrow, in their segment: these see the pinned version itself."""
    where = plan.analysis.segment
    return frozenset(
        op
        for op in plan.analysis.order
        if op.definition.effect.kind == "read"
        and op.definition.passes is not None
        and op._outputs[0] not in plan.fetches
        and op._outputs[0] not in plan.fed
        and all(
            getattr(user.definition.host_kernel, "borrows", False) and where[user] == where[op]
            for user in plan.consumers.get(op._outputs[0], ())
        )
    )


def host_lists(plan: Any) -> frozenset[Operation]:
    """Ops on lists that come from, or go to, another execution of a body: there they stay lists of the host."""
    if not plan.nested:
        return frozenset()
    variants = {tensor for tensor in (*plan.feeds, *plan.fetched) if isinstance(tensor, Tensor)}
    stack = [tensor for tensor in variants if tensor.dtype.base is dtypes.variant]
    seen: set[Tensor] = set(stack)
    on_lists: set[Operation] = set()
    inside = set(plan.analysis.order)
    while stack:
        tensor = stack.pop()
        for op in (tensor.op, *tensor._consumers):
            if op not in inside:
                continue
            on_lists.add(op)
            for other in (*op._inputs, *op._outputs):
                if other.dtype.base is dtypes.variant and other not in seen:
                    seen.add(other)
                    stack.append(other)
    return frozenset(on_lists)
