"""An event file that a session writes: its events are ops, and all who write to its folder in that session share it."""

from __future__ import annotations

import os
from typing import Any

from anabranch.core import file_errors
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.summary.in_graph import create_file_writer


class SessionEventWriter:
    """Append events to the event file of a folder through ops of a session.

    The writer behind it is a resource of the session, found by its folder: a second one, or one of
    ``tf.contrib.summary.create_file_writer(logdir)``, writes to the same file. A session with a remote target writes
    where its server runs. Each event is a step of the session, so this is the slower way.

    Args:
        session: the session; ops are added to its graph here, and its graph must not be finalized.
        logdir: the folder, made if it does not exist.
        max_queue: how many events may wait; adding another one waits for room.
        flush_secs: kept for its name: an event does not stay in a buffer.
        filename_suffix: end of the file's name.
    """

    def __init__(
        self,
        session: Any,
        logdir: Any,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str | None = None,
    ) -> None:
        self._session = session
        self._logdir = file_errors.local(logdir)
        self.closed = False
        with file_errors.translated(self._logdir):
            os.makedirs(self._logdir, exist_ok=True)
        with session.graph.as_default(), name_scope("filewriter"):
            writer = create_file_writer(
                self._logdir,
                max_queue=max_queue,
                flush_millis=int(flush_secs * 1000),
                filename_suffix=filename_suffix or "",
            )
            self._event = build("PlaceholderWithDefault", "unused", shape=[])
            self._add = build("ImportEvent", writer._resource, self._event)
            self._open, self._flush, self._close = writer.init(), writer.flush(), writer.close()
        session.run(self._open)

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def add_event(self, event: Any) -> None:
        """Write an event in a step of the session; without effect after :meth:`close`."""
        if not self.closed:
            self._session.run(self._add, {self._event: event.SerializeToString()})

    def flush(self) -> None:
        """Wait until all events are in the file."""
        if not self.closed:
            self._session.run(self._flush)

    def close(self) -> None:
        """Write what waits and close the file; a second call does nothing."""
        if not self.closed:
            self._session.run(self._flush)
            self._session.run(self._close)
            self.closed = True

    def reopen(self) -> None:
        """After :meth:`close`, opens a new file in the same folder; without effect on an open writer."""
        if self.closed:
            self.closed = False
            self._session.run(self._open)
