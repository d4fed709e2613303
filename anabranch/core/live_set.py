"""Objects that are listed for as long as somebody else holds them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class LiveSet(Generic[T]):
    """A set of weakly held objects, by identity, that may be gone over while other threads add to it.

    (``weakref.WeakSet`` may not: its iteration is Python code, in the midst of which another thread adds.) Each change
    is one step of a dictionary with integers as keys, and an iteration is over a copy that is made in one step.
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[T]] = {}

    def add(self, item: T) -> None:
        """Lists an object."""
        # An exception that comes in a callback of Python code (Ctrl-C, the end of a step) is lost, so this one has
        # none. It is called before another object can have the identity; the reference is what is popped by default.
        key = id(item)
        self._references[key] = weakref.ref(item, functools.partial(self._references.pop, key))

    def discard(self, item: T) -> None:
        """Lists an object no longer."""
        self._references.pop(id(item), None)

    def __iter__(self) -> Iterator[T]:
        for reference in list(self._references.values()):
            item = reference()
            if item is not None:
                yield item

    def __len__(self) -> int:
        return len(self._references)
