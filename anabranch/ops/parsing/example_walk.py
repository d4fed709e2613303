"""The wire format of `Example` messages, walked once for a batch: all examples take each step together.

The examples stand one behind the other in one array of bytes, with a position in each. A step reads the next entry of
the map of features in all of them: a few operations of NumPy instead of a message object for each feature of each
example. Most entries begin with the same bytes in all examples (tags, key, lengths), or with lengths that are all
larger by as much as the values take more: the first example's are compared with the others'. What is kept of an entry
is where its list stands; only columns that are asked for are decoded, those of one type together.

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
from google.protobuf import message as protobuf

from anabranch.core.protos import example_pb2
from anabranch.core.values import dtypes
from anabranch.ops.parsing.example_columns import Column, single_varints, varints

FEWEST = 16
"""Examples from which on a walk pays."""
_MOST_ENTRIES = 256
"""Features of an example up to which a walk is tried."""
_MOST_HEADS = 4
"""Kinds of heads that an entry is compared with."""
_PADDING = 16
_SAMPLED = 8
"""Examples whose first keys are looked at before a walk."""
_STEP = 16
"""Examples that are parsed one by one in the time of a step for those whose keys come in one order."""
_LIST, _SECOND = 0x0A, 0x12
"""Tags: field 1 and field 2, with a length."""
_STRINGS, _FLOATS, _INTEGERS = 0x0A, 0x12, 0x1A
"""Tags of the lists of a feature; 0 stands for a feature without one."""
_KINDS = {dtypes.string: _STRINGS, dtypes.float32: _FLOATS, dtypes.int64: _INTEGERS}
_MOST_COPIED = 1 << 20
"""Bytes of some of the examples up to which they are copied into a table."""
_LONG = 256
"""Bytes of a list from which on lists are joined rather than gathered byte by byte."""
_MISSING, _UNSEEN = -1, -2
"""In place of the bytes of a list: the feature has none, or the example has no such feature."""


class _Unusual(Exception):
    """The bytes are not in the usual form."""


class _Head(NamedTuple):
    """What stands before the values of an entry."""

    key: bytes
    kind: int
    size: int
    """Bytes of the head."""
    length: int
    """Bytes of the list behind it: of a packed list of numbers, or of strings with their tags."""
    lengths: tuple[int, ...]
    """Where in the head lengths stand that grow with the list; none if one of them takes more than a byte."""


class _Part(NamedTuple):
    """An entry of some of the examples."""

    rows: np.ndarray
    kind: Any
    """Tags of their lists (0 without one), or that of all."""
    start: np.ndarray
    """Where the lists begin."""
    length: Any
    """How many bytes each has, or all have."""
    block: np.ndarray | None = None
    """Their bytes, a row for each list, if they stand in one table."""


class _Lists(NamedTuple):
    """The lists of one feature in the examples that have one."""

    start: np.ndarray
    length: np.ndarray
    rows: np.ndarray | None
    """The examples that have one; None if all have."""


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

    @classmethod
    def layout(cls, data: bytes) -> list[_Head] | None:
        """The heads of the entries of one example; None if they are not lists in one piece each."""
        alone = cls.__new__(cls)
        alone._data = data + b"\0" * _PADDING
        try:
            found = alone._layout(0, len(data)) if data else []
        except (_Unusual, IndexError):
            return None
        return None if found is None else [head for head, _ in found]

    # ------------------------------------------------------------------------------------------------ bytes and lengths
    def _windows(self, at: np.ndarray, size: int) -> np.ndarray:
        """``size`` bytes from each position, ``[n, size]``."""
        if not size:
            return np.zeros((len(at), 0), np.uint8)
        count = len(self._data) - size + 1
        if count < 1:
            raise _Unusual
        windows = np.ndarray((count,), np.dtype((np.void, size)), self._data, 0, (1,))
        return windows[at].view(np.uint8).reshape(-1, size)

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

    # ----------------------------------------------------------------------------------------------------- the examples
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
            table = self._windows(at[rows], size)
        fixed = np.ones(size, bool)
        for head, place in layout:
            fixed[place : place + head.length] = False
        same = np.all(table[:, fixed] == table[0, fixed], axis=1)
        others = np.zeros(0, np.int64)
        if not same.all():
            rows, table = rows[same], table[same]
        if len(rows) < self._count:
            others = np.delete(np.arange(self._count), rows)
        start = at[rows]
        for head, place in layout:
            block = None if others.size else table[:, place : place + head.length]
            self._parts[head.key] = [_Part(rows, head.kind, start + place, head.length, block)]
        return others

    def _layout(self, at: int, end: int) -> list[tuple[_Head, int]] | None:
        """The head of each entry of an example, and where in the example its values begin.

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
        layout: list[tuple[_Head, int]] = []
        while at < end and len(layout) < _MOST_ENTRIES:
            head = self._head(at, end)
            if head is None or head.length < 0:
                return None
            layout.append((head, at + head.size - first))
            at += head.size + head.length
        return layout if at == end and len({head.key for head, _ in layout}) == len(layout) else None

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

    # ------------------------------------------------------------------------------------------------------- an entry
    def _alike(self, rows: np.ndarray, at: np.ndarray, ends: np.ndarray, tried: int) -> np.ndarray:
        """Read an entry of each example, of those together whose heads are alike; the positions behind it."""
        head = self._head(int(at[0]), int(ends[0])) if tried < _MOST_HEADS else None
        if head is None:
            return self._entry(rows, at, ends)
        size, first = head.size, int(at[0])
        heads = self._windows(at, size)
        length: Any = head.length
        same = None
        if heads.tobytes() != self._data[first : first + size] * len(rows):
            larger = heads - heads[0]
            if head.lengths:
                length = heads[:, head.lengths[-1]].astype(np.int64)
                grows = np.zeros(size, np.uint8)
                grows[list(head.lengths)] = 1
                same = np.all(larger == larger[:, head.lengths[-1], None] * grows, axis=1)
                same &= heads[:, head.lengths[0]] < 0x80
                same &= length < 0x80
            else:
                same = ~np.any(larger, axis=1)
        taken = max(head.length, 0) if same is None or not head.lengths else length
        stop = at + (size + taken)
        if same is None or same.all():
            self._parts.setdefault(head.key, []).append(_Part(rows, head.kind, at + size, length))
        else:
            kept = length[same] if isinstance(length, np.ndarray) else length
            self._parts.setdefault(head.key, []).append(_Part(rows[same], head.kind, at[same] + size, kept))
            other = ~same
            stop[other] = self._alike(rows[other], at[other], ends[other], tried + 1)
        if np.any(stop > ends):
            raise _Unusual
        return stop

    def _head(self, at: int, end: int) -> _Head | None:
        """The head of the entry at a position; None if it is not one list in one piece."""
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

        tag, whole, at = tag_and_length(at)
        stop = at + whole
        key_tag, key_length, at = tag_and_length(at)
        key = data[at : at + key_length]
        at += key_length
        places = [1, at + 1 - first]
        value_tag, length, at = tag_and_length(at)
        if (tag, key_tag, value_tag) != (_LIST, _LIST, _SECOND) or at + length != stop or stop > end:
            return None
        if not length:
            return _Head(key, 0, at - first, _MISSING, ())
        places.append(at + 1 - first)
        kind, length, at = tag_and_length(at)
        if at + length != stop:
            return None
        if kind != _STRINGS and length:
            places.append(at + 1 - first)
            tag, length, at = tag_and_length(at)
            if tag != _LIST or at + length != stop:
                return None
        return _Head(key, kind, at - first, length, tuple(places) if length and whole < 0x80 else ())

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
        some = length > 0
        if some.all():
            kind, start, size = self._list(at, stop)
        else:
            kind, start, size = np.zeros(len(at), np.uint8), at, np.full(len(at), _MISSING, np.int64)
            if some.any():
                kind[some], start[some], size[some] = self._list(at[some], stop[some])
        self._sort(rows, key, key_length, kind, start, size)
        return stop

    def _list(self, at: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kinds of the lists at positions, which end at ``stop``; where they begin, and their bytes."""
        kind = self._bytes[at]
        length, at = self._length(at + 1)
        if not np.array_equal(at + length, stop):
            raise _Unusual
        numbers = (kind != _STRINGS) & (length > 0)
        if numbers.all():
            length, at = self._length(self._tag(at, _LIST))
        elif numbers.any():
            length[numbers], at[numbers] = self._length(self._tag(at[numbers], _LIST))
        if not np.array_equal(at + length, stop):
            raise _Unusual
        return kind, at, length

    def _sort(
        self,
        rows: np.ndarray,
        key: np.ndarray,
        key_length: np.ndarray,
        kind: np.ndarray,
        start: np.ndarray,
        length: np.ndarray,
    ) -> None:
        """Keep entries by their keys."""
        while rows.size:
            first, size = int(key[0]), int(key_length[0])
            text = self._data[first : first + size]
            same = key_length == size
            if size:
                last = len(self._bytes) - size
                wanted = np.frombuffer(text, np.uint8)
                same &= np.all(self._windows(np.minimum(key, last), size) == wanted, axis=1)
            parts = self._parts.setdefault(text, [])
            if same.all():
                parts.append(_Part(rows, kind, start, length))
                return
            parts.append(_Part(rows[same], kind[same], start[same], length[same]))
            other = ~same
            rows, key, key_length = rows[other], key[other], key_length[other]
            kind, start, length = kind[other], start[other], length[other]

    # ------------------------------------------------------------------------------------------------------ the columns
    def columns(self, keys: Sequence[str], types: Sequence[dtypes.DType]) -> list[Column | None]:
        """The values of features in all examples; None for those for which the messages must be parsed."""
        columns: list[Column | None] = [None] * len(keys)
        together: dict[dtypes.DType, list[tuple[int, _Lists]]] = {}
        for i, (key, dtype) in enumerate(zip(keys, types, strict=True)):
            parts = self._parts.get(key.encode("utf-8", "surrogateescape"))
            if parts is None:
                nothing: Any = [] if dtype is dtypes.string else np.zeros(0, dtype.np)
                columns[i] = Column(nothing, np.full(self._count, -1, np.int64))
                continue
            block = parts[0].block
            if block is not None and dtype is not dtypes.string:
                columns[i] = self._of_block(block, dtype) if parts[0].kind == _KINDS[dtype] else None
                continue
            lists = self._lists(parts, _KINDS[dtype])
            if lists is not None and dtype is dtypes.string:
                columns[i] = self._strings(lists)
            elif lists is not None:
                together.setdefault(dtype, []).append((i, lists))
        for dtype, group in together.items():
            for (i, _), column in zip(group, self._numbers([lists for _, lists in group], dtype), strict=True):
                columns[i] = column
        return columns

    def _of_block(self, block: np.ndarray, dtype: dtypes.DType) -> Column | None:
        """The column of lists of numbers that take as many bytes each."""
        count, width = block.shape
        if dtype is dtypes.float32:
            if width % 4:
                return None
            values = np.ascontiguousarray(block).reshape(-1).view("<f4").astype(np.float32, copy=False)
            return Column(values, np.full(count, width // 4, np.int64), width // 4)
        if width == 1 and block.max() < 0x80:
            return Column(block[:, 0].astype(np.int64), np.ones(count, np.int64), 1)
        single = single_varints(block) if 0 < width < 10 else None
        if single is not None:
            return Column(single, np.ones(count, np.int64), 1)
        at = np.arange(count) * width
        return _decoded(np.ascontiguousarray(block).reshape(-1), at, np.full(count, width, np.int64))

    def _lists(self, parts: Sequence[_Part], kind: int) -> _Lists | None:
        """Where the lists of a feature stand, in the order of the examples.

        None if one is of another kind, or an example has two.
        """
        part = parts[0]
        if len(parts) == 1 and len(part.rows) == self._count and not isinstance(part.kind, np.ndarray):
            length = part.length if isinstance(part.length, np.ndarray) else np.full(self._count, part.length, np.int64)
            if part.kind == kind:
                return _Lists(part.start, length, None)
        start, length = np.zeros(self._count, np.int64), np.full(self._count, _UNSEEN, np.int64)
        seen = 0
        for part in parts:
            if not np.all((part.kind == kind) | (part.kind == 0)):
                return None
            start[part.rows], length[part.rows] = part.start, part.length
            seen += len(part.rows)
        if np.count_nonzero(length != _UNSEEN) != seen:
            return None
        rows = np.flatnonzero(length >= 0)
        return _Lists(start, length, None) if len(rows) == self._count else _Lists(start[rows], length[rows], rows)

    def _column(self, values: Any, counts: np.ndarray, rows: np.ndarray | None) -> Column:
        if rows is None:
            each = int(counts[0])
            return Column(values, counts, each if np.all(counts == each) else None)
        of_all = np.full(self._count, -1, np.int64)
        of_all[rows] = counts
        return Column(values, of_all)

    def _numbers(self, group: Sequence[_Lists], dtype: dtypes.DType) -> list[Column | None]:
        """The columns of several features of one type, decoded together."""
        start = np.concatenate([lists.start for lists in group])
        length = np.concatenate([lists.length for lists in group])
        column = self._floats(start, length) if dtype is dtypes.float32 else self._integers(start, length)
        if column is None:
            return [None] * len(group)
        if len(group) == 1:
            return [self._column(column.values, column.counts, group[0].rows)]
        columns: list[Column | None] = []
        ends = np.cumsum(column.counts)
        at = value = 0
        for lists in group:
            behind = at + len(lists.start)
            last = int(ends[behind - 1]) if behind else 0
            columns.append(self._column(column.values[value:last], column.counts[at:behind], lists.rows))
            at, value = behind, last
        return columns

    def _floats(self, start: np.ndarray, length: np.ndarray) -> Column | None:
        if np.any(length & 3):
            return None
        counts = length >> 2
        total = int(counts.sum())
        if total > _LONG * max(1, len(length)):
            return Column(self._joined(start, length).view("<f4").astype(np.float32, copy=False), counts)
        words = np.ndarray((len(self._data) - 3,), "V4", self._data, 0, (1,))
        at = np.repeat(start - 4 * (np.cumsum(counts) - counts), counts) + 4 * np.arange(total)
        return Column(words[at].view("<f4").astype(np.float32, copy=False), counts)

    def _integers(self, start: np.ndarray, length: np.ndarray) -> Column | None:
        widest = int(length.max(initial=0))
        if 0 < widest <= 10 and length.all():
            single = single_varints(self._windows(start, widest), length)
            if single is not None:
                return Column(single, np.ones(len(start), np.int64))
        total = int(length.sum())
        if total > _LONG * max(1, len(length)):
            data = self._joined(start, length)
        else:
            data = self._bytes[np.repeat(start - (np.cumsum(length) - length), length) + np.arange(total)]
        return _decoded(data, np.cumsum(length) - length, length)

    def _joined(self, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        """The bytes of lists, one behind the other."""
        data = self._data
        return np.frombuffer(
            b"".join([data[a : a + n] for a, n in zip(start.tolist(), length.tolist(), strict=True)]), np.uint8
        )

    def _strings(self, lists: _Lists) -> Column | None:
        start, length, data = lists.start, lists.length, self._data
        if length.all():
            try:
                size, at = self._length(self._tag(start, _LIST))
            except _Unusual:
                return None
            if np.array_equal(at + size, start + length):  # one string each
                values = [data[a:b] for a, b in zip(at.tolist(), (at + size).tolist(), strict=True)]
                return self._column(values, np.ones(len(values), np.int64), lists.rows)
        read = example_pb2.BytesList.FromString
        values, counts = [], []
        try:
            for a, n in zip(start.tolist(), length.tolist(), strict=True):
                some = read(data[a : a + n]).value
                values += some
                counts.append(len(some))
        except protobuf.DecodeError:
            return None
        return self._column(values, np.array(counts, np.int64), lists.rows)


def _decoded(data: np.ndarray, at: np.ndarray, length: np.ndarray) -> Column | None:
    """The integers of packed lists that stand one behind the other; None if one cannot be read."""
    last = data >= 0x80
    if not last.any():
        return Column(data.astype(np.int64), length)
    if last[(at + length - 1)[length > 0]].any():
        return None
    try:
        values, _ = varints(data)
    except ValueError:
        return None
    ended = np.concatenate([np.zeros(1, np.int64), np.cumsum(~last)])
    return Column(values, ended[at + length] - ended[at])


def _are_mixed(serialized: Sequence[bytes]) -> bool:
    """Whether keys come in another order in each example, so that a walk has too many steps for so few.

    TensorFlow's own programs wrote them so: a map in C++ has no order.
    """
    try:
        kinds = {_first_key(data) for data in serialized[:: max(1, len(serialized) // _SAMPLED)]}
    except IndexError:
        return False
    layout = Walk.layout(serialized[0]) if len(kinds) > 2 else None
    return layout is not None and len(kinds) * len(layout) * _STEP > len(serialized)


def _first_key(data: bytes) -> bytes:
    """The key of the first entry of an example, if that is written as usual."""
    at = 0
    for _ in range(2):  # behind the tags and lengths of the map, and of its first entry
        at += 1
        while data[at] & 0x80:
            at += 1
        at += 1
    return data[at + 2 : at + 2 + data[at + 1]] if data[at] == _LIST else b""


def walk(serialized: Sequence[bytes]) -> Walk | None:
    """Where the features of examples stand; None if the messages must be parsed one by one."""
    if len(serialized) < FEWEST or set(map(type, serialized)) != {bytes} or _are_mixed(serialized):
        return None
    try:
        return Walk(serialized)
    except ValueError:
        return None
