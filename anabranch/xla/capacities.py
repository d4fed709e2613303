"""How much room a program gives what has no fixed size: lists that grow in loops, dimensions that change.

Policy. A program is compiled for *capacities*, and serves all sizes within them. Capacities are powers of two. Where
the size is told (a bound, a list of the host, an array whose dimension changes from step to step), the capacity is the
largest that the program was compiled for already, unless that is more than :data:`MOST_WASTE` times what is needed;
the first one is at least :data:`LEAST`, so that one program serves all short sequences. Where only the loop itself
finds out how often it runs, it gets the room of a guess. If that was not enough, the program fails a check that says
how much is needed (nothing was written then), and the step begins anew with it.

What costs much memory gets no more room than the next power of two: tracing stops with :class:`TooRoomy` and begins
anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.core.graph.operation import Operation

LEAST = 64
"""The first capacity of what may have any size."""
MOST_WASTE = 8
"""How many times as much room as needed a program that is there may give."""
MAX_BYTES = 1 << 26
"""Bytes of the lists of a loop up to which they get more room than the next power of two."""


class TooRoomy(Exception):
    """The lists of a loop take so much memory that they are to have no room to spare."""


class Exceeded(Exception):
    """``op``, a loop, runs ``needed`` times or more, and had room for fewer."""

    def __init__(self, node_def: Any, op: Operation, needed: str) -> None:
        super().__init__(op, needed)
        self.op = op
        self.needed = int(needed)


def power(size: int) -> int:
    """The next power of two."""
    return 1 << max(int(size) - 1, 0).bit_length()


class Room:
    """What one trace may take for granted of loops that nobody bounds."""

    def __init__(self, guesses: Mapping[Operation, int], tight: bool, sizes_change: bool = False) -> None:
        self._guesses = guesses
        self.tight = tight
        self.sizes_change = sizes_change
        """Whether the program is to serve lists of any size, rather than one for each."""
        self.used: dict[Operation, int] = {}
        """The loops that were guessed at."""

    def guess(self, op: Operation) -> int:
        """How often ``op`` runs at most."""
        guess = self.used[op] = self._guesses.get(op) or (LEAST // 8 if self.tight else LEAST)
        return guess

    def take(self, nbytes: int) -> None:
        """Notes how many bytes the lists of a loop take.

        Raises:
            TooRoomy: they are to have less room.
        """
        if not self.tight and nbytes > MAX_BYTES:
            raise TooRoomy


class Capacities:
    """The capacities that one program has been compiled for."""

    def __init__(self) -> None:
        self.tight = False
        self._most: dict[Any, int] = {}

    def of(self, place: Any, size: int, nbytes: int = 0) -> int:
        """The capacity for a size at a place, such as a bound or an input; ``nbytes`` is what one element takes."""
        least = power(size)
        if self.tight:
            return least
        most = max(self._most.get(place, LEAST), least)
        if most > MOST_WASTE * max(least, LEAST // MOST_WASTE) or (most > least and most * nbytes > MAX_BYTES):
            return least
        self._most[place] = most
        return most


class Padded:
    """An array of a trace some of whose dimensions have sizes of their own: it is as large as its capacities there.

    ``sizes`` are traced. What is beyond them has no meaning.
    """

    dtype: Any

    def __init__(self, array: Any, axes: tuple[int, ...], sizes: tuple[Any, ...]) -> None:
        self.array = array
        self.axes = axes
        self.sizes = sizes
        self.dtype = getattr(array, "dtype", None)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The dimensions, None where they are traced."""
        return tuple([None if i in self.axes else size for i, size in enumerate(self.array.shape)])

    def exact(self) -> np.ndarray:
        """The array as it is, on the host."""
        values = np.asarray(self.array)
        for axis, size in zip(self.axes, self.sizes, strict=True):
            values = values[(slice(None),) * axis + (slice(int(size)),)]
        return np.array(values)

    def flatten(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Its arrays, and what else there is to know."""
        return (self.array, *self.sizes), self.axes

    @classmethod
    def unflatten(cls, axes: tuple[int, ...], leaves: Any) -> Padded:
        """The value that :meth:`flatten` took apart, with other arrays in it."""
        array, *sizes = leaves
        return cls(array, axes, tuple(sizes))


def padded(value: Any, axes: tuple[int, ...], capacities: Capacities, place: Any) -> Padded:
    """An array of the host, or of a program, with room in some of its dimensions."""
    array = value.exact() if isinstance(value, Padded) else np.asarray(value)
    form = list(array.shape)
    for axis in axes:
        rows = array.nbytes // max(array.shape[axis], 1)
        form[axis] = capacities.of((place, axis), array.shape[axis], rows)
    whole = np.zeros(form, array.dtype)
    whole[tuple(slice(size) for size in array.shape)] = array
    return Padded(whole, axes, tuple(np.int32(array.shape[axis]) for axis in axes))


def filled(xp: Any, value: Padded, otherwise: Any) -> Any:
    """A vector that is padded in its only dimension, with ``otherwise`` where it is padding."""
    array = xp.asarray(value.array)
    return xp.where(xp.arange(array.shape[0]) < value.sizes[0], array, xp.asarray(otherwise, array.dtype))
