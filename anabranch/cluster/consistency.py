"""What the steps of a session promise beyond what each task promises: the client's half of each mode.

Policy. A mode is a way to run a step that has been cut into pieces: it may wait before the first, at the step's gate
and after the last. The other halves are with the tasks: :mod:`anabranch.cluster.transactions` and
:mod:`anabranch.cluster.rounds`. ``docs/cluster.md`` has what each promises.

*Which steps are training steps.* Those that update the graph's global step: an op writes it that also reads it, or a
conditional or loop does. Initialisers and the restoring of checkpoints do not, nor does what only reads. The modes that
count steps leave all others alone.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from anabranch.cluster import peers, rounds
from anabranch.cluster.partition import DistributedStep
from anabranch.cluster.transactions import Decider
from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.graph import Graph
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.state.slots import handle_of
from anabranch.train.cluster_spec import ClusterSpec
from anabranch.train.step_counter import get_global_step

_log = logging.getLogger("anabranch")


class Late(Exception):
    """A step has come to its gate too late to make its updates."""


class Step(Protocol):
    """A step that the session's tasks know."""

    step: DistributedStep
    numbers: list[int]
    """Per piece, its number at its task."""
    counts: bool
    """Whether it is a training step."""


Start = Callable[[Sequence[Any] | None, Callable[[], None] | None], list[Any]]
"""Runs the pieces of a step: (what they are part of, what is called at the gate) -> fetches."""


class Asynchronous:
    """Nothing beyond what each task promises."""

    gate = ""
    counts_steps = False

    def run(self, step: Step, start: Start, token: CancellationToken) -> list[Any]:
        """Run a step."""
        return start(None, None)


class Serialisable(Asynchronous):
    """Steps over several tasks commit together or not at all."""

    gate = "state"

    def __init__(self, session: str, tasks: Mapping[str, peers.Peer]) -> None:
        self._session, self._tasks = session, tasks
        self._numbers = itertools.count(1)
        self._settled: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def run(self, step: Step, start: Start, token: CancellationToken) -> list[Any]:
        """Run a step."""
        cut = step.step
        held: dict[str, list[int]] = {}
        for i in sorted(cut.with_state):
            held.setdefault(cut.pieces[i].task, []).append(step.numbers[i])
        if len(cut.pieces) == 1 or not held:
            return start(None, None)  # what is one step of one task, or without state, is a transaction as it is
        names = sorted(held)
        number = f"{self._session}.{next(self._numbers)}"
        decider = Decider(names[0], self._tasks[names[0]].address, self._tasks[names[0]].incarnation)
        begun: list[str] = []

        def begin() -> None:
            with self._lock:
                settled = self._settled.pop(names[0], [])
            for name in names:
                begun.append(name)
                self._tasks[name].begin(number, decider, held[name], settled if name == names[0] else [], token)

        try:
            if not cut.gated:
                begin()
            results = start([number], begin if cut.gated else None)
        except BaseException:
            self._undo(number, begun, peers.within(token, peers.PATIENCE))
            raise
        self._commit(number, names)
        return results

    def _undo(self, number: str, names: Sequence[str], limit: float = peers.PATIENCE) -> None:
        for name in names:
            try:
                self._tasks[name].end(number, False, limit)
            except errors.OpError:
                self._tasks[name].close()  # if it is there, it asks by itself

    def _commit(self, number: str, names: Sequence[str]) -> None:
        first, *others = names
        try:
            self._tasks[first].end(number, True)
        except errors.AbortedError:
            self._undo(number, others)
            raise
        except errors.OpError:  # decided or not, nobody here knows: the others ask
            for name in names:
                self._tasks[name].close()
            raise
        problems = []
        for name in others:
            try:
                self._tasks[name].end(number, True)
            except errors.OpError as problem:
                self._tasks[name].close()
                problems.append(problem)
        if problems:
            raise problems[0]
        with self._lock:
            self._settled.setdefault(first, []).append(number)


