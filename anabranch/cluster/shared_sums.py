"""Sums over the processes of one machine, in memory that all of them see.

Policy. Tasks that meet for the same key again and again, all on one machine, share a *table*: anonymous memory
(``memfd``) with a slot for the value of each, and room for two results. A meeting has two halves. A task copies its
value to its slot and says that it has *come*; when all have, each adds up one part of all slots, in the order of the
tasks, and says that it is *done*; when all are, the result stands in the table, whole, and is the array that each task
gets, read-only. So a value is copied once, and no message carries it.

*Who waits sleeps*: each task has a pipe, whose other ends are written to by the others. The system orders what stands
in memory before a message and what is read behind it.

*A result is free again* when no task refers to it. Each task says with its arrival which results it still holds; all
hear the same, and take the first that nobody holds. If there is none, or values differ in size, all of them go the
other way (:mod:`anabranch.cluster.company`), which also has the error for the latter.

*Agreement.* A table is set up by two small meetings at the first worker: the first tells what each has opened, the
second whether each could open that of all others. If one could not, nobody uses the table. A table ends with its
generation, and is never used again.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import select
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.cluster.meetings import SAY_AFTER, aborted

MOST_TASKS, MOST_TABLES = 16, 16
"""Tasks that share a table, and tables that a task has, at most: each needs a descriptor for each of its tasks."""
RESULTS = 2
_BLOCK = 1 << 17
"""Bytes that are added up of all slots before the next are: they stay in a core's cache."""
_FREE = 2
"""References to a result's memory that nobody uses: by the table, and by the call that counts."""
_MESSAGE = struct.Struct("<BxHIQqI")
"""What it says, of which task, the results that it holds, the number of the meeting, bytes and kind of the value."""
_COME, _DONE, _END = range(3)
_logger = logging.getLogger("anabranch")


class _Arrival(NamedTuple):
    """What a task has said of a meeting to which it has come."""

    number: int
    held: int
    size: int
    kind: int


