"""Checkpoints in TensorFlow's format V2 ("tensor bundle"): writing, merging.

A checkpoint ``P`` is an index ``P.index``, a sorted table of entries that say where each tensor stands, and data files
``P.data-SSSSS-of-NNNNN``. The empty key holds a header with N. A tensor that was saved in slices has an entry that
lists them, and one for each slice under a key of its own (:func:`anabranch.formats.slices.key_of`).

Policy: at any moment, the checkpoint that was there before or the new one is there, whole, also when both have the same
name. Data files are complete and on the disk before the rename of the index makes them count; since an index that
is being replaced still needs its own data files, the new ones take another N, and the old ones go afterwards.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from anabranch.core import errors, file_errors
from anabranch.core.protos import tensor_bundle_pb2
from anabranch.core.values import dtypes
from anabranch.core.values.stored_variant import StoredVariant, stored
from anabranch.formats import slices, sstable, staging

CHUNK = 1 << 20
"""Bytes that are written at once: what was just read for the checksum is still in the cache, and writes of several
megabytes make a page cache look for pieces of memory as large, which costs it three times as much."""
VERSION = 1


class Piece(NamedTuple):
    """A tensor, or a slice of one, to be saved."""

    name: str
    spec: str
    """Empty, or which slice of which shape: ``"5 2 0,3:0,2"``."""
    dtype: dtypes.DType
    array: Any
    """A NumPy array, or a function that gives one when its turn comes."""


def mask(crc: int) -> int:
    """A CRC32C as it is stored."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def data_name(prefix: str, shard: int, count: int) -> str:
    """Path of a data file."""
    return f"{prefix}.data-{shard:05d}-of-{count:05d}"


def index_name(prefix: str) -> str:
    """Path of the index; UnimplementedError for one of another file system."""
    file_errors.check_local(prefix)
    return f"{prefix}.index"


def data_files(prefix: str) -> list[str]:
    """Data files with this prefix that are there, of any number of shards."""
    pattern = re.compile(r"\.data-\d{5}-of-\d{5}$")
    return [path for path in staging.paths_from(f"{prefix}.data-") if pattern.search(path[len(prefix) :])]


def remove_bundle(prefix: str) -> None:
    """Remove a checkpoint, its index first."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(index_name(prefix))
    for path in data_files(prefix):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def free_count(prefix: str, wanted: int) -> int:
    """A number of shards, ``wanted`` if possible, that the checkpoint which is there does not have."""
    try:
        in_use = read_index(prefix)[1]
    except errors.OpError:  # none, or none that can be read
        return wanted
    return wanted + (in_use == wanted)


def _remove_others(prefix: str, count: int) -> None:
    """Remove data files that the index does not need, and what died writers left."""
    for path in data_files(prefix):
        if int(path.rpartition("-")[2]) != count:
            with contextlib.suppress(OSError):
                os.unlink(path)
    staging.remove_leftovers(f"{prefix}.index")
    staging.remove_leftovers(f"{prefix}.data-", others=True)


# ------------------------------------------------------------------------------------------------------------- entries
def refuse(given: str, expected: str, instead: str, heading: str = "") -> errors.InvalidArgumentError:
    """The error of what cannot be saved."""
    return errors.InvalidArgumentError(
        None, None, (heading + "\n" if heading else "") + errors.message(given, expected, instead)
    )


class Entries:
    """The entries of an index that is being made."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Any] = {}

    def whole(self, name: str, entry: Any) -> None:
        """A tensor in one piece."""
        key = name.encode("utf-8", "surrogateescape")
        if not key:
            raise refuse("a tensor without a name", "a name", "name every tensor that is saved")
        if key in self._entries:
            raise refuse(
                f"two tensors called {name!r}", "each name once", "rename one", f"Adding duplicate key: {name}"
            )
        self._entries[key] = entry

    def part(self, name: str, shape: Sequence[int], part: slices.Slice, entry: Any) -> None:
        """A slice of a tensor of ``shape``."""
        key = name.encode("utf-8", "surrogateescape")
        entry_proto = self._entries.get(key)
        if entry_proto is None:
            entry_proto = self._entries[key] = tensor_bundle_pb2.BundleEntryProto(dtype=entry.dtype)
            entry_proto.shape.SetInParent()
            for size in shape:
                entry_proto.shape.dim.add(size=size)
        elif (
            not entry_proto.slices
            or entry_proto.dtype != entry.dtype
            or [d.size for d in entry_proto.shape.dim] != list(shape)
        ):
            raise refuse(
                f"a slice {slices.show(part)} of {name!r}, which is also saved whole, or as another shape or dtype",
                "slices of one tensor",
                "give both variables different names in the saver",
            )
        slice_key = slices.key_of(key, part)
        if slice_key in self._entries:
            raise refuse(f"slice {slices.show(part)} of {name!r} twice", "each slice once", "rename one")
        entry_proto.slices.append(slices.as_slice_proto(part))
        self._entries[slice_key] = entry

    def merge(self, key: bytes, entry: Any) -> None:
        """An entry of another index."""
        entry_proto = self._entries.get(key)
        if entry_proto is None:
            self._entries[key] = entry
            return
        name = key.decode(errors="replace")
        if (
            not (entry_proto.slices and entry.slices)
            or entry_proto.dtype != entry.dtype
            or entry_proto.shape != entry.shape
        ):
            raise refuse(
                f"{name!r} in two of the checkpoints to merge", "each tensor in one, or slices of it", "rename one"
            )
        entry_proto.slices.extend(entry.slices)

    def write(self, stage: staging.Staged, prefix: str, count: int) -> None:
        """Write the index."""
        header = tensor_bundle_pb2.BundleHeaderProto(num_shards=count)
        header.version.producer = VERSION
        items = [(b"", header.SerializeToString())]
        items += [(key, entry.SerializeToString()) for key, entry in sorted(self._entries.items())]
        with stage.open(index_name(prefix)) as stream:
            sstable.write_table(items, stream.write)


