"""Sorted tables of byte strings, the files that a checkpoint's index is: reading and writing.

The layout is LevelDB's (its documents `table_format.md` and `log_format.md` describe it): blocks of entries sorted by
key, each key without what it shares with the one before; a checksum behind each block; an index block with a key
between each two blocks; a footer of 48 bytes that ends with a magic number. Every checksum is verified, every
length is held against what is there, and keys must ascend, so that a damaged file is a `DataLossError` that names it
and never a crash or a huge allocation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.values import budgets
from anabranch.formats.records import masked_crc

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5
BLOCK_SIZE = 1 << 18
RESTART_INTERVAL = 16
_UNCOMPRESSED, _SNAPPY = 0, 1
_word = struct.Struct("<I")
_trailer = struct.Struct("<BI")


def put_varint(target: bytearray, value: int) -> None:
    """Append a non-negative integer, seven bits a byte, lowest first."""
    while value > 127:
        target.append((value & 127) | 128)
        value >>= 7
    target.append(value)


def take_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The integer at ``at`` and where it ends; ValueError if it does not end before ``end`` or takes over 64 bits."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:  # the tenth byte holds one bit
                raise ValueError("a length takes more than 64 bits")
            return value, at
        shift += 7
    raise ValueError("a length runs past the end")


# ------------------------------------------------------------------------------------------------------------- writing
class _Block:
    """Entries that are put together into one block."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.data = bytearray()
        self.restarts = [0]
        self.count = 0
        self.last = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.count and self.count % self.interval == 0:
            self.restarts.append(len(self.data))
        elif self.count:
            limit = min(len(key), len(self.last))
            while shared < limit and key[shared] == self.last[shared]:
                shared += 1
        for length in (shared, len(key) - shared, len(value)):
            put_varint(self.data, length)
        self.data += key[shared:]
        self.data += value
        self.last = key
        self.count += 1

    def finished(self) -> bytes:
        return bytes(self.data) + b"".join(map(_word.pack, [*self.restarts, len(self.restarts)]))


def _between(last: bytes, following: bytes) -> bytes:
    """A short key that is not before ``last`` and before ``following``."""
    for at in range(min(len(last), len(following))):
        if last[at] != following[at]:
            if last[at] < 255 and last[at] + 1 < following[at]:
                return last[:at] + bytes([last[at] + 1])
            break
    return last


def write_table(items: Iterable[tuple[bytes, bytes]], write: Callable[[bytes], Any]) -> None:
    """Write a table by calls of ``write``; ``items`` ascend by key."""
    position = 0
    index = _Block(1)
    block = _Block(RESTART_INTERVAL)
    waiting: tuple[bytes, bytes] | None = None  # last key and place of a block whose index entry is not made yet

    def put(data: bytes) -> bytes:
        """Write a block; where it stands."""
        nonlocal position
        kind = bytes([_UNCOMPRESSED])
        write(data + kind + _word.pack(masked_crc(data + kind)))
        place = bytearray()
        put_varint(place, position)
        put_varint(place, len(data))
        position += len(data) + TRAILER
        return bytes(place)

    for key, value in items:
        if waiting is not None:
            index.add(_between(waiting[0], key), waiting[1])
            waiting = None
        block.add(key, value)
        if len(block.data) >= BLOCK_SIZE:
            waiting = (key, put(block.finished()))
            block = _Block(RESTART_INTERVAL)
    if block.count:
        waiting = (block.last, put(block.finished()))
    meta = put(_Block(RESTART_INTERVAL).finished())
    if waiting is not None:
        index.add(waiting[0], waiting[1])
    footer = meta + put(index.finished())
    write(footer.ljust(FOOTER - 8, b"\0") + struct.pack("<Q", MAGIC))


# ------------------------------------------------------------------------------------------------------------- reading
def _lost(path: str, reason: str) -> errors.DataLossError:
    return errors.DataLossError(None, None, f"{path}: {reason}")


