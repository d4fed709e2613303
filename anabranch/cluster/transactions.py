"""Steps that commit on several tasks together or not at all: what a task has of them.

Policy. Two phases. A session begins its transaction on each task of the step, in the order of their names, so that no
two wait for each other; the task holds there what the pieces of the step touch (:mod:`anabranch.runtime.state.held`).
When all pieces have run, nothing can fail any more but tasks and clients. The first of the tasks *decides*: it has
committed, or it has not. Then the others follow.

Whoever hears that the client is gone looks at who decides. The deciding task undoes what it has not committed. Another
asks it, until it answers: committed means commit; undone, unknown or another process than the one that decided means
undo. (If the deciding task died, its state died with it, whatever was decided, and nobody can have seen it.) A
transaction may therefore stay undecided, and hold what it holds, as long as the task that decides cannot be reached.

What was committed is remembered until the client says that all tasks know.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from anabranch.core import conditions, errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation
from anabranch.rewrite import effects, state
from anabranch.runtime.plans import binding
from anabranch.runtime.registered_step import RegisteredStep
from anabranch.runtime.state.held import Held
from anabranch.runtime.worker import Worker

ASK_AGAIN = 1.0
"""Seconds between two questions to the task that decides."""
OPEN, COMMITTED, UNDONE = "open", "committed", "undone"
_log = logging.getLogger("anabranch")


class Touched(NamedTuple):
    """The variables and random streams of a piece, by the ops that make them."""

    reads: tuple[Operation, ...]
    writes: tuple[Operation, ...]
    random: tuple[Operation, ...]


def touched(step: RegisteredStep, worker: Worker) -> Touched:
    """What a piece reads, writes and draws."""
    graph, fetches, feeds = step.step
    with graph._lock:
        roots = [fetch if isinstance(fetch, Operation) else fetch.op for fetch in fetches]
        analysis = state.analyse(roots, frozenset(feeds), state.Variables(worker.handle_of))
        reads: dict[Operation, None] = {}
        writes: dict[Operation, None] = {}
        random: dict[Operation, None] = {}
        for op in analysis.order:
            used = analysis.state_of(op)
            reads.update(dict.fromkeys(key.maker for key in used.seen()))
            writes.update(dict.fromkeys(key.maker for key in used.writes))
            random.update(dict.fromkeys(effects.random_ops_of(op)))
    return Touched(tuple(reads), tuple(writes), tuple(random))


class Decider(NamedTuple):
    """The task that decides a transaction."""

    name: str
    address: str
    incarnation: int


class Transaction:
    """A transaction on this task."""

    def __init__(self, session: str, decider: Decider, held: Held) -> None:
        self.session = session
        self.decider = decider
        self.held = held
        self.running = 0
        """How many of its pieces run."""
        self.ended = False


class Transactions:
    """The transactions of a task.

    Args:
        name: of the task.
        ask: asks another task what became of a transaction: (address, number) -> (incarnation, outcome).
    """

    def __init__(self, name: str, ask: Callable[[str, str], tuple[int, str]]) -> None:
        self._name = name
        self._ask = ask
        self._open: dict[str, Transaction] = {}
        self._committed: dict[str, None] = {}
        self._changed = conditions.Condition()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def begin(
        self,
        number: str,
        session: str,
        decider: Decider,
        worker: Worker,
        pieces: Iterable[Touched],
        settled: Sequence[str],
        token: CancellationToken,
    ) -> None:
        """Hold what pieces touch; waits for it.

        Args:
            number: of the transaction, its own among those of all clients.
            session: whose.
            decider: the task that decides.
            worker: what runs the pieces.
            pieces: what they touch.
            settled: transactions that all their tasks have committed.
            token: cancels the waiting.
        """
        manager = worker.manager
        used = list(pieces)
        held = Held(
            manager,
            [binding.slot_of(worker, manager, maker) for piece in used for maker in piece.reads],
            [binding.slot_of(worker, manager, maker) for piece in used for maker in piece.writes],
            [binding.counter_of(worker, manager, op) for piece in used for op in piece.random],
        )
        held.begin(token)
        with self._changed:
            for old in settled:
                self._committed.pop(old, None)
            self._open[number] = Transaction(session, decider, held)
        if token.cancelled:  # who began it may be gone, and have undone what was not there yet
            self.end(number, False)
            token.raise_if_cancelled()

    def enter(self, number: str) -> Held:
        """Begin a piece of a transaction; :meth:`leave` must follow.

        Raises:
            AbortedError: it is not open.
        """
        with self._changed:
            transaction = self._open.get(number)
            if transaction is None or transaction.ended:
                raise self._unknown()
            transaction.running += 1
            return transaction.held

    def leave(self, number: str) -> None:
        """End a piece."""
        with self._changed:
            transaction = self._open.get(number)
            if transaction is not None:
                transaction.running -= 1
                self._changed.notify_all()

    def end(self, number: str, commit: bool) -> None:
        """Commit a transaction, or undo it, once none of its pieces runs.

        Raises:
            AbortedError: it is to be committed, and has been undone.
        """
        with self._changed:
            transaction = self._open.get(number)
            if transaction is None or transaction.ended:
                self._changed.wait_for(lambda: number not in self._open)
                if commit and number not in self._committed:
                    raise self._unknown()
                return
            running = transaction
            running.ended = True
            self._changed.wait_for(lambda: not running.running)
            if commit:
                self._committed[number] = None
        try:
            if commit:
                running.held.keep()
            else:
                running.held.undo()
        finally:
            with self._changed:
                del self._open[number]
                if running.decider.name != self._name:
                    self._committed.pop(number, None)  # only who decides is asked
                self._changed.notify_all()

    def outcome(self, number: str) -> str:
        """What became of a transaction that this task decides."""
        with self._changed:
            if number in self._committed:
                return COMMITTED
            return OPEN if number in self._open else UNDONE

    def client_gone(self, session: str) -> None:
        """Undo, or ask what became of, what a session has left open."""
        with self._changed:
            left = [(n, t) for n, t in self._open.items() if t.session == session and not t.ended]
        for number, transaction in left:
            if transaction.decider.name == self._name:
                self.end(number, False)
            else:
                conditions.start(
                    threading.Thread(
                        target=self._resolve, args=(number, transaction), name="anabranch outcome", daemon=True
                    )
                )

    def _resolve(self, number: str, transaction: Transaction) -> None:
        """Ask the task that decides until it answers."""
        decider = transaction.decider
        said = False
        wake = conditions.Event()
        while not transaction.ended:
            try:
                incarnation, outcome = self._ask(decider.address, number)
            except errors.OpError as problem:
                if not said:
                    said = True
                    why = str(problem.message).splitlines()[0]
                    _log.warning("%s waits for what %s has decided on a step: %s", self._name, decider.name, why)
                wake.wait(ASK_AGAIN)
                continue
            if incarnation != decider.incarnation:
                outcome = UNDONE
            if outcome != OPEN:
                try:
                    self.end(number, outcome == COMMITTED)
                except errors.AbortedError:
                    pass  # the client came first, and has undone it
                return
            wake.wait(ASK_AGAIN)

    def _unknown(self) -> errors.OpError:
        return errors.AbortedError(
            None,
            None,
            errors.message(
                f"a step over several tasks that {self._name} does not know, or has undone",
                "a step whose client has been there all the time",
                "run it again; tf.train.MonitoredTrainingSession goes on from the last checkpoint",
            ),
        )


__all__ = ["COMMITTED", "OPEN", "UNDONE", "Decider", "Touched", "Transactions", "touched"]