# ------------------------------------------------------------------------------------------------------------- writing
def _write_strings(array: np.ndarray, write: Callable[[Any], Any], name: str) -> tuple[int, int]:
    """Write strings: lengths, a checksum of them, bytes. Returns the size and the checksum of all."""
    lengths = bytearray()
    fixed = bytearray()
    texts = []
    for value in array.ravel().tolist():
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(value, bytes):
            raise refuse(f"a {type(value).__name__} in string tensor {name!r}", "bytes or str", "convert it before")
        sstable.put_varint(lengths, len(value))
        fixed += len(value).to_bytes(4 if len(value) < 1 << 32 else 8, "little")
        texts.append(value)
    crc = google_crc32c.value(bytes(fixed))
    check = mask(crc).to_bytes(4, "little")
    crc = google_crc32c.extend(crc, check)
    write(bytes(lengths) + check)
    size = len(lengths) + 4
    for text in texts:
        crc = google_crc32c.extend(crc, text)
        write(text)
        size += len(text)
    return size, crc


def _write_variants(items: Sequence[StoredVariant], write: Callable[[Any], Any]) -> tuple[int, int]:
    """Write stored variants: of each its length, bytes and a checksum. Returns the size and the checksum of all."""
    crc = size = 0
    for item in items:
        data = item.proto.SerializeToString()
        length = bytearray()
        sstable.put_varint(length, len(data))
        crc = google_crc32c.extend(google_crc32c.extend(crc, len(data).to_bytes(8, "little")), data)
        check = mask(crc).to_bytes(4, "little")
        crc = google_crc32c.extend(crc, check)
        for part in (bytes(length), data, check):
            write(part)
            size += len(part)
    return size, crc


def _variants(array: np.ndarray) -> list[StoredVariant] | None:
    """The items of an array of variants if all can be stored."""
    items = [stored(item) for item in array.ravel().tolist()]
    return [item for item in items if item is not None] if None not in items else None


def _write_numbers(array: np.ndarray, write: Callable[[Any], Any]) -> tuple[int, int]:
    """Write the bytes of an array; return their number and checksum."""
    if sys.byteorder == "big":
        array = array.astype(array.dtype.newbyteorder("<"))
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    crc = 0
    for start in range(0, data.size, CHUNK):
        chunk = data[start : start + CHUNK]
        crc = google_crc32c.extend(crc, chunk)
        write(chunk.data)
    return data.size, crc


