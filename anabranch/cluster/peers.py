"""The tasks of a cluster as a session sees them: of this process, or at the end of a connection.

A session opens itself at a task when it first needs it. If nothing answers there, it waits, and says so: the tasks of a
cluster may be started in any order. Once it is open, a task that goes away is an error.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.cluster import shared_memory, transport
from anabranch.cluster import task as tasks
from anabranch.cluster.shared_memory import Exchange
from anabranch.cluster.transactions import Decider
from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.runtime.options import SessionOptions
from anabranch.train.cluster_spec import ClusterSpec

GRACE = 1.0
"""Seconds after its deadline that a step waits for what tasks say of it, which is more than that it was late."""
PATIENCE = 60.0
"""Seconds that a task which gives signs of life has to answer a question that takes no time."""
SAY_AFTER = 5.0
"""Seconds after which a session says which task it waits for."""
SAY_AGAIN = 30.0
_LOOK = 0.25
"""Seconds between two looks whether a task answers."""
_log = logging.getLogger("anabranch")


@dataclasses.dataclass(frozen=True)
class SessionFacts:
    """What every task is told of a session."""

    number: str
    options: SessionOptions
    config: Any
    isolated: bool
    cluster: ClusterSpec | None
    """The cluster that tasks must agree with; None where a target is asked what its cluster is."""
    brings_cluster: bool
    """Whether the session says which cluster it is, whatever the tasks were started with."""


class Peer:
    """A task, as one session sees it."""

    is_here = False

    def __init__(self, name: str, address: str, session: SessionFacts) -> None:
        self.name, self.address, self.session = name, address, session
        self._opened = False
        self._opening = threading.Lock()
        self.incarnation = 0
        """Which process it is, once the session is open."""
        self.leaving = False
        """Whether the task has said that it was asked to end."""

    def open(self, token: CancellationToken | None = None) -> None:
        """Open the session at the task, unless it is open.

        Raises:
            OpError: the task is not the one that the cluster says it is, or refuses.
        """
        if self._opened:
            return
        with self._opening:
            if not self._opened:
                answer = self._hello(token)
                check_answer(answer, self.name, self.address, self.session)
                self.incarnation = int(answer["incarnation"])
                self._open(token)
                if self.session.options.consistency != "async":
                    self._hold()
                self._opened = True

    def _hello(self, token: CancellationToken | None) -> dict[str, Any]:
        raise NotImplementedError

    def _open(self, token: CancellationToken | None) -> None:
        raise NotImplementedError

    def _hold(self) -> None:
        """Have the task hear of it if this process goes away."""

    def close(self) -> None:
        """Close the session at the task, if it is open and the task can be reached."""
        raise NotImplementedError

    def register(
        self,
        data: bytes,
        kept: dict[int, str],
        taken: dict[int, str],
        last: Sequence[str],
        direct: Sequence[int],
        token: CancellationToken,
    ) -> int:
        """Make a piece known; its number at the task."""
        raise NotImplementedError

    def reset(self, containers: Sequence[str]) -> None:
        """Clear containers of the task's shared resources."""
        raise NotImplementedError

    def begin(
        self, number: str, decider: Decider, pieces: list[int], settled: list[str], token: CancellationToken
    ) -> None:
        """Begin a transaction over several tasks: the task holds what pieces touch."""
        raise NotImplementedError

    def end(self, number: str, commit: bool, limit: float = PATIENCE) -> None:
        """Commit a transaction on the task, or undo it; waits at most some seconds for the answer."""
        raise NotImplementedError

    def ask_rounds(self, question: list[Any], token: CancellationToken | None, limit: float = PATIENCE) -> Any:
        """What the task that counts training steps answers, if it does before the token ends and within a limit."""
        raise NotImplementedError

    def sees(self, path: str) -> bool:
        """Whether the task's machine has a file."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether the session is open there."""
        return self._opened


class PeerHere(Peer):
    """A task of this process."""

    is_here = True

    def __init__(self, name: str, address: str, session: SessionFacts, task: tasks.Task) -> None:
        super().__init__(name, address, session)
        self.task = task

    def _hello(self, token: CancellationToken | None) -> dict[str, Any]:
        return self.task.hello({"probe": True})

    def _open(self, token: CancellationToken | None) -> None:
        facts = self.session
        self.task.open(facts.number, self.name, facts.options, facts.config, facts.isolated)

    def close(self) -> None:
        """Close the session at the task."""
        if self._opened:
            self.task.close(self.session.number)

    def register(
        self,
        data: bytes,
        kept: dict[int, str],
        taken: dict[int, str],
        last: Sequence[str],
        direct: Sequence[int],
        token: CancellationToken,
    ) -> int:
        """Make a piece known; its number at the task."""
        return self.task.register(self.session.number, data, kept, taken, last, direct)

    def reset(self, containers: Sequence[str]) -> None:
        """Clear containers of the task's shared resources."""
        self.task.reset(containers)

    def begin(
        self, number: str, decider: Decider, pieces: list[int], settled: list[str], token: CancellationToken
    ) -> None:
        """Begin a transaction over several tasks: the task holds what pieces touch."""
        self.task.begin(self.session.number, number, decider, pieces, settled, token)

    def end(self, number: str, commit: bool, limit: float = PATIENCE) -> None:
        """Commit a transaction on the task, or undo it."""
        self.task.transactions.end(number, commit)

    def ask_rounds(self, question: list[Any], token: CancellationToken | None, limit: float = PATIENCE) -> Any:
        """What the task that counts training steps answers."""
        return self.task.rounds.ask(*question)

    def sees(self, path: str) -> bool:
        """Whether the task's machine has a file."""
        return self.task.sees(path)


