"""What a run by tokens needs to know beforehand: its ops, who takes what, and which ops share a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import kernels
from anabranch.core.operation import Operation, Tensor
from anabranch.ops import v1_tensor_array
from anabranch.rewrite import effects
from anabranch.runtime.resources import ResourceHandle

ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
NEXT = frozenset(("NextIteration", "RefNextIteration"))
MERGES = frozenset(("Merge", "RefMerge"))
SWITCHES = frozenset(("Switch", "RefSwitch", "_SwitchN"))
STATE = frozenset(("variable", "table"))
PASS = ENTERS | EXITS | NEXT | {"LoopCond", "RefIdentity"}


class TokenPlan:
    """Which ops of a graph a step runs, and who takes what; fixed for fetches, feeds and a version of the graph."""

    tier = "tokens"

    def __init__(
        self, fetches: Sequence[Any], feeds: Sequence[Tensor], handle_of: Any, placer: Any, options: Any, why: str
    ) -> None:
        self.fetches = tuple(fetches)
        self.feeds = tuple(feeds)
        self.fed = frozenset(feeds)
        self.handle_of = handle_of
        self.placer = placer
        self.options = options
        self.why = why
        self.runs = 0
        self.spent = 0.0
        ops = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in fetches if fetch not in self.fed]
        self.ops = _needed(ops, self.fed)
        placer.check(self.ops)
        for op in self.ops:
            if op.definition.effect.kind == "feed" and any(output not in self.fed for output in op._outputs):
                assert op.definition.host_kernel is not None
                op.definition.host_kernel(kernels.HostContext(op), (), op._attrs)
        self.static = {op for op in self.ops if not op._inputs and not op._control_inputs and _is_static(op)}
        """Ops whose outputs are there in every frame."""
        self.variables: dict[ResourceHandle, Operation] = {}
        self.makers: dict[ResourceHandle, Operation] = {}
        for op in self.ops:
            makers = [op] if op.definition.makes is not None and op.type not in v1_tensor_array.TYPES else []
            within = effects.summary(op)
            if within is not None:
                makers += [*within.makers, *within.reads, *within.writes]
            for maker in makers:
                self.makers.setdefault(handle_of(maker), maker)
                self.variables.setdefault(handle_of(maker), maker)
        kinds = {effects.kind_of(op) for op in self.ops if op.type not in v1_tensor_array.TYPES}
        self.writes = "write" in kinds
        self.random_ops = [inner for op in self.ops for inner in effects.random_ops_of(op)]
        self.leaves = bool({"channel", "io"} & kinds) or any(op.definition.may_block for op in self.ops)
        """Whether the step does something that no variable may be held for."""
        self._wire()

    def _wire(self) -> None:
        needed = set(self.ops)
        self.takers: dict[Tensor, list[tuple[Operation, int]]] = {}
        self.waiters: dict[Operation, list[Operation]] = {}
        self.pending: dict[Operation, int] = {}
        self.given: dict[Operation, list[tuple[int, Tensor]]] = {}
        """Inputs that are there from the start, by op: those that are fed, and those of static ops."""
        parts: dict[Any, Any] = {}
        for op in self.ops:
            waiting = 0
            for i, tensor in enumerate(op._inputs):
                if tensor in self.fed or tensor.op in self.static:
                    self.given.setdefault(op, []).append((i, tensor))
                    continue
                waiting += 1
                self.takers.setdefault(tensor, []).append((op, i))
                _unite(parts, _outside(tensor.op), op)
            for control in op._control_inputs:
                if control in needed and control not in self.static:
                    waiting += 1
                    self.waiters.setdefault(control, []).append(op)
                    _unite(parts, _outside(control), op)
            self.pending[op] = waiting
        unite_surroundings(parts, self.ops)
        self.frame_of: dict[Operation, Any] = {}
        """Enter or Exit -> what stands for the set of connected ops inside of it."""
        self.enters: dict[Any, int] = {}
        self.exits: dict[Any, list[Operation]] = {}
        for op in self.ops:
            if op.type in ENTERS:
                frame = self.frame_of[op] = _find(parts, _outside(op))
                self.enters[frame] = self.enters.get(frame, 0) + 1
            elif op.type in EXITS:
                frame = self.frame_of[op] = _find(parts, op)
                self.exits.setdefault(frame, []).append(op)

    def explain(self) -> str:
        """Says what runs."""
        return (
            f"plan of {len(self.ops)} ops for {len(self.fetches)} fetches, run by tokens: {self.why}; "
            f"run {self.runs} times"
        )


def unite_surroundings(parts: dict[Any, Any], ops: Sequence[Operation]) -> None:
    """Unites the sets that are around one frame: those of what goes into it and of what comes out."""
    doors = [op for op in ops if op.type in ENTERS or op.type in EXITS]
    changed = True
    while changed:
        changed = False
        first: dict[Any, Any] = {}
        for op in doors:
            enters = op.type in ENTERS
            inside, around = (_outside(op), op) if enters else (op, _outside(op))
            other = first.setdefault(_find(parts, inside), around)
            if _find(parts, other) is not _find(parts, around):
                _unite(parts, other, around)
                changed = True


def _outside(op: Operation) -> Any:
    """The side of an op that gives its outputs: an Enter or Exit has two, in different frames."""
    return (op,) if op.type in ENTERS or op.type in EXITS else op


def _find(parts: dict[Any, Any], item: Any) -> Any:
    root = item
    while (above := parts.setdefault(root, root)) is not root:
        root = above
    while item is not root:
        parts[item], item = root, parts[item]
    return root


def _unite(parts: dict[Any, Any], one: Any, other: Any) -> None:
    parts[_find(parts, one)] = _find(parts, other)


def _is_static(op: Operation) -> bool:
    return op.type == "Const" or (op.definition.makes is not None and op.type not in v1_tensor_array.TYPES)


def _needed(ops: Sequence[Operation], fed: frozenset[Tensor]) -> list[Operation]:
    found: set[Operation] = set()
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += [tensor.op for tensor in op._inputs if tensor not in fed]
            stack += op._control_inputs
    return sorted(found, key=lambda op: op._id)
