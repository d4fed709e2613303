"""Kernels of the ``TensorList`` ops in programs, on :class:`~anabranch.core.values.list_values.TracedList`.

Policy. A kernel that meets something that it cannot express, or that it knows to be an error, raises ``NotCompilable``:
the op then runs in the interpreter, which gives the result or the error text. What can only be seen while the program
runs (an index out of range) is checked there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import NotCompilable
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.list_values import TracedList
from anabranch.ops.lists.host_kernels import HEADINGS, OUT_OF_RANGE, given_shape, text


def _known(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def traced_list(value: Any, attrs: dict[str, Any]) -> TracedList:
    """The list of an operand, whose elements have the op's dtype."""
    return _of_dtype(value, attrs).plain()


def _of_dtype(value: Any, attrs: dict[str, Any]) -> TracedList:
    if not isinstance(value, TracedList):
        raise NotCompilable("a list whose elements are not alike")
    if value.element_dtype is not attrs.get("element_dtype", value.element_dtype):
        raise NotCompilable("a list of another dtype")
    return value


def _traced_zeros(ctx: Any, value: TracedList, given: Any) -> Any:
    shape = shapes.merge(given_shape(given) if _known(given) else None, value.element_shape)
    if not shapes.is_static(shape) or value.element_dtype.host_only:
        raise NotCompilable("an element of unknown shape")
    return ctx.xp.zeros(shape, value.element_dtype.np)


def _traced_fits(value: TracedList, item: Any) -> None:
    if not isinstance(item, TracedList) and getattr(getattr(item, "dtype", None), "kind", "") == "O":
        raise NotCompilable("an element that is not an array")  # the optional value of a branch
    if not shapes.is_compatible(value.element_shape, tuple(np.shape(item))):
        raise NotCompilable("an element of another shape")


def _traced_range(ctx: Any, index: Any, size: Any, verb: str) -> None:
    if _known(index) and _known(size):
        if not 0 <= int(index) < int(size):
            raise NotCompilable("an index out of range")
        return
    ctx.check(
        (index >= 0) & (index < size),
        errors.InvalidArgumentError,
        text(
            HEADINGS[verb],
            "index {0} of a list of {1} elements",
            OUT_OF_RANGE,
            "an index from 0 to the size - 1; tf.TensorArray(..., dynamic_size=True) grows when it is written to",
        ),
        index,
        size,
    )


