"""Reading checkpoints in TensorFlow's format V2.

Nothing is believed that the file does not bear out: an entry must lie inside its data file and have the size that dtype
and shape ask for before anything is allocated, and the checksum of a tensor is verified before its values get out.
They are read a megabyte at a time, and the checksum of each is computed while it is in the processor's cache.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import Any, Literal

import google_crc32c
import ml_dtypes
import numpy as np
from google.protobuf.message import DecodeError

from anabranch.core import errors, file_errors
from anabranch.core.values import dtypes
from anabranch.core.values.stored_variant import StoredVariant
from anabranch.formats import bundle, slices, sstable

CHUNK = 1 << 20
_ALIGNMENT = 64
_MOST_DIMENSIONS = 64  # NumPy's
_MOST_OPEN = 256


def _identity(path: str) -> tuple[int, int, int] | None:
    """What tells a file from one that took its place."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def empty_aligned(size: int) -> np.ndarray:
    """Uninitialised bytes at an address from which a device can take them without a copy."""
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]


class TensorFacts:
    """What the index says about a tensor."""

    __slots__ = ("dtype", "entry", "parts", "shape")

    def __init__(
        self, dtype: dtypes.DType, shape: tuple[int, ...], entry: Any, parts: tuple[slices.Slice, ...]
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.entry = entry
        self.parts = parts
        """Slices that were saved; empty for a tensor in one piece."""


def checked_facts(path: str, name: str, dtype: int, sizes: Sequence[int]) -> tuple[dtypes.DType, tuple[int, ...]]:
    """Dtype and shape of a tensor; DataLossError if there are no such tensors."""
    shape = tuple(sizes)
    try:
        checked = dtypes.as_dtype(dtype)
    except TypeError:
        raise bundle.lost(path, f"tensor {name!r} has an unknown dtype, number {dtype}") from None
    if len(shape) > _MOST_DIMENSIONS or any(size < 0 or size >= 1 << 62 for size in shape):
        raise bundle.lost(path, f"tensor {name!r} has the shape {list(shape[:8])}")
    return checked.base, shape


class BundleReader:
    """A checkpoint that is open for reading; its index is in memory. May be used by several threads.

    Args:
        prefix: path of the checkpoint without ``.index``.

    Raises:
        NotFoundError: there is none. DataLossError: it is damaged.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.path = bundle.index_name(prefix)
        before = _identity(self.path)
        items, header = bundle._read_index(prefix)
        self._count = header.num_shards
        self._swapped = header.endianness != header.LITTLE
        self._entries = dict(items)
        self._files: dict[int, tuple[int, int]] = {}  # shard -> descriptor, size
        self.tensors: dict[str, TensorFacts] = {}
        for key, entry in items:
            if key.startswith(b"\0"):  # a slice
                continue
            name = key.decode("utf-8", "surrogateescape")
            dtype, shape = checked_facts(self.path, name, entry.dtype, [d.size for d in entry.shape.dim])
            parts = tuple(slices.from_proto(part) for part in entry.slices)
            if not all(slices.is_inside(part, shape) for part in parts):
                raise bundle.lost(self.path, f"tensor {name!r} has a slice outside its shape {list(shape)}")
            self.tensors[name] = TensorFacts(dtype, shape, entry, parts)
        self.is_complete = self._open_all() and _identity(self.path) == before

    def _open_all(self) -> bool:
        """Open the data files, and say whether all are there: a checkpoint that replaces this one removes them.

        Those that are missing raise when they are read.
        """
        shards = {entry.shard_id for entry in self._entries.values() if not entry.slices}
        if len(shards) > _MOST_OPEN:
            return True
        for shard in sorted(shards):
            try:
                self._file(shard, "")
            except errors.OpError:
                return False
        return True

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the data files."""
        while self._files:
            os.close(self._files.popitem()[1][0])

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    # ---------------------------------------------------------------------------------------------------------- reading
    def facts(self, name: str) -> TensorFacts:
        """Dtype, shape and slices of a tensor; NotFoundError if there is none."""
        tensor_facts = self.tensors.get(name)
        if tensor_facts is None:
            raise errors.NotFoundError(None, None, f"Key {name} not found in checkpoint {self.prefix}")
        return tensor_facts

    def read(self, name: str, part: slices.Slice | None = None) -> np.ndarray:
        """A tensor, or a slice of it.

        Raises:
            NotFoundError: there is no such tensor. DataLossError: its bytes are not what was written.
            InvalidArgumentError: the slices that are there do not cover what is asked for.
        """
        facts = self.facts(name)
        wanted = tuple((0, slices.WHOLE) for _ in facts.shape) if part is None else part
        if not slices.is_inside(wanted, facts.shape):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{self.prefix}: tensor {name!r} has shape {list(facts.shape)}, in which "
                f"the slice {slices.show(wanted)} does not lie",
            )
        wanted = slices.normal(wanted, facts.shape)
        if not facts.parts:
            whole = self._stored(name, facts.dtype, facts.shape, facts.entry)
            return whole if slices.is_whole(wanted) else whole[slices.box(wanted, facts.shape)]
        for stored in facts.parts:
            if slices.normal(stored, facts.shape) == wanted:
                return self._part(name, facts, stored)
        return slices.assembled(self.prefix, name, facts, wanted, lambda stored: self._part(name, facts, stored))

    def _part(self, name: str, facts: TensorFacts, part: slices.Slice) -> np.ndarray:
        entry = self._entries.get(slices.key_of(name.encode("utf-8", "surrogateescape"), part))
        if entry is None:
            raise bundle.lost(self.path, f"the slice {slices.show(part)} of tensor {name!r} is missing")
        shape = slices.slice_shape(part, facts.shape)
        if entry.dtype != facts.dtype.enum or tuple(d.size for d in entry.shape.dim) != shape:
            raise bundle.lost(self.path, f"the slice {slices.show(part)} of tensor {name!r} has another shape or dtype")
        return self._stored(name, facts.dtype, shape, entry)

    def _file(self, shard: int, name: str) -> tuple[int, int, str]:
        path = bundle.data_name(self.prefix, shard, self._count)
        if not 0 <= shard < max(self._count, 1):
            raise bundle.lost(self.path, f"tensor {name!r} is said to be in shard {shard} of {self._count}")
        opened = self._files.get(shard)
        if opened is None:
            try:
                with file_errors.open_to_read(path) as stream:
                    handle = os.dup(stream.fileno())
            except FileNotFoundError as problem:
                raise errors.NotFoundError(
                    None, None, f"{path}; No such file or directory (tensor {name!r} is in it)"
                ) from problem
            except OSError as problem:
                raise file_errors.error_of(problem, path) from problem
            opened = self._files[shard] = (handle, os.fstat(handle).st_size)
        return (*opened, path)

    def _stored(self, name: str, dtype: dtypes.DType, shape: tuple[int, ...], entry: Any) -> np.ndarray:
        """The values of an entry."""
        handle, size, path = self._file(entry.shard_id, name)
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > size:
            raise bundle.lost(
                path,
                f"tensor {name!r} should take {entry.size} bytes at {entry.offset}, but the file has {size} bytes: "
                "it is cut off",
            )
        count = math.prod(shape)
        if dtype == dtypes.string:
            return self._strings(name, path, handle, entry, count).reshape(shape)
        if dtype == dtypes.variant:
            return self._variants(name, path, handle, entry, count).reshape(shape)
        if dtype.np is None:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"tensor {name!r} of {dtype.name} in {path}", "numbers, bools, strings or variants", "skip it"
                ),
            )
        if count * dtype.np.itemsize != entry.size:
            raise bundle.lost(path, f"tensor {name!r} of {dtype.name} {list(shape)} cannot take {entry.size} bytes")
        data, crc = read_with_crc(handle, entry.offset, entry.size, path, name)
        self._check(name, path, entry, crc)
        array = data.view(dtype.np)
        try:
            array = array.reshape(shape)
        except ValueError as problem:
            raise bundle.lost(path, f"tensor {name!r} of shape {list(shape)}: {problem}") from None
        if self._swapped and dtype.np.itemsize > 1:
            array = _swapped(array)
        return array if dtype != dtypes.bool else np.not_equal(array.view(np.uint8), 0, out=np.empty(array.shape, bool))

    @staticmethod
    def _check(name: str, path: str, entry: Any, crc: int) -> None:
        if bundle.mask(crc) != entry.crc32c:
            raise bundle.lost(
                path,
                f"checksum of tensor {name!r} does not match: stored {entry.crc32c:#010x}, computed "
                f"{bundle.mask(crc):#010x}; its {entry.size} bytes at {entry.offset} are damaged",
            )

    def _strings(self, name: str, path: str, handle: int, entry: Any, count: int) -> np.ndarray:
        if count + 4 > entry.size:  # a byte for each length, and a checksum
            raise bundle.lost(path, f"{count} strings of tensor {name!r} cannot take {entry.size} bytes")
        data = read_with_crc(handle, entry.offset, entry.size, path, name)[0].tobytes()
        lengths = []
        fixed = bytearray()
        at = 0
        try:
            for _ in range(count):
                length, at = sstable.take_varint(data, at, len(data))
                lengths.append(length)
                fixed += length.to_bytes(4 if length < 1 << 32 else 8, "big" if self._swapped else "little")
        except ValueError:
            raise bundle.lost(path, f"the lengths of the strings of tensor {name!r} are damaged") from None
        crc = google_crc32c.value(bytes(fixed))
        check = data[at : at + 4]
        if int.from_bytes(check, "big" if self._swapped else "little") != bundle.mask(crc):
            raise bundle.lost(path, f"checksum of the lengths of the strings of tensor {name!r} does not match")
        at += 4
        if at + sum(lengths) != len(data):
            raise bundle.lost(path, f"the strings of tensor {name!r} do not have the lengths that are stored")
        self._check(name, path, entry, google_crc32c.extend(google_crc32c.extend(crc, check), data[at:]))
        strings = np.empty(count, object)
        for position, length in enumerate(lengths):
            strings[position] = data[at : at + length]
            at += length
        return strings

    def _variants(self, name: str, path: str, handle: int, entry: Any, count: int) -> np.ndarray:
        data = read_with_crc(handle, entry.offset, entry.size, path, name)[0].tobytes()
        order: Literal["big", "little"] = "big" if self._swapped else "little"
        variants = np.empty(count, object)
        at = crc = 0
        try:
            for i in range(count):
                length, at = sstable.take_varint(data, at, len(data))
                part, check = data[at : at + length], data[at + length : at + length + 4]
                crc = google_crc32c.extend(google_crc32c.extend(crc, length.to_bytes(8, order)), part)
                if int.from_bytes(check, order) != bundle.mask(crc):
                    raise bundle.lost(path, f"checksum of item {i} of variant tensor {name!r} does not match")
                crc = google_crc32c.extend(crc, check)
                variants[i] = StoredVariant.parsed(part)
                at += length + 4
        except (ValueError, DecodeError):
            raise bundle.lost(path, f"the items of variant tensor {name!r} are damaged") from None
        self._check(name, path, entry, crc)
        return variants


