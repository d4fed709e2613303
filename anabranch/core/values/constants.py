"""Conversion of Python and NumPy values to the arrays that constants hold, and of feeds to the arrays that runs read.

Policy. `to_array` follows `tf.constant` of TensorFlow 1.x: Python floats become float32 and Python ints int32 (int64 or
uint64 when they do not fit), while NumPy arrays and scalars keep their type. Values given with a dtype are checked
strictly when they are Python's (no float where an integer is asked for, no number for a string) and cast as
`ndarray.astype` does when they are NumPy's. Arrays that come out are frozen and never share memory with the caller.

It differs from TensorFlow where that loses data in silence or refuses for no reason: Python integers out of range of
the dtype raise OverflowError instead of wrapping, arrays of foreign byte order are converted, lists may hold arrays and
ranges, and quantised types, stored as plain integers, take those beside the 1-tuples that TensorFlow asks for.

The order of the tests is one of speed: most constants are single Python numbers and short lists.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import ml_dtypes
import numpy as np

from anabranch.core.errors import message
from anabranch.core.values import dtypes
from anabranch.core.values import sizes as memory
from anabranch.core.values.dimensions import Dimension
from anabranch.core.values.dtypes import DType, as_dtype
from anabranch.core.values.elements import (
    SIMPLE,
    TEXT,
    acceptance,
    check_kinds,
    is_array_like,
    is_symbolic,
    known,
    known_sizes,
    leaf_types,
    leaves,
    refuse_feed,
    refuse_feed_of_none,
    refuse_handles,
    refuse_leaf,
    refuse_objects,
    refuse_ragged,
    refuse_range,
    refuse_tensor,
    shown,
    without_dimensions,
    without_records,
)
from anabranch.core.values.shapes import TensorShape

_BOOL = np.dtype(np.bool_)
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_COMPLEX128 = np.dtype(np.complex128)
_OBJECT = np.dtype(object)

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_ONLY_INT, _ONLY_FLOAT = {int}, {float}
_PYTHON_NUMBERS = frozenset((bool, int, float))


def to_array(
    value: Any, dtype: Any = None, shape: Any = None, *, allow_broadcast: bool = True, verify_shape: bool = False
) -> np.ndarray:
    """Return a frozen array of the value, as `tf.constant(value, dtype, shape)` would hold it.

    With `shape`, the values are laid out in that shape and the last one is repeated to fill it; `allow_broadcast=False`
    refuses to repeat, `verify_shape` asks that the value has that very shape. Strings become objects of type bytes.

    >>> to_array([1, 2], shape=[2, 2]).tolist()
    [[1, 2], [2, 2]]
    """
    if shape is None:
        kind = type(value)
        if dtype is None:
            if kind is int:
                if _INT32_MIN <= value <= _INT32_MAX:
                    array = np.array(value, _INT32)
                else:
                    array = convert(value)[0]
            elif kind is float:
                array = np.array(value, _FLOAT32)
            elif kind is bool:
                array = np.array(value, _BOOL)
            else:
                array = convert(value)[0]
        else:
            if type(dtype) is not DType:
                dtype = as_dtype(dtype)
            if (kind is float or kind is int) and dtype.is_floating and dtype.np.kind == "f":
                array = np.array(value, dtype.np)
            else:
                array = convert(value, dtype)[0]
    else:
        sizes = static_shape(shape)
        array = convert(value, dtype, sizes)[0]
        check_size(array, sizes, verify_shape)
        array = filled(array, sizes, allow_broadcast)
    array.flags.writeable = False
    return array


def convert(value: Any, dtype: Any = None, shape: tuple[int, ...] | None = None) -> tuple[np.ndarray, DType]:
    """Return the value as a new array of its own shape, with its type; `shape` matters only if it has no elements."""
    if dtype is not None:
        dtype = as_dtype(dtype).base
        if dtype.np is None:
            refuse_handles(dtype, "a constant")
    if value is None:
        raise ValueError(
            "None values not supported.\n"
            + message(
                "None",
                "a number, a string, a NumPy array, or a list of them",
                "leave the operation out where there is no value, or give a default such as 0.0",
            )
        )
    kind = type(value)
    if kind not in SIMPLE and kind is not list and kind is not tuple:
        if isinstance(value, (np.ndarray, np.generic)):
            return _from_numpy(value, dtype)
        if isinstance(value, (TensorShape, Dimension)):
            return _from_shape(value, dtype)
        if is_symbolic(value):
            refuse_tensor(value)
        if is_array_like(value):
            return _from_numpy(np.asarray(value), dtype)
        if kind is range:
            value = list(value)
    if shape is not None and 0 in shape:  # TensorFlow does not look at the value then: its type is float32
        dtype = dtype or dtypes.float32
        return np.empty(shape, dtype.np), dtype
    return _from_python(value, dtype)


# --- values of NumPy -------------------------------------------------------------------------------------------------


def _from_numpy(value: Any, dtype: DType | None) -> tuple[np.ndarray, DType]:
    given = value.dtype
    if given.names is not None:  # the records by which TensorFlow shows quantised types
        kind = _numpy_type(value)
        value, given = value[given.names[0]], kind.np
        if dtype is None:
            dtype = kind
    if dtype is None:
        if given.kind in "USO":
            return _encoded(value), dtypes.string
        dtype = _numpy_type(value)
    elif dtype is dtypes.string:
        if given.kind not in "USO":
            raise TypeError(
                message(
                    f"dtype tf.string for {shown(value)} of dtype {given}",
                    "strings or bytes",
                    "tf.as_string on the tensor, or values.astype(str)",
                )
            )
        return _encoded(value), dtype
    try:
        return np.array(value, dtype.np, order="C"), dtype
    except (TypeError, ValueError) as error:
        raise type(error)(
            message(
                f"{shown(value)} of dtype {given} for dtype {dtype!r}",
                f"values that NumPy can cast to {dtype.np}",
                f"an array of numbers ({error})",
            )
        ) from None


def _numpy_type(value: Any) -> DType:
    try:
        return as_dtype(value.dtype)
    except TypeError:
        raise TypeError(
            message(
                f"an array of NumPy type {value.dtype}",
                "a NumPy type that has an element type of tensors",
                "values.astype(np.float64), .astype(np.int64) or another supported type",
            )
        ) from None


def _encoded(value: Any) -> np.ndarray:
    """A new array of bytes from strings in a NumPy array."""
    flat = np.asarray(value).ravel().tolist()
    return _object_array([_as_bytes(item) for item in flat], value.shape)


def _as_bytes(item: Any) -> bytes:
    kind = type(item)
    if kind is bytes:
        return item
    if kind is str:
        return item.encode()
    if isinstance(item, str):
        return str(item).encode()
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    raise TypeError(
        message(
            f"{shown(item)} of type '{kind.__name__}' among strings or Python objects",
            "strings or bytes only, because such arrays become tensors of tf.string",
            "an array of numbers (np.asarray(values, np.float32)), or str(item) for each item",
        )
    )


def _object_array(items: list, shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(items), _OBJECT)
    array[:] = items
    return array.reshape(shape)


# --- shapes as values ------------------------------------------------------------------------------------------------


def _from_shape(value: Any, dtype: DType | None) -> tuple[np.ndarray, DType]:
    numbers_ = known(value) if isinstance(value, Dimension) else known_sizes(value)
    largest = max(numbers_, default=0) if isinstance(numbers_, list) else numbers_
    if dtype is None:
        dtype = dtypes.int64 if largest > _INT32_MAX else dtypes.int32
    elif dtype is not dtypes.int32 and dtype is not dtypes.int64:
        raise TypeError(
            message(
                f"the shape {value} for dtype {dtype!r}",
                "tf.int32 or tf.int64",
                f"tf.cast(shape, {dtype!r}) afterwards",
            )
        )
    if dtype is dtypes.int32 and largest > _INT32_MAX:
        raise ValueError(
            message(f"the shape {value} for tf.int32", f"dimensions of at most {_INT32_MAX}", "dtype=tf.int64")
        )
    return np.array(numbers_, dtype.np), dtype


# --- values of Python ------------------------------------------------------------------------------------------------


def _from_python(value: Any, dtype: DType | None) -> tuple[np.ndarray, DType]:
    types = leaf_types(value)
    if Dimension in types:
        value = without_dimensions(value)
        types = leaf_types(value)
    if dtype is None:
        return _inferred(value, types)
    if dtype.is_quantized:
        value = without_records(value)
        types = leaf_types(value)
    accepts = acceptance(dtype)
    if not types <= accepts.simple and not all(t in accepts.simple or accepts.takes(t) for t in types):
        for leaf in leaves(value):
            if not accepts.takes_value(leaf):
                refuse_leaf(leaf, dtype)
    if dtype is dtypes.string:
        return _strings(value), dtype
    return _numbers(value, types, dtype), dtype


def _inferred(value: Any, types: set[type]) -> tuple[np.ndarray, DType]:
    """Convert without a dtype: what NumPy infers, with float32 and int32 preferred."""
    if types and types <= TEXT:
        return _strings(value), dtypes.string
    if not types <= SIMPLE or types & TEXT:
        check_kinds(value, types)
        if any(issubclass(t, (str, bytes)) for t in types):
            return _strings(value), dtypes.string
    if types == _ONLY_INT:
        try:
            return _dense(value, _INT32), dtypes.int32
        except OverflowError:
            pass  # some need 64 bits
    elif types == _ONLY_FLOAT:
        return _dense(value, _FLOAT32), dtypes.float32
    array = _dense(value, None)
    given = array.dtype
    if given == _INT64:
        if array.size == 0 or (array.min() >= _INT32_MIN and array.max() <= _INT32_MAX):
            return array.astype(_INT32), dtypes.int32
        return array, dtypes.int64
    if given == _FLOAT64:
        return array.astype(_FLOAT32), dtypes.float32
    if given == _OBJECT:
        refuse_objects(value)
    dtype = _numpy_type(array)
    return (array if dtype.np == given else array.astype(dtype.np)), dtype


def _bit_patterns(value: Any, dtype: DType) -> np.ndarray:
    """Convert Python integers of which some do not fit the dtype, but whose bits do.

    So ``0xFFFFFFFF`` is -1 as an int32 and -1 is 255 as a uint8: masks and hashes are written like that.
    """
    bits = 8 * dtype.size
    wide = np.array(value, object)
    low = -(1 << bits)
    # What no int64 holds is no pattern of one: TensorFlow refuses it, too.
    if wide.dtype.kind != "O" or dtype is dtypes.int64 or any(not low <= int(leaf) < -low for leaf in wide.flat):
        refuse_range(value, dtype)
    return np.asarray(wide & ((1 << bits) - 1), f"uint{bits}").view(dtype.as_numpy_dtype)


def _numbers(value: Any, types: set[type], dtype: DType) -> np.ndarray:
    """Convert leaves whose types fit the dtype."""
    target = dtype.np
    assert target is not None
    if target.kind in "iu" and types <= _PYTHON_NUMBERS:
        try:
            return _dense(value, target)  # NumPy refuses Python integers out of range
        except OverflowError:
            if dtype.is_quantized:
                refuse_range(value, dtype)
            return _bit_patterns(value, dtype)
    if target.kind == "b" or (target.kind in "fc" and types <= SIMPLE):
        return _dense(value, target)
    if dtype.is_integer or dtype.is_quantized:
        array = _dense(value, None)
        if array.dtype.kind not in "iub" or array.dtype.names is not None:
            array = _dense(value, _OBJECT) if array.size else array
        limits = ml_dtypes.iinfo(target)
        if array.size and (array.min() < int(limits.min) or array.max() > int(limits.max)):
            refuse_range(value, dtype)
        return array.astype(target)
    if target.kind in "fc":
        return _dense(value, target)
    return _dense(value, _FLOAT64).astype(target)  # bfloat16 and float8, which do not take every Python number


def _dense(value: Any, target: np.dtype | None) -> np.ndarray:
    try:
        array = np.array(value, target)
    except ValueError:
        refuse_ragged(value)
    except TypeError as error:
        if "sequence" in str(error) or "scalar" in str(error):  # a list where NumPy had found a number
            refuse_ragged(value)
        raise
    return array


def _strings(value: Any) -> np.ndarray:
    if not isinstance(value, (list, tuple)):
        array = np.empty((), _OBJECT)
        array[()] = _as_bytes(value)
        return array
    shape, level = [], value
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    items: list = list(value)
    for size in shape[1:]:
        flat: list = []
        for item in items:
            if not isinstance(item, (list, tuple)) or len(item) != size:
                refuse_ragged(value)
            flat.extend(item)
        items = flat
    if any(isinstance(item, (list, tuple)) for item in items):
        refuse_ragged(value)
    return _object_array([_as_bytes(item) for item in items], tuple(shape))


# --- shapes to fill --------------------------------------------------------------------------------------------------


def static_shape(shape: Any) -> tuple[int, ...]:
    """Return a fully known shape, given as a TensorShape or a sequence of integers, as a tuple."""
    kind = type(shape)
    if kind is not list and kind is not tuple:
        if isinstance(shape, TensorShape):
            return tuple(known_sizes(shape))
        if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
            raise TypeError(
                message(f"shape={shape!r}", "a list or tuple of integers, or a TensorShape", f"shape=[{shape!r}]")
            )
        shape = tuple(shape)
    sizes = []
    for size in shape:
        if type(size) is not int:
            if isinstance(size, Dimension):
                size = known(size)
            elif isinstance(size, numbers.Integral) or (
                isinstance(size, (float, np.floating)) and float(size).is_integer()
            ):
                size = int(size)
            else:
                raise TypeError(
                    message(
                        f"the dimension {size!r} in shape={list(shape)}", "integers, all known", "for example [2, 3]"
                    )
                )
        if size < 0:
            raise ValueError(
                f"Too many elements provided. Needed at most {size}, but received 1 or more\n"
                + message(
                    f"the dimension {size} in shape={list(shape)}",
                    "dimensions of 0 or more",
                    "tf.reshape(x, shape), which takes one -1",
                )
            )
        sizes.append(size)
    return tuple(sizes)


def check_size(array: np.ndarray, shape: tuple[int, ...], verify_shape: bool) -> None:
    """Refuse values that do not have the shape (if verified) or are more than it holds."""
    if verify_shape and array.shape != shape:
        raise TypeError(
            f"Expected Tensor's shape: {shape}, got {array.shape}.\n"
            + message(
                f"a value of shape {list(array.shape)} with verify_shape=True",
                f"the shape {list(shape)}",
                f"shape={list(array.shape)}, or verify_shape=False to lay the values out anew",
            )
        )
    if array.size > (size := math.prod(shape)):
        raise ValueError(
            f"Too many elements provided. Needed at most {size}, but received {array.size}\n"
            + message(
                f"{array.size} values, of shape {list(array.shape)}, for shape={list(shape)}",
                f"at most {size} values: Too many elements provided",
                f"a shape of {array.size} elements or more, or values[:{size}]",
            )
        )


def filled(array: np.ndarray, shape: tuple[int, ...], allow_broadcast: bool = True) -> np.ndarray:
    """Return the values in another shape, the last one repeated to fill it; zeros or empty strings if there is none."""
    size = math.prod(shape)
    if array.size == size:
        return array.reshape(shape)
    if not allow_broadcast:
        raise TypeError(
            message(
                f"a value of shape {list(array.shape)} for shape={list(shape)}",
                f"{size} values, as many as the shape has",
                "allow_broadcast=True to repeat the last value, or tf.fill",
            )
        )
    try:
        result = np.empty(size, array.dtype)
    except (MemoryError, ValueError):  # NumPy's words for what has too many elements are a ValueError
        given = f"a constant of {memory.shown([(shape, array.dtype)])}"
        instead = "tf.fill(shape, value), which is computed when it is needed, or a smaller shape"
        raise memory.exhausted(None, given, memory.host_memory(), instead) from None
    flat = array.reshape(-1)
    result[: flat.size] = flat
    if flat.size:
        result[flat.size :] = flat[-1]
    else:
        result[:] = b"" if array.dtype == _OBJECT else 0
    return result.reshape(shape)


# --- feeds -----------------------------------------------------------------------------------------------------------


def feed_array(value: Any, dtype: DType) -> np.ndarray:
    """Return the array that a tensor of this type is fed with; an array of the right type is returned as it is.

    Values are cast as `np.asarray(value, dtype)` casts them: as a bool, None is False, as a float NaN. Strings come out
    as objects of type bytes.
    """
    target = dtype.np
    if type(value) is np.ndarray and target is not _OBJECT and value.dtype == target:
        return value
    if target is None:
        refuse_handles(dtype, "a feed")
    if value is None and np.dtype(target).kind in "fc":
        # Programs feed None to what a step does not use, such as a rate of dropout while they evaluate.
        warnings.warn(
            "None is fed to a tensor of floats: it is NaN, as in TensorFlow. Leave the tensor out of feed_dict if the "
            "step does not use it",
            RuntimeWarning,
            stacklevel=2,
        )
        return np.asarray(None, target)
    if value is None and dtype is not dtypes.bool:
        refuse_feed_of_none(value)
    if is_symbolic(value):
        raise TypeError(
            message(
                f"the tensor {shown(value)} as the value of a feed. The value of a feed cannot be a Tensor object",
                "Python scalars, strings, lists or NumPy arrays",
                "session.run(tensor) first, then feed its result",
            )
        )
    if isinstance(value, int):
        _check_fed_integer(value, dtype)
    if target == _OBJECT:
        return _fed_strings(value)
    if dtype.is_quantized:
        if getattr(getattr(value, "dtype", None), "names", None) is not None:
            value = value[value.dtype.names[0]]
        else:
            value = without_records(value)
    try:
        array = np.asarray(value, target)
    except (TypeError, ValueError, OverflowError) as error:
        refuse_feed(value, dtype, error)
    if isinstance(value, (list, tuple)):  # None, which NumPy reads as NaN, hides only there
        suspect = array.dtype.kind in "fcV" and bool(np.isnan(array).any())
        if suspect and any(leaf is None for leaf in leaves(value)):
            refuse_feed_of_none(value)
    return array


def _check_fed_integer(value: int, dtype: DType) -> None:
    if dtype.is_bool:
        low, high = 0, 1
    elif dtype.is_integer or dtype.is_quantized:
        limits = ml_dtypes.iinfo(dtype.np)
        low, high = int(limits.min), int(limits.max)
    else:
        return
    if not low <= value <= high:
        error = TypeError if -(2**63) <= value < 2 ** (63 if dtype.is_bool else 64) else OverflowError
        raise error(
            message(
                f"{value} of type '{type(value).__name__}' as a feed of {dtype!r}, which cannot hold it",
                f"a value from {low} to {high}",
                "a placeholder of a wider type, such as tf.int64 or tf.float32",
            )
        )


def _fed_strings(value: Any) -> np.ndarray:
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.dtype == _OBJECT:
            flat = value.ravel().tolist() if value.ndim != 1 else value.tolist()
            if set(map(type, flat)) <= {bytes}:
                return value
            return _object_array([_as_bytes(item) for item in flat], value.shape)
        return _from_numpy(value, dtypes.string)[0]
    types = leaf_types(value)
    if types <= TEXT:
        return _strings(value)
    for leaf in leaves(value):
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "USO":
            return _encoded(np.array(value, object))
        if not isinstance(leaf, (str, bytes)):
            refuse_leaf(leaf, dtypes.string)
    return _strings(value)
