"""TensorProtos: `tf.make_tensor_proto` and `tf.make_ndarray`.

Policy. What is written equals TensorFlow's bytes: arrays of two or more numbers go to `tensor_content`, single values,
strings, booleans, complex numbers and uint16 to the list of their type, and a value that is repeated to fill a shape is
written once. What is read may come from any program, so nothing in it is believed: sizes are checked before memory is
taken, and values must fit their type.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from anabranch.core.errors import message
from anabranch.core.protos import tensor_pb2
from anabranch.core.values import budgets, dtypes
from anabranch.core.values.constants import check_size, convert, static_shape
from anabranch.core.values.dtypes import DType, as_dtype

TensorProto = tensor_pb2.TensorProto
TensorShapeProto = tensor_pb2.TensorShapeProto

MAX_BYTES: Final = 2**31
MAX_REPEATED_STRINGS: Final = 2**22
"""Each is a Python object, of 8 bytes and more, for none in the file."""
"""The size that a tensor read from a proto, or written to one, must stay below."""

_CONTENT_TYPES = frozenset(
    d
    for d in dtypes.ALL_DTYPES
    if (d.is_integer or d.is_floating or d.is_quantized) and d.name not in ("uint16", "int4", "uint4")
)
_FLOAT8 = frozenset((dtypes.float8_e5m2, dtypes.float8_e4m3fn))
_HALVES = frozenset((dtypes.float16, dtypes.bfloat16))
_COMPLEX_FIELDS = {dtypes.complex64: ("scomplex_val", np.float32), dtypes.complex128: ("dcomplex_val", np.float64)}
_FIELDS = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.int64: "int64_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.bool: "bool_val",
}


def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> TensorProto:
    """Return a TensorProto of values, converted as `tf.constant` converts them; a TensorProto is returned as it is.

    With `allow_broadcast` only a single value may be fewer than the shape holds: TypeError otherwise.

    >>> make_tensor_proto([1.5], shape=[1000]).float_val
    [1.5]
    """
    if isinstance(values, TensorProto):
        return values
    sizes = None if shape is None else static_shape(shape)
    array, dtype = convert(values, dtype, sizes)
    if sizes is None:
        sizes = array.shape
    else:
        check_size(array, sizes, verify_shape)
        if allow_broadcast and array.size not in (1, math.prod(sizes)):
            raise TypeError(
                f"Expected Tensor's shape: {tuple(sizes)}, got {array.shape}.\n"
                + message(f"{array.size} values for the shape {list(sizes)}", "one value, or as many", "np.resize")
            )
    return array_to_proto(array, dtype, sizes)


def array_to_proto(array: np.ndarray, dtype: DType, shape: tuple[int, ...] | None = None) -> TensorProto:
    """Return the proto of an array that is stored as `dtype.np`; the last value stands for all others of `shape`."""
    sizes = array.shape if shape is None else shape
    proto = TensorProto(
        dtype=dtype.enum,  # type: ignore[arg-type]  # the stub wants the enum's class, the message takes its number
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes]),
    )
    if array.size > 1 and dtype in _CONTENT_TYPES and array.size == math.prod(sizes):
        if array.nbytes >= MAX_BYTES:
            raise ValueError(
                message(
                    f"values of {array.nbytes} bytes, shape {list(array.shape)}",
                    f"less than {MAX_BYTES} bytes (2 GiB), the most that a proto can hold",
                    "a tf.Variable that is restored from a checkpoint, or a placeholder that is fed",
                )
            )
        proto.tensor_content = array.tobytes()
        return proto
    flat = array.ravel()
    if dtype is dtypes.string:
        proto.string_val.extend(item if type(item) is bytes else item.encode() for item in flat.tolist())
    elif dtype in _HALVES:
        proto.half_val.extend(flat.view(np.uint16).tolist())
    elif dtype in _FLOAT8:
        proto.float8_val = flat.tobytes()
    elif dtype in _COMPLEX_FIELDS:
        field, part = _COMPLEX_FIELDS[dtype]
        getattr(proto, field).extend(flat.view(part).tolist())
    elif flat.size:
        getattr(proto, _FIELDS.get(dtype, "int_val")).extend(
            flat.astype(np.int32).tolist() if flat.dtype.kind == "V" else flat.tolist()
        )
    return proto


def make_ndarray(tensor: TensorProto) -> np.ndarray:
    """Return a new array with the values of a TensorProto; strings are objects of type bytes.

    Raises:
        ResourceExhaustedError: the last value stands for so many that the budget for what one input expands to
            (:mod:`anabranch.core.values.budgets`) does not hold them. ValueError, TypeError: it is damaged.
    """
    dtype, target = _readable_type(tensor)
    shape = readable_shape(tensor, dtype)
    size = math.prod(shape)
    if tensor.tensor_content:
        if dtype is dtypes.string:
            return _object_array(_split_strings(tensor.tensor_content, size), shape)
        return _from_content(tensor.tensor_content, dtype, target, shape)
    if dtype is dtypes.string:
        strings = list(tensor.string_val)
        _check_count(len(strings), size, shape)
        require_budget(len(strings), size, dtype, shape)
        result = np.full(size, strings[-1] if strings else b"", object)
        result[: len(strings)] = strings
        return result.reshape(shape)
    values = _listed_values(tensor, dtype, target)
    _check_count(values.size, size, shape)
    if values.size == size:
        return values.reshape(shape)
    require_budget(values.size, size, dtype, shape)
    if values.size == 0:
        return np.zeros(shape, target)
    result = np.empty(size, target)
    result[: values.size] = values
    result[values.size :] = values[-1]
    return result.reshape(shape)


def _readable_type(tensor: TensorProto) -> tuple[DType, np.dtype]:
    try:
        dtype = as_dtype(int(tensor.dtype)).base
    except TypeError:
        raise TypeError(
            message(
                f"a TensorProto of dtype number {int(tensor.dtype)}",
                "the number of an element type",
                "proto.dtype = tf.float32.as_datatype_enum, or that of another type",
            )
        ) from None
    if dtype.np is None:
        raise TypeError(
            message(
                f"a TensorProto of {dtype!r}",
                "a type with values of NumPy; a handle means nothing outside the run that made it",
                "save and load what the handle stands for, by a checkpoint of the variable or table",
            )
        )
    return dtype, dtype.np


def readable_shape(tensor: TensorProto, dtype: DType) -> tuple[int, ...]:
    """Return the shape that a proto claims; ValueError if it is not known, or too large to believe."""
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise ValueError(
            message(
                "a TensorProto of unknown shape" if not shape else f"a TensorProto of shape {list(shape)}",
                "a fully known shape: a value has one",
                "the shape of the values in proto.tensor_shape",
            )
        )
    # With a zero among the dimensions, the others could still be too large for an array.
    if math.prod(size for size in shape if size) * dtype.size >= MAX_BYTES or len(shape) > 64:
        raise ValueError(
            message(
                f"a TensorProto that claims the shape {list(shape)} of {dtype!r}",
                f"less than {MAX_BYTES} bytes (2 GiB)",
                "tf.fill for a large tensor of one value; if you did not write this file, it is damaged",
            )
        )
    return shape


def require_budget(count: int, size: int, dtype: DType, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of ``size`` elements that repeats the last of its ``count`` values too often."""
    if dtype is dtypes.string and size > count + MAX_REPEATED_STRINGS:
        raise ValueError(
            message(
                f"a TensorProto of {count} strings that claims the shape {list(shape)}",
                f"at most {MAX_REPEATED_STRINGS} strings that repeat the last one",
                "tf.fill for a large tensor of one string; if you did not write this file, it is damaged",
            )
        )
    given = f"a TensorProto of {count} values that claims the shape {list(shape)} of {dtype!r}"
    budgets.require((size - count) * dtype.size, given)


