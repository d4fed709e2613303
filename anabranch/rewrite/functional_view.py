"""The functional view of a graph with control flow of version 1: conditionals and loops, not switches and frames.

What a step needs of the user's graph is built again in a scratch graph. There a conditional is an ``If`` with the ops
of its branches in bodies, a loop is a ``While``, stacks and tensor arrays are lists that are handed on from op to op
(:mod:`anabranch.rewrite.view_lists`). Ops keep their names, so variables, random streams and errors are the same.

*Places.* A place is a body that is being built, with what is known there: which predicates hold, and what stands for
the tensors of the user's graph. A tensor is looked up outwards; a ``Switch`` or ``Merge`` whose predicate is known in
a place is the tensor behind it.

*Elements.* The ops of a place are put into elements: single ops, and *regions* of ops that run together under one more
predicate (:mod:`anabranch.rewrite.view_order`), which become conditionals. What a branch computes for an op outside of
its region, such as a gradient, leaves it as an optional value.

*Loops.* What decides about a loop (the ops before its ``LoopCond``) is built in the condition and, where the body or
what comes after the loop reads it, once more there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract import opdef
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import (
    ENTERS,
    EXITS,
    MERGES,
    NEXTS,
    SWITCHES,
    IrregularError,
    Item,
    Loop,
    Regions,
    needed,
)
from anabranch.core.values import shapes
from anabranch.ops.v1 import tensor_arrays
from anabranch.rewrite import chosen_handles, view_conditionals, view_loops
from anabranch.rewrite.view_lists import Lists
from anabranch.rewrite.view_order import Order
from anabranch.rewrite.view_place import Key, Place, does_more, is_static, replaced, scope_of

NoViewError = IrregularError
_STRUCTURE = ENTERS | EXITS | NEXTS | SWITCHES | {"LoopCond", "ControlTrigger"}


class View(NamedTuple):
    """A scratch graph, and what stands there for the fetches and feeds of a step."""

    graph: Graph
    fetches: tuple[Any, ...]
    feeds: tuple[Tensor, ...]
    user: dict[Operation, Operation]

    def user_op(self, op: Any) -> Any:
        """The op of the user's graph behind one of the view."""
        return self.user.get(op, op)


def view(graph: Graph, fetches: Sequence[Any], feeds: Sequence[Tensor]) -> View:
    """The functional view of what ``fetches`` need; IrregularError if there is none."""
    scratch = Graph()
    scratch.seed = graph.seed
    builder = Builder(scratch, feeds)
    roots = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in fetches if fetch not in builder.fed]
    builder.replaced = replaced(roots, graph, builder.fed)
    with scratch.as_default(), scratch.shared_site():
        try:
            results = builder.run(fetches)
        except (TypeError, ValueError, NotImplementedError) as problem:
            raise IrregularError(f"no functional view could be built: {problem}") from problem
        body_ops.restore_order(scratch)
    return View(scratch, tuple(results), tuple(builder.feeds.values()), builder.user)


