"""One event file: a queue, and a thread that writes what comes.

Policy. `add` only queues; the caller waits when `max_queue` events wait already. The thread takes all that wait, frames
them and hands them to the operating system in one `write`, so that a process that is killed loses what still waits in
the queue and nothing else: no buffer of ours holds back what was taken. (`flush` waits until nothing waits.) It takes
what has gathered in 20 ms, or half a queue: waking it for each event would cost a fast step as much again. If the
file system refuses, the first call that follows raises what it said, and the file is cut back to its last whole record,
so that what is written later can be read. A file that was deleted (with its folder, most often) is made again at the
next event. A normal exit of Python writes the rest; so does a writer that nobody holds any more, but nobody waits for
it: the garbage collector may meet it in a thread that holds whatever the writing needs.

A forked child has no thread and must not write into its parent's file: the first event there opens a file of its own.
"""

from __future__ import annotations

import atexit
import collections
import os
import socket
import threading
import time
import weakref
from typing import Any

from anabranch.core import conditions, errors, file_errors
from anabranch.core.contract import hooks
from anabranch.core.protos import event_pb2
from anabranch.formats.records import framed

VERSION = "brain.Event:2"
_GATHER_SECONDS = 0.02


def _new_file(logdir: str, suffix: str) -> tuple[str, int]:
    """Path and descriptor of a new file whose name says when and where; a number tells apart what is made at once."""
    base = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
    count = 0
    while True:
        path = os.path.join(logdir, base + (f".{count}" if count else "") + suffix)
        try:
            return path, os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o666
            )
        except FileExistsError:
            count += 1
        except (OSError, ValueError) as problem:
            raise file_errors.error_of(problem, path) from None


def _first_event() -> bytes:
    return event_pb2.Event(wall_time=time.time(), file_version=VERSION).SerializeToString()


class _Queue:
    """What a writer and its thread share. (The thread does not hold the writer: one that is forgotten can end.)"""

    def __init__(self, logdir: str, suffix: str, max_queue: int) -> None:
        self.logdir = logdir
        self.suffix = suffix
        self.path, self.file = _new_file(logdir, suffix)
        self.max_queue = max(1, max_queue)
        self.changed = conditions.Condition()
        self.waiting: collections.deque[bytes] = collections.deque()
        self.taken = 0
        self.enough = self.max_queue // 2 + 1
        self.hurried = 0
        self.ending = False
        self.problem: errors.OpError | None = None
        self.pid = os.getpid()

    def run(self) -> None:
        """The thread: writes until told to end and nothing waits, and closes the file."""
        try:
            self._work()
        finally:
            _unfinished.pop(self, None)
            os.close(self.file)

    def end(self) -> None:
        """Let the thread end when all is written; waits for nothing."""
        with self.changed:
            self.ending = True
            self.changed.notify_all()

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.ending)
                if not self.waiting:
                    return
                self.changed.wait_for(
                    lambda: len(self.waiting) >= self.enough or self.ending or self.hurried, _GATHER_SECONDS
                )
                batch = list(self.waiting)
                self.waiting.clear()
                self.taken = len(batch)
                self.changed.notify_all()
            problem = self._write([framed(record) for record in batch])
            with self.changed:
                self.taken = 0
                self.problem = self.problem or problem
                self.changed.notify_all()

    def _write(self, records: list[bytes]) -> errors.OpError | None:
        try:
            self._make_again()
            before = os.fstat(self.file).st_size
            view = memoryview(b"".join(records))
            try:
                while view:
                    view = view[os.write(self.file, view) :]
            except OSError:
                self._cut_back(before, records)
                raise
        except OSError as problem:
            return file_errors.error_of(problem, self.path)
        return None

    def _make_again(self) -> None:
        """Open a new file if nobody can find the one that is open any more."""
        if os.fstat(self.file).st_nlink:
            return
        os.makedirs(self.logdir, exist_ok=True)
        path, file = _new_file(self.logdir, self.suffix)
        os.close(self.file)
        self.path, self.file = path, file
        os.write(self.file, framed(_first_event()))

    def _cut_back(self, before: int, records: list[bytes]) -> None:
        """Leaves those of the records in the file that are whole, if it was ``before`` bytes long without them."""
        size, end = os.fstat(self.file).st_size, before
        for record in records:
            if end + len(record) > size:
                break
            end += len(record)
        os.ftruncate(self.file, end)

    def check(self) -> None:
        """Raise what the file system said, once."""
        with self.changed:
            problem, self.problem = self.problem, None
        if problem is not None:
            raise problem

    def put(self, record: bytes) -> None:
        """Queue a record, waiting while the queue is full."""
        self.check()
        with self.changed:
            self.changed.wait_for(lambda: len(self.waiting) < self.max_queue or self.ending)
            self.waiting.append(record)
            if len(self.waiting) in (1, self.enough):
                self.changed.notify_all()

    def wait(self) -> None:
        """Wait until all is written."""
        with self.changed:
            self.hurried += 1
            try:
                self.changed.notify_all()
                self.changed.wait_for(lambda: not self.waiting and not self.taken)
            finally:
                self.hurried -= 1


