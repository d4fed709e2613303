"""Conditions and events that Ctrl-C cannot leave locked.

Entering and leaving ``threading.Condition`` are Python functions: an interrupt that is raised in either leaves the lock
held by nobody, and from then on whoever wants it waits without end. In the middle of ``wait`` it leaves the lock free,
so that the block around it frees it a second time, or frees another thread's. Here a block enters and leaves by the
lock's own functions, in C, where nothing is raised in between; and while a thread waits, an interrupt ends the wait
(:func:`anabranch.core.interrupts.waiting`) and is raised once the lock is held again.

For the package's own conditions; a plain ``threading.Lock`` or ``RLock`` in a ``with`` statement is in C as it is. What
a block must not leave behind, a turn or a place in a line, is therefore a lock that the block holds: it counts for as
long as the lock is held, and nothing needs to be taken back.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from typing import Any

from anabranch.core import interrupts

PATIENCE = 0.1
"""Seconds after which who waits for a turn looks whether its step is cancelled."""


class Condition(threading.Condition):
    """A condition whose lock is free, or held by who is in its block, whatever was raised and when."""

    # Looked up on the class by the interpreter, and called without a bytecode in between.
    __enter__ = property(operator.attrgetter("_lock.__enter__"))
    __exit__ = property(operator.attrgetter("_lock.__exit__"))

    def notify_all(self) -> None:
        """Wake everybody who waits; the lock is held. (The standard one takes as long for nobody as for one.)"""
        if self._waiters:  # type: ignore[attr-defined]
            super().notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified, or for some seconds; whether it was notified."""
        held = interrupts.Interrupts()
        held.hold()
        try:
            if not self._is_owned():  # type: ignore[attr-defined]
                raise RuntimeError("cannot wait on a condition whose lock is not held")
            return self._wait(timeout)
        finally:
            held.release()  # the lock is held: what this raises leaves the block as anything does

    def _wait(self, timeout: float | None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        waiters: Any = self._waiters  # type: ignore[attr-defined]
        waiters.append(waiter)
        release: Any = getattr(self._lock, "_release_save", self._lock.release)  # type: ignore[attr-defined]
        saved: list[Any] = []
        notified = False
        try:
            with interrupts.waiting(waiter) as hopeless:
                saved.extend(map(operator.call, (release,)))  # freed and noted at once
                if not hopeless:
                    notified = waiter.acquire(True, -1 if timeout is None else max(0.0, timeout))
        finally:
            if saved and release == self._lock.release:  # type: ignore[attr-defined]
                self._lock.acquire()  # type: ignore[attr-defined]
            elif saved:
                self._lock._acquire_restore(saved[0])  # type: ignore[attr-defined]
            with contextlib.suppress(ValueError):  # who notifies it has removed it
                waiters.remove(waiter)
        return notified


class Turns:
    """Turns at something that one block at a time may use, which a step waits for until it is cancelled.

    A turn is a lock that its block holds::

        turn = threading.Lock()
        with turn:
            turns.begin(turn, token)
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: Any = None

    def is_free(self) -> bool:
        """Whether nobody has a turn."""
        holder = self._holder
        return holder is None or not holder.locked()

    def begin(self, turn: Any, token: Any, op: Any = None) -> None:
        """Wait until no other turn lasts; ``turn`` lasts until its block is left."""
        while True:
            with self._guard:
                holder = self._holder
                if holder is None or not holder.locked():
                    self._holder = turn
                    return
            token.raise_if_cancelled(op)
            with interrupts.held():
                if holder.acquire(timeout=PATIENCE):
                    holder.release()


def start(thread: threading.Thread) -> None:
    """Start a thread; an interrupt waits until it runs, as it might otherwise never come to do so."""
    with interrupts.held():
        thread.start()


class Event(threading.Event):
    """An event whose condition is one of these."""

    def __init__(self) -> None:
        super().__init__()
        self._cond = Condition(threading.Lock())
