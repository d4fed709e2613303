"""A step over several tasks, cut into pieces: each is a step of one task, in the form in which steps travel.

Policy. What runs on a task between two exchanges with others is one piece, a step of its own there: atomic as any step
is, with the fast path and the compiled programs that any step has. Its feeds are what the client feeds and what other
pieces compute, its fetches what others, or the client, take. So Send and Recv are the edges between pieces, and a value
is sent when the piece that computes it has committed.

*Levels.* Each op gets a level: above those of the ops on other tasks that it needs, and not below those on its own. Ops
with effects keep their order on a task (that of the whole step) and come as early as they can; pure ops, reads and
random ops come as late as those that need them allow, so that a read stands beside the write that follows from it.
The ops of a task on one level are a piece; two pieces of a task are one if no other task stands between them. Pieces of
a task run in the order of their levels. So no two pieces wait for each other.

*State.* Which version of a variable an op sees is what the analysis of the whole step says. An op that takes a
variable's value on another task gets it from a read on the variable's own: after the write whose version it sees,
before the next.

*The gate.* What a step promises beyond one task may need a point at which nothing of a kind has happened yet: no update
(for synchronous rounds), or no look at state at all (for transactions, so that nothing is held while the step waits for
a queue). What comes behind that point is in pieces of its own, :attr:`DistributedStep.gated`.

Constants are part of each piece that uses them and never travel. ``NoOp``s belong to no task: whoever waits for one
waits for what it waits for.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from typing import Any, NamedTuple

from anabranch.cluster.tasks import TaskPlacer, handles_taken
from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.contract import kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.core.protos import graph_pb2
from anabranch.rewrite import reach, state
from anabranch.runtime import collectives, portable_plan
from anabranch.runtime.v1 import plans as version_one
from anabranch.runtime.worker import LocalStep, handle_of

ORDERED = ("write", "channel", "io")
"""Kinds of effects that keep their order on a task."""


class VersionRead(NamedTuple):
    """A read of a variable for ops of other tasks, or later ones: after the first ``version`` writes of the step."""

    maker: Operation
    version: int


Node = Operation | VersionRead
Edge = Tensor | VersionRead
"""What travels from piece to piece."""


class Feed(NamedTuple):
    """What the client feeds: its place among the step's feeds."""

    place: int


class Value(NamedTuple):
    """What a piece computes: number of the piece, place among its fetches."""

    piece: int
    place: int


@dataclasses.dataclass(eq=False)
class Piece:
    """A step of one task."""

    task: str
    data: bytes
    sources: tuple[Feed | Value, ...]
    """Where each feed comes from."""
    outputs: int
    """How many of its fetches are values that somebody takes."""
    after: frozenset[int]
    """Pieces that must have ended before it begins."""
    may_block: bool
    """Whether it acts on channels."""
    ops: int
    constants: tuple[str, ...] = ()
    """Names of constants that are its own and that it gives."""


class DistributedStep(NamedTuple):
    """A step over several tasks: pieces in an order in which they can run, and where each fetch comes from."""

    pieces: tuple[Piece, ...]
    fetches: tuple[Feed | Value | None, ...]
    gated: frozenset[int] = frozenset()
    """Pieces behind the gate."""
    with_state: frozenset[int] = frozenset()
    """Pieces that look at variables, or write them."""
    updated: frozenset[Operation] = frozenset()
    """The variables that ops write which also read them, by the ops that make them."""


def partition(step: LocalStep, placer: TaskPlacer, gate: str = "") -> DistributedStep:
    """Cut a step into pieces.

    Args:
        step: what is to be computed.
        placer: where its ops run.
        gate: what is behind the gate: ``writes``, ``state``, or nothing ('').

    Raises:
        InvalidArgumentError: a placeholder is not fed; an op names a task that is not there. UnimplementedError: the
        step has control flow of version 1 on several tasks, a value that cannot travel, or waits behind the gate.
    """
    with step.graph._lock:
        expansion = collectives.expanded(step.fetches, step.feeds)
        if expansion is not None:
            step = LocalStep(expansion.graph, expansion.fetches, expansion.feeds)
        if version_one.occurs(step.fetches, step.feeds):
            if gate == "writes":
                raise _ungated(None, "a step with control flow of version 1 (Switch, Merge, TensorArray)")
            return _whole(step, placer)
        return _Cutter(step, placer, gate).cut()


