"""Arrays of tensors, written and read one element at a time: ``tf.TensorArray`` on lists of tensors.

An array is a list (:mod:`anabranch.ops.lists.tensor_lists`), held by its :attr:`TensorArray.flow`. A method that writes
returns a new array whose flow is the changed list; the old array is as it was. TensorFlow 1.x has one mutable buffer
instead and fails where a program could see that. What of this is checked, and where:

- an index out of range, elements of different shapes where a stack needs one shape, an unwritten element whose shape
  nothing tells: when the step runs. An unwritten element of known shape is zero, as in TensorFlow since 1.13; other
  elements make the shape known, too.
- an element of the wrong dtype, of a shape that does not fit (with ``infer_shape`` or ``element_shape``): where it is
  written, while the graph is built.
- an element written a second time at the same constant index, along the same chain of writes; an element read a
  second time at the same constant index by an op that runs after the first read, unless ``clear_after_read=False``:
  when the step runs. TensorFlow also fails for two reads in any order, and for indices that are known only in the
  step; here these give the element.
- use after :meth:`TensorArray.close`: not at all, as there is nothing to free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.graph.random_seed import count_more, counted_as, in_function
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.dtypes import DType
from anabranch.core.values.shapes import RawShape
from anabranch.ops.lists.tensor_lists import shape_operand

_SEARCHED = 10_000
"""How many ops are looked at to see whether one read runs after another."""


class _ElementShape:
    """What is known of the elements' shape. All arrays that were made from one share it: a loop's body tells it to the
    array that leaves the loop.
    """

    def __init__(self, raw: RawShape, infer: bool) -> None:
        self.raw = raw
        self.infer = infer

    def see(self, shape: RawShape, name: str) -> None:
        """Take notice of an element's shape."""
        if not self.infer:
            return
        if not shapes.is_compatible(self.raw, shape):
            saw, expected = shapes.TensorShape(shape), shapes.TensorShape(self.raw)
            raise ValueError(
                f"Inconsistent shapes: saw {saw} but expected {expected} (and infer_shape=True)\n"
                + errors.message(
                    f"an element of shape {saw} for the TensorArray {name!r} with elements of shape {expected}",
                    "elements of one shape",
                    "TensorArray(..., infer_shape=False) if they differ",
                )
            )
        self.raw = shapes.merge(self.raw, shape)