class Table:
    """A task's side of the memory that it shares with others for the values of one key.

    Args:
        tasks: all of them, in the order in which values are added up.
        own: the task.
        size: of a value, in bytes.
    """

    def __init__(self, tasks: Sequence[str], own: str, size: int) -> None:
        self._tasks, self._place, self._size = tasks, tasks.index(own), size
        self._room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._lock = threading.Lock()
        """Held by who meets."""
        self._closing = threading.Lock()
        self._descriptors: list[int] = []
        """A pipe's end to read from and that to write to, then, in the order of the tasks, the others' to write to."""
        self._slots: list[np.ndarray] = []
        self._results: list[np.ndarray] = []
        self._come = [_Arrival(-1, 0, 0, 0)] * len(tasks)
        self._done = [-1] * len(tasks)
        self._over: str | None = None
        self._memory = -1
        try:
            self._descriptors += os.pipe()
            for descriptor in self._descriptors:
                os.set_blocking(descriptor, False)
            if not self._place:
                self._memory = os.memfd_create("anabranch-sums")
                os.ftruncate(self._memory, self._room * (len(tasks) + RESULTS))
        except (OSError, AttributeError):  # no descriptor is left, or the system has no such memory
            self.close()

    def shown(self) -> list[int]:
        """Numbers by which the others open what this task has made: the last is 0 if it has made nothing."""
        if not self._descriptors:
            return [0] * 4
        return [os.getpid(), self._descriptors[1], self._memory, self._size]

    def open(self, shown: Sequence[Sequence[int]]) -> bool:
        """Open what all tasks have shown; whether it was possible, and their values have one size."""
        if not self._descriptors or any(size != self._size for *_, size in shown):
            return False
        try:
            for pid, bell, *_ in shown:
                self._descriptors.append(os.open(f"/proc/{pid}/fd/{bell}", os.O_WRONLY | os.O_NONBLOCK))
            pid, _, number, _ = shown[0]
            descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR)
            try:
                memory = mmap.mmap(descriptor, self._room * (len(shown) + RESULTS))
            finally:
                os.close(descriptor)
        except (OSError, ValueError):  # on another machine, of another user, or not there any more
            return False
        parts = [np.frombuffer(memory, np.uint8, self._room, i * self._room) for i in range(len(shown) + RESULTS)]
        self._slots, self._results = parts[: len(shown)], parts[len(shown) :]
        return True

    def settle(self, by_all: bool) -> bool:
        """Note whether all tasks have opened it, so that nobody opens it any more."""
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1
        if not by_all:
            self.close()
        return by_all

    # --------------------------------------------------------------------------------------------------------- meetings
    def meet(
        self, number: int, function: Callable[..., Any], values: Sequence[np.ndarray], shape: Sequence[int]
    ) -> np.ndarray | None:
        """Bring a value to a meeting, as parts that follow each other; what has become of those of all tasks.

        Args:
            number: of the meeting.
            function: of NumPy, what makes one value of two.
            values: the parts, of one dtype.
            shape: of the result.

        Returns:
            The result, read-only; None, for all tasks, if this time they must go the other way.

        Raises:
            AbortedError: the generation has ended.
        """
        try:
            with self._lock:
                return self._meet(number, function, values, shape)
        finally:
            if self._over is not None:
                self._close_unused()

    def _meet(
        self, number: int, function: Callable[..., Any], values: Sequence[np.ndarray], shape: Sequence[int]
    ) -> np.ndarray | None:
        self._check()
        size = sum(value.nbytes for value in values)
        dtype = values[0].dtype if values else np.dtype(np.uint8)
        if size == self._size:
            at = 0
            for value in values:
                part = self._slots[self._place][at : at + value.nbytes]
                np.copyto(part.view(dtype).reshape(value.shape), value)
                at += value.nbytes
        held = sum(1 << i for i in range(RESULTS) if sys.getrefcount(self._results[i]) > _FREE)
        kind = zlib.crc32(f"{dtype.str} {dtype.name} {tuple(shape)}".encode())
        own = _Arrival(number, held, size, kind)
        self._say(_COME, own)
        self._wait(number, lambda: [arrival.number for arrival in self._come])
        free = [i for i in range(RESULTS) if not any(arrival.held >> i & 1 for arrival in self._come)]
        if not free or any(arrival._replace(held=held, size=self._size) != own for arrival in self._come):
            return None
        if any(arrival.size != self._size for arrival in self._come):
            return None
        result = self._results[free[0]][: self._size].view(dtype)
        self._add_up(function, dtype, result)
        self._say(_DONE, own)
        self._wait(number, lambda: self._done)
        result.flags.writeable = False
        return result.reshape(shape)

    def _add_up(self, function: Callable[..., Any], dtype: np.dtype[Any], result: np.ndarray) -> None:
        """Compute this task's part of the result."""
        slots = [slot[: self._size].view(dtype) for slot in self._slots]
        start, stop = (len(result) * i // len(slots) for i in (self._place, self._place + 1))
        step = _BLOCK // dtype.itemsize
        for at in range(start, stop, step):
            block = slice(at, min(at + step, stop))
            total = result[block]
            function(slots[0][block], slots[1][block], out=total)
            for slot in slots[2:]:
                function(total, slot[block], out=total)

    def _say(self, what: int, own: _Arrival) -> None:
        message = _MESSAGE.pack(what, self._place, own.held, own.number, own.size, own.kind)
        for place, descriptor in enumerate(self._descriptors[2:]):
            if place != self._place:
                with contextlib.suppress(BrokenPipeError):  # it is gone: so is the generation, soon
                    os.write(descriptor, message)
        self._note(message)

    def _note(self, message: bytes) -> None:
        what, place, held, number, size, kind = _MESSAGE.unpack(message)
        if what == _COME:
            self._come[place] = _Arrival(number, held, size, kind)
        elif what == _DONE:
            self._done[place] = number

    def _wait(self, number: int, numbers: Callable[[], Sequence[int]]) -> None:
        """Sleep until the tasks have said numbers that are not smaller."""
        pipe = self._descriptors[0]
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while min(numbers()) < number:
            if poll.poll(SAY_AFTER * 1000):
                data = os.read(pipe, _MESSAGE.size * 64)
                for at in range(0, len(data), _MESSAGE.size):
                    self._note(data[at : at + _MESSAGE.size])
            else:
                late = [task for task, known in zip(self._tasks, numbers(), strict=True) if known < number]
                _logger.warning("%s waits in a collective for %s", self._tasks[self._place], late)
            self._check()

    def _check(self) -> None:
        if self._over is not None:
            raise aborted(self._over)

    # -------------------------------------------------------------------------------------------------------------- end
    def end(self, why: str) -> None:
        """End the meetings: who waits in one, or comes to one later, gets AbortedError."""
        self._over = self._over or why
        with self._closing:
            if self._descriptors:
                with contextlib.suppress(BlockingIOError):  # it has enough to read
                    os.write(self._descriptors[1], _MESSAGE.pack(_END, self._place, 0, 0, 0, 0))
        self._close_unused()

    def _close_unused(self) -> None:
        """Close it unless somebody meets: who does closes it on leaving."""
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Let go of everything. Results stay as they are."""
        with self._closing:
            descriptors, self._descriptors = self._descriptors, []
            if self._memory >= 0:
                descriptors.append(self._memory)
                self._memory = -1
        for descriptor in descriptors:
            os.close(descriptor)
        self._slots, self._results = [], []