def _ungated(op: Operation | None, what: str) -> errors.UnimplementedError:
    return errors.UnimplementedError(
        None,
        op,
        errors.message(
            f"{what} in a session whose steps promise more than 'async'",
            "a step that waits for queues and the like before it looks at variables of tasks",
            "SessionOptions(consistency='async'), as SyncReplicasOptimizer needs it",
        ),
    )


def _whole(step: LocalStep, placer: TaskPlacer) -> DistributedStep:
    """A step with control flow of version 1, which stays in one piece."""
    ops = reach.needed_ops([_op(fetch) for fetch in step.fetches], frozenset(step.feeds))
    used = {placer.resolve(op._device, op) or placer.default for op in ops if op._device} or {placer.default}
    if len(used) > 1:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"control flow of version 1 (Switch, Merge, TensorArray) in a step over {', '.join(sorted(used))}",
                "such a step on one task",
                "tf.cond and tf.while_loop of this package instead of an imported graph, or one tf.device for all",
            ),
        )
    data = portable_plan.pack(step.fetches, step.feeds)
    sources = tuple([Feed(i) for i in range(len(step.feeds))])
    values = [i for i, fetch in enumerate(step.fetches) if isinstance(fetch, Tensor)]
    piece = Piece(next(iter(used)), data, sources, len(step.fetches), frozenset(), True, len(ops))
    return DistributedStep((piece,), tuple([Value(0, i) if i in values else None for i in range(len(step.fetches))]))


def _op(fetch: Tensor | Operation) -> Operation:
    return fetch.op if isinstance(fetch, Tensor) else fetch


class _Draft:
    """A piece while it is put together."""

    def __init__(self, task: str, gated: bool) -> None:
        self.task, self.gated = task, gated
        self.nodes: list[Node] = []
        self.imports: dict[Edge, str] = {}
        self.exports: list[Edge] = []

    def export(self, edge: Edge) -> int:
        if edge not in self.exports:
            self.exports.append(edge)
        return self.exports.index(edge)


