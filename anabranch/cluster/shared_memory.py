"""Large values between processes of one machine: memory that both see, instead of bytes through a connection.

Policy. A value of `LEAST` bytes or more that goes to a process of the same machine and user stands in a *segment*:
anonymous memory with a descriptor (``memfd``), which the receiver opens through ``/proc``. What travels is the
segment's number. A segment has no name in any folder, so it ends with the processes that hold it, however they end.

*One copy.* A step's results are copied into segments when they leave it (:func:`anabranch.core.values.spare_arrays.
copies_to`), the copy that it would have made in any case. The receiver's array is the segment, read-only, and stands at
the start of a page, where programs take it as it is.

*Taken up again.* A segment is free when nobody here refers to its memory and the receiver has said that its array is
gone, which it says with its next message. Free segments are kept, up to `MOST_KEPT` bytes, since memory that is new has
to be cleared page by page; the receiver keeps them mapped until it hears that they were dropped.

*Who is on this machine* is found out by trying: each side shows a descriptor with a number drawn at random, which the
other must be able to read.
"""

from __future__ import annotations

import collections
import itertools
import math
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.cluster import wire
from anabranch.core import errors

LEAST = 1 << 20
"""Bytes from which on a value goes by shared memory."""
MOST_KEPT, MOST_FREE = 1 << 30, 64
"""Bytes of free segments that are kept, and how many: each has a descriptor."""
_FREE = 3
"""References to a segment's memory that nobody uses: by the segment, by who looks, and by the call that counts."""


class Shown(NamedTuple):
    """By what another process finds out whether it is on the same machine."""

    pid: int
    descriptor: int
    secret: str

    @classmethod
    def read(cls, fields: Sequence[Any] | None) -> Shown | None:
        """What another process has said that it shows."""
        if not fields:
            return None
        pid, descriptor, secret = fields
        return cls(int(pid), int(descriptor), str(secret))

    def is_seen(self) -> bool:
        """Whether this process can read it."""
        try:
            with open(f"/proc/{self.pid}/fd/{self.descriptor}", "rb") as file:
                return file.read(64).hex() == self.secret
        except OSError:
            return False


_numbers = itertools.count(1)
"""Of the segments of this process: whoever maps one does not take it for another, of an exchange before."""
_shown: list[Shown] = []
_lock = threading.Lock()


def shown() -> Shown | None:
    """What this process shows to others; None where there is no such memory."""
    if not hasattr(os, "memfd_create") or not os.path.isdir("/proc/self/fd"):
        return None
    with _lock:
        if not _shown or _shown[0].pid != os.getpid():
            secret = os.urandom(16)
            descriptor = os.memfd_create("anabranch-shown")
            os.write(descriptor, secret)
            _shown[:] = [Shown(os.getpid(), descriptor, secret.hex())]
        return _shown[0]