def checked_array(piece: Piece) -> np.ndarray:
    """The array of a piece; InvalidArgumentError if its dtype cannot be saved."""
    array = np.asarray(piece.array() if callable(piece.array) else piece.array)
    if piece.dtype == dtypes.variant and array.dtype == object and _variants(array) is not None:
        return array
    if piece.dtype.np is None or (array.dtype == object) != (piece.dtype == dtypes.string):
        if piece.dtype == dtypes.string and array.dtype.kind in "SU":
            return array.astype(object)
        raise refuse(
            f"tensor {piece.name!r} of {piece.dtype.name}",
            "numbers, bools or strings",
            "leave it out of the saver's var_list: a resource has no bytes, and of variants only iterators",
        )
    return array if piece.dtype == dtypes.string else array.astype(piece.dtype.np, copy=False)


def _write_piece(stream: Any, piece: Piece, shard: int, position: int, entries: Entries) -> int:
    """Write a piece at ``position`` of a data file; return its size."""
    array = checked_array(piece)
    if piece.dtype == dtypes.string:
        size, crc = _write_strings(array, stream.write, piece.name)
    elif piece.dtype == dtypes.variant:
        size, crc = _write_variants(_variants(array) or [], stream.write)
    else:
        size, crc = _write_numbers(array, stream.write)
    entry = tensor_bundle_pb2.BundleEntryProto(
        dtype=piece.dtype.enum,  # type: ignore[arg-type]
        shard_id=shard,
        offset=position,
        size=size,
        crc32c=mask(crc),
    )
    entry.shape.SetInParent()
    for length in array.shape:
        entry.shape.dim.add(size=length)
    if not piece.spec:
        entries.whole(piece.name, entry)
        return size
    shape, part, expected = slices.parse_spec(piece.spec)
    if expected != array.shape:
        raise refuse(
            f"a tensor of shape {list(array.shape)} as {piece.spec!r} of {piece.name!r}",
            f"shape {list(expected)}",
            "check shape_and_slices",
        )
    part = slices.normal(part, shape)
    if all(length == slices.WHOLE for _, length in part):
        entries.whole(piece.name, entry)
    else:
        entries.part(piece.name, shape, part, entry)
    return size


def _write_data(stream: Any, pieces: Iterable[Piece], shard: int, entries: Entries) -> None:
    position = 0
    for piece in pieces:
        position += _write_piece(stream, piece, shard, position, entries)


class BundleWriter:
    """A checkpoint that is written tensor by tensor, in one data file; it is there when :meth:`commit` returns."""

    def __init__(self, prefix: str) -> None:
        staging.make_folder_of(prefix)
        self._prefix = prefix
        self._count = free_count(prefix, 1)
        self._entries = Entries()
        self._position = 0
        self._stage = staging.Staged()
        self._open = contextlib.ExitStack()
        self._open.enter_context(self._stage)
        self._file = contextlib.ExitStack()
        self._stream = self._file.enter_context(self._stage.open(data_name(prefix, 0, self._count)))

    def add(self, name: str, dtype: dtypes.DType, array: Any) -> None:
        """Write a tensor."""
        piece = Piece(name, "", dtype, array)
        self._position += _write_piece(self._stream, piece, 0, self._position, self._entries)

    def commit(self) -> None:
        """Put everything in its place."""
        self._file.close()
        for shard in range(1, self._count):
            with self._stage.open(data_name(self._prefix, shard, self._count)):
                pass
        self._entries.write(self._stage, self._prefix, self._count)
        self._stage.commit()
        self._open.close()
        _remove_others(self._prefix, self._count)

    def abandon(self) -> None:
        """Remove what has been written; nothing once it is committed."""
        self._file.close()
        self._open.close()


def write_bundle(prefix: str, *shards: Iterable[Piece], go_on: Callable[[], None] = lambda: None) -> None:
    """Write a checkpoint, which replaces one of the same name at one moment.

    Args:
        prefix: its path.
        shards: what each data file holds.
        go_on: raises if the checkpoint is not wanted any more; it is not there then.

    Raises:
        InvalidArgumentError: names or slices are not consistent. ResourceExhaustedError: the disk is full; what was
        there before is untouched.
    """
    staging.make_folder_of(prefix)
    count = free_count(prefix, max(1, len(shards)))
    entries = Entries()
    with staging.Staged(go_on) as stage:
        for shard in range(count):
            with stage.open(data_name(prefix, shard, count)) as stream:
                if shard < len(shards):
                    _write_data(stream, shards[shard], shard, entries)
        entries.write(stage, prefix, count)
        stage.commit()
    _remove_others(prefix, count)


