"""Conditionals of a functional view: from the elements that a predicate decides to an op with one body per branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from anabranch.core.contract import opdef
from anabranch.core.graph import body_ops
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import (
    SWITCHES,
    Item,
    Loop,
)
from anabranch.core.values import dtypes, shapes
from anabranch.rewrite.view_place import Key, Place, scope_of


def build_conditional(builder: Any, pred: Tensor, members: list[Item], place: Place) -> None:
    """Build a conditional."""
    regions = place.regions
    count = regions.outcomes[pred]
    inside = set(members)
    builder.lists.prepare(_ops_of(members), place)
    merges = [
        item
        for item in members
        if not isinstance(item, Loop)
        and isinstance(pivot := regions.pivots.get(item), tuple)
        and pivot[0] is pred
        and all(place.value_of(known) is not None for known, _ in regions.item_paths[item] or ())
    ]
    results = [
        output
        for merge in merges
        for output in merge._outputs
        if _leaves(builder, output, inside) and builder.lists.key_of(output, place) is None
    ]
    branches = []
    for value in range(count):
        with builder.graph.building(place.body):
            body = builder.graph.new_body(f"{scope_of(members)}_{('false', 'true')[value] if count == 2 else value}")
        branch = Place(body, place, regions, place.frame, {pred: value})
        builder.block([item for item in members if (pred, value) in (regions.item_paths[item] or ())], branch)
        branches.append(branch)
    exports = [
        output
        for item in members
        for output in _outputs(item)
        if output.op.type != "Const"
        and any(literal[0] is pred for literal in regions.paths.get(output) or ())
        and _leaves(builder, output, inside)
        and _is_there(builder, output, branches)
    ]
    changed = dict.fromkeys(key for branch in branches for key in (*branch.lists, *branch.left))
    keys = [key for key in changed if place.holds_list(key)]
    left = builder.lists.touched_later([key for key in changed if not place.holds_list(key)], _ops_of(members), place)
    if not (results or exports or keys or left) and all(
        op.type == "_Arg" for branch in branches for op in branch.body.operations
    ):
        return
    for value, branch in enumerate(branches):
        _finish_branch(builder, branch, value, (merges, results, exports), (keys, left))
    _make_op(builder, pred, members, branches, (merges, results, exports, keys, left), place)


def _finish_branch(
    builder: Any,
    branch: Place,
    value: int,
    outcome: tuple[list[Operation], list[Tensor], list[Tensor]],
    lists: tuple[list[Key], list[Key]],
) -> None:
    body, (merges, results, exports) = branch.body, outcome
    outputs = []
    with builder.graph.building(body):
        for output in results:
            _, chosen = branch.regions.pivots[output.op]  # type: ignore[misc]
            if output.value_index:
                outputs.append(constant(np.int32(chosen[value])))
            else:
                outputs.append(builder.local(builder.get(output.op._inputs[chosen[value]], branch), body))
        for output in exports:
            if output in branch.exports:
                outputs.append(branch.exports[output])
            elif output in branch.env:
                there = builder.local(branch.env[output], body)
                outputs.append(build("OptionalFromValue", [there], name=f"{output.op.name}_kept"))
            else:
                outputs.append(build("OptionalNone", name=f"{output.op.name}_none"))
        keys, left = lists
        outputs += [builder.local(branch.list_of(key), body) for key in keys]
        for key in left:
            if key in branch.lists:
                there = builder.local(branch.lists[key], body)
                outputs.append(build("OptionalFromValue", [there], name=f"{key[0].name}_kept"))
            elif key in branch.left:
                outputs.append(builder.local(branch.left[key][0], body))
            else:
                outputs.append(build("OptionalNone", name=f"{key[0].name}_none"))
    body.outputs = outputs
    body.control_outputs += [op for op in [*_held(builder, branch, value, merges), *branch.effects] if op.body is body]


def _held(builder: Any, branch: Place, value: int, merges: list[Operation]) -> list[Operation]:
    """What a branch does before its end, where somebody waits for that: an assertion, for example."""
    held = []
    for merge in merges:
        if merge in builder.awaited:
            _, chosen = branch.regions.pivots[merge]  # type: ignore[misc]
            held += builder.controls([merge._inputs[chosen[value]].op], branch)
    return [op for op in held if op.type != "_Arg"]


def _make_op(builder: Any, pred: Tensor, members: list[Item], branches: list[Place], ends: Any, place: Place) -> None:
    merges, results, exports, keys, left = ends
    graph = builder.graph
    two = pred.dtype.is_bool
    bodies = [branch.body for branch in (reversed(branches) if two else branches)]
    with graph.building(place.body):
        chosen = builder.get(pred, place)
        captured = body_ops.line_up(bodies)
        controls = _waits(builder, members, place)
        stateless = "" if any(map(body_ops.is_stateful, bodies)) else "Stateless"
        attrs: dict[str, Any] = {
            "Tin": tuple(tensor.dtype.base for tensor in captured),
            "Tout": tuple(output.dtype.base for output in bodies[0].outputs),
            "output_shapes": (),
        }
        if two:
            attrs |= {"Tcond": dtypes.bool_, "then_branch": bodies[0], "else_branch": bodies[1]}
        else:
            attrs["branches"] = tuple(bodies)
        kind = f"{stateless}{'If' if two else 'Case'}"
        op = builder.create(opdef.lookup(kind), [chosen, *captured], attrs, f"{scope_of(members)}/{kind}", controls)
        body_ops.own(op)
    shown = merges[0] if merges else next(_ops_of(members))
    op.user_site, op.original = shown.user_site, shown.original
    builder.user[op] = shown
    for merge in merges:
        builder.emitted[merge] = op
    outputs = iter(op._outputs)
    for output, new in zip(results, outputs, strict=False):
        if shapes.is_compatible(output._shape, new._shape):
            new._shape = shapes.merge(output._shape, new._shape)
        place.env[output] = new
    for output, new in zip(exports, list(op._outputs)[len(results) :], strict=False):
        place.exports[output] = new
    rest = list(op._outputs)[len(results) + len(exports) :]
    for key, new in zip(keys, rest, strict=False):
        new._handle = new._handle or place.list_of(key)._handle
        place.lists[key] = new
    for key, new in zip(left, rest[len(keys) :], strict=True):
        there = next(branch for branch in branches if key in branch.lists or key in branch.left)
        inner = there.left.get(key) if key not in there.lists else None
        new._handle = (there.lists[key] if inner is None else inner[0])._handle
        place.left[key] = (new, ((pred, there.known[pred]), *(() if inner is None else inner[1])))
    builder.note(op, place)


def _waits(builder: Any, members: list[Item], place: Place) -> list[Operation]:
    """What the switches and constants of a conditional, which have no ops in the view, wait for."""
    inside = set(_ops_of(members))
    awaited: dict[Operation, None] = {}
    for op in list(inside):
        if op.type == "Const":
            awaited.update(dict.fromkeys(op._control_inputs))
        for tensor in op._inputs:
            if tensor.op.type in SWITCHES:
                awaited.update(dict.fromkeys(tensor.op._control_inputs))
    return builder.controls([op for op in awaited if op not in inside], place)


def _leaves(builder: Any, output: Tensor, inside: set[Item]) -> bool:
    return any(user not in inside for user in builder.uses.get(output, ()))


def _is_there(builder: Any, output: Tensor, branches: list[Place]) -> bool:
    return any(output in branch.env or output in branch.exports for branch in branches)


def _outputs(item: Item) -> list[Tensor]:
    if isinstance(item, Loop):
        return [op._outputs[0] for op in item.exits]
    return list(item._outputs)


def _ops_of(members: Iterable[Item]) -> Iterator[Operation]:
    for item in members:
        if isinstance(item, Loop):
            yield from item.all_ops()
        else:
            yield item