def traced_get(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListGetItem."""
    value, index, given = traced_list(inputs[0], attrs), inputs[1], inputs[2]
    _traced_range(ctx, index, value.size, "access")
    if value.items is None:
        return _traced_zeros(ctx, value, given)
    return _read_as(value.get(index), given)


def _read_as(item: Any, given: Any) -> Any:
    if _known(given) and not shapes.is_compatible(given_shape(given), tuple(item.shape)):
        raise NotCompilable("an element of another shape")
    return item


def traced_set(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListSetItem."""
    value, index, item = traced_list(inputs[0], attrs), inputs[1], inputs[2]
    _traced_fits(value, item)
    if attrs["resize_if_index_out_of_bounds"]:
        if _known(index) and value.known_size is not None:
            if int(index) >= value.known_size:
                value = value.resized(int(index) + 1)
        elif value.reserved:  # for all indices that there will be
            ctx.check(index >= 0, errors.InvalidArgumentError, "Trying to modify element {0} of a list", index)
            size = ctx.xp.maximum(value.size, index + 1).astype(np.int32)
            return value.set(index, item).with_size(size)
        else:
            raise NotCompilable("how far the list grows is known only afterwards")
    _traced_range(ctx, index, value.size, "modify")
    return value.set(index, item)


def traced_push(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListPushBack."""
    value, item = _of_dtype(inputs[0], attrs), inputs[1]
    _traced_fits(value, item)
    if value.limit >= 0 and (value.known_size is None or value.known_size >= value.limit):
        raise NotCompilable("a list that may be full")
    return value.push(item)


def traced_pop(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListPopBack."""
    value, given = _of_dtype(inputs[0], attrs), inputs[1]
    if value.known_size is not None:
        if value.known_size == 0:
            raise NotCompilable("a list without elements")
    else:
        ctx.check(
            value.size > 0,
            errors.InvalidArgumentError,
            text(
                "Trying to pop from an empty list.",
                "a list without elements",
                "a list with at least one element",
                "push before, or ask tf.raw_ops.TensorListLength",
            ),
        )
    shortened = value.shortened()
    if value.is_uniform:
        return shortened, _read_as(value.uniform, given)
    item = _traced_zeros(ctx, value, given) if value.items is None else _read_as(shortened.get(shortened.size), given)
    return shortened, item


def traced_stack(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListStack."""
    value, given = traced_list(inputs[0], attrs), inputs[1]
    size = value.known_size
    if size is None:
        raise NotCompilable("the size of a list that is stacked is known only afterwards")
    if attrs["num_elements"] not in (-1, size):
        raise NotCompilable("a list of another size")
    if value.items is None:
        element = _traced_zeros(ctx, value, given)
        return ctx.xp.zeros((size, *element.shape), element.dtype)
    stacked = value.stacked()
    if _known(given) and not shapes.is_compatible(given_shape(given), tuple(stacked.shape[1:])):
        raise NotCompilable("elements of another shape")
    return stacked


def traced_from(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListFromTensor."""
    tensor, given = inputs
    shape = given_shape(given) if _known(given) else None
    if attrs["element_dtype"].host_only:
        raise NotCompilable("a list of text")
    if not tensor.shape or not shapes.is_compatible(shape, tuple(tensor.shape[1:])):
        raise NotCompilable("elements of another shape")
    return TracedList(attrs["element_dtype"], shape, ctx.xp.asarray(tensor), int(tensor.shape[0]))


def traced_empty(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """EmptyTensorList."""
    _on_device(attrs)
    return TracedList(attrs["element_dtype"], given_shape(inputs[0]), None, 0, 0, limit=int(inputs[1]))


def traced_reserve(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListReserve."""
    _on_device(attrs)
    count = int(inputs[1])
    if count < 0:
        raise NotCompilable("a list of a negative size")
    return TracedList(attrs["element_dtype"], given_shape(inputs[0]), None, count, count)


def _on_device(attrs: dict[str, Any]) -> None:
    dtype = attrs["element_dtype"]
    if dtype.host_only and dtype is not dtypes.variant:
        raise NotCompilable("a list of strings")


def traced_gather(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListGather."""
    value, indices, given = traced_list(inputs[0], attrs), inputs[1], inputs[2]
    xp = ctx.xp
    _traced_places(ctx, indices, value.size, "access")
    if isinstance(value.items, TracedList):
        raise NotCompilable("a list of lists is stacked")
    if value.items is None:
        element = _traced_zeros(ctx, value, given)
        return xp.zeros((indices.shape[0], *element.shape), element.dtype)
    return _read_rows(xp.take(value.settled().items, indices, axis=0, mode="clip"), given)


def _read_rows(rows: Any, given: Any) -> Any:
    if _known(given) and not shapes.is_compatible(given_shape(given), tuple(rows.shape[1:])):
        raise NotCompilable("elements of another shape")
    return rows


def _traced_places(ctx: Any, indices: Any, size: Any, verb: str) -> None:
    if len(indices.shape) != 1:
        raise NotCompilable("indices that are not a vector")
    if indices.shape[0] == 0:
        return
    if _known(indices) and _known(size):
        if indices.min() < 0 or indices.max() >= int(size):
            raise NotCompilable("an index out of range")
        return
    xp = ctx.xp
    wrong = (indices < 0) | (indices >= size)
    _traced_range(ctx, xp.asarray(indices)[xp.argmax(wrong)], size, verb)


def traced_scatter(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListScatter and TensorListScatterV2."""
    tensor, indices, given = inputs[:3]
    count = int(inputs[3]) if len(inputs) > 3 else -1
    if count == -1:
        if not _known(indices):
            raise NotCompilable("indices that are known only afterwards give the size of a list")
        count = int(np.max(indices, initial=-1)) + 1
    shape = given_shape(given)
    scattered = TracedList(attrs["element_dtype"], shape, None, count, count)
    return _traced_scattered(ctx, scattered, tensor, indices)


def traced_scatter_into(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListScatterIntoExistingList."""
    value, tensor, indices = traced_list(inputs[0], attrs), inputs[1], inputs[2]
    if not _known(indices) or value.known_size is None:
        raise NotCompilable("whether the list grows is known only afterwards")
    highest = int(np.max(indices, initial=-1))
    if highest >= value.known_size:
        value = value.resized(highest + 1)
    return _traced_scattered(ctx, value, tensor, indices)


def _traced_scattered(ctx: Any, value: TracedList, tensor: Any, indices: Any) -> TracedList:
    if not tensor.shape or len(indices.shape) != 1 or tensor.shape[0] != indices.shape[0]:
        raise NotCompilable("indices that do not fit the rows")
    if not shapes.is_compatible(value.element_shape, tuple(tensor.shape[1:])):
        raise NotCompilable("elements of another shape")
    if value.element_dtype.host_only:
        raise NotCompilable("a list of text")
    _traced_places(ctx, indices, value.size, "scatter to")
    like = TracedList(value.element_dtype, value.element_shape, ctx.xp.asarray(tensor), int(tensor.shape[0]))
    whole = value.materialised(like).settled()
    if isinstance(whole.items, TracedList) or whole.items.shape[1:] != tensor.shape[1:]:
        raise NotCompilable("a list with elements of different shapes")
    return whole.with_items(whole.items.at[indices].set(tensor, mode="drop"))


def traced_concat(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListConcat and TensorListConcatV2."""
    value = traced_list(inputs[0], attrs)
    if value.items is None or value.known_size is None:
        raise NotCompilable("a list of unknown size or shape")
    rows = value.stacked()
    if len(rows.shape) < 2:
        raise NotCompilable("a list of scalars")
    given = (given_shape(inputs[1]) if _known(inputs[1]) else None) if len(inputs) > 1 else attrs["element_shape"]
    if not shapes.is_compatible(given, tuple(rows.shape[1:])):
        raise NotCompilable("elements of another shape")
    joined = ctx.xp.reshape(rows, (rows.shape[0] * rows.shape[1], *rows.shape[2:]))
    return joined, np.full((rows.shape[0],), rows.shape[1], np.int64)


def traced_split(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListSplit."""
    tensor, given, lengths = inputs
    sizes = set(np.ravel(lengths).tolist())
    if (
        lengths.ndim != 1
        or len(sizes) != 1
        or not tensor.shape
        or min(sizes) < 0
        or int(lengths.sum()) != tensor.shape[0]
    ):
        raise NotCompilable("parts of different sizes")
    shape = given_shape(given)
    rows = ctx.xp.reshape(tensor, (len(lengths), sizes.pop(), *tensor.shape[1:]))
    if not shapes.is_compatible(shape, tuple(rows.shape[1:])):
        raise NotCompilable("elements of another shape")
    return TracedList(attrs["element_dtype"], shape, rows, int(rows.shape[0]))


def traced_resize(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """TensorListResize."""
    value = traced_list(inputs[0], attrs)
    if not _known(inputs[1]):
        ctx.check(
            inputs[1] <= value.size, errors.InternalError, "a list of {0} elements is to get {1}", value.size, inputs[1]
        )
        return value.shortened_to(inputs[1])
    size = int(inputs[1])
    if size < 0:
        raise NotCompilable("a negative size")
    if value.known_size == size:
        return value
    return value.resized(size)
