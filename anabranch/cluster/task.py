"""A task: the state that it holds, and the pieces of steps that it runs for sessions of this process and of others.

Policy. A task lives in the process that started its ``tf.train.Server``: that process holds the variables and queues,
JAX and its devices, and runs the Python functions of the steps that are placed on it. Its resources outlive sessions:
all sessions share them, but for those that ask for a state of their own (``isolate_session_state``).

A session registers pieces and runs them by number. Each has a worker of its own here (plans, random streams by op), on
the shared resources. A value that another piece on this task needs stays here between the two, under the number of the
step. When a caller goes away, what it has running is cancelled. A session that nobody has used for `FORGOTTEN` seconds,
because its client died, is closed when the next one opens.

What a step promises beyond one task (:mod:`anabranch.cluster.consistency`) has its other half here: transactions over
several tasks, and, on one task of the cluster, the count of training steps. A session that needs either holds on to the
task with a call that lasts as long as the session; when that breaks, the client is gone, and so is its session.

A task that was started again has lost its state, and knows no sessions: calls for one get AbortedError, and clients
make new ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.cluster import deliveries, meetings, shared_memory, transactions, transport, wire
from anabranch.cluster.company import Company
from anabranch.cluster.deliveries import Deliveries
from anabranch.cluster.rounds import Rounds
from anabranch.cluster.shared_memory import Exchange
from anabranch.cluster.tasks import task_name
from anabranch.cluster.transactions import Decider, Transactions
from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.protos.config_pb2 import ConfigProto, RunMetadata
from anabranch.core.values import spare_arrays
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.registered_step import RegisteredStep
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import DEFAULT_CONTAINER
from anabranch.runtime.worker import OnToken, Worker
from anabranch.train.cluster_spec import ClusterSpec
from anabranch.xla import engine

FORGOTTEN = 3600.0


def versions() -> dict[str, str]:
    """What must be the same in all tasks."""
    return {
        "anabranch": sys.modules["anabranch"].__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "jaxlib": engine.jaxlib_version(),
    }


def check_versions(own: dict[str, str], other: dict[str, str], who: str) -> None:
    """Raise if another task runs other versions.

    Raises:
        FailedPreconditionError: it does.
    """
    different = [name for name in own if own[name] != other.get(name)]
    if different:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"{who} with {', '.join(f'{name} {other.get(name)}' for name in different)}",
                f"{', '.join(f'{name} {own[name]}' for name in different)}, as this process has",
                "the same versions of Python, jax and anabranch in all tasks",
            ),
        )


def _on_host(value: Any) -> Any:
    """A result as an array of the host: of a program on the CPU the memory that it is in."""
    return np.asarray(value) if type(value) is not np.ndarray and hasattr(value, "block_until_ready") else value


@dataclasses.dataclass
class _Piece:
    step: RegisteredStep
    kept: dict[int, str]
    """Outputs that stay here for later pieces of the step, and their keys."""
    taken: dict[int, str]
    """Feeds that earlier pieces have left here."""
    last: tuple[str, ...] = ()
    """Of these keys, those that no later piece takes."""
    direct: tuple[int, ...] = ()
    """Outputs that only tasks of other processes take: large ones stay here until these fetch them."""
    touched: transactions.Touched | None = None
    """What it reads and writes, once a transaction has asked for it."""


class _SessionHere:
    """What a session has on this task."""

    def __init__(self, worker: Worker, manager: ResourceManager | None) -> None:
        self.worker = worker
        self.own_manager = manager
        self.pieces: dict[int, _Piece] = {}
        self.kept: dict[int, dict[str, Any]] = {}
        self.used = time.monotonic()
        self.steps = 0
        self.exchange: Exchange | None = None
        """What large values go by, if the client is on this machine."""


class Task:
    """One task of a cluster.

    Args:
        cluster: the jobs.
        job: the job of the task.
        index: its number there.
    """

    def __init__(self, cluster: ClusterSpec, job: str, index: int) -> None:
        self.cluster = cluster
        self.job, self.index = job, index
        self.name = task_name(job, index)
        self.manager = ResourceManager()
        self.default_config: Any = None
        """A ConfigProto, or None: what it sets holds for all sessions on the task's target."""
        self.incarnation = int.from_bytes(os.urandom(7), "little")
        self.started = time.time()
        self._sessions: dict[str, _SessionHere] = {}
        self._lock = threading.Lock()
        self.transactions = Transactions(self.name, _ask_outcome)
        self.rounds = Rounds()
        self.deliveries = Deliveries()
        self.meetings = meetings.Meetings()
        self.company = Company(self.name, self.incarnation, lambda: self.cluster, self.meetings, self.deliveries)
        self.manager.company = self.company
        self._newest_round: list[int] = [0, -1]
        """Of the rounds that steps here have been part of: the process that counts them, and the number."""
        self._holds: dict[str, threading.Event] = {}
        self.leaving = False
        """Whether it has been asked to end, and waits until its sessions are closed."""
        self.local_name = ""
        """Where processes of the same machine and user call it; '' if they call it like others."""

    # -------------------------------------------------------------------------------------------------------- sessions
    def open(
        self,
        session: str,
        name: str,
        options: SessionOptions,
        config: Any,
        isolated: bool,
        client: shared_memory.Shown | None = None,
    ) -> bool:
        """Make a session known; whether its client shares memory with the task.

        Args:
            session: its number.
            name: what the session calls this task; another than the task's own name if the session brings a cluster.
            options: how its steps run.
            config: its ConfigProto, or None.
            isolated: whether it has resources of its own.
            client: what the client shows to processes of its machine, or None.
        """
        manager = ResourceManager() if isolated else self.manager
        manager.company = self.company
        worker = Worker(options, config, name, manager)
        forgotten = []
        with self._lock:
            now = time.monotonic()
            for key, old in list(self._sessions.items()):
                if now - old.used > FORGOTTEN and not old.worker.running:
                    forgotten.append(self._sessions.pop(key))
            here = self._sessions[session] = _SessionHere(worker, manager if isolated else None)
            if client is not None and client.is_seen():
                here.exchange = Exchange(client.pid)
        for old in forgotten:
            self._end(old)
        return here.exchange is not None

    def close(self, session: str) -> None:
        """Forget a session; what it has running is cancelled."""
        self._forget_session(session, True)

    def _forget_session(self, session: str, closed: bool) -> None:
        with self._lock:
            here = self._sessions.pop(session, None)
            hold = self._holds.pop(session, None)
        if here is not None:
            self._end(here)
            self.transactions.client_gone(session)
            self.rounds.leave(session, closed)
        if hold is not None:
            hold.set()

    def leave(self, patience: float) -> None:
        """Take no more sessions, tell those that there are, and wait until they are closed or patience is at an end."""
        self.leaving = True
        end = time.monotonic() + patience
        while self._sessions and time.monotonic() < end:
            time.sleep(0.05)

    def hold(self, session: str, caller: transport.Caller) -> None:
        """Return when a session is closed. If its caller goes away before, the session is gone."""
        with self._lock:
            self._session(session)
            ended = self._holds.setdefault(session, threading.Event())
        caller.when_gone(lambda: self._forget_session(session, False))
        ended.wait()

    @staticmethod
    def _end(here: _SessionHere) -> None:
        here.worker.close()
        here.pieces.clear()
        here.kept.clear()
        if here.own_manager is not None:
            here.own_manager.clear()
        if here.exchange is not None:
            here.exchange.close()

    def _session(self, session: str) -> _SessionHere:
        here = self._sessions.get(session)
        if here is None:
            raise errors.AbortedError(
                None,
                None,
                f"Session handle is not found: {session}. Possibly this worker ({self.name}) just restarted.\n"
                + errors.message(
                    f"a step of a session that {self.name} does not know",
                    "a session that was opened since the task was started",
                    "a new tf.Session; tf.train.MonitoredTrainingSession makes one and restores",
                ),
            )
        here.used = time.monotonic()
        return here

    def reset(self, containers: Sequence[str]) -> None:
        """Clear containers of the shared resources, the default one if none is named, and close all sessions."""
        with self._lock:
            ended, self._sessions = dict(self._sessions), {}
            holds, self._holds = list(self._holds.values()), {}
        for session, here in ended.items():
            self._end(here)
            self.transactions.client_gone(session)
            self.rounds.leave(session, True)
        for hold in holds:
            hold.set()
        self.manager.clear(containers or [DEFAULT_CONTAINER])

    # ---------------------------------------------------------------------------------------------------------- pieces
    def register(
        self,
        session: str,
        data: bytes,
        kept: dict[int, str],
        taken: dict[int, str],
        last: Sequence[str] = (),
        direct: Sequence[int] = (),
    ) -> int:
        """Make a piece known; its number.

        Args:
            session: whose.
            data: the step that the piece is.
            kept: outputs that stay here for later pieces of the step, and their keys.
            taken: feeds that earlier pieces have left here, and their keys.
            last: of these keys, those that no later piece takes.
            direct: outputs that stay here if they are large, until other tasks fetch them.
        """
        here = self._session(session)
        step = here.worker.register(data)
        here.pieces[step.number] = _Piece(step, kept, taken, tuple(last), tuple(direct))
        return step.number

    def run(
        self,
        session: str,
        number: int,
        step: int,
        values: Sequence[Any],
        timeout: float | None,
        on_token: OnToken | None = None,
        metadata: Any = None,
        part: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Run a piece.

        Args:
            session: whose.
            number: the number of the piece.
            step: the number of the step that it is part of.
            values: its feeds, but for those that earlier pieces have left here.
            timeout: seconds after which it is cancelled.
            on_token: told the token of the piece.
            metadata: a RunMetadata that is told what ran when, or None.
            part: the number of the transaction that the piece is part of; or the process that counts rounds, and the
                number of the round; or None.

        Returns:
            A value per fetch; None for those that stay here.
        """
        if part is None or len(part) == 2:
            if part is not None:
                self._enter_round(*part)
            return self._run(session, number, step, values, timeout, on_token, metadata)
        holder = self.transactions.enter(part[0])

        def on_held_token(token: CancellationToken) -> None:
            token.holder = holder
            if on_token is not None:
                on_token(token)

        try:
            return self._run(session, number, step, values, timeout, on_held_token, metadata)
        finally:
            self.transactions.leave(part[0])

    def _enter_round(self, counter: int, number: int) -> None:
        """Refuse what comes after its round: its client was thought to be gone."""
        with self._lock:
            if counter == self._newest_round[0] and number < self._newest_round[1]:
                raise errors.AbortedError(
                    None,
                    None,
                    errors.message(
                        f"updates of round {number} on {self.name}, where round {self._newest_round[1]} has begun",
                        "a client that was there all the time",
                        "a new tf.Session; tf.train.MonitoredTrainingSession makes one and restores",
                    ),
                )
            self._newest_round = [counter, number]

    def begin(
        self,
        session: str,
        number: str,
        decider: Decider,
        pieces: Sequence[int],
        settled: Sequence[str],
        token: CancellationToken,
    ) -> None:
        """Begin a transaction: hold what pieces of a session touch."""
        here = self._session(session)
        used = []
        for piece in [here.pieces[i] for i in pieces]:
            if piece.touched is None:
                piece.touched = transactions.touched(piece.step, here.worker)
            used.append(piece.touched)
        self.transactions.begin(number, session, decider, here.worker, used, settled, token)

    def _run(
        self,
        session: str,
        number: int,
        step: int,
        values: Sequence[Any],
        timeout: float | None,
        on_token: OnToken | None,
        metadata: Any,
    ) -> list[Any]:
        here = self._session(session)
        piece = here.pieces[number]
        if piece.taken:
            store = here.kept.get(step, {})
            given = iter(values)
            count = len(values) + len(piece.taken)
            values = [store[piece.taken[i]] if i in piece.taken else next(given) for i in range(count)]
            for key in piece.last:
                store.pop(key, None)
            if not store:
                here.kept.pop(step, None)
        values = [np.array(value, object) if type(value) is bytes else value for value in values]
        registered, worker = piece.step, here.worker
        results: list[Any] | None = None
        here.steps += 1
        try:
            if metadata is None and registered.fits(registered.step.feeds, values):
                results = worker.repeat(registered, values, timeout, on_token, shared=True)
                if results is not None:  # nobody writes to what a piece gives: it need not be copied
                    results = [_on_host(value) for value in results]
            if results is None:
                results = worker.run(registered, values, timeout, metadata, on_token)
        except RuntimeError as problem:
            if worker.closed and not isinstance(problem, errors.OpError):
                raise errors.CancelledError(None, None, "Session was closed.") from None
            raise
        if piece.kept:
            store = here.kept.setdefault(step, {})
            for i, key in piece.kept.items():
                store[key], results[i] = results[i], None
        for i in piece.direct:
            value = results[i]
            if isinstance(value, np.ndarray) and value.nbytes >= deliveries.LEAST and not value.dtype.hasobject:
                key = f"{number}:{i}"
                here.kept.setdefault(step, {})[key] = value
                results[i] = wire.Held(value.dtype, value.shape, "", key)
        return results

    def held(self, session: str, step: int, keys: Sequence[str]) -> list[Any]:
        """Values that a step has left here.

        Raises:
            AbortedError: they are not here: the step has ended.
        """
        store = self._session(session).kept.get(step, {})
        missing = [key for key in keys if key not in store]
        if missing:
            raise errors.AbortedError(
                None,
                None,
                errors.message(
                    f"values {missing} of step {step}, which {self.name} does not hold",
                    "a step that still runs",
                    "run it again",
                ),
            )
        return [store[key] for key in keys]

    def fetched(self, session: str, step: int, values: list[Any], caller: transport.Caller) -> list[Any]:
        """The values of a request, with those that were left at tasks."""
        by_address: dict[str, list[int]] = {}
        for i, value in enumerate(values):
            if isinstance(value, wire.Held):
                by_address.setdefault(value.address, []).append(i)
        for address, places in by_address.items():
            keys = [values[i].key for i in places]
            if address:
                arrays = self.deliveries.fetched(address, session, step, keys, caller)
            else:
                arrays = self.held(session, step, keys)
            for i, array in zip(places, arrays, strict=True):
                values[i] = array
        return values

    def forget(self, session: str, step: int) -> None:
        """Drop what the pieces of a step have left here."""
        here = self._sessions.get(session)
        if here is not None:
            here.kept.pop(step, None)

    @staticmethod
    def sees(path: str) -> bool:
        """Whether the task's machine has a file."""
        return os.path.exists(path)

    def status(self) -> dict[str, Any]:
        """What the task does, for people."""
        with self._lock:
            sessions = list(self._sessions.values())
        slots = self.manager.slots()
        return {
            "task": self.name,
            "pid": os.getpid(),
            "since": self.started,
            "sessions": len(sessions),
            "steps": sum(here.steps for here in sessions),
            "running": sum(len(here.worker.running) for here in sessions),
            "transactions": self.transactions.count,
            "queues": self.manager.queue_sizes(),
            "variables": len(slots),
            "bytes": sum(getattr(slot.version.value, "nbytes", 0) for slot in slots if slot.version is not None),
        }

    # -------------------------------------------------------------------------------------------------------- answers
    def hello(self, header: dict[str, Any]) -> dict[str, Any]:
        """Who the task is; refuses callers of other versions."""
        if not header.get("probe"):
            check_versions(versions(), header["versions"], f"a session of process {header.get('pid')}")
            if self.leaving:
                raise errors.UnavailableError(
                    None,
                    None,
                    errors.message(
                        f"a session of {self.name}, which was asked to end and leaves the cluster",
                        "a task that stays",
                        "start it again; tf.train.MonitoredTrainingSession waits for it",
                    ),
                )
        return {
            "task": self.name,
            "job": self.job,
            "index": self.index,
            "pid": os.getpid(),
            "incarnation": self.incarnation,
            "versions": versions(),
            "shown": shared_memory.shown(),
            "config": None if self.default_config is None else self.default_config.SerializeToString().hex(),
            "cluster": {job: dict(self.cluster._tasks[job]) for job in self.cluster.jobs},
        }

    def handlers(self) -> dict[str, Callable[..., bytes]]:
        """What answers the calls of other processes."""

        def hello(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            return wire.encode(self.hello(header))

        def ping(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            return wire.encode({})

        def open_session(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            config = ConfigProto.FromString(values[0].tobytes()) if values else None
            options = SessionOptions(**header["options"])
            client = shared_memory.Shown.read(header.get("shown"))
            shares = self.open(header["session"], header["name"], options, config, header["isolated"], client)
            return wire.encode({"shares": shares, "local": self.local_name})

        def close(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            self.close(header["session"])
            return wire.encode({})

        def register(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            kept, taken = ({int(i): key for i, key in header[name].items()} for name in ("kept", "taken"))
            more = header["last"], header["direct"]
            return wire.encode({"number": self.register(header["session"], values[0].tobytes(), kept, taken, *more)})

        def run(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            def on_token(token: CancellationToken) -> None:
                gone = errors.CancelledError(None, None, "the client of the step gave up, or is gone")
                caller.when_gone(lambda: token.cancel(gone))

            session, number, step, timeout, part = header["run"]
            metadata = RunMetadata() if header.get("traced") else None
            exchange = self._session(session).exchange
            with contextlib.ExitStack() as copies:
                if exchange is not None:
                    values = exchange.decoded(header, values)
                    copies.enter_context(spare_arrays.copies_to(exchange.empty))
                values = self.fetched(session, step, values, caller)
                results = self.run(session, number, step, values, timeout, on_token, metadata, part)
            if metadata is not None:
                results = [*results, as_bytes_value(metadata.SerializeToString())]
            answer = {"leaving": True} if self.leaving else {}
            return wire.encode(answer, results) if exchange is None else exchange.encode(answer, results)

        def take(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            return self.deliveries.given(header, self.held(header["session"], header["step"], header["keys"]))

        def begin(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            token = CancellationToken(header["timeout"])
            gone = errors.CancelledError(None, None, "the client of the step gave up, or is gone")
            caller.when_gone(lambda: token.cancel(gone))
            decider = Decider(*header["decider"])
            self.begin(header["session"], header["number"], decider, header["pieces"], header["settled"], token)
            return wire.encode({})

        def end(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            self.transactions.end(header["number"], header["commit"])
            return wire.encode({})

        def outcome(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            return wire.encode({"of": [self.incarnation, self.transactions.outcome(header["number"])]})

        def hold(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            self.hold(header["session"], caller)
            return wire.encode({})

        def rounds(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            self._session(header["ask"][2])
            return wire.encode({"answer": self.rounds.ask(*header["ask"])})

        def sees(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            return wire.encode({"sees": self.sees(header["path"])})

        def forget(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            self.forget(header["session"], header["step"])
            return wire.encode({})

        def reset(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            self.reset(header["containers"])
            return wire.encode({})

        def status(header: dict[str, Any], values: list[Any], caller: Any) -> bytes:
            return wire.encode(self.status())

        return {
            "Hello": hello,
            "Ping": ping,
            "Open": open_session,
            "Close": close,
            "Register": register,
            "Run": run,
            "Take": take,
            "Begin": begin,
            "End": end,
            "Outcome": outcome,
            "Hold": hold,
            "Rounds": rounds,
            "Sees": sees,
            "Forget": forget,
            "Reset": reset,
            "Status": status,
            **meetings.handlers(self.meetings, self.deliveries),
        }


def _ask_outcome(address: str, number: str) -> tuple[int, str]:
    """Ask a task what became of a transaction; which process answered, and what it says."""
    here = find_here(address)
    if here is not None:
        return here.incarnation, here.transactions.outcome(number)
    incarnation, outcome = transport.connection(address).call("Outcome", {"number": number}, (), 5.0)[0]["of"]
    return int(incarnation), str(outcome)


_here: dict[str, Task] = {}
"""The tasks of this process by address."""


def add_here(address: str, task: Task) -> None:
    """Let sessions of this process reach a task without the network."""
    _here[address] = task


def remove_here(address: str) -> None:
    """Undo :func:`add_here`."""
    _here.pop(address, None)


def find_here(address: str) -> Task | None:
    """The task of this process at an address."""
    return _here.get(address)


def as_bytes_value(data: bytes) -> np.ndarray:
    """Bytes as a value of a message."""
    return np.frombuffer(data, np.uint8)
