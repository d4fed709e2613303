"""Places of iterators as bytes: what stands in a checkpoint of a place that :meth:`Iterator.save` gave.

A place is a tree of lists, tuples and dictionaries; its leaves are numbers, bytes, arrays, optionals and windows. It
becomes a ``VariantTensorDataProto``: the tree as JSON in its ``metadata``, in which a leaf is a number of one of its
``tensors``. Elements of one kind in a list (the buffer of a shuffle) are stacked, so that a buffer of a million rows is
one tensor.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.protos import tensor_pb2
from anabranch.core.values import dtypes
from anabranch.core.values.optional_values import HostOptional
from anabranch.core.values.stored_variant import StoredVariant
from anabranch.core.values.tensor_proto import make_ndarray, make_tensor_proto
from anabranch.ops.data.windows import Held

TYPE_NAME = "anabranch.IteratorPlace"
VERSION = 1
FEW = 4
"""Items of a list up to which each is stored by itself."""
_ARRAYS = np.ndarray | np.generic


class _Encoder:
    def __init__(self, op: Any) -> None:
        self._op = op
        self.tensors: list[Any] = []

    def _tensor(self, array: Any) -> int:
        array = np.asarray(array)
        if array.dtype == object:
            proto = tensor_pb2.TensorProto(dtype=dtypes.string.enum)  # type: ignore[arg-type]  # as in tensor_proto
            proto.tensor_shape.SetInParent()
            for size in array.shape:
                proto.tensor_shape.dim.add(size=size)
            proto.string_val.extend(array.ravel().tolist())
        else:
            proto = make_tensor_proto(array)
        self.tensors.append(proto)
        return len(self.tensors) - 1

    def tree(self, value: Any) -> Any:
        """A value as JSON; tags tell what a list stands for."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, bytes):
            return ["bytes", self._tensor(_strings([value]))]
        if isinstance(value, _ARRAYS):
            return self._array(np.asarray(value))
        if isinstance(value, list):
            return self._list(value)
        if isinstance(value, tuple):
            return ["tuple", [self.tree(item) for item in value]]
        if isinstance(value, dict):
            return ["dict", [[self.tree(key), self.tree(item)] for key, item in value.items()]]
        if isinstance(value, HostOptional):
            return ["optional", None if value.values is None else [self.tree(item) for item in value.values]]
        if isinstance(value, errors.OpError):
            return ["error", value.error_code, value.message]
        if isinstance(value, Held):
            types = [dtype.enum for dtype in value.types]
            return ["held", types, list(value.shapes), self.tree(value.elements)]
        raise errors.UnimplementedError(
            None,
            self._op,
            errors.message(
                f"the place of an iterator that holds a {type(value).__name__}, a dataset among its elements",
                "elements of numbers, strings, sparse tensors, optionals or windows wherever a stage keeps some",
                "dataset.flat_map(lambda window: window.batch(n)) before the stage that keeps elements",
            ),
        )

    def _array(self, array: np.ndarray) -> Any:
        if array.dtype != object:
            return ["array", self._tensor(array)]
        items = array.ravel().tolist()
        if all(isinstance(item, bytes) for item in items):
            return ["array", self._tensor(array)]
        return ["objects", list(array.shape), [self.tree(item) for item in items]]

    def _list(self, items: list[Any]) -> Any:
        if len(items) > FEW:
            if all(type(item) is int and -(2**63) <= item < 2**63 for item in items):
                return ["numbers", self._tensor(np.array(items, np.int64))]
            if all(isinstance(item, bytes) for item in items):
                return ["strings", self._tensor(_strings(items))]
            if all(type(item) is tuple for item in items) and len({len(item) for item in items}) == 1 and items[0]:
                columns = [self._column(column) for column in zip(*items, strict=True)]
                if all(column is not None for column in columns):
                    return ["elements", [self._tensor(column) for column in columns]]
        return ["list", [self.tree(item) for item in items]]

    @staticmethod
    def _column(parts: Sequence[Any]) -> np.ndarray | None:
        """Values of one kind as the rows of an array; None if they are not of one."""
        first = parts[0]
        if not all(
            isinstance(part, _ARRAYS) and part.dtype == first.dtype and part.shape == first.shape for part in parts
        ):
            return None
        if first.dtype != object:
            return np.stack([np.asarray(part) for part in parts])
        if first.shape or not all(isinstance(part, np.ndarray) and isinstance(part.item(), bytes) for part in parts):
            return None
        return _strings([part.item() for part in parts])


