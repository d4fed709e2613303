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

import itertools
import os
import secrets
import threading
from collections.abc import Sequence
from typing import Any

from anabranch.cluster import consistency, credentials, partition, peers
from anabranch.cluster import task as tasks
from anabranch.cluster.partition import DistributedStep, Feed, Piece, Value
from anabranch.cluster.step_run import BoundStep, StepRun
from anabranch.cluster.tasks import TaskPlacer, task_name
from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.cache import Cache, Listed
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation
from anabranch.core.protos.config_pb2 import ConfigProto
from anabranch.runtime import portable_plan, step_stats
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.registered_step import LocalStep, RegisteredStep
from anabranch.runtime.worker import OnToken
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
        if answer["config"]:
            config = _merged(config, answer["config"])
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
        self._bound: Cache[Any, BoundStep] = Cache("steps over tasks", options.plan_cache_size)
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
        """Names of the devices of the tasks that the session may use, its own first."""
        return [f"{name}/device:CPU:0" for name in sorted(self.peers, key=lambda name: name != self.task)]

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
                    lambda part, at_gate: StepRun(self, bound, values, token, run_metadata, part, at_gate).run(),
                    token,
                )
            except errors.AbortedError as problem:
                if self.closed:  # which is why a task does not know the session any more
                    raise errors.CancelledError(None, None, "Session was closed.") from problem
                _show_own_op(problem, step.graph)
                raise
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
        """Put the ops of a step into a RunMetadata, a GraphDef for each device of each task; what a part takes from
        others stands there as placeholders. A step that could not be cut leaves it empty.
        """
        bound = self._bound.get(registered.number, registered.step.graph._changes)
        placed: dict[tuple[str, str], Operation] = {}
        for piece in bound.pieces if bound is not None else ():
            for op in portable_plan.unpack(piece.data).graph.get_operations():
                fields = device_names.parse(op._device)
                device = f"{piece.task}/device:{fields.device_type or 'CPU'}:{fields.device_index or 0}"
                before = placed.setdefault((device, op.name), op)
                if before.type == "Placeholder":  # another piece of the task computes it
                    placed[device, op.name] = op
        step_stats.fill_partitions(run_metadata, [(op, device) for (device, _), op in placed.items()])

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
        """Clear containers on all tasks, the default one if none is named."""
        for peer in self.peers.values():
            peer.open()
            peer.reset([c.decode() if isinstance(c, bytes) else c for c in containers or ()])

    # ---------------------------------------------------------------------------------------------------------- binding
    def _bind(self, registered: RegisteredStep, token: CancellationToken) -> BoundStep:
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
            numbers.append(peer.register(piece.data, stays, taken, ends, sorted(direct[i]), token))
        return self._bound.add(registered.number, BoundStep(step, numbers, kept, direct, counts), changes)


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


def _merged(config: Any, of_server: str) -> Any:
    """The ConfigProto of a session on the target of a server that has one: what the server sets goes before."""
    both = ConfigProto()
    if config is not None:
        both.CopyFrom(config)
    both.MergeFrom(ConfigProto.FromString(bytes.fromhex(of_server)))
    return both


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
