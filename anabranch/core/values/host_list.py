"""Lists of tensors in the interpreter: persistent, so that a change costs one element. See ``list_values``.

The newest version of a list owns one Python list of elements, and a version that was changed remembers how to undo the
change, so that a loop that pushes, pops or writes pays for one element each time. A version that is read after it was
changed gets a Python list of its own. Elements are arrays, lists, or None where nothing was written yet; an element
that is popped is kept by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values.dtypes import DType
from anabranch.core.values.shapes import RawShape

OBJECT = np.dtype(object)
_POP, _PUSH = -2, -1  # besides these, a change that is undone names an index


def unequal_sizes(first: int, second: int) -> errors.InvalidArgumentError:
    """The error of adding lists of different sizes."""
    return errors.InvalidArgumentError(
        None,
        None,
        "Trying to add two lists of tensors with different number of elements. "
        + errors.message(f"lists of {first} and {second} elements", "lists of one length", "tf.stack what is there"),
    )


class HostList:
    """A list of tensors in the interpreter; see the module."""

    __slots__ = (
        "__weakref__", "_blank", "_items", "_length", "_next", "_only", "_undo", "element_dtype", "element_shape",
        "limit", "whole",
    )  # fmt: skip
    shape = ()
    ndim = 0
    size = 1
    dtype = OBJECT

    def __init__(
        self,
        element_dtype: DType,
        element_shape: RawShape,
        elements: Iterable[Any] = (),
        limit: int = -1,
        whole: np.ndarray | None = None,
    ) -> None:
        """``limit``: the most elements that it may have, or -1. ``whole``: the elements as one array, if there is."""
        self._items: list[Any] | None = list(elements)
        self._length = len(self._items)
        self._next: HostList | None = None
        self._undo: tuple[int, Any] | None = None
        self._blank = False
        self._only: int | None = None
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.limit = limit
        self.whole = whole

    @classmethod
    def blank(cls, element_dtype: DType, element_shape: RawShape, count: int) -> HostList:
        """A list of ``count`` elements that nobody has written yet.

        Raises:
            ResourceExhaustedError: memory does not hold them.
        """
        try:
            blank_list = cls(element_dtype, element_shape, [None] * count)
        except MemoryError:
            given = f"a list of {count} elements"
            raise errors.ResourceExhaustedError(
                None, None, errors.message(given, "as many as memory holds", "a smaller size")
            ) from None
        blank_list._blank = True
        return blank_list

    @classmethod
    def from_array(cls, element_dtype: DType, element_shape: RawShape, array: np.ndarray) -> HostList:
        """The parts of an array along its first dimension."""
        return cls(element_dtype, element_shape, [array[i, ...] for i in range(len(array))], whole=array)

    # -- reading ------------------------------------------------------------------------------------------------------
    @property
    def length(self) -> int:
        """Number of elements."""
        return self._length

    @property
    def elements(self) -> Sequence[Any]:
        """The elements, None where nothing was written. Not to be changed."""
        return self._own()

    def get(self, index: int) -> Any:
        """An element, or None if nothing was written there."""
        return self._own()[index]

    def _own(self) -> list[Any]:
        if self._items is None:
            changes = []
            node = self
            while node._items is None:
                assert node._undo is not None
                assert node._next is not None
                changes.append(node._undo)
                node = node._next
            items = list(node._items)
            for index, value in reversed(changes):
                if index == _POP:
                    items.pop()
                elif index == _PUSH:
                    items.append(value)
                else:
                    items[index] = value
            self._items, self._next, self._undo = items, None, None
        return self._items

    # -- changing -----------------------------------------------------------------------------------------------------
    def _successor(self, items: list[Any], undo: tuple[int, Any]) -> HostList:
        successor = HostList.__new__(HostList)
        successor._items, successor._length = items, len(items)
        successor._next = successor._undo = successor._only = successor.whole = None
        successor._blank = False
        successor.element_dtype, successor.element_shape, successor.limit = (
            self.element_dtype,
            self.element_shape,
            self.limit,
        )
        self._items, self._next, self._undo = None, successor, undo
        return successor

    def like(self, elements: Iterable[Any]) -> HostList:
        """A list of the same kind with other elements."""
        return HostList(self.element_dtype, self.element_shape, elements, self.limit)

    def push(self, value: Any) -> HostList:
        """The list with one more element."""
        items = self._own()
        items.append(value)
        return self._successor(items, (_POP, None))

    def pop(self) -> tuple[HostList, Any]:
        """The list without its last element, and that element."""
        items = self._own()
        value = items.pop()
        return self._successor(items, (_PUSH, value)), value

    def set(self, index: int, value: Any) -> HostList:
        """The list with another element at ``index``."""
        items = self._own()
        old, items[index] = items[index], value
        successor = self._successor(items, (index, old))
        successor._only = index if self._blank else None
        return successor

    def resized(self, count: int) -> HostList:
        """The list cut, or filled up with elements that nobody has written."""
        items = self._own()[:count]
        return self.like(items + [None] * (count - len(items)))

    # -- arithmetic of gradients --------------------------------------------------------------------------------------
    def zeros(self) -> HostList:
        """A list with zeros in place of the elements."""
        return self.like(
            None if item is None else item.zeros() if isinstance(item, HostList) else np.zeros(item.shape, item.dtype)
            for item in self._own()
        )

    def plus(self, other: HostList) -> HostList:
        """The sum, element by element; what nobody has written counts as zeros."""
        if self._length != other._length:
            raise unequal_sizes(self._length, other._length)
        if self._only is not None and other._only is None:
            self, other = other, self
        if other._only is not None:  # the gradient of one element: all others stay what they are
            index = other._only
            return self.set(index, _sum(self.get(index), other.get(index)))
        return self.like(map(_sum, self._own(), other._own()))

    def __repr__(self) -> str:
        return f"HostList({self.element_dtype.name}, {list(self._own())!r})"


def _sum(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return first.plus(second) if isinstance(first, HostList) else np.asarray(first) + np.asarray(second)
