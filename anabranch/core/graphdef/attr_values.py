"""Attribute values between their stored form and TensorFlow's `AttrValue` messages.

Policy. An attribute that the op's contract declares is written and read by its declared kind. Other attributes (their
names start with '_') are written by the type of their value and read by the field that is set, so that what another
program wrote comes back out the same. Shapes of undeclared attributes are kept as `TensorShape`, since a raw shape
would be a list of ints.

A constant that one value fills is kept as a view on that value, and written as that value: a gigabyte of zeros costs
a few bytes in the graph, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.attrs import Attr, NamedAttrs
from anabranch.core.graph.body import Body
from anabranch.core.protos import graph_pb2, tensor_pb2
from anabranch.core.values import dtypes, shapes, tensor_proto

AttrValue = graph_pb2.AttrValue

_FIELDS = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "string": "s",
    "type": "type",
    "shape": "shape",
    "tensor": "tensor",
    "func": "func",
}
_KINDS = {field: kind for kind, field in _FIELDS.items()}
_LISTED = ("type", "shape", "s", "i", "f", "b", "tensor", "func")
_LISTS = ("float_val", "double_val", "int_val", "string_val", "int64_val", "bool_val", "half_val", "uint32_val",
          "uint64_val")  # fmt: skip


def _no_reference(body: Body) -> Any:
    raise TypeError(
        errors.message(
            f"the nested body {body.name!r} as an attribute value",
            "the name of a function",
            "graph.as_graph_def(), which writes the body as a function of its library",
        )
    )


# ------------------------------------------------------------------------------------------------------------- writing
def to_proto(
    value: Any,
    spec: Attr | None = None,
    *,
    dtype: dtypes.DType | None = None,
    function_reference: Callable[[Body], Any] = _no_reference,
) -> Any:
    """The AttrValue of a stored value.

    Args:
        value: in stored form.
        spec: the declared attribute; None for one that the contract does not declare.
        dtype: element type of a tensor, where the array alone does not tell (quantised types).
        function_reference: gives the NameAttrList of a nested body.
    """
    if isinstance(value, AttrValue):
        return value
    proto = AttrValue()
    kind = spec.kind if spec is not None else _kind_of(value)
    if kind is None:
        return proto
    if kind.startswith("list("):
        element = kind[5:-1]
        proto.list.SetInParent()
        target = getattr(proto.list, _FIELDS[element]) if element else None
        for item in value:
            _append(target, element, item, dtype, function_reference)
        return proto
    if kind in ("shape", "tensor", "func"):
        getattr(proto, kind).CopyFrom(_message(kind, value, dtype, function_reference))
    else:
        setattr(proto, _FIELDS[kind], _scalar(kind, value))
    return proto


def _append(target: Any, element: str, item: Any, dtype: Any, function_reference: Callable[[Body], Any]) -> None:
    if element in ("shape", "tensor", "func"):
        target.add().CopyFrom(_message(element, item, dtype, function_reference))
    else:
        target.append(_scalar(element, item))


def _scalar(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.encode() if isinstance(value, str) else value
    if kind == "type":
        return value.enum
    return value


def _message(kind: str, value: Any, dtype: dtypes.DType | None, function_reference: Callable[[Body], Any]) -> Any:
    if kind == "shape":
        return shape_proto(shapes.as_raw(value))
    if kind == "tensor":
        return array_proto(value, dtype)
    if isinstance(value, NamedAttrs):
        message = graph_pb2.NameAttrList(name=value.name)
        for key, item in value.items:
            message.attr[key].CopyFrom(to_proto(item, function_reference=function_reference))
        return message
    return function_reference(value)


def shape_proto(raw: shapes.RawShape) -> Any:
    """The TensorShapeProto of a raw shape."""
    if raw is None:
        return tensor_pb2.TensorShapeProto(unknown_rank=True)
    dims = [tensor_pb2.TensorShapeProto.Dim(size=-1 if size is None else size) for size in raw]
    return tensor_pb2.TensorShapeProto(dim=dims)


def array_proto(array: np.ndarray, dtype: dtypes.DType | None = None) -> Any:
    """The TensorProto of a stored constant."""
    if dtype is None or dtype.np != array.dtype:
        dtype = dtypes.as_dtype(array.dtype)
    if array.size > 1 and not any(array.strides):
        return tensor_proto.array_to_proto(array[(slice(1),) * array.ndim].reshape(1), dtype, array.shape)
    return tensor_proto.array_to_proto(array, dtype)


def _kind_of(value: Any) -> str | None:
    """The kind that an undeclared attribute's value has; None for no value at all."""
    if isinstance(value, (list, tuple)):
        return f"list({_kind_of(value[0]) if value else ''})"
    for types, kind in _PYTHON_KINDS:
        if isinstance(value, types):
            return kind
    if value is None:
        return None
    raise TypeError(
        errors.message(
            f"{value!r} as the value of an attribute",
            "a bool, int, float, string, DType, TensorShape, array, function name, or a tuple of one of these",
            "convert it to one of them",
        )
    )


