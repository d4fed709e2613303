"""LMDB databases: their entries, in the order of the keys. The package ``lmdb`` reads them (an extra)."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from anabranch.core import errors
from anabranch.core.file_errors import translated


class LMDBEntries:
    """Keys and values of a database, a file or a folder with a ``data.mdb``."""

    def __init__(self, name: bytes, op: Any) -> None:
        self._op = op
        path = os.fsdecode(name)
        with translated(path, op):
            os.stat(path)  # the library would say nothing of the path
        self._path, environment = _environments.take(path, op)
        self._given = 0
        transaction = environment.begin()
        self._entries = transaction.cursor().iternext()
        self._end = weakref.finalize(self, _let_go, self._path, transaction)

    def next(self, op: Any = None) -> tuple[bytes, bytes] | None:
        """The next key with its value; None at the end."""
        try:
            entry: tuple[bytes, bytes] | None = next(self._entries, None)
        except _lmdb(op).Error as problem:
            raise errors.DataLossError(
                None,
                op or self._op,
                f"{self._path}: a record cannot be read after {self._given} others: {problem}",
            ) from None
        self._given += entry is not None
        return entry

    def close(self) -> None:
        """Let go of the database."""
        self._entries = iter(())
        self._end()


def _let_go(path: str, transaction: Any) -> None:
    transaction.abort()
    _environments.give_back(path)


class _Environments:
    """Open LMDB databases of the process, which may open each only once, with the number of readers of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, list[Any]] = {}

    def take(self, path: str, op: Any) -> tuple[str, Any]:
        """The database at a path, and the name under which it must be given back."""
        library = _lmdb(op)
        name = os.path.realpath(os.path.join(path, "data.mdb") if os.path.isdir(path) else path)
        with self._lock:
            entry = self._open.get(name)
            if entry is None:
                try:
                    environment = library.open(name, subdir=False, readonly=True, lock=False)
                except library.Error as problem:
                    raise errors.InvalidArgumentError(
                        None, op, f"{path} cannot be opened as an LMDB database: {problem}"
                    ) from None
                entry = self._open[name] = [environment, 0]
            entry[1] += 1
            return name, entry[0]

    def give_back(self, name: str) -> None:
        """Close the database if nobody else reads it."""
        with self._lock:
            entry = self._open[name]
            entry[1] -= 1
            if not entry[1]:
                entry[0].close()
                del self._open[name]


_environments = _Environments()


def _lmdb(op: Any) -> Any:
    """The library that reads LMDB databases."""
    try:
        import lmdb
    except ImportError:
        raise errors.UnimplementedError(
            None,
            op,
            errors.message(
                "an LMDB database without the package that reads it",
                "an installed lmdb",
                "pip install anabranch[lmdb]",
            ),
        ) from None
    return lmdb
