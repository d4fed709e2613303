"""Steps that wait in threads."""

from __future__ import annotations

import threading
import time
from typing import Any

import anabranch as tf


class Waiting:
    """A step that runs in a thread; its result or its error."""

    def __init__(self, session: tf.Session, fetches: Any, feeds: Any = None) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(session, fetches, feeds), daemon=True)
        before = len(session._worker.running)
        self._thread.start()
        deadline = time.monotonic() + 5
        while len(session._worker.running) <= before and self.waits and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02)

    def _run(self, session: tf.Session, fetches: Any, feeds: Any) -> None:
        try:
            self.result = session.run(fetches, feeds)
        except (tf.errors.OpError, RuntimeError) as problem:
            self.error = problem

    @property
    def waits(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def ended(self) -> Any:
        """The result; the error is raised."""
        self._thread.join(10)
        assert not self.waits
        if self.error is not None:
            raise self.error
        return self.result
