"""What a step hands to its caller: arrays that the caller owns, copied before the step commits.

A copy can fail for want of memory, and a step that failed must not have committed. So fetches are copied first and
what was written is published afterwards. Where a program replaces variables in place nothing can be undone once it is
called: there, the arrays that large results will be copied to are made before the call. A small one for which there is
no memory all the same is handed out as it is, read-only, in the memory that the program has put it in.

A large array of the host that only the step holds (a batch that an iterator has made, what an interpreted op has
computed) changes hands as it is. Whether it is so is counted when the step ends (:func:`handed_out`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import shapes, spare_arrays
from anabranch.runtime.state.slots import Version
from anabranch.runtime.values import Published, own

LARGE = 1 << 20
"""Bytes of a result from which on its copy may fail for want of memory."""

Spec = tuple[tuple[int, ...], Any]
"""Shape and dtype of an array."""


def spec_of(value: Any) -> Spec | None:
    """The spec of an array that is large; None for anything else."""
    value = _array(value)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return large((shape, dtype)) if isinstance(shape, tuple) and isinstance(dtype, np.dtype) else None


def large(spec: Any) -> Spec | None:
    """``spec``, if arrays of it are large."""
    if spec is None or spec[1].kind == "O" or math.prod(spec[0]) * spec[1].itemsize < LARGE:
        return None
    return spec


def reserve(specs: Sequence[Spec | None]) -> list[np.ndarray | None] | None:
    """An array for each of the specs to copy a result to; None if there is none.

    Raises:
        ResourceExhaustedError: there is no memory for it.
    """
    if not any(specs):
        return None
    try:
        return [None if spec is None else spare_arrays.large(*spec) for spec in specs]
    except MemoryError as problem:
        raise _exhausted(problem, specs) from problem


def handed_out(values: Sequence[Any], holders: Sequence[int]) -> list[bool]:
    """Which values only the step holds, so that they are the caller's without a copy.

    ``holders`` says for each how many references the step has besides ``values``, which is a list of its own.
    """
    alone = []
    for i, number in enumerate(holders):
        value = values[i]
        alone.append(spare_arrays.held_by(value, number + 2))  # `values` and `value`
    return alone


def owned(
    values: Sequence[Any],
    reserved: Sequence[np.ndarray | None] | None = None,
    too_late: bool = False,
    alone: Sequence[bool] = (),
) -> list[Any]:
    """The values as the caller gets them: copied, to the arrays that were reserved for them where there are any.

    Args:
        values: the values.
        reserved: the arrays.
        too_late: whether the step can no longer be undone: then what cannot be copied is handed out as it is.
        alone: which are the caller's as they are (:func:`handed_out`); none if that is empty.

    Raises:
        ResourceExhaustedError: there is no memory for it.
    """
    try:
        return [
            value if alone and alone[i] else _owned(value, None if reserved is None else reserved[i], too_late)
            for i, value in enumerate(values)
        ]
    except MemoryError as problem:
        raise _exhausted(problem, [spec_of(value) for value in values]) from problem


def _owned(value: Any, array: np.ndarray | None, too_late: bool) -> Any:
    try:
        if array is None:
            return own(value)
        np.copyto(array, _array(value))
        return array
    except MemoryError:
        if not too_late:
            raise
        return np.asarray(_array(value))


def _array(value: Any) -> Any:
    return value.value if isinstance(value, (Version, Published)) else value


def _exhausted(problem: MemoryError, specs: Sequence[Spec | None]) -> errors.ResourceExhaustedError:
    sizes = ", ".join(f"{dtype} {shapes.show(shape)}" for shape, dtype in filter(None, specs))
    return errors.ResourceExhaustedError(
        None,
        None,
        errors.message(
            f"fetches that do not fit into memory ({sizes or problem})",
            "values that the host has memory for",
            "fetch a part of them, or what is computed from them",
        ),
    )
