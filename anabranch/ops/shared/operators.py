"""Python's operators on tensors: `x + 1`, `2 - x`, `x / y`, `x @ y`, `x < y`, `~x`, `abs(x)`.

The other operand is converted to the dtype of the tensor. `/` is true division: integers become floats first (8 and 16
bits float32, more float64); `//` and `%` are Python's. `==` asks whether two names mean one tensor, as in TensorFlow 1;
`tf.equal` compares values. `&`, `|`, `^` and `~` are logical on bools and bitwise on integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, forward_dates, version_two
from anabranch.ops.array.cast import cast
from anabranch.ops.math.compare import logical_xor
from anabranch.ops.math.unary import absolute, with_values

_QUOTIENT_OF_INTEGERS = {
    dtypes.uint8: dtypes.float32,
    dtypes.int8: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.int32: dtypes.float64,
    dtypes.uint32: dtypes.float64,
    dtypes.int64: dtypes.float64,
    dtypes.uint64: dtypes.float64,
}
_PYTHON_VALUES = (int, float, complex, bool, str, bytes, list, tuple, np.ndarray, np.generic)


def _operand(value: Any, beside: Any, name: str) -> Any:
    """``value`` as a tensor of the dtype of ``beside``; a tensor stays as it is, and the op refuses it if it must."""
    return value if isinstance(value, Tensor) else convert.convert_to_tensor(value, beside.dtype.base, name)


# ----------------------------------------------------------------------------------------- functions behind operators
def _add(x: Any, y: Any, name: str | None) -> Any:
    old = x.dtype.base is dtypes.string or not forward_dates.forward_compatible(2019, 6, 25)
    return build("Add" if old else "AddV2", x, y, name=name)


def _typed(type_name: str) -> Callable[..., Any]:
    return lambda x, y, name: build(type_name, x, y, name=name)


def _quotient(x: Any, y: Any, name: str | None) -> Any:
    kind, other = x.dtype.base, y.dtype.base
    if kind is not other:
        raise TypeError(
            f"x and y must have the same dtype, got {kind!r} != {other!r}\n"
            + errors.message(f"{kind.name} / {other.name}", "one dtype", f"tf.cast(y, tf.{kind.name})")
        )
    wide = _QUOTIENT_OF_INTEGERS.get(kind)
    if wide is not None:
        x, y = cast(x, wide), cast(y, wide)
    elif not (kind.is_floating or kind.is_complex):
        raise TypeError(
            f"Invalid dtype {kind!r} in __truediv__\n"
            + errors.message(f"division of {kind.name}", "tensors of numbers", "tf.cast(x, tf.float32)")
        )
    return build("RealDiv", x, y, name=name)


def _old_quotient(x: Any, y: Any, name: str | None) -> Any:
    kind = x.dtype.base
    return build("RealDiv" if kind.is_floating or kind.is_complex else "FloorDiv", x, y, name=name)


def _logical(logical: str, bitwise: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, name: str | None) -> Any:
        return build(bitwise if x.dtype.is_integer else logical, x, y, name=name)

    return function


def _xor(x: Any, y: Any, name: str) -> Any:
    return build("BitwiseXor", x, y, name=name) if x.dtype.is_integer else logical_xor(x, y, name)


def _matmul(x: Any, y: Any, name: str | None) -> Any:
    return api.names()["matmul"](x, y, name=name)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _typed("Sub"),
    "mul": _typed("Mul"),
    "div": _old_quotient,
    "truediv": _quotient,
    "floordiv": _typed("FloorDiv"),
    "mod": _typed("FloorMod"),
    "pow": _typed("Pow"),
    "matmul": _matmul,
    "and": _logical("LogicalAnd", "BitwiseAnd"),
    "or": _logical("LogicalOr", "BitwiseOr"),
    "xor": _xor,
}
_COMPARISON = {"lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}


# ---------------------------------------------------------------------------------------------------------- operators
def _left_to_the_other(y: Any, operator: str) -> bool:
    """Whether a class of the user's own, which we cannot convert, has the reflected operator."""
    return not isinstance(y, _PYTHON_VALUES) and hasattr(type(y), f"__r{operator}__")


_NUMBERS = (float, int)
_AT_ONCE = {"add": "AddV2", "sub": "Sub", "mul": "Mul", "truediv": "RealDiv", "pow": "Pow"}
"""Op types of operators that take a float and a number of Python's as they are, where ops run at once."""


def _runs_at_once(x: Any) -> bool:
    """Whether an op on a tensor of floats has no name that a scope would give it."""
    return (
        x.has_value and (x.dtype is dtypes.float32 or x.dtype is dtypes.float64) and current_builder().apply is not None
    )


