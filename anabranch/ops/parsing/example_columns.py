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

from anabranch.core.protos import example_pb2
from anabranch.core.values import dtypes

FEW = 16
"""Lists that are read one by one, without NumPy."""
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
    messages = []
    for position, data in enumerate(serialized):
        try:
            messages.append(make(data))
        except (protobuf.DecodeError, TypeError):
            shown = data[:60] if isinstance(data, bytes) else data
            raise InvalidExample(position, None, f"Could not parse example input, value: {shown!r}") from None
    return messages


class Column(NamedTuple):
    """The values of one feature of all examples, one after the other, and how many each example has (-1: missing)."""

    values: Any
    counts: np.ndarray
    each: int | None = None
    """How many values each example has, where it is known that all have as many."""

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
    message_read = kind.FromString(data)
    again = kind(value=list(message_read.value)).SerializeToString()
    return _chunk(again) or b""


def _head(size: int) -> bytes:
    """Tag and length of a packed list of ``size`` bytes."""
    head = bytearray(b"\x0a")
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


_LARGE = 512
"""Bytes from which on copying lists one by one is faster than joining them."""


def _uniform(lists: Sequence[bytes]) -> tuple[np.ndarray, int] | None:
    """The bytes of lists of one size, packed in one piece, and how many each has; None if they are not like that."""
    size = len(lists[0]) if lists else 0
    if size < 2 or any(len(item) != size for item in lists):
        return None
    for width in (2, 3, 4, 5, 6):
        head = _head(size - width)
        if len(head) == width:
            break
    else:
        return None
    if not all(item.startswith(head) for item in lists):
        return None
    if size > _LARGE:
        table = np.empty((len(lists), size - width), np.uint8)
        for row, item in zip(table, lists, strict=True):
            row[:] = np.frombuffer(item, np.uint8, offset=width)
        return table.reshape(-1), size - width
    whole = np.frombuffer(b"".join(lists), np.uint8).reshape(len(lists), size)
    return np.ascontiguousarray(whole[:, width:]).reshape(-1), size - width


def _payloads(lists: Sequence[bytes], heads: np.ndarray) -> np.ndarray:
    """The bytes of lists without their heads, one after the other."""
    return np.frombuffer(b"".join([item[head:] for item, head in zip(lists, heads.tolist(), strict=True)]), np.uint8)


