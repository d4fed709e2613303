"""Steps on threads of their own, whose callers wait in Python and can go away.

A call into a compiled program, or into a Python function that sleeps, cannot be cut short, and while it lasts in the
thread that called ``Session.run`` no signal handler of Python runs there, no deadline and no ``close`` is heard. So a
step that may last runs on a thread of this module, and its caller waits on a lock, which Ctrl-C, ``close`` and
deadlines end. Handing a step over and back takes some 15 µs; which steps are worth it, the worker decides.

When the wait ends before the step does, the step's token is cancelled: what waits through the token returns, and
nothing commits any more. That ends most steps within `GRACE`. Else the step is *left*: the caller gets its error, and
the step goes on, to no effect, or to the whole of it if its program owns the buffers of variables and has been called.
Only then does anybody have to wait for it: whoever uses these variables next. A warning tells them, and another one
what became of the step. A step with a deadline owns nothing, so what it holds is released when it is left.

A thread that has been left ends with its step. When the process ends, steps that still run are cancelled and waited
for, as a thread that comes back from XLA into an interpreter that is gone takes the process down; a warning says which.
Those in Python functions get an exception there, and are not waited for any longer than `LAST_WAIT`.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from anabranch.core import errors, interrupts, thread_context
from anabranch.core.cancellation import CancellationToken
from anabranch.xla import engine

GRACE = 0.25
"""Seconds that a cancelled step has to end before its caller leaves it."""
IDLE = 30.0
"""Seconds after which a thread without a step ends."""
LAST_WAIT = 2.0
"""Seconds that the end of the process waits for a Python function."""
_SAY_AGAIN = 10.0
"""Seconds after which the end of the process says again what it waits for."""
_log = logging.getLogger("anabranch")
_lock = threading.Lock()
_idle: list[_StepThread] = []
_running: set[_Handed] = set()


class Ended(BaseException):
    """Raised in a Python function whose step was interrupted, or whose process ends."""


class NoThread(RuntimeError):
    """The process can have no further thread."""


class _Handed:
    """A step that was handed to a thread."""

    def __init__(self, work: Callable[[], Any], token: CancellationToken, describe: Callable[[], str]) -> None:
        self._work: Callable[[], Any] | None = work
        self._describe = describe
        self.silent = False
        """Whether nobody wants to know what became of it."""
        self._surrounded = thread_context.capture()
        self._result: Any = None
        self._problem: BaseException | None = None
        self._bell = _thread.allocate_lock()
        self._bell.acquire()
        self.token = token
        self.started = time.monotonic()
        self.ended = False
        self.left = 0.0
        """When its caller went away; 0 if it did not."""
        self.reason = ""
        """Why it did."""
        self._ident: int | None = None
        """The thread that is in the step, as long as it may be interrupted."""

    # ------------------------------------------------------------------------------------------- in the step's thread
    def execute(self) -> None:
        """Run the step; what it gives, or raises, is the caller's."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._ident = _thread.get_ident()
            try:
                self._result = self._surrounded(work)
            finally:
                self._refuse_interrupts()
        except BaseException as problem:
            self._problem = problem

    def _refuse_interrupts(self) -> None:
        while self._ident is not None:
            with contextlib.suppress(Ended):  # one that came in this moment
                with _lock:
                    self._ident = None
                # An exception that is on its way is raised where the interpreter next looks, which loops do. (To take
                # it back, by raising NULL, leaves Python 3.11 looking for one at every step from then on.)
                for _ in range(8):
                    pass

    def finish(self) -> None:
        """Say that the step has ended: to its caller, or, if that has gone, in the log."""
        with _lock:
            self.ended = True
            _running.discard(self)
            left = self.left
        if left and not self.silent:
            _log.warning("%s has ended: %s", self, self._outcome())
            self._result = self._problem = None
        self.ring()

    def _outcome(self) -> str:
        if self._problem is None:
            return "it is done, with all that it writes"
        if self.token.commits:
            return f"it is done as far as its first {self.token.commits} segments go; the rest did nothing"
        return "it did nothing"

    # ------------------------------------------------------------------------------------------ in the caller's thread
    def ring(self) -> None:
        """Wake the caller."""
        with contextlib.suppress(RuntimeError):  # it is awake
            self._bell.release()

    def wait(self, until: float | None = None) -> None:
        """Wait until the bell is rung, or until a moment of the monotonic clock."""
        self._bell.acquire(True, -1 if until is None else max(0.0, until - time.monotonic()))

    def ends_by(self, moment: float) -> bool:
        """Whether the step ends by then, which this waits for."""
        while not self.ended and time.monotonic() < moment:
            self.wait(moment)
        return self.ended

    def leave(self, reason: str) -> bool:
        """Go away from the step; False if it has ended."""
        while self.token.committing and not self.ended:
            time.sleep(0.0005)  # that takes no longer than to publish a few values
        with _lock:
            if self.ended:
                return False
            self.left, self.reason = time.monotonic(), reason
            self.token.left = self
        return True

    def outcome(self) -> Any:
        """What the step gave."""
        result, problem = self._result, self._problem
        self._result = self._problem = None
        if problem is None:
            return result
        try:
            raise problem
        finally:
            del problem

    def __str__(self) -> str:
        at = getattr(self.token.at, "name", None)
        where = f" in {self.token.at.type} {at!r}" if at is not None else ""
        if self.left:
            return f"{self._describe()}, {self.reason} {time.monotonic() - self.left:.1f} s ago{where},"
        return f"{self._describe()}, begun {time.monotonic() - self.started:.1f} s ago{where},"

    def interrupt(self) -> None:
        """Raise an exception in the Python function that a cancelled step is in, if it is in one; it comes with the
        function's next line.
        """
        with _lock:
            # A step notes what it does next, or that it commits, before it asks whether it is cancelled. So what it
            # has noted by now it does not go beyond.
            if self._ident is not None and self.in_python and not self.token.committing:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._ident), ctypes.py_object(Ended))

    @property
    def in_python(self) -> bool:
        """Whether the step is in a Python function, or in something else that only the host does."""
        definition = getattr(self.token.at, "definition", None)
        return definition is not None and definition.kernel is None and definition.effect.kind in ("io", "pure")