def _strings(items: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


class _Decoder:
    def __init__(self, op: Any, tensors: Sequence[Any]) -> None:
        self._op = op
        self._tensors = tensors

    def _tensor(self, number: int) -> np.ndarray:
        array = make_ndarray(self._tensors[number])
        if array.dtype != object:
            array = np.array(array)
            array.flags.writeable = False
        return array

    def tree(self, value: Any) -> Any:
        """What a tree of JSON stands for."""
        if not isinstance(value, list):
            return value
        tag, *rest = value
        if tag == "bytes":
            return self._tensor(rest[0])[0]
        if tag == "array":
            return self._tensor(rest[0])
        if tag == "objects":
            array = np.empty(len(rest[1]), object)
            for i, item in enumerate(rest[1]):
                array[i] = self.tree(item)
            return array.reshape(rest[0])
        if tag in ("numbers", "strings"):
            return self._tensor(rest[0]).tolist()
        if tag == "elements":
            columns = [self._tensor(number) for number in rest[0]]
            return [tuple([column[row, ...] for column in columns]) for row in range(len(columns[0]))]
        if tag == "list":
            return [self.tree(item) for item in rest[0]]
        if tag == "tuple":
            return tuple([self.tree(item) for item in rest[0]])
        if tag == "dict":
            return {self.tree(key): self.tree(item) for key, item in rest[0]}
        if tag == "optional":
            return HostOptional(None if rest[0] is None else [self.tree(item) for item in rest[0]])
        if tag == "held":
            types, shapes, elements = rest
            raw = [None if shape is None else tuple(shape) for shape in shapes]
            return Held(self._op, [dtypes.as_dtype(number) for number in types], raw, self.tree(elements))
        if tag == "error":
            kind: Any = errors.exception_type_from_error_code(rest[0])
            return kind(None, None, rest[1])
        raise ValueError(f"an unknown tag {tag!r}")


def encoded(place: dict[str, Any], op: Any) -> StoredVariant:
    """A place as what a checkpoint holds.

    Raises:
        UnimplementedError: it has something that has no bytes.
    """
    encoder = _Encoder(op)
    tree = encoder.tree(place)
    text = json.dumps({"version": VERSION, "place": tree}, separators=(",", ":"))
    proto = tensor_pb2.VariantTensorDataProto(type_name=TYPE_NAME, metadata=text.encode())
    proto.tensors.extend(encoder.tensors)
    return StoredVariant(proto)


def decoded(variant: StoredVariant, op: Any) -> dict[str, Any]:
    """The place that a checkpoint holds.

    Raises:
        UnimplementedError: another program, or a later version, wrote it.
        DataLossError: it is damaged.
    """
    proto = variant.proto
    if proto.type_name != TYPE_NAME:
        raise errors.UnimplementedError(
            None,
            op,
            errors.message(
                f"a variant of type {proto.type_name!r}: TensorFlow saves a graph and the places of its own kernels",
                "the place of an iterator that was saved here",
                "a saver without the iterator, tf.train.Saver(tf.global_variables()), and iterator.initializer",
            ),
        )
    try:
        stored = json.loads(proto.metadata)
        version = stored["version"]
        if version == VERSION:
            place: dict[str, Any] = _Decoder(op, proto.tensors).tree(stored["place"])
            return place
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        raise errors.DataLossError(
            None,
            op,
            errors.message(
                f"the place of an iterator, which cannot be read ({problem})",
                "a whole checkpoint",
                "restore an older checkpoint",
            ),
        ) from None
    raise errors.UnimplementedError(
        None,
        op,
        errors.message(
            f"the place of an iterator in version {version} of its form",
            f"version {VERSION}",
            "restore it with the version that saved it",
        ),
    )
