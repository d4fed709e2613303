"""A process of a cluster that is asked to end (SIGTERM), and the others that hear of it.

Policy. A worker that is asked to end finishes its step; its monitored session stops as if the program had wanted it, so
that the chief writes a checkpoint and the session is closed at all tasks. A task that holds state (``Server.join``)
says that it leaves with its next answers, and stays until its sessions are closed or its patience is at an end. Who
hears that lets go of its session; the chief writes a checkpoint first. Then sessions are made anew as after the death
of a task: they wait until it is back.

The first signal asks. A second one ends the process as it always did. A handler that the program has installed itself
is left alone, and no thread but the main one can have any.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.platform import logging
from anabranch.train import basic_session_run_hooks
from anabranch.train.session_run_hook import SessionRunHook

_watching: weakref.WeakSet[Termination] = weakref.WeakSet()
"""Who is told of the first signal."""


def _note(number: int, frame: Any) -> None:
    """Tell who listens; the next signal is handled as without us."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    told = list(_watching)
    _watching.clear()
    for termination in told:
        termination.ask()
    if not told:  # who began to listen has been dropped
        signal.raise_signal(signal.SIGTERM)


class Termination:
    """Whether the process has been asked to end since :meth:`watch`."""

    def __init__(self, when_asked: Callable[[], None] = lambda: None) -> None:
        self.asked = False
        self._when_asked = when_asked

    def watch(self) -> None:
        """Note SIGTERM from now on, if the program does not."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGTERM)
        if handler is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _note)
        elif handler is not _note:
            return
        _watching.add(self)

    def ask(self) -> None:
        """Note that the process was asked to end."""
        self.asked = True
        self._when_asked()

    def end(self) -> None:
        """Listen no more."""
        _watching.discard(self)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not _watching and signal.getsignal(signal.SIGTERM) is _note:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class TerminationHook(SessionRunHook):
    """Stop a monitored session of a cluster when its process, or a task that it uses, is asked to end.

    Args:
        is_chief: whether to write a checkpoint before the session is lost.
    """

    def __init__(self, is_chief: bool) -> None:
        self._is_chief = is_chief
        self._termination = Termination()

    def begin(self) -> None:
        """Begin to listen."""
        self._termination.watch()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ask for the end, or give up a session of tasks that leave.

        Raises:
            AbortedError: a task leaves. The monitored session makes a new session once it is back.
        """
        session = run_context.session
        if self._termination.asked:
            logging.info("This process was asked to end (SIGTERM): training stops after this step.")
            run_context.request_stop()
            return
        leaving = sorted(getattr(getattr(session, "_worker", None), "leaving", ()))
        if not leaving:
            return
        if self._is_chief:
            for saver in basic_session_run_hooks.checkpoint_savers(session.graph):
                saver.save_now(session)
        raise errors.AbortedError(None, None, f"{', '.join(leaving)} was asked to end, and leaves the cluster")

    def release(self) -> None:
        """Listen no more: the session is closed, or was never made."""
        self._termination.end()


__all__ = ["Termination", "TerminationHook"]