class _StepThread:
    """A thread that runs steps one after the other."""

    def __init__(self, first: _Handed) -> None:
        self.handed: _Handed | None = first
        self.wake = _thread.allocate_lock()

    def start(self) -> None:
        """Start the thread."""
        self.wake.acquire()
        threading.Thread(target=self._work, name="anabranch-step", daemon=True).start()

    def _work(self) -> None:
        while self._one():
            if not self.wake.acquire(True, IDLE):
                with _lock:
                    if self.handed is None:
                        if self in _idle:
                            _idle.remove(self)
                        return

    def _one(self) -> bool:
        """Run the step that was handed in; whether there may be another."""
        handed = self.handed
        assert handed is not None
        handed.execute()
        with _lock:
            self.handed = None
            if not handed.left:
                _idle.append(self)
            stays = not handed.left
        handed.finish()
        return stays


def wait(work: Callable[[], Any]) -> Any:
    """What ``work`` returns, which only waits for something, and can be left without any consequence."""
    handed = _Handed(work, CancellationToken(), lambda: "a wait for a step in flight")
    handed.silent = True
    try:
        _hand_over(handed)
        while not handed.ended:
            handed.wait()
    except BaseException:
        handed.leave("interrupted")
        raise
    return handed.outcome()


def run(
    work: Callable[[], Any],
    token: CancellationToken,
    on_leave: Callable[[errors.OpError], None],
    describe: Callable[[], str],
) -> Any:
    """Run a step on a thread and wait for it.

    Args:
        work: runs the step; called in any case, also if the step is cancelled before it begins.
        token: the step's.
        on_leave: called when a cancelled step is left, with the error that the caller gets.
        describe: says which step it is.

    Returns:
        What ``work`` returns.

    Raises:
        OpError: the step failed, or was cancelled, or its deadline has passed. NoThread: it has not begun, as the
        process can have no further thread.
    """
    handed = _Handed(work, token, describe)
    try:
        with token.on_cancel(handed.ring):
            _hand_over(handed)
            while not handed.ended:
                handed.wait(token.deadline)
                if not handed.ended and token.cancelled:
                    token.expire()
                    if handed.ends_by(time.monotonic() + GRACE):
                        break
                    problem = token.error(token.at if hasattr(token.at, "name") else None)
                    late = isinstance(problem, errors.DeadlineExceededError)
                    if handed.leave("left at its deadline" if late else "cancelled"):
                        assert problem is not None
                        on_leave(problem)
                        raise problem
    except (errors.OpError, NoThread):
        raise
    except BaseException as interrupt:  # Ctrl-C, or what another signal's handler raises
        held = interrupts.Interrupts()  # a second Ctrl-C waits until it is known what becomes of the step
        held.hold()
        try:
            token.cancel(errors.CancelledError(None, None, "Step was interrupted."))
            handed.interrupt()
            if not handed.ends_by(time.monotonic() + GRACE) and handed.leave("interrupted"):
                interrupt.add_note(
                    "The interrupted step goes on until its program, or function, returns; whoever needs variables "
                    "that it holds waits for it. A warning tells whether it was done."
                )
        finally:
            held.release()
        raise
    return handed.outcome()


def _hand_over(handed: _Handed) -> None:
    held = interrupts.Interrupts()  # a step that is listed as running is one that a thread will end
    held.hold()
    try:
        _hand_to_thread(handed)
    finally:
        held.release()


def _hand_to_thread(handed: _Handed) -> None:
    with _lock:
        _running.add(handed)
        thread = _idle.pop() if _idle else None
        if thread is not None:
            thread.handed = handed
    if thread is not None:
        thread.wake.release()
        return
    atexit.unregister(_end)
    atexit.register(_end)
    try:
        _StepThread(handed).start()
    except RuntimeError as problem:
        with _lock:
            _running.discard(handed)
        raise NoThread(f"a step that may last runs on a thread of its own, and {problem}") from problem


# ------------------------------------------------------------------------------------------------ the process's end
@engine.when_loaded
def _after_jax(_: Any) -> None:
    """What is registered after JAX's own is called before JAX gives up its devices."""
    atexit.unregister(_end)
    atexit.register(_end)


def _end() -> None:
    with _lock:
        steps = list(_running)
    for handed in steps:
        handed.token.cancel(errors.CancelledError(None, None, "The process ends."))
    soon = time.monotonic() + GRACE
    for handed in steps:
        _wait_for_end(handed, soon)


def _wait_for_end(handed: _Handed, soon: float) -> None:
    since = time.monotonic()
    say = soon
    handed.interrupt()
    while not handed.ended:
        now = time.monotonic()
        if handed.in_python and now > since + LAST_WAIT:
            _log.warning("The process ends while %s still runs", handed)
            return
        if now >= say:
            _log.warning("The process waits for %s to end; so far for %.1f s", handed, now - since)
            say = now + _SAY_AGAIN
        time.sleep(0.01)
    if say > soon:
        _log.warning("The process goes on to end, after %.1f s", time.monotonic() - since)


def _after_fork() -> None:
    """In a forked child: threads, and the steps that they run, are the parent's."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
