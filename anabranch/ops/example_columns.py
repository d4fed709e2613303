"""From serialised `Example` messages to columns of values, many examples at once.

Policy. The library's message classes are slow where a feature holds many numbers: each becomes a Python object. Here a
feature's list of floats or integers stays bytes (messages of our own read the same fields as `bytes`), and NumPy
decodes the bytes of all examples in one go. Lists in an unusual but legal form (not packed, in several pieces) are
normalised one by one. Nothing is believed: what cannot be read is an `InvalidExample`, which ops turn into an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf import message as protobuf

from anabranch.core import dtypes
from anabranch.core.protos import example_pb2

_PACKAGE = "anabranch_columns"


def _messages() -> dict[str, Any]:
    """Message classes with TensorFlow's field numbers whose lists of numbers are bytes."""
    kinds = descriptor_pb2.FieldDescriptorProto
    # In the old syntax a key that is no UTF-8 is just a key that nobody asks for.
    file = descriptor_pb2.FileDescriptorProto(name="anabranch_columns.proto", package=_PACKAGE, syntax="proto2")

    def add(owner: Any, name: str, number: int, kind: Any, of: str = "", repeated: bool = False) -> Any:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        field = owner.field.add(name=name, number=number, type=kind, label=label)
        if of:
            field.type_name = f".{_PACKAGE}.{of}"
        return field

    def add_map(owner: Any, name: str, of: str) -> None:
        entry = owner.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        add(entry, "key", 1, kinds.TYPE_STRING)
        add(entry, "value", 2, kinds.TYPE_MESSAGE, of)
        add(owner, name, 1, kinds.TYPE_MESSAGE, f"{owner.name}.{entry.name}", repeated=True)

    strings = file.message_type.add(name="BytesList")
    add(strings, "value", 1, kinds.TYPE_BYTES, repeated=True)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    add(feature, "bytes_list", 1, kinds.TYPE_MESSAGE, "BytesList").oneof_index = 0
    add(feature, "float_list", 2, kinds.TYPE_BYTES).oneof_index = 0
    add(feature, "int64_list", 3, kinds.TYPE_BYTES).oneof_index = 0
    add_map(file.message_type.add(name="Features"), "feature", "Feature")
    add(file.message_type.add(name="FeatureList"), "feature", 1, kinds.TYPE_MESSAGE, "Feature", repeated=True)
    add_map(file.message_type.add(name="FeatureLists"), "feature_list", "FeatureList")
    add(file.message_type.add(name="Example"), "features", 1, kinds.TYPE_MESSAGE, "Features")
    sequence = file.message_type.add(name="SequenceExample")
    add(sequence, "context", 1, kinds.TYPE_MESSAGE, "Features")
    add(sequence, "feature_lists", 2, kinds.TYPE_MESSAGE, "FeatureLists")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[attr-defined]
    names = ("Example", "SequenceExample")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))  # type: ignore[no-untyped-call]
        for name in names
    }


_CLASSES = _messages()
FIELDS = {dtypes.float32: "float_list", dtypes.int64: "int64_list", dtypes.string: "bytes_list"}
_KINDS = {field: dtype.name for dtype, field in FIELDS.items()}


class InvalidExample(Exception):
    """What is wrong with an example: ``position`` in the batch, ``key`` of the feature (None: the whole) and a text."""

    def __init__(self, position: int, key: str | None, text: str) -> None:
        super().__init__(position, key, text)
        self.position = position
        self.key = key
        self.text = text


def parsed(kind: str, serialized: Iterable[Any]) -> list[Any]:
    """Messages of kind ``Example`` or ``SequenceExample``."""
    make = _CLASSES[kind].FromString
    found = []
    for position, data in enumerate(serialized):
        try:
            found.append(make(data))
        except (protobuf.DecodeError, TypeError):
            shown = data[:60] if isinstance(data, bytes) else data
            raise InvalidExample(position, None, f"Could not parse example input, value: {shown!r}") from None
    return found


class Column(NamedTuple):
    """The values of one feature of all examples, one after the other, and how many each example has (-1: missing)."""

    values: Any
    counts: np.ndarray

    @property
    def present(self) -> np.ndarray:
        """How many values each example has, 0 where the feature is missing."""
        return np.maximum(self.counts, 0)


