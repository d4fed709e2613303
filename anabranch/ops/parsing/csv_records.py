"""Records of comma-separated values: the one parser behind ``DecodeCSV`` and the datasets of CSV files.

A record is cut into fields after RFC 4180 (:func:`fields_of`); fields become columns of values (:class:`Columns`), many
records at a time: NumPy and Python read a column of plain numbers faster than anything that looks at each. What cannot
be read is an :class:`InvalidRecord`, which ops and stages turn into errors of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.values import dtypes


class InvalidRecord(Exception):
    """What is wrong with a record: its ``position`` among those given, and how to say it."""

    def __init__(self, position: int, before: str, behind: str = "") -> None:
        super().__init__(position, before, behind)
        self.position = position
        self._before = before
        self._behind = behind

    def told(self, record: str) -> str:
        """The text, with what the record is called."""
        return f"{self._before} in {record}{self._behind}"


_INTEGER = re.compile(rb"\s*[+-]?[0-9]+\s*\Z")
_NUMBER = re.compile(
    rb"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)\s*\Z", re.I
)
_HEXADECIMAL = re.compile(rb"\s*[+-]?0x[0-9a-f.]+(?:p[+-]?[0-9]+)?\s*\Z", re.I)


def number(text: bytes, dtype: dtypes.DType) -> Any:
    """The number that a string shows; ValueError if it shows none, or one that the dtype cannot hold."""
    assert dtype.np is not None
    if dtype.is_integer:
        if not _INTEGER.match(text):
            raise ValueError(text)
        value = int(text)
        info = np.iinfo(dtype.np)
        if not info.min <= value <= info.max:
            raise ValueError(text)
        return value
    if _NUMBER.match(text):
        return float(text)
    if _HEXADECIMAL.match(text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:  # as of decimal numbers that are too large
            return -np.inf if text.lstrip().startswith(b"-") else np.inf
    raise ValueError(text)


def fields_of(record: bytes, delim: bytes, quotes: bool) -> list[bytes]:
    """The fields of one record after RFC 4180; ValueError with what is wrong.

    Line ends outside quotes are passed over at the start of a field only.
    """
    if not (quotes and b'"' in record) and b"\n" not in record and b"\r" not in record:
        return record.split(delim) if record else []
    fields = []
    position, size = 0, len(record)
    while position < size:
        if record[position] in b"\n\r":
            position += 1
            continue
        if not (quotes and record[position : position + 1] == b'"'):
            end = record.find(delim, position)
            end = size if end < 0 else end
            field = record[position:end]
            if b"\n" in field or b"\r" in field or (quotes and b'"' in field):
                raise ValueError("Unquoted fields cannot have quotes/CRLFs inside")
            fields.append(field)
            position = end + 1
            continue
        position += 1
        parts = []
        while True:
            end = record.find(b'"', position)
            if end < 0:
                raise ValueError("Quoted field has to end with quote followed by delim or end")
            parts.append(record[position:end])
            follows = record[end + 1 : end + 2]
            position = end + 2
            if follows in (b"", delim):
                break
            if follows != b'"':
                raise ValueError("Quote inside a string has to be escaped by another quote")
            parts.append(b'"')
        fields.append(b"".join(parts))
    if record[-1:] == delim:
        fields.append(b"")
    return fields


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


class Columns:
    """How records become columns.

    Args:
        types: dtype of each column.
        defaults: for each column an array with the value of fields that are missing; empty if it is required.
        delim: what stands between fields, one byte.
        quotes: whether fields may stand in double quotes.
        na_value: a text that means the same as an empty field.
        wanted: numbers of the fields that become columns, in order; empty for all.
        blank: whether a record without a byte is one empty field, as in a file; it has none in ``DecodeCSV``.
    """

    def __init__(
        self,
        types: Sequence[dtypes.DType],
        defaults: Sequence[Any],
        delim: bytes,
        quotes: bool,
        na_value: bytes,
        wanted: Sequence[int],
        blank: bool = False,
    ) -> None:
        self._types = tuple(types)
        self._defaults = [np.asarray(default) for default in defaults]
        self._delim = delim
        self._quotes = quotes
        self._empty = {b"", na_value}
        self._wanted = tuple(wanted)
        self._of_blank = [b""] if blank else []

    def of(self, records: Sequence[bytes]) -> list[np.ndarray]:
        """The columns of records; InvalidRecord for the first thing that is wrong."""
        rows = [self._fields(i, record) for i, record in enumerate(records)]
        columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(self._types)
        plain = not any(b"_" in record for record in records)  # Python takes 1_000 for a number
        return [self._column(f, columns[f], dtype, plain) for f, dtype in enumerate(self._types)]

    def _fields(self, i: int, record: bytes) -> list[bytes]:
        try:
            fields = fields_of(record, self._delim, self._quotes) if record else self._of_blank
        except ValueError as problem:
            raise InvalidRecord(i, str(problem), f": {_text(record)!r}") from None
        if self._wanted:
            fields = [fields[column] for column in self._wanted if column < len(fields)]
        count = len(self._types)
        if len(fields) != count:
            raise InvalidRecord(i, f"Expect {count} fields but have {len(fields)}")
        return fields

    def _column(self, f: int, fields: Sequence[bytes], dtype: dtypes.DType, plain: bool) -> np.ndarray:
        if self._empty.isdisjoint(fields):
            if dtype is dtypes.string:
                return _strings(fields)
            column = _plain_column(fields, dtype) if plain else None
            if column is not None:
                return column
        default = self._defaults[f]
        missing = [i for i, field in enumerate(fields) if field in self._empty]
        if missing and not default.size:
            raise InvalidRecord(missing[0], f"Field {f} is required but missing", "!")
        values: list[Any] = list(fields)
        for i in missing:
            values[i] = default.ravel()[0]
        if dtype is dtypes.string:
            return _strings(values)
        for i, field in enumerate(fields):
            if field in self._empty:
                continue
            try:
                values[i] = number(field, dtype)
            except ValueError:
                reason = f" is not a valid {dtypes.proto_name(dtype)}: {_text(field)}"
                raise InvalidRecord(i, f"Field {f}", reason) from None
        return np.array(values, dtype.np)


def _strings(items: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _plain_column(fields: Sequence[bytes], dtype: dtypes.DType) -> np.ndarray | None:
    """A column of numbers as Python and NumPy read them; None if that could be an error, or hexadecimal."""
    try:
        if not dtype.is_integer:
            with np.errstate(over="ignore"):  # what is too large is infinite
                return np.fromiter(map(float, fields), np.float64, len(fields)).astype(dtype.np, copy=False)
        return np.array(list(map(int, fields)), dtype.np)  # refuses what the dtype cannot hold
    except (ValueError, OverflowError):
        return None


# ---------------------------------------------------------------------------------------- records of a file, in pieces
def ends_of_records(line: bytes, delim: bytes, inside: bool) -> tuple[list[int], bool]:
    """Where carriage returns end records in a line that may hold quotes, and whether it ends inside quotes.

    Args:
        line: what stands between two line feeds.
        delim: what stands between fields.
        inside: whether the line begins inside quotes.
    """
    cuts: list[int] = []
    position, size = 0, len(line)
    while position < size or inside:
        if inside:
            quote = line.find(b'"', position)
            if quote < 0:
                return cuts, True
            follows = line[quote + 1 : quote + 2]
            position = quote + 2
            if follows == b"\r":
                cuts.append(quote + 1)
            inside = follows not in (b"", b"\r", delim)
        elif line[position : position + 1] == b'"':
            inside = True
            position += 1
        else:
            end = line.find(delim, position)
            end = size if end < 0 else end
            turn = line.find(b"\r", position, end)
            if turn >= 0:
                cuts.append(turn)
                end = turn
            position = end + 1
    return cuts, inside


class Records:
    """Cut what stands in a file into records, piece by piece."""

    def __init__(self, delim: bytes, quotes: bool) -> None:
        self._delim = delim
        self._quotes = quotes
        self._open: list[bytes] = []
        """Lines of a record that goes on behind a line feed."""

    def of(self, text: bytes) -> list[bytes]:
        """The records of whole lines, without the last one's line feed, that follow those before."""
        quoted = self._quotes and (bool(self._open) or b'"' in text)
        if not quoted:
            if b"\r" in text:
                text = text.replace(b"\r\n", b"\n").removesuffix(b"\r").replace(b"\r", b"\n")
            return text.split(b"\n")
        records: list[bytes] = []
        for line in text.split(b"\n"):
            if not self._open and b"\r" not in line and b'"' not in line:
                records.append(line)
                continue
            cuts, inside = ends_of_records(line, self._delim, bool(self._open))
            start = 0
            for cut in cuts:
                records.append(self._closed(line[start:cut]))
                start = cut + 1
            if inside:
                self._open.append(line[start:])
            elif start < len(line) or not cuts:
                records.append(self._closed(line[start:]))
        return records

    def _closed(self, last: bytes) -> bytes:
        if not self._open:
            return last
        record = b"\n".join([*self._open, last])
        self._open.clear()
        return record

    def rest(self) -> list[bytes]:
        """At the end of the file: a record whose quotes have not been closed, if there is one."""
        record = b"\n".join(self._open)
        there = bool(self._open)
        self._open.clear()
        return [record] if there else []
