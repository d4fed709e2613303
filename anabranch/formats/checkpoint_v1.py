"""Checkpoints in TensorFlow's old format V1: reading, and writing for programs that ask for it.

A file is one sorted table. The empty key holds the names, shapes and dtypes of the tensors and which slices are there;
each further entry is one slice with its values in a TensorProto. A sharded checkpoint is several such files; a pattern
names them (``model.ckpt-?????-of-00002``).
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from anabranch.core import errors, file_errors, paths
from anabranch.core.protos import checkpoint_pb2
from anabranch.core.values import dtypes, tensor_proto
from anabranch.formats import bundle, slices, sstable, staging
from anabranch.formats.bundle_reader import TensorFacts, checked_facts

_MOST_BYTES = 1 << 31  # of a message
_FIELDS: dict[str, tuple[str, Any]] = {
    "float32": ("float_val", np.float32),
    "float64": ("double_val", np.float64),
    "int32": ("int_val", np.int32),
    "int16": ("int_val", np.int32),
    "int8": ("int_val", np.int32),
    "uint16": ("int_val", np.int32),
    "uint8": ("int_val", np.int32),
    "qint8": ("int_val", np.int32),
    "quint8": ("int_val", np.int32),
    "qint16": ("int_val", np.int32),
    "quint16": ("int_val", np.int32),
    "qint32": ("int_val", np.int32),
    "int64": ("int64_val", np.int64),
    "uint32": ("uint32_val", np.uint32),
    "uint64": ("uint64_val", np.uint64),
    "bool": ("bool_val", np.bool_),
    "complex64": ("scomplex_val", np.float32),
    "complex128": ("dcomplex_val", np.float64),
    "float16": ("half_val", np.uint16),
    "bfloat16": ("half_val", np.uint16),
}


def files_of(pattern: str) -> list[str]:
    """The files of a checkpoint, given by path or pattern."""
    file_errors.check_local(pattern)
    if os.path.isfile(pattern):
        return [pattern]
    return [path for path in paths.matching_here(pattern, hidden=False) if os.path.isfile(path)]


class V1Reader:
    """A V1 checkpoint that is open for reading.

    Args:
        pattern: its path, or a pattern for the paths of its shards.

    Raises:
        NotFoundError: there is none. DataLossError: it is damaged.
    """

    def __init__(self, pattern: str) -> None:
        self.prefix = pattern
        self.tensors: dict[str, TensorFacts] = {}
        self._tables: list[sstable.Table] = []
        self._home: dict[bytes, sstable.Table] = {}
        paths = files_of(pattern)
        if not paths:
            raise errors.NotFoundError(
                None,
                None,
                f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {pattern}",
            )
        for path in paths:
            self._load(path)

    def _load(self, path: str) -> None:
        try:
            with file_errors.open_to_read(path) as stream:
                size = os.fstat(stream.fileno()).st_size
                data: Any = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as problem:
            raise file_errors.error_of(problem, path) from problem
        table = sstable.Table(lambda offset, size: data[offset : offset + size], size, path)
        head = table.find(b"")
        if head is None:
            raise bundle.lost(path, "a checkpoint without a list of its tensors")
        for meta in self._parsed(path, head, "the list of tensors").meta.tensor:
            dtype, shape = checked_facts(path, meta.name, meta.type, [d.size for d in meta.shape.dim])
            parts = tuple(slices.from_proto(part) for part in meta.slice)
            known = self.tensors.get(meta.name)
            if known is not None and (known.dtype != dtype or known.shape != shape):
                raise bundle.lost(path, f"tensor {meta.name!r} has another shape or dtype than in another shard")
            if not all(slices.is_inside(part, shape) for part in parts):
                raise bundle.lost(path, f"tensor {meta.name!r} has a slice outside its shape {list(shape)}")
            for part in parts:
                self._home[slices.key_of(meta.name.encode("utf-8", "surrogateescape"), part)] = table
            self.tensors[meta.name] = TensorFacts(dtype, shape, None, (known.parts if known else ()) + parts)

    @staticmethod
    def _parsed(path: str, data: bytes, what: str) -> Any:
        message = checkpoint_pb2.SavedTensorSlices()
        try:
            message.ParseFromString(data)
        except DecodeError as problem:
            raise bundle.lost(path, f"{what} is damaged ({problem})") from problem
        return message

    def close(self) -> None:
        """Forget the files."""
        self._tables.clear()
        self._home.clear()

    def __enter__(self) -> V1Reader:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def facts(self, name: str) -> TensorFacts:
        """Dtype, shape and slices of a tensor; NotFoundError if there is none."""
        tensor_facts = self.tensors.get(name)
        if tensor_facts is None:
            raise errors.NotFoundError(None, None, f"Tensor name {name!r} not found in checkpoint files {self.prefix}")
        return tensor_facts

    def read(self, name: str, part: slices.Slice | None = None) -> np.ndarray:
        """A tensor, or a slice of it; errors as :meth:`BundleReader.read` has them."""
        facts = self.facts(name)
        wanted = tuple((0, slices.WHOLE) for _ in facts.shape) if part is None else part
        if not slices.is_inside(wanted, facts.shape):
            raise errors.InvalidArgumentError(
                None, None, f"{self.prefix}: the slice {slices.show(wanted)} is outside {name!r} {list(facts.shape)}"
            )
        wanted = slices.normal(wanted, facts.shape)
        for stored in facts.parts:
            if slices.normal(stored, facts.shape) == wanted:
                return self._part(name, facts, stored)
        return slices.assembled(self.prefix, name, facts, wanted, lambda stored: self._part(name, facts, stored))

    def _part(self, name: str, facts: TensorFacts, part: slices.Slice) -> np.ndarray:
        key = slices.key_of(name.encode("utf-8", "surrogateescape"), part)
        table = self._home[key]
        record = table.find(key)
        if record is None:
            raise bundle.lost(table.path, f"the slice {slices.show(part)} of tensor {name!r} is missing")
        data = self._parsed(table.path, record, f"tensor {name!r}").data.data
        shape = slices.slice_shape(part, facts.shape)
        field = "string_val" if facts.dtype == dtypes.string else _FIELDS.get(facts.dtype.name, ("", None))[0]
        if not field:
            raise errors.UnimplementedError(None, None, f"{table.path}: tensor {name!r} of {facts.dtype.name}")
        count = len(getattr(data, field)) // (2 if facts.dtype.is_complex else 1)
        if count != math.prod(shape):
            raise bundle.lost(table.path, f"tensor {name!r} has {count} values for shape {list(shape)}")
        data.dtype = facts.dtype.enum
        data.ClearField("tensor_shape")
        data.tensor_shape.SetInParent()
        for size in shape:
            data.tensor_shape.dim.add(size=size)
        try:
            return tensor_proto.make_ndarray(data)
        except (TypeError, ValueError) as problem:
            raise bundle.lost(table.path, f"tensor {name!r}: {problem}") from problem


# ------------------------------------------------------------------------------------------------------------- writing
def _fill(proto: Any, array: np.ndarray, dtype: dtypes.DType) -> None:
    """Write values into the field of a TensorProto that V1 readers look at."""
    if dtype == dtypes.string:
        proto.string_val.extend(value.encode() if isinstance(value, str) else value for value in array.ravel().tolist())
        return
    if dtype.name not in _FIELDS:
        raise bundle.refuse(
            f"a tensor of {dtype.name}", "a dtype that the format V1 has", "write_version=tf.train.SaverDef.V2"
        )
    field, kind = _FIELDS[dtype.name]
    flat = np.ascontiguousarray(array).reshape(-1)
    if kind is np.uint16 or dtype.is_complex:
        flat = flat.view(kind)
    getattr(proto, field).extend(flat.astype(kind, copy=False).tolist())


def write_v1(path: str, pieces: Iterable[bundle.Piece], go_on: Callable[[], None] = lambda: None) -> None:
    """Write one file, which replaces one of the same name at one moment; errors as those of `write_bundle`."""
    staging.make_folder_of(path)
    head = checkpoint_pb2.SavedTensorSlices()
    head.meta.versions.producer = 1
    metas: dict[str, Any] = {}
    items: dict[bytes, bytes] = {}
    for piece in pieces:
        array = bundle.checked_array(piece)
        shape: tuple[int, ...] = array.shape
        part: slices.Slice = tuple((0, slices.WHOLE) for _ in shape)
        if piece.spec:
            shape, part, expected = slices.parse_spec(piece.spec)
            if expected != array.shape:
                raise bundle.refuse(
                    f"a tensor of shape {list(array.shape)} as {piece.spec!r} of {piece.name!r}",
                    f"shape {list(expected)}",
                    "check shapes_and_slices",
                )
        part = slices.normal(part, shape)
        meta = metas.get(piece.name)
        if meta is None:
            meta = metas[piece.name] = head.meta.tensor.add(name=piece.name, type=piece.dtype.enum)
            meta.shape.SetInParent()
            for size in shape:
                meta.shape.dim.add(size=size)
        elif meta.type != piece.dtype.enum or tuple(d.size for d in meta.shape.dim) != shape:
            raise bundle.refuse(f"tensor {piece.name!r} with two shapes or dtypes", "one", "rename one")
        slices.to_proto(part, meta.slice.add())
        key = slices.key_of(piece.name.encode("utf-8", "surrogateescape"), part)
        if key in items:
            raise bundle.refuse(f"two tensors called {piece.name!r}", "each name once", "rename one")
        if array.nbytes * 2 > _MOST_BYTES:
            raise bundle.refuse(
                f"tensor {piece.name!r} of {array.nbytes} bytes in a V1 checkpoint",
                "at most 1 GiB",
                "write_version=tf.train.SaverDef.V2",
            )
        entry = checkpoint_pb2.SavedTensorSlices()
        entry.data.name = piece.name
        slices.to_proto(part, entry.data.slice)
        _fill(entry.data.data, array, piece.dtype)
        items[key] = entry.SerializeToString()
    with staging.Staged(go_on) as stage:
        with stage.open(path) as stream:
            sstable.write_table([(b"", head.SerializeToString()), *sorted(items.items())], stream.write)
        stage.commit()
    staging.remove_leftovers(path)
