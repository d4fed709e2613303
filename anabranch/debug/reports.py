"""Arrays in a line: dtype, shape, how much of it is not finite, and the range of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes


def is_floating(value: Any) -> bool:
    """Whether a value is an array of real or complex numbers that may be NaN."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    if value.dtype.kind in "fc":
        return True
    if value.dtype.kind != "V":  # bfloat16 and the 8-bit kinds have a dtype of their own
        return False
    try:
        return dtypes.as_dtype(value.dtype).is_floating
    except TypeError:
        return False


def not_finite(value: Any) -> bool:
    """Whether a value holds a NaN or an infinity."""
    return is_floating(value) and not bool(np.all(np.isfinite(value)))


def describe(value: Any) -> str:
    """Say in a line what a value is.

    Example:
        >>> describe(np.array([1.0, np.nan, 3.0]))
        'float64[3]: 1 NaN, 0 +Inf, 0 -Inf of 3; the rest from 1 to 3, mean 2'
    """
    if value is None:
        return "no value"
    if not isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__
    text = f"{value.dtype.name}{list(value.shape)}"
    if value.dtype.kind in "OSUb" or value.size == 0:
        return text
    if value.dtype.kind == "c":
        return f"{text}: {int(np.sum(~np.isfinite(value)))} not finite of {value.size}"
    if not is_floating(value):
        numbers = np.asarray(value)
        return f"{text}: from {numbers.min()} to {numbers.max()}"
    numbers = np.asarray(value, np.float64)
    finite = numbers[np.isfinite(numbers)]
    counts = f"{int(np.isnan(numbers).sum())} NaN, {int(np.isposinf(numbers).sum())} +Inf, "
    counts += f"{int(np.isneginf(numbers).sum())} -Inf of {numbers.size}"
    if not finite.size:
        return f"{text}: {counts}"
    return f"{text}: {counts}; the rest from {finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}"


def outputs_of(op: Operation, values: Sequence[Any]) -> list[tuple[Tensor, Any]]:
    """The outputs of an op with their values; of a ref that is written, the new value.

    Args:
        op: one that has run.
        values: what its kernel gave: first the new values of the variables that it writes, then the outputs.
    """
    spare = len(values) - len(op.outputs)
    return list(zip(op.outputs, values[max(spare, 0) :], strict=False))


def table(op: Operation, operands: Sequence[Any], names: Sequence[str] | None = None) -> str:
    """A line for each operand of an op."""
    names = [tensor.name for tensor in op.inputs] if names is None else names
    return "\n".join(
        f"  input {i} {name}: {describe(value)}" for i, (name, value) in enumerate(zip(names, operands, strict=False))
    )
