"""``tensorflow.python.layers.utils``: small functions on the arguments of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.operation import Tensor


def constant_value(pred: Any) -> bool | None:
    """The value of a condition as a bool if it is known without running anything, None otherwise."""
    if isinstance(pred, bool):
        return pred
    if pred in (0, 1) and not isinstance(pred, Tensor):
        return bool(pred)
    if isinstance(pred, tf.Variable):
        return None
    if isinstance(pred, Tensor):
        known = tf.contrib.util.constant_value(pred)
        return None if known is None else bool(known)
    raise TypeError(
        "`pred` must be a Tensor, a Variable, or a Python bool.\n"
        + errors.message(f"a {type(pred).__name__}", "a tensor or bool", "tf.equal(x, y)")
    )


smart_constant_value = constant_value


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """One of two functions called at once if the condition is known, ``tf.cond`` otherwise."""
    for argument, given in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(given):
            raise TypeError(
                f"`{argument}` must be callable.\n" + errors.message(f"{argument}={given!r}", "a function", "lambda: x")
            )
    assert true_fn is not None
    assert false_fn is not None
    known = constant_value(pred)
    if known is None:
        return tf.cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """An int, or a sequence of ``n`` ints, as a tuple of ``n`` ints."""
    given = (value,) * n if isinstance(value, int) else value
    try:
        numbers = tuple(int(item) for item in given)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != n:
        raise ValueError(
            f"The `{name}` argument must be a tuple of {n} integers. Received: {value}\n"
            + errors.message(f"{name}={value!r}", f"an int or {n} ints", f"{name}={(1,) * n}")
        )
    return numbers


def normalize_data_format(value: str) -> str:
    """``channels_first`` or ``channels_last`` in lower case; ValueError for anything else."""
    if value.lower() not in ("channels_first", "channels_last"):
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last".\n'
            + errors.message(
                f"data_format={value!r}", "'channels_last' or 'channels_first'", "data_format='channels_last'"
            )
        )
    return value.lower()


def normalize_padding(value: str) -> str:
    """``valid`` or ``same`` in lower case; ValueError for anything else."""
    if value.lower() not in ("valid", "same"):
        raise ValueError(
            'The `padding` argument must be one of "valid", "same".\n'
            + errors.message(f"padding={value!r}", "'same' or 'valid'", "padding='same'")
        )
    return value.lower()


def convert_data_format(data_format: str, ndim: int) -> str:
    """The data format of a layer as that of an op: ``channels_last`` of rank 4 is ``NHWC``."""
    formats = {3: ("NWC", "NCW"), 4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}
    if ndim not in formats:
        raise ValueError(errors.message(f"inputs of rank {ndim}", "an input of rank 3, 4 or 5", "tf.expand_dims(x, 0)"))
    return formats[ndim][normalize_data_format(data_format) == "channels_first"]


def conv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """The length of a convolution's output along one dimension."""
    if input_length is None:
        return None
    reach = filter_size + (filter_size - 1) * (dilation - 1)
    length = {"same": input_length, "valid": input_length - reach + 1, "full": input_length + reach - 1}[padding]
    return (length + stride - 1) // stride


def conv_input_length(output_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """The length of the input that a convolution's output came from."""
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """The length of a transposed convolution's output along one dimension."""
    if input_length is None:
        return None
    length = input_length * stride
    return {"valid": length + max(filter_size - stride, 0), "full": length - (stride + filter_size - 2)}.get(
        padding, length
    )
