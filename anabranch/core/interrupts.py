"""Ctrl-C at a bad moment: held back while variables have given their buffers away, or a module is half imported.

A Python signal handler runs between two bytecodes, and a call into the compiled program is one bytecode: an interrupt
that arrives during it is raised before the program's results are stored anywhere. For a program that owns the buffers
of variables, that would lose them. So SIGINT is only noted from the moment in which the buffers are given away until
the new versions are current, and handled then. Other threads than the main one never see an interrupt.

The handler that does so stays in place between steps, where it hands on at once to the one that was there before:
setting and resetting it costs a step 80 µs when the program has emptied the caches. It goes with the last session.
Whoever sets a handler of their own has it wrapped by the next step.

Our own modules are imported, when a name is first used, with interrupts held back (:func:`held`): an import that an
exception cuts short leaves tables half filled. That takes a third of a second; what takes longer is
:mod:`anabranch.core.one_time`'s.

An exception that a handler raises inside a callback of the garbage collector, of a weak reference or in ``__del__``
(JAX has such callbacks, so have we and programs) is not raised anywhere: Python prints it and goes on. So a
``KeyboardInterrupt`` that Python reports to ``sys.unraisablehook`` is delivered once more: SIGINT is raised again when
the callback is over, and our handler then raises the exception that was dropped instead of asking the program's handler
a second time. If another callback runs by then, that repeats itself. All else goes to the hook that was there before.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # (no stubs)
import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

# The C functions behind the module's: the wrappers' conversions to enums take ten times as long as the calls.
_set_handler: Any = _signal.signal
_get_handler: Any = _signal.getsignal
_main = threading.main_thread().ident
_ident = threading.get_ident


class _Handler:
    """Notes SIGINT while a step holds it back, else hands it on."""

    __slots__ = ("previous",)

    def __init__(self, previous: Any):
        self.previous = previous

    def __call__(self, number: int, frame: Any) -> None:
        if _held.steps:
            _held.seen = (self.previous, number, frame)
            if _held.waiter is not None:
                with contextlib.suppress(RuntimeError):  # it is free
                    _held.waiter.release()
        else:
            _hand_on(self.previous, number, frame)


class _Held:
    """How many steps of the main thread hold SIGINT back, and the one that came meanwhile."""

    __slots__ = ("dropped", "seen", "steps", "waiter")

    def __init__(self) -> None:
        self.steps = 0
        self.seen: Any = None
        self.dropped: BaseException | None = None
        """What a handler raised where nothing can be raised."""
        self.waiter: Any = None
        """A lock that the main thread waits for, which an interrupt frees."""


_held = _Held()


def _hand_on(previous: Any, number: int, frame: Any) -> None:
    dropped, _held.dropped = _held.dropped, None
    if dropped is not None:
        raise dropped
    previous(number, frame)


class Interrupts:
    """Hold SIGINT back between :meth:`hold` and :meth:`release`; both may be called again at no price."""

    __slots__ = ("_holding",)

    def __init__(self) -> None:
        self._holding = False

    def hold(self) -> None:
        """From now on an interrupt is only noted."""
        if self._holding or _ident() != _main:
            return
        if not _handles():
            return
        self._holding = True
        _held.steps += 1

    def release(self) -> None:
        """Interrupts are handled again, first the one that was noted."""
        if self._holding:
            self._holding = False
            _held.steps -= 1
            if _held.seen is not None and not _held.steps:
                (previous, number, frame), _held.seen = _held.seen, None
                _hand_on(previous, number, frame)


def _handles() -> bool:
    """Put our handler in place; False if the program ends by the signal, or ignores it: nothing to protect."""
    current = _get_handler(signal.SIGINT)
    if type(current) is not _Handler:
        if not callable(current):
            return False
        _set_handler(signal.SIGINT, _Handler(current))
    return True


@contextlib.contextmanager
def held() -> Iterator[None]:
    """A block in which interrupts are only noted; one that came is handled at its end."""
    interrupts = Interrupts()
    interrupts.hold()
    try:
        yield
    finally:
        interrupts.release()


@contextlib.contextmanager
def waiting(waiter: Any) -> Iterator[bool]:
    """A block that waits for a lock while interrupts are held back: one that comes frees the lock.

    True if the wait ends at once: one came before. If others hold interrupts back, too, they end no wait, as nothing
    would come of it.
    """
    if _ident() != _main or _held.steps != 1:
        yield False
        return
    _held.waiter = waiter
    try:
        yield _held.seen is not None
    finally:
        _held.waiter = None


def restore() -> None:
    """Put the handler back that was there before the first step; for when no session is left."""
    if _ident() == _main and not _held.steps:
        current = _get_handler(signal.SIGINT)
        if type(current) is _Handler:
            _set_handler(signal.SIGINT, current.previous)


class _Again:
    """Something whose end raises SIGINT: by then the hook that returns one is over, and so are its bytecodes, between
    which the handler would run too early.
    """

    __slots__ = ()
    __del__ = staticmethod(_thread.interrupt_main)


def _deliver_again(unraisable: sys.UnraisableHookArgs) -> _Again | None:
    """What Python calls with an exception that cannot be raised where it came."""
    kind, value = unraisable.exc_type, unraisable.exc_value
    if issubclass(kind, KeyboardInterrupt) and _ident() == _main and not sys.is_finalizing() and _handles():
        _held.dropped = (kind() if value is None else value).with_traceback(None)
        return _Again()
    _previous_hook(unraisable)
    return None


_previous_hook: Any = sys.unraisablehook
sys.unraisablehook = _deliver_again