def merge_bundles(
    prefixes: Sequence[str], target: str, delete_old_dirs: bool = True, allow_missing_files: bool = False
) -> None:
    """Make one checkpoint of several, by renaming their data files.

    Raises:
        NotFoundError: one is not there, unless ``allow_missing_files``. InvalidArgumentError: a tensor is in two.
    """
    from_files: list[str] = []
    entries = Entries()
    sources = []
    for prefix in prefixes:
        if allow_missing_files and not os.path.exists(index_name(prefix)):
            continue
        items, count = read_index(prefix)
        sources.append((prefix, count))
        for key, entry in items:
            if not entry.slices:
                entry.shard_id += len(from_files)
            entries.merge(key, entry)
        from_files += [data_name(prefix, shard, count) for shard in range(count)]
    if not sources:
        missing_part = "all checkpoints to merge" if prefixes else "no checkpoint to merge"
        raise refuse(
            missing_part + " missing", "at least one", "save before merging", "Must have at least one prefix to merge"
        )
    staging.make_folder_of(target)
    # Data files that only carry a number (see write_bundle) need no place in the result.
    used = [path for path in from_files if os.path.getsize(path)]
    numbers = {old: new for new, old in enumerate(path for path in from_files if path in used or path == from_files[0])}
    count = free_count(target, max(1, len(numbers)))
    for key, entry in list(entries._entries.items()):
        if not entry.slices and entry.size:
            entry.shard_id = numbers[from_files[entry.shard_id]]
        elif not entry.slices:
            entry.shard_id = entry.offset = 0
        entries._entries[key] = entry
    with staging.Staged() as stage:
        for old, shard in numbers.items():
            stage.move(old, data_name(target, shard, count))
        for shard in range(len(numbers), count):
            with stage.open(data_name(target, shard, count)):
                pass
        entries.write(stage, target, count)
        stage.commit()
    _remove_others(target, count)
    for prefix, _ in sources:
        remove_bundle(prefix)
        if delete_old_dirs:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(prefix) or ".")


# --------------------------------------------------------------------------------------------------------------- index
def lost(path: str, reason: str) -> errors.DataLossError:
    """The error of a damaged file."""
    return errors.DataLossError(None, None, f"{path}: {reason}")


def read_index(prefix: str) -> tuple[list[tuple[bytes, Any]], int]:
    """Entries of an index (key and ``BundleEntryProto``) and the number of shards.

    Raises:
        NotFoundError: there is none. DataLossError: it is damaged. UnimplementedError: it is of a later version.
    """
    items, header = _read_index(prefix)
    return items, header.num_shards


def _read_index(prefix: str) -> tuple[list[tuple[bytes, Any]], Any]:
    path = index_name(prefix)
    try:
        with file_errors.open_to_read(path) as stream:
            data = stream.read()
    except FileNotFoundError as problem:
        raise errors.NotFoundError(
            None,
            None,
            f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}\n"
            + errors.message(
                f"the checkpoint {prefix!r}",
                f"a file {path!r}",
                "tf.train.latest_checkpoint(folder) gives the newest one of a folder",
            ),
        ) from problem
    except OSError as problem:
        raise file_errors.error_of(problem, path) from problem
    table = sstable.Table(lambda offset, size: data[offset : offset + size], len(data), path)
    header: Any = None
    entries = []
    for key, value in table.items():
        message: Any = tensor_bundle_pb2.BundleEntryProto() if key else tensor_bundle_pb2.BundleHeaderProto()
        try:
            message.ParseFromString(value)
        except Exception as problem:
            raise lost(path, f"damaged entry {key.decode(errors='replace')!r} ({problem})") from problem
        if key:
            entries.append((key, message))
        else:
            header = message
    if header is None:
        raise lost(path, "an index without a header")
    if header.version.min_consumer > VERSION:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"checkpoint {prefix!r} for readers of version {header.version.min_consumer}",
                f"at most version {VERSION}",
                "save it again with write_version=tf.train.SaverDef.V2",
            ),
        )
    if header.num_shards < 0 or math.log10(max(header.num_shards, 1)) > 5:
        raise lost(path, f"{header.num_shards} shards")
    return entries, header