class _Segment:
    """Memory that another process may see."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        self.descriptor = os.memfd_create("anabranch-value")
        try:
            os.ftruncate(self.descriptor, size)
            self.memory = np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8)
        except (OSError, ValueError):
            os.close(self.descriptor)
            raise
        self.is_out = False
        """Whether the receiver has an array in it."""

    def close(self) -> None:
        """Let go of it; arrays in it stay as they are."""
        os.close(self.descriptor)


class Exchange:
    """What this side of a session sends to, and has taken from, one other process.

    Args:
        pid: the other process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._segments: list[_Segment] = []
        self._dropped: list[int] = []
        """Own segments that are gone, which the other side is to be told."""
        self._mapped: dict[int, mmap.mmap] = {}
        self._done: collections.deque[int] = collections.deque()
        """Segments of the other side whose arrays are gone here; added to without the lock, by finalizers."""
        self._closed = False

    # ---------------------------------------------------------------------------------------------------------- sending
    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """An uninitialised array in a segment; None for one that is too small for that, or if none can be made."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if size < LEAST or dtype.hasobject:
            return None
        with self._lock:
            if self._closed:
                return None
            segment = self._free(size)
            if segment is None:
                self._drop()
                try:
                    segment = _Segment(next(_numbers), -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
                except OSError:  # no descriptor is left: it goes through the connection
                    return None
                self._segments.append(segment)
            return segment.memory[:size].view(dtype).reshape(shape)

    def _free(self, size: int) -> _Segment | None:
        for segment in self._segments:
            if size <= segment.size <= 2 * size and _is_free(segment):
                return segment
        return None

    def _drop(self) -> None:
        """Let go of the free segments that were made first, if there are too many."""
        free = [segment for segment in self._segments if _is_free(segment)]
        kept = sum(segment.size for segment in free)
        for i, segment in enumerate(free):
            if kept <= MOST_KEPT and len(free) - i <= MOST_FREE:
                break
            kept -= segment.size
            self._segments.remove(segment)
            self._dropped.append(segment.number)
            segment.close()

    def encode(self, header: dict[str, Any], values: Sequence[Any]) -> bytes:
        """A message whose large values stand in segments."""
        with self._lock:
            done = [self._done.popleft() for _ in range(len(self._done))]
            dropped, self._dropped = self._dropped, []
        if done or dropped:
            header = {**header, "segments": [done, dropped]}
        return wire.encode(header, [self._sent(value) for value in values])

    def _sent(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.nbytes < LEAST or value.dtype.hasobject:
            return value
        array = value
        segment = self._segment_of(array)
        if segment is None:
            copied = self.empty(value.shape, value.dtype)
            if copied is None:
                return value
            np.copyto(copied, value)
            array = copied
            segment = self._segment_of(array)
            assert segment is not None
        segment.is_out = True
        return wire.Elsewhere(array.dtype, array.shape, segment.number, segment.descriptor, segment.size)

    def _segment_of(self, array: np.ndarray) -> _Segment | None:
        """The segment that an array is the beginning of."""
        base, address = array.base, array.ctypes.data
        if base is None or not array.flags.c_contiguous:
            return None
        with self._lock:
            for segment in self._segments:
                if base is segment.memory and address == segment.memory.ctypes.data and not segment.is_out:
                    return segment
        return None

    # -------------------------------------------------------------------------------------------------------- receiving
    def decoded(self, header: dict[str, Any], values: Iterable[Any]) -> list[Any]:
        """The values of a message of the other side.

        Raises:
            UnavailableError: the other process is gone, and its memory with it.
        """
        done, dropped = header.pop("segments", ((), ()))
        with self._lock:
            for segment in self._segments:
                if segment.number in done:
                    segment.is_out = False
            for number in dropped:
                self._mapped.pop(number, None)
        return [self._taken(value) if isinstance(value, wire.Elsewhere) else value for value in values]

    def _taken(self, value: wire.Elsewhere) -> np.ndarray:
        with self._lock:
            mapped = self._mapped.get(value.number)
            if mapped is None:
                try:
                    descriptor = os.open(f"/proc/{self._pid}/fd/{value.descriptor}", os.O_RDONLY)
                    try:
                        mapped = mmap.mmap(descriptor, value.size, mmap.MAP_SHARED, mmap.PROT_READ)
                    finally:
                        os.close(descriptor)
                except (OSError, ValueError) as problem:  # of mmap, for memory that is smaller than was said
                    raise errors.UnavailableError(
                        None,
                        None,
                        errors.message(
                            f"a value in the memory of process {self._pid}, which cannot be read ({problem})",
                            "a process that lives",
                            "start the task again; tf.train.MonitoredTrainingSession goes on from the last checkpoint",
                        ),
                    ) from None
                self._mapped[value.number] = mapped
        count = math.prod(value.shape)
        root = np.frombuffer(mapped, value.dtype, count)
        weakref.finalize(root, self._done.append, value.number).atexit = False
        return root.reshape(value.shape)

    def abandon(self) -> None:
        """Let go of the segments that are out: a call has failed, and its receiver may never say that it has them."""
        with self._lock:
            out = [segment for segment in self._segments if segment.is_out]
            self._segments = [segment for segment in self._segments if not segment.is_out]
            self._dropped += [segment.number for segment in out]
        for segment in out:
            segment.close()

    def close(self) -> None:
        """Let go of all segments. Arrays in them stay as they are."""
        with self._lock:
            self._closed = True
            segments, self._segments = self._segments, []
            self._mapped.clear()
        for segment in segments:
            segment.close()


def _is_free(segment: _Segment) -> bool:
    memory = segment.memory
    return not segment.is_out and sys.getrefcount(memory) == _FREE