_unfinished: dict[_Queue, threading.Thread] = {}
"""The threads that write."""


def _end(queue: _Queue) -> None:
    """Have the rest written and the file closed; in a forked child, which has no thread, only close it."""
    if queue.pid != os.getpid():
        os.close(queue.file)
        return
    thread = _unfinished.get(queue)
    queue.end()
    if thread is not None:
        thread.join()


@atexit.register
def _end_all() -> None:
    """Have all written before the process ends."""
    for queue in list(_unfinished):
        if queue.pid == os.getpid():
            _end(queue)


class EventFileWriter:
    """Append events to a new event file in ``logdir``.

    Args:
        logdir: the folder; it is made if it does not exist.
        max_queue: how many events may wait; adding another one waits for room.
        flush_secs: kept for its name: an event is given to the operating system as soon as the thread comes to it.
        filename_suffix: end of the file's name.
    """

    def __init__(
        self, logdir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str | None = None
    ) -> None:
        self._logdir = file_errors.local(logdir)
        self._max_queue = max_queue
        self._suffix = filename_suffix or ""
        self._closed = True
        self._forgotten: Any = None
        self._open()

    def _open(self) -> None:
        with file_errors.translated(self._logdir):
            os.makedirs(self._logdir, exist_ok=True)
        self._queue = _Queue(self._logdir, self._suffix, self._max_queue)
        thread = threading.Thread(target=self._queue.run, name="EventFileWriter", daemon=True)
        _unfinished[self._queue] = thread
        conditions.start(thread)
        self._forgotten = weakref.finalize(self, self._queue.end)
        self._forgotten.atexit = False
        self._closed = False
        self._queue.put(_first_event())

    @property
    def path(self) -> str:
        """The file."""
        return self._queue.path

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def _own(self) -> None:
        """In a forked child, opens a file of its own."""
        if self._queue.pid != os.getpid():
            self._forgotten.detach()
            os.close(self._queue.file)
            self._open()

    def add_event(self, event: Any) -> None:
        """Queue an event; without effect after :meth:`close`."""
        if self._closed:
            return
        self._own()
        self._queue.put(event.SerializeToString())

    def flush(self) -> None:
        """Wait until all events are in the file.

        Raises:
            OpError: the file system refused one.
        """
        if self._closed:
            return
        self._own()
        self._queue.wait()
        self._queue.check()

    def close(self) -> None:
        """Write what waits and close the file; a second call does nothing.

        Raises:
            OpError: the file system refused an event.
        """
        if self._closed:
            return
        self._closed = True
        self._forgotten.detach()
        _end(self._queue)
        if self._queue.pid == os.getpid():
            self._queue.check()

    def reopen(self) -> None:
        """After :meth:`close`, opens a new file in the same folder; without effect on an open writer."""
        if self._closed:
            self._open()


hooks.fill("event_writer", EventFileWriter)
