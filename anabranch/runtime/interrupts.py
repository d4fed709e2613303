"""Ctrl-C at a bad moment: held back while variables have given their buffers away.

A Python signal handler runs between two bytecodes, and a call into the compiled program is one bytecode: an interrupt
that arrives during it is raised before the program's results are stored anywhere. For a program that owns the buffers
of variables, that would lose them. So SIGINT is only noted from the moment in which the buffers are given away until
the new versions are current, and handled then. Other threads than the main one never see an interrupt.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

# The C function behind signal.signal: the wrapper's conversions to enums take ten times as long as the call.
_set_handler: Any = getattr(signal.signal, "__wrapped__", signal.signal)
_main = threading.main_thread()


class Interrupts:
    """Holds SIGINT back between :meth:`hold` and :meth:`release`; both may be called again at no price."""

    __slots__ = ("_previous", "_seen")

    def __init__(self) -> None:
        self._previous: Any = None
        self._seen: Any = None

    def hold(self) -> None:
        """From now on an interrupt is only noted."""
        if self._previous is None and threading.get_ident() == _main.ident:
            self._previous = _set_handler(signal.SIGINT, self._note)
            if not callable(self._previous):  # the program ends by the signal, or ignores it: nothing to protect
                _set_handler(signal.SIGINT, self._previous)
                self._previous = None

    def _note(self, number: int, frame: Any) -> None:
        self._seen = (number, frame)

    def release(self) -> None:
        """Interrupts are handled again, first the one that was noted."""
        previous = self._previous
        if previous is not None:
            self._previous = None
            _set_handler(signal.SIGINT, previous)
            if self._seen is not None:
                seen, self._seen = self._seen, None
                previous(*seen)