class PeerElsewhere(Peer):
    """A task of another process."""

    _exchange: Exchange | None = None
    """What large values go by, if the task is on this machine."""
    _shown: shared_memory.Shown | None = None
    """What the task shows to processes of its machine."""

    def _connection(self) -> transport.Connection:
        return transport.connection(self.address)

    def _hello(self, token: CancellationToken | None) -> dict[str, Any]:
        answer = wait_for_task(self.address, self.name, token)
        self._shown = shared_memory.Shown.read(answer.get("shown"))
        return answer

    def _open(self, token: CancellationToken | None) -> None:
        facts = self.session
        options = {
            field.name: getattr(facts.options, field.name)
            for field in dataclasses.fields(facts.options)
            if field.name != "config"
        }
        header = {"session": facts.number, "name": self.name, "options": options, "isolated": facts.isolated}
        own = shared_memory.shown()
        if own is not None and self._shown is not None and self._shown.is_seen():
            header["shown"] = own
        config = () if facts.config is None else (tasks.as_bytes_value(facts.config.SerializeToString()),)
        connection = self._connection()
        answer, _ = connection.call("Open", header, config, within(token, 60.0))
        if answer.get("shares"):
            assert self._shown is not None
            self._exchange = Exchange(self._shown.pid)
            connection.know_local(answer["local"])

    def _hold(self) -> None:
        # Its end is not looked at: whatever the session asks of the task from then on is refused there.
        self._connection().start("Hold", {"session": self.session.number}, (), None, lambda answer: None)

    def begin(
        self, number: str, decider: Decider, pieces: list[int], settled: list[str], token: CancellationToken
    ) -> None:
        """Begin a transaction over several tasks: the task holds what pieces touch."""
        timeout = None if token.deadline is None else max(0.001, token.deadline - time.monotonic())
        header = {
            "session": self.session.number,
            "number": number,
            "decider": decider,
            "pieces": pieces,
            "settled": settled,
            "timeout": timeout,
        }
        self._call_under("Begin", header, None if timeout is None else timeout + GRACE, token)

    def _call_under(
        self, method: str, header: dict[str, Any], limit: float | None, token: CancellationToken
    ) -> dict[str, Any]:
        """Call, and give up when a token is cancelled."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        cancel = self._connection().start(method, header, (), limit, answers.put)
        with token.on_cancel(cancel):
            if token.cancelled:
                cancel()
            answer = answers.get()
        if isinstance(answer, errors.OpError):
            raise token.error() or answer
        told: dict[str, Any] = answer[0]
        return told

    def end(self, number: str, commit: bool, limit: float = PATIENCE) -> None:
        """Commit a transaction on the task, or undo it; waits at most some seconds for the answer."""
        self._connection().call("End", {"number": number, "commit": commit}, (), limit)

    def ask_rounds(self, question: list[Any], token: CancellationToken | None, limit: float = PATIENCE) -> Any:
        """What the task that counts training steps answers, if it does before the token ends and within a limit."""
        if token is None:
            return self._connection().call("Rounds", {"ask": question}, (), limit)[0]["answer"]
        return self._call_under("Rounds", {"ask": question}, within(token, limit), token)["answer"]

    def sees(self, path: str) -> bool:
        """Whether the task's machine has a file."""
        return bool(self._connection().call("Sees", {"path": path}, (), 60.0)[0]["sees"])

    def close(self) -> None:
        """Close the session at the task, if it can be reached; does not wait for that."""
        if self._opened:
            try:
                self._connection().start("Close", {"session": self.session.number}, (), 5.0, lambda answer: None)
            except errors.OpError:
                pass  # it is gone, and the session with it
            if self._exchange is not None:
                self._exchange.close()

    def register(
        self,
        data: bytes,
        kept: dict[int, str],
        taken: dict[int, str],
        last: Sequence[str],
        direct: Sequence[int],
        token: CancellationToken,
    ) -> int:
        """Make a piece known; its number at the task."""
        header = {
            "session": self.session.number,
            "kept": kept,
            "taken": taken,
            "last": list(last),
            "direct": list(direct),
        }
        limit = within(token, 120.0)
        return int(self._connection().call("Register", header, (tasks.as_bytes_value(data),), limit)[0]["number"])

    def reset(self, containers: Sequence[str]) -> None:
        """Clear containers of the task's shared resources."""
        self._connection().call("Reset", {"containers": list(containers)}, (), 60.0)

    def run(self, header: list[Any], values: Sequence[Any]) -> list[Any]:
        """Run a piece and wait for it."""
        timeout = header[3]
        limit = None if timeout is None else timeout + GRACE
        answer, results = self._connection().call("Run", {"run": header}, values, limit, self._exchange)
        self.note(answer)
        return results

    def run_traced(self, header: list[Any], values: Sequence[Any], metadata: Any) -> list[Any]:
        """Run a piece, wait for it, and add what ran when to a RunMetadata."""
        timeout = header[3]
        limit = None if timeout is None else timeout + GRACE
        request = {"run": header, "traced": True}
        *results, told = self._connection().call("Run", request, values, limit, self._exchange)[1]
        metadata.MergeFromString(told.tobytes())
        return results

    def send(self, header: list[Any], values: Sequence[Any], limit: float | None) -> transport.SentCall | None:
        """Begin, within some seconds, to run a piece that waits for nobody at a task of this machine.

        Returns None if that is not possible.
        """
        if self._exchange is None:
            return None
        return self._connection().send("Run", {"run": header}, values, self._exchange, limit)

    def note(self, answer: dict[str, Any]) -> None:
        """Note what a task says of itself with an answer."""
        self.leaving = self.leaving or "leaving" in answer

    def start(self, header: list[Any], values: Sequence[Any], done: Callable[[Any], None]) -> Callable[[], None]:
        """Run a piece, and have ``done`` called with (header, results) or an error; returns what cancels it."""
        timeout = header[3]
        limit = None if timeout is None else timeout + GRACE

        def ended(answer: Any) -> None:
            if isinstance(answer, tuple):
                self.note(answer[0])
            done(answer)

        return self._connection().start("Run", {"run": header}, values, limit, ended, self._exchange)

    def forget(self, step: int) -> None:
        """Have the task drop what a step has left there; does not wait for that."""
        try:
            header = {"session": self.session.number, "step": step}
            self._connection().start("Forget", header, (), 5.0, lambda answer: None)
        except errors.OpError:
            pass  # it is gone