class Table:
    """A table that is read a block at a time.

    Args:
        read: ``read(offset, size)`` gives the bytes that are there, fewer at the end of the file.
        size: size of the file.
        path: its path, for messages.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, path: str) -> None:
        self._read = read
        self._size = size
        self.path = path
        footer = read(size - FOOTER, FOOTER) if size >= FOOTER else b""
        if len(footer) != FOOTER or footer[-8:] != struct.pack("<Q", MAGIC):
            raise _lost(path, "not an sstable (bad magic number): the file is cut off, or is not a checkpoint")
        try:
            at = 0
            places = []
            for _ in range(4):
                value, at = take_varint(footer, at, FOOTER - 8)
                places.append(value)
        except ValueError:
            raise _lost(path, "damaged footer of the table") from None
        self._blocks = [(key, self._place(value)) for key, value in self._entries(self._block(places[2], places[3]))]

    def _place(self, value: bytes) -> tuple[int, int]:
        try:
            offset, at = take_varint(value, 0, len(value))
            length, _ = take_varint(value, at, len(value))
        except ValueError:
            raise _lost(self.path, "damaged index of the table") from None
        return offset, length

    def _block(self, offset: int, length: int) -> bytes:
        if offset + length + TRAILER > self._size - FOOTER:
            raise _lost(self.path, f"a block of {length} bytes at {offset} runs past the end of the table")
        data = self._read(offset, length + TRAILER)
        if len(data) != length + TRAILER:
            raise _lost(self.path, f"truncated block read at {offset}")
        kind, crc = _trailer.unpack(data[length:])
        if masked_crc(data[: length + 1]) != crc:
            raise _lost(self.path, f"block checksum mismatch at {offset}: the file is damaged")
        if kind == _SNAPPY:
            return unsnapped(data[:length], self.path)
        if kind != _UNCOMPRESSED:
            raise _lost(self.path, f"a block of unknown kind {kind} at {offset}")
        return data[:length]

    def _entries(self, block: bytes) -> Iterator[tuple[bytes, bytes]]:
        if len(block) < 4:
            raise _lost(self.path, "a block without entries")
        (restarts,) = _word.unpack(block[-4:])
        end = len(block) - 4 - 4 * restarts
        if end < 0:
            raise _lost(self.path, "damaged block of the table")
        at = 0
        key = b""
        first = True
        there, most = 0, budgets.most()
        """Bytes of all keys: each is stored without what it shares with the one before."""
        while at < end:
            try:
                shared, at = take_varint(block, at, end)
                fresh, at = take_varint(block, at, end)
                length, at = take_varint(block, at, end)
            except ValueError:
                raise _lost(self.path, "damaged entry of the table") from None
            if shared > len(key) or at + fresh + length > end:
                raise _lost(self.path, "an entry of the table runs past the end of its block")
            whole_key = key[:shared] + block[at : at + fresh]
            if not first and whole_key <= key:
                raise _lost(self.path, "entries of the table are out of order")
            key, first = whole_key, False
            there += len(key)
            if there > most:
                raise budgets.exceeded(
                    there, most, f"the keys in a block of {len(block)} bytes of the table {self.path}"
                )
            at += fresh
            yield key, block[at : at + length]
            at += length

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries in order."""
        last: bytes | None = None
        for _, (offset, length) in self._blocks:
            for key, value in self._entries(self._block(offset, length)):
                if last is not None and key <= last:
                    raise _lost(self.path, "entries of the table are out of order")
                last = key
                yield key, value

    def find(self, wanted: bytes) -> bytes | None:
        """The value of a key, None if there is none."""
        for until, (offset, length) in self._blocks:
            if wanted <= until:
                for key, value in self._entries(self._block(offset, length)):
                    if key == wanted:
                        return value
                return None
        return None


def unsnapped(data: bytes, path: str) -> bytes:
    """What a block compressed with Snappy holds (`format_description.txt` of Snappy)."""

    def damaged() -> errors.DataLossError:
        return _lost(path, "damaged compressed block of the table")

    try:
        size, at = take_varint(data, 0, len(data))
    except ValueError:
        raise damaged() from None
    budgets.require(size, f"a compressed block of {len(data)} bytes of the table {path}")
    if size > len(data) * 64:  # a copy of 3 bytes gives at most 64
        raise damaged()
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        length = tag >> 2
        kind = tag & 3
        if kind == 0:
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at : at + extra], "little")
                at += extra
            length += 1
            if at + length > len(data) or len(out) + length > size:
                raise damaged()
            out += data[at : at + length]
            at += length
            continue
        extra = (0, 1, 2, 4)[kind]
        if at + extra > len(data):
            raise damaged()
        back = int.from_bytes(data[at : at + extra], "little")
        at += extra
        if kind == 1:
            back |= (length >> 3) << 8
            length = (length & 7) + 4
        else:
            length += 1
        if not 0 < back <= len(out) or len(out) + length > size:
            raise damaged()
        start = len(out) - back
        for i in range(length):  # the source may overlap what is being written
            out.append(out[start + i])
    if len(out) != size:
        raise damaged()
    return bytes(out)