def _from_content(content: bytes, dtype: DType, target: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    expected = math.prod(shape) * target.itemsize
    if len(content) != expected:
        raise ValueError(
            message(
                f"{len(content)} bytes of tensor_content",
                f"{expected} bytes for shape {list(shape)} of {dtype!r}",
                "array.tobytes() of the whole array; if you did not write this proto, it is damaged",
            )
        )
    if dtype.is_bool:
        return (np.frombuffer(content, np.uint8) != 0).reshape(shape)
    return np.frombuffer(content, target).copy().reshape(shape)


def _listed_values(tensor: TensorProto, dtype: DType, target: np.dtype) -> np.ndarray:
    if dtype in _HALVES:
        return _within(np.array(tensor.half_val, np.int64), np.dtype(np.uint16), dtype).view(target)
    if dtype in _FLOAT8:
        return np.frombuffer(tensor.float8_val, target).copy()
    if dtype in _COMPLEX_FIELDS:
        field, part = _COMPLEX_FIELDS[dtype]
        parts = np.array(getattr(tensor, field), part)
        if parts.size % 2:
            raise ValueError(
                message(
                    f"{parts.size} numbers in {field}",
                    "an even number: a real and an imaginary part for each value",
                    "the missing part; if you did not write this proto, it is damaged",
                )
            )
        return parts.view(target)
    if dtype in _FIELDS:
        return np.array(getattr(tensor, _FIELDS[dtype]), target)
    return _within(np.array(tensor.int_val, np.int64), target, dtype)


def _within(values: np.ndarray, target: np.dtype, dtype: DType) -> np.ndarray:
    """Cast integers to a narrower type that must hold them."""
    cast = values.astype(target)
    if not np.array_equal(cast.astype(np.int64), values):
        raise ValueError(
            message(
                f"values from {values.min()} to {values.max()} in a TensorProto of {dtype!r}",
                f"integers that fit in {target}",
                "a wider dtype; if you did not write this proto, it is damaged",
            )
        )
    return cast


def _check_count(count: int, size: int, shape: tuple[int, ...]) -> None:
    if count > size:
        raise ValueError(
            message(
                f"a TensorProto of {count} values and shape {list(shape)}",
                f"at most {size} values",
                "the shape of the values in proto.tensor_shape",
            )
        )


def _split_strings(content: bytes, size: int) -> list[bytes]:
    """The strings of a tensor_content: all lengths as varints, then all bytes."""
    lengths: list[int] = []
    at = 0
    while len(lengths) < size and at < len(content):
        length = shift = 0
        while at < len(content):
            byte = content[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                lengths.append(length)
                break
            if shift > 28:
                break
    if len(lengths) != size or at + sum(lengths) != len(content):
        raise ValueError(
            message(
                f"{len(content)} bytes of tensor_content in a TensorProto of tf.string",
                f"the lengths of {size} strings as varints, then their bytes",
                "string_val; if you did not write this proto, it is damaged",
            )
        )
    strings = []
    for length in lengths:
        strings.append(content[at : at + length])
        at += length
    return strings


def _object_array(items: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)
