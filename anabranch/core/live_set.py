"""Objects that are listed for as long as somebody else holds them."""

from __future__ import annotations

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
        key, references = id(item), self._references

        def drop(reference: weakref.ref[T]) -> None:
            if references.get(key) is reference:
                references.pop(key, None)

        references[key] = weakref.ref(item, drop)

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
