"""What values are made of: the types inside nested lists, which of them a dtype takes, and what is refused.

Policy. Questions about types are asked once for each type that occurs, not for each value: a list of a million floats
costs one pass. Only when a type does not fit are the values walked through, to name the one that is wrong.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from anabranch.core.errors import message
from anabranch.core.values import dtypes
from anabranch.core.values.dimensions import Dimension
from anabranch.core.values.dtypes import DType, as_dtype

TEXT = frozenset((str, bytes))
SIMPLE = frozenset((bool, int, float, complex, str, bytes))


def leaf_types(value: Any) -> set[type]:
    """The types of the values inside nested lists and tuples."""
    kind = type(value)
    if kind in SIMPLE:
        return {kind}
    if not isinstance(value, (list, tuple)):
        return {kind}
    types = set(map(type, value))
    if types <= SIMPLE:
        return types
    if any(issubclass(t, (list, tuple)) for t in types):
        types = {t for t in types if not issubclass(t, (list, tuple))}
        for item in value:
            if isinstance(item, (list, tuple)):
                types |= leaf_types(item)
    return types


def leaves(value: Any) -> Iterator[Any]:
    """The values inside nested lists and tuples, in order."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
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
        if given is None or is_symbolic(value):
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


def acceptance(dtype: DType) -> _Acceptance:
    """What a dtype takes."""
    if dtype.is_floating:
        return _FLOATS
    if dtype.is_integer or dtype.is_quantized:
        return _INTEGERS
    if dtype.is_bool:
        return _BOOLS
    return _COMPLEXES if dtype.is_complex else _STRINGS


class UnsupportedTypeError(TypeError, ValueError):
    """Refusal of an object that has no value: a ``TypeError`` in graphs, a ``ValueError`` where ops run at once."""


