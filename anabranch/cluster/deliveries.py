"""Large values that go from task to task, and not by the client that runs the step.

Policy. A client cuts a step into pieces, and what a piece gives goes with its answer to the client and from there to
the piece that takes it: a round trip less for what is small, twice the way for what is large. So a value of `LEAST`
bytes or more that only tasks of other processes take stays at its task (:class:`anabranch.cluster.wire.Held`); the
client hands on where it is, and who takes it fetches it there, by memory that both see if they are on one machine. The
client lets go of it when the step has ended.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.cluster import shared_memory, transport, wire
from anabranch.cluster.shared_memory import Exchange, Shown
from anabranch.core import errors

LEAST = 1 << 20
"""Bytes from which on a value stays where it is until it is fetched."""


class Deliveries:
    """What a task's process shares with other tasks of its machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._to: dict[Shown, Exchange] = {}
        self._from: dict[str, tuple[int, Exchange | None]] = {}
        """By address the process there, and what it shares with this one."""

    # ----------------------------------------------------------------------------------------------------------- giving
    def given(self, header: dict[str, Any], values: Sequence[Any]) -> bytes:
        """The answer to a task that fetches values."""
        exchange, _ = self.received(header, ())
        answer = {"pid": own_pid()}
        return wire.encode(answer, values) if exchange is None else exchange.encode(answer, values)

    def received(self, header: dict[str, Any], values: Sequence[Any]) -> tuple[Exchange | None, list[Any]]:
        """What is shared with the task that calls, None if nothing is, and the values that it has sent."""
        taker = Shown.read(header.get("shown"))
        exchange = self._exchange_to(taker) if taker is not None and header.get("expects") == own_pid() else None
        return exchange, list(values) if exchange is None else exchange.decoded(header, values)

    def _exchange_to(self, taker: Shown) -> Exchange | None:
        with self._lock:
            known = self._to.get(taker)
            if known is None and taker.is_seen():
                for other in [other for other in self._to if not other.is_seen()]:
                    self._to.pop(other).close()
                known = self._to[taker] = Exchange(taker.pid)
            return known

    # ----------------------------------------------------------------------------------------------------------- taking
    def fetched(
        self, address: str, session: str, step: int, keys: Sequence[str], caller: transport.Caller
    ) -> list[Any]:
        """Values that a step has left at the task at an address.

        Raises:
            OpError: they are not there, or the task is gone, or the caller is.
        """
        header = {"session": session, "step": step, "keys": list(keys)}
        return self.asked(address, "Take", header, (), caller.when_gone)[1]

    def asked(
        self,
        address: str,
        method: str,
        header: dict[str, Any],
        values: Sequence[Any],
        when_gone: Callable[[Callable[[], None]], Any],
    ) -> tuple[dict[str, Any], list[Any]]:
        """What the task at an address answers: the header and the values.

        Args:
            address: of the task.
            method: what is called.
            header: of the request.
            values: of the request.
            when_gone: is told what ends the call.

        Raises:
            OpError: that of the task, or it is gone, or the call has been ended.
        """
        return self.asking(address, method, header, values, when_gone)()

    def asking(
        self,
        address: str,
        method: str,
        header: dict[str, Any],
        values: Sequence[Any],
        when_gone: Callable[[Callable[[], None]], Any],
    ) -> Callable[[], tuple[dict[str, Any], list[Any]]]:
        """Call the task at an address; a function that waits for the answer, as :meth:`asked` gives it."""
        connection = transport.connection(address)
        pid, exchange = self._exchange_from(address, connection)
        own = shared_memory.shown()
        if exchange is not None and own is not None:
            header = {**header, "shown": own, "expects": pid}
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        when_gone(connection.start(method, header, values, None, answers.put, exchange))

        def answered() -> tuple[dict[str, Any], list[Any]]:
            answer = answers.get()
            if isinstance(answer, errors.UnavailableError) or (isinstance(answer, tuple) and answer[0]["pid"] != pid):
                self._forget(address)  # another process is there now, or none
            if isinstance(answer, errors.OpError):
                if exchange is not None:
                    exchange.abandon()
                raise answer
            return answer[0], list(answer[1])

        return answered

    def _forget(self, address: str) -> None:
        with self._lock:
            _, exchange = self._from.pop(address, (0, None))
        if exchange is not None:
            exchange.close()

    def _exchange_from(self, address: str, connection: transport.Connection) -> tuple[int, Exchange | None]:
        with self._lock:
            known = self._from.get(address)
        if known is None:
            shown = Shown.read(connection.call("Hello", {"probe": True}, (), 10.0)[0].get("shown"))
            pid = 0 if shown is None else shown.pid
            own = (pid, Exchange(pid) if shown is not None and shown.is_seen() else None)
            with self._lock:
                known = self._from.setdefault(address, own)
        return known


def own_pid() -> int:
    """The process, if it can show others of its machine what it has; else 0."""
    own = shared_memory.shown()
    return own.pid if own is not None else 0
