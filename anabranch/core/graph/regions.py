"""Conditionals and loops in graphs of TensorFlow 1: which ops form them, and under which conditions each op runs.

*Frames.* A loop is the set of ops that are connected without going through an ``Enter`` or ``Exit``. Names of frames do
not count: a graph that was imported twice has two loops of one name.

*Paths.* Every tensor has a path: the conditions, outermost first, under which it is alive in its frame, each a
predicate and the output of the ``Switch`` that it came through. An op has what its inputs and control inputs have
together. A ``Merge`` takes away the condition in which its inputs differ. What can never be alive (``DEAD``) is told by
a constant predicate or by two conditions that exclude each other. Predicates are compared without the identities and
constant entries around them; a condition under which a loop runs at all is none in it.

*Loops.* The condition of a loop is its ``LoopCond``, a predicate like others: without it on their path stand the ops
that decide, with its output 1 the body, with its output 0 what leads to the exits.

What does not fit raises :class:`IrregularError`: such a graph runs by tokens.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.core.graph.operation import Operation, Tensor

ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
NEXTS = frozenset(("NextIteration", "RefNextIteration"))
MERGES = frozenset(("Merge", "RefMerge"))
SWITCHES = frozenset(("Switch", "RefSwitch", "_SwitchN"))

Literal = tuple[Tensor, int]
Path = tuple[Literal, ...] | None
DEAD: Path = None


class IrregularError(Exception):
    """Control flow that is made of no conditionals and loops; the text says what is irregular."""


# --------------------------------------------------------------------------------------------------------------- frames
def outside(op: Operation) -> Any:
    """The side of an op that gives its outputs: an Enter or Exit has two, in different frames."""
    return (op,) if op.type in ENTERS or op.type in EXITS else op


class Parts:
    """Sets of connected ops."""

    def __init__(self) -> None:
        self._above: dict[Any, Any] = {}

    def find(self, item: Any) -> Any:
        """What stands for the set of an item."""
        root = item
        while (above := self._above.setdefault(root, root)) is not root:
            root = above
        while item is not root:
            self._above[item], item = root, self._above[item]
        return root

    def unite(self, one: Any, other: Any) -> bool:
        """Make two sets one; whether they were two."""
        one, other = self.find(one), self.find(other)
        self._above[one] = other
        return one is not other

    def unite_surroundings(self, ops: Sequence[Operation]) -> None:
        """Unite the sets that are around one frame: those of what goes into it and of what comes out."""
        doors = [op for op in ops if op.type in ENTERS or op.type in EXITS]
        changed = True
        while changed:
            changed = False
            first: dict[Any, Any] = {}
            for op in doors:
                inside, around = (outside(op), op) if op.type in ENTERS else (op, outside(op))
                changed |= self.unite(first.setdefault(self.find(inside), around), around)


def needed(
    ops: Iterable[Operation], fed: frozenset[Tensor], replaced: Mapping[Tensor, Tensor] | None = None
) -> list[Operation]:
    """The ops that must run for ``ops``, around loops too, in order of creation.

    ``replaced`` tensors are not taken, but those that stand in their place; control edges follow.
    """
    reached: set[Operation] = set()
    replaced = replaced or {}
    stand_ins = {tensor.op: other.op for tensor, other in replaced.items()}
    stack = [stand_ins.get(op, op) for op in ops]
    while stack:
        op = stack.pop()
        if op not in reached:
            reached.add(op)
            stack += [replaced.get(tensor, tensor).op for tensor in op._inputs if tensor not in fed]
            stack += [stand_ins.get(control, control) for control in op._control_inputs]
    return sorted(reached, key=lambda op: op._id)


class Loop:
    """A frame, as one element of the frame around it."""

    def __init__(self) -> None:
        self.enters: list[Operation] = []
        self.exits: list[Operation] = []
        self.merges: list[Operation] = []
        """One for each loop variable."""
        self.condition: Operation | None = None
        self.items: list[Item] = []
        self.parent: Loop | None = None
        self.inner: list[Loop] = []

    @property
    def _id(self) -> int:
        return min(op._id for op in self.enters)

    @property
    def name(self) -> str:
        """The frame's name."""
        return str(self.enters[0]._attrs["frame_name"])

    def all_ops(self) -> Iterable[Operation]:
        """The ops in it and in the loops inside."""
        for item in self.items:
            if isinstance(item, Loop):
                yield from item.all_ops()
            else:
                yield item
        yield from self.enters


