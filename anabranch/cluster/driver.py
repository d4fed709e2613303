"""Steps over the tasks of a cluster: what a session on a target has instead of a worker of its own.

Policy. The client drives: it cuts each step into pieces once (:mod:`anabranch.cluster.partition`), registers them with
the tasks, and runs them by number. Values go with the calls: a piece gets what others have computed with the request,
and gives its results with the answer; what the next piece of the same task needs stays there, and so does what is large
until another task fetches it (:mod:`anabranch.cluster.deliveries`). A piece starts as soon as what it needs is there.
Pieces of tasks in this process run in the thread that called ``Session.run``.

The first failure ends the step: what still runs is cancelled, pieces that have not begun do not begin. What earlier
pieces have committed stands, as with the segments of a step in one process, unless the session's mode promises more
(:mod:`anabranch.cluster.consistency`). The error is that of the op, and shows the program's line.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.cluster import consistency, credentials, partition, peers, wire
from anabranch.cluster import task as tasks
from anabranch.cluster.partition import DistributedStep, Feed, Piece, Value
from anabranch.cluster.tasks import TaskPlacer, task_name
from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.cache import Cache, Listed
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.graph import Graph
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.worker import LocalStep, OnToken, RegisteredStep
from anabranch.train.cluster_spec import ClusterSpec

SCHEME = "grpc://"


def address_of(target: str) -> str:
    """The address that a session's target names.

    Raises:
        NotFoundError: it is of another kind.
    """
    text = target.decode() if isinstance(target, bytes) else target
    if not text.startswith(SCHEME):
        raise errors.NotFoundError(
            None,
            None,
            f"No session factory registered for the given session options: {{target: {text!r}}}\n"
            + errors.message(
                f"the session target {text!r}", f"'' (in-process) or '{SCHEME}host:port'", "server.target"
            ),
        )
    address = text.removeprefix(SCHEME)
    credentials.split_address(address)
    return address


class _Bound:
    """A step as this session's tasks know it."""

    def __init__(
        self,
        step: DistributedStep,
        numbers: list[int],
        kept: list[frozenset[int]],
        direct: list[frozenset[int]],
        counts: bool = False,
    ) -> None:
        self.step = step
        self.counts = counts
        """Whether it is a training step, for modes that count these."""
        self.pieces = step.pieces
        self.fetches = step.fetches
        self.numbers = numbers
        self.kept = kept
        """Per piece, the outputs that stay at its task."""
        self.waits = [
            {*piece.after, *(s.piece for s in piece.sources if isinstance(s, Value))} for piece in step.pieces
        ]
        self.followers: list[list[int]] = [[] for _ in step.pieces]
        for i, waits in enumerate(self.waits):
            for other in waits:
                self.followers[other].append(i)
        self.keepers = {piece.task for piece, *stay in zip(step.pieces, kept, direct, strict=True) if any(stay)}
        """Tasks at which something may stay between pieces."""


