"""TFRecord, the framing of data files and event files: writing records to a stream and reading them back.

A record is its length (8 bytes, little endian), a masked CRC32C of those, its bytes, and a masked CRC32C of them. Both
checksums are verified when a record is read, so that no byte of a damaged record gets out: what cannot be trusted is a
`DataLossError` that names file and offset. Nothing is allocated because a file says so: a length is only believed as
far as there are bytes.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import google_crc32c

from anabranch.core import errors, file_errors, paths
from anabranch.core.contract import hooks
from anabranch.core.values import budgets

HEADER = 12
FOOTER = 4
_CHUNK = 1 << 18
_MOST = 1 << 26
_frame = struct.Struct("<QI")
_length = struct.Struct("<Q")
_checksum = struct.Struct("<I")


def masked_crc(data: Any) -> int:
    """CRC32C of ``data``, rotated and shifted so that a checksum of data that holds checksums stays a good one."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    """A record as it stands in a file."""
    length = _length.pack(len(record))
    return b"".join((length, _checksum.pack(masked_crc(length)), record, _checksum.pack(masked_crc(record))))


# ------------------------------------------------------------------------------------------------------------- reading
def _inflating(read: Callable[[int], bytes], path: str, bits: int) -> Callable[[int], bytes]:
    """A `read` of what a compressed stream holds; members that follow each other count as one stream."""
    state: dict[str, Any] = {"unit": zlib.decompressobj(bits), "rest": b"", "started": False}

    def inflated(size: int) -> bytes:
        while True:
            unit = state["unit"]
            given = state["rest"] or unit.unconsumed_tail
            state["rest"] = b""
            if not given:
                given = read(_CHUNK)
                if not given:
                    if state["started"] and not unit.eof:
                        raise errors.DataLossError(None, None, f"{path}: the compressed data ends in its middle")
                    return b""
            state["started"] = True
            try:
                data = unit.decompress(given, size)
            except zlib.error as problem:
                raise errors.DataLossError(None, None, f"{path}: damaged compressed data ({problem})") from None
            if unit.eof:
                state.update(unit=zlib.decompressobj(bits), rest=unit.unused_data, started=bool(unit.unused_data))
            if data:
                return data

    return inflated


def opened(path: str, compression: str, buffer_size: int = 0) -> tuple[Callable[[int], bytes], Callable[[], None]]:
    """How to read the (inflated) bytes of a file, and how to close it.

    Args:
        path: the file.
        compression: ``""``, ``"ZLIB"`` or ``"GZIP"``.
        buffer_size: bytes that are asked of the file at once, if not 0.
    """
    file = paths.open_bytes(path)

    def read(size: int) -> bytes:
        try:
            return file.read(max(size, buffer_size)) or b""
        except OSError as problem:
            raise file_errors.error_of(problem, path) from None

    if not compression:
        return read, file.close
    return _inflating(read, path, zlib.MAX_WBITS + (16 if compression == "GZIP" else 0)), file.close


class RecordStream:
    """Read records from ``read``, a function that gives at most the bytes it is asked for, and none at the end.

    With ``torn_end`` the stream ends before a last record that is cut off: who writes it may not be done. No record may
    have more than ``most`` bytes (:mod:`anabranch.core.values.budgets`).

    Attributes:
        offset: where in the (inflated) stream the next record starts.
    """

    def __init__(
        self, read: Callable[[int], bytes], path: str, torn_end: bool = False, most: int = budgets.UNBOUNDED
    ) -> None:
        self._read = read
        self._most = most
        self._path = path
        self._torn_end = torn_end
        self._buffer = b""
        self._position = 0
        self.offset = 0
        self._behind: int | None = None
        """Size of a damaged record whose length can be trusted: where the one behind it starts."""

    def _fill(self, size: int) -> bool:
        """Have ``size`` bytes at the position, if the stream has them."""
        there = len(self._buffer) - self._position
        if there >= size:
            return True
        parts = [self._buffer[self._position :]] if there else []
        while there < size:
            part = self._read(min(max(_CHUNK, size - there), _MOST))
            if not part:
                break
            parts.append(part)
            there += len(part)
        self._buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        self._position = 0
        return there >= size

    def _lost(self, what: str, reason: str) -> errors.DataLossError:
        return errors.DataLossError(None, None, f"{what} record at {self.offset} of {self._path}: {reason}")

    def next(self) -> bytes | None:
        """The next record; None at the end.

        Raises:
            DataLossError: the record is cut off or damaged; reading it again says so again. ResourceExhaustedError: it
                is larger than it may be.
        """
        if not self._fill(HEADER):
            there = len(self._buffer) - self._position
            if not there or self._torn_end:
                return None
            raise self._lost("truncated", f"{there} of {HEADER} bytes of its header are there")
        start = self._position
        length, check = _frame.unpack_from(self._buffer, start)
        if masked_crc(self._buffer[start : start + 8]) != check:
            raise self._lost("corrupted", "its length does not fit its checksum")
        whole = HEADER + length + FOOTER
        if length > self._most:
            given = f"the record at {self.offset} of the compressed file {self._path}"
            raise budgets.exceeded(length, self._most, given)
        if not self._fill(whole):
            if self._torn_end:
                return None
            there = len(self._buffer) - self._position
            raise self._lost("truncated", f"{there} of {whole} bytes are there")
        start = self._position + HEADER
        record = self._buffer[start : start + length]
        if masked_crc(record) != _checksum.unpack_from(self._buffer, start + length)[0]:
            self._behind = whole
            raise self._lost("corrupted", f"its {length} bytes do not fit their checksum")
        self._position = start + length + FOOTER
        self.offset += whole
        return record

    def pass_over(self) -> bool:
        """Go behind the damaged record that :meth:`next` has met; False if nobody knows where it ends."""
        size, self._behind = self._behind, None
        if size is None:
            return False
        self._position += size
        self.offset += size
        return True

    def next_of_buffer(self) -> list[bytes]:
        """The next records, as many as are in memory and at least one; an empty list at the end.

        Raises:
            DataLossError: the first of them is cut off or damaged.
        """
        record = self.next()
        if record is None:
            return []
        records = [record]
        value, unpack, unpack_check = google_crc32c.value, _frame.unpack_from, _checksum.unpack_from
        buffer, size, position = self._buffer, len(self._buffer), self._position
        while size - position >= HEADER:
            length, check = unpack(buffer, position)
            crc = value(buffer[position : position + 8])
            if (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF != check:
                break
            start = position + HEADER
            end = start + length
            if end + FOOTER > size:
                break
            record = buffer[start:end]
            crc = value(record)
            if (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF != unpack_check(buffer, end)[0]:
                break
            records.append(record)
            position = end + FOOTER
        self.offset += position - self._position
        self._position = position
        return records


def read_records(
    path: str | os.PathLike[str], compression: str = "", buffer_size: int = 0, torn_end: bool = False
) -> Iterator[bytes]:
    """The records of a file, one by one; the file is opened at once. For ``torn_end`` see :class:`RecordStream`.

    Raises:
        NotFoundError: no such file. DataLossError (when it comes there): a record is cut off or damaged.
        ResourceExhaustedError: a record of a compressed file is larger than the budget for it.
    """
    name = os.fspath(path)
    read, close = opened(name, compression, buffer_size)

    def records() -> Iterator[bytes]:
        stream = RecordStream(read, name, torn_end, budgets.of_stream(compression))
        try:
            while (record := stream.next()) is not None:
                yield record
        finally:
            close()

    return records()


hooks.fill("open_bytes", opened)
hooks.fill("record_stream", RecordStream)