class Builder:
    """Build one view."""

    def __init__(self, graph: Graph, feeds: Sequence[Tensor]) -> None:
        self.graph = graph
        self.fed = frozenset(feeds)
        self.feeds: dict[Tensor, Tensor] = {tensor: tensor for tensor in feeds}
        self.user: dict[Operation, Operation] = {}
        self.emitted: dict[Operation, Operation] = {}
        """Op of the user's graph -> what runs in its stead."""
        self.outer: dict[Loop, Place] = {}
        """Where a loop stands."""
        self.uses: dict[Tensor, list[Item | None]] = {}
        """Who takes a tensor; None: the fetches, or the outputs of a body."""
        self.lists = Lists(self)
        self.order = Order()
        self.awaited: set[Operation] = set()
        """Ops that others wait for, by control edges or because they are fetched themselves."""
        self.arguments: dict[Tensor, Tensor] = {}
        """Argument of a body -> what it stands for in the body around, if that does not change."""
        self.replaced: dict[Tensor, Tensor] = {}
        """Tensors in whose place twins are taken."""

    # ------------------------------------------------------------------------------------------------------------ start
    def run(self, fetches: Sequence[Any]) -> list[Any]:
        """Build what ``fetches`` need; what stands for them."""
        for tensor in self.feeds:
            attrs = {"dtype": tensor.dtype.base, "shape": tensor._shape}
            op = self.create(opdef.lookup("Placeholder"), [], attrs, tensor.op.name)
            self.user[op] = tensor.op
            self.feeds[tensor] = op._outputs[0]
        wanted = [fetch for fetch in fetches if fetch not in self.fed]
        place = self.convert(
            [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in wanted],
            [fetch for fetch in wanted if isinstance(fetch, Tensor)],
            self.graph.root,
            {},
        )
        results: list[Any] = []
        for fetch in fetches:
            if isinstance(fetch, Tensor):
                results.append(self.fetched(fetch, place))
            else:
                results.append(self.op_at_top(fetch, place))
        return results

    def fetched(self, fetch: Tensor, place: Place) -> Tensor:
        """What stands for a fetched tensor."""
        regions = place.regions
        fetch = self.replaced.get(fetch, fetch)
        if fetch not in self.fed and fetch.op not in regions.static:
            op = fetch.op
            if op not in regions.loop_of:
                raise IrregularError(f"the fetch {fetch.name!r} is an argument of no function")
            frame = regions.loop_of[op]
            inside = frame if op.type not in EXITS else frame.parent if frame is not None else None
            if inside is not None or regions.paths.get(fetch) != ():
                raise IrregularError(f"the fetch {fetch.name!r} is inside of a conditional or loop")
        return self.get(fetch, place)

    def op_at_top(self, op: Operation, place: Place) -> Operation:
        """What must run for a fetched operation."""
        waits = self.controls([op], place)
        if not waits:
            with self.graph.building(place.body):
                return self.graph._create(opdef.lookup("NoOp"), [], {}, f"{op.name}_done")
        if len(waits) == 1:
            return waits[0]
        with self.graph.building(place.body):
            return self.graph._create(opdef.lookup("NoOp"), [], {}, f"{op.name}_done", control_inputs=waits)

    def convert(
        self, roots: Iterable[Operation], outputs: Iterable[Tensor], body: Body, env: dict[Tensor, Tensor]
    ) -> Place:
        """Build in ``body`` what one body of the user's graph needs; ``env`` are its arguments."""
        fed = self.fed | env.keys()
        roots = [op for op in roots if op.type != "_Arg"]
        ops = needed(roots, fed, self.replaced)
        self.awaited.update(roots, *(op._control_inputs for op in ops))
        regions = Regions(ops, fed, is_static, self.replaced)
        self.note_uses(regions, outputs)
        place = Place(body, None, regions, None)
        place.begins_frame = True
        place.env.update(env)
        self.block(regions.order[None], place)
        return place

    def note_uses(self, regions: Regions, outputs: Iterable[Tensor]) -> None:
        """Notes who takes which tensor."""
        for item in (item for items in regions.order.values() for item in items):
            for tensor in (*regions.sources(item), *(pred for pred, _ in regions.item_paths[item] or ())):
                self.uses.setdefault(tensor, []).append(item)
            if not isinstance(item, Loop) and item in regions.loop_merges:
                for tensor in item._inputs:
                    self.uses.setdefault(tensor, []).append(item)
        for tensor in outputs:
            self.uses.setdefault(tensor, []).append(None)

    # ---------------------------------------------------------------------------------------------------------- look-up
    def get(self, tensor: Tensor, place: Place) -> Tensor:
        """What stands for a tensor of the user's graph in a place: a tensor of its body or of one around."""
        if tensor in self.fed:
            return self.feeds[tensor]
        tensor = self.replaced.get(tensor, tensor)
        for around in place.around():
            known = around.env.get(tensor)
            if known is not None:
                return known
        op = tensor.op
        kind = op.type
        regions = place.regions
        if kind in SWITCHES:
            return self.get(op._inputs[0], place)
        pivot = regions.pivots.get(op)
        if pivot is not None:
            value = None if isinstance(pivot, int) else place.value_of(pivot[0])
            chosen = pivot if isinstance(pivot, int) else None if value is None else pivot[1][value]
            if chosen is not None:
                if tensor.value_index:
                    return self.constant(np.int32(chosen), place)
                return self.get(op._inputs[chosen], place)
        if kind in ENTERS:
            loop = regions.loop_of[op]
            assert loop is not None
            return self.get(op._inputs[0], self.outer[loop])
        if kind == "LoopCond":
            value = place.value_of(tensor)
            return self.get(op._inputs[0], place) if value is None else self.constant(np.bool_(value), place)
        if op in regions.static or kind == "Const":
            return self._static(tensor, place)
        for around in place.around():
            if tensor in around.exports:
                return self._taken(tensor, around.exports[tensor], place)
        return self._again(tensor, place)

    def constant(self, value: Any, place: Place) -> Tensor:
        """A constant in a place."""
        with self.graph.building(place.body):
            return constant(value)

    def _static(self, tensor: Tensor, place: Place) -> Tensor:
        regions, constant_ = place.regions, tensor.op.type == "Const"
        if not constant_:
            while place.parent is not None:
                place = place.parent
        # A constant at the top may wait for an assertion; what others wait for, their conditional waits for.
        waits = constant_ and regions.loop_of.get(tensor.op) is None and regions.paths.get(tensor) == ()
        self.emit(tensor.op, place, alone=not waits)
        return place.env[tensor]

    def _taken(self, tensor: Tensor, optional: Tensor, place: Place) -> Tensor:
        with self.graph.building(place.body):
            taken = build(
                "OptionalGetValue", optional, output_types=[tensor.dtype.base], output_shapes=[tensor._shape],
                name=f"{tensor.op.name}_value",
            )[0]  # fmt: skip
        taken._handle = tensor._handle
        place.env[tensor] = taken
        return taken

    def _again(self, tensor: Tensor, place: Place) -> Tensor:
        """Build once more what a loop decides by."""
        op = tensor.op
        regions = place.regions
        loop = regions.loop_of.get(op)
        if loop is None or loop is not place.frame:
            raise IrregularError(f"{tensor.name!r} is not known where it is used")
        path = regions.paths[tensor]
        assert loop.condition is not None
        decisive = loop.condition._outputs[0]
        if path != () and path != ((decisive, 0),):
            raise IrregularError(f"{tensor.name!r} is used outside of its branch")
        if op.definition.effect.kind != "pure" or op.type in tensor_arrays.TYPES or bodies_of(op):
            raise IrregularError(f"{op.name!r}, which a loop decides by, has an effect and is used in its body")
        while not place.begins_frame and place.parent is not None:
            place = place.parent
        self.emit(op, place, alone=True)
        return place.env[tensor]

    # --------------------------------------------------------------------------------------------------------- controls
    def controls(self, ops: Iterable[Operation], place: Place) -> list[Operation]:
        """What must have run where ``ops`` of the user's graph must."""
        controls: dict[Operation, None] = {}
        for op in ops:
            for emitted in self._ran(op, place, False):
                at: Operation | None = emitted
                while at is not None and not at.body.encloses(place.body):
                    inside = at
                    at = at.body.owner
                    if at is not None and inside not in inside.body.control_outputs:
                        inside.body.control_outputs.append(inside)
                if at is not None:
                    controls[at] = None
        return list(controls)

    def _ran(self, op: Operation, place: Place, only_effects: bool) -> Iterator[Operation]:
        regions = place.regions
        op = next((other.op for tensor in op._outputs if (other := self.replaced.get(tensor)) is not None), op)
        if op in regions.static or op.type in ENTERS or op.type in NEXTS or op.type == "LoopCond":
            return
        emitted = self.emitted.get(op)
        if emitted is not None:
            if not only_effects or does_more(emitted):
                yield emitted
            return
        pivot = regions.pivots.get(op)
        if isinstance(pivot, int):
            yield from self._ran(op._inputs[pivot].op, place, only_effects)
        elif pivot is not None:
            value = place.value_of(pivot[0])
            if value is not None:
                yield from self._ran(op._inputs[pivot[1][value]].op, place, only_effects)
        elif op.type in SWITCHES:
            for tensor in op._inputs:
                if tensor not in self.fed and not self._carries(tensor.op, place):
                    yield from self._ran(tensor.op, place, True)
        elif op.type == "ControlTrigger":
            for control in op._control_inputs:
                yield from self._ran(control, place, True)

    @staticmethod
    def _carries(op: Operation, place: Place) -> bool:
        return op in place.regions.loop_merges

    # ----------------------------------------------------------------------------------------------------------- blocks
    def block(self, items: Sequence[Item], place: Place) -> None:
        """Build the elements of a place."""
        chosen = [item for item in items if self.order.fits(item, place)]
        for pred, members in self.order.elements(chosen, place):
            if pred is None:
                self.item(members[0], place)
            else:
                self.region(pred, members, place)

    # ------------------------------------------------------------------------------------------------------------ items
    def item(self, item: Item, place: Place) -> None:
        """Build one element."""
        if isinstance(item, Loop):
            self.loop(item, place)
        elif item.type in _STRUCTURE or item.type in MERGES or item.type == "Const":
            return  # looked up where somebody takes it
        elif item.type in tensor_arrays.TYPES:
            self.lists.emit(item, place)
        elif not any(self.lists.key_of(tensor, place) for tensor in item._inputs):
            self.emit(item, place)
        elif item.type not in ("Identity", "RefIdentity"):
            raise IrregularError(f"{item.name!r} takes the handle of a stack or tensor array")

    def emit(self, op: Operation, place: Place, alone: bool = False) -> None:
        """Build an op in a place; ``alone``: without its control inputs."""
        inputs = [self.get(tensor, place) for tensor in op._inputs]
        controls = [] if alone else self.controls(op._control_inputs, place)
        attrs = dict(op._attrs)
        uses = bodies_of(op)
        if uses:
            with self.graph.building(place.body):
                attrs, inputs = self._bodies(op, inputs, attrs)
        if chosen_handles.chosen(op, inputs, self.arguments) is not None:
            emitted = chosen_handles.emit(self, op, inputs, controls, place.body)
        else:
            with self.graph.building(place.body):
                emitted = self.create(op.definition, inputs, attrs, op.name, controls)
            emitted.user_site, emitted.original, emitted._device = op.user_site, op.original, op._device
        if uses:
            body_ops.own(emitted)
        self.user[emitted] = op
        self.emitted[op] = emitted
        for output, new in zip(op._outputs, emitted._outputs, strict=False):
            if shapes.is_compatible(output._shape, new._shape):
                new._shape = shapes.merge(output._shape, new._shape)
            if new._handle is None:
                new._handle = output._handle
            place.env[output] = new
        self.note(emitted, place)

    def create(
        self, definition: Any, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str, controls: Any = ()
    ) -> Operation:
        """Append an op under a name that is taken as it stands, with a suffix if there is one of that name."""
        op = self.graph._create(definition, inputs, attrs, name + "/", control_inputs=controls)
        self.graph._names_in_use.setdefault(op.name.lower(), 1)
        return op

    def note(self, emitted: Operation, place: Place) -> None:
        """Keep what must run whether or not somebody uses it."""
        if does_more(emitted) and not place.body.is_root:
            place.effects.append(emitted)

    def _bodies(
        self, op: Operation, inputs: list[Tensor], attrs: dict[str, Any]
    ) -> tuple[dict[str, Any], list[Tensor]]:
        """The bodies of an op, built anew; attributes and inputs of the new op."""
        bodies = []
        for use in bodies_of(op):
            body = self.graph.new_body(use.body.name.rsplit("/", 1)[-1])
            env = {}
            for i, arg in enumerate(use.body.args):
                new = body.add_arg(arg.dtype, arg._shape, arg.op.name.rsplit("/", 1)[-1])
                new._handle, new._known = arg._handle, arg._known
                env[arg] = new
                if body_ops.is_invariant(arg):
                    self.arguments[new] = inputs[use.first + i]
            with self.graph.building(body):
                roots = [*(output.op for output in use.body.outputs), *use.body.control_outputs]
                place = self.convert(roots, use.body.outputs, body, env)
                body.outputs = [self.local(self.get(output, place), body) for output in use.body.outputs]
                body.control_outputs = list(
                    dict.fromkeys([*self.controls(use.body.control_outputs, place), *place.effects])
                )
            bodies.append((use, body))
        captured = body_ops.line_up([body for _, body in bodies])
        if captured:  # predicates that choose handles
            types = tuple(tensor.dtype.base for tensor in captured)
            if op.role is Role.LOOP:
                body = next(body for use, body in bodies if use.attr == "body")
                body.outputs += [body.captures[outer] for outer in captured]
                attrs["T"] = (*attrs["T"], *types)
                if attrs["output_shapes"]:
                    attrs["output_shapes"] = (*attrs["output_shapes"], *(tensor._shape for tensor in captured))
            elif "Tin" in attrs:
                attrs["Tin"] = (*attrs["Tin"], *types)
            else:
                raise IrregularError(f"a body of {op.name!r} uses what it does not capture")
            inputs = [*inputs, *captured]
        for key, value in attrs.items():
            if isinstance(value, Body):
                attrs[key] = next(body for use, body in bodies if use.body is value)
            elif isinstance(value, tuple) and any(isinstance(part, Body) for part in value):
                attrs[key] = tuple(next((body for use, body in bodies if use.body is part), part) for part in value)
        return attrs, inputs

    def local(self, tensor: Tensor, body: Body) -> Tensor:
        """What a body returns for a tensor: captured if it is of another body, read if it is a reference."""
        tensor = body.capture(tensor)
        if tensor.dtype.is_ref:
            with self.graph.building(body):
                tensor = build("Identity", tensor)
        return tensor

    def _while(
        self,
        loop: Loop,
        place: Place,
        parts: tuple[Body, Body],
        initial: list[Tensor],
        wanted: list[Any],
        keys: list[Key],
    ) -> None:
        condition, body = parts
        regions = place.regions
        graph = self.graph
        assert loop.condition is not None
        with graph.building(place.body):
            captured = body_ops.line_up([condition, body])
            body.outputs += [body.captures[outer] for outer in captured]
            inputs = [*initial, *captured]
            stateless = "" if any(map(body_ops.is_stateful, parts)) else "Stateless"
            attrs = {
                "T": tuple(tensor.dtype.base for tensor in inputs),
                "cond": condition,
                "body": body,
                "output_shapes": (*wanted, *(tensor._shape for tensor in captured)),
                "parallel_iterations": int(loop.enters[0]._attrs["parallel_iterations"]),
            }
            controls = self.controls([control for op in loop.enters for control in op._control_inputs], place)
            name = f"{scope_of(loop.items)}/{stateless}While"
            op = self.create(opdef.lookup(f"{stateless}While"), inputs, attrs, name, controls)
            body_ops.own(op)
        op.user_site, op.original = loop.condition.user_site, loop.condition.original
        self.user[op] = loop.condition
        after = Place(place.body, place, regions, loop, {loop.condition._outputs[0]: 0})
        after.begins_frame = True
        for i, merge in enumerate(loop.merges):
            after.env[merge._outputs[0]] = op._outputs[i]
        for i, key in enumerate(keys):
            new = op._outputs[len(loop.merges) + i]
            new._handle = new._handle or initial[len(loop.merges) + i]._handle
            place.lists[key] = new
        for leave in loop.exits:
            place.env[leave._outputs[0]] = self.get(leave._inputs[0], after)
            self.emitted[leave] = op
        self.note(op, place)

    # -------------------------------------------------------------------------------------------- conditionals, loops
    def region(self, pred: Tensor, members: list[Item], place: Place) -> None:
        """Build a conditional."""
        view_conditionals.build_conditional(self, pred, members, place)

    def loop(self, loop: Loop, place: Place) -> None:
        """Build a loop."""
        view_loops.build_loop(self, loop, place)
