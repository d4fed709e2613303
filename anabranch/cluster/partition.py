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

*The gate.* What a step promises beyond one task may need a point at which nothing of a kind has happened yet: no update
(for synchronous rounds), or no look at state at all (for transactions, so that nothing is held while the step waits for
a queue). What comes behind that point is in pieces of its own, :attr:`DistributedStep.gated`.

What ops wait for is in :mod:`anabranch.cluster.constraints`, how a piece is written in :mod:`anabranch.cluster.pieces`.
"""

from __future__ import annotations

import heapq
import itertools

from anabranch.cluster.constraints import ORDERED, Constraints, Edge, Node, ReadHandle, VersionRead, op_of, producer_of
from anabranch.cluster.divided_conditionals import divided
from anabranch.cluster.pieces import DistributedStep, Draft, Feed, Piece, PieceWriter, Value, import_name
from anabranch.cluster.tasks import TaskPlacer
from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.rewrite import reach
from anabranch.runtime import collectives, portable_plan
from anabranch.runtime.registered_step import LocalStep
from anabranch.runtime.v1 import plans as version_one


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
        while True:
            try:
                return _Cutter(step, placer, gate).cut()
            except errors.UnimplementedError as problem:
                parts = divided(step, problem.op, placer) if isinstance(problem.op, Operation) else None
                if parts is None:
                    raise
                step = parts


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
    ops = reach.needed_ops([op_of(fetch) for fetch in step.fetches], frozenset(step.feeds))
    placed = [op for op in ops if op._device or op.definition.makes is not None]
    used = {placer.task_of(op) for op in placed} or {placer.default}
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


class _Cutter(Constraints):
    """Sorts the nodes of a step into pieces."""

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
        task = {node: self.task_of(node) for node in order}
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
        drafts: dict[tuple[int, str], Draft] = {}
        home: dict[Node, Draft] = {}
        for node in order:
            key = level[node], self.task_of(node)
            draft = home[node] = drafts.setdefault(key, Draft(key[1], node in self.gated))
            draft.nodes.append(node)
        pieces = [drafts[key] for key in sorted(drafts)]
        number = {draft: i for i, draft in enumerate(pieces)}
        after: dict[Draft, set[int]] = {draft: set() for draft in pieces}
        for node in order:
            after[home[node]].update(number[home[b]] for b in self.before[node] if home[b] is not home[node])
        names = set(self.graph._by_name)
        for draft in pieces:
            self._import(draft, home, names)
        fetches = [self._source(fetch, home, number) for fetch in self.fetches]
        sources = [tuple([self._edge_source(edge, home, number) for edge in draft.imports]) for draft in pieces]
        writer = PieceWriter(self, home)
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

    def _import(self, draft: Draft, home: dict[Node, Draft], names: set[str]) -> None:
        """Name what a piece takes from the client and from other pieces."""
        for node in draft.nodes:
            if isinstance(node, VersionRead):
                continue
            for edge in self.inputs[node].values():
                if edge in draft.imports:
                    continue
                if edge not in self.fed and home[producer_of(edge)] is draft:
                    continue
                if edge not in self.fed:
                    self._refuse_immobile(edge, home[producer_of(edge)], draft)
                draft.imports[edge] = import_name(edge, names)

    def _refuse_immobile(self, edge: Edge, source: Draft, target: Draft) -> None:
        """Raise if a value cannot be handed from one piece to another."""
        kind = edge.dtype.base.name if isinstance(edge, Tensor) else ""
        if kind == "resource" or (kind == "variant" and source.task != target.task):
            assert isinstance(edge, Tensor)
            raise errors.UnimplementedError(
                None,
                edge.op,
                errors.message(
                    f"{edge.name!r}, a {kind}, that goes from {source.task} to {target.task} or is "
                    "used on both sides of an exchange with another task",
                    "values of a dtype that travels: numbers, bools and strings",
                    "one tf.device for the ops that make and use it",
                ),
            )

    def _edge_source(self, edge: Edge, home: dict[Node, Draft], number: dict[Draft, int]) -> Feed | Value:
        if edge in self.fed:
            return Feed(self.feeds.index(edge))
        producer = producer_of(edge)
        if producer not in home:
            assert isinstance(edge, Tensor)
            raise errors.UnimplementedError(
                None,
                edge.op,
                errors.message(
                    f"a fetch of {edge.name!r}, the handle of a resource of {self.task_of(edge.op)}",
                    "a value, or an operation",
                    "fetch what the resource holds",
                ),
            )
        draft = home[producer]
        return Value(number[draft], draft.export(edge.read if isinstance(edge, ReadHandle) else edge))

    def _source(
        self, fetch: Tensor | Operation, home: dict[Node, Draft], number: dict[Draft, int]
    ) -> Feed | Value | None:
        if not isinstance(fetch, Tensor):
            return None
        return self._edge_source(self.final.get(fetch, fetch), home, number)


__all__ = ["DistributedStep", "Feed", "Piece", "TaskPlacer", "Value", "partition"]
