"""``tf.sort`` and ``tf.argsort``, on the k largest elements."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope


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
    if rank is None:
        raise NotImplementedError(
            errors.message("values of unknown rank", "values of known rank", "values.set_shape([None] * rank) before")
        )
    if rank == 0:
        raise ValueError(errors.message("a scalar", "at least one dimension", "tf.reshape(x, [1])"))
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ValueError(errors.message(f"axis {axis!r} of rank {rank}", f"an int in [{-rank}, {rank})", "axis=-1"))
    axis %= rank
    order = [*range(axis), *range(axis + 1, rank), axis]
    moved = values if axis == rank - 1 else build("Transpose", values, order)
    # TopK gives the largest first, and among equals the first. What turns the order of numbers around is negation, of
    # integers -1 - x, which is exact and cannot overflow.
    reverse = "Invert" if values.dtype.is_integer else "Neg"
    key = moved if descending else build(reverse, moved)
    size = build("StridedSlice", build("Shape", key), [rank - 1], [rank], [1], shrink_axis_mask=1)
    sorted_values, indices = build("TopKV2", key, size, sorted=True)
    result = indices if positions else sorted_values if descending else build(reverse, sorted_values)
    if axis == rank - 1:
        return result
    return build("Transpose", result, [order.index(i) for i in range(rank)])
