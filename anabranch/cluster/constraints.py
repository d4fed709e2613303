"""What the ops of a step over several tasks wait for: each other, and reads of the versions that they see.

Policy. A *node* is an op, or a read of a version of a variable that an op of another task sees: it stands after the
write that makes this version, before the next. A node waits for what makes its inputs, for its control edges (``NoOp``s
belong to no task: whoever waits for one waits for what it waits for), and, if it has effects, for the one before it on
its task. Which version of a variable an op sees is what the analysis of the whole step says. Constants and handles are
part of each piece that uses them, and no nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from anabranch.cluster.tasks import TaskPlacer, handles_taken, variables_read
from anabranch.core.contract import kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.rewrite import reach, state
from anabranch.runtime.registered_step import LocalStep
from anabranch.runtime.state.slots import handle_of

ORDERED = ("write", "channel", "io")
"""Kinds of effects that keep their order on a task."""


class VersionRead(NamedTuple):
    """A read of a variable for ops of other tasks, or later ones: after the first ``version`` writes of the step."""

    maker: Operation
    version: int


class ReadHandle(NamedTuple):
    """A variable of another task as an op with bodies takes it, which read it: with the value of a version."""

    read: VersionRead


Node = Operation | VersionRead
Edge = Tensor | VersionRead | ReadHandle
"""What travels from piece to piece."""


def producer_of(edge: Edge) -> Node:
    """The node that computes an edge."""
    if isinstance(edge, ReadHandle):
        return edge.read
    return edge if isinstance(edge, VersionRead) else edge.op


def op_of(fetch: Tensor | Operation) -> Operation:
    """The op of what is fetched."""
    return fetch.op if isinstance(fetch, Tensor) else fetch


class Constraints:
    """Which nodes of a step there are, where they run, and which each must come behind.

    Args:
        step: what is to be computed.
        placer: where its ops run.
        gate: what is behind the gate: ``writes``, ``state``, or nothing ('').
    """

    def __init__(self, step: LocalStep, placer: TaskPlacer, gate: str) -> None:
        self.gate = gate
        self.graph, self.fetches, self.feeds = step
        self.fed = frozenset(step.feeds)
        self.placer = placer
        self.final: dict[Tensor, VersionRead] = {}
        roots = []
        final = []
        for fetch in step.fetches:
            if isinstance(fetch, Tensor) and fetch in self.fed:
                continue
            if isinstance(fetch, Tensor) and fetch.dtype.is_ref and op_of(fetch).definition.makes == "variable":
                final.append(fetch)
                continue
            roots.append(op_of(fetch))
        awaited = [fetch for fetch in step.fetches if isinstance(fetch, Operation)]
        self.analysis = state.analyse(roots, self.fed, state.Variables(self._resource), awaited)
        self._refuse_unfed()
        self.fetched = {op_of(fetch) for fetch in step.fetches}
        self.placed = placer.place(self.analysis)
        self.writes: dict[Operation, list[tuple[StateKey, Operation]]] = {}
        for op in self.analysis.order:
            for key in self.analysis.state_of(op).writes:
                self.writes.setdefault(key.maker, []).append((key, op))
        for fetch in final:
            maker = self.analysis.variable(fetch)
            self.final[fetch] = VersionRead(maker, len(self.writes.get(maker, ())))
        self.before: dict[Node, set[Node]] = {}
        self.inputs: dict[Operation, dict[int, Edge]] = {}
        """Per op, which of its inputs are values of others, by position."""
        self.runs = frozenset(self.analysis.order)
        self._waits: dict[Operation, frozenset[Operation]] = {}

    def _resource(self, maker: Operation) -> Any:
        handle = handle_of(maker)
        return dataclasses.replace(handle, name=f"{self.placer.task_of(maker)}/{handle.name}")

    def _refuse_unfed(self) -> None:
        for op in self.analysis.order:
            for source in (op, *(tensor.op for tensor in op._inputs if tensor not in self.fed)):
                if source.definition.effect.kind == "feed" and not self.fed.issuperset(source._outputs):
                    assert source.definition.host_kernel is not None
                    source.definition.host_kernel(kernels.HostContext(source), (), source._attrs)

    # ----------------------------------------------------------------------------------------------------- constraints
    def _is_copied(self, op: Operation) -> bool:
        """Whether an op is part of each piece that uses it."""
        if op._inputs or op._control_inputs:
            return False
        return op.definition.makes is not None or (op.role is Role.CONSTANT and op not in self.fetched)

    def is_order(self, op: Operation) -> bool:
        """Whether an op does nothing but wait."""
        return op.role is Role.ORDERING and not op._inputs

    def waits(self, op: Operation) -> frozenset[Operation]:
        """The ops that an op waits for by control edges, those behind NoOps instead of them."""
        known = self._waits.get(op)
        if known is None:
            found: set[Operation] = set()
            for control in reach.controls_of(op):
                if control in self.runs:  # gradients that only a gate waits for may be left out
                    found.update(self.waits(control) if self.is_order(control) else (control,))
            known = self._waits[op] = frozenset(found)
        return known

    def _version(self, key: StateKey) -> int:
        """How many writes of the step a version of a variable comes after."""
        writes = self.writes.get(key.maker, [])
        if key.index > 0:
            return next(i for i, (written, _) in enumerate(writes) if written == key) + 1
        return sum(written.segment < key.segment for written, _ in writes)

    def _bracket(self, node: Node, maker: Operation, version: int) -> None:
        """Keep a node that sees a version behind the write that makes it, and before the next."""
        writes = self.writes.get(maker, [])
        if version > 0 and writes[version - 1][1] is not node:
            self.before[node].add(writes[version - 1][1])
        if version < len(writes) and writes[version][1] is not node:
            self.before.setdefault(writes[version][1], set()).add(node)

    def _read(self, maker: Operation, version: int) -> VersionRead:
        node = VersionRead(maker, version)
        if node not in self.before:
            self.before[node] = set()
            self._bracket(node, maker, version)
        return node

    def _constrain(self) -> None:
        last: dict[str, Operation] = {}
        for op in self.analysis.order:
            if self._is_copied(op) or self.is_order(op):
                continue
            needs = self.before.setdefault(op, set())
            taken = self.inputs[op] = {}
            handles = dict(handles_taken(op, self.analysis))
            sent = self._sent_to(op, handles)
            sources = self.analysis.sources(op)
            for position, tensor in enumerate(op._inputs):
                if tensor in self.fed:
                    taken[position] = tensor
                    continue
                if position in sent:
                    taken[position] = ReadHandle(sent[position])
                    needs.add(sent[position])
                    continue
                source = sources[position]
                producer = tensor.op
                if reach.is_transparent_read(producer, self.fed):
                    producer = producer._inputs[0].op
                if not self._is_copied(producer) and producer in self.placed:
                    needs.add(producer)
                if isinstance(source, StateKey):
                    version = self._version(source)
                    is_here = self.placed[op] == self.task_of(source.maker)
                    if position in handles or (is_here and not self._reads_before_gate(op)):
                        self._bracket(op, source.maker, version)
                    else:
                        edge = self._read(source.maker, version)
                        needs.add(edge)
                        taken[position] = edge
                elif position not in handles and not self._is_copied(producer):
                    taken[position] = tensor
            for key in sources[len(op._inputs) :]:
                if isinstance(key, StateKey):
                    if all(read.maker is not key.maker for read in sent.values()):
                        self._bracket(op, key.maker, self._version(key))
                elif isinstance(key, Tensor) and key not in self.fed and not self._is_copied(key.op):
                    needs.add(key.op)
            needs.update(control for control in self.waits(op) if not self._is_copied(control))
            if self.analysis.kind[op] in ORDERED:
                task = self.placed[op]
                if task in last:
                    needs.add(last[task])
                last[task] = op
            needs.discard(op)
        for read in self.final.values():
            self._read(read.maker, read.version)

    def _sent_to(self, op: Operation, handles: dict[int, Operation]) -> dict[int, VersionRead]:
        """By position the variables of other tasks whose values an op with bodies is given."""
        makers = variables_read(op, self.analysis)
        away = {maker for maker in makers if self.task_of(maker) != self.placed[op]}
        if not away:
            return {}
        versions = {
            key.maker: self._version(key)
            for key in self.analysis.sources(op)[len(op._inputs) :]
            if isinstance(key, StateKey)
        }
        of = self.analysis.variables.of
        return {
            position: self._read(of(maker), versions.get(of(maker), 0))
            for position, maker in handles.items()
            if maker.definition.makes == "variable" and of(maker) in away
        }

    def _reads_before_gate(self, op: Operation) -> bool:
        """Whether an op that is behind the gate takes values of variables that are read before it."""
        return self.gate == "writes" and bool(self.analysis.state_of(op).writes)

    def task_of(self, node: Node) -> str:
        """The task on which a node runs."""
        op = node.maker if isinstance(node, VersionRead) else node
        return self.placed.get(op) or self.placer.task_of(op)
