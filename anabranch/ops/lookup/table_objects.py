"""Lookup tables as values: immutable versions that share one dictionary.

A table is state, like a variable: a step sees one version, an update makes the next, and a step that fails leaves none
behind. Copying a dictionary for each update would cost its size, so all versions of a table share one (Baker,
*Shallow binding makes functional arrays fast*, 1991): it holds the contents of the version used last, and the others
know what to change to get from their successor's contents to theirs. Updating the newest version costs what changes;
going back to an older one costs what lies between. A lock makes both safe for steps that run at the same time.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes

_ABSENT: Any = object()


class _Store:
    """The shared dictionary, and the lock around it."""

    __slots__ = ("items", "lock")

    def __init__(self) -> None:
        self.items: dict[Any, Any] = {}
        self.lock = threading.Lock()


class Table:
    """One version of a table.

    Args:
        kind: op type that made it, for messages.
        name: its name, for messages.
        key_dtype: dtype of the keys, which are scalars.
        value_dtype: dtype of the values.
        value_shape: shape of one value.
        mutable: whether it may be changed after it was filled.
    """

    __slots__ = (
        "_changes",
        "_next",
        "_store",
        "initialized",
        "key_dtype",
        "kind",
        "mutable",
        "name",
        "value_dtype",
        "value_shape",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        key_dtype: dtypes.DType,
        value_dtype: dtypes.DType,
        value_shape: tuple[int, ...] = (),
        mutable: bool = False,
    ) -> None:
        self.kind = kind
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_shape = value_shape
        self.mutable = mutable
        self.initialized = mutable
        """Whether it was filled; a table that may be changed always is."""
        self._store = _Store()
        self._next: Table | None = None
        self._changes: list[tuple[Any, Any]] = []
        """What to set, or to remove (`_ABSENT`), in the contents of ``_next`` to get these."""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"

    # ------------------------------------------------------------------------------------------------------- contents
    def _items(self) -> dict[Any, Any]:
        """The shared dictionary with this version's contents; the lock must be held."""
        path = []
        at: Table = self
        while at._next is not None:
            path.append(at)
            at = at._next
        items = self._store.items
        for older in reversed(path):  # from the version that the dictionary holds, step by step to this one
            newer = older._next
            assert newer is not None
            undo = []
            for key, value in older._changes:
                undo.append((key, items.get(key, _ABSENT)))
                if value is _ABSENT:
                    del items[key]
                else:
                    items[key] = value
            undo.reverse()
            newer._changes, newer._next = undo, older
            older._changes, older._next = [], None
        return items

    def size(self) -> int:
        """Number of entries."""
        with self._store.lock:
            return len(self._items())

    def find(self, keys: Sequence[Any], default: Any) -> list[Any]:
        """The value of each key, ``default`` where there is none."""
        with self._store.lock:
            get = self._items().get
            return list(map(get, keys, itertools.repeat(default)))

    def entries(self) -> tuple[list[Any], list[Any]]:
        """Keys and values, in order of insertion."""
        with self._store.lock:
            items = self._items()
            return list(items), list(items.values())

    # -------------------------------------------------------------------------------------------------------- updates
    def _successor(self, change: Callable[[dict[Any, Any], list[tuple[Any, Any]]], None]) -> Table:
        """A new version; ``change`` updates the dictionary and lists what undoes it."""
        new = Table(self.kind, self.name, self.key_dtype, self.value_dtype, self.value_shape, self.mutable)
        new.initialized = True
        new._store = self._store
        with self._store.lock:
            items = self._items()
            undo: list[tuple[Any, Any]] = []
            try:
                change(items, undo)
            finally:
                undo.reverse()
                self._changes, self._next = undo, new
        return new

    def with_entries(self, pairs: Iterable[tuple[Any, Any]]) -> Table:
        """The version with these entries added or replaced."""

        def change(items: dict[Any, Any], undo: list[tuple[Any, Any]]) -> None:
            for key, value in pairs:
                undo.append((key, items.get(key, _ABSENT)))
                items[key] = value

        return self._successor(change)

    def without_keys(self, keys: Iterable[Any]) -> Table:
        """The version without the entries of these keys."""

        def change(items: dict[Any, Any], undo: list[tuple[Any, Any]]) -> None:
            for key in keys:
                old = items.pop(key, _ABSENT)
                if old is not _ABSENT:
                    undo.append((key, old))

        return self._successor(change)

    def replaced(self, pairs: Iterable[tuple[Any, Any]]) -> Table:
        """The version with exactly these entries."""

        def change(items: dict[Any, Any], undo: list[tuple[Any, Any]]) -> None:
            undo.extend(reversed([*items.items()]))
            items.clear()
            for key, value in pairs:
                undo.append((key, items.get(key, _ABSENT)))
                items[key] = value

        return self._successor(change)

    def filled(self, pairs: Sequence[tuple[Any, Any]], op: Any = None) -> Table:
        """The version that a table which is filled once has then.

        Raises:
            FailedPreconditionError: it has other contents already. InvalidArgumentError: a key has two values.
        """
        wanted: dict[Any, Any] = {}
        for key, value in pairs:
            if wanted.setdefault(key, value) != value:
                raise errors.FailedPreconditionError(
                    None,
                    op,
                    f"HashTable has different value for same key. Key {_shown(key)} has {_shown(wanted[key])} and "
                    f"trying to add value {_shown(value)}",
                )
        if self.initialized:
            with self._store.lock:
                if self._items() != wanted:
                    raise errors.FailedPreconditionError(
                        None,
                        op,
                        "Table already initialized.\n"
                        + errors.message(
                            f"other contents for table {self.name!r}, which was filled before",
                            "the same contents, or a table that was not filled yet",
                            "use tf.contrib.lookup.MutableHashTable for a table that changes",
                        ),
                    )
            return self
        return self.with_entries(wanted.items())


def _shown(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def keys_list(array: Any) -> list[Any]:
    """The keys in an array, as the dictionary holds them: bytes, ints, floats, bools."""
    items: list[Any] = np.asarray(array).ravel().tolist()
    return items


def values_list(array: Any, shape: tuple[int, ...], count: int) -> list[Any]:
    """The ``count`` values of ``shape`` in an array, as the dictionary holds them: Python scalars, or arrays."""
    if not shape:
        return keys_list(array)
    rows = np.array(array).reshape((count, *shape))
    rows.flags.writeable = False
    return list(rows)


def as_array(values: list[Any], dtype: dtypes.DType, shape: tuple[int, ...]) -> np.ndarray:
    """An array of ``shape`` whose elements (or trailing parts) are ``values``."""
    if values and isinstance(values[0], np.ndarray):
        return np.stack(values).reshape(shape)
    if dtype.np is not None and dtype is not dtypes.string:
        return np.array(values, dtype.np).reshape(shape)
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)