def _heads(lists: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """For lists that are packed in one piece: size of the head (tag and length; 0 for no bytes), and of the rest.

    Lists in another form have head -1.
    """
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    # Tag and up to five bytes of length; a message has less than 2 GiB.
    joined = np.frombuffer(b"".join([*[item[:6] for item in lists], b"\0" * 6]), np.uint8)
    short = np.minimum(lengths, 6)
    at = np.cumsum(short) - short
    size = np.zeros(len(lists), np.int64)
    heads = np.ones(len(lists), np.int64)
    more = np.ones(len(lists), bool)
    for place in range(1, 6):
        byte = joined[at + place].astype(np.int64)
        size |= np.where(more, (byte & 0x7F) << (7 * (place - 1)), 0)
        heads += more
        more &= byte >= 0x80
        if not more.any():
            break
    good = (joined[at] == 0x0A) & ~more & (lengths == heads + size)
    return np.where(lengths == 0, 0, np.where(good, heads, -1)), np.where(lengths == 0, 0, size)


def varints(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 64-bit integers that the bytes ``array`` are a row of, and where each ends (position behind its last byte).

    Raises:
        ValueError: one is longer than 10 bytes or cut off.
    """
    ends = np.flatnonzero(array < 0x80) + 1
    if array.size and (not ends.size or ends[-1] != array.size):
        raise ValueError("cut off")
    starts = np.concatenate([np.zeros(1, np.intp), ends[:-1]])[: ends.size]
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    if longest > 10:
        raise ValueError("too long")
    numbers = array[starts].astype(np.uint64) & np.uint64(0x7F)
    for place in range(1, longest):
        more = np.flatnonzero(lengths > place)
        part = array[starts[more] + place].astype(np.uint64) & np.uint64(0x7F)
        numbers[more] |= part << np.uint64(7 * place)
    return numbers.view(np.int64), ends


# --------------------------------------------------------------------------------------------------------- the columns
_NOTHING = _CLASSES["Example"]().features.feature["nothing"]
"""A feature without values."""


def _packed(data: bytes, kind: Any, width: int) -> bytes:
    """A list of numbers in the usual form; ValueError if it cannot be read."""
    chunk = _chunk(data)
    if chunk is None or (len(chunk) % 4 if width == 4 else chunk and chunk[-1] >= 0x80):
        try:
            chunk = _normal(data, kind)
        except protobuf.DecodeError:
            raise ValueError("no list of numbers") from None
    return _head(len(chunk)) + chunk if chunk else b""


def column(features: Sequence[Any], key: str, dtype: dtypes.DType) -> Column:
    """The values of feature ``key`` in all of ``features``, which are maps from key to feature (or None).

    Returns:
        A column of float32 or int64 values, or a list of bytes.

    Raises:
        InvalidExample: a feature holds values of another type, or cannot be read.
    """
    return column_of([feature.get(key, _NOTHING) for feature in features], key, dtype)


def column_of(items: Sequence[Any], key: str, dtype: dtypes.DType) -> Column:
    """The values of features, each a message; see :func:`column`."""
    if dtype is dtypes.string:
        return _string_column(items, key)
    floats = dtype is dtypes.float32
    lists = [item.float_list for item in items] if floats else [item.int64_list for item in items]
    if len(lists) <= FEW:
        few = _few(lists, floats)
        if few is not None:
            return few
    uniform = _uniform(lists)
    missing: list[int] = []
    if uniform is not None:
        data = uniform[0]
        sizes = np.full(len(lists), uniform[1], np.int64)
    else:
        data, sizes, missing = _varied(items, lists, key, dtype)
    column = _decoded(data, sizes, key, dtype)
    if missing:
        column.counts[missing] = -1
    return column


def _few(lists: Sequence[bytes], floats: bool) -> Column | None:
    """The column of a few short lists in the usual form; None if one is empty, missing or something else.

    An example that is parsed by itself has so little that calls of NumPy for what is done once cost more than it.
    """
    chunks = []
    for data in lists:
        size = len(data)
        if not 2 < size < 130 or data[0] != 0x0A or data[1] != size - 2:
            return None
        chunks.append(data[2:])
    if floats:
        sizes = [len(chunk) // 4 for chunk in chunks]
        if any(len(chunk) % 4 for chunk in chunks):
            return None
        values = np.frombuffer(b"".join(chunks), "<f4").astype(np.float32)
    else:
        numbers = [_integers(chunk) for chunk in chunks]
        if None in numbers:
            return None
        sizes = [len(part) for part in numbers if part is not None]
        values = np.array([number for part in numbers if part is not None for number in part], np.int64)
    return Column(values, np.array(sizes, np.int64), sizes[0] if len(sizes) == 1 else None)


def _integers(chunk: bytes) -> list[int] | None:
    """The integers that bytes are a row of; None if one is cut off or too long."""
    if max(chunk) < 0x80:
        return list(chunk)
    numbers = []
    number = shift = 0
    for byte in chunk:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            number &= 0xFFFFFFFFFFFFFFFF
            numbers.append(number - (number >> 63 << 64))
            number = shift = 0
        elif shift >= 70:
            return None
    return None if shift else numbers


def _decoded(data: np.ndarray, sizes: np.ndarray, key: str, dtype: dtypes.DType) -> Column:
    """The column of lists of numbers: their bytes, one behind the other, and how many each has.

    Raises:
        InvalidExample: one cannot be read.
    """
    floats = dtype is dtypes.float32
    bad = sizes % 4 != 0 if floats else _unfinished(data, sizes)
    if bad.any():
        raise InvalidExample(int(np.argmax(bad)), key, "its list of numbers cannot be read")
    if floats:
        values, counts = data.view("<f4").astype(np.float32, copy=False), sizes // 4
    elif not data.size or data.max() < 0x80:
        values, counts = data.astype(np.int64), sizes
    else:
        try:
            values, ends = varints(data)
        except ValueError:
            raise _too_long(data, sizes, key) from None
        counts = np.diff(np.searchsorted(ends, np.concatenate([[0], np.cumsum(sizes)]), side="right"))
    return Column(values, counts.astype(np.int64))


def single_varints(table: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray | None:
    """The integer that each row of bytes is, of at most 10; None if one is something else.

    ``lengths`` are the bytes of each row that count, 1 or more; all if it is None.
    """
    ends = table < 0x80
    low = table & np.uint8(0x7F)
    if lengths is None:
        if not ends[:, -1].all() or ends[:, :-1].any():
            return None
    else:
        if not ends[np.arange(len(table)), lengths - 1].all() or not np.array_equal(ends.argmax(1), lengths - 1):
            return None
        low[np.arange(table.shape[1]) >= lengths[:, None]] = 0
    numbers = low[:, 0].astype(np.uint64)
    for place in range(1, table.shape[1]):
        numbers |= low[:, place].astype(np.uint64) << np.uint64(7 * place)
    return numbers.view(np.int64)


def _varied(
    items: Sequence[Any], lists: list[bytes], key: str, dtype: dtypes.DType
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The bytes of lists of any size and form, how many each has, and which are missing."""
    heads, sizes = _heads(lists)
    kind, width = (example_pb2.FloatList, 4) if dtype is dtypes.float32 else (example_pb2.Int64List, 0)
    missing = []
    for position in np.flatnonzero(heads <= 0).tolist():
        if not lists[position]:
            if _empty(items[position], FIELDS[dtype], position, key, 0) is None:
                missing.append(position)
            continue
        try:
            lists[position] = _packed(lists[position], kind, width)
        except ValueError:
            raise InvalidExample(position, key, "its list of numbers cannot be read") from None
    if (heads < 0).any():
        heads, sizes = _heads(lists)
    return _payloads(lists, heads), sizes, missing


def _unfinished(data: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Which lists of integers end in the middle of one."""
    bad = np.zeros(len(sizes), bool)
    some = sizes > 0
    bad[some] = data[np.cumsum(sizes)[some] - 1] >= 0x80
    return bad


def _too_long(data: np.ndarray, sizes: np.ndarray, key: str) -> InvalidExample:
    """The error for the first list with an integer of more than 10 bytes."""
    ends = np.cumsum(sizes)
    for position, (stop, size) in enumerate(zip(ends.tolist(), sizes.tolist(), strict=True)):
        try:
            varints(data[stop - size : stop])
        except ValueError:
            return InvalidExample(position, key, "its list of integers cannot be read")
    raise AssertionError("each list by itself can be read")


def _empty(item: Any, field: str, position: int, key: str, nothing: Any) -> Any:
    """What stands for a feature without values: None if it is missing, ``nothing`` if its list is empty."""
    kind = item.WhichOneof("kind")
    if kind is None:
        return None
    if kind != field:
        raise InvalidExample(
            position, key, f"Data types don't match. Data type: {_KINDS[kind]} but expected type: {_KINDS[field]}"
        )
    return nothing


def _string_column(items: Sequence[Any], key: str) -> Column:
    lists = [item.bytes_list.value for item in items]
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    for position in np.flatnonzero(counts == 0).tolist():
        if _empty(items[position], "bytes_list", position, key, 0) is None:
            counts[position] = -1
    return Column([value for feature in lists for value in feature], counts)


def as_array(values: Any, dtype: dtypes.DType) -> np.ndarray:
    """A column's values as an array."""
    if dtype is not dtypes.string:
        return np.asarray(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def padding(dtype: dtypes.DType) -> Any:
    """What fills up rows that are too short: 0 or ``b""``."""
    return b"" if dtype is dtypes.string else 0
