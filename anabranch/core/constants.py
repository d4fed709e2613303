"""Conversion of Python and NumPy values to the arrays that constants hold, and of feeds to the arrays that runs read.

Policy. `to_array` follows `tf.constant` of TensorFlow 1.x: Python floats become float32 and Python ints int32 (int64 or
uint64 when they do not fit), while NumPy arrays and scalars keep their type. Values given with a dtype are checked
strictly when they are Python's (no float where an integer is asked for, no number for a string) and cast as
`ndarray.astype` does when they are NumPy's. Arrays that come out are frozen and never share memory with the caller.

It differs from TensorFlow where that loses data in silence or refuses for no reason: Python integers out of range of the
dtype raise OverflowError instead of wrapping, arrays of foreign byte order are converted, lists may hold arrays, and
quantised types take plain integers beside the 1-tuples that TensorFlow asks for (they are stored as plain integers).

The order of the tests is one of speed: most constants are single Python numbers and short lists.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from anabranch.core import dtypes
from anabranch.core.dtypes import DType, as_dtype
from anabranch.core.errors import message
from anabranch.core.shapes import Dimension, TensorShape

_BOOL = np.dtype(np.bool_)
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_COMPLEX128 = np.dtype(np.complex128)
_OBJECT = np.dtype(object)

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_PYTHON_NUMBERS = frozenset((bool, int, float))
_TEXT = frozenset((str, bytes))
_SIMPLE = frozenset((bool, int, float, complex, str, bytes))


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
            _refuse_handles(dtype, "a constant")
    if value is None:
        raise ValueError(
            message(
                "None values not supported.",
                "a number, a string, a NumPy array, or a list of them",
                "leave the operation out where there is no value, or give a default such as 0.0",
            )
        )
    kind = type(value)
    if kind not in _SIMPLE and kind is not list and kind is not tuple:
        if isinstance(value, (np.ndarray, np.generic)):
            return _from_numpy(value, dtype)
        if isinstance(value, (TensorShape, Dimension)):
            return _from_shape(value, dtype)
        if _is_symbolic(value):
            _refuse_tensor(value)
        if _is_array_like(value):
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
        found = _numpy_type(value)
        value, given = value[given.names[0]], found.np
        if dtype is None:
            dtype = found
    if dtype is None:
        if given.kind in "USO":
            return _encoded(value), dtypes.string
        dtype = _numpy_type(value)
    elif dtype is dtypes.string:
        if given.kind not in "USO":
            raise TypeError(
                message(
                    f"dtype tf.string for {_shown(value)} of dtype {given}",
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
                f"{_shown(value)} of dtype {given} for dtype {dtype!r}",
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
            f"{_shown(item)} of type '{kind.__name__}' among strings or Python objects",
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
    numbers_ = _known(value) if isinstance(value, Dimension) else _known_sizes(value)
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


def _known_sizes(shape: Any) -> list[int]:
    if not shape.is_fully_defined():
        raise ValueError(
            message(
                f"the partly known shape {shape} as a tensor",
                "a fully known shape",
                "tf.shape(x), which gives the shape when the graph runs",
            )
        )
    return shape.as_list()


def _known(dimension: Any) -> int:
    if dimension.value is None:
        raise ValueError(
            message(
                "an unknown Dimension as a value",
                "a known dimension",
                "tf.shape(x)[i], which gives the dimension when the graph runs",
            )
        )
    return dimension.value


# --- values of Python ------------------------------------------------------------------------------------------------


def _from_python(value: Any, dtype: DType | None) -> tuple[np.ndarray, DType]:
    types = _leaf_types(value)
    if Dimension in types:
        value = _without_dimensions(value)
        types = _leaf_types(value)
    if dtype is None:
        return _inferred(value, types)
    if dtype.is_quantized:
        value = _without_records(value)
        types = _leaf_types(value)
    accepts = _acceptance(dtype)
    if not types <= accepts.simple and not all(t in accepts.simple or accepts.takes(t) for t in types):
        for leaf in _leaves(value):
            if not accepts.takes_value(leaf):
                _refuse_leaf(leaf, dtype)
    if dtype is dtypes.string:
        return _strings(value), dtype
    return _numbers(value, types, dtype), dtype


def _inferred(value: Any, types: set[type]) -> tuple[np.ndarray, DType]:
    """Convert without a dtype: what NumPy infers, with float32 and int32 preferred."""
    if types and types <= _TEXT:
        return _strings(value), dtypes.string
    if not types <= _SIMPLE or types & _TEXT:
        _check_kinds(value, types)
        if any(issubclass(t, (str, bytes)) for t in types):
            return _strings(value), dtypes.string
    if types == {float}:
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
        _refuse_objects(value)
    found = _numpy_type(array)
    return (array if found.np == given else array.astype(found.np)), found


def _numbers(value: Any, types: set[type], dtype: DType) -> np.ndarray:
    """Convert leaves whose types fit the dtype."""
    target = dtype.np
    assert target is not None
    if target.kind in "iu" and types <= _PYTHON_NUMBERS:
        try:
            return _dense(value, target)  # NumPy refuses Python integers out of range
        except OverflowError:
            _refuse_range(value, dtype)
    if target.kind == "b" or (target.kind in "fc" and types <= _SIMPLE):
        return _dense(value, target)
    if dtype.is_integer or dtype.is_quantized:
        array = _dense(value, None)
        if array.dtype.kind not in "iub" or array.dtype.names is not None:
            array = _dense(value, _OBJECT) if array.size else array
        limits = ml_dtypes.iinfo(target)
        if array.size and (array.min() < int(limits.min) or array.max() > int(limits.max)):
            _refuse_range(value, dtype)
        return array.astype(target)
    if target.kind in "fc":
        return _dense(value, target)
    return _dense(value, _FLOAT64).astype(target)  # bfloat16 and float8, which do not take every Python number


def _dense(value: Any, target: np.dtype | None) -> np.ndarray:
    try:
        array = np.array(value, target)
    except ValueError:
        _refuse_ragged(value)
    except TypeError as error:
        if "sequence" in str(error) or "scalar" in str(error):  # a list where NumPy had found a number
            _refuse_ragged(value)
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
                _refuse_ragged(value)
            flat.extend(item)
        items = flat
    if any(isinstance(item, (list, tuple)) for item in items):
        _refuse_ragged(value)
    return _object_array([_as_bytes(item) for item in items], tuple(shape))


# --- types of leaves -------------------------------------------------------------------------------------------------


def _leaf_types(value: Any) -> set[type]:
    """The types of the values inside nested lists and tuples."""
    kind = type(value)
    if kind in _SIMPLE:
        return {kind}
    if not isinstance(value, (list, tuple)):
        return {kind}
    types = set(map(type, value))
    if types <= _SIMPLE:
        return types
    if any(issubclass(t, (list, tuple)) for t in types):
        types = {t for t in types if not issubclass(t, (list, tuple))}
        for item in value:
            if isinstance(item, (list, tuple)):
                types |= _leaf_types(item)
    return types


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


class _Acceptance:
    """Which types of Python and NumPy values a dtype takes; `simple` are those known without asking."""

    __slots__ = ("classes", "covers", "simple")

    def __init__(self, simple: set[type], classes: tuple[type, ...], covers: Callable[[DType], bool]) -> None:
        self.simple = frozenset(simple)
        self.classes = classes
        self.covers = covers

    def takes(self, kind: type) -> bool:
        """Whether every value of this type is taken."""
        return kind in self.simple or issubclass(kind, self.classes)

    def takes_value(self, value: Any) -> bool:
        """Whether this value is taken; arrays by the type of their elements."""
        if self.takes(type(value)):
            return True
        given = getattr(value, "dtype", None)
        if given is None or _is_symbolic(value):
            return False
        try:
            return self.covers(as_dtype(given))
        except TypeError:
            return False


_INTEGERS = _Acceptance(
    {bool, int}, (numbers.Integral, np.integer, Dimension), lambda d: d.is_integer or d.is_quantized
)
_FLOATS = _Acceptance(
    {bool, int, float}, (numbers.Real, np.integer, np.floating), lambda d: d.is_integer or d.is_floating
)
_COMPLEXES = _Acceptance(
    {bool, int, float, complex},
    (numbers.Complex, np.number),
    lambda d: d.is_integer or d.is_floating or d.is_complex,
)
_BOOLS = _Acceptance({bool}, (np.bool_,), lambda d: d.is_bool)
_STRINGS = _Acceptance({str, bytes}, (str, bytes), lambda d: False)


def _acceptance(dtype: DType) -> _Acceptance:
    if dtype.is_floating:
        return _FLOATS
    if dtype.is_integer or dtype.is_quantized:
        return _INTEGERS
    if dtype.is_bool:
        return _BOOLS
    return _COMPLEXES if dtype.is_complex else _STRINGS


def _check_kinds(value: Any, types: set[type]) -> None:
    """Refuse leaves that are no values, and strings among numbers."""
    text = any(issubclass(t, (str, bytes)) for t in types)
    for leaf in _leaves(value):
        if _is_symbolic(leaf):
            _refuse_tensor(leaf)
        is_text = isinstance(leaf, (str, bytes))
        if text and not is_text:
            raise TypeError(
                message(
                    f"{_shown(leaf)} of type '{type(leaf).__name__}' among strings in {_shown(value)}",
                    "values of one kind: all strings, or all numbers",
                    "str(item) for each item, or two tensors",
                )
            )
        if not is_text and not isinstance(leaf, (numbers.Complex, np.generic, np.ndarray)) and not _is_array_like(leaf):
            raise TypeError(
                message(
                    f"{_shown(leaf)} of type '{type(leaf).__name__}' as a tensor",
                    "a number, a boolean, a string, a NumPy array, or nested lists of them",
                    _advice(leaf),
                )
            )


def _advice(leaf: Any) -> str:
    if leaf is None:
        return "a number in the place of None"
    if isinstance(leaf, (set, frozenset)):
        return "sorted(values), a list: sets have no order"
    if isinstance(leaf, dict):
        return "one tensor for each item: {key: tf.constant(item) for key, item in values.items()}"
    if isinstance(leaf, DType):
        return "pass the type as dtype=..., or its number as a value: " + repr(leaf) + ".as_datatype_enum"
    if hasattr(leaf, "__next__"):
        return "list(values)"
    return "float(value), or np.asarray(values, np.float32)"


def _without_dimensions(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_without_dimensions(item) for item in value]
    return _known(value) if isinstance(value, Dimension) else value


def _without_records(value: Any) -> Any:
    """Quantised values without the 1-tuples that TensorFlow writes around each of them."""
    if isinstance(value, tuple) and len(value) == 1 and not isinstance(value[0], (list, tuple)):
        return value[0]
    if isinstance(value, (list, tuple)):
        return [_without_records(item) for item in value]
    return value


def _is_symbolic(value: Any) -> bool:
    """Whether this is a tensor of a graph, which has no value yet."""
    return type(value) not in _SIMPLE and hasattr(value, "op") and hasattr(value, "graph")


def _is_array_like(value: Any) -> bool:
    """Whether NumPy reads this as an array: by its protocols or as a buffer."""
    if type(value) in _SIMPLE or isinstance(value, (type, bytes)):
        return False
    if callable(getattr(value, "__array__", None)) or isinstance(getattr(value, "__array_interface__", None), dict):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


# --- shapes to fill --------------------------------------------------------------------------------------------------


def static_shape(shape: Any) -> tuple[int, ...]:
    """Return a fully known shape, given as a TensorShape or a sequence of integers, as a tuple."""
    kind = type(shape)
    if kind is not list and kind is not tuple:
        if isinstance(shape, TensorShape):
            return tuple(_known_sizes(shape))
        if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
            raise TypeError(
                message(f"shape={shape!r}", "a list or tuple of integers, or a TensorShape", f"shape=[{shape!r}]")
            )
        shape = tuple(shape)
    sizes = []
    for size in shape:
        if type(size) is not int:
            if isinstance(size, Dimension):
                size = _known(size)
            elif isinstance(size, numbers.Integral) or (isinstance(size, numbers.Real) and size == int(size)):
                size = int(size)
            else:
                raise TypeError(
                    message(
                        f"the dimension {size!r} in shape={list(shape)}", "integers, all known", "for example [2, 3]"
                    )
                )
        if size < 0:
            raise ValueError(
                message(
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
            message(
                f"a value of shape {list(array.shape)} with verify_shape=True",
                f"the shape {list(shape)}",
                f"shape={list(array.shape)}, or verify_shape=False to lay the values out anew",
            )
        )
    if array.size > (size := math.prod(shape)):
        raise ValueError(
            message(
                f"{array.size} values, of shape {list(array.shape)}, for shape={list(shape)}",
                f"at most {size} values: Too many elements provided",
                f"a shape of {array.size} elements or more, or values[:{size}]",
            )
        )


def filled(array: np.ndarray, shape: tuple[int, ...], allow_broadcast: bool = True) -> np.ndarray:
    """Return the values in another shape, the last one repeated to fill it (zeros or empty strings if there is none)."""
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
    result = np.empty(size, array.dtype)
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

    Values are cast as `np.asarray(value, dtype)` casts them. Strings come out as objects of type bytes.
    """
    target = dtype.np
    if type(value) is np.ndarray and target is not _OBJECT and value.dtype == target:
        return value
    if target is None:
        _refuse_handles(dtype, "a feed")
    if value is None:
        _refuse_feed_of_none(value)
    kind = type(value)
    if kind is int:
        _check_fed_integer(value, dtype)
    elif kind not in _SIMPLE:
        if _is_symbolic(value):
            raise TypeError(
                message(
                    f"the tensor {_shown(value)} as the value of a feed. The value of a feed cannot be a Tensor object",
                    "Python scalars, strings, lists or NumPy arrays",
                    "session.run(tensor) first, then feed its result",
                )
            )
        if isinstance(value, int):
            _check_fed_integer(value, dtype)
    if target == _OBJECT:
        return _fed_strings(value)
    if dtype.is_quantized:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.names is not None:
            value = value[value.dtype.names[0]]
        else:
            value = _without_records(value)
    try:
        array = np.asarray(value, target)
    except (TypeError, ValueError, OverflowError) as error:
        _refuse_feed(value, dtype, error)
    if isinstance(value, (list, tuple)):
        where = array.dtype.kind  # None, which NumPy reads as NaN or False, hides only there
        if (where == "b" and not array.all()) or (where in "fcV" and np.isnan(array).any()):
            if any(leaf is None for leaf in _leaves(value)):
                _refuse_feed_of_none(value)
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
        if value.dtype == _OBJECT:
            flat = value.ravel().tolist() if value.ndim != 1 else value.tolist()
            if set(map(type, flat)) <= {bytes}:
                return value
            return _object_array([_as_bytes(item) for item in flat], value.shape)
        return _from_numpy(value, dtypes.string)[0]
    types = _leaf_types(value)
    if types <= _TEXT:
        return _strings(value)
    for leaf in _leaves(value):
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "USO":
            return _encoded(np.array(value, object))
        if not isinstance(leaf, (str, bytes)):
            _refuse_leaf(leaf, dtypes.string)
    return _strings(value)


