"""Host kernels of the ``TensorList`` ops, on :class:`~anabranch.core.values.list_values.HostList`.

An error says what TensorFlow says, then the three parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.list_values import HostList, TracedList, to_host
from anabranch.core.values.shapes import RawShape

UNWRITTEN = "Could not read from TensorArray index {2} because it has not yet been written to."
OUT_OF_RANGE = "an index of an element that is there"
HEADINGS = {
    "access": "Trying to access element {0} in a list with {1} elements. "
    "Tried to read from index {0} but array size is: {1}",
    "modify": "Trying to modify element {0} in a list with {1} elements. "
    "Tried to write to index {0} but array is not resizeable and size is: {1}",
    "scatter to": "Trying to scatter to element {0} in a list with {1} elements. "
    "Tried to write to index {0} but array is not resizeable and size is: {1}",
}
"""What TensorFlow says of lists, and of arrays."""


# -------------------------------------------------------------------------------------------------------------- common
def text(heading: str, given: str, expected: str, instead: str) -> str:
    """A check's text: TensorFlow's sentence, then the three parts."""
    return f"{heading}\n{errors.message(given, expected, instead)}"


def require(ctx: Any, ok: Any, heading: str, given: str, expected: str, instead: str, *payload: Any) -> None:
    """Fail the step unless ``ok``; placeholders in the texts stand for ``payload``, whose shapes are :func:`told`."""
    if not ok:
        shown = [shapes.show(item.shape) if isinstance(item, _Told) else item for item in payload]
        ctx.check(False, errors.InvalidArgumentError, text(heading, given, expected, instead), *shown)


def as_list(value: Any) -> HostList:
    """The list in a value of a variant tensor; InvalidArgumentError if it holds something else."""
    held = held_by(value)
    if not isinstance(held, HostList):
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message(
                f"a variant that holds a {type(held).__name__}", "a list of tensors", "an output of a TensorList op"
            ),
        )
    return held


def held_by(value: Any) -> Any:
    """What a value of a variant tensor holds: a list, an optional, what a channel op makes."""
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0:
        value = value.item()
    return to_host(value) if isinstance(value, TracedList) else value


def given_shape(value: Any) -> RawShape:
    """The shape that an ``element_shape`` operand gives: -1, alone, is an unknown rank, and an unknown size inside."""
    array = np.asarray(value)
    if array.ndim == 0:
        return None if int(array) < 0 else (int(array),)
    return tuple([None if item < 0 else item for item in array.tolist()])


def shape_vector(raw: RawShape, dtype: Any) -> np.ndarray:
    """The operand that gives a shape."""
    if raw is None:
        return np.array(-1, dtype)
    return shapes.as_array(raw, dtype)


class _Told(NamedTuple):
    """A shape in a check's text, which is written only if the check fails: loops read and write elements by the
    thousand.
    """

    shape: RawShape


def told(raw: RawShape) -> Any:
    """A shape in the payload of :func:`require`."""
    return _Told(raw)


def same_dtype(
    ctx: Any,
    value: HostList,
    attrs: dict[str, Any],
    words: str = "Invalid data types; op elements {2}, but list elements {3}",
) -> None:
    """Fail, with TensorFlow's words, unless the list holds elements of the op's dtype."""
    dtype = attrs["element_dtype"]
    require(
        ctx,
        value.element_dtype is dtype,
        words,
        "a list of {1} for elements of dtype {0}",
        "one dtype",
        "make the list with element_dtype=tf.{0}, or cast with tf.cast",
        dtype.name,
        value.element_dtype.name,
        dtypes.proto_name(dtype),
        dtypes.proto_name(value.element_dtype),
    )


def fits(
    ctx: Any,
    value: HostList,
    shape: Sequence[int],
    words: str = "Tried to set a tensor with incompatible shape at a list index. Item element shape: {0} "
    "list shape: {1}",
) -> None:
    """Fail, with TensorFlow's words, unless an element of a shape may be in the list."""
    require(
        ctx,
        shapes.is_compatible(value.element_shape, tuple(shape)),
        words,
        "an element of shape {0}",
        "elements of shape {1}, as the list was made for",
        "reshape it, or make the list with element_shape=None",
        told(tuple(shape)),
        told(value.element_shape),
    )


