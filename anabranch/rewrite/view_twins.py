"""Twins: conditionals and loops of version 1, built once more in the user's graph as ops that hold bodies.

The gradient of control flow of version 1 is that of its functional view. So before a gradient passes through such ops,
their view is built in the graph itself: every tensor that comes out of them has a *twin*, a tensor that an ``If``, a
``While`` or an op on lists gives. The walk goes on from the twin, and the new op grows as its gradient needs. A step
that needs a twin takes the twins that were built with it everywhere in place of the tensors
(:func:`anabranch.rewrite.view_place.replaced`), so nothing is computed twice. An op that calls a function with such
control flow inside, as imported ones may have, has a twin that calls the function's view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.graph import body_ops
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
from anabranch.ops.v1 import switches, tensor_arrays
from anabranch.rewrite.functional_view import Builder
from anabranch.rewrite.view_place import Place, is_static

_TYPES = switches.TYPES | tensor_arrays.TYPES
_FRAMES = ENTERS | NEXTS | EXITS | tensor_arrays.TYPES
_NONE: frozenset[Tensor] = frozenset()


def make_twins(graph: Graph, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    """Build twins of what lies between ``xs`` and ``ys``, where that is control flow of version 1.

    Raises:
        UnimplementedError: it has frames, or stacks and arrays, and is made of no conditionals and loops.
    """
    if not any(_is_of_version_1(op) for op in graph.root.operations):
        return
    ops = [op for op in needed([y.op for y in ys], _NONE) if op.body.is_root]
    if not any(_is_of_version_1(op) for op in ops):
        return
    try:
        variable = {x.op for x in xs}
        regions = Regions(ops, _NONE, lambda op: is_static(op) and op not in variable)
        chosen = _between(regions, xs)
        # Bodies hold copies of what is constant: where that is differentiated by, they are built anew.
        old = set() if any(is_static(op) for op in variable) else _have_twins(regions, chosen, graph)
        standing = {output: graph._twins[output] for item in old for output in _wanted(regions, item)}
        chosen = [item for item in chosen if item not in old]
        wanted = [output for item in chosen for output in _wanted(regions, item)]
        if all(output in graph._twins for output in wanted):
            return
        with graph.building(graph.root), graph.control_dependencies(None), graph.bare_scopes():
            _Twins(graph, regions, chosen, standing).make(wanted)
    except (IrregularError, TypeError, ValueError) as problem:
        if not any(op.type in _FRAMES for op in ops):
            return  # switches and merges without frames have rules of their own
        raise errors.UnimplementedError(
            None,
            ys[0].op,
            errors.message(
                f"a gradient through control flow of version 1 that has no functional view: {problem}",
                "conditionals and loops as tf.cond and tf.while_loop wrote them",
                "differentiate in the program that wrote the graph, or build this part anew with tf.cond and "
                "tf.while_loop",
            ),
        ) from problem


def _is_of_version_1(op: Operation) -> bool:
    """Whether an op is control flow of version 1, or holds some."""
    return op.type in _TYPES or _holds(op)


def _holds(op: Operation) -> bool:
    return any(_is_of_version_1(inner) for use in body_ops.bodies_of(op) for inner in use.body.operations)


def _between(regions: Regions, xs: Sequence[Tensor]) -> list[Item]:
    """Elements outside of loops that depend on ``xs`` and are no plain ops, with all that touch stacks and arrays."""
    sources = set(xs)
    reached: set[Item] = set()
    between = []
    for item in regions.order[None]:
        inputs = regions.sources(item)
        given = () if isinstance(item, Loop) else item._outputs
        if not sources.isdisjoint((*inputs, *given)) or any(
            regions.item_of(tensor.op, None) in reached for tensor in inputs
        ):
            reached.add(item)
    lists = any(op.type in tensor_arrays.TYPES for item in reached for op in _ops_of(item))
    for item in regions.order[None]:
        plain = not isinstance(item, Loop) and not _is_of_version_1(item) and regions.item_paths[item] == ()
        if not plain and (item in reached or (lists and any(op.type in tensor_arrays.TYPES for op in _ops_of(item)))):
            between.append(item)
    # A branch is built whole: what it computes without xs, too.
    inside = {pred for item in between for pred, _ in _conditions(regions, item)}
    return [
        item
        for item in regions.order[None]
        if item in between or not inside.isdisjoint(pred for pred, _ in _conditions(regions, item))
    ]


def _have_twins(regions: Regions, chosen: Sequence[Item], graph: Graph) -> set[Item]:
    """Those of ``chosen`` that were built for an earlier gradient: whole loops and whole conditionals."""
    group: dict[object, object] = {}  # an item, a condition, or the lists -> what stands for its group

    def root(key: object) -> object:
        while group.setdefault(key, key) is not key:
            key = group[key]
        return key

    for item in chosen:
        for pred, _ in _conditions(regions, item):
            group[root(item)] = root(pred)
        if any(op.type in tensor_arrays.TYPES for op in _ops_of(item)):
            group[root(item)] = root("lists")  # they are handed on from one to the next
    results: dict[object, list[Tensor]] = {}
    for item in chosen:
        results.setdefault(root(item), []).extend(_wanted(regions, item))
    done = {key for key, outputs in results.items() if outputs and all(output in graph._twins for output in outputs)}
    return {item for item in chosen if root(item) in done}


def _wanted(regions: Regions, item: Item) -> list[Tensor]:
    """What an element gives to plain ops outside of all conditionals."""
    return [output for output in _results(item) if regions.paths.get(output) == ()]


def _conditions(regions: Regions, item: Item) -> list[tuple[Tensor, int]]:
    conditions = list(regions.item_paths[item] or ())
    pivot = None if isinstance(item, Loop) else regions.pivots.get(item)
    if isinstance(pivot, tuple):
        conditions.append((pivot[0], 0))
    return conditions


def _ops_of(item: Item) -> list[Operation]:
    return list(item.all_ops()) if isinstance(item, Loop) else [item]


def _results(item: Item) -> list[Tensor]:
    """What an element gives to plain ops."""
    if isinstance(item, Loop):
        return [op._outputs[0] for op in item.exits]
    if item.type in MERGES | SWITCHES or (item.type in tensor_arrays.TYPES and item.type not in tensor_arrays.MAKERS):
        return [output for output in item._outputs if output.dtype.base.name not in ("resource", "string")]
    return list(item._outputs) if _holds(item) else []


class _Twins(Builder):
    """Build in the user's graph: what is outside of the chosen elements stands for itself."""

    def __init__(self, graph: Graph, regions: Regions, chosen: list[Item], standing: Mapping[Tensor, Tensor]) -> None:
        super().__init__(graph, ())
        self.standing = standing
        """Twins that were built for an earlier gradient."""
        self.regions = regions
        self.chosen = set(chosen)
        self.place = Place(graph.root, None, regions, None)
        self.place.begins_frame = True

    def make(self, wanted: Sequence[Tensor]) -> None:
        """Build the chosen elements and notes the twins of ``wanted``."""
        self.note_uses(self.regions, wanted)
        graph = self.graph
        start = graph._operations[-1]
        self.block(self.regions.order[None], self.place)
        twins: dict[Tensor, Tensor] = {}
        for output in wanted:
            twin = self.get(output, self.place)
            if twin is not output:
                twins[output] = twin
        group = frozenset(op for op in graph._operations[start._id + 1 :] if op.type != "Const")
        graph._twins.update(twins)
        graph._twin_groups.append((group, twins))
        body_ops.restore_order(graph)

    def item(self, item: Item, place: Place) -> None:
        """See `Builder.item`: other elements count for the order only."""
        if place is not self.place or item in self.chosen:
            super().item(item, place)

    def region(self, pred: Tensor, members: list[Item], place: Place) -> None:
        """See `Builder.region`: other elements count for the order only."""
        if place is not self.place or not self.chosen.isdisjoint(members):
            super().region(pred, members, place)

    def get(self, tensor: Tensor, place: Place) -> Tensor:
        """See `Builder.get`: a tensor outside of all conditionals and loops that has no twin is itself."""
        for around in place.around():
            value = around.env.get(tensor)
            if value is not None:
                return value
        if tensor in self.standing:
            return self.standing[tensor]
        op = tensor.op
        outer = self.regions.loop_of.get(op)
        if op.type in EXITS and outer is not None:
            outer = outer.parent
        if op in self.regions.static:
            if op.type != "Const" or place.body.is_root:
                return tensor
        elif (
            outer is None
            and op.type not in SWITCHES
            and self.regions.pivots.get(op) is None
            and self.regions.paths.get(tensor) == ()
        ):
            return tensor
        return super().get(tensor, place)


hooks.fill("make_twins", make_twins)
