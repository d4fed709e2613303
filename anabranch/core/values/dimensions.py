"""One dimension of a shape: `tf.Dimension`, and what stands for one (an int, None, a float that is a whole number).

Policy. Inside the system a dimension is *raw*, an int or None; programs get a :class:`Dimension`, whose arithmetic with
an unknown one is unknown and whose comparison with an unknown one is None, as in TensorFlow 1.x.
"""

from __future__ import annotations

import numbers
import operator
from typing import Any

from anabranch.core.errors import message


def as_raw_dimension(value: Any) -> int | None:
    """Return the int or None that an integer, a Dimension, a whole float or the text of an integer stands for."""
    if value is None:
        return None
    if isinstance(value, Dimension):
        return value._value
    try:
        number = operator.index(value)
    except TypeError:
        number = as_integer(value, "dimension") if isinstance(value, (str, bytes)) else _integral(value)
    if number < 0:
        raise ValueError(
            f"Dimension {number} must be >= 0\n"
            + message(f"the dimension {number}", "a size of 0 or more", "None for a dimension that is not known")
        )
    return number


def as_integer(value: Any, name: str) -> int:
    """Return ``int(value)``, which cuts 1.5 down to 1 as TensorFlow's Python does, for a size, window or stride.

    Raises:
        TypeError, ValueError, OverflowError: what ``int`` raises, with the argument's name.
    """
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError) as problem:
        kind = next(known for known in (TypeError, OverflowError, ValueError) if isinstance(problem, known))
        raise kind(f"{problem}\n" + message(f"{name}={value!r}", "an integer", f"{name}=3")) from None


def _integral(value: Any) -> int:
    """Return a float that stands for an integer, as the result of a division may."""
    if isinstance(value, numbers.Real):
        number = float(value)
        if number.is_integer():
            return int(number)
        raise ValueError(
            f"Ambiguous dimension: {value}\n"
            + message(f"the dimension {value!r}", "a whole number", "an integer division: a // b")
        )
    raise TypeError(
        message(
            f"{value!r} of type {type(value).__name__} as a dimension",
            "an integer, a tf.Dimension or None",
            "int(value) or None",
        )
    )


class Dimension:
    """One dimension of a `TensorShape`: an int or unknown. Arithmetic with an unknown dimension is unknown."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        """Create a dimension from an int, another Dimension, or None for unknown."""
        self._value = as_raw_dimension(value)

    @property
    def value(self) -> int | None:
        """The size, None if unknown."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether both can be the same size."""
        y = as_raw_dimension(other)
        return self._value is None or y is None or self._value == y

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if the two cannot be the same size."""
        self.merge_with(other)

    def merge_with(self, other: Any) -> Dimension:
        """Return what is known of a dimension of which both are known; ValueError if they differ."""
        x, y = self._value, as_raw_dimension(other)
        if x is None or y is None or x == y:
            return Dimension(y if x is None else x)
        raise ValueError(
            f"Dimensions {x} and {y} are not compatible\n"
            + message(
                f"the dimensions {x} and {y}",
                "two equal dimensions",
                "tf.reshape, tf.transpose or tf.slice the tensor to the size wanted",
            )
        )

    def _combine(self, other: Any, function: Any, reverse: bool = False) -> Dimension:
        try:
            y = as_raw_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        x = self._value
        if x is None or y is None:
            return Dimension(None)
        return Dimension(function(y, x) if reverse else function(x, y))

    def __add__(self, other: Any) -> Dimension:
        return self._combine(other, operator.add)

    def __sub__(self, other: Any) -> Dimension:
        return self._combine(other, operator.sub)

    def __rsub__(self, other: Any) -> Dimension:
        return self._combine(other, operator.sub, reverse=True)

    def __mul__(self, other: Any) -> Dimension:
        return self._combine(other, operator.mul)

    def __floordiv__(self, other: Any) -> Dimension:
        return self._combine(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return self._combine(other, operator.floordiv, reverse=True)

    def __mod__(self, other: Any) -> Dimension:
        return self._combine(other, operator.mod)

    def __rmod__(self, other: Any) -> Dimension:
        return self._combine(other, operator.mod, reverse=True)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dimension:
        raise TypeError(_no_division(self, other))

    def __rtruediv__(self, other: Any) -> Dimension:
        raise TypeError(_no_division(other, self))

    def _compare(self, other: Any, function: Any) -> Any:
        try:
            y = as_raw_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or y is None else function(self._value, y)

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: Any) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __index__(self) -> int:
        if self._value is None:
            raise TypeError(
                message(
                    "Dimension(None) as an integer",
                    "a known dimension",
                    "tf.shape(tensor)[i], which is known when the graph runs",
                )
            )
        return self._value

    __int__ = __index__

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Dimension, (self._value,)


def _no_division(a: Any, b: Any) -> str:
    kinds = f"'{type(a).__name__}' and '{type(b).__name__}'"
    return f"unsupported operand type(s) for /: {kinds}, please use // instead\n" + message(
        f"{a!r} / {b!r}", "an integer division of dimensions", "a // b"
    )


def as_dimension(value: Any) -> Dimension:
    """Return a Dimension for an int, None or a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension: Any) -> int | None:
    """Return the int or None behind a Dimension; anything else unchanged."""
    return dimension._value if isinstance(dimension, Dimension) else dimension