# --- refusals --------------------------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:100] + " ... " + text[-15:]


def _refuse_leaf(leaf: Any, dtype: DType) -> NoReturn:
    if leaf is None:
        advice = "a value in the place of None"
    elif _is_symbolic(leaf):
        _refuse_tensor(leaf)
    elif dtype is dtypes.string:
        advice = "str(value), or leave dtype out"
    elif isinstance(leaf, (str, bytes)):
        advice = "the number itself without quotes, or tf.strings.to_number"
    elif dtype.is_bool:
        advice = "bool(value), or tf.cast(value, tf.bool)"
    elif dtype.is_integer:
        advice = f"int(value), or tf.cast(value, {dtype!r}), which rounds towards zero"
    else:
        advice = "leave dtype out, or a dtype that holds it"
    raise TypeError(
        message(
            f"{_shown(leaf)} of type '{type(leaf).__name__}' for dtype {dtype!r}",
            f"Expected {dtype.name}: a value that this type holds",
            advice,
        )
    )


def _refuse_tensor(value: Any) -> NoReturn:
    raise TypeError(
        message(
            f"the tensor {_shown(value)} as the value of a constant",
            "any non-tensor type: a tensor of a graph has no value before the graph runs",
            "the tensor itself where a tensor is asked for, or tf.stack for a list of tensors",
        )
    )