class ClusterWorker:
    """Run the steps of a session on the tasks of a cluster; has a worker's interface.

    Args:
        target: ``grpc://host:port``, the address of one of the tasks.
        options: how steps run.
        config: a ConfigProto or None: ``device_filters``, ``cluster_def``, ``isolate_session_state`` hold here.

    Raises:
        OpError: what listens there is not a task of this cluster.
    """

    def __init__(self, target: str, options: SessionOptions, config: Any) -> None:
        self.options = options
        self.target = target
        self.task = ""
        self.closed = False
        self.running: set[CancellationToken] = set()
        address = address_of(target)
        brought = ClusterSpec(config.cluster_def) if config is not None and config.cluster_def.job else None
        here = tasks.find_here(address)
        timeout = getattr(config, "operation_timeout_in_ms", 0)
        token = CancellationToken(timeout / 1000 if timeout else None)
        answer = here.hello({"probe": True}) if here else peers.wait_for_task(address, "a task", token)
        tasks.check_versions(tasks.versions(), answer["versions"], f"{answer['task']} at {address}")
        if brought is None:
            cluster = ClusterSpec({job: {int(i): a for i, a in t.items()} for job, t in answer["cluster"].items()})
            default = answer["task"]
        else:
            cluster = brought
            default = _task_at(brought, address)
        addresses = {
            task_name(job, i): cluster.task_address(job, i) for job in cluster.jobs for i in cluster.task_indices(job)
        }
        filters = list(config.device_filters) if config is not None else []
        names = [name for name in addresses if name == default or _passes(name, filters)]
        self.placer = TaskPlacer(names, default)
        self.task = default
        self.session = peers.SessionFacts(
            secrets.token_hex(8),
            options,
            config,
            brought is not None or bool(config is not None and config.isolate_session_state),
            cluster if brought is None else None,
            brought is not None,
        )
        self.peers: dict[str, peers.Peer] = {}
        for name in names:
            task = tasks.find_here(addresses[name])
            self.peers[name] = (
                peers.PeerElsewhere(name, addresses[name], self.session)
                if task is None
                else peers.PeerHere(name, addresses[name], self.session, task)
            )
        self.peers[default].open(token)
        self._mode = consistency.mode(options, self.session.number, default, self.peers, cluster)
        self._bound: Cache[Any, _Bound] = Cache("steps over tasks", options.plan_cache_size)
        self._registered: Cache[Any, RegisteredStep] = Cache("registered steps", options.plan_cache_size)
        self._numbers = itertools.count(1)
        self.steps = itertools.count(1)
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------------------------ what a session asks
    @property
    def manager(self) -> Any:
        """Not there: state is with the tasks."""
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"asynchronous work on a session of {self.target}",
                "a session of one process",
                "session.run, and Saver without asynchronous writing",
            ),
        )

    @property
    def caches(self) -> list[Listed]:
        """The caches that it owns."""
        return [self._bound, self._registered]

    def devices_of_tasks(self) -> list[str]:
        """Names of the devices of the tasks that the session may use."""
        return [f"{name}/device:CPU:0" for name in self.peers]

    @property
    def leaving(self) -> list[str]:
        """The tasks that have said that they were asked to end."""
        return [name for name, peer in self.peers.items() if peer.leaving]

    def check_folder(self, folder: str) -> None:
        """Ask all tasks that the session has met whether they see a folder of this machine.

        Raises:
            FailedPreconditionError: one does not.
        """
        if "://" in folder:  # not of a machine
            return
        folder = os.path.abspath(folder)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f".seen-by-all-{secrets.token_hex(8)}")
        with open(path, "xb"):
            pass
        try:
            blind = [name for name, peer in self.peers.items() if peer.is_open and not peer.sees(path)]
        finally:
            os.unlink(path)
        if blind:
            raise errors.FailedPreconditionError(
                None,
                None,
                errors.message(
                    f"the folder {folder!r} for checkpoints, which {', '.join(blind)} cannot see",
                    "one folder at the same path on the machines of all tasks",
                    "checkpoint_dir=PATH on a shared file system",
                ),
            )

    def register(self, step: LocalStep) -> RegisteredStep:
        """Make a step known; the one that is known if it is."""
        return self._registered.get_or_make(step, lambda: RegisteredStep(next(self._numbers), step))

    def repeat(
        self, registered: RegisteredStep, values: Sequence[Any], timeout: float | None, on_token: OnToken | None = None
    ) -> list[Any] | None:
        """None: there is no shorter way than :meth:`run`."""
        return None

    def start(self, *args: Any) -> None:
        """None: no step is left in flight."""
        return None

    def add_pipeline(self, line: Any) -> None:
        """Nothing to do: no step is left in flight."""

    def run(
        self,
        registered: RegisteredStep,
        values: Sequence[Any],
        timeout: float | None = None,
        run_metadata: Any = None,
        on_token: OnToken | None = None,
    ) -> list[Any]:
        """Run a step and return a value per fetch, None for operations.

        Raises:
            OpError: the step failed somewhere. RuntimeError: the session is closed.
        """
        token = CancellationToken(timeout)
        if on_token is not None:
            on_token(token)
        self.running.add(token)
        try:
            if self.closed:
                raise RuntimeError("Attempted to use a closed Session.")
            step = registered.step
            try:
                bound = self._bind(registered, token)
                return self._mode.run(
                    bound,
                    lambda part, at_gate: _StepRun(self, bound, values, token, run_metadata, part, at_gate).run(),
                    token,
                )
            except errors.OpError as problem:
                _show_own_op(problem, step.graph)
                raise
        finally:
            self.running.discard(token)

    def watch(self, *args: Any) -> list[Any]:
        """Not there: nobody sees the ops of other tasks."""
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"debug_options, or a debugger, for a session of {self.target}",
                "a session of one process",
                "tf.Session(), or tf.Print in the graph",
            ),
        )

    def describe_partitions(self, registered: RegisteredStep, values: Sequence[Any], run_metadata: Any) -> None:
        """Leave a RunMetadata empty, as :meth:`run` does."""

    def explain(self, registered: RegisteredStep, values: Sequence[Any]) -> str:
        """Say which pieces a step is, and what goes from one to another."""
        bound = self._bind(registered, CancellationToken())
        lines = [f"{len(bound.pieces)} pieces on {len({piece.task for piece in bound.pieces})} tasks"]
        for i, piece in enumerate(bound.pieces):
            sources = [
                f"feed {source.place}" if isinstance(source, Feed) else f"value {source.place} of piece {source.piece}"
                for source in piece.sources
            ]
            lines.append(
                f"piece {i} on {piece.task}: {piece.ops} ops, takes {', '.join(sources) or 'nothing'}, "
                f"gives {piece.outputs} values"
                + (f", {len(bound.kept[i])} of them stay there" if bound.kept[i] else "")
                + (f", after pieces {sorted(piece.after)}" if piece.after else "")
            )
        return "\n".join(lines)

    def close(self) -> None:
        """Cancel running steps, and close the session at all tasks. State that is shared stays."""
        if self.closed:
            return
        self.closed = True
        for token in list(self.running):
            token.cancel(errors.CancelledError(None, None, "Session was closed."))
        for peer in self.peers.values():
            peer.close()
        self._bound.close()
        self._registered.close()

    def reset(self, containers: Any) -> None:
        """Clear containers on all tasks; all containers if none is named."""
        for peer in self.peers.values():
            peer.open()
            peer.reset([c.decode() if isinstance(c, bytes) else c for c in containers or ()])

    # ---------------------------------------------------------------------------------------------------------- binding
    def _bind(self, registered: RegisteredStep, token: CancellationToken) -> _Bound:
        """A step cut into pieces that their tasks know."""
        changes = registered.step.graph._changes
        bound = self._bound.get(registered.number, changes)
        if bound is not None:
            return bound
        with registered.step.graph._lock:
            changes = registered.step.graph._stamp()
            step = partition.partition(registered.step, self.placer, self._mode.gate)
            counts = self._mode.counts_steps and consistency.counts(step, registered.step.graph)
            if self._mode.gate == "writes" and not counts:
                step = partition.partition(registered.step, self.placer)
        here = {name for name, peer in self.peers.items() if peer.is_here}
        kept, direct = _kept(step, here)
        last = _last_takers(step, kept)
        numbers = []
        for i, piece in enumerate(step.pieces):
            peer = self.peers[piece.task]
            peer.open(token)
            stays = {output: f"{i}.{output}" for output in kept[i]}
            taken = {
                at: f"{source.piece}.{source.place}"
                for at, source in enumerate(piece.sources)
                if isinstance(source, Value) and source.place in kept[source.piece] and _same_task(step, source, piece)
            }
            ends = [key for key in taken.values() if last[key] == i]
            numbers.append(peer.register(piece.data, stays, taken, ends, sorted(direct[i])))
        return self._bound.add(registered.number, _Bound(step, numbers, kept, direct, counts), changes)