class Counted(Asynchronous):
    """Training steps that wait for those of other workers: bounded staleness, or rounds.

    Args:
        mode: ``('stale', k)`` or ``('sync', b)``.
        session: the number of the session.
        task: the task that its steps are counted for.
        tasks: those that it reaches.
        cluster: all tasks.

    Raises:
        InvalidArgumentError: it does not reach the task that counts. FailedPreconditionError: its target does not
            train.
    """

    counts_steps = True

    def __init__(
        self,
        mode: tuple[Any, Any],
        session: str,
        task: str,
        tasks: Mapping[str, peers.Peer],
        cluster: ClusterSpec,
    ) -> None:
        self.gate = "writes" if mode[0] == "sync" else ""
        self._mode, self._session, self._task = list(mode), session, task
        self._expected = rounds.members(cluster)
        keeper = rounds.keeper(cluster)
        if keeper not in tasks:
            raise errors.InvalidArgumentError(
                None,
                None,
                errors.message(
                    f"consistency={mode!r} and device_filters that hide {keeper}",
                    f"filters that let {keeper} through, which counts the training steps",
                    "device_filters=['/job:ps', '/job:worker/task:N']",
                ),
            )
        self._keeper = tasks[keeper]
        self._one_at_a_time = threading.Lock()
        self._step = 0

    def run(self, step: Step, start: Start, token: CancellationToken) -> list[Any]:
        """Run a step; a training step that comes too late begins anew."""
        if not step.counts:
            return start(None, None)
        if self._task not in self._expected:
            raise errors.FailedPreconditionError(
                None,
                None,
                errors.message(
                    f"a training step of a session on {self._task}",
                    f"the target of one of {', '.join(self._expected)}",
                    "tf.Session(server.target) in the process of a worker",
                ),
            )
        while not self._one_at_a_time.acquire(timeout=rounds.POLL):
            token.raise_if_cancelled()
        try:
            while True:
                try:
                    return self._run_once(start, token)
                except Late:
                    token.raise_if_cancelled()
        finally:
            self._one_at_a_time.release()

    def _run_once(self, start: Start, token: CancellationToken) -> list[Any]:
        self._keeper.open(token)
        self._step += 1
        number = self._ask("enter", 0, token)

        def pass_gate() -> None:
            if self._ask("arrive", number, token) < 0:
                raise Late

        synchronous = self._mode[0] == "sync"
        try:
            results = start([self._keeper.incarnation, number] if synchronous else None, pass_gate)
        except Late:
            raise
        except BaseException:
            self._withdraw(number, token)
            raise
        self._ask("done", number, token)
        return results

    def _withdraw(self, number: int, token: CancellationToken) -> None:
        """Say that a step has failed."""
        try:
            self._keeper.ask_rounds(self._question("withdraw", number), None, peers.within(token, peers.PATIENCE))
        except errors.OpError:  # the count is gone, counts us as gone, or hangs: if it is there, it ends our part
            self._keeper.close()

    def _question(self, what: str, number: int) -> list[Any]:
        return [what, self._task, self._session, self._mode, self._expected, number, self._step]

    def _ask(self, what: str, number: int, token: CancellationToken) -> int:
        started = time.monotonic()
        say_at = started + peers.SAY_AFTER
        while True:
            if what != "done":
                token.raise_if_cancelled()
            answer = self._keeper.ask_rounds(self._question(what, number), None if what == "done" else token)
            if not isinstance(answer, list):
                return int(answer)
            if time.monotonic() >= say_at:
                _log.warning(
                    "A training step of %s waits for %s for %.0f s",
                    self._task,
                    ", ".join(answer),
                    time.monotonic() - started,
                )
                say_at = time.monotonic() + peers.SAY_AGAIN


def counts(step: DistributedStep, graph: Graph) -> bool:
    """Whether a step is a training step.

    Raises:
        FailedPreconditionError: it updates variables, and the graph has no global step.
    """
    if not step.updated:
        return False
    counter = get_global_step(graph)
    if counter is None:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"a step that updates {', '.join(sorted(op.name for op in step.updated)[:3])} in a graph without a "
                "global step, in a session that counts training steps",
                "a global step that each training step moves",
                "optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())",
            ),
        )
    return handle_of(counter.op) in {handle_of(op) for op in step.updated}


def mode(
    options: SessionOptions, session: str, task: str, tasks: Mapping[str, peers.Peer], cluster: ClusterSpec
) -> Asynchronous:
    """The mode that options name."""
    kind, _ = options.mode
    if kind == "async":
        return Asynchronous()
    if kind == "serialisable":
        return Serialisable(session, tasks)
    return Counted(options.mode, session, task, tasks, cluster)
