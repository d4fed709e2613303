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
from anabranch.core.values import dtypes, shapes
from anabranch.ops.v1 import tensor_arrays
from anabranch.rewrite.view_lists import Lists
from anabranch.rewrite.view_order import Order
from anabranch.rewrite.view_place import Key, Place, does_more, entry, is_static, replaced, scope_of

NoViewError = IrregularError
_STRUCTURE = ENTERS | EXITS | NEXTS | SWITCHES | {"LoopCond", "ControlTrigger"}
_MOST_ATTEMPTS = 4


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
            for arg in use.body.args:
                new = body.add_arg(arg.dtype, arg._shape, arg.op.name.rsplit("/", 1)[-1])
                new._handle, new._known = arg._handle, arg._known
                env[arg] = new
            with self.graph.building(body):
                roots = [*(output.op for output in use.body.outputs), *use.body.control_outputs]
                place = self.convert(roots, use.body.outputs, body, env)
                body.outputs = [self.local(self.get(output, place), body) for output in use.body.outputs]
                body.control_outputs = list(
                    dict.fromkeys([*self.controls(use.body.control_outputs, place), *place.effects])
                )
            bodies.append((use, body))
        captured = body_ops.line_up([body for _, body in bodies])
        if captured:
            raise IrregularError(f"a body of {op.name!r} uses what it does not capture")
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

    # ---------------------------------------------------------------------------------------------------------- regions
    def region(self, pred: Tensor, members: list[Item], place: Place) -> None:
        """Build a conditional."""
        regions = place.regions
        count = regions.outcomes[pred]
        inside = set(members)
        self.lists.prepare(self._ops_of(members), place)
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
            if self._leaves(output, inside) and self.lists.key_of(output, place) is None
        ]
        branches = []
        for value in range(count):
            with self.graph.building(place.body):
                body = self.graph.new_body(f"{scope_of(members)}_{('false', 'true')[value] if count == 2 else value}")
            branch = Place(body, place, regions, place.frame, {pred: value})
            self.block([item for item in members if (pred, value) in (regions.item_paths[item] or ())], branch)
            branches.append(branch)
        exports = [
            output
            for item in members
            for output in self._outputs(item)
            if output.op.type != "Const"
            and any(literal[0] is pred for literal in regions.paths.get(output) or ())
            and self._leaves(output, inside)
            and self._is_there(output, branches)
        ]
        changed = dict.fromkeys(key for branch in branches for key in (*branch.lists, *branch.left))
        keys = [key for key in changed if place.holds_list(key)]
        left = self.lists.touched_later(
            [key for key in changed if not place.holds_list(key)], self._ops_of(members), place
        )
        if not (results or exports or keys or left) and all(
            op.type == "_Arg" for branch in branches for op in branch.body.operations
        ):
            return
        for value, branch in enumerate(branches):
            self._finish_branch(branch, value, (merges, results, exports), (keys, left))
        self._conditional(pred, members, branches, (merges, results, exports, keys, left), place)

    def _finish_branch(
        self,
        branch: Place,
        value: int,
        outcome: tuple[list[Operation], list[Tensor], list[Tensor]],
        lists: tuple[list[Key], list[Key]],
    ) -> None:
        body, (merges, results, exports) = branch.body, outcome
        outputs = []
        with self.graph.building(body):
            for output in results:
                _, chosen = branch.regions.pivots[output.op]  # type: ignore[misc]
                if output.value_index:
                    outputs.append(constant(np.int32(chosen[value])))
                else:
                    outputs.append(self.local(self.get(output.op._inputs[chosen[value]], branch), body))
            for output in exports:
                if output in branch.exports:
                    outputs.append(branch.exports[output])
                elif output in branch.env:
                    there = self.local(branch.env[output], body)
                    outputs.append(build("OptionalFromValue", [there], name=f"{output.op.name}_kept"))
                else:
                    outputs.append(build("OptionalNone", name=f"{output.op.name}_none"))
            keys, left = lists
            outputs += [self.local(branch.list_of(key), body) for key in keys]
            for key in left:
                if key in branch.lists:
                    there = self.local(branch.lists[key], body)
                    outputs.append(build("OptionalFromValue", [there], name=f"{key[0].name}_kept"))
                elif key in branch.left:
                    outputs.append(self.local(branch.left[key][0], body))
                else:
                    outputs.append(build("OptionalNone", name=f"{key[0].name}_none"))
        body.outputs = outputs
        body.control_outputs += [op for op in [*self._held(branch, value, merges), *branch.effects] if op.body is body]

    def _held(self, branch: Place, value: int, merges: list[Operation]) -> list[Operation]:
        """What a branch does before its end, where somebody waits for that: an assertion, for example."""
        held = []
        for merge in merges:
            if merge in self.awaited:
                _, chosen = branch.regions.pivots[merge]  # type: ignore[misc]
                held += self.controls([merge._inputs[chosen[value]].op], branch)
        return [op for op in held if op.type != "_Arg"]

    def _conditional(self, pred: Tensor, members: list[Item], branches: list[Place], ends: Any, place: Place) -> None:
        merges, results, exports, keys, left = ends
        graph = self.graph
        two = pred.dtype.is_bool
        bodies = [branch.body for branch in (reversed(branches) if two else branches)]
        with graph.building(place.body):
            chosen = self.get(pred, place)
            captured = body_ops.line_up(bodies)
            controls = self._waits(members, place)
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
            op = self.create(opdef.lookup(kind), [chosen, *captured], attrs, f"{scope_of(members)}/{kind}", controls)
            body_ops.own(op)
        shown = merges[0] if merges else next(self._ops_of(members))
        op.user_site, op.original = shown.user_site, shown.original
        self.user[op] = shown
        for merge in merges:
            self.emitted[merge] = op
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
        self.note(op, place)

    def _waits(self, members: list[Item], place: Place) -> list[Operation]:
        """What the switches and constants of a conditional, which have no ops in the view, wait for."""
        inside = set(self._ops_of(members))
        awaited: dict[Operation, None] = {}
        for op in list(inside):
            if op.type == "Const":
                awaited.update(dict.fromkeys(op._control_inputs))
            for tensor in op._inputs:
                if tensor.op.type in SWITCHES:
                    awaited.update(dict.fromkeys(tensor.op._control_inputs))
        return self.controls([op for op in awaited if op not in inside], place)

    def _leaves(self, output: Tensor, inside: set[Item]) -> bool:
        return any(user not in inside for user in self.uses.get(output, ()))

    def _is_there(self, output: Tensor, branches: list[Place]) -> bool:
        return any(output in branch.env or output in branch.exports for branch in branches)

    @staticmethod
    def _outputs(item: Item) -> list[Tensor]:
        if isinstance(item, Loop):
            return [op._outputs[0] for op in item.exits]
        return list(item._outputs)

    @staticmethod
    def _ops_of(members: Iterable[Item]) -> Iterator[Operation]:
        for item in members:
            if isinstance(item, Loop):
                yield from item.all_ops()
            else:
                yield item

    # ------------------------------------------------------------------------------------------------------------ loops
    def loop(self, loop: Loop, place: Place) -> None:
        """Build a loop."""
        regions = place.regions
        assert loop.condition is not None
        decisive = loop.condition._outputs[0]
        self.outer[loop] = place
        for item in loop.items:
            if isinstance(item, Operation):
                path = regions.item_paths[item]
                if (item.type in NEXTS and path != ((decisive, 1),)) or (
                    item.type in EXITS and path != ((decisive, 0),)
                ):
                    raise IrregularError(f"{item.name!r} is conditional in its loop")
        if regions.item_paths[loop.condition] != ():
            raise IrregularError(f"{loop.condition.name!r} is conditional")
        ops = list(loop.all_ops())
        self.lists.prepare(ops, place)
        keys = [key for key in self.lists.written(ops, place) if place.has_list(key)]
        entries = [entry(merge) for merge in loop.merges]
        initial = [self.get(tensor, place) for tensor, _ in entries] + [place.list_of(key) for key in keys]
        wanted = [tensor._shape for tensor in initial]
        for _ in range(_MOST_ATTEMPTS):
            start = len(self.graph._operations)
            condition, body, after = self._loop_bodies(loop, place, initial, wanted, keys)
            if after is not None and all(
                shapes.is_compatible(a, b) and shapes.generalize(a, b) == a for a, b in zip(wanted, after, strict=True)
            ):
                break
            body_ops.remove_ops(
                self.graph,
                [op for op in self.graph._operations[start:] if condition.encloses(op.body) or body.encloses(op.body)],
            )
            wanted = [
                None if after is None else shapes.generalize(a, b) for a, b in zip(wanted, after or wanted, strict=True)
            ]
        else:
            raise IrregularError(f"the shapes of the loop {loop.name!r} do not settle")
        self._while(loop, place, (condition, body), initial, wanted, keys)

    def _loop_bodies(
        self, loop: Loop, place: Place, initial: list[Tensor], wanted: list[Any], keys: list[Key]
    ) -> tuple[Body, Body, list[Any] | None]:
        """Condition and body for variables of certain shapes; the shapes after an iteration, or None if they refuse."""
        graph = self.graph
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
            self.block([item for item in items if not any(p is decisive for p, _ in paths[item] or ())], deciding)
            condition.outputs = [self.local(self.get(loop.condition._inputs[0], deciding), condition)]
            condition.control_outputs = deciding.effects
            self.block([item for item in items if (decisive, 1) in (paths[item] or ())], going)
            nexts = [self.get(entry(merge)[1], going) for merge in loop.merges] + [going.list_of(key) for key in keys]
            body.outputs = [self.local(tensor, body) for tensor in nexts]
            body.control_outputs = going.effects
            if any(key in deciding.lists and deciding.lists[key] is not condition.args[len(loop.merges) + i]
                   for i, key in enumerate(keys)):  # fmt: skip
                raise IrregularError(f"what decides about the loop {loop.name!r} changes a stack or tensor array")
        except (TypeError, ValueError) as problem:
            if all(shape is None for shape in wanted):
                raise IrregularError(f"the loop {loop.name!r} cannot be built: {problem}") from problem
            return condition, body, None
        return condition, body, [output._shape for output in body.outputs]

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
