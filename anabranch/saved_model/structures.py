"""Structures of arguments and results as TensorFlow 2 writes them into a SavedModel (``StructuredValue``)."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.graphdef import attr_values
from anabranch.core.protos import object_graph_pb2
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.saved_model.composite import composite_leaf
from anabranch.saved_model.object_graph import spec_of


def encoded(value: Any) -> Any:
    """A structure of specifications and plain Python values as a message.

    Raises:
        UnimplementedError: a part of it is of another kind.
    """
    proto = object_graph_pb2.StructuredValue()
    _write(proto, value)
    return proto


def _write(proto: Any, value: Any) -> None:
    if value is None:
        proto.none_value.SetInParent()
    elif isinstance(value, bool):
        proto.bool_value = value
    elif isinstance(value, int):
        proto.int64_value = value
    elif isinstance(value, float):
        proto.float64_value = value
    elif isinstance(value, str):
        proto.string_value = value
    elif type(value) is TensorSpec:
        proto.tensor_spec_value.name = value.name or ""
        proto.tensor_spec_value.dtype = value.dtype.base.as_datatype_enum
        proto.tensor_spec_value.shape.CopyFrom(attr_values.shape_proto(shapes.as_raw(value.shape)))
    elif isinstance(value, dtypes.DType):
        proto.tensor_dtype_value = value.base.as_datatype_enum
    elif isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        proto.dict_value.SetInParent()
        for key in value:
            _write(proto.dict_value.fields[key], value[key])
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        proto.named_tuple_value.name = type(value).__name__
        for key, part in zip(value._fields, value, strict=True):
            _write(proto.named_tuple_value.values.add(key=key).value, part)
    elif isinstance(value, (list, tuple)):
        held = proto.list_value if isinstance(value, list) else proto.tuple_value
        held.SetInParent()
        for part in value:
            _write(held.values.add(), part)
    else:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"a function that returns or takes {value!r:.200}",
                "tensors, numbers, text, and structures of these with text as keys",
                "the tensors that it is made of",
            ),
        )


def decoded(proto: Any) -> Any:
    """The structure that a message describes: `TensorSpec` for tensors, a leaf of parts for sparse and ragged ones."""
    kind = proto.WhichOneof("kind")
    if kind in ("list_value", "tuple_value"):
        parts = [decoded(part) for part in getattr(proto, kind).values]
        return parts if kind == "list_value" else tuple(parts)
    if kind == "dict_value":
        return {key: decoded(part) for key, part in proto.dict_value.fields.items()}
    if kind == "named_tuple_value":
        fields = {pair.key: decoded(pair.value) for pair in proto.named_tuple_value.values}
        return collections.namedtuple(proto.named_tuple_value.name, fields)(**fields)
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        spec = getattr(proto, kind)
        dtype, shape = spec_of(spec)
        return TensorSpec(shape, dtype, spec.name or None)
    if kind == "type_spec_value":
        return composite_leaf(proto.type_spec_value)
    if kind == "tensor_dtype_value":
        return dtypes.as_dtype(int(proto.tensor_dtype_value))
    if kind == "tensor_shape_value":
        return shapes.TensorShape(shapes.as_raw(proto.tensor_shape_value))
    if kind in ("tensor_value", "numpy_value"):
        return attr_values.read_array(getattr(proto, kind))
    return None if kind in (None, "none_value") else getattr(proto, kind)