# --------------------------------------------------------------------------------------------------- lists of numbers
def _chunk(data: bytes) -> bytes | None:
    """The packed bytes of a list of numbers; None if it is written in another way."""
    size = len(data)
    if not size:
        return b""
    if data[0] != 0x0A:
        return None
    length, position, shift = 0, 1, 0
    while position < size and shift < 35:
        byte = data[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return data[position:] if length == size - position else None
        shift += 7
    return None


def _normal(data: bytes, kind: Any) -> bytes:
    """The packed bytes of a list that is written in another way."""
    found = kind.FromString(data)
    again = kind(value=list(found.value)).SerializeToString()
    return _chunk(again) or b""


def _float_values(chunks: Sequence[bytes | None]) -> tuple[Any, np.ndarray]:
    counts = np.fromiter([-1 if chunk is None else len(chunk) // 4 for chunk in chunks], np.int64, len(chunks))
    return np.frombuffer(b"".join([chunk for chunk in chunks if chunk]), "<f4").astype(np.float32), counts


def varints(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The 64-bit integers that ``data`` is a row of, and where each ends (position behind its last byte).

    Raises:
        ValueError: one is longer than 10 bytes or cut off.
    """
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array < 0x80) + 1
    if array.size and (not ends.size or ends[-1] != array.size):
        raise ValueError("cut off")
    starts = np.concatenate([np.zeros(1, np.intp), ends[:-1]])[: ends.size]
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    if longest > 10:
        raise ValueError("too long")
    found = array[starts].astype(np.uint64) & np.uint64(0x7F)
    for place in range(1, longest):
        more = np.flatnonzero(lengths > place)
        part = array[starts[more] + place].astype(np.uint64) & np.uint64(0x7F)
        found[more] |= part << np.uint64(7 * place)
    return found.view(np.int64), ends


def _integer_values(chunks: Sequence[bytes | None]) -> tuple[Any, np.ndarray]:
    # (Each chunk ends where a number ends, so that no number lies in two.)
    values, ends = varints(b"".join([chunk for chunk in chunks if chunk]))
    bounds = np.cumsum([0, *[len(chunk or b"") for chunk in chunks]])
    counts = np.diff(np.searchsorted(ends, bounds, side="right"))
    missing = np.fromiter([chunk is None for chunk in chunks], bool, len(chunks))
    return values, np.where(missing, -1, counts)


# --------------------------------------------------------------------------------------------------------- the columns
def _checked_number(data: bytes, kind: Any, width: int) -> bytes:
    """Packed bytes of a list of numbers; ValueError if it cannot be read."""
    chunk = _chunk(data)
    if chunk is not None and (len(chunk) % 4 == 0 if width == 4 else not chunk or chunk[-1] < 0x80):
        return chunk
    try:
        return _normal(data, kind)
    except protobuf.DecodeError:
        raise ValueError("no list of numbers") from None


def column(features: Sequence[Any], key: str, dtype: dtypes.DType) -> Column:
    """The values of feature ``key`` in all of ``features``, which are maps from key to feature (or None).

    Returns:
        A column of float32 or int64 values, or a list of bytes.

    Raises:
        InvalidExample: a feature holds values of another type, or cannot be read.
    """
    return column_of([None if found is None else found.get(key) for found in features], key, dtype)


def column_of(items: Sequence[Any], key: str, dtype: dtypes.DType) -> Column:
    """The values of features, each a message or None; see :func:`column`."""
    if dtype is dtypes.string:
        return _string_column(items, key)
    field = FIELDS[dtype]
    floats = dtype is dtypes.float32
    chunks: list[bytes | None] = []
    for position, item in enumerate(items):
        data = b"" if item is None else (item.float_list if floats else item.int64_list)
        if not data:
            chunks.append(_empty(item, field, position, key, b""))
            continue
        try:
            kind = example_pb2.FloatList if floats else example_pb2.Int64List
            chunks.append(_checked_number(data, kind, 4 if floats else 0))
        except ValueError:
            raise InvalidExample(position, key, "its list of numbers cannot be read") from None
    try:
        return Column(*(_float_values(chunks) if floats else _integer_values(chunks)))
    except ValueError:
        for position, chunk in enumerate(chunks):  # one of them, which is looked for only now
            try:
                varints(chunk or b"")
            except ValueError:
                raise InvalidExample(position, key, "its list of integers cannot be read") from None
        raise


def _empty(item: Any, field: str, position: int, key: str, nothing: Any) -> Any:
    """What stands for a feature without values: None if it is missing, ``nothing`` if its list is empty."""
    kind = None if item is None else item.WhichOneof("kind")
    if kind is None:
        return None
    if kind != field:
        raise InvalidExample(
            position, key, f"Data types don't match. Data type: {_KINDS[kind]} but expected type: {_KINDS[field]}"
        )
    return nothing


def _string_column(items: Sequence[Any], key: str) -> Column:
    values: list[bytes] = []
    counts = np.empty(len(items), np.int64)
    for position, item in enumerate(items):
        found = () if item is None else item.bytes_list.value
        if not found:
            counts[position] = -1 if _empty(item, "bytes_list", position, key, 0) is None else 0
            continue
        counts[position] = len(found)
        values.extend(found)
    return Column(values, counts)


def as_array(values: Any, dtype: dtypes.DType) -> np.ndarray:
    """A column's values as an array."""
    if dtype is not dtypes.string:
        return np.asarray(values)
    found = np.empty(len(values), object)
    found[:] = values
    return found


def padding(dtype: dtypes.DType) -> Any:
    """What fills up rows that are too short: 0 or ``b""``."""
    return b"" if dtype is dtypes.string else 0
