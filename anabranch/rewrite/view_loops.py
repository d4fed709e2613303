"""Loops of a functional view: from frames of version 1 to an op with a condition and a body."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import (
    EXITS,
    NEXTS,
    IrregularError,
    Loop,
)
from anabranch.core.values import shapes
from anabranch.rewrite.view_place import Key, Place, entry, scope_of

_MOST_ATTEMPTS = 4
"""How often a loop is built with other shapes of what it carries."""


def build_loop(builder: Any, loop: Loop, place: Place) -> None:
    """Build a loop."""
    regions = place.regions
    assert loop.condition is not None
    decisive = loop.condition._outputs[0]
    builder.outer[loop] = place
    for item in loop.items:
        if isinstance(item, Operation):
            path = regions.item_paths[item]
            if (item.type in NEXTS and path != ((decisive, 1),)) or (item.type in EXITS and path != ((decisive, 0),)):
                raise IrregularError(f"{item.name!r} is conditional in its loop")
    if regions.item_paths[loop.condition] != ():
        raise IrregularError(f"{loop.condition.name!r} is conditional")
    ops = list(loop.all_ops())
    builder.lists.prepare(ops, place)
    keys = [key for key in builder.lists.written(ops, place) if place.has_list(key)]
    entries = [entry(merge) for merge in loop.merges]
    initial = [builder.get(tensor, place) for tensor, _ in entries] + [place.list_of(key) for key in keys]
    wanted = [tensor._shape for tensor in initial]
    for _ in range(_MOST_ATTEMPTS):
        start = len(builder.graph._operations)
        condition, body, after = _loop_bodies(builder, loop, place, initial, wanted, keys)
        if after is not None and all(
            shapes.is_compatible(a, b) and shapes.generalize(a, b) == a for a, b in zip(wanted, after, strict=True)
        ):
            break
        body_ops.remove_ops(
            builder.graph,
            [op for op in builder.graph._operations[start:] if condition.encloses(op.body) or body.encloses(op.body)],
        )
        wanted = [
            None if after is None else shapes.generalize(a, b) for a, b in zip(wanted, after or wanted, strict=True)
        ]
    else:
        raise IrregularError(f"the shapes of the loop {loop.name!r} do not settle")
    builder._while(loop, place, (condition, body), initial, wanted, keys)


def _loop_bodies(
    builder: Any, loop: Loop, place: Place, initial: list[Tensor], wanted: list[Any], keys: list[Key]
) -> tuple[Body, Body, list[Any] | None]:
    """Condition and body for variables of certain shapes; the shapes after an iteration, or None if they refuse."""
    graph = builder.graph
    regions = place.regions
    assert loop.condition is not None
    decisive = loop.condition._outputs[0]
    items = [item for item in regions.order[loop] if not (isinstance(item, Operation) and item.type in NEXTS)]
    with graph.building(place.body):
        condition, body = (
            graph.new_body(f"{scope_of(loop.items)}_cond"),
            graph.new_body(f"{scope_of(loop.items)}_body"),
        )
    try:
        parts = []
        for part, known in ((condition, {}), (body, {decisive: 1})):
            inner = Place(part, place, regions, loop, known)
            inner.begins_frame = True
            for i, (tensor, shape) in enumerate(zip(initial, wanted, strict=True)):
                arg = part.add_arg(tensor.dtype.base, shape, tensor.op.name.rsplit("/", 1)[-1])
                arg._handle = tensor._handle
                if i < len(loop.merges):
                    inner.env[loop.merges[i]._outputs[0]] = arg
                else:
                    inner.lists[keys[i - len(loop.merges)]] = arg
            parts.append(inner)
        deciding, going = parts
        paths = regions.item_paths
        builder.block([item for item in items if not any(p is decisive for p, _ in paths[item] or ())], deciding)
        condition.outputs = [builder.local(builder.get(loop.condition._inputs[0], deciding), condition)]
        condition.control_outputs = deciding.effects
        builder.block([item for item in items if (decisive, 1) in (paths[item] or ())], going)
        nexts = [builder.get(entry(merge)[1], going) for merge in loop.merges] + [going.list_of(key) for key in keys]
        body.outputs = [builder.local(tensor, body) for tensor in nexts]
        body.control_outputs = going.effects
        if any(key in deciding.lists and deciding.lists[key] is not condition.args[len(loop.merges) + i]
               for i, key in enumerate(keys)):  # fmt: skip
            raise IrregularError(f"what decides about the loop {loop.name!r} changes a stack or tensor array")
    except (TypeError, ValueError) as problem:
        if all(shape is None for shape in wanted):
            raise IrregularError(f"the loop {loop.name!r} cannot be built: {problem}") from problem
        return condition, body, None
    return condition, body, [output._shape for output in body.outputs]