def _same_task(step: DistributedStep, source: Value, piece: Piece) -> bool:
    return step.pieces[source.piece].task == piece.task


def _last_takers(step: DistributedStep, kept: list[frozenset[int]]) -> dict[str, int]:
    """By the key of each value that stays at its task, the last piece that takes it."""
    last = {}
    for i, piece in enumerate(step.pieces):  # those of one task run in this order
        for source in piece.sources:
            if isinstance(source, Value) and source.place in kept[source.piece]:
                last[f"{source.piece}.{source.place}"] = i
    return last


def _kept(step: DistributedStep, here: set[str]) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """Per piece of another process, the outputs that only later pieces of its task take, and those that only tasks of
    other processes take.
    """
    users: dict[Value, set[str]] = {}
    for piece in step.pieces:
        for source in piece.sources:
            if isinstance(source, Value):
                users.setdefault(source, set()).add(piece.task)
    for fetch in step.fetches:
        if isinstance(fetch, Value):
            users.setdefault(fetch, set()).add("")
    kept, direct = [], []
    for i, piece in enumerate(step.pieces):
        taken_by = [users.get(Value(i, output), set()) for output in range(piece.outputs)]
        away = piece.task not in here
        kept.append(frozenset(output for output, tasks in enumerate(taken_by) if away and tasks == {piece.task}))
        direct.append(
            frozenset(
                output
                for output, tasks in enumerate(taken_by)
                if away and tasks - {piece.task} and not tasks & {"", *here}
            )
        )
    return kept, direct