def _merged(ctx: Any, first: RawShape, second: RawShape) -> RawShape:
    require(
        ctx,
        shapes.is_compatible(first, second),
        "Incompatible shapes during merge: {0} vs. {1}",
        "element_shape {0} for elements of shape {1}",
        "the shape of the elements",
        "element_shape={1}",
        told(first),
        told(second),
    )
    return shapes.merge(first, second)


def element_form(ctx: Any, value: HostList, given: Any, what: str, unwritten: int | None = None) -> tuple[int, ...]:
    """The complete shape of the elements, from the operand, the list, and what was written to it."""
    shape = _merged(ctx, given_shape(given), value.element_shape)
    if not shapes.is_static(shape):
        for item in value.elements:
            if item is not None:
                shape = _merged(ctx, shape, tuple(item.shape))
    require(
        ctx,
        shapes.is_static(shape),
        what + " but element_shape is not fully defined: {0}" + (" " + UNWRITTEN if unwritten is not None else ""),
        "a list of {1} elements, of which none tells the shape",
        "elements, or a known element_shape",
        "make the list with element_shape=[...], or write to it first",
        told(shape),
        value.length,
        unwritten,
    )
    return shape  # type: ignore[return-value]


def zeros(ctx: Any, value: HostList, given: Any, place: int) -> np.ndarray:
    """What stands for an element that nobody has written."""
    require(
        ctx,
        value.element_dtype is not dtypes.variant,
        "Trying to read an uninitialized list",
        "an element that was never written, of a list of lists",
        "an element that was written",
        "write every element before it is read",
    )
    shape = element_form(ctx, value, given, "Trying to read an uninitialized tensor", place)
    return blank(value.element_dtype, shape)


def blank(dtype: Any, shape: Sequence[int]) -> np.ndarray:
    """Zeros (empty strings) of a shape."""
    if dtype is dtypes.string:
        return np.full(tuple(shape), b"", object)
    return np.zeros(tuple(shape), dtype.np)


def in_range(ctx: Any, index: Any, size: int, verb: str) -> int:
    """An index as a Python int; fails if the list has no such element."""
    place = int(index)
    require(
        ctx,
        0 <= place < size,
        HEADINGS[verb],
        "index {0} of a list of {1} elements",
        OUT_OF_RANGE,
        "an index from 0 to the size - 1; tf.TensorArray(..., dynamic_size=True) grows when it is written to",
        place,
        size,
    )
    return place


