"""Draws as functions of a stream's key and place, for code that runs again and again, and for many rows together.

A kernel that draws is asked with a stream as arrays, checks its shape, and makes arrays of words. What a step of an
input pipeline draws is a number or two, and all that is the same each time. The makers here (``straight`` of an op's
block, see ``ops/shared/unchecked.py``) give a :class:`Draw`: called with a key and a place it gives the kernel's
numbers, bit for bit; :meth:`Draw.rows` gives those of calls that follow one another, stacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.ops.random import philox

_FLOAT = np.dtype(np.float32)
_INT = np.dtype(np.int32)
_MASK = 0x7FFFFF
_STEP = 2.0**-23
MOST_WORDS = 4 * philox.FEW
"""What is drawn in one call up to here is made of Python's numbers."""

AHEAD = 32
"""Calls whose numbers are drawn together, once two have come one behind the other."""
MOST_APART = 1 << 10
"""Blocks from one such call to the next."""


class Draw:
    """What an op draws, of one shape and with the same operands each time."""

    __slots__ = ("_ahead", "_count", "_dims", "_dtype", "_last", "_of_array", "_of_number")

    def __init__(
        self, dims: tuple[int, ...], dtype: np.dtype, of_number: Callable[[int], Any], of_array: Callable[[Any], Any]
    ) -> None:
        """``of_number`` and ``of_array`` make what is drawn of a word, and of an array of words."""
        self._dims = dims
        self._count = math.prod(dims)
        self._dtype = dtype
        self._of_number = of_number
        self._of_array = of_array
        self._last = -1, 0
        """The key and place of the last call that was not drawn ahead."""
        self._ahead: tuple[Any, ...] = -1, 0, 1, ()
        """What calls are going to draw: the key, the place of the first, how far they lie apart, and their numbers."""

    def __call__(self, key: int, place: int, *operands: Any) -> np.ndarray:
        """The numbers of the stream with this key from this place on."""
        ahead_key, first, apart, rows = self._ahead
        number, rest = divmod(place - first, apart)
        if key == ahead_key and not rest and 0 <= number < len(rows):
            return rows[number, ...].copy()  # type: ignore[no-any-return]
        if key == ahead_key and not rest and number == len(rows):
            return self._drawn_ahead(key, place, apart)
        (last_key, last), self._last = self._last, (key, place)
        if key == last_key and 0 < place - last <= MOST_APART:
            return self._drawn_ahead(key, place, place - last)
        of_number, words = self._of_number, philox.few(key, place, (self._count + 3) >> 2)
        if not self._dims:
            return np.array(of_number(words[0]), self._dtype)
        numbers = [of_number(word) for word in words[: self._count]]
        return np.array(numbers, self._dtype).reshape(self._dims)

    def _drawn_ahead(self, key: int, place: int, apart: int) -> np.ndarray:
        rows = self.rows(key, place, apart, AHEAD)
        self._ahead = key, place, apart, rows
        return rows[0, ...].copy()  # type: ignore[no-any-return]

    def rows(self, key: int, place: int, blocks: int, count: int) -> np.ndarray:
        """The numbers of ``count`` calls, each ``blocks`` behind the one before, stacked."""
        number = (self._count + 3) >> 2
        offsets = np.arange(count, dtype=np.uint64)[:, None] * np.uint64(blocks) + np.arange(number, dtype=np.uint64)
        words = np.stack(philox.host_blocks(philox.stream_at(key, place), offsets), axis=-1).reshape(count, -1)
        return np.asarray(self._of_array(words[:, : self._count]).reshape(count, *self._dims))


def _dims(operands: Sequence[Any], known: Sequence[bool]) -> tuple[int, ...] | None:
    """The shape that is drawn, if that is the same each time, and little."""
    sizes = np.ravel(operands[0]).tolist()
    if not all(known) or min(sizes, default=0) < 0 or not 0 < math.prod(sizes) <= MOST_WORDS:
        return None
    return tuple(sizes)


def uniform(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Draw | None:
    """A few uniform float32 numbers in [0, 1)."""
    dims = _dims(operands, known)
    if dims is None or attrs["dtype"].np != _FLOAT:
        return None
    return Draw(dims, _FLOAT, lambda word: (word & _MASK) * _STEP, lambda words: philox.float32(np, words, _viewed))


def _viewed(array: Any, dtype: Any) -> Any:
    return array.view(dtype)


def integers(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Draw | None:
    """A few uniform int32 numbers between bounds."""
    dims = _dims(operands, known)
    if dims is None or attrs["Tout"].np != _INT:
        return None
    low, high = int(operands[1]), int(operands[2])
    if low >= high:
        return None
    span = high - low

    def of_array(words: Any) -> Any:
        return (words % np.uint32(span) + np.uint32(low & 0xFFFFFFFF)).view(_INT)

    return Draw(dims, _INT, lambda word: word % span + low, of_array)