def _operator(own: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    at_once = _AT_ONCE.get(own)

    def operator(x: Any, y: Any) -> Any:
        # Two tensors need no scope: it would only give the op the name that it has anyway.
        if isinstance(y, Tensor) and function not in _WITH_PARTS:
            return function(x, y, own)
        if at_once is not None and type(y) in _NUMBERS and _runs_at_once(x):
            return build(at_once, x, y)
        with name_scope(None, own, [x, y]) as scope:
            try:
                y = _operand(y, x, "y")
            except (TypeError, ValueError) as problem:
                if _left_to_the_other(y, own):
                    return NotImplemented
                if isinstance(problem, ValueError):
                    raise
                y = convert.convert_to_tensor(y, name="y")  # of a dtype of its own, which the op refuses
            return function(x, y, scope)

    def reflected(y: Any, x: Any) -> Any:
        if at_once is not None and type(x) in _NUMBERS and _runs_at_once(y):
            return build(at_once, x, y)
        with name_scope(None, own, [x, y]) as scope:
            return function(_operand(x, y, "x"), y, scope)

    operator.__doc__ = f"`x {own} y`: see tf.Tensor's operators."
    reflected.__doc__ = f"`x {own} y` with the tensor on the right."
    return operator, reflected


_WITH_PARTS = frozenset({_quotient, _xor, _matmul})  # functions that make more than one op


def _comparison(type_name: str) -> Callable[..., Any]:
    def operator(x: Any, y: Any) -> Any:
        return build(type_name, x, y)

    operator.__doc__ = f"`tf.{type_name}` of two tensors, element by element."
    return operator


def _invert(x: Any) -> Any:
    """`~x`: logical on bools, bitwise on integers."""
    return build("Invert" if x.dtype.is_integer else "LogicalNot", x)


def _negative(x: Any) -> Any:
    """`-x`, element by element."""
    return build("Neg", x)


def _absolute(x: Any) -> Any:
    """`|x|`, element by element."""
    return absolute(x)


def compared(x: Any, y: Any, type_name: str) -> Any:
    """``x == y`` or ``x != y`` of version 2, element by element; whole shapes that do not fit are different."""
    if y is None:
        return type_name == "NotEqual"
    x = convert.convert_to_tensor(x)
    try:
        y = _operand(y, x, "y")
    except (TypeError, ValueError):
        return type_name == "NotEqual"
    return build(type_name, x, y, incompatible_shape_error=False)


def _equal(x: Any, y: Any) -> Any:
    """`x == y`: whether it is the same tensor; in code of version 2, element by element."""
    return compared(x, y, "Equal") if version_two.applies() else x is y


def _not_equal(x: Any, y: Any) -> Any:
    """`x != y`: whether it is another tensor; in code of version 2, element by element."""
    return compared(x, y, "NotEqual") if version_two.applies() else x is not y


def install() -> None:
    """Put the operators on :class:`anabranch.core.graph.operation.Tensor`."""
    names = {"__getitem__"}

    def put(name: str, function: Callable[..., Any]) -> None:
        function.__name__ = name
        function.__qualname__ = f"Tensor.{name}"
        setattr(Tensor, name, function)
        names.add(name)

    for own, function in _ARITHMETIC.items():
        operator, reflected = _operator(own, function)
        put(f"__{own}__", operator)
        put(f"__r{own}__", reflected)
    for own, type_name in _COMPARISON.items():
        put(f"__{own}__", _comparison(type_name))
    put("__invert__", _invert)
    put("__neg__", _negative)
    put("__abs__", _absolute)
    # Classes that stand for a tensor hand on the operators listed here to it. `==` is not among them, though it is in
    # TensorFlow 1.15: it asks for identity, and the tensor of such an object is never another object.
    Tensor.OVERLOADABLE_OPERATORS = set(names)  # type: ignore[attr-defined]
    put("__eq__", _equal)
    put("__ne__", _not_equal)
    Tensor._compared = compared  # type: ignore[attr-defined]


install()


# ------------------------------------------------------------------------------------------------------------- public
def _division(own: str, function: Callable[..., Any], *published: str) -> None:
    def division(x: Any, y: Any, name: str | None = None) -> Any:
        with name_scope(name, own, [x, y]) as scope:
            if isinstance(y, Tensor) and not isinstance(x, Tensor):
                x = convert.convert_to_tensor(x, y.dtype.base, "x")
            else:
                x = convert.convert_to_tensor(x, name="x")
            return function(x, _operand(y, x, "y"), scope)

    division.__name__ = division.__qualname__ = published[0]
    division.__module__ = "anabranch"
    division.__doc__ = {
        "truediv": "`x / y` as Python divides: integers become floats first.",
        "div": "`x / y` of floats, `floor(x / y)` of integers: the division of Python 2.",
        "floordiv": "`floor(x / y)`, element by element.",
        "div_no_nan": "`x / y`, 0 where `y` is 0.",
    }[own]
    for name in published:
        api.publish_as(name, division)


_division("truediv", _quotient, "truediv", "math.truediv")
_division("div", _old_quotient, "div")
_division("floordiv", _typed("FloorDiv"), "floordiv", "math.floordiv", "floor_div")
_division("div_no_nan", _typed("DivNoNan"), "div_no_nan", "math.divide_no_nan")


@public("divide", "math.divide")
def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """`x / y` as Python divides: integers become floats first."""
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        x = convert.convert_to_tensor(x)
    if name is None:
        return x / y
    with name_scope(name, None, [x, y]) as scope:
        x = x if isinstance(x, Tensor) else _operand(x, y, "x")
        return _quotient(x, _operand(y, x, "y"), scope)


@public("scalar_mul", "math.scalar_mul")
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """`scalar * x`; of IndexedSlices, their values are multiplied.

    Raises:
        ValueError: `scalar` is known not to be one.
    """
    scalar = convert.convert_to_tensor(scalar, x.dtype.base, name="scalar")
    if scalar._shape not in (None, ()):
        raise ValueError(
            f"Only scalar multiply works, got shape {scalar.shape}\n"
            + errors.message(f"a factor of shape {scalar.shape}", "a scalar", "tf.multiply(factor, x)")
        )
    if isinstance(x, IndexedSlices):
        return with_values(x, build("Mul", scalar, x.values, name=name))
    return build("Mul", scalar, x, name=name)