def within(token: CancellationToken | None, most: float) -> float:
    """Seconds that a call which a step waits for, besides its pieces, may take."""
    if token is None or token.deadline is None:
        return most
    return min(most, max(0.0, token.deadline - time.monotonic()) + GRACE)


def greeting() -> dict[str, Any]:
    """What a process says of itself to a task."""
    return {"versions": tasks.versions(), "pid": os.getpid()}


def wait_for_task(address: str, name: str, token: CancellationToken | None) -> dict[str, Any]:
    """What the task at an address says of itself; waits until it answers.

    Raises:
        OpError: it refuses, is not one of ours, or the token's error.
    """
    header = greeting()
    started = time.monotonic()
    say_at = started + SAY_AFTER
    while True:
        try:
            return transport.connection(address).call("Hello", header, (), within(token, 10.0))[0]
        except (errors.UnavailableError, errors.DeadlineExceededError) as problem:
            now = time.monotonic()
            why = str(problem.message).splitlines()[0]
            if token is not None and (end := token.error()) is not None:
                waited = errors.message(
                    f"{name} at {address}, which has not answered for {now - started:.0f} s ({why})",
                    "a task that answers",
                    "start it, or correct the ClusterSpec of this process",
                )
                raise type(end)(None, None, f"{end.message}\n{waited}") from None  # type: ignore[call-arg]
            if now >= say_at:
                _log.warning("Waiting for %s at %s for %.0f s: %s", name, address, now - started, why)
                say_at = now + SAY_AGAIN
            time.sleep(_LOOK)


def check_answer(answer: dict[str, Any], name: str, address: str, session: SessionFacts) -> None:
    """Raise if the task at an address is not the one that the session's cluster has there.

    Raises:
        FailedPreconditionError: it is another one, or knows another cluster.
    """
    tasks.check_versions(tasks.versions(), answer["versions"], f"{answer['task']} at {address}")
    if session.brings_cluster or session.cluster is None:
        return
    theirs = ClusterSpec({job: {int(i): a for i, a in t.items()} for job, t in answer["cluster"].items()})
    if answer["task"] != name:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"{answer['task']} (process {answer['pid']}) at {address}",
                f"{name}, which the ClusterSpec of this process has there",
                f"start that process with the job and index of {name}, or correct the ClusterSpec",
            ),
        )
    if theirs != session.cluster:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"{name} at {address} with another cluster: {theirs.as_dict()}",
                f"the cluster of this process: {session.cluster.as_dict()}",
                "the same lists of addresses in all tasks",
            ),
        )