Item = Operation | Loop
"""An element of a frame."""


class Regions:
    """Frames and paths of a set of ops of one body.

    Args:
        ops: the ops that run.
        fed: tensors whose values are given.
        is_static: tells the ops whose outputs can be used in any frame.
        replaced: tensors in whose place others are taken.
    """

    def __init__(
        self,
        ops: Sequence[Operation],
        fed: frozenset[Tensor],
        is_static: Any,
        replaced: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        self._replaced = replaced or {}
        self._stand_ins = {tensor.op: other.op for tensor, other in self._replaced.items()}
        self.fed = fed
        self.static = {op for op in ops if is_static(op)}
        self.items: list[Item] = []
        """Elements of the outermost frame."""
        self.loop_of: dict[Operation, Loop | None] = {}
        """The frame of each op; of an Enter or Exit, that inside."""
        self.paths: dict[Tensor, Path] = {}
        self.item_paths: dict[Item, Path] = {}
        self.pivots: dict[Operation, tuple[Tensor, dict[int, int]] | int] = {}
        """Merge -> predicate and, by its value, the input to take; or the only input that is ever alive."""
        self.ops = ops
        self._roots: dict[Tensor, Any] = {}
        self.outcomes: dict[Tensor, int] = {}
        """Predicate -> how many outputs a switch on it has."""
        self._find_frames()
        self.order: dict[Loop | None, list[Item]] = {}
        self._find_paths(None, {})

    # ----------------------------------------------------------------------------------------------------------- frames
    def _find_frames(self) -> None:
        parts = Parts()
        inside = set(self.ops)
        for op in self.ops:
            for tensor in self._inputs(op):
                if tensor not in self.fed and tensor.op not in self.static:
                    parts.unite(outside(tensor.op), op)
            for control in self._controls(op):
                if control in inside and control not in self.static:
                    parts.unite(outside(control), op)
        parts.unite_surroundings(self.ops)
        loops: dict[Any, Loop] = {}
        for op in self.ops:
            if op.type in ENTERS:
                loops.setdefault(parts.find(outside(op)), Loop()).enters.append(op)
        for op in self.ops:
            part = parts.find(outside(op) if op.type in ENTERS else op)
            loop = loops.get(part)
            self.loop_of[op] = loop
            if op.type in EXITS:
                if loop is None:
                    raise IrregularError(f"{op.name!r} leaves no loop")
                loop.exits.append(op)
            elif op.type in MERGES and any(tensor.op.type in NEXTS for tensor in op._inputs):
                if loop is None:
                    raise IrregularError(f"{op.name!r} is of no loop")
                loop.merges.append(op)
            elif op.type == "LoopCond":
                if loop is None or loop.condition is not None:
                    raise IrregularError(f"{op.name!r} is not the one condition of a loop")
                loop.condition = op
            if op.type not in ENTERS and op not in self.static:
                (self.items if loop is None else loop.items).append(op)
        for loop in loops.values():
            loop.parent = loops.get(parts.find(loop.enters[0]))
            if loop.condition is None:
                raise IrregularError(f"the frame {loop.name!r} has no condition")
            (self.items if loop.parent is None else loop.parent.items).append(loop)
            if loop.parent is not None:
                loop.parent.inner.append(loop)
            self._check_merges(loop)
        self.loops = list(loops.values())

    @staticmethod
    def _check_merges(loop: Loop) -> None:
        taken = {op._outputs[0]: op for op in loop.enters}
        for merge in loop.merges:
            kinds = [tensor.op.type in NEXTS for tensor in merge._inputs]
            if len(kinds) != 2 or sum(kinds) != 1 or merge._inputs[kinds.index(False)] not in taken:
                raise IrregularError(f"{merge.name!r} does not merge an entry with the next iteration")
            if taken[merge._inputs[kinds.index(False)]]._attrs["is_constant"]:
                raise IrregularError(f"{merge.name!r} merges what is constant")

    # ------------------------------------------------------------------------------------------------------------ edges
    def sources(self, item: Item) -> list[Tensor]:
        """Tensors that an element takes from its frame."""
        if isinstance(item, Loop):
            return [tensor for op in item.enters for tensor in self._inputs(op)]
        if item.type in MERGES and item in self.loop_merges:
            return []
        return list(self._inputs(item))

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        return [self._replaced.get(tensor, tensor) for tensor in op._inputs] if self._replaced else op._inputs

    def _controls(self, op: Operation) -> Sequence[Operation]:
        controls = op._control_inputs
        return [self._stand_ins.get(control, control) for control in controls] if self._replaced else controls

    def controls(self, item: Item) -> Sequence[Operation]:
        """Ops that an element waits for."""
        if isinstance(item, Loop):
            return [control for op in item.enters for control in self._controls(op)]
        return self._controls(item)

    @property
    def loop_merges(self) -> set[Operation]:
        """All merges of loop variables."""
        merges = self.__dict__.get("_loop_merges")
        if merges is None:
            merges = self.__dict__["_loop_merges"] = {op for loop in self.loops for op in loop.merges}
        return merges

    def item_of(self, op: Operation, frame: Loop | None) -> Item | None:
        """The element of ``frame`` that stands for an op; None for what goes into the frame, and static ops."""
        if op in self.static:
            return None
        loop = self.loop_of.get(op)
        if op.type in ENTERS:
            if loop is frame:
                return None
            loop_above = loop
        elif op.type in EXITS and loop is not frame:
            loop_above = loop
        elif loop is frame:
            return op
        else:
            loop_above = loop
        while loop_above is not None and loop_above.parent is not frame:
            loop_above = loop_above.parent
        return loop_above

    def parents(self, item: Item, frame: Loop | None) -> list[Item]:
        """Elements of the frame that must come before one."""
        regions = []
        for tensor in self.sources(item):
            if tensor not in self.fed:
                regions.append(self.item_of(tensor.op, frame))
        for control in self.controls(item):
            regions.append(self.item_of(control, frame))
        return [parent for parent in dict.fromkeys(regions) if parent is not None and parent is not item]

    def in_order(self, items: Sequence[Item], frame: Loop | None) -> list[Item]:
        """The lexicographically smallest topological order by creation."""
        listed = sorted(items, key=lambda item: item._id)
        place = {item: i for i, item in enumerate(listed)}
        waiting = [0] * len(listed)
        children: list[list[int]] = [[] for _ in listed]
        for i, item in enumerate(listed):
            for parent in self.parents(item, frame):
                at = place.get(parent)
                if at is not None:
                    waiting[i] += 1
                    children[at].append(i)
        ready = [i for i, count in enumerate(waiting) if not count]
        ordered = []
        while ready:
            at = heapq.heappop(ready)
            ordered.append(listed[at])
            for child in children[at]:
                waiting[child] -= 1
                if not waiting[child]:
                    heapq.heappush(ready, child)
        if len(ordered) != len(listed):
            raise IrregularError(f"a cycle through {next(x for i, x in enumerate(listed) if waiting[i]).name!r}")
        return ordered

    # ------------------------------------------------------------------------------------------------------------ paths
    def root_of(self, pred: Tensor) -> Tensor | bool | int:
        """A predicate without identities, switches and constant entries; its value if it is constant."""
        root = self._roots.get(pred)
        if root is None:
            seen = pred
            while seen not in self.fed and (
                seen.op.type in ("Identity", "Switch") or (seen.op.type in ENTERS and seen.op._attrs["is_constant"])
            ):
                seen = seen.op._inputs[0]
            root = seen
            value = self._constant(seen)
            if value is not None:
                root = value
            self._roots[pred] = root
        return root

    def _constant(self, tensor: Tensor) -> Any:
        """A constant scalar behind identities, switches, negations and constant entries."""
        negate = False
        while tensor not in self.fed:
            op = tensor.op
            if op.type in ("Identity", "Switch") or (op.type in ENTERS and op._attrs["is_constant"]):
                tensor = op._inputs[0]
            elif op.type == "LogicalNot":
                negate = not negate
                tensor = op._inputs[0]
            elif op.type == "Const" and np.ndim(op._attrs["value"]) == 0:
                value = op._attrs["value"].item()
                return (not value if negate else bool(value)) if isinstance(value, bool) else int(value)
            else:
                return None
        return None

    def path_of(self, tensor: Tensor) -> Path:
        """The path of a tensor in the frame in which it is used."""
        if tensor in self.fed or tensor.op in self.static or tensor.op.type in ENTERS:
            return ()
        return self.paths[tensor]

    @staticmethod
    def union(paths: Iterable[Path]) -> Path:
        """All conditions together."""
        literals: tuple[Literal, ...] = ()
        for path in paths:
            if path is None:
                return DEAD
            if path is literals or not path:
                continue
            if not literals:
                literals = path
                continue
            known = dict(literals)
            for pred, value in path:
                if pred not in known:
                    literals = (*literals, (pred, value))
                    known[pred] = value
                elif known[pred] != value:
                    return DEAD
        return literals

    def _find_paths(self, frame: Loop | None, known: dict[Tensor, int]) -> None:
        """Find the paths in a frame; ``known`` are the conditions under which the frame runs at all."""
        items = self.in_order(self.items if frame is None else frame.items, frame)
        self.order[frame] = items
        for item in items:
            if isinstance(item, Loop):
                path = self.union(
                    [*map(self.path_of, self.sources(item)), *(self._control_path(op) for op in self.controls(item))]
                )
                self._find_paths(item, {**known, **dict(path or ())})
                for op in item.exits:
                    self.paths[op._outputs[0]] = path
                self.item_paths[item] = path
                continue
            if item.type in EXITS:
                self.item_paths[item] = self.path_of(self._inputs(item)[0])
                continue
            self.item_paths[item] = self._item_path(item, known)

    def _control_path(self, op: Operation) -> Path:
        """The path of an op as a control input."""
        if op in self.static or op.type in ENTERS:
            return ()
        if op.type in EXITS:
            return self.paths[op._outputs[0]]
        return self.item_paths[op]

    def _item_path(self, op: Operation, known: dict[Tensor, int]) -> Path:
        kind = op.type
        if kind == "ControlTrigger":
            return ()
        controls = self.union(self._control_path(control) for control in self._controls(op))
        if op in self.loop_merges:
            self.paths[op._outputs[0]] = self.paths[op._outputs[1]] = controls
            if controls != ():
                raise IrregularError(f"{op.name!r} is conditional")
            return controls
        if kind in MERGES:
            path = self.union([controls, self._merged(op)])
        else:
            path = self.union([controls, *map(self.path_of, self._inputs(op))])
        if kind not in SWITCHES:
            for output in op._outputs:
                self.paths[output] = path
            return path
        root = self.root_of(op._inputs[1])
        last = len(op._outputs) - 1
        if isinstance(root, Tensor) and self.outcomes.setdefault(root, last + 1) != last + 1:
            raise IrregularError(f"{op.name!r} has not as many outputs as other switches on {root.name!r}")
        for i, output in enumerate(op._outputs):
            if not isinstance(root, Tensor) or root in known:
                chosen = known[root] if isinstance(root, Tensor) else int(root)
                self.paths[output] = path if i == (chosen if 0 <= chosen <= last else last) else DEAD
            else:
                self.paths[output] = self.union([path, ((root, i),)])
        return path

    def _is_shape(self, tensor: Tensor) -> bool:
        while tensor not in self.fed and tensor.op.type in ("Cast", "Identity"):
            tensor = tensor.op._inputs[0]
        vector = tensor.dtype.base.is_integer and tensor._shape is not None and len(tensor._shape) == 1
        return vector and tensor not in self.fed and tensor.op.type in ("Const", "Shape", "VariableShape")

    def _merged(self, op: Operation) -> Path:
        """The path of a merge of branches."""
        paths = [self.path_of(tensor) for tensor in self._inputs(op)]
        alive = [i for i, path in enumerate(paths) if path is not DEAD]
        if len(alive) <= 1:
            self.pivots[op] = alive[0] if alive else 0
            return paths[alive[0]] if alive else DEAD
        first = max((paths[i] or () for i in alive), key=len)
        for pred, _ in reversed(first):
            values: dict[int, int] = {}
            rests = []
            always = []
            for i in alive:
                path = paths[i]
                assert path is not None
                value = dict(path).get(pred)
                if value in values:
                    break
                if value is None:
                    always.append(i)
                else:
                    values[value] = i
                rests.append(tuple(literal for literal in path if literal[0] is not pred))
            else:
                # Gradients that TensorFlow writes merge the shape of a table with what one branch knows of it. Where
                # both are there, either will do: take the branch's.
                shape = len(always) == 1 and self._is_shape(self._inputs(op)[always[0]])
                if shape and len(values) == self.outcomes[pred] - 1:
                    values[next(i for i in range(self.outcomes[pred]) if i not in values)] = always.pop()
                if always:
                    continue
                if len({frozenset(rest) for rest in rests}) == 1 and len(values) == self.outcomes[pred]:
                    self.pivots[op] = (pred, values)
                    return rests[0]
        raise IrregularError(f"{op.name!r} does not merge the branches of one condition")