def _swapped(array: np.ndarray) -> np.ndarray:
    """Values that were written by a machine of the other byte order."""
    if array.dtype.kind == "V" or array.dtype in (ml_dtypes.bfloat16,):
        return array.view(np.uint16).byteswap().view(array.dtype)
    return array.byteswap()


def _read_chunk(handle: int, offset: int, target: np.ndarray) -> None:
    view = memoryview(target)  # type: ignore[arg-type]
    done = 0
    while done < len(view):
        count = os.preadv(handle, [view[done:]], offset + done)
        if count == 0:
            raise EOFError
        done += count


def read_with_crc(handle: int, offset: int, size: int, path: str, name: str) -> tuple[np.ndarray, int]:
    """Bytes of a file and their checksum.

    Raises:
        DataLossError: the file ended while it was read.
    """
    data = empty_aligned(size)
    crc = 0
    try:
        for start in range(0, size, CHUNK):
            part = data[start : start + CHUNK]
            _read_chunk(handle, offset + start, part)
            crc = google_crc32c.extend(crc, part)  # of what is still in the cache: faster than in a thread beside
        return data, crc
    except EOFError:
        raise bundle.lost(path, f"the file ended in the middle of tensor {name!r}") from None
    except OSError as problem:
        raise file_errors.error_of(problem, path) from problem