# ---------------------------------------------------------------------------------------------------------------- host
def host_get(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListGetItem."""
    value, index, given = as_list(inputs[0]), inputs[1], inputs[2]
    same_dtype(ctx, value, attrs)
    item = value.get(in_range(ctx, index, value.length, "access"))
    if item is None:
        return zeros(ctx, value, given, int(index))
    _matches(ctx, item, given)
    return item


def _matches(ctx: Any, item: Any, given: Any) -> None:
    shape = given_shape(given)
    require(
        ctx,
        shapes.is_compatible(shape, tuple(item.shape)),
        "Incompatible shapes during merge: {0} vs. {1}",
        "an element of shape {1} read with element_shape {0}",
        "the shape of the element",
        "element_shape={1}, or None",
        told(shape),
        told(tuple(item.shape)),
    )


def host_set(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListSetItem."""
    value, index, item = as_list(inputs[0]), int(inputs[1]), _element(inputs[2], attrs)
    same_dtype(ctx, value, attrs)
    if attrs["resize_if_index_out_of_bounds"] and index >= value.length:
        value = value.resized(index + 1)
    place = in_range(ctx, index, value.length, "modify")
    fits(ctx, value, item.shape)
    return value.set(place, item)


def _element(value: Any, attrs: dict[str, Any]) -> Any:
    return held_by(value) if attrs["element_dtype"] is dtypes.variant else value


def _not_full(ctx: Any, value: HostList) -> None:
    require(
        ctx,
        value.limit < 0 or value.length < value.limit,
        "Tried to push item into a full list. list size: {0} max_num_elements: {1}",
        "one element more for a list of {0}",
        "at most {1} elements, as the list was made for",
        "a larger max_num_elements, or -1",
        value.length,
        value.limit,
    )


def host_push(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListPushBack."""
    value, item = as_list(inputs[0]), _element(inputs[1], attrs)
    same_dtype(ctx, value, attrs)
    fits(ctx, value, item.shape)
    _not_full(ctx, value)
    return value.push(item)


def host_push_batch(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListPushBackBatch."""
    handles, items = np.asarray(inputs[0], object), inputs[1]
    require(
        ctx,
        len(items.shape) >= 1 and tuple(handles.shape) == tuple(items.shape[:1]),
        "Expected tensor.shape[0] to be equal to the number of lists: {0} vs. {1}",
        "{1} lists and a tensor of shape {0}",
        "one row for each list",
        "a tensor with as many rows as there are lists",
        told(tuple(items.shape)),
        handles.size,
    )
    lists = np.empty(handles.shape, object)
    for i, handle in enumerate(handles.tolist()):
        value, item = as_list(handle), _element(items[i], attrs)
        same_dtype(ctx, value, attrs, f"Invalid data type at index {i}; op elements {{2}} but list elements {{3}}")
        fits(
            ctx,
            value,
            item.shape,
            f"Tried to append a tensor with incompatible shape to a list at index {i}. Op element shape: {{0}} "
            "list shape: {1}",
        )
        _not_full(ctx, value)
        lists[i] = value.push(item)
    return lists


def host_pop(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListPopBack."""
    value, given = as_list(inputs[0]), inputs[1]
    same_dtype(ctx, value, attrs)
    require(
        ctx,
        value.length > 0,
        "Trying to pop from an empty list.",
        "a list without elements",
        "a list with at least one element",
        "push before, or ask tf.raw_ops.TensorListLength",
    )
    shortened, item = value.pop()
    if item is None:
        return shortened, zeros(ctx, value, given, shortened.length)
    _matches(ctx, item, given)
    return shortened, item


def host_stack(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListStack."""
    value, given = as_list(inputs[0]), inputs[1]
    same_dtype(ctx, value, attrs)
    wanted = attrs["num_elements"]
    require(
        ctx,
        wanted < 0 or wanted == value.length,
        "Operation expected a list with {0} elements but got a list with {1} elements.",
        "a list of {1} elements",
        "{0} elements, as num_elements says",
        "num_elements=-1",
        wanted,
        value.length,
    )
    if value.whole is not None and shapes.is_compatible(given_shape(given), tuple(value.whole.shape[1:])):
        return value.whole
    return stacked(ctx, value, value.elements, given)


def stacked(ctx: Any, value: HostList, elements: Sequence[Any], given: Any) -> np.ndarray:
    """Elements as one array."""
    what = "Tried to stack elements of an empty list"
    if elements:
        what = "Tried to stack a list which only contains uninitialized tensors"
    unwritten = next((i for i, item in enumerate(elements) if item is None), None)
    shape = element_form(ctx, value, given, what, unwritten)
    if not elements:
        return blank(value.element_dtype, (0, *shape))
    for item in elements:
        _matches(ctx, item if item is not None else np.empty(shape, bool), np.array(shape, np.int64))
    filler = blank(value.element_dtype, shape)
    return np.stack([filler if item is None else np.asarray(item) for item in elements])


def host_gather(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListGather."""
    value, indices, given = as_list(inputs[0]), np.asarray(inputs[1]), inputs[2]
    same_dtype(ctx, value, attrs)
    chosen = [value.get(in_range(ctx, index, value.length, "access")) for index in indices.ravel().tolist()]
    return stacked(ctx, value, chosen, given)


def host_from(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListFromTensor."""
    tensor, given = inputs
    _has_rows(ctx, tensor)
    items_list = HostList.from_array(attrs["element_dtype"], given_shape(given), np.asarray(tensor))
    fits(ctx, items_list, tensor.shape[1:])
    return items_list


def _has_rows(ctx: Any, tensor: Any) -> None:
    require(
        ctx,
        len(tensor.shape) >= 1,
        "Tensor must be at least a vector, but saw shape: []",
        "a scalar",
        "a tensor whose first dimension counts the elements",
        "tf.expand_dims(x, 0)",
    )


def host_scatter(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListScatter and TensorListScatterV2."""
    tensor, indices, given = inputs[:3]
    count = int(inputs[3]) if len(inputs) > 3 else -1
    require(
        ctx,
        count >= -1,
        "TensorListScatter expects num_elements >= -1, found: {0}",
        "num_elements = {0}",
        "-1 (as many as the indices need), or a size",
        "num_elements=-1",
        count,
    )
    highest = int(np.max(indices, initial=-1))
    size = highest + 1 if count == -1 else count
    scattered = HostList.blank(attrs["element_dtype"], given_shape(given), size)
    return _scattered(ctx, scattered, tensor, indices)


def host_scatter_into(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListScatterIntoExistingList."""
    value, tensor, indices = as_list(inputs[0]), inputs[1], inputs[2]
    same_dtype(ctx, value, attrs)
    highest = int(np.max(indices, initial=-1))
    if highest >= value.length:
        value = value.resized(highest + 1)
    return _scattered(ctx, value, tensor, indices)


def _scattered(ctx: Any, value: HostList, tensor: Any, indices: Any) -> HostList:
    _has_rows(ctx, tensor)
    places = np.asarray(indices).ravel().tolist()
    require(
        ctx,
        len(places) == tensor.shape[0],
        "Invalid number of rows in input tensor. Expected: {0} Actual: {1}",
        "{0} indices for a tensor of {1} rows",
        "an index for each row",
        "as many indices as rows",
        len(places),
        tensor.shape[0],
    )
    fits(ctx, value, tensor.shape[1:])
    elements = list(value.elements)
    rows = np.asarray(tensor)
    for row, index in enumerate(places):
        elements[in_range(ctx, index, value.length, "scatter to")] = rows[row, ...]
    return value.like(elements)


def host_concat(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListConcat and TensorListConcatV2."""
    value = as_list(inputs[0])
    same_dtype(ctx, value, attrs)
    given = given_shape(inputs[1]) if len(inputs) > 1 else attrs["element_shape"]
    leading = np.asarray(inputs[2]).tolist() if len(inputs) > 2 else []
    shape = _merged(ctx, given, value.element_shape)
    row_shape: RawShape = None if shape is None else shape[1:]
    first = None if shape is None else shape[0]
    seen: tuple[int, tuple[int, ...]] | None = None
    for i, item in enumerate(value.elements):
        if item is None:
            continue
        require(
            ctx,
            len(item.shape) > 0,
            "Concat saw a scalar shape at index {0} but requires at least vectors.",
            "a list with a scalar as element {0}",
            "elements of rank 1 or more",
            "tf.TensorArray.stack()",
            i,
        )
        form = tuple(item.shape[1:])
        first_index, first_form = seen = seen or (i, form)
        require(
            ctx,
            form == first_form,
            "TensorArray has inconsistent shapes.  Index {0} has (excepting dimension 0) shape: {1} but index {2} has "
            "(excepting dimension 0) shape: {3}",
            "elements {0} and {2} of shapes {1} and {3} but for the first dimension",
            "one shape but for the first dimension",
            "read them one by one",
            first_index,
            told(first_form),
            i,
            told(form),
        )
        row_shape = _merged(ctx, row_shape, form)
    written = {item.shape[0] for item in value.elements if item is not None}
    if first is None and len(written) == 1:
        (first,) = written  # what was not written is as long as what was
    known = shapes.is_static(row_shape) and (
        first is not None or bool(leading) or all(item is not None for item in value.elements)
    )
    require(
        ctx,
        known and (bool(value.length) or shapes.is_static(row_shape)),
        "All except the first dimension must be fully defined when concating an empty tensor list. element_shape: {0}",
        "a concat of {1} elements, of which some tell no shape",
        "elements, or a known element_shape",
        "make the list with element_shape=[...], or write to it first",
        told(shape),
        value.length,
    )
    assert row_shape is not None
    parts = []
    for i, item in enumerate(value.elements):
        size = leading[i] if i < len(leading) and leading[i] >= 0 else first
        parts.append(blank(value.element_dtype, (size, *row_shape)) if item is None else np.asarray(item))  # type: ignore[arg-type]
    lengths = np.array([part.shape[0] for part in parts], np.int64)
    if not parts:
        return blank(value.element_dtype, (0, *row_shape)), lengths  # type: ignore[arg-type]
    return np.concatenate(parts), lengths


def host_split(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListSplit."""
    tensor, given, lengths = inputs
    _has_rows(ctx, tensor)
    require(
        ctx,
        np.ndim(lengths) == 1,
        "Expected lengths to be a vector, received shape: {0}",
        "lengths of shape {0}",
        "a vector",
        "[lengths]",
        told(np.shape(lengths)),
    )
    sizes = np.asarray(lengths).ravel().tolist()
    require(
        ctx,
        all(size >= 0 for size in sizes) and sum(sizes) == tensor.shape[0],
        "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {0} and value's shape is: {1}",
        "lengths that add up to {0} for a tensor of shape {1}",
        "lengths of 0 and more that add up to the number of rows",
        "tf.shape(x)[0] as the sum of lengths",
        sum(sizes),
        told(tuple(tensor.shape)),
    )
    rows = np.asarray(tensor)
    ends = np.cumsum([0, *sizes])
    split = HostList(
        attrs["element_dtype"], given_shape(given), [rows[a:b] for a, b in itertools.pairwise(ends.tolist())]
    )
    for item in split.elements:
        fits(ctx, split, item.shape)
    return split


def host_concat_lists(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListConcatLists."""
    first, second = (np.asarray(_boxed(value), object) for value in inputs)
    require(
        ctx,
        first.shape == second.shape,
        "Expected input_a.shape == input_b.shape: {0} vs. {1}",
        "lists in shapes {0} and {1}",
        "one shape",
        "as many lists on both sides",
        told(first.shape),
        told(second.shape),
    )
    joined = np.empty(first.shape, object)
    for place in np.ndindex(first.shape):
        a, b = as_list(first[place]), as_list(second[place])
        number = int(np.ravel_multi_index(place, first.shape)) if place else 0
        for name, part in (("a", a), ("b", b)):
            same_dtype(ctx, part, attrs, f"input_{name}[{number}].dtype != element_dtype.  Saw: {{3}} vs. {{2}}")
        require(
            ctx,
            shapes.is_compatible(a.element_shape, b.element_shape),
            f"input_a and input_b TensorList element shapes are not identical at index {number}.  Saw {{0}} vs. {{1}}",
            "lists for elements of shapes {0} and {1}",
            "one shape",
            "make both lists with element_shape={0}",
            told(a.element_shape),
            told(b.element_shape),
        )
        shape = shapes.merge(a.element_shape, b.element_shape)
        joined[place] = HostList(a.element_dtype, shape, [*a.elements, *b.elements], a.limit)
    return joined if joined.ndim else joined.item()


def _boxed(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    box = np.empty((), object)
    box[()] = value
    return box


def host_resize(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListResize."""
    value, size = as_list(inputs[0]), int(inputs[1])
    require(
        ctx,
        size >= 0,
        "TensorListSlice expects size to be non-negative. Got: {0}",
        "size {0}",
        "0 or more",
        "tf.maximum(n, 0)",
        size,
    )
    return value.resized(size)


def host_reserve(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListReserve."""
    shape, count = given_shape(inputs[0]), int(inputs[1])
    require(
        ctx,
        count >= 0,
        "The num_elements to reserve must be a non negative number, but got {0}",
        "num_elements {0}",
        "0 or more",
        "tf.maximum(n, 0)",
        count,
    )
    return HostList.blank(attrs["element_dtype"], shape, count)