class _Cutter:
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
            if isinstance(fetch, Tensor) and fetch.dtype.is_ref and _op(fetch).definition.makes == "variable":
                final.append(fetch)
                continue
            roots.append(_op(fetch))
        awaited = [fetch for fetch in step.fetches if isinstance(fetch, Operation)]
        self.analysis = state.analyse(roots, self.fed, state.Variables(self._resource), awaited)
        self._refuse_unfed()
        self.fetched = {_op(fetch) for fetch in step.fetches}
        self.placed = placer.place(self.analysis)
        self.writes: dict[Operation, list[tuple[StateKey, Operation]]] = {}
        for op in self.analysis.order:
            for key in self.analysis.state_of(op).writes:
                self.writes.setdefault(key.maker, []).append((key, op))
        for fetch in final:
            maker = self.analysis.variable(fetch)
            self.final[fetch] = VersionRead(maker, len(self.writes.get(maker, ())))
        self.before: dict[Node, set[Node]] = {}
        self._inputs: dict[Operation, dict[int, Edge]] = {}
        """Per op, which of its inputs are values of others, by position."""
        self._waits: dict[Operation, frozenset[Operation]] = {}

    def _resource(self, maker: Operation) -> Any:
        handle = handle_of(maker)
        task = (self.placer.resolve(maker._device, maker) if maker._device else None) or self.placer.default
        return dataclasses.replace(handle, name=f"{task}/{handle.name}")

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

    def _is_order(self, op: Operation) -> bool:
        return op.role is Role.ORDERING and not op._inputs

    def waits(self, op: Operation) -> frozenset[Operation]:
        """The ops that an op waits for by control edges, those behind NoOps instead of them."""
        known = self._waits.get(op)
        if known is None:
            found: set[Operation] = set()
            for control in reach.controls_of(op):
                found.update(self.waits(control) if self._is_order(control) else (control,))
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
            if self._is_copied(op) or self._is_order(op):
                continue
            needs = self.before.setdefault(op, set())
            taken = self._inputs[op] = {}
            handles = dict(handles_taken(op, self.analysis))
            sources = self.analysis.sources(op)
            for position, tensor in enumerate(op._inputs):
                if tensor in self.fed:
                    taken[position] = tensor
                    continue
                source = sources[position]
                producer = tensor.op
                if reach.is_transparent_read(producer, self.fed):
                    producer = producer._inputs[0].op
                if not self._is_copied(producer) and producer in self.placed:
                    needs.add(producer)
                if isinstance(source, StateKey):
                    version = self._version(source)
                    is_here = self.placed[op] == self._task_of(source.maker)
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

    def _reads_before_gate(self, op: Operation) -> bool:
        """Whether an op that is behind the gate takes values of variables that are read before it."""
        return self.gate == "writes" and bool(self.analysis.state_of(op).writes)

    def _task_of(self, node: Node) -> str:
        op = node.maker if isinstance(node, VersionRead) else node
        return self.placed.get(op) or self.placer.task_of(op)

    # ---------------------------------------------------------------------------------------------------------- levels
    def _order(self) -> list[Node]:
        """All nodes, each behind those that it needs."""
        users: dict[Node, list[Node]] = {node: [] for node in self.before}
        waiting = {node: len(needs) for node, needs in self.before.items()}
        for node, needs in self.before.items():
            for other in needs:
                users[other].append(node)
        place = {op: i for i, op in enumerate(self.analysis.order)}
        rank = {node: (place.get(node, -1), i) for i, node in enumerate(self.before)}  # type: ignore[arg-type]
        heap = [(rank[node], i, node) for i, node in enumerate(waiting) if not waiting[node]]
        heapq.heapify(heap)
        order: list[Node] = []
        while heap:
            _, _, node = heapq.heappop(heap)
            order.append(node)
            for user in users[node]:
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(heap, (rank[user], len(order) + len(heap), user))
        self.users = users
        if len(order) < len(waiting):
            stuck = [node for node in self.before if waiting[node] and isinstance(node, Operation)]
            raise errors.UnimplementedError(
                None,
                stuck[0] if stuck else None,
                errors.message(
                    f"reads and writes of variables that wait for each other over several tasks: "
                    f"{', '.join(repr(op.name) for op in stuck[:4])}",
                    "reads of old values that come before the writes on every task",
                    "tf.control_dependencies between the reads and the writes, or two steps",
                ),
            )
        return order

    def _levels(self, order: list[Node]) -> dict[Node, int]:
        task = {node: self._task_of(node) for node in order}
        early: dict[Node, int] = {}
        for node in order:
            early[node] = max((early[b] + (task[b] != task[node]) for b in self.before[node]), default=0)
        level = dict(early)
        self.gated = self._behind_gate(order)
        top = max((early[node] for node in order if node not in self.gated), default=0)
        for node in self.gated:
            level[node] += top + 1
        for node in reversed(order):
            is_free = isinstance(node, VersionRead) or self.analysis.kind[node] not in ORDERED
            if is_free and self.users[node]:
                level[node] = min(level[user] - (task[user] != task[node]) for user in self.users[node])
            if self.gated and node not in self.gated:
                level[node] = min(level[node], top)
        return self._merged(level, task)

    def _touches_state(self, node: Node) -> bool:
        used = None if isinstance(node, VersionRead) else self.analysis.state_of(node)
        return used is None or bool(used.writes or next(used.seen(), None))

    def _behind_gate(self, order: list[Node]) -> frozenset[Node]:
        """The nodes that the step may come to only when it has passed its gate."""
        kind = self.analysis.kind
        waits = any(isinstance(node, Operation) and kind[node] == "channel" for node in order)
        if not self.gate or (self.gate == "state" and not waits):
            return frozenset()
        behind: set[Node] = set()
        for node in order:
            is_first = (
                isinstance(node, Operation) and bool(self.analysis.state_of(node).writes)
                if self.gate == "writes"
                else self._touches_state(node)
            )
            if is_first or not behind.isdisjoint(self.before[node]):
                behind.add(node)
                if self.gate == "state" and isinstance(node, Operation) and kind[node] == "channel":
                    raise _ungated(node, f"op {node.name!r} ({node.type}), which comes behind the state of the step,")
        return frozenset(behind)

    def _merged(self, level: dict[Node, int], task: dict[Node, str]) -> dict[Node, int]:
        """Levels with pieces of a task joined where no other task stands between them, and not the gate."""
        members: dict[tuple[str, bool], dict[int, list[Node]]] = {}
        for node, at in level.items():
            members.setdefault((task[node], node in self.gated), {}).setdefault(at, []).append(node)
        for pieces in members.values():
            numbers = sorted(pieces)
            for earlier, later in itertools.pairwise(numbers):
                at = level[pieces[earlier][0]]
                away = [other for node in pieces[later] for other in self.before[node] if task[other] != task[node]]
                if all(level[other] < at for other in away):
                    for node in pieces[later]:
                        level[node] = at
            for later, earlier in itertools.pairwise(reversed(numbers)):
                at = level[pieces[later][0]]
                away = [user for node in pieces[earlier] for user in self.users[node] if task[user] != task[node]]
                if all(level[user] > at for user in away):
                    for node in pieces[earlier]:
                        level[node] = at
        return level

    # ---------------------------------------------------------------------------------------------------------- pieces
    def cut(self) -> DistributedStep:
        self._constrain()
        order = self._order()
        level = self._levels(order)
        drafts: dict[tuple[int, str], _Draft] = {}
        home: dict[Node, _Draft] = {}
        for node in order:
            key = level[node], self._task_of(node)
            draft = home[node] = drafts.setdefault(key, _Draft(key[1], node in self.gated))
            draft.nodes.append(node)
        pieces = [drafts[key] for key in sorted(drafts)]
        number = {draft: i for i, draft in enumerate(pieces)}
        after: dict[_Draft, set[int]] = {draft: set() for draft in pieces}
        for node in order:
            after[home[node]].update(number[home[b]] for b in self.before[node] if home[b] is not home[node])
        names = set(self.graph._by_name)
        for draft in pieces:
            self._import(draft, home, names)
        fetches = [self._source(fetch, home, number) for fetch in self.fetches]
        sources = [tuple([self._edge_source(edge, home, number) for edge in draft.imports]) for draft in pieces]
        writer = _PieceWriter(self, home)
        last_of_task: dict[str, int] = {}
        cut = []
        for i, draft in enumerate(pieces):
            waits = set(after[draft])
            if draft.task in last_of_task:
                waits.add(last_of_task[draft.task])
            last_of_task[draft.task] = i
            may_block = any(isinstance(n, Operation) and self.analysis.kind[n] == "channel" for n in draft.nodes)
            cut.append(
                Piece(
                    draft.task,
                    writer.write(draft),
                    sources[i],
                    len(draft.exports),
                    frozenset(waits),
                    may_block,
                    len(draft.nodes),
                    tuple([n.name for n in draft.nodes if isinstance(n, Operation) and n.role is Role.CONSTANT]),
                )
            )
        return DistributedStep(
            tuple(cut),
            tuple(fetches),
            frozenset(i for i, draft in enumerate(pieces) if draft.gated),
            frozenset(i for i, draft in enumerate(pieces) if any(self._touches_state(node) for node in draft.nodes)),
            self._updated(),
        )

    def _updated(self) -> frozenset[Operation]:
        found: set[Operation] = set()
        for op in self.analysis.order:
            effect = op.definition.effect
            if effect.kind != "write" or effect.reads:
                found.update(key.maker for key in self.analysis.state_of(op).writes)
        return frozenset(found)

    def _import(self, draft: _Draft, home: dict[Node, _Draft], names: set[str]) -> None:
        """Name what a piece takes from the client and from other pieces."""
        for node in draft.nodes:
            if isinstance(node, VersionRead):
                continue
            for edge in self._inputs[node].values():
                if edge in draft.imports:
                    continue
                producer: Node = edge if isinstance(edge, VersionRead) else edge.op
                if edge not in self.fed and home[producer] is draft:
                    continue
                if edge not in self.fed:
                    self._refuse_immobile(edge, home[producer], draft)
                draft.imports[edge] = _import_name(edge, names)

    def _refuse_immobile(self, edge: Edge, source: _Draft, target: _Draft) -> None:
        """Raise if a value cannot be handed from one piece to another."""
        if isinstance(edge, Tensor) and edge.dtype.base.name in ("variant", "resource"):
            raise errors.UnimplementedError(
                None,
                edge.op,
                errors.message(
                    f"{edge.name!r}, a {edge.dtype.base.name}, that goes from {source.task} to {target.task} or is "
                    "used on both sides of an exchange with another task",
                    "values of a dtype that travels: numbers, bools and strings",
                    "one tf.device for the ops that make and use it",
                ),
            )

    def _edge_source(self, edge: Edge, home: dict[Node, _Draft], number: dict[_Draft, int]) -> Feed | Value:
        if edge in self.fed:
            return Feed(self.feeds.index(edge))
        producer: Node = edge if isinstance(edge, VersionRead) else edge.op
        if producer not in home:
            assert isinstance(edge, Tensor)
            raise errors.UnimplementedError(
                None,
                edge.op,
                errors.message(
                    f"a fetch of {edge.name!r}, the handle of a resource of {self._task_of(edge.op)}",
                    "a value, or an operation",
                    "fetch what the resource holds",
                ),
            )
        draft = home[producer]
        return Value(number[draft], draft.export(edge))

    def _source(
        self, fetch: Tensor | Operation, home: dict[Node, _Draft], number: dict[_Draft, int]
    ) -> Feed | Value | None:
        if not isinstance(fetch, Tensor):
            return None
        return self._edge_source(self.final.get(fetch, fetch), home, number)


