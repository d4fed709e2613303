"""Lookup tables as values: versions that share one dictionary, see `core/values/versions.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes
from anabranch.core.values.versions import Version

_ABSENT: Any = object()


class Table(Version[dict[Any, Any], tuple[Any, Any]]):
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
        super().__init__({})
        self.kind = kind
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_shape = value_shape
        self.mutable = mutable
        self.initialized = mutable
        """Whether it was filled; a table that may be changed always is."""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"

    # ------------------------------------------------------------------------------------------------------- contents
    @staticmethod
    def _swap(items: dict[Any, Any], place: tuple[Any, Any]) -> tuple[Any, Any]:
        key, value = place
        old = items.get(key, _ABSENT)
        if value is _ABSENT:
            del items[key]
        else:
            items[key] = value
        return key, old

    def size(self) -> int:
        """Number of entries."""
        with self._lock:
            return len(self._contents())

    def find(self, keys: Sequence[Any], default: Any) -> list[Any]:
        """The value of each key, ``default`` where there is none."""
        with self._lock:
            get = self._contents().get
            return list(map(get, keys, itertools.repeat(default)))

    def entries(self) -> tuple[list[Any], list[Any]]:
        """Keys and values, in order of insertion."""
        with self._lock:
            items = self._contents()
            return list(items), list(items.values())

    # -------------------------------------------------------------------------------------------------------- updates
    def _successor(self, change: Callable[[dict[Any, Any], list[tuple[Any, Any]]], None]) -> Table:
        """A new version; ``change`` updates the dictionary and lists what undoes it."""
        new = Table(self.kind, self.name, self.key_dtype, self.value_dtype, self.value_shape, self.mutable)
        new.initialized = True
        with self.changed(new) as (items, undo):
            change(items, undo)
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
            undo.extend(reversed(items.items()))
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
            with self._lock:
                if self._contents() != wanted:
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