def _task_at(cluster: ClusterSpec, address: str) -> str:
    """The task of a cluster at an address, its first if none is there."""
    every = [(job, i) for job in cluster.jobs for i in cluster.task_indices(job)]
    for job, i in every:
        if cluster.task_address(job, i) == address:
            return task_name(job, i)
    return task_name(*every[0])


def _passes(name: str, filters: Sequence[str]) -> bool:
    """Whether one of the device filters lets a task through."""
    fields = device_names.parse(name)[:3]
    return not filters or any(
        all(part in (None, own) for part, own in zip(device_names.parse(text)[:3], fields, strict=True))
        for text in filters
    )


def _show_own_op(problem: errors.OpError, graph: Graph) -> None:
    """Let an error that came from a task show the operation of this process."""
    if problem._op is not None and getattr(problem._op, "graph", None) is not graph:
        own = graph._by_name.get(problem._op.name)
        if own is not None and own.type == problem._op.type:
            problem._op = own


class _StepRun:
    """One run of a step."""

    def __init__(
        self,
        worker: ClusterWorker,
        bound: _Bound,
        values: Sequence[Any],
        token: CancellationToken,
        run_metadata: Any = None,
        part: Sequence[Any] | None = None,
        at_gate: Callable[[], None] | None = None,
    ) -> None:
        self._part, self._at_gate = part, at_gate
        self._parked: list[int] = []
        """Pieces that could begin if they were not behind the gate."""
        self._metadata = run_metadata
        self._worker, self._bound, self._values, self._token = worker, bound, values, token
        self._number = next(worker.steps)
        self._results: list[Any] = [None] * len(bound.pieces)
        self._waiting = [len(waits) for waits in bound.waits]
        self._ready = collections.deque(i for i, count in enumerate(self._waiting) if not count)
        self._ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._cancels: dict[int, Callable[[], None]] = {}
        self._failure: BaseException | None = None
        self._holders: set[str] = set()
        """Tasks that hold values until others have fetched them."""

    def run(self) -> list[Any]:
        try:
            with self._token.on_cancel(self._cancel_calls):
                self._run_pieces()
        except consistency.Late:
            self._forget(self._bound.keepers)
            raise
        except BaseException as problem:
            self._failure = self._failure or problem
            self._token.cancel(errors.CancelledError(None, None, "another piece of the step failed"))
            self._cancel_calls()
            self._forget(self._bound.keepers)
            if isinstance(problem, errors.OpError) and isinstance(self._failure, errors.OpError):
                raise self._failure from None
            raise
        self._forget(self._holders)
        return [self._fetched(source) for source in self._bound.fetches]

    def _run_pieces(self) -> None:
        pieces, peers_of = self._bound.pieces, self._worker.peers
        local: collections.deque[int] = collections.deque()
        while self._ready or local or self._cancels or self._parked:
            if not (self._ready or local or self._cancels):
                self._pass_gate()
            while self._ready:
                i = self._ready.popleft()
                if self._at_gate is not None and i in self._bound.step.gated:
                    self._parked.append(i)
                elif peers_of[pieces[i].task].is_here:
                    local.append(i)
                elif self._metadata is not None:  # what is looked at runs piece by piece
                    self._token.raise_if_cancelled()
                    told = type(self._metadata)()
                    self._end(i, self._remote(i).run_traced(self._header(i), self._feeds(i), told))
                    self._note_stats(i, told)
                elif self._ready or local or self._cancels or pieces[i].may_block:
                    self._start(i)
                else:
                    self._token.raise_if_cancelled()
                    self._end(i, self._remote(i).run(self._header(i), self._feeds(i)))
            while not self._ended.empty():
                self._take_ended()
            if self._ready:
                continue
            self._token.raise_if_cancelled()
            if local:
                i = local.popleft()
                self._end(i, self._run_here(i))
            elif self._cancels:
                self._take_ended()

    def _pass_gate(self) -> None:
        """Let pieces behind the gate begin: nothing runs that is before it."""
        self._token.raise_if_cancelled()
        assert self._at_gate is not None
        self._at_gate()
        self._at_gate = None
        self._ready.extend(self._parked)
        self._parked.clear()

    def _remote(self, i: int) -> peers.PeerElsewhere:
        peer = self._worker.peers[self._bound.pieces[i].task]
        assert isinstance(peer, peers.PeerElsewhere)
        return peer

    def _remaining(self) -> float | None:
        deadline = self._token.deadline
        return None if deadline is None else max(0.001, deadline - time.monotonic())

    def _header(self, i: int) -> list[Any]:
        return [self._worker.session.number, self._bound.numbers[i], self._number, self._remaining(), self._part_of(i)]

    def _part_of(self, i: int) -> Sequence[Any] | None:
        """What a piece is part of: transactions hold nothing for those without state."""
        part = self._part
        return None if part is None or (len(part) == 1 and i not in self._bound.step.with_state) else part

    def _feeds(self, i: int) -> list[Any]:
        bound = self._bound
        piece = bound.pieces[i]
        feeds = []
        for source in piece.sources:
            if isinstance(source, Feed):
                feeds.append(self._values[source.place])
            elif source.place not in bound.kept[source.piece]:
                value = self._results[source.piece][source.place]
                if isinstance(value, wire.Held):
                    holder = bound.pieces[source.piece].task
                    address = "" if holder == piece.task else self._worker.peers[holder].address
                    value = value._replace(address=address)
                feeds.append(value)
        return feeds

    def _start(self, i: int) -> None:
        self._cancels[i] = lambda: None  # it counts as begun before it can end
        self._cancels[i] = self._remote(i).start(
            self._header(i), self._feeds(i), lambda answer: self._note_ended(i, answer)
        )

    def _note_ended(self, i: int, answer: Any) -> None:
        if isinstance(answer, errors.OpError) and self._failure is None and not self._token.cancelled:
            self._failure = answer
            self._token.cancel(errors.CancelledError(None, None, "another piece of the step failed"))
        self._ended.put((i, answer))

    def _take_ended(self) -> None:
        """Wait for a call to another process to end."""
        i, answer = self._ended.get()
        self._cancels.pop(i, None)
        if isinstance(answer, errors.OpError):
            if self._failure is not None:
                raise self._failure
            raise self._token.error() or answer
        self._end(i, answer[1])

    def _run_here(self, i: int) -> list[Any]:
        peer = self._worker.peers[self._bound.pieces[i].task]
        assert isinstance(peer, peers.PeerHere)
        number, step, timeout = self._bound.numbers[i], self._number, self._remaining()
        token = self._token
        with contextlib.ExitStack() as linked:

            def on_token(inner: CancellationToken) -> None:
                def cancel() -> None:
                    inner.cancel(token.error())

                linked.enter_context(token.on_cancel(cancel))
                if token.cancelled:
                    cancel()

            session = self._worker.session.number
            try:
                told = None if self._metadata is None else type(self._metadata)()
                feeds, part = self._feeds(i), self._part_of(i)
                results = peer.task.run(session, number, step, feeds, timeout, on_token, told, part)
                self._note_stats(i, told)
                return results
            except errors.OpError:
                if self._failure is not None:
                    raise self._failure from None
                raise

    def _note_stats(self, i: int, told: Any) -> None:
        """Add what a task says of a piece to the step's RunMetadata, under the names of the task's devices."""
        if told is None:
            return
        piece = self._bound.pieces[i]
        devices = {entry.device: entry for entry in self._metadata.step_stats.dev_stats}
        for entry in told.step_stats.dev_stats:
            name = f"{piece.task}/device:{entry.device.partition('/device:')[2]}"
            if name not in devices:
                devices[name] = self._metadata.step_stats.dev_stats.add(device=name)
            devices[name].node_stats.extend(entry.node_stats)
            for constant in piece.constants:  # they were there before anything ran
                devices[name].node_stats.add(node_name=constant, timeline_label=constant)

    def _end(self, i: int, results: list[Any]) -> None:
        self._results[i] = results
        if any(isinstance(value, wire.Held) for value in results):
            self._holders.add(self._bound.pieces[i].task)
        for follower in self._bound.followers[i]:
            self._waiting[follower] -= 1
            if not self._waiting[follower]:
                self._ready.append(follower)

    def _cancel_calls(self) -> None:
        for cancel in list(self._cancels.values()):
            cancel()

    def _forget(self, tasks: Iterable[str]) -> None:
        """Have tasks drop what the step has left there."""
        for name in tasks:
            peer = self._worker.peers[name]
            if isinstance(peer, peers.PeerElsewhere):
                peer.forget(self._number)

    def _fetched(self, source: Feed | Value | None) -> Any:
        if source is None:
            return None
        value = self._values[source.place] if isinstance(source, Feed) else self._results[source.piece][source.place]
        if isinstance(value, np.ndarray):
            if value.ndim == 0:
                return value[()]
            if isinstance(source, Feed) or not value.flags.writeable:
                return np.array(value)
        return value