def _import_name(edge: Edge, names: set[str]) -> str:
    """The name of the placeholder that stands for a value of another piece."""
    if isinstance(edge, Tensor) and edge.value_index == 0:
        return edge.op.name
    if isinstance(edge, VersionRead):
        base = f"{edge.maker.name}/_version_{edge.version}"
    else:
        base = f"{edge.op.name}/_output_{edge.value_index}"
    name, count = base, 0
    while name in names:
        count += 1
        name = f"{base}_{count}"
    return name


class _PieceWriter:
    """Write pieces as steps that travel."""

    def __init__(self, cutter: _Cutter, home: dict[Node, _Draft]) -> None:
        self._cutter, self._home = cutter, home
        proto = cutter.graph.as_graph_def(add_shapes=True)
        self._nodes = {node.name: node for node in proto.node}
        self._empty = graph_pb2.GraphDef()
        self._empty.versions.CopyFrom(proto.versions)
        self._library = proto.library
        self._awaited: set[Operation] = set()
        for fetch in cutter.fetches:
            if isinstance(fetch, Operation):
                self._awaited.update(cutter.waits(fetch) if cutter._is_order(fetch) else (fetch,))
        self._waited_for: dict[Operation, list[Operation]] = {}
        for op in cutter._inputs:
            for control in cutter.waits(op):
                self._waited_for.setdefault(control, []).append(op)

    def write(self, draft: _Draft) -> bytes:
        cutter = self._cutter
        proto = graph_pb2.GraphDef()
        proto.CopyFrom(self._empty)
        copied: dict[Operation, None] = {}
        for edge, name in draft.imports.items():
            self._placeholder(proto.node.add(), name, edge)
        own = [node for node in draft.nodes if isinstance(node, Operation)]
        reads = [node for node in draft.nodes if isinstance(node, VersionRead)]
        for op in own:
            self._copied_for(op, draft, copied)
        for read in reads:
            copied[read.maker] = None
        present = {op.name for op in (*own, *copied)}
        for op in sorted({*own, *copied}, key=lambda op: op._id):
            self._node(proto.node.add(), op, draft, present)
        names: dict[Edge, str] = {}
        for read in reads:
            names[read] = self._read(proto.node.add(), read, draft)
        proto.library.CopyFrom(self._library)
        for function in proto.library.function:
            for node in function.node_def:
                node.device = _within(node.device, draft.task)
        fetches = [names[edge] if isinstance(edge, VersionRead) else edge.name for edge in draft.exports]
        fetches += [f"^{op.name}" for op in own if self._is_awaited(op, draft)]
        feeds = [name + ":0" for name in draft.imports.values()]
        return portable_plan.pack_graph_def(proto, fetches, feeds, cutter.graph, [*own, *copied])

    def _is_awaited(self, op: Operation, draft: _Draft) -> bool:
        """Whether an op is to run for itself: it is fetched, or an op of another piece waits for it."""
        return op in self._awaited or any(self._home[user] is not draft for user in self._waited_for.get(op, ()))

    def _copied_for(self, op: Operation, draft: _Draft, copied: dict[Operation, None]) -> None:
        """Note what must be part of the piece because an op of it uses it: constants, handles, plain reads."""
        cutter = self._cutter
        handles = dict(handles_taken(op, cutter.analysis))
        for position, tensor in enumerate(op._inputs):
            if tensor in draft.imports or cutter._inputs[op].get(position) in draft.imports:
                continue
            if position in handles and self._home.get(tensor.op) is not draft:
                copied[handles[position]] = None
            elif reach.is_transparent_read(tensor.op, cutter.fed) and self._home.get(tensor.op) is not draft:
                copied[tensor.op] = None
                copied[reach.maker_of(tensor.op._inputs[0])] = None
            elif self._home.get(tensor.op) is not draft:
                copied[tensor.op] = None
                if tensor.dtype.is_ref:
                    copied[reach.maker_of(tensor)] = None

    def _node(self, node: Any, op: Operation, draft: _Draft, present: set[str]) -> None:
        cutter = self._cutter
        node.CopyFrom(self._nodes[op.name])
        node.device = _within(node.device, draft.task)
        handles = dict(handles_taken(op, cutter.analysis)) if op in cutter._inputs else {}
        inputs = []
        for position, tensor in enumerate(op._inputs):
            edge = cutter._inputs.get(op, {}).get(position, tensor)
            name = draft.imports.get(edge, draft.imports.get(tensor))
            if name is not None:
                inputs.append(name)
            elif position in handles and self._home.get(tensor.op) is not draft:
                inputs.append(handles[position].name)
            elif tensor.dtype.is_ref and tensor.op.name not in present:
                inputs.append(reach.maker_of(tensor).name)
            else:
                inputs.append(_input_name(tensor))
        inputs += sorted(f"^{control.name}" for control in cutter.waits(op) if control.name in present)
        del node.input[:]
        node.input.extend(inputs)
        if "_class" in node.attr:
            groups = [g for g in node.attr["_class"].list.s if g.decode().removeprefix("loc:@") in present]
            del node.attr["_class"].list.s[:]
            if groups:
                node.attr["_class"].list.s.extend(groups)
            else:
                del node.attr["_class"]

    def _read(self, node: Any, read: VersionRead, draft: _Draft) -> str:
        """A read of a version that the piece makes, or begins with; its name as a fetch."""
        node.name = _import_name(read, set(self._nodes))
        node.op = "Identity"
        node.attr["T"].type = read.maker._outputs[0].dtype.base.enum
        node.input.append(read.maker.name)
        if read.version:
            writer = self._cutter.writes[read.maker][read.version - 1][1]
            if self._home[writer] is draft:
                node.input.append(f"^{writer.name}")
        return node.name + ":0"

    def _placeholder(self, node: Any, name: str, edge: Edge) -> None:
        tensor = edge.maker._outputs[0] if isinstance(edge, VersionRead) else edge
        node.name = name
        node.op = "Placeholder"
        node.attr["dtype"].type = tensor.dtype.base.enum
        if tensor._shape is not None:
            for size in tensor._shape:
                node.attr["shape"].shape.dim.add(size=-1 if size is None else size)
        else:
            node.attr["shape"].shape.unknown_rank = True


def _input_name(tensor: Tensor) -> str:
    """A tensor as an input of a node."""
    return tensor.op.name if tensor.value_index == 0 else tensor.name


def _within(device: str, task: str) -> str:
    """The device of a task that a name means, whichever task the name says."""
    fields = device_names.parse(device)
    if not device or fields.device_type is None:
        return ""
    index = "*" if fields.device_index is None else fields.device_index
    return device_names.merge_names(task, f"/device:{fields.device_type}:{index}")


__all__ = ["DistributedStep", "Feed", "Piece", "TaskPlacer", "Value", "partition"]