@public("TensorArray")
class TensorArray:
    """An array of tensors of one dtype, usable as a variable of ``tf.while_loop``.

    Args:
        dtype: dtype of the elements.
        size: number of elements, an int or an int32 scalar.
        dynamic_size: whether writing beyond the end makes the array longer.
        clear_after_read: whether an element may be read once only (the default is True); see the module for what is
            checked.
        tensor_array_name: name in messages.
        handle: the :attr:`handle` of an array, to make another Python object for it; then no ``size``.
        flow: the :attr:`flow` of the array that ``handle`` names; ``handle`` itself if None.
        infer_shape: whether all elements have one shape, which is learnt from the first.
        element_shape: shape of the elements, possibly partly known.
        colocate_with_first_write_call: accepted as in TensorFlow; an array is wherever it is used.
        name: name of the op.

    Raises:
        ValueError: neither ``size`` nor ``handle``, or both. TypeError: ``handle`` or ``flow`` is not a tensor.

    Example:
        >>> import anabranch as tf
        >>> array = tf.TensorArray(tf.float32, size=2).write(0, 1.0).write(1, 2.0)
        >>> tf.Session().run(array.stack())
        array([1., 2.], dtype=float32)
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        _check_arguments(handle, size, flow, element_shape, dynamic_size, clear_after_read, tensor_array_name)
        self._dtype = dtypes.as_dtype(dtype).base
        self._dynamic_size = bool(dynamic_size)
        self._clear_after_read = True if clear_after_read is None else bool(clear_after_read)
        self._colocate_with_first_write_call = bool(colocate_with_first_write_call)
        self._accumulates = False
        self._written: frozenset[int] = frozenset()
        self._reads: dict[int, Any] = {}
        self._entered = {_place()}
        shape = shapes.as_raw(element_shape)
        self._element_shape = _ElementShape(shape, bool(infer_shape) or shape is not None)
        self._size: Any = None
        if handle is not None:
            self._name = handle.op.name
            self._flow: Tensor = flow if flow is not None else handle
            return
        with name_scope(name, "TensorArray", [size]) as scope:
            self._name = tensor_array_name or scope.rstrip("/")
            count = convert_to_tensor(size, dtypes.int32, name="size")
            known = inference.partial_value(count)
            self._size = int(known) if isinstance(known, np.ndarray) and known.ndim == 0 else count
            with counted_as(1 + in_function()):  # there with the shape of elements, as all that follow
                self._flow = build(
                    "TensorListReserve", shape_operand(shape), count, element_dtype=self._dtype, name=scope
                )

    # -- what it is ---------------------------------------------------------------------------------------------------
    @property
    def flow(self) -> Tensor:
        """The list that holds the elements, a scalar variant tensor."""
        return self._flow

    @property
    def handle(self) -> Tensor:
        """What names the array in ``TensorArray(handle=..., flow=...)``: the same tensor as :attr:`flow`."""
        return self._flow

    @property
    def dtype(self) -> DType:
        """Dtype of the elements."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether writes beyond the end make the array longer."""
        return self._dynamic_size

    @property
    def element_shape(self) -> shapes.TensorShape:
        """Static shape of the elements, as far as it is known."""
        return shapes.TensorShape(self._element_shape.raw)

    @property
    def _infer_shape(self) -> bool:
        return self._element_shape.infer

    def size(self, name: str | None = None) -> Tensor:
        """Number of elements, an int32 scalar."""
        if self._size is not None and not self._dynamic_size:
            return convert_to_tensor(self._size, dtypes.int32, name=name or "TensorArraySize")
        return build("TensorListLength", self._flow, name=name or "TensorArraySize")

    def mark_used(self) -> None:
        """Do nothing: TensorFlow warns of results that nobody uses, and programs silence it by this."""

    def close(self, name: str | None = None) -> Operation:
        """An operation that does nothing: a list is freed when nobody needs it."""
        return build("NoOp", name=name or "TensorArrayClose")

    def grad(self, source: Any, flow: Any = None, name: str | None = None) -> TensorArray:
        """An array of as many zeros, in which writes to one element add up.

        ``source`` names it in messages; each call makes an array of its own. Gradients through an array need no such
        call: ``tf.gradients`` differentiates lists.
        """
        with name_scope(name, "TensorArrayGrad", [self._flow]):
            start = self._flow if flow is None else flow
            count = build("TensorListLength", start)
            gradient_array = self._like(
                build(
                    "TensorListReserve",
                    shape_operand(self._element_shape.raw),
                    count,
                    element_dtype=self._dtype,
                    name="TensorArrayGradV3",
                )
            )
        gradient_array._name = f"{self._name}@{source}"
        gradient_array._element_shape = _ElementShape(self._element_shape.raw, False)
        gradient_array._accumulates, gradient_array._dynamic_size, gradient_array._clear_after_read = True, False, False
        gradient_array._size = count
        return gradient_array

    def identity(self) -> TensorArray:
        """The same array, after the control dependencies that are in force."""
        return self._like(build("Identity", self._flow))

    def _like(self, flow: Tensor) -> TensorArray:
        array = TensorArray.__new__(TensorArray)
        array.__dict__.update(self.__dict__)
        array._flow, array._reads, array._written = flow, {}, frozenset()
        return array

    def _enter(self) -> None:
        """Count the handle, which comes into a loop or a branch of TensorFlow's beside the flow; for seeds."""
        place = _place()
        if place is not None and place.of_control_flow and place not in self._entered and place.called is None:
            self._entered.add(place)
            count_more(1)

    # -- elements -----------------------------------------------------------------------------------------------------
    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at ``index``."""
        with name_scope(name, "TensorArrayRead", [self._flow, index]):
            position = convert_to_tensor(index, dtypes.int32, name="index")
            self._enter()
            with counted_as(1 + in_function()):
                value = self._get(position)
            if self._clear_after_read:
                value = self._once(value, position)
        return value

    def _get(self, position: Tensor) -> Tensor:
        return build(
            "TensorListGetItem",
            self._flow,
            position,
            shape_operand(self._element_shape.raw),
            element_dtype=self._dtype,
            name="TensorArrayReadV3",
        )

    def _once(self, value: Tensor, position: Tensor) -> Tensor:
        """The element read, unless it was certainly read before."""
        place = _constant(position)
        if place is None:
            return value
        maker = value._maker
        first = self._reads.setdefault(place, value if maker is None else maker)
        if first in (value, maker) or (maker is not None and not _runs_after(maker, first)):
            return value
        return _failing(
            value,
            f"Could not read index {place} twice because it was cleared after a previous read "
            "(perhaps try setting clear_after_read = false?)",
            f"a second read of element {place} of the TensorArray {self._name!r}",
            "one read of each element",
            "TensorArray(..., clear_after_read=False)",
        )

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with ``value`` as element ``index``."""
        with name_scope(name, "TensorArrayWrite", [self._flow, index, value]):
            item = self._converted(value)
            self._element_shape.see(item._shape, self._name)
            position = convert_to_tensor(index, dtypes.int32, name="index")
            place = _constant(position)
            self._enter()
            target = self._flow
            if self._accumulates:
                target = build("TensorListReserve", shape_operand(None), self.size(), element_dtype=self._dtype)
            flow = build(
                "TensorListSetItem",
                target,
                position,
                item,
                resize_if_index_out_of_bounds=self._dynamic_size,
                name="TensorArrayWriteV3",
            )
            if self._accumulates:  # what nobody has written is not a summand
                flow = build("AddN", [self._flow, flow])
            if place is not None and place in self._written and not self._accumulates and _refuses_rewriting():
                flow = _failing(
                    flow,
                    f"Could not write to TensorArray index {place} because it has already been written to.",
                    f"a second write to element {place} of the TensorArray {self._name!r}",
                    "one write to each element",
                    "write to the array as it was before the first write, or to another index",
                )
            array = self._like(flow)
        array._written = self._written if place is None else self._written | {place}
        return array

    def _converted(self, value: Any) -> Tensor:
        try:
            return convert_to_tensor(value, self._dtype, name="value")
        except (TypeError, ValueError):
            given = convert_to_tensor(value)
        raise TypeError(
            f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype {given.dtype.base.name}.\n"
            + errors.message(
                f"{given.name!r} of dtype {given.dtype.base.name} for the TensorArray {self._name!r}",
                self._dtype.name,
                f"tf.cast(x, tf.{self._dtype.name})",
            )
        )

    # -- all at once --------------------------------------------------------------------------------------------------
    def stack(self, name: str | None = None) -> Tensor:
        """All elements, which have one shape, as one tensor ``[size, *element]``."""
        with name_scope(name, "TensorArrayStack", [self._flow]), counted_as(2 if in_function() else 5):
            value = build(
                "TensorListStack",
                self._flow,
                shape_operand(self._element_shape.raw),
                element_dtype=self._dtype,
                name="TensorArrayGatherV3",
            )
        if isinstance(self._size, int) and not self._dynamic_size and value._shape is not None:
            value.set_shape((self._size, *value._shape[1:]))
        return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at ``indices``, which have one shape, as one tensor."""
        with name_scope(name, "TensorArrayGather", [self._flow, indices]):
            places = convert_to_tensor(indices, dtypes.int32, name="indices")
            with counted_as(1 + in_function()):
                return build(
                    "TensorListGather",
                    self._flow,
                    places,
                    shape_operand(self._element_shape.raw),
                    element_dtype=self._dtype,
                    name="TensorArrayGatherV3",
                )

    def concat(self, name: str | None = None) -> Tensor:
        """The elements one after the other along their first dimension; the other dimensions must agree."""
        raw = self._element_shape.raw
        if raw is not None and not raw:
            raise ValueError(
                errors.message(
                    f"concat of the TensorArray {self._name!r} with elements of shape []", "rank 1 or more", "stack()"
                )
            )
        with name_scope(name, "TensorArrayConcat", [self._flow]):
            shape = None if raw is None else (None, *raw[1:])
            with counted_as(1):
                value, _ = build(
                    "TensorListConcatV2",
                    self._flow,
                    shape_operand(shape),
                    np.zeros((0,), np.int64),
                    element_dtype=self._dtype,
                    name="TensorArrayConcatV3",
                )
            if raw is not None and raw[0] is not None and isinstance(self._size, int) and not self._dynamic_size:
                value.set_shape([self._size * raw[0], *raw[1:]])
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of ``value`` as its elements."""
        with name_scope(name, "TensorArrayUnstack", [self._flow, value]):
            rows = self._converted(value)
            with counted_as(2 if in_function() else 9):  # the number of rows, and their numbers
                return self._like(self._rows_flow(rows))

    def _rows_flow(self, rows: Tensor) -> Tensor:
        count = self._see_rows(rows)
        flow = build("TensorListFromTensor", rows, shape_operand(self._declared()), name="TensorArrayScatterV3")
        if not isinstance(self._size, int):
            return flow
        if count is None:
            flow = self._of_size(flow, rows)
        elif count != self._size:
            if count > self._size and not self._dynamic_size:
                flow = self._too_long(flow, count)
            else:
                flow = build("TensorListResize", flow, max(count, self._size))
        return flow

    def _of_size(self, flow: Tensor, rows: Tensor) -> Tensor:
        """The list of rows of which nobody knows how many there are, as long as the array."""
        size = self._size
        count = build("StridedSlice", build("Shape", rows), [0], [1], [1], shrink_axis_mask=1)
        if not self._dynamic_size:
            text = f"Tried to write to index {size} but array is not resizeable and size is: {size}\n" + errors.message(
                f"more rows than the TensorArray {self._name!r} has elements",
                f"at most {size} rows",
                "TensorArray(..., dynamic_size=True), or another size",
            )
            check = build("Assert", build("LessEqual", count, size), [constant(text, dtypes.string)], name="Assert")
            with control_dependencies([check]):
                return build("TensorListResize", flow, constant(size, dtypes.int32))
        return build("TensorListResize", flow, build("Maximum", count, size))

    def _see_rows(self, rows: Tensor) -> int | None:
        """Take notice of a tensor's rows; return how many there are, if known."""
        raw = rows._shape
        if raw is not None and not raw:
            raise ValueError(
                errors.message(
                    f"{rows.name!r} of shape [] for the TensorArray {self._name!r}",
                    "a tensor with a first dimension",
                    "tf.expand_dims(x, 0)",
                )
            )
        self._element_shape.see(None if raw is None else raw[1:], self._name)
        return None if raw is None else raw[0]

    def _declared(self) -> RawShape:
        return self._element_shape.raw if self._element_shape.infer else None

    def _too_long(self, flow: Tensor, count: int) -> Tensor:
        size = self._size
        return _failing(
            flow,
            f"Tried to write to index {size} but array is not resizeable and size is: {size}",
            f"{count} rows for the TensorArray {self._name!r} of size {size}",
            f"at most {size} rows",
            "TensorArray(..., dynamic_size=True), or another size",
        )

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of ``value`` as the elements at ``indices``."""
        with name_scope(name, "TensorArrayScatter", [self._flow, indices, value]):
            rows = self._converted(value)
            self._see_rows(rows)
            places = convert_to_tensor(indices, dtypes.int32, name="indices")
            flow = build("TensorListScatterIntoExistingList", self._flow, rows, places, name="TensorArrayScatterV3")
            known = inference.partial_value(places)
            if isinstance(self._size, int) and not self._dynamic_size and isinstance(known, np.ndarray):
                highest = int(np.max(known, initial=-1))
                if highest >= self._size:
                    flow = self._too_long(flow, highest + 1)
            return self._like(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with parts of ``value`` along its first dimension as its elements; ``lengths`` are their sizes."""
        with name_scope(name, "TensorArraySplit", [self._flow, value, lengths]):
            rows = self._converted(value)
            sizes = build("Cast", convert_to_tensor(lengths, name="lengths"), DstT=dtypes.int64)
            if rows._shape is not None and rows._shape:
                known = inference.partial_value(sizes)
                equal = isinstance(known, np.ndarray) and known.size and (known == known.flat[0]).all()
                first = int(known.flat[0]) if equal else None
                shape = (first, *rows._shape[1:])
                self._element_shape.see(shape if equal else (None, *rows._shape[1:]), self._name)
            raw = self._declared()
            shape_of_parts: RawShape = None if raw is None else (None, *raw[1:])
            with counted_as(1):
                flow = build("TensorListSplit", rows, shape_operand(shape_of_parts), sizes, name="TensorArraySplitV3")
            count = None if sizes._shape is None else sizes._shape[0]
            if isinstance(self._size, int) and not self._dynamic_size and count is not None and count != self._size:
                flow = _failing(
                    flow,
                    f"TensorArray's size is not equal to the size of lengths ({self._size} vs. {count}), and the "
                    "TensorArray is not marked as dynamically resizeable",
                    f"{count} lengths for the TensorArray {self._name!r} of size {self._size}",
                    "one length for each element",
                    "TensorArray(..., dynamic_size=True), or another size",
                )
            return self._like(flow)

    def pack(self, name: str | None = None) -> Tensor:
        """:meth:`stack` under its name before TensorFlow 1.0."""
        return self.stack(name)

    def unpack(self, value: Any, name: str | None = None) -> TensorArray:
        """:meth:`unstack` under its name before TensorFlow 1.0."""
        return self.unstack(value, name)

    def __repr__(self) -> str:
        return f"<tf.TensorArray {self._name!r} dtype={self._dtype.name} element_shape={self.element_shape}>"