def check_kinds(value: Any, types: set[type]) -> None:
    """Refuse leaves that are not values, and strings among numbers."""
    text = any(issubclass(t, (str, bytes)) for t in types)
    for leaf in leaves(value):
        if is_symbolic(leaf):
            refuse_tensor(leaf)
        is_text = isinstance(leaf, (str, bytes))
        if text and not is_text:
            raise TypeError(
                f"Failed to convert object of type {type(value)} to Tensor. Contents: {shown(value)}. "
                "Consider casting elements to a supported type.\n"
                + message(
                    f"{shown(leaf)} of type '{type(leaf).__name__}' among strings in {shown(value)}",
                    "values of one kind: all strings, or all numbers",
                    "str(item) for each item, or two tensors",
                )
            )
        if not is_text and not isinstance(leaf, (numbers.Complex, np.generic, np.ndarray)) and not is_array_like(leaf):
            raise UnsupportedTypeError(
                f"Failed to convert object of type {type(leaf)} to Tensor. Contents: {shown(leaf)}. "
                "Consider casting elements to a supported type.\n"
                + message(
                    f"{shown(leaf)} of type '{type(leaf).__name__}' as a tensor",
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


def without_dimensions(value: Any) -> Any:
    """The value with its Dimensions as integers."""
    if isinstance(value, (list, tuple)):
        return [without_dimensions(item) for item in value]
    return known(value) if isinstance(value, Dimension) else value


def without_records(value: Any) -> Any:
    """Quantised values without the 1-tuples that TensorFlow writes around each of them."""
    if isinstance(value, tuple) and len(value) == 1 and not isinstance(value[0], (list, tuple)):
        return value[0]
    if isinstance(value, (list, tuple)):
        return [without_records(item) for item in value]
    return value


def is_symbolic(value: Any) -> bool:
    """Whether this is a tensor of a graph, which has no value yet."""
    return type(value) not in SIMPLE and hasattr(value, "op") and hasattr(value, "graph")


def is_array_like(value: Any) -> bool:
    """Whether NumPy reads this as an array: by its protocols or as a buffer."""
    if type(value) in SIMPLE or isinstance(value, (type, bytes)):
        return False
    if callable(getattr(value, "__array__", None)) or isinstance(getattr(value, "__array_interface__", None), dict):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


# --- shapes among values --------------------------------------------------------------------------------------------


def known_sizes(shape: Any) -> list[int]:
    """The sizes of a TensorShape that is fully known."""
    if not shape.is_fully_defined():
        raise ValueError(
            message(
                f"the partly known shape {shape} as a tensor",
                "a fully known shape",
                "tf.shape(x), which gives the shape when the graph runs",
            )
        )
    return shape.as_list()


def known(dimension: Any) -> int:
    """The size of a Dimension that is known."""
    if dimension.value is None:
        raise ValueError(
            message(
                "an unknown Dimension as a value",
                "a known dimension",
                "tf.shape(x)[i], which gives the dimension when the graph runs",
            )
        )
    return dimension.value


# --- refusals --------------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """The value as messages show it, shortened."""
    text = repr(value)
    return text if len(text) <= 120 else text[:100] + " ... " + text[-15:]


def refuse_leaf(leaf: Any, dtype: DType) -> NoReturn:
    """Refuse a value of a type that the dtype does not take."""
    if leaf is None:
        advice = "a value in the place of None"
    elif is_symbolic(leaf):
        refuse_tensor(leaf)
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
        f"Expected {dtype.name}, got {shown(leaf)} of type '{type(leaf).__name__}' instead.\n"
        + message(
            f"{shown(leaf)} of type '{type(leaf).__name__}' for dtype {dtype!r}",
            f"a value that {dtype.name} holds",
            advice,
        )
    )


def refuse_tensor(value: Any) -> NoReturn:
    """Refuse a tensor of a graph as a value."""
    raise TypeError(
        "List of Tensors when single Tensor expected\n"
        + message(
            f"the tensor {shown(value)} as the value of a constant",
            "any non-tensor type: a tensor of a graph has no value before the graph runs",
            "the tensor itself where a tensor is asked for, or tf.stack for a list of tensors",
        )
    )


def refuse_objects(value: Any) -> NoReturn:
    """Refuse values that NumPy holds as Python objects."""
    for leaf in leaves(value):
        if isinstance(leaf, numbers.Integral) and not -(2**63) <= int(leaf) < 2**64:
            raise WideIntegerError(
                message(
                    f"the integer {shown(leaf)}",
                    "an integer of at most 64 bits",
                    "float(value), or the value modulo 2**64",
                )
            )
    raise TypeError(
        message(
            f"{shown(value)}, which NumPy can only hold as Python objects",
            "numbers, booleans or strings of one kind",
            "np.asarray(values, np.float32)",
        )
    )


class IntegerRangeError(OverflowError, ValueError):
    """Refusal of an integer that a type cannot hold.

    TensorFlow raises ``OverflowError`` where NumPy does, and cuts off the upper bits where NumPy did before version 2,
    which mostly ends in a ``ValueError`` for a negative size: who catches either of them catches this.
    """


class WideIntegerError(TypeError, IntegerRangeError):
    """Refusal of an integer of more than 64 bits, which TensorFlow tells as one of three classes."""


def refuse_range(value: Any, dtype: DType) -> NoReturn:
    """Refuse integers that the dtype cannot hold."""
    limits = ml_dtypes.iinfo(dtype.np)
    low, high = int(limits.min), int(limits.max)
    worst = next(
        (leaf for leaf in leaves(value) if not np.all((np.asarray(leaf) >= low) & (np.asarray(leaf) <= high))), value
    )
    raise IntegerRangeError(
        message(
            f"{shown(worst)} for dtype {dtype!r}",
            f"integers from {low} to {high}",
            f"a wider type such as tf.int64, or np.array(values).astype(np.{dtype.np}) to wrap around",
        )
    )


class MixedDepthError(ValueError, TypeError):
    """Refusal of numbers beside lists: a ``TypeError`` in TensorFlow 1.15, a ``ValueError`` since NumPy 1.24."""


def refuse_ragged(value: Any) -> NoReturn:
    """Refuse lists that are not dense; TensorFlow's words depend on the first element of each list."""
    text = message(
        f"lists of different lengths or depths in {shown(value)}",
        "a dense tensor: at each depth lists of one length",
        "pad the lists to one length, or tf.ragged.constant",
    )
    common, first = _common_sizes([value]), _sizes_of_first(value)
    if common == first:
        kind = f"Failed to convert object of type {type(value)} to Tensor. Contents: {shown(value)}."
        raise MixedDepthError(f"{kind} Consider casting elements to a supported type.\n{text}")
    raise ValueError(
        f"Argument must be a dense tensor: {shown(value)} - got shape {common}, but wanted {first}.\n{text}"
    )


def _sizes_of_first(value: Any) -> list[int]:
    """The lengths of a list, of its first element, and so on."""
    sizes = []
    while isinstance(value, (list, tuple)):
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return sizes


def _common_sizes(layer: list[Any]) -> list[int]:
    """The lengths that all lists at a depth share, as deep as all elements there are lists of one length."""
    sizes: list[int] = []
    while layer and all(isinstance(item, (list, tuple)) and len(item) == len(layer[0]) for item in layer):
        sizes.append(len(layer[0]))
        layer = [inner for item in layer for inner in item]
    return sizes


def refuse_handles(dtype: DType, what: str) -> NoReturn:
    """Refuse types that have no values of NumPy."""
    raise TypeError(
        message(
            f"{dtype!r} as the type of {what}",
            "a type with values of NumPy; resources and variants exist only inside a run",
            "the operation that makes the handle, such as tf.Variable or tf.data's iterator",
        )
    )


def refuse_feed_of_none(value: Any) -> NoReturn:
    """Refuse to feed None."""
    raise TypeError(
        message(
            f"{shown(value)} as the value of a feed",
            "values: None is none",
            "float('nan') if you mean that, or leave the tensor out of feed_dict",
        )
    )


def refuse_feed(value: Any, dtype: DType, error: Exception) -> NoReturn:
    """Refuse a feed for NumPy's reason."""
    if isinstance(error, ValueError) and ("inhomogeneous" in str(error) or "sequence" in str(error)):
        refuse_ragged(value)
    raise type(error)(
        message(
            f"{shown(value)} of type '{type(value).__name__}' as a feed of {dtype!r}",
            f"what np.asarray(value, np.{dtype.np}) takes: {error}",
            "np.asarray(value) in your program, to see what it holds, then convert it",
        )
    ) from None
