"""Stacks and tensor arrays of TensorFlow 1 as objects: what their handles stand for while a step runs by tokens.

Rules, which are TensorFlow's. An element of a tensor array is written once and, with ``clear_after_read``, read once.
The array that holds the gradients of another is made by the first who asks for it under a ``source``; it has the size
that the other has then, sums what is written to one element, and gives zeros for what nobody wrote. All live as long as
the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes, shapes


class Stack:
    """A last-in, first-out list of tensors of one dtype; ``max_size`` below 0 means no limit."""

    def __init__(self, elem_type: dtypes.DType, max_size: int = -1) -> None:
        self.elem_type = elem_type
        self.max_size = max_size
        self.items: list[Any] = []
        self.closed = False

    def push(self, op: Any, value: Any) -> None:
        """Put an element on top."""
        self._check_open(op)
        if 0 <= self.max_size <= len(self.items):
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Stack[{op.name}] overflowed its max_size ({self.max_size})\n"
                + errors.message("a push to a full stack", f"at most {self.max_size} elements", "raise max_size"),
            )
        self.items.append(value)

    def pop(self, op: Any) -> Any:
        """Take the top element off."""
        self._check_open(op)
        if not self.items:
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Stack[{op.name}] is empty when calling Pop().\n"
                + errors.message(
                    "a pop of an empty stack", "a stack with an element", "push before the pop, and order the two"
                ),
            )
        return self.items.pop()

    def close(self) -> None:
        """Drop all elements."""
        self.items = []
        self.closed = True

    def _check_open(self, op: Any) -> None:
        if self.closed:
            raise errors.InvalidArgumentError(None, op, f"Stack[{op.name}] has already been closed.")


class TensorArray:
    """A list of tensors of one dtype; ``forward`` is the array whose gradients it holds."""

    def __init__(
        self,
        dtype: dtypes.DType,
        size: int = 0,
        *,
        element_shape: shapes.RawShape = None,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        forward: TensorArray | None = None,
        prepended: tuple[int, ...] = (),
    ) -> None:
        self.dtype = dtype
        self.element_shape = element_shape
        self.dynamic_size = dynamic_size
        self.clear_after_read = clear_after_read
        self.forward = forward
        self.prepended = prepended
        self.items: list[Any] = [None] * size
        self.shapes: list[Any] = [None] * size
        """Shapes of elements that were written, also once they are cleared."""
        self.cleared = [False] * size
        self.closed = False
        self._gradients: dict[Any, TensorArray] = {}

    def gradient(self, source: Any, prepended: tuple[int, ...] = ()) -> TensorArray:
        """The array of this one's gradients that ``source`` names."""
        gradients = self._gradients.get(source)
        if gradients is None:
            shape = None if self.element_shape is None else (*prepended, *self.element_shape)
            gradients = self._gradients[source] = TensorArray(
                self.dtype,
                len(self.items),
                element_shape=shape,
                clear_after_read=False,
                forward=self,
                prepended=prepended,
            )
        return gradients

    def size(self, op: Any) -> int:
        """How many elements it has."""
        self._check_open(op)
        return len(self.items)

    def write(self, op: Any, index: int, value: Any) -> None:
        """Set an element (add to it, in an array of gradients)."""
        self._check_open(op)
        if value.dtype != self.dtype.np and self.dtype.np is not None:
            raise errors.InvalidArgumentError(
                None,
                op,
                f"TensorArray dtype is {self.dtype.name} but Op is trying to write dtype {value.dtype}.",
            )
        if index >= len(self.items) and self.dynamic_size and index >= 0:
            more = index + 1 - len(self.items)
            self.items += [None] * more
            self.shapes += [None] * more
            self.cleared += [False] * more
        if not 0 <= index < len(self.items):
            reason = (
                "array is not resizeable and size is" if not self.dynamic_size else "the index is negative and size"
            )
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Tried to write to index {index} but {reason}: {len(self.items)}\n"
                + errors.message(
                    f"index {index}",
                    f"an index from 0 to {len(self.items) - 1}",
                    "a larger size=, or dynamic_size=True",
                ),
            )
        if not shapes.is_compatible(self.element_shape, value.shape):
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Could not write to TensorArray index {index} because the value shape is {shapes.show(value.shape)} "
                f"which is incompatible with the TensorArray's inferred element shape: "
                f"{shapes.show(self.element_shape)} (consider setting infer_shape=False).",
            )
        if self.forward is not None:
            old = self.items[index]
            if old is not None and old.shape != value.shape:
                raise errors.InvalidArgumentError(
                    None,
                    op,
                    f"Could not aggregate to TensorArray index {index} because the existing shape is "
                    f"{shapes.show(old.shape)} but the new input shape is {shapes.show(value.shape)}.",
                )
            self.items[index] = value if old is None else np.asarray(old + value)
        else:
            if self.items[index] is not None or self.cleared[index]:
                reason = "read" if self.cleared[index] else "written to"
                raise errors.InvalidArgumentError(
                    None,
                    op,
                    f"Could not write to TensorArray index {index} because it has already been {reason}.\n"
                    + errors.message(
                        f"a second write of element {index}", "one write for each element", "another index"
                    ),
                )
            self.items[index] = value
        self.shapes[index] = value.shape

    def read(self, op: Any, index: int) -> Any:
        """An element."""
        self._check_open(op)
        if not 0 <= index < len(self.items):
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Tried to read from index {index} but array size is: {len(self.items)}\n"
                + errors.message(
                    f"index {index}", f"an index from 0 to {len(self.items) - 1}", "end the loop at the array's size"
                ),
            )
        if self.cleared[index]:
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Could not read index {index} twice because it was cleared after a previous read (perhaps try "
                "setting clear_after_read = false?)",
            )
        value = self.items[index]
        if value is None:
            shape = self.element_shape
            if self.forward is not None and not shapes.is_static(shape) and index < len(self.forward.shapes):
                known = self.forward.shapes[index]
                shape = shape if known is None else (*self.prepended, *known)
            if not shapes.is_static(shape) or self.dtype.np is None:
                raise errors.InvalidArgumentError(
                    None,
                    op,
                    f"Could not read from TensorArray index {index}.  Furthermore, the element shape is not fully "
                    f"defined: {shapes.show(shape)}.\n"
                    + errors.message(
                        f"a read of element {index}, which was not written",
                        "a written element, or a known element shape, of which it then is zeros",
                        "TensorArray(..., element_shape=[...])",
                    ),
                )
            assert shape is not None
            value = np.zeros(shape, self.dtype.np)  # type: ignore[arg-type]
        if self.clear_after_read:
            self.items[index] = None
            self.cleared[index] = True
        return value

    def gather(self, op: Any, indices: Sequence[int], element_shape: shapes.RawShape) -> Any:
        """Elements, stacked."""
        if not len(indices):
            shape = shapes.merge(self.element_shape, element_shape)
            if not shapes.is_static(shape):
                raise errors.UnimplementedError(
                    None,
                    op,
                    errors.message(
                        f"a gather of no elements, of shape {shapes.show(shape)}",
                        "a fully defined element shape",
                        "TensorArray(..., element_shape=[...])",
                    ),
                )
            assert shape is not None
            return np.zeros((0, *shape), self.dtype.np)  # type: ignore[arg-type]
        elements = [self.read(op, int(index)) for index in indices]
        if any(item.shape != elements[0].shape for item in elements):
            shown = ", ".join(dict.fromkeys(shapes.show(item.shape) for item in elements))
            raise errors.InvalidArgumentError(
                None,
                op,
                f"TensorArray has inconsistent shapes: {shown}\n"
                + errors.message(f"elements of shapes {shown}", "one shape", "concat() joins along the first one"),
            )
        return np.stack(elements)

    def concat(self, op: Any, element_shape_except0: shapes.RawShape) -> tuple[Any, Any]:
        """All elements joined along their first dimension, and their sizes there."""
        elements = [self.read(op, i) for i in range(self.size(op))]
        lengths = np.array([item.shape[0] if item.ndim else 0 for item in elements], np.int64)
        if any(not item.ndim or item.shape[1:] != elements[0].shape[1:] for item in elements):
            shown = ", ".join(dict.fromkeys(shapes.show(item.shape) for item in elements))
            raise errors.InvalidArgumentError(
                None,
                op,
                errors.message(
                    f"elements of shapes {shown} to join", "vectors or more, equal beyond dimension 0", "stack() them"
                ),
            )
        if not elements:
            if not shapes.is_static(element_shape_except0):
                raise errors.UnimplementedError(
                    None,
                    op,
                    errors.message("a concat of no elements", "a known element shape", "element_shape=[n]"),
                )
            assert element_shape_except0 is not None
            return np.zeros((0, *element_shape_except0), self.dtype.np), lengths  # type: ignore[arg-type]
        return np.concatenate(elements), lengths

    def split(self, op: Any, value: Any, lengths: Any) -> None:
        """Write consecutive pieces of ``value`` to the elements."""
        if int(np.sum(lengths)) != value.shape[0]:
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
                f"{int(np.sum(lengths))} and value's shape is: {shapes.show(value.shape)}",
            )
        if not self.dynamic_size and len(lengths) != len(self.items):
            raise errors.InvalidArgumentError(
                None,
                op,
                f"TensorArray's size is not equal to the size of lengths ({len(self.items)} vs. {len(lengths)}), "
                "and the TensorArray is not marked as dynamically resizeable",
            )
        start = 0
        for i, length in enumerate(lengths):
            self.write(op, i, value[start : start + int(length)])
            start += int(length)

    def scatter(self, op: Any, indices: Any, value: Any) -> None:
        """Write rows of ``value`` to elements."""
        if len(indices) != value.shape[0]:
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. {value.shape[0]}",
            )
        for row, index in zip(value, indices, strict=True):
            self.write(op, int(index), np.asarray(row))

    def close(self) -> None:
        """Drop all elements."""
        self.items, self.shapes, self.cleared = [], [], []
        self.closed = True

    def _check_open(self, op: Any) -> None:
        if self.closed:
            raise errors.InvalidArgumentError(None, op, f"TensorArray {op.name} has already been closed.")
