"""Forms of the kernels of lists whose elements change their sizes; see ``open_forms.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import shapes
from anabranch.core.values.host_list import HostList
from anabranch.ops.shared.unchecked import Changed

Form = Callable[..., Any]
Maker = Callable[[Sequence[Any], dict[str, Any]], Form | None]


def takes_lists(make: Maker) -> Maker:
    """Mark the maker of forms whose operands are lists, too."""
    make.lists = True  # type: ignore[attr-defined]
    return make


def _holds(value: Any, attrs: dict[str, Any]) -> Any:
    """The dtype of a list's elements, if they are arrays."""
    if type(value) is not HostList or value.element_dtype is not attrs["element_dtype"]:
        return None
    return value.element_dtype if value.element_dtype.np is not None else None


def _wanted(given: Any) -> shapes.RawShape:
    """The shape that an operand says elements have."""
    array = np.asarray(given)
    if array.ndim == 0 and int(array) < 0:
        return None
    return tuple([None if size < 0 else size for size in array.ravel().tolist()])


@takes_lists
def push(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Onto a list without limit."""
    value, item = operands
    dtype = _holds(value, attrs)
    if dtype is None or not isinstance(item, np.ndarray):
        return None

    def pushed(value: Any, item: Any) -> Any:
        if type(value) is not HostList or value.element_dtype is not dtype or value.limit >= 0:
            raise Changed
        if not shapes.is_compatible(value.element_shape, item.shape):
            raise Changed
        return value.push(item)

    return pushed


@takes_lists
def pop(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """The last element, if somebody has written it."""
    value, given = operands
    dtype, wanted = _holds(value, attrs), _wanted(given)
    if dtype is None:
        return None

    def popped(value: Any, _: Any) -> Any:
        if type(value) is not HostList or value.element_dtype is not dtype or not value.length:
            raise Changed
        found = value.pop()
        item = found[1]
        if item is None or not shapes.is_compatible(wanted, item.shape):
            raise Changed
        return found

    popped.fixes = (1,)  # type: ignore[attr-defined]
    return popped


@takes_lists
def get_item(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """An element that somebody has written."""
    value, _, given = operands
    dtype, wanted = _holds(value, attrs), _wanted(given)
    if dtype is None:
        return None

    def got(value: Any, index: Any, _: Any) -> Any:
        place = int(index)
        if type(value) is not HostList or value.element_dtype is not dtype or not 0 <= place < value.length:
            raise Changed
        item = value.get(place)
        if item is None or not shapes.is_compatible(wanted, item.shape):
            raise Changed
        return item

    got.fixes = (2,)  # type: ignore[attr-defined]
    return got


@takes_lists
def set_item(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """An element in place of another one, or behind the last one of a list that grows."""
    value, _, item = operands
    dtype, grows = _holds(value, attrs), attrs["resize_if_index_out_of_bounds"]
    if dtype is None or not isinstance(item, np.ndarray):
        return None

    def put(value: Any, index: Any, item: Any) -> Any:
        place = int(index)
        if type(value) is not HostList or value.element_dtype is not dtype or not 0 <= place <= value.length:
            raise Changed
        if not shapes.is_compatible(value.element_shape, item.shape):
            raise Changed
        if place < value.length:
            return value.set(place, item)
        if not grows:
            raise Changed
        return value.push(item)

    return put
