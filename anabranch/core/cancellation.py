"""Cancellation of a step: one token per run, which everything that waits waits through.

A token is cancelled by a deadline, by ``Session.close``, by Ctrl-C or by a coordinator. A kernel that blocks uses
:meth:`CancellationToken.wait_for` on its own condition; cancelling wakes it.

Nothing commits once its token is cancelled: a commit stands between :meth:`CancellationToken.begin_commit` and
:meth:`CancellationToken.end_commit`. Whoever has cancelled and finds no commit under way knows that none will follow.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors


class CancellationToken:
    """The right to go on. ``timeout`` (seconds) sets a deadline."""

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_error",
        "at",
        "beside",
        "brief",
        "commits",
        "committing",
        "deadline",
        "ended",
        "holder",
        "left",
        "reached",
    )

    _lock = threading.Lock()
    """Of all tokens: each step has one, few are ever waited on, and it is held for an instant."""

    def __init__(self, timeout: float | None = None) -> None:
        self._callbacks: dict[object, Callable[[], None]] | None = None
        self._error: errors.OpError | None = None
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.at: Any = None
        """The op that the step has come to, as far as that is noted."""
        self.beside: Any = None
        """What hears of it when an op begins to wait and when it goes on; see :mod:`anabranch.runtime.out_of_turn`."""
        self.brief = False
        """Whether the step is to give up rather than to last, as nobody can stop it."""
        self.committing = False
        self.ended = False
        """Whether the step is over."""
        self.commits = 0
        """How many segments of the step have committed."""
        self.reached: Any = None
        """The segment that the step has come to, and whether that has committed and its channel op has begun."""
        self.holder: Any = None
        """The transaction over several tasks that the step is part of, which holds variables for it; None if none."""
        self.left: Any = None
        """What is to be said of the step (as a string) if its caller went away while it runs."""

    @property
    def waits(self) -> bool:
        """Whether something waits through it now."""
        return bool(self._callbacks)

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled (a passed deadline counts)."""
        return self._error is not None or (self.deadline is not None and time.monotonic() >= self.deadline)

    def cancel(self, error: errors.OpError | None = None) -> None:
        """Cancel; ``error`` is what waiting kernels raise (CancelledError by default). Later calls change nothing."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error or errors.CancelledError(None, None, "Step was cancelled")
            callbacks = list((self._callbacks or {}).values())
        for callback in callbacks:
            callback()

    def expire(self) -> None:
        """Cancel if the deadline has passed, so that everybody hears of it."""
        if self._error is None and self.cancelled:
            self.cancel(self._late(None))

    def error(self, op: Any = None) -> errors.OpError | None:
        """What a step that is cancelled, or past its deadline, raises; None for one that may go on."""
        if self._error is not None:
            return type(self._error)(None, op, self._error.message)  # type: ignore[call-arg]
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return self._late(op)
        return None

    @staticmethod
    def _late(op: Any) -> errors.OpError:
        return errors.DeadlineExceededError(
            None,
            op,
            "Timed out waiting for notification\n"
            + errors.message(
                "a step that ran past its timeout_in_ms",
                "an end before the deadline",
                "raise RunOptions(timeout_in_ms=...), or find what it waits for "
                "(an empty queue whose producer stopped?)",
            ),
        )

    def raise_if_cancelled(self, op: Any = None) -> None:
        """Raise the token's error if it was cancelled or its deadline has passed."""
        if self._error is not None or self.deadline is not None:
            problem = self.error(op)
            if problem is not None:
                raise problem

    def begin_commit(self) -> None:
        """Raise the token's error, or make whoever cancels now wait until :meth:`end_commit`."""
        self.committing = True  # said before it is asked for: who cancels says that first, and then looks here
        try:
            self.raise_if_cancelled()
        except errors.OpError:
            self.committing = False
            raise

    def end_commit(self) -> None:
        """The commit is over."""
        self.commits += 1
        self.committing = False

    @contextlib.contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        """Run ``callback`` (from the cancelling thread) if the token is cancelled inside the block."""
        key = object()
        with self._lock:
            waiting = self._callbacks = self._callbacks if self._callbacks is not None else {}
            waiting[key] = callback
        try:
            yield
        finally:
            with self._lock:
                waiting.pop(key, None)

    def wait_for(self, condition: threading.Condition, ready: Callable[[], bool], op: Any = None) -> None:
        """Wait on ``condition`` (held by the caller) until ``ready()``; raise when cancelled or past the deadline."""
        if ready():
            return
        self.at = op if op is not None else self.at

        def wake() -> None:
            with condition:
                condition.notify_all()

        beside = self.beside
        with self.on_cancel(wake):
            try:
                if beside is not None:
                    beside.waits(op)
                while not ready():
                    self.raise_if_cancelled(op)
                    condition.wait(None if self.deadline is None else max(0.0, self.deadline - time.monotonic()))
            finally:
                if beside is not None:
                    beside.goes_on(op)
