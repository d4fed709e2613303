"""Versions of state that share what they hold.

A step sees one version of a table or a tree, an update makes the next, and a step that fails leaves none behind.
Copying the whole for each update would cost its size, so all versions share one container (Baker, *Shallow binding
makes functional arrays fast*, 1991). It holds the contents of one version, mostly the newest; each other knows what
to put back to get from its successor's contents to its own. An update costs what it changes, and going back to an
older version what lies between. A lock makes both safe for steps that run at the same time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Generic, Self, TypeVar

Container = TypeVar("Container")
Place = TypeVar("Place")


class Version(Generic[Container, Place]):
    """One version of a container; a subclass says by `_swap` what a place in it is.

    Args:
        shared: the container, with this version's contents.
    """

    __slots__ = ("_lock", "_next", "_shared", "_undo")

    def __init__(self, shared: Container) -> None:
        self._shared = shared
        self._lock = threading.RLock()
        self._next: Any = None
        self._undo: list[Place] = []
        """What leads from the contents of ``_next`` to these, in the order in which it was kept: to apply backwards."""

    @staticmethod
    def _swap(shared: Container, place: Place) -> Place:
        """Put back what a place holds, and return the same with what stood there."""
        raise NotImplementedError

    def _contents(self) -> Container:
        """The container with this version's contents; the lock must be held."""
        if self._next is None:
            return self._shared
        path = []
        at: Any = self
        while at._next is not None:
            path.append(at)
            at = at._next
        for older in reversed(path):  # from the version that the container holds, step by step to this one
            newer = older._next
            newer._undo = [self._swap(self._shared, place) for place in reversed(older._undo)]
            newer._next = older
            older._undo, older._next = [], None
        return self._shared

    @contextlib.contextmanager
    def held(self) -> Iterator[Container]:
        """A block in which the container holds this version; what leaves it must be a copy."""
        with self._lock:
            yield self._contents()

    @contextlib.contextmanager
    def changed(self, new: Self) -> Iterator[tuple[Container, list[Place]]]:
        """A block that makes this version into ``new``: it appends what a place held, and only then writes there."""
        with self._lock:
            shared = self._contents()
            undo: list[Place] = []
            try:
                yield shared, undo
            finally:
                new._shared, new._lock = shared, self._lock
                self._undo, self._next = undo, new
