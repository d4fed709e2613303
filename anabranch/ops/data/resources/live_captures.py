"""Reference variables that the function of a stage captures: read anew for each call, as in TensorFlow.

TensorFlow captures the value of a reference variable when the iterator is made, but this value is the variable's own
buffer, which assignments write to. So a program that changes such a variable (the strength of an augmentation, say)
sees the change in the elements that come next. Here values are immutable: what stands for the captured value says which
variable it was read from, and the function reads what is committed there, like a variable with a handle.

What is fed, or has been computed, is a value like any other, and so is one that differs from what the variable holds
when the iterator is made (the variable belongs to another task, or the same step has changed it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.contract.kernels import LiveValue
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import origin


def live(tensors: Sequence[Tensor], values: Sequence[Any], context: Any) -> tuple[Any, ...]:
    """Captured values, of which those that were read from reference variables are read anew for each call."""
    return tuple([_live(tensor, value, context) for tensor, value in zip(tensors, values, strict=True)])


def _live(tensor: Tensor, value: Any, context: Any) -> Any:
    source = origin(tensor, waiting=False)
    if not source.dtype.is_ref or not isinstance(source.op, Operation) or source.op.definition.makes != "variable":
        return value
    committed = context.functions.committed(source.op)
    if committed is None or not _same(committed, value):
        return value
    return LiveValue(source.op, value)


def _same(first: Any, second: Any) -> bool:
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return first is second or first.tobytes() == second.tobytes() if first.dtype != object else (first == second).all()