def _place() -> Any:
    """The body that is being built; None where ops run at once."""
    builder: Any = current_builder()
    return builder.current_body if builder.defers else None


def _check_arguments(
    handle: Any, size: Any, flow: Any, element_shape: Any, dynamic_size: Any, clear_after_read: Any, name: Any
) -> None:
    def refuse(kind: type[Exception], lead: str, given: str, expected: str, instead: str) -> None:
        raise kind(f"{lead}\n{errors.message(given, expected, instead)}")

    for role, value in (("Handle", handle), ("Flow", flow)):
        if value is not None and not isinstance(value, Tensor):
            refuse(
                TypeError,
                f"{role} must be a Tensor",
                f"{role.lower()}={value!r}",
                "a tensor",
                f"{role.lower()}=array.{role.lower()}",
            )
    if handle is None:
        if size is None:
            refuse(
                ValueError,
                "Size must be provided if handle is not provided",
                "no size",
                "a number of elements",
                "TensorArray(dtype, size=0, dynamic_size=True)",
            )
        if flow is not None:
            refuse(
                ValueError,
                "Cannot construct with flow but without handle",
                "flow without handle",
                "both",
                "TensorArray(dtype, handle=array.handle, flow=array.flow)",
            )
        return
    given = {
        "size": size,
        "element_shape": element_shape,
        "dynamic_size": dynamic_size,
        "clear_after_read": clear_after_read,
        "tensor_array_name": name,
    }
    for key, value in given.items():
        if value is not None:
            lead = f"Cannot provide both a handle and {key} at the same time"
            refuse(ValueError, lead, f"handle and {key}={value!r}", "one of them", f"leave {key} out")


