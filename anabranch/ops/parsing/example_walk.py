"""The wire format of `Example` messages, walked once for a batch: all examples take each step together.

The examples stand one behind the other in one array of bytes, with a position in each. A step reads the next entry of
the map of features in all of them: a few operations of NumPy instead of a message object for each feature of each
example. Most entries begin with the same bytes in all examples (tags, key, lengths): the first example's are compared
with the others'. What is kept of an entry is where its values stand; only columns that are asked for are decoded.

Examples of one size often have the same bytes everywhere but in their values: then the first one's layout is that of
all, and a column is a block of a table of bytes (:meth:`Walk._alike_throughout`).

Nothing is guessed: where the bytes are not exactly what writers write (a field of another number, a list in pieces, a
key twice in an example, a length that does not fit), there is no walk, or no column, and the caller parses the messages
one by one, which knows all legal forms and says what is wrong with the others. Only features that nobody asks for are
not looked into, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.values import dtypes
from anabranch.ops.parsing.example_columns import Column, InvalidExample, decoded

FEWEST = 16
"""Examples from which on a walk pays."""
_MOST_ENTRIES = 256
"""Features of an example up to which a walk is tried."""
_MOST_HEADS = 4
"""Kinds of heads that an entry is compared with."""
_PADDING = 16
_LIST, _SECOND = 0x0A, 0x12
"""Tags: field 1 and field 2, with a length."""
_KINDS = {dtypes.string: 0x0A, dtypes.float32: 0x12, dtypes.int64: 0x1A}
_MOST_COPIED = 1 << 20
"""Bytes of some of the examples up to which they are copied into a table."""
_LONG = 256
"""Bytes of a list from which on lists are joined rather than gathered byte by byte."""


class _Unusual(Exception):
    """The bytes are not in the usual form."""


class _Part(NamedTuple):
    """An entry of some of the examples."""

    rows: np.ndarray
    kind: Any
    """Tags of their lists (0 without values), or that of all."""
    start: np.ndarray
    """Where the lists begin, or, if ``length`` is given, their values."""
    stop: np.ndarray
    length: int | None
    """How many bytes the values of each list take, if all have the same."""
    block: np.ndarray | None = None
    """The bytes of the values, a row for each list, if they stand in one table."""


class Walk:
    """Where the features of a batch of examples stand; ValueError if the bytes are not in the usual form."""

    def __init__(self, serialized: Sequence[bytes]) -> None:
        self._data = b"".join([*serialized, b"\0" * _PADDING])
        self._bytes = np.frombuffer(self._data, np.uint8)
        self._count = len(serialized)
        self._parts: dict[bytes, list[_Part]] = {}
        sizes = np.fromiter(map(len, serialized), np.int64, self._count)
        ends = np.cumsum(sizes)
        try:
            rows = self._alike_throughout(ends - sizes, sizes)
            if rows.size:
                self._walk(rows, (ends - sizes)[rows], ends[rows])
        except (_Unusual, IndexError):
            raise ValueError("not in the usual form") from None

    def _tag(self, at: np.ndarray, tag: int) -> np.ndarray:
        """The positions behind a tag that must stand there."""
        if not np.all(self._bytes[at] == tag):
            raise _Unusual
        return at + 1

    def _length(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths, and the positions behind them."""
        first = self._bytes[at]
        if not np.any(first & 0x80):
            return first.astype(np.int64), at + 1
        length = (first & 0x7F).astype(np.int64)
        more = first >= 0x80
        at = at + 1
        for place in range(1, 5):
            byte = self._bytes[np.minimum(at, len(self._bytes) - 1)]
            length |= np.where(more, (byte & 0x7F).astype(np.int64) << (7 * place), 0)
            at = at + more
            more &= byte >= 0x80
            if not np.any(more):
                return length, at
        raise _Unusual

    def _alike_throughout(self, at: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Read examples that are the same but for their values; the rows of the others."""
        size, first = int(sizes[0]), int(at[0])
        rows = np.flatnonzero(sizes == size)
        layout = self._layout(first, first + size) if len(rows) >= FEWEST else None
        if layout is None or (len(rows) < self._count and size * len(rows) > _MOST_COPIED):
            return np.arange(self._count)
        if len(rows) == self._count:
            table = self._bytes[first : first + size * self._count].reshape(self._count, size)
        else:
            table = self._bytes[at[rows][:, None] + np.arange(size)]
        fixed = np.ones(size, bool)
        for _, _, place, length in layout:
            fixed[place : place + length] = False
        places = np.flatnonzero(fixed)
        same = np.all(table[:, places] == table[0, places], axis=1)
        others = np.zeros(0, np.int64)
        if not same.all():
            rows, table = rows[same], table[same]
        if len(rows) < self._count:
            others = np.delete(np.arange(self._count), rows)
        start = at[rows]
        for key, kind, place, length in layout:
            part = _Part(rows, kind, start + place, start + (place + length), length, table[:, place : place + length])
            self._parts[key] = [part]
        return others

    def _layout(self, at: int, end: int) -> list[tuple[bytes, int, int, int]] | None:
        """Of each entry of an example: key, tag of its list, place of its values in the example, and their bytes.

        None if it is not lists in one piece each, under different keys.
        """
        first, data = at, self._data
        length = shift = 0
        if data[at] != _LIST:
            return None
        while shift <= 28:
            at += 1
            length |= (data[at] & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                break
        at += 1
        if at + length != end:
            return None
        layout: list[tuple[bytes, int, int, int]] = []
        while at < end and len(layout) < _MOST_ENTRIES:
            head = self._head(at, end)
            if head is None:
                return None
            key, kind, size, length = head
            layout.append((key, kind, at + size - first, length))
            at += size + length
        return layout if at == end and len({entry[0] for entry in layout}) == len(layout) else None

    def _walk(self, rows: np.ndarray, at: np.ndarray, ends: np.ndarray) -> None:
        length, at = self._length(self._tag(at, _LIST))
        if not np.array_equal(at + length, ends):
            raise _Unusual
        for _ in range(_MOST_ENTRIES):
            open_ = at < ends
            if not open_.all():
                rows, at, ends = rows[open_], at[open_], ends[open_]
                if not rows.size:
                    return
            at = self._alike(rows, at, ends, 0)
        raise _Unusual

    def _alike(self, rows: np.ndarray, at: np.ndarray, ends: np.ndarray, tried: int) -> np.ndarray:
        """Read an entry of each example, of those together that begin with the same bytes; the positions behind it."""
        head = self._head(int(at[0]), int(ends[0])) if tried < _MOST_HEADS else None
        if head is None:
            return self._entry(rows, at, ends)
        key, kind, size, length = head
        wanted = self._bytes[at[0] : at[0] + size]
        if int(at[-1]) + size > len(self._bytes):
            raise _Unusual
        same = np.all(self._bytes[at[:, None] + np.arange(size)] == wanted, axis=1)
        stop = at + (size + length)
        if same.all():
            self._parts.setdefault(key, []).append(_Part(rows, kind, at + size, stop, length))
        else:
            self._parts.setdefault(key, []).append(_Part(rows[same], kind, at[same] + size, stop[same], length))
            other = ~same
            stop[other] = self._alike(rows[other], at[other], ends[other], tried + 1)
        if np.any(stop > ends):
            raise _Unusual
        return stop

    def _head(self, at: int, end: int) -> tuple[bytes, int, int, int] | None:
        """Of the entry at a position: its key, the tag of its list, the size of all before its values, and of these.

        None if it is not one list in one piece.
        """
        data, first = self._data, at

        def tag_and_length(at: int) -> tuple[int, int, int]:
            length = shift = 0
            tag, at = data[at], at + 1
            while True:
                byte = data[at]
                length |= (byte & 0x7F) << shift
                at, shift = at + 1, shift + 7
                if byte < 0x80:
                    return tag, length, at
                if shift > 28:
                    raise _Unusual

        tag, length, at = tag_and_length(at)
        stop = at + length
        key_tag, key_length, at = tag_and_length(at)
        key = data[at : at + key_length]
        value_tag, length, at = tag_and_length(at + key_length)
        if (tag, key_tag, value_tag) != (_LIST, _LIST, _SECOND) or at + length != stop or stop > end or not length:
            return None
        kind, length, at = tag_and_length(at)
        if at + length != stop or not length:
            return None
        tag, length, at = tag_and_length(at)
        return (key, kind, at - first, length) if tag == _LIST and at + length == stop else None

    def _entry(self, rows: np.ndarray, at: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Read an entry of each example; the positions behind it."""
        length, at = self._length(self._tag(at, _LIST))
        stop = at + length
        if np.any(stop > ends):
            raise _Unusual
        key_length, key = self._length(self._tag(at, _LIST))
        length, at = self._length(self._tag(key + key_length, _SECOND))
        if not np.array_equal(at + length, stop):
            raise _Unusual
        kind = np.where(length > 0, self._bytes[at], 0)
        if np.all(length > 0):
            length, at = self._length(at + 1)
            if not np.array_equal(at + length, stop):
                raise _Unusual
        elif np.any(length > 0):  # some have a value and some have none
            raise _Unusual
        self._sort(rows, key, key_length, kind, at, stop)
        return stop

    def _sort(
        self,
        rows: np.ndarray,
        key: np.ndarray,
        key_length: np.ndarray,
        kind: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
    ) -> None:
        """Keep entries by their keys."""
        while rows.size:
            first, size = int(key[0]), int(key_length[0])
            text = self._data[first : first + size]
            same = key_length == size
            if size:
                wanted = np.frombuffer(text, np.uint8)
                last = len(self._bytes) - size
                same &= np.all(self._bytes[np.minimum(key[:, None], last) + np.arange(size)] == wanted, axis=1)
            parts = self._parts.setdefault(text, [])
            if same.all():
                parts.append(_Part(rows, kind, start, stop, None))
                return
            parts.append(_Part(rows[same], kind[same], start[same], stop[same], None))
            other = ~same
            rows, key, key_length = rows[other], key[other], key_length[other]
            kind, start, stop = kind[other], start[other], stop[other]

    def column(self, key: str, dtype: dtypes.DType) -> Column | None:
        """The values of a feature in all examples; None if the messages must be parsed for it."""
        parts = self._parts.get(key.encode("utf-8", "surrogateescape"))
        if parts is None:
            nothing: Any = [] if dtype is dtypes.string else np.zeros(0, dtype.np)
            return Column(nothing, np.full(self._count, -1, np.int64))
        if not all(np.all(part.kind == _KINDS[dtype]) for part in parts):
            return None
        try:
            pieces = [self._values(part) for part in parts]
        except (_Unusual, IndexError):
            return None
        (start, length) = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces, strict=True))
        rows = parts[0].rows
        if len(parts) > 1:
            rows = np.concatenate([part.rows for part in parts])
            order = np.argsort(rows, kind="stable")
            rows, start, length = rows[order], start[order], length[order]
            if np.any(rows[1:] == rows[:-1]):  # twice in an example
                return None
        try:
            block = parts[0].block
            if block is not None and len(parts) == 1 and dtype is not dtypes.string:
                column = decoded(np.ascontiguousarray(block).reshape(-1), length, key, dtype)
            else:
                column = self._column(start, length, key, dtype)
        except InvalidExample:
            return None
        if len(rows) < self._count:
            counts = np.full(self._count, -1, np.int64)
            counts[rows] = column.counts
            column = Column(column.values, counts)
        return column

    def _column(self, start: np.ndarray, length: np.ndarray, key: str, dtype: dtypes.DType) -> Column:
        if dtype is not dtypes.string:
            return decoded(self._gathered(start, length), length, key, dtype)
        data = self._data
        values = [data[a : a + n] for a, n in zip(start.tolist(), length.tolist(), strict=True)]
        return Column(values, np.ones(len(values), np.int64))

    def _values(self, part: _Part) -> tuple[np.ndarray, np.ndarray]:
        """Where the values of a part's lists begin, and how many bytes they take."""
        if part.length is not None:
            return part.start, np.full(len(part.rows), part.length, np.int64)
        if np.any(part.start >= part.stop):
            raise _Unusual
        length, start = self._length(self._tag(part.start, _LIST))
        if not np.array_equal(start + length, part.stop):
            raise _Unusual
        return start, length

    def _gathered(self, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        """The bytes of lists, one behind the other."""
        total = int(length.sum())
        if total > _LONG * len(length):
            data = self._data
            return np.frombuffer(
                b"".join([data[a : a + n] for a, n in zip(start.tolist(), length.tolist(), strict=True)]), np.uint8
            )
        if np.all(length == length[0]):
            return self._bytes[start[:, None] + np.arange(int(length[0]))].reshape(-1)
        return self._bytes[np.arange(total) + np.repeat(start - (np.cumsum(length) - length), length)]


def walk(serialized: Sequence[bytes]) -> Walk | None:
    """Where the features of examples stand; None if the messages must be parsed one by one."""
    if len(serialized) < FEWEST or not all(type(item) is bytes for item in serialized):
        return None
    try:
        return Walk(serialized)
    except ValueError:
        return None
