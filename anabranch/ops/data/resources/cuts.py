"""Cuts: places of iterators are saved between the steps that take elements from them.

A step takes an element, computes, and commits what it has learned from it. A place that were saved in between would be
behind an element that the variables of the same checkpoint have not seen. So whoever saves waits until steps that took
elements are over, and steps that would take their first wait until it is: for a program of one thread neither ever
happens. All iterators of a session are cut together, so that a step that takes from two is not cut in the middle.

A step that waits for something else (to enqueue into a full queue, which perhaps is emptied by whoever saves) is not
waited for longer than :data:`PATIENCE`: what it has taken counts as given out, like the elements in the queue.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from anabranch.core.cancellation import CancellationToken

PATIENCE = 0.5
"""Seconds for which a step that itself waits is waited for."""
_PAUSE = 0.001
_log = logging.getLogger("anabranch")


class Cut:
    """The steps of a session that have taken elements, and the one that saves."""

    def __init__(self) -> None:
        self._takers: dict[int, CancellationToken] = {}
        """Of each thread the last step that took an element."""
        self._saver: CancellationToken | None = None
        self._lock = threading.Lock()

    @staticmethod
    def of(ctx: Any) -> Cut:
        """That of a session's iterators."""
        cut: Cut = ctx.manager.shared.object(ctx.handle("cut", "", "iterators", ""), Cut)
        return cut

    def take(self, token: CancellationToken) -> None:
        """Called by a step before it takes an element."""
        thread = threading.get_ident()
        takers = self._takers
        if takers.get(thread) is token:
            return
        while True:
            takers[thread] = token  # said before it is asked: who saves says that first, and then looks here
            saver = self._saver
            if saver is None or saver is token or saver.ended:
                return
            takers.pop(thread, None)
            self._pause(token)

    def save(self, token: CancellationToken) -> None:
        """Called by a step before it saves a place: wait until no other step is between an element and its end."""
        while True:
            with self._lock:
                if self._saver is None or self._saver is token or self._saver.ended:
                    self._saver = token
                    break
            self._pause(token)
        began = time.monotonic()
        while True:
            others = [taker for taker in list(self._takers.values()) if taker is not token and not taker.ended]
            if not others:
                return
            if all(taker.waits for taker in others) and time.monotonic() - began > PATIENCE:
                _log.warning(
                    "The place of an iterator is saved behind an element of a step that is still at %s.", others[0].at
                )
                return
            self._pause(token)

    @staticmethod
    def _pause(token: CancellationToken) -> None:
        token.raise_if_cancelled()
        time.sleep(_PAUSE)