def _constant(position: Tensor) -> int | None:
    value = inference.partial_value(position)
    return int(value) if isinstance(value, np.ndarray) and value.size == 1 else None


def _failing(value: Tensor, lead: str, given: str, expected: str, instead: str) -> Tensor:
    """``value`` in a step that fails when it gets there."""
    text = f"{lead}\n{errors.message(given, expected, instead)}"
    check = build("Assert", constant(False, dtypes.bool_), [constant(text, dtypes.string)], name="Assert")
    with control_dependencies([check]):
        return build("Identity", value)


def _runs_after(op: Operation, first: Operation) -> bool:
    """Whether ``op`` waits for ``first``, as far as a search of limited length shows."""
    waiting: list[Operation] = [op]
    seen = {op}
    while waiting and len(seen) < _SEARCHED:
        current = waiting.pop()
        for source in [*(tensor.op for tensor in current._inputs), *current._control_inputs]:
            if source is first:
                return True
            if source not in seen and source._id > first._id:
                seen.add(source)
                waiting.append(source)
    return False


def _rebuilt(array: TensorArray, tensors: Sequence[Any]) -> TensorArray:
    (flow,) = tensors
    return array._like(flow)


composites.register(TensorArray, lambda array: [array._flow], _rebuilt)


def _refuses_rewriting() -> bool:
    """Whether an element may be written once only: in a graph of version 1, but not in a function or at once."""
    builder = current_builder()
    return builder.defers and not getattr(builder, "traces", False)
