"""Arrays of which a step sees one version, and an update makes the next, without a copy of what does not change.

All versions share the arrays, which hold the newest (Baker, *Shallow binding makes functional arrays fast*, 1991):
an older one knows what to put back to get from its successor's contents to its own. An update costs what it changes,
and going back, after a step that failed, what lies between. A lock makes both safe for steps that run at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


class Change:
    """An update in progress: the arrays to write into, each place after it was kept."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.undo: list[tuple[str, Any, np.ndarray]] = []

    def keep(self, name: str, index: Any) -> np.ndarray:
        """The array, of which the places at ``index`` may now be written; an index without repetitions."""
        array = self.arrays[name]
        self.undo.append((name, index, np.array(array[index])))
        return array

    def put(self, name: str, index: Any, values: Any) -> None:
        """Write into an array."""
        self.keep(name, index)[index] = values

    def reserve(self, name: str, *sizes: int) -> None:
        """Have an array be at least this large; what is there stays, the rest is zeros."""
        array = self.arrays[name]
        wanted = tuple(max(have, size) for have, size in zip(array.shape, sizes, strict=True))
        if wanted != array.shape:
            first = max(wanted[0], 2 * array.shape[0] if wanted[0] > array.shape[0] else 0)
            larger = np.zeros((first, *wanted[1:]), array.dtype)
            larger[tuple(slice(size) for size in array.shape)] = array
            self.arrays[name] = larger


class Versioned:
    """One version of arrays, which it shares with the others."""

    def __init__(self, arrays: Arrays) -> None:
        self._shared = arrays
        self._lock = threading.RLock()
        self._next: Versioned | None = None
        self._undo: list[tuple[str, Any, np.ndarray]] = []

    def _rerooted(self) -> Arrays:
        path: list[Versioned] = []
        at: Versioned = self
        while at._next is not None:
            path.append(at)
            at = at._next
        for older in reversed(path):  # from the version that the arrays hold, step by step to this one
            newer = older._next
            assert newer is not None
            redo = []
            for name, index, values in reversed(older._undo):
                array = self._shared[name]
                redo.append((name, index, np.array(array[index])))
                array[index] = values
            newer._undo, newer._next = redo, older
            older._undo, older._next = [], None
        return self._shared

    @contextlib.contextmanager
    def held(self) -> Iterator[Arrays]:
        """A block in which the arrays hold this version; what leaves it must be a copy."""
        with self._lock:
            yield self._rerooted()

    @contextlib.contextmanager
    def changed(self, new: Versioned) -> Iterator[Change]:
        """A block that writes the next version, ``new``, which was made without arrays of its own."""
        with self._lock:
            change = Change(self._rerooted())
            try:
                yield change
            finally:
                new._shared, new._lock = self._shared, self._lock
                self._undo, self._next = change.undo, new
