"""Steps that wait in threads."""

from __future__ import annotations

import threading
from typing import Any

import anabranch as tf
from tests import running_steps


class Waiting:
    """A step that waits in a thread; its result or its error."""

    def __init__(self, session: tf.Session, fetches: Any, feeds: Any = None) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(session, fetches, feeds), daemon=True)
        before = running_steps.waiting(session)
        self._thread.start()
        running_steps.until(lambda: running_steps.waiting(session) > before or not self.waits)

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
        self._thread.join(60)
        assert not self.waits
        if self.error is not None:
            raise self.error
        return self.result
