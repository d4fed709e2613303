"""One run of a step over tasks: its pieces, each as soon as what it needs is there.

Policy. The thread that called ``Session.run`` runs the pieces of tasks in this process, and reads the answers of tasks
on this machine that are asked without gRPC (:mod:`anabranch.cluster.local_calls`); other answers come from gRPC's
threads. The first failure ends the step: what still runs is cancelled, pieces that have not begun do not begin.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from anabranch.cluster import consistency, peers, transport, wire
from anabranch.cluster.partition import DistributedStep, Feed, Value
from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken


class BoundStep:
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


class Session(Protocol):
    """What a step has of its session."""

    session: peers.SessionFacts
    peers: dict[str, peers.Peer]
    steps: itertools.count[int]
    """The numbers of steps."""


def _readable(sources: Mapping[int, Any], timeout: float | None = None) -> list[int]:
    """Those that can be read from, after at most ``timeout`` milliseconds; waits for the first without one."""
    poll = select.poll()
    numbers = {}
    for i, source in sources.items():
        descriptor = source.fileno()
        numbers[descriptor] = i
        poll.register(descriptor, select.POLLIN)
    return [numbers[descriptor] for descriptor, _ in poll.poll(timeout)]


class StepRun:
    """One run of a step."""

    def __init__(
        self,
        session: Session,
        bound: BoundStep,
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
        self._session, self._bound, self._values, self._token = session, bound, values, token
        self._number = next(session.steps)
        self._results: list[Any] = [None] * len(bound.pieces)
        self._waiting = [len(waits) for waits in bound.waits]
        self._ready = collections.deque(i for i, count in enumerate(self._waiting) if not count)
        self._ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._cancels: dict[int, Callable[[], None]] = {}
        """By the number of a piece that another process runs now, what gives it up."""
        self._sent: dict[int, transport.SentCall] = {}
        """Those of them whose answers are read here; the others' come by `_ended`."""
        self._bell: socket.socket | None = None
        """Rung when an answer has come by `_ended` while those of `_sent` are waited for."""
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
            self._drop_sent()
            self._forget(self._bound.keepers)
            if isinstance(problem, errors.OpError) and isinstance(self._failure, errors.OpError):
                raise self._failure from None
            raise
        self._forget(self._holders)
        return [self._fetched(source) for source in self._bound.fetches]

    def _run_pieces(self) -> None:
        pieces, peers_of = self._bound.pieces, self._session.peers
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
                    with self._naming_task(i):
                        self._end(i, self._remote(i).run_traced(self._header(i), self._feeds(i), told))
                    self._note_stats(i, told)
                elif not pieces[i].may_block and self._send(i):
                    pass
                elif self._ready or local or self._cancels or pieces[i].may_block:
                    self._start(i)
                else:
                    self._token.raise_if_cancelled()
                    with self._naming_task(i):
                        self._end(i, self._remote(i).run(self._header(i), self._feeds(i)))
            while self._has_ended(local):
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
        peer = self._session.peers[self._bound.pieces[i].task]
        assert isinstance(peer, peers.PeerElsewhere)
        return peer

    def _remaining(self) -> float | None:
        deadline = self._token.deadline
        return None if deadline is None else max(0.001, deadline - time.monotonic())

    def _limit(self) -> float | None:
        remaining = self._remaining()
        return None if remaining is None else remaining + peers.GRACE

    def _header(self, i: int) -> list[Any]:
        return [self._session.session.number, self._bound.numbers[i], self._number, self._remaining(), self._part_of(i)]

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
                    address = "" if holder == piece.task else self._session.peers[holder].address
                    value = value._replace(address=address)
                feeds.append(value)
        return feeds

    def _start(self, i: int) -> None:
        self._cancels[i] = lambda: None  # it counts as begun before it can end
        self._cancels[i] = self._remote(i).start(
            self._header(i), self._feeds(i), lambda answer: self._note_ended(i, answer)
        )

    def _send(self, i: int) -> bool:
        """Begin a piece at a task of this machine; whether that is possible."""
        call = self._remote(i).send(self._header(i), self._feeds(i), self._limit())
        if call is None:
            return False
        self._sent[i] = call
        self._cancels[i] = call.cancel
        return True

    def _note_ended(self, i: int, answer: Any) -> None:
        self._note_failure(i, answer)
        self._ended.put((i, answer))
        bell = self._bell
        if bell is not None:
            with contextlib.suppress(OSError):  # nobody waits any more
                bell.send(b"1")

    @contextlib.contextmanager
    def _naming_task(self, i: int) -> Iterator[None]:
        """Have the errors of a piece's ops say which task they are from."""
        try:
            yield
        except errors.OpError as problem:
            self._name_task(i, problem)
            raise

    def _name_task(self, i: int, problem: errors.OpError) -> None:
        if problem._op is not None and not problem._message.startswith("From /job:"):
            problem._message = f"From {self._bound.pieces[i].task}:\n{problem._message}"

    def _note_failure(self, i: int, answer: Any) -> None:
        if not isinstance(answer, errors.OpError):
            return
        self._name_task(i, answer)
        if self._failure is None and not self._token.cancelled:
            self._failure = answer
            self._token.cancel(errors.CancelledError(None, None, "another piece of the step failed"))

    def _has_ended(self, local: Sequence[int]) -> bool:
        """Whether an answer can be taken without waiting; looks at sockets only if there is other work meanwhile."""
        return not self._ended.empty() or bool(local and self._sent and _readable(self._sent, 0))

    def _take_ended(self) -> None:
        """Wait for a call to another process to end."""
        if self._sent and self._ended.empty():
            i, answer = self._next_answer()
        else:
            i, answer = self._ended.get()
        self._cancels.pop(i, None)
        if isinstance(answer, errors.OpError):
            if self._failure is not None:
                raise self._failure
            raise self._token.error() or answer
        self._end(i, answer[1])

    def _next_answer(self) -> tuple[int, Any]:
        """The first answer to come, while some are read here."""
        limit = self._limit()
        if len(self._cancels) > len(self._sent):
            ready = self._first_of_both(limit)
            if ready is None:
                return self._ended.get()
        elif limit is None and len(self._sent) == 1:
            ready = next(iter(self._sent))
        else:
            ready = self._first_readable(self._sent, limit)
        call = self._sent.pop(ready)
        try:
            answer = call.answer()
        except errors.OpError as problem:
            self._note_failure(ready, problem)
            return ready, problem
        self._remote(ready).note(answer[0])
        return ready, answer

    def _first_readable(self, sources: Mapping[int, Any], limit: float | None) -> int:
        """The first to have something to read.

        Raises:
            OpError: none has within the limit: their tasks hang, or are slow to heed the deadline.
        """
        found = _readable(sources, None if limit is None else limit * 1000.0)
        if not found:
            self._token.raise_if_cancelled()
        return found[0]

    def _first_of_both(self, limit: float | None) -> int | None:
        """Wait for an answer to be read here (the number of the piece), or for one by gRPC (None)."""
        bell, self._bell = socket.socketpair()
        try:
            if not self._ended.empty():  # it may have come before there was a bell
                return None
            ready = self._first_readable({**self._sent, -1: bell}, limit)
            return None if ready < 0 else ready
        finally:
            ringing, self._bell = self._bell, None
            bell.close()
            ringing.close()

    def _run_here(self, i: int) -> list[Any]:
        peer = self._session.peers[self._bound.pieces[i].task]
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

            session = self._session.session.number
            try:
                told = None if self._metadata is None else type(self._metadata)()
                feeds, part = self._feeds(i), self._part_of(i)
                results = peer.task.run(session, number, step, feeds, timeout, on_token, told, part)
                self._note_stats(i, told)
                return results
            except errors.OpError as problem:
                if self._failure is not None:
                    raise self._failure from None
                self._name_task(i, problem)
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

    def _drop_sent(self) -> None:
        """Let go of answers that nobody reads any more."""
        while self._sent:
            self._sent.popitem()[1].drop()

    def _forget(self, tasks: Iterable[str]) -> None:
        """Have tasks drop what the step has left there."""
        for name in tasks:
            peer = self._session.peers[name]
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
