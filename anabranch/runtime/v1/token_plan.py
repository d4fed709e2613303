"""What a run by tokens needs to know beforehand: its ops, who takes what, and which ops share a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract import kernels
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import ENTERS, EXITS, NEXTS, Parts, needed, outside
from anabranch.ops.v1 import tensor_arrays
from anabranch.rewrite import effects
from anabranch.runtime.state.slots import ResourceHandle

STATE = frozenset(("variable", "table"))
PASS = ENTERS | EXITS | NEXTS | {"LoopCond", "RefIdentity"}


class TokenPlan:
    """Which ops of a graph a step runs, and who takes what; fixed for fetches, feeds and a version of the graph."""

    tier = "tokens"
    compiles_further = False
    """As in a plan: it has no programs of its own."""

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
        self.accepted: dict[Operation, set[tuple[Any, ...]]] = {}
        """As in a plan."""
        self.took = 0.0
        self.comparison = None
        self.acts_outside = True  # what its loops do is seen when they run
        self.held_bodies = ()
        self.caches = ()
        ops = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in fetches if fetch not in self.fed]
        self.ops = needed(ops, self.fed)
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
            makers = [op] if op.definition.makes is not None and op.type not in tensor_arrays.TYPES else []
            within = effects.summary(op)
            if within is not None:
                makers += [*within.makers, *within.reads, *within.writes]
            for maker in makers:
                self.makers.setdefault(handle_of(maker), maker)
                self.variables.setdefault(handle_of(maker), maker)
        kinds = {effects.kind_of(op) for op in self.ops if op.type not in tensor_arrays.TYPES}
        self.writes = "write" in kinds
        self.random_ops = [inner for op in self.ops for inner in effects.random_ops_of(op)]
        self.leaves = bool({"channel", "io"} & kinds) or any(op.definition.may_block for op in self.ops)
        """Whether the step does something that no variable may be held for."""
        self._wire()

    def _wire(self) -> None:
        inside = set(self.ops)
        self.takers: dict[Tensor, list[tuple[Operation, int]]] = {}
        self.waiters: dict[Operation, list[Operation]] = {}
        self.pending: dict[Operation, int] = {}
        self.given: dict[Operation, list[tuple[int, Tensor]]] = {}
        """Inputs that are there from the start, by op: those that are fed, and those of static ops."""
        parts = Parts()
        for op in self.ops:
            waiting = 0
            for i, tensor in enumerate(op._inputs):
                if tensor in self.fed or tensor.op in self.static:
                    self.given.setdefault(op, []).append((i, tensor))
                    continue
                waiting += 1
                self.takers.setdefault(tensor, []).append((op, i))
                parts.unite(outside(tensor.op), op)
            for control in op._control_inputs:
                if control in inside and control not in self.static:
                    waiting += 1
                    self.waiters.setdefault(control, []).append(op)
                    parts.unite(outside(control), op)
            self.pending[op] = waiting
        parts.unite_surroundings(self.ops)
        self.frame_of: dict[Operation, Any] = {}
        """Enter or Exit -> what stands for the set of connected ops inside it."""
        self.enters: dict[Any, int] = {}
        self.exits: dict[Any, list[Operation]] = {}
        for op in self.ops:
            if op.type in ENTERS:
                frame = self.frame_of[op] = parts.find(outside(op))
                self.enters[frame] = self.enters.get(frame, 0) + 1
            elif op.type in EXITS:
                frame = self.frame_of[op] = parts.find(op)
                self.exits.setdefault(frame, []).append(op)

    def explain(self) -> str:
        """Say what runs."""
        return (
            f"plan of {len(self.ops)} ops for {len(self.fetches)} fetches, run by tokens: {self.why}; "
            f"run {self.runs} times"
        )


def _is_static(op: Operation) -> bool:
    return op.type == "Const" or (op.definition.makes is not None and op.type not in tensor_arrays.TYPES)
