"""What is known while the graph is built: ``tf.contrib.layers.utils``."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.ops.control.public_cond import smart_constant_value


@public("contrib.layers.utils.static_cond")
def static_cond(pred: bool, fn1: Callable[[], Any], fn2: Callable[[], Any]) -> Any:
    """What the first function gives if the condition holds, else what the second does."""
    if not callable(fn1) or not callable(fn2):
        raise TypeError(
            errors.message("what cannot be called", "two functions", "static_cond(pred, lambda: x, lambda: y)")
        )
    return fn1() if pred else fn2()


@public("contrib.layers.utils.constant_value")
def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """A Python value, or the value of a tensor that is known without running anything; None otherwise.

    Raises:
        ValueError: there is None, or a tensor of another dtype than ``dtype``.
    """
    value = value_or_tensor_or_var
    if value is None:
        raise ValueError(
            "value_or_tensor_or_var cannot be None\n"
            + errors.message("None", "a value, tensor or variable", "constant_value(True)")
        )
    if not isinstance(value, (Tensor, tf.Variable)):
        return value
    if dtype is not None and value.dtype.base_dtype != dtype:
        raise ValueError(
            f"It has the wrong type {value.dtype} instead of {dtype}\n"
            + errors.message(f"a tensor of {value.dtype}", f"a tensor of {dtype}", "tf.cast(x, dtype)")
        )
    return tf.contrib.util.constant_value(value) if isinstance(value, Tensor) else None


@public("contrib.layers.utils.smart_cond")
def smart_cond(pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any], name: str | None = None) -> Any:
    """What one of two functions makes, called at once if the condition is known; ``tf.cond`` otherwise."""
    known = constant_value(pred, pred.dtype.base) if isinstance(pred, Tensor) else smart_constant_value(pred)
    return tf.cond(pred, fn1, fn2, name=name) if known is None else static_cond(bool(known), fn1, fn2)


@public("contrib.layers.utils.n_positive_integers")
def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """``n`` positive integers from one or from ``n``.

    Raises:
        ValueError: they are not integers, not positive or not ``n``.
    """
    given = (value,) * n if isinstance(value, numbers.Integral) else value
    try:
        integers = tuple(int(item) for item in given)
    except (TypeError, ValueError, OverflowError):
        integers = ()
    if len(integers) != n or any(item < 1 for item in integers):
        raise ValueError(
            f"Must be a list of {n} positive integers or a positive integer: {value}\n"
            + errors.message(f"{value!r}", f"{n} positive integers, or one", "a number such as 1")
        )
    return integers


@public("contrib.layers.utils.two_element_tuple")
def two_element_tuple(int_or_tuple: Any) -> tuple[int, ...]:
    """Two positive integers from one, two, or a TensorShape of two sizes."""
    given = int_or_tuple.as_list() if isinstance(int_or_tuple, tf.TensorShape) else int_or_tuple
    return n_positive_integers(2, given)


@public("contrib.layers.utils.channel_dimension")
def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """The number of channels of a shape.

    Raises:
        ValueError: the rank is not known or less than ``min_rank``, or the channels are not known.
    """
    return _known_size(shape, 1 if data_format.startswith("NC") else -1, min_rank)


@public("contrib.layers.utils.last_dimension")
def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The last size of a shape.

    Raises:
        ValueError: the rank is not known or less than ``min_rank``, or the size is not known.
    """
    return _known_size(shape, -1, min_rank)


def _known_size(shape: Any, axis: int, min_rank: int) -> int:
    shape = tf.TensorShape(shape)
    if shape.ndims is None or shape.ndims < min_rank or shape.as_list()[axis] is None:
        raise ValueError(
            f"rank of shape must be at least {min_rank} and the size known: {shape}\n"
            + errors.message(
                f"a tensor of shape {shape}",
                f"a tensor of rank {min_rank} or more whose size {axis} is known",
                "x.set_shape([None, n])",
            )
        )
    return int(shape.as_list()[axis])