def _refuse_objects(value: Any) -> NoReturn:
    for leaf in _leaves(value):
        if isinstance(leaf, numbers.Integral) and not -(2**63) <= leaf < 2**64:
            raise TypeError(
                message(
                    f"the integer {_shown(leaf)}",
                    "an integer of at most 64 bits",
                    "float(value), or the value modulo 2**64",
                )
            )
    raise TypeError(
        message(
            f"{_shown(value)}, which NumPy can only hold as Python objects",
            "numbers, booleans or strings of one kind",
            "np.asarray(values, np.float32)",
        )
    )


def _refuse_range(value: Any, dtype: DType) -> NoReturn:
    limits = ml_dtypes.iinfo(dtype.np)
    low, high = int(limits.min), int(limits.max)
    worst = next(
        (leaf for leaf in _leaves(value) if not np.all((np.asarray(leaf) >= low) & (np.asarray(leaf) <= high))), value
    )
    raise OverflowError(
        message(
            f"{_shown(worst)} for dtype {dtype!r}",
            f"integers from {low} to {high}",
            f"a wider type such as tf.int64, or np.array(values).astype(np.{dtype.np}) to wrap around",
        )
    )


def _refuse_ragged(value: Any) -> NoReturn:
    raise ValueError(
        message(
            f"lists of different lengths or depths in {_shown(value)}",
            "a dense tensor: at each depth lists of one length",
            "pad the lists to one length, or tf.ragged.constant",
        )
    )


def _refuse_handles(dtype: DType, what: str) -> NoReturn:
    raise TypeError(
        message(
            f"{dtype!r} as the type of {what}",
            "a type with values of NumPy; resources and variants exist only inside a run",
            "the operation that makes the handle, such as tf.Variable or tf.data's iterator",
        )
    )


def _refuse_feed_of_none(value: Any) -> NoReturn:
    raise TypeError(
        message(
            f"{_shown(value)} as the value of a feed",
            "values: None is none, and NumPy would read it as NaN",
            "float('nan') if you mean that, or leave the tensor out of feed_dict",
        )
    )


def _refuse_feed(value: Any, dtype: DType, error: Exception) -> NoReturn:
    if isinstance(error, ValueError) and ("inhomogeneous" in str(error) or "sequence" in str(error)):
        _refuse_ragged(value)
    raise type(error)(
        message(
            f"{_shown(value)} of type '{type(value).__name__}' as a feed of {dtype!r}",
            f"what np.asarray(value, np.{dtype.np}) takes: {error}",
            "np.asarray(value) in your program, to see what it holds, then convert it",
        )
    ) from None
