"""Files that appear whole or not at all: written beside their places, forced to the disk, then renamed.

A file that is being written is called ``NAME.tempstate-HOST-PID-N``. If a process dies in the middle, its file is
removed by the next one on that host that writes under the same name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import conditions, file_errors

SYNC_EVERY = 1 << 26
_MARK = ".tempstate-"
_numbers = itertools.count()


def _host() -> str:
    return socket.gethostname().replace("-", "_").replace(os.sep, "_")


class Syncing:
    """A file whose data is forced to the disk while more is being written, so that little is left to do at the end."""

    def __init__(self, stream: Any, go_on: Callable[[], None]) -> None:
        self._stream = stream
        self._go_on = go_on
        self._new = 0
        self._thread: threading.Thread | None = None

    def write(self, data: Any) -> None:
        """Append bytes."""
        self._go_on()
        self._stream.write(data)
        self._new += len(data)
        if self._new >= SYNC_EVERY and (self._thread is None or not self._thread.is_alive()):
            self._new = 0
            self._thread = threading.Thread(target=self._sync, name="anabranch-sync", daemon=True)
            conditions.start(self._thread)

    def _sync(self) -> None:
        with contextlib.suppress(OSError):  # the last one, in the writer's own thread, tells
            os.fdatasync(self._stream.fileno())

    def finish(self) -> None:
        """Wait for what runs."""
        if self._thread is not None:
            self._thread.join()


class Staged:
    """Files on their way to their places.

    Leaving the block without :meth:`commit` removes what was written. ``go_on`` is asked before each write and before
    the files go to their places; it raises if nobody waits for them any more.
    """

    def __init__(self, go_on: Callable[[], None] = lambda: None) -> None:
        self._go_on = go_on
        self._files: dict[str, str] = {}  # place -> file beside it
        self._own: set[str] = set()

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *problem: object) -> None:
        for beside in self._own.intersection(self._files.values()):
            with contextlib.suppress(OSError):
                os.unlink(beside)
        self._files.clear()

    @contextlib.contextmanager
    def open(self, place: str, buffering: int = 1 << 18) -> Iterator[Any]:
        """A new binary file that will stand at ``place``; on the disk when the block ends."""
        file_errors.check_local(place)
        beside = f"{place}{_MARK}{_host()}-{os.getpid()}-{next(_numbers)}"
        try:
            with open(beside, "xb", buffering=buffering) as stream:
                self._files[place] = beside
                self._own.add(beside)
                writer = Syncing(stream, self._go_on)
                try:
                    yield writer
                finally:
                    writer.finish()
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as problem:
            raise file_errors.error_of(problem, place) from problem

    def move(self, beside: str, place: str) -> None:
        """Take a file that is complete, and will stand at ``place``; it is left where it is on a failure."""
        self._files[place] = beside

    def commit(self) -> None:
        """Rename all files to their places in the order in which they were opened; the last one makes them count."""
        folders = set()
        self._go_on()
        for place, beside in list(self._files.items()):
            try:
                os.replace(beside, place)
            except OSError as problem:
                raise file_errors.error_of(problem, place) from problem
            del self._files[place]
            folders.add(os.path.dirname(place) or ".")
        for folder in folders:
            sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Force the names in a folder to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def paths_from(start: str) -> list[str]:
    """The paths that begin with ``start``, in the folder that it names; none if there is no such folder.

    (``glob`` keeps a compiled pattern for each of the last 32,768 names that it was asked for: 1.8 KB for each
    step that a program saves.)
    """
    folder, name = os.path.split(start)
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        return sorted([os.path.join(folder, entry.name) for entry in entries if entry.name.startswith(name)])
    return []


def remove_leftovers(place: str, others: bool = False) -> None:
    """Remove files for ``place``, and for all ``others`` whose names begin so, whose writers on this host are gone."""
    for path in paths_from(place if others else f"{place}{_MARK}"):
        if _MARK not in path[len(place) :]:
            continue
        host, _, process_text = path.rpartition(_MARK)[2].partition("-")
        process = process_text.partition("-")[0]
        if host != _host() or not process.isdigit() or int(process) == os.getpid():
            continue
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                os.unlink(path)
        except OSError:  # it lives, and is another user's
            continue


def make_folder_of(path: str) -> None:
    """Make the folder in which ``path`` stands."""
    folder = os.path.dirname(path)
    if folder:
        with file_errors.translated(folder):
            os.makedirs(folder, exist_ok=True)