_PYTHON_KINDS: tuple[tuple[Any, str], ...] = (
    ((bool, np.bool_), "bool"),
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
    ((str, bytes), "string"),
    (dtypes.DType, "type"),
    (shapes.TensorShape, "shape"),
    (np.ndarray, "tensor"),
    ((NamedAttrs, Body), "func"),
)


# ------------------------------------------------------------------------------------------------------------- reading
def from_proto(proto: Any, spec: Attr | None = None) -> Any:
    """The stored value of an AttrValue.

    Raises:
        TypeError: the field that is set is not that of the declared kind; ValueError: its content is malformed.
    """
    field = proto.WhichOneof("value")
    if spec is not None:
        wanted = "list" if spec.is_list else _FIELDS[spec.element]
        if field != wanted:
            shown = "no value" if field is None else f"a value of kind {_KINDS.get(field, field)}"
            raise TypeError(errors.message(shown, spec.kind, f"set AttrValue.{wanted}"))
    if field is None:
        return None
    if field == "placeholder":
        raise ValueError(
            errors.message(
                f"the placeholder ${proto.placeholder} as a value", "a value", "placeholders stand in functions only"
            )
        )
    if field != "list":
        return _read(field, getattr(proto, field), spec is not None)
    filled = [name for name in _LISTED if len(getattr(proto.list, name))]
    if len(filled) > 1:
        raise ValueError(errors.message(f"a list of {' and '.join(filled)}", "a list of one kind", "split it"))
    if not filled:
        return ()
    if spec is not None and filled[0] != _FIELDS[spec.element]:
        raise TypeError(
            errors.message(f"a list of {_KINDS[filled[0]]}", spec.kind, f"fill list.{_FIELDS[spec.element]}")
        )
    return tuple(_read(filled[0], item, spec is not None) for item in getattr(proto.list, filled[0]))


def _read(field: str, value: Any, declared: bool) -> Any:
    if field == "s":
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value
    if field == "type":
        return dtypes.as_dtype(int(value))
    if field == "shape":
        raw = shapes.as_raw(value)
        return raw if declared else shapes.TensorShape(raw)
    if field == "tensor":
        return read_array(value)
    if field == "func":
        return NamedAttrs(value.name, tuple(sorted((key, from_proto(item)) for key, item in value.attr.items())))
    return value


def _complex_count(proto: Any) -> float:
    return (len(proto.scomplex_val) + len(proto.dcomplex_val)) / 2


def read_array(proto: Any) -> np.ndarray:
    """The read-only array of a TensorProto; one value that fills a shape is kept as a view on it."""
    count = sum(len(getattr(proto, name)) for name in _LISTS)
    if not proto.tensor_content and (count == 1 or (not count and _complex_count(proto) == 1)):
        shape = tuple(dim.size for dim in proto.tensor_shape.dim)
        if not proto.tensor_shape.unknown_rank and all(size > 0 for size in shape) and math.prod(shape) > 1:
            single = tensor_pb2.TensorProto()
            single.CopyFrom(proto)
            single.ClearField("tensor_shape")
            value = tensor_proto.make_ndarray(single)
            dtype = dtypes.as_dtype(int(proto.dtype)).base
            shape = tensor_proto.readable_shape(proto, dtype)
            tensor_proto.require_budget(1, math.prod(shape), dtype, shape)  # some reader of it will want an array
            return np.broadcast_to(value, shape)
    array = tensor_proto.make_ndarray(proto)
    array.flags.writeable = False
    return array


def same_default(value: Any, default: Any, spec: Attr) -> bool:
    """Whether a stored value says the same as a stored default, as far as a file can tell them apart."""
    return to_proto(value, spec) == to_proto(default, spec)
