"""Memory of large arrays, taken up again once nobody holds them.

A step that makes a batch and drops it asks the operating system for fresh pages each time, which it has to clear, page
by page: for 400 KB that takes longer than filling them does. :func:`empty` keeps an eye on the last arrays that it
gave out, and gives out their memory again when nothing refers to it any more: an array, a view of one, or a program
that reads it holds its owner, whose references are counted. What is kept is bounded (:data:`MOST_KEPT`).

By the same count it is seen when a step is the only one that holds an array that is fetched: then the caller gets the
array itself instead of a copy (:func:`held_by`).
"""

from __future__ import annotations

import collections
import contextlib
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

LEAST = 1 << 17
"""Bytes from which on memory comes from the operating system and goes back to it."""
MOST = 1 << 25
"""Bytes of an array up to which its memory is kept; a batch of 32 images of 224 by 224 in float32 has 18 MiB."""
MOST_KEPT = 1 << 27
"""Bytes that are kept in all."""
_PER_SIZE = 4
_ALIGNMENT = 64
"""That of addresses from which a program on a CPU takes arrays without a copy."""
_LOOKING = 2
"""References to what is looked at: by who looks, and by the call that counts."""
_FREE = 1 + _LOOKING
"""References to memory that nobody holds: by its entry, and by who looks."""

_kept: dict[int, collections.deque[tuple[np.ndarray, int]]] = {}
"""By size (see :func:`_rounded`), memory and where in it an array begins; sizes that were missed last stand last."""
_missing = threading.Lock()
"""Held while memory is added, and let go of."""


def _rounded(size: int) -> int:
    """A number of bytes rounded up by an eighth at most, so that arrays of ever new sizes take each other's memory."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An uninitialised array."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if not LEAST <= size <= MOST or dtype.hasobject:
        return np.empty(shape, dtype)
    kept = _kept.get(_rounded(size), ())
    for _ in range(len(kept)):
        try:
            entry = kept.pop()  # type: ignore[union-attr]  # while it is out, no other thread can find it free
        except IndexError:
            break
        memory, start = entry
        if sys.getrefcount(memory) == _FREE:
            array: np.ndarray = np.ndarray(shape, dtype, memory, start)
            kept.append(entry)  # type: ignore[union-attr]  # asked for first next time, while caches hold it
            return array
        kept.appendleft(entry)  # type: ignore[union-attr]
    memory, start = _added(_rounded(size))
    return np.ndarray(shape, dtype, memory, start)


def _added(size: int) -> tuple[np.ndarray, int]:
    """More memory of a size, and where in it an array begins; that of sizes nobody has missed lately is let go of."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    entry = memory, -memory.__array_interface__["data"][0] % _ALIGNMENT
    with _missing:
        kept = _kept[size] = _kept.pop(size, collections.deque())
        if len(kept) >= _PER_SIZE:
            with contextlib.suppress(IndexError):  # others look at what is kept
                kept.popleft()
        kept.append(entry)
        while len(_kept) > 1 and sum(number * len(_kept[number]) for number in _kept) > MOST_KEPT:
            del _kept[next(iter(_kept))]
    return entry


MOST_SCRATCH = 1 << 23
"""Bytes of scratch memory that a thread keeps."""


class _Scratch(threading.local):
    memory = np.empty(0, np.uint8)


_scratch = _Scratch()


