"""Versions of arrays by name, of which an update copies only what it changes, see `core/values/versions.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.values.versions import Version

Arrays = dict[str, np.ndarray]
Place = tuple[str, Any, np.ndarray]
"""An array's name, an index into it, and what is there."""


class Change:
    """An update in progress: the arrays to write into, each place after it was kept."""

    def __init__(self, arrays: Arrays, undo: list[Place]) -> None:
        self.arrays = arrays
        self.undo = undo

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


class Versioned(Version[Arrays, Place]):
    """One version of arrays."""

    @staticmethod
    def _swap(arrays: Arrays, place: Place) -> Place:
        name, index, values = place
        array = arrays[name]
        there = np.array(array[index])
        array[index] = values
        return name, index, there
