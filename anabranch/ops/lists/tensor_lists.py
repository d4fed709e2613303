"""Lists of tensors as values: what loops keep for their gradients, and what ``tf.TensorArray`` is made of.

A list is the value of a scalar variant tensor; each op gives a new list. The dtype and shape of its elements stand in
the *handle data* of that tensor as far as they are known, so that what is read has a static shape. An element that
nobody has written is zero. Gradients are lists, too: those of pushes are pops, of stacks are splits, and a sum of lists
is an ``AddN`` of them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, Role, Shape, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import RawShape
from anabranch.ops.lists import host_kernels as kernels
from anabranch.ops.lists import xla_kernels as lowerings
from anabranch.ops.shared import open_lists, unchecked
from anabranch.ops.shared.array_rules import refuse, shape_of

INDEX = "int32 int64"
_SHRINKS = "_shrinks"
"""Attribute of a resize that never makes a list longer, so that a program need not know the size."""
_NONE_IN_TENSORFLOW = "TensorFlow gives it no gradient"


# --------------------------------------------------------------------------------------------------------- shape rules
def _operand_shape(c: Any, operand: str = "element_shape") -> RawShape:
    """What the operand tells about the shape of the elements."""
    rank = c.shape(operand)
    if rank is not None and len(rank) == 0:
        value = c.value(operand)
        return None if value is None or int(value) < 0 else (int(value),)
    dims = c.vector(operand) if rank is not None else None
    return None if dims is None else tuple([None if item is None or item < 0 else item for item in dims])


def _element(c: Any, *more: RawShape, operand: str = "input_handle") -> RawShape:
    """The shape of the elements of an input list, merged with what else is known about it."""
    handle = c.handle(operand)
    shape: RawShape = None
    if handle is not None:
        wanted = c.attrs.get("element_dtype", handle.dtype)
        if handle.dtype is not wanted:
            raise ValueError(
                f"Expected list with element dtype {dtypes.proto_name(wanted)} but got list with element dtype "
                f"{dtypes.proto_name(handle.dtype)}\n"
                + errors.message(
                    f"a list with elements of dtype {handle.dtype.name} for op type {c.definition.type_name!r} with "
                    f"element_dtype {wanted.name}",
                    "one dtype",
                    f"element_dtype=tf.{handle.dtype.name}, or tf.cast",
                )
            )
        shape = handle.shape
    for other in more:
        if not shapes.is_compatible(shape, other):
            refuse(
                c,
                f"elements of shape {shapes.show(shape)} with shape {shapes.show(other)}",
                "one shape",
                "make the list with element_shape=None, or reshape what is put in",
                shapes.difference(shape, other).rstrip("\n"),
            )
        shape = shapes.merge(shape, other)
    return shape


def _keep(c: Any, *more: RawShape) -> RawShape:
    """Shape of an output list like the input list."""
    _element(c, *more)
    handle = c.handle("input_handle")
    if handle is not None:
        c.set_handle(0, *handle)
    return ()


def _tail(raw: RawShape) -> RawShape:
    return None if raw is None or not raw else raw[1:]


def _rows(c: Any, operand: str = "tensor") -> RawShape:
    """The shape of the rows of a tensor, which must have some."""
    c.with_rank_at_least(operand, 1)
    return _tail(c.shape(operand))


# ------------------------------------------------------------------------------------------------ what the rules build
def shape_operand(raw: RawShape) -> Any:
    """An ``element_shape`` operand that says what is known of a shape."""
    return convert_to_tensor(kernels.shape_vector(raw, np.int32), name="element_shape")


def element_shape_of(tensor: Any, skip: int = 0) -> Any:
    """An ``element_shape`` operand with the shape of a tensor, without the first ``skip`` dimensions."""
    raw = tensor._shape
    if tensor.dtype.base is dtypes.variant:
        return shape_operand(None)
    if shapes.is_static(raw if raw is None else raw[skip:]):
        return shape_operand(raw[skip:])
    shape = build("Shape", tensor, out_type=dtypes.int32)
    if not skip:
        return shape
    return build("StridedSlice", shape, [skip], [0], [1], begin_mask=0, end_mask=1)


def _zeros_like(tensor: Any) -> Any:
    raw = tensor._shape
    if tensor.dtype.base is not dtypes.variant and shapes.is_static(raw):
        return build("Fill", shape_of(tensor), convert_to_tensor(0, tensor.dtype.base))
    return build("ZerosLike", tensor)


def _shape_of_list(value: Any) -> Any:
    """An ``element_shape`` operand with the shape that a list was made for."""
    handle = value.handle_data
    if handle is not None and handle.shape is not None:
        return shape_operand(handle.shape)
    return build("TensorListElementShape", value, shape_type=dtypes.int32)


def _shortened(grad: Any, whole: Any) -> Any:
    """The gradient of a list that became longer: that of its first elements."""
    return build("TensorListResize", grad, build("TensorListLength", whole), _shrinks=True)


def _read(value: Any, index: Any, like: Any) -> Any:
    return build("TensorListGetItem", value, index, element_shape_of(like), element_dtype=like.dtype.base)


# ------------------------------------------------------------------------------------------------------------ new lists
class EmptyTensorList(Op):
    """A list without elements, which takes elements of a shape (-1 where anything goes), at most `max_num_elements` of
    them unless that is -1.
    """

    signature = "element_shape: shape_type, max_num_elements: int32 -> handle: variant"
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    ranks = {"max_num_elements": 0}
    role = Role.LIST_EMPTY
    compile_time = ("element_shape", "max_num_elements")
    kernel = lowerings.traced_empty
    gradient = NotDifferentiable("it has no elements")

    def shape(c):
        c.set_handle(0, c.attrs["element_dtype"], _operand_shape(c))
        return ()

    def host_kernel(ctx, inputs, attrs):
        return kernels.HostList(attrs["element_dtype"], kernels.given_shape(inputs[0]), (), int(inputs[1]))


class TensorListReserve(Op):
    """A list of `num_elements` elements that nobody has written yet."""

    signature = "element_shape: shape_type, num_elements: int32 -> handle: variant"
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    ranks = {"num_elements": 0}
    role = Role.LIST_NEW
    compile_time = ("element_shape", "num_elements")
    kernel = lowerings.traced_reserve
    host_kernel = kernels.host_reserve
    gradient = NotDifferentiable("its elements are zeros")

    def shape(c):
        count = c.scalar("num_elements")
        if count is not None and count < 0:
            refuse(
                c,
                f"num_elements {count}",
                "0 or more",
                "tf.maximum(n, 0)",
                f"The num_elements to reserve must be a non negative number, but got {count}",
            )
        c.set_handle(0, c.attrs["element_dtype"], _operand_shape(c))
        return ()


class TensorListFromTensor(Op):
    """The list of the rows of a tensor."""

    signature = "tensor: element_dtype, element_shape: shape_type -> output_handle: variant"
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    role = Role.LIST_OF_ROWS
    kernel = lowerings.traced_from
    host_kernel = kernels.host_from

    def shape(c):
        rows, given = _rows(c), _operand_shape(c)
        if not shapes.is_compatible(rows, given):
            refuse(
                c,
                f"a tensor with rows of shape {shapes.show(rows)} for element_shape {shapes.show(given)}",
                "the shape of the rows",
                f"element_shape={shapes.show(rows)}",
                "Specified a list with shape {} from a tensor with shape {}".format(
                    shapes.show(given), shapes.show(c.shape("tensor"))
                ),
            )
        c.set_handle(0, c.attrs["element_dtype"], shapes.merge(rows, given))
        return ()

    def gradient(op, grad):
        tensor = op.inputs[0]
        first = None if tensor._shape is None else tensor._shape[0]
        stacked = build(
            "TensorListStack",
            grad,
            element_shape_of(tensor, 1),
            element_dtype=tensor.dtype.base,
            num_elements=-1 if first is None else first,
        )
        return [stacked, None]


class TensorListSplit(Op):
    """The list of the parts of a tensor along its first dimension; `lengths` are the sizes of the parts."""

    signature = "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant"
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    compile_time = ("element_shape", "lengths")
    kernel = lowerings.traced_split
    host_kernel = kernels.host_split

    def shape(c):
        c.with_rank("lengths", 1)
        row_shape = _rows(c)
        parts = None if row_shape is None else (None, *row_shape)
        given = _operand_shape(c)
        if not shapes.is_compatible(parts, given):
            refuse(
                c,
                f"parts of shape {shapes.show(parts)} for element_shape {shapes.show(given)}",
                "the shape of the parts",
                "element_shape=[-1, ...]",
            )
        c.set_handle(0, c.attrs["element_dtype"], shapes.merge(parts, given))
        return ()

    def gradient(op, grad):
        tensor = op.inputs[0]
        row_shape = element_shape_of(tensor, 1)
        shape = build("ConcatV2", [convert_to_tensor([-1]), row_shape], axis=0)
        joined = build("TensorListConcatV2", grad, shape, op.inputs[2], element_dtype=tensor.dtype.base)
        return [joined[0], None, None]


def _scatter_shape(c: Any) -> RawShape:
    c.with_rank("indices", 1)
    rows, given = _rows(c), _operand_shape(c)
    if not shapes.is_compatible(rows, given):
        refuse(
            c,
            f"rows of shape {shapes.show(rows)} for element_shape {shapes.show(given)}",
            "the shape of the rows",
            f"element_shape={shapes.show(rows)}",
        )
    c.set_handle(0, c.attrs["element_dtype"], shapes.merge(rows, given))
    return ()


def _scatter_gradient(op: Any, grad: Any) -> list[Any]:
    tensor, indices = op.inputs[:2]
    rows = build("TensorListGather", grad, indices, element_shape_of(tensor, 1), element_dtype=tensor.dtype.base)
    return [rows, *[None] * (len(op.inputs) - 1)]


class TensorListScatter(Op):
    """A list with the rows of `tensor` at `indices`, as long as the largest index needs."""

    signature = "tensor: element_dtype, indices: int32, element_shape: shape_type -> output_handle: variant"
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    compile_time = ("element_shape",)
    kernel = lowerings.traced_scatter
    host_kernel = kernels.host_scatter
    shape = _scatter_shape
    gradient = _scatter_gradient


class TensorListScatterV2(Op):
    """A list of `num_elements` elements (-1: as many as the largest index needs) with the rows of `tensor` at
    `indices`.
    """

    signature = (
        "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32 "
        "-> output_handle: variant"
    )
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    ranks = {"num_elements": 0}
    compile_time = ("element_shape", "num_elements")
    kernel = lowerings.traced_scatter
    host_kernel = kernels.host_scatter
    shape = _scatter_shape
    gradient = _scatter_gradient


# -------------------------------------------------------------------------------------------------------------- changes
class TensorListPushBack(Op):
    """The list with `tensor` as one more element."""

    signature = "input_handle: variant, tensor: element_dtype -> output_handle: variant"
    attrs = {"element_dtype": Type()}
    effect = PURE
    straight = unchecked.push
    any_size = open_lists.push
    role = Role.LIST_PUSH
    kernel = lowerings.traced_push
    host_kernel = kernels.host_push

    def shape(c):
        return _keep(c, c.shape("tensor"))

    def gradient(op, grad):
        tensor = op.inputs[1]
        return list(build("TensorListPopBack", grad, element_shape_of(tensor), element_dtype=tensor.dtype.base))


class TensorListPopBack(Op):
    """The list without its last element, and that element."""

    signature = "input_handle: variant, element_shape: int32 -> output_handle: variant, tensor: element_dtype"
    attrs = {"element_dtype": Type()}
    effect = PURE
    straight = unchecked.pop
    any_size = open_lists.pop
    role = Role.LIST_POP
    kernel = lowerings.traced_pop
    host_kernel = kernels.host_pop

    def shape(c):
        _keep(c)
        return [(), _element(c, _operand_shape(c))]

    def gradient(op, rest, item):
        tensor = op.outputs[1]
        if rest is None:
            empty = shape_operand(None)
            rest = build("EmptyTensorList", empty, -1, element_dtype=tensor.dtype.base)
        if item is None:
            item = _zeros_like(tensor)
        return [build("TensorListPushBack", rest, item), None]


class TensorListPushBackBatch(Op):
    """Lists with a row of `tensor` each as one more element; the lists stand in a vector."""

    signature = "input_handles: variant, tensor: element_dtype -> output_handles: variant"
    attrs = {"element_dtype": Type()}
    effect = PURE
    host_kernel = kernels.host_push_batch
    gradient = NotDifferentiable(_NONE_IN_TENSORFLOW)

    def shape(c):
        lists = c.with_rank("input_handles", 1)
        rows = c.with_rank_at_least("tensor", 1)
        return shapes.merge(lists, None if rows is None else rows[:1])


class TensorListSetItem(Op):
    """The list with `item` at `index`. A list that is too short is an error unless
    `resize_if_index_out_of_bounds`.
    """

    signature = "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant"
    attrs = {"element_dtype": Type(), "resize_if_index_out_of_bounds": Bool(False)}
    effect = PURE
    straight = unchecked.set_item
    any_size = open_lists.set_item
    role = Role.LIST_WRITE
    kernel = lowerings.traced_set
    host_kernel = kernels.host_set

    def shape(c):
        c.with_rank("index", 0)
        return _keep(c, c.shape("item"))

    def gradient(op, grad):
        whole, index, item = op.inputs
        item_grad = _read(grad, index, item)  # before the write, which then needs no copy of the list
        rest = build("TensorListSetItem", grad, index, _zeros_like(item))
        if op.get_attr("resize_if_index_out_of_bounds"):
            rest = _shortened(rest, whole)
        return [rest, None, item_grad]


class TensorListScatterIntoExistingList(Op):
    """The list with the rows of `tensor` at `indices`; it becomes as long as the largest index needs."""

    signature = "input_handle: variant, tensor: element_dtype, indices: int32 -> output_handle: variant"
    attrs = {"element_dtype": Type()}
    effect = PURE
    role = Role.LIST_WRITE
    kernel = lowerings.traced_scatter_into
    host_kernel = kernels.host_scatter_into

    def shape(c):
        c.with_rank("indices", 1)
        return _keep(c, _rows(c))

    def gradient(op, grad):
        whole, tensor, indices = op.inputs
        rows = build("TensorListGather", grad, indices, element_shape_of(tensor, 1), element_dtype=tensor.dtype.base)
        rest = build("TensorListScatterIntoExistingList", grad, _zeros_like(tensor), indices)
        return [_shortened(rest, whole), rows, None]


class TensorListResize(Op):
    """The first `size` elements of the list, or all of them and others that nobody has written."""

    signature = "input_handle: variant, size: int32 -> output_handle: variant"
    attrs: ClassVar[dict[str, Any]] = {}
    effect = PURE
    role = Role.LIST_RESIZE
    compile_time = ("size",)
    kernel = lowerings.traced_resize

    def traced(c):
        return ("size",) if c.attrs.get(_SHRINKS) else ()

    host_kernel = kernels.host_resize

    def shape(c):
        c.with_rank("size", 0)
        return _keep(c)

    def gradient(op, grad):
        return [build("TensorListResize", grad, build("TensorListLength", op.inputs[0])), None]


class TensorListConcatLists(Op):
    """Each list of `input_a` with the elements of that of `input_b` behind its own."""

    signature = "input_a: variant, input_b: variant -> output: variant"
    attrs = {"element_dtype": Type()}
    effect = PURE
    host_kernel = kernels.host_concat_lists
    gradient = NotDifferentiable(_NONE_IN_TENSORFLOW)

    def shape(c):
        first, second = c.handle("input_a"), c.handle("input_b")
        if first is not None and second is not None:
            c.set_handle(0, first.dtype, shapes.merge(first.shape, second.shape))
        return c.same_shape("input_a", "input_b")


# ---------------------------------------------------------------------------------------------------------------- reads
class TensorListGetItem(Op):
    """The element at `index`, of a shape that fits `element_shape`."""

    signature = "input_handle: variant, index: int32, element_shape: Tshape -> item: element_dtype"
    attrs = {"element_dtype": Type(), "Tshape": Type(INDEX, "int32")}
    effect = PURE
    straight = unchecked.get_item
    any_size = open_lists.get_item
    kernel = lowerings.traced_get
    host_kernel = kernels.host_get

    def shape(c):
        c.with_rank("index", 0)
        return _element(c, _operand_shape(c))

    def gradient(op, grad):
        whole, index, _ = op.inputs
        blank = build(
            "TensorListReserve", _shape_of_list(whole), build("TensorListLength", whole), element_dtype=grad.dtype.base
        )
        return [build("TensorListSetItem", blank, index, grad), None, None]


class TensorListStack(Op):
    """All elements, which have one shape, as one tensor `[size, *element]`. `num_elements`, unless -1, is the size."""

    signature = "input_handle: variant, element_shape: int32 -> tensor: element_dtype"
    attrs = {"element_dtype": Type(), "num_elements": Int(-1)}
    effect = PURE
    kernel = lowerings.traced_stack
    host_kernel = kernels.host_stack

    def shape(c):
        element = _element(c, _operand_shape(c))
        count = c.attrs["num_elements"]
        return None if element is None else (None if count < 0 else count, *element)

    def gradient(op, grad):
        return [build("TensorListFromTensor", grad, element_shape_of(grad, 1)), None]


class TensorListGather(Op):
    """The elements at `indices`, which have one shape, as one tensor."""

    signature = "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype"
    attrs = {"element_dtype": Type()}
    effect = PURE
    kernel = lowerings.traced_gather
    host_kernel = kernels.host_gather

    def shape(c):
        (count,) = c.with_rank("indices", 1) or (None,)
        element = _element(c, _operand_shape(c))
        return None if element is None else (count, *element)

    def gradient(op, grad):
        """An element that was taken several times gets the sum."""
        whole, indices, _ = op.inputs
        rows = build("UnsortedSegmentSum", grad, indices, build("TensorListLength", whole))
        return [build("TensorListFromTensor", rows, element_shape_of(grad, 1)), None, None]


def _concat_shape(c: Any, given: RawShape) -> list[RawShape]:
    element = _element(c, given)
    if element is not None and not element:
        refuse(
            c,
            "a list of scalars",
            "elements of rank 1 or more",
            "tf.TensorArray.stack()",
            "Concat requires elements to be at least vectors, found scalars instead.",
        )
    return [None if element is None else (None, *element[1:]), (None,)]


def _concat_gradient(op: Any, grad: Any, *unused: Any) -> list[Any]:
    whole = op.inputs[0]
    parts = build("TensorListSplit", grad, _shape_of_list(whole), op.outputs[1])
    return [parts, *[None] * (len(op.inputs) - 1)]


class TensorListConcat(Op):
    """The elements one after the other along their first dimension, and how long each of them is."""

    signature = "input_handle: variant -> tensor: element_dtype, lengths: int64"
    attrs = {"element_dtype": Type(), "element_shape": Shape(None)}
    effect = PURE
    kernel = lowerings.traced_concat
    host_kernel = kernels.host_concat
    gradient = _concat_gradient

    def shape(c):
        return _concat_shape(c, c.attrs["element_shape"])


class TensorListConcatV2(Op):
    """The elements one after the other along their first dimension, and how long each of them is.

    `leading_dims` are the first dimensions of elements that nobody has written, where `element_shape` has none.
    """

    signature = (
        "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> tensor: element_dtype, lengths: int64"
    )
    attrs = {"element_dtype": Type(), "shape_type": Type(INDEX)}
    effect = PURE
    kernel = lowerings.traced_concat
    host_kernel = kernels.host_concat
    gradient = _concat_gradient

    def shape(c):
        return _concat_shape(c, _operand_shape(c))


class TensorListLength(Op):
    """The number of elements."""

    signature = "input_handle: variant -> length: int32"
    attrs: ClassVar[dict[str, Any]] = {}
    effect = PURE
    role = Role.LIST_LENGTH
    gradient = NotDifferentiable("a size is not a continuous function")

    def shape(c):
        return ()

    def kernel(ctx, inputs, attrs):
        return lowerings.traced_list(inputs[0], attrs).size

    def host_kernel(ctx, inputs, attrs):
        return np.array(kernels.as_list(inputs[0]).length, np.int32)


class TensorListElementShape(Op):
    """The shape that the list was made for: -1 where it is not known, -1 alone for an unknown rank."""

    signature = "input_handle: variant -> element_shape: shape_type"
    attrs = {"shape_type": Type(INDEX)}
    effect = PURE
    role = Role.LIST_SHAPE
    gradient = NotDifferentiable("a shape is not a continuous function")

    def shape(c):
        handle = c.handle("input_handle")
        return None if handle is None or handle.shape is None else (len(handle.shape),)

    def value(c):
        handle = c.handle("input_handle")
        return None if handle is None else handle.shape

    def kernel(ctx, inputs, attrs):
        return kernels.shape_vector(lowerings.traced_list(inputs[0], attrs).element_shape, attrs["shape_type"].np)

    def host_kernel(ctx, inputs, attrs):
        return kernels.shape_vector(kernels.as_list(inputs[0]).element_shape, attrs["shape_type"].np)