def scratch(*arrays: tuple[int, Any]) -> list[np.ndarray]:
    """Uninitialised arrays, each of a number of elements and a dtype, in memory that this thread uses again and again.

    It is in the caches, mostly, which what comes from elsewhere is not, once values have other sizes each time. Whoever
    asks for scratch memory is done with it before anybody else can ask: it calls nobody who might.
    """
    sizes = [-(-count * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT for count, dtype in arrays]
    memory = _scratch.memory
    if memory.nbytes < sum(sizes):
        memory = np.empty(sum(sizes), np.uint8)
        if memory.nbytes <= MOST_SCRATCH:
            _scratch.memory = memory
    found, start = [], 0
    for (count, dtype), size in zip(arrays, sizes, strict=True):
        found.append(np.ndarray((count,), dtype, memory, start))
        start += size
    return found


def arithmetic(function: Any, first: Any, *others: Any) -> Any:
    """What a function of NumPy gives, element by element, whose results have the dtype of its operands."""
    if type(first) is not np.ndarray:
        return function(first, *others)
    if len(others) == 1 and is_by_channel(first, others[0]):
        return _by_channel(function, first, others[0])
    if first.nbytes < LEAST:
        return function(first, *others)
    if any(other.dtype != first.dtype or (other.ndim and other.shape != first.shape) for other in others):
        return function(first, *others)
    return function(first, *others, out=empty(first.shape, first.dtype))


MOST_CHANNELS = 16
_WIDE = 96
"""Numbers of a row that NumPy takes in one loop: enough that beginning a loop costs nothing beside it."""
_MANY = 1 << 12


def is_by_channel(one: Any, other: Any) -> bool:
    """Whether one of two arrays is a number for each of a few channels of the other, a large one."""
    if one.size == other.size:
        return False
    large, few = (one, other) if one.size > other.size else (other, one)
    count = few.size
    if not 2 <= count <= MOST_CHANNELS or large.size < _MANY or not few.ndim <= large.ndim >= 2:
        return False
    if few.shape[-1:] != (count,) or large.shape[-1] != count or few.dtype != large.dtype:
        return False
    if type(large) is not np.ndarray or type(few) is not np.ndarray:
        return False
    if large.flags.c_contiguous:
        return True
    # A part of a larger image, whose rows are contiguous and long.
    row = count * large.itemsize
    return large.ndim > 2 and large.strides[-2:] == (row, large.itemsize) and large.shape[-2] * count >= _WIDE


def _by_channel(function: Any, one: Any, other: Any) -> np.ndarray:
    """The same for pixels and a number for each channel, which NumPy would take pixel by pixel: in rows of pixels."""
    large, few = (one, other) if one.size > other.size else (other, one)
    count = few.size
    axis, width = large.ndim - 1, count
    while axis and width < _WIDE:
        axis -= 1
        width *= large.shape[axis]
    row = np.empty((width // count, count), few.dtype)
    row[...] = few.reshape(count)
    rows, numbers = large.reshape(-1, width), row.reshape(width)
    out = empty(large.shape, large.dtype)
    function(*((rows, numbers) if large is one else (numbers, rows)), out=out.reshape(-1, width))
    return out


def held_by(array: Any, references: int) -> bool:
    """Whether so many references, and nothing else, hold a large array and its memory, so that it can change hands.

    ``references`` does not count the argument itself. False for small arrays, of which a copy costs nothing, for what
    is read-only, and for a view of something larger.
    """
    if type(array) is not np.ndarray or array.nbytes < LEAST or array.dtype.hasobject:
        return False
    if not array.flags.writeable or not array.flags.c_contiguous or sys.getrefcount(array) != references + _LOOKING:
        return False
    memory = array.base
    if memory is None:
        return True
    if type(memory) is not np.ndarray or memory.base is not None or memory.nbytes > _rounded(array.nbytes) + _ALIGNMENT:
        return False
    entries = sum(entry[0] is memory for entry in list(_kept.get(_rounded(array.nbytes), ())))
    return sys.getrefcount(memory) == entries + 1 + _LOOKING


class _Destination(threading.local):
    make: Callable[[Sequence[int], Any], np.ndarray | None] | None = None


_destination = _Destination()


@contextlib.contextmanager
def copies_to(make: Callable[[Sequence[int], Any], np.ndarray | None]) -> Iterator[None]:
    """Copy large arrays of this thread to what ``make(shape, dtype)`` gives, where it gives something."""
    before, _destination.make = _destination.make, make
    try:
        yield
    finally:
        _destination.make = before


def copying_as_here(work: Callable[[], Any]) -> Callable[[], Any]:
    """The same work for another thread, which copies large arrays to what this one copies them to."""
    make = _destination.make
    if make is None:
        return work

    def elsewhere() -> Any:
        with copies_to(make):
            return work()

    return elsewhere


def large(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An uninitialised array for a copy to be made of something large."""
    array = None if _destination.make is None else _destination.make(shape, dtype)
    return np.empty(shape, dtype) if array is None else array


def copy(value: Any) -> np.ndarray:
    """A copy of an array, or of what is like one."""
    source = np.asarray(value)
    if source.nbytes < LEAST or source.dtype.hasobject or type(source) is not np.ndarray:
        return np.array(value)
    array = None if _destination.make is None else _destination.make(source.shape, source.dtype)
    if array is None:
        array = empty(source.shape, source.dtype)
    np.copyto(array, source)
    return array
