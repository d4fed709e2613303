"""``tf.sort`` and ``tf.argsort``, on the k largest elements."""

from __future__ import annotations

import operator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.graph.static_value import constant_value


def _direction(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            "Direction should be one of ASCENDING and DESCENDING\n"
            + errors.message(f"direction={direction!r}", "'ASCENDING' or 'DESCENDING'", "direction='ASCENDING'")
        )
    return direction == "DESCENDING"


@public("sort")
def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """The values in order along an axis, ``direction`` ``ASCENDING`` or ``DESCENDING``."""
    with name_scope(name, "sort"):
        count_more(2)
        return _sorted(convert_to_tensor(values), axis, _direction(direction), False)


@public("argsort")
def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Positions (int32) that put the values in order along an axis; equal values keep their order, asked for or not."""
    with name_scope(name, "argsort"):
        return _sorted(convert_to_tensor(values), axis, _direction(direction), True)


def _sorted(values: Tensor, axis: Any, descending: bool, positions: bool) -> Tensor:
    rank = values.shape.ndims
    if rank == 0:
        raise ValueError(errors.message("a scalar", "at least one dimension", "tf.reshape(x, [1])"))
    place = constant_value(axis) if isinstance(axis, Tensor) else axis
    try:
        axis = operator.index(place)
    except TypeError:
        raise ValueError(errors.message(f"axis {axis!r}", "an int that is known", "axis=-1")) from None
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(errors.message(f"axis {axis} of rank {rank}", f"an int in [{-rank}, {rank})", "axis=-1"))
    moved, order = _axis_last(values, axis, rank)
    # TopK gives the largest first, and among equals the first. What turns the order of numbers around is negation, of
    # integers -1 - x, which is exact and cannot overflow.
    reverse = "Invert" if values.dtype.is_integer else "Neg"
    key = moved if descending else build(reverse, moved)
    size = build("StridedSlice", build("Shape", key), [-1], [0], [1], shrink_axis_mask=1)
    sorted_values, indices = build("TopKV2", key, size, sorted=True)
    result = indices if positions else sorted_values if descending else build(reverse, sorted_values)
    return result if order is None else build("Transpose", result, build("InvertPermutation", order))


def _axis_last(values: Tensor, axis: int, rank: int | None) -> tuple[Tensor, Any]:
    """The values with an axis moved to the end, and the permutation that did it; None if it was there."""
    if axis == -1 or (rank is not None and axis == rank - 1):
        return values, None
    order: Any
    if rank is not None:
        axis %= rank
        order = [*range(axis), *range(axis + 1, rank), axis]
    else:
        count = build("Rank", values)
        place = build("AddV2", count, axis) if axis < 0 else convert_to_tensor(axis)
        before = build("Range", 0, place, 1)
        after = build("Range", build("AddV2", place, 1), count, 1)
        order = build("ConcatV2", [before, after, build("ExpandDims", place, 0)], 0)
    return build("Transpose", values, order), order
