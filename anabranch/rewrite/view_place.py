"""Places of a functional view: bodies that are being built, and what is known there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from anabranch.core.graph.body import Body
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import NEXTS, Item, Loop, Regions, needed
from anabranch.ops.v1 import tensor_arrays

Key = tuple[Operation, Any]
"""A stack or tensor array: what makes it; and None, or under which source it holds gradients of that array."""


class Place:
    """A body that is being built, or a part of it; see the module's docstring."""

    def __init__(
        self,
        body: Body,
        parent: Place | None,
        regions: Regions,
        frame: Loop | None,
        known: dict[Tensor, int] | None = None,
    ) -> None:
        self.body = body
        self.parent = parent
        self.regions = regions
        self.frame = frame
        self.known = known or {}
        """Predicates that hold here beyond those of the place around."""
        self.env: dict[Tensor, Tensor] = {}
        self.exports: dict[Tensor, Tensor] = {}
        """Tensors of branches -> optional values of them."""
        self.lists: dict[Key, Tensor] = {}
        """Stacks and arrays as they are now."""
        self.left: dict[Key, tuple[Tensor, tuple[tuple[Tensor, int], ...]]] = {}
        """Lists that a branch left for later regions of it: an optional, and the conditions under which it is there."""
        self.effects: list[Operation] = []
        """Ops that do more than compute."""
        self.begins_frame = False

    def around(self) -> Iterator[Place]:
        """This place and those around it."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.parent

    def value_of(self, pred: Any) -> int | None:
        """What a predicate is here, if it is known."""
        for place in self.around():
            if pred in place.known:
                return place.known[pred]
        return None

    def holds_list(self, key: Key) -> bool:
        """Whether a stack or array exists here as a list."""
        return any(key in place.lists for place in self.around())

    def left_list(self, key: Key) -> Tensor | None:
        """The optional list that an earlier region of the same branch left of a stack or array."""
        for place in self.around():
            entry = place.left.get(key)
            if entry is not None and all(self.value_of(pred) == value for pred, value in entry[1]):
                return entry[0]
        return None

    def has_list(self, key: Key) -> bool:
        """Whether a stack or array exists here, as a list or as what an earlier region left."""
        return self.holds_list(key) or self.left_list(key) is not None

    def list_of(self, key: Key) -> Tensor:
        """A stack or array as it is now."""
        return next(place.lists[key] for place in self.around() if key in place.lists)


def is_static(op: Operation) -> bool:
    """Whether an op is the same in every frame and branch: a constant, or what makes a variable."""
    if op._inputs or op._control_inputs:
        return False
    return op.type == "Const" or (op.definition.makes is not None and op.type not in tensor_arrays.TYPES)


def entry(merge: Operation) -> tuple[Tensor, Tensor]:
    """What a loop variable is at first, outside of the loop, and what it is next."""
    first, following = merge._inputs
    if first.op.type in NEXTS:
        first, following = following, first
    return first.op._inputs[0], following.op._inputs[0]


def scope_of(members: Iterable[Item]) -> str:
    """The name scope that a region was made in."""
    for item in members:
        op = item.enters[0] if isinstance(item, Loop) else item
        if "/" in op.name:
            return op.name.rsplit("/", 1)[0]
    return "region"


def does_more(op: Operation) -> bool:
    """Whether an op does more than compute and read, as far as its type tells while bodies are being built."""
    effect = op.definition.effect
    return effect.is_stateful if effect.kind == "body" else effect.kind not in ("pure", "read")


def replaced(roots: Sequence[Operation], graph: Graph, fed: frozenset[Tensor]) -> dict[Tensor, Tensor]:
    """The tensors that a step takes twins of: those that were built with a twin that it needs anyway."""
    twins_of: dict[Tensor, Tensor] = {}
    waiting = list(graph._twin_groups)
    while waiting:
        ops = set(needed(roots, fed, twins_of))
        active = [group for group in waiting if not group[0].isdisjoint(ops)]
        if not active:
            break
        waiting = [group for group in waiting if group not in active]
        for _, twins in active:
            twins_of.update(twins)
    return twins_of
