"""What is done once for the process and must not be cut short: long imports, and the start of devices.

An exception that Ctrl-C raises in the middle of an import leaves packages that keep state of their own (JAX, NumPy)
unusable for the rest of the process. Two ways out. What takes less than half a second runs with interrupts held back
(:func:`anabranch.core.interrupts.held`). What takes longer runs on a thread of its own, which no signal handler enters:
the caller waits in Python, where Ctrl-C ends the wait, not the work. Who needs the result next waits for the rest.

The thread is waited for when the process ends: one that comes back from C into an interpreter that is gone would take
the process down.

While such work lasts, Python's collector of garbage rests. Modules make a hundred thousand objects that stay, and the
collector goes through those that are there time and again: a third of the time that importing JAX takes (0.58 s of CPU
time, 0.38 without), and a fifth of our own import. Behind it all that is there counts as old, so that it is not gone
through twice more as if it were new. A program that has turned the collector off finds it off.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from anabranch.core import conditions, interrupts

T = TypeVar("T")


class _Collector:
    """Python's collector of garbage, which rests as long as anybody is in a block of :meth:`rests`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._was_on = False

    @contextlib.contextmanager
    def rests(self) -> Iterator[None]:
        """A block in which nothing is collected; the collector is then what it was before."""
        with self._lock:
            if not self._blocks:
                self._was_on = gc.isenabled()
                gc.disable()
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks and self._was_on:
                    if not gc.get_freeze_count():  # else the program's own frozen objects would thaw
                        gc.freeze()
                        gc.unfreeze()  # into the oldest generation
                    gc.enable()

    def after_fork(self) -> None:
        """In a forked child, which has none of the threads that were in a block."""
        self._lock = threading.Lock()
        if self._blocks and self._was_on:
            gc.enable()
        self._blocks = 0


_collector = _Collector()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collector.after_fork)


class Once(Generic[T]):
    """A piece of work that is done once, whatever interrupts those who wait for it.

    Example:
        >>> from anabranch.core.one_time import Once
        >>> numbers = Once(lambda: list(range(3)), "numbers")
        >>> numbers() is numbers()
        True
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._under_way: _Attempt[T] | None = None
        self._attempt: _Attempt[T] | None = None
        """The one that succeeded."""

    @property
    def is_done(self) -> bool:
        """Whether it has succeeded."""
        return self._attempt is not None

    def here(self) -> T:
        """The same, for who holds a lock that the work may need: in this thread, with interrupts held back."""
        with interrupts.held():
            return self(apart=False)

    def __call__(self, apart: bool = True) -> T:
        """What the work gave; what it raised, if it failed, and then it is tried again the next time."""
        if self._attempt is not None:
            return self._attempt.result()
        if apart and _imports():
            return self.here()
        with interrupts.held():
            with self._lock:
                attempt = self._under_way
                begins = attempt is None
                if attempt is None:
                    attempt = self._under_way = _Attempt(self._work)
            if begins:
                self._begin(attempt, apart)
        if attempt.worker == threading.get_ident():
            return self._work()  # the work asks for itself, as an import may
        attempt.ended.wait()
        return attempt.result()

    def _begin(self, attempt: _Attempt[T], apart: bool) -> None:
        def run() -> None:
            attempt.run()
            with self._lock:
                self._under_way = None
                if attempt.problem is None:
                    self._attempt = attempt
            attempt.ended.set()

        thread = threading.current_thread()
        if not apart or (thread is not threading.main_thread() and not getattr(thread, "may_be_interrupted", False)):
            run()  # no signal handler runs here
            return
        try:
            threading.Thread(target=run, name=f"anabranch-{self._name}").start()
        except RuntimeError:  # there can be no further thread
            run()

    @property
    def elsewhere(self) -> bool:
        """Whether another thread is at it."""
        attempt = self._under_way
        return attempt is not None and attempt.worker != threading.get_ident()

    @property
    def done(self) -> bool:
        """Whether the work has been done."""
        return self._attempt is not None


def _imports() -> bool:
    """Whether this thread is in the middle of an import, whose locks the work may need."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class _Attempt(Generic[T]):
    """One time that the work is done."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.worker: int | None = None
        self.problem: BaseException | None = None
        self.ended = conditions.Event()

    def run(self) -> None:
        """Do it."""
        self.worker = threading.get_ident()
        try:
            with _collector.rests():
                self._result = self._work()
        except BaseException as problem:
            self.problem = problem
        finally:
            self.worker = None

    def result(self) -> T:
        """What it gave, or raised."""
        if self.problem is not None:
            raise self.problem
        return self._result
