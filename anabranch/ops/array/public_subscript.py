"""Indexing as programs write it: `x[...]`, slices that can be assigned, `tf.strided_slice`, `tf.boolean_mask`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import OperationCount
from anabranch.core.values import dimensions, dtypes, shapes
from anabranch.ops.array.dense_rows import dense_rows
from anabranch.ops.shared.array_rules import known, shape_of

newaxis = None
_INT32 = 2**31
public("newaxis")(newaxis)


def _is_mask(key: Any) -> bool:
    if isinstance(key, (bool, np.bool_)):
        return True
    dtype = getattr(key, "dtype", None)
    return dtype is not None and dtype in (bool, dtypes.bool) and getattr(key, "shape", None) is not None


def _index(item: Any) -> Any:
    """An index: a Python int, a scalar integer tensor, or an array of no dimensions; TypeError for anything else."""
    kind = type(item)
    if kind is int:
        return item
    dtype = getattr(item, "dtype", None)
    if isinstance(dtype, dtypes.DType):
        if dtype.base in (dtypes.int32, dtypes.int64, dtypes.int16):
            tensor = convert_to_tensor(item)  # a variable, or an object of a class with a registered conversion
            if tensor.shape.ndims in (0, None):
                return tensor
    elif isinstance(item, dimensions.Dimension) and item.value is None:
        pass
    elif hasattr(item, "__index__") and getattr(item, "ndim", 0) == 0 and not isinstance(item, (bool, np.bool_)):
        return int(item.__index__())
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are "
        f"valid indices, got {item!r}\n"
        + errors.message(
            f"{item!r} as an index",
            "an integer, a slice, ..., tf.newaxis or a scalar integer tensor",
            "tf.gather(x, indices) for several indices, tf.boolean_mask(x, mask) for a mask",
        )
    )


def _is_plain(item: Any) -> bool:
    return type(item) is int and -_INT32 <= item < _INT32


def _given(bound: Any) -> bool:
    return bound is not None and not (type(bound) is int and bound == sys.maxsize)


def get_item(tensor: Any, key: Any, var: Any = None) -> Any:
    """`tensor[key]`: ints, slices, `...`, `tf.newaxis`, scalar tensors, or one boolean mask.

    With `var`, the variable whose value `tensor` is, the result has `assign(value)`.
    """
    if _is_mask(key):
        return boolean_mask(tensor, key)
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks: dict[str, Any] = {
        "begin_mask": 0,
        "end_mask": 0,
        "ellipsis_mask": 0,
        "new_axis_mask": 0,
        "shrink_axis_mask": 0,
    }
    for place, item in enumerate(key if isinstance(key, (list, tuple)) else (key,)):
        bit = 1 << place
        step: Any = 1
        start: Any = 0
        stop: Any = 0
        if isinstance(item, slice):
            if _given(item.start):
                start = _index(item.start)
            else:
                masks["begin_mask"] |= bit
            if _given(item.stop):
                stop = _index(item.stop)
            else:
                masks["end_mask"] |= bit
            if item.step is not None:
                step = _index(item.step)
        elif item is Ellipsis:
            masks["ellipsis_mask"] |= bit
        elif item is None:
            masks["new_axis_mask"] |= bit
        else:
            start = _index(item)
            stop = start + 1
            masks["shrink_axis_mask"] |= bit
        begin.append(start)
        end.append(stop)
        strides.append(step)
    values = [tensor, *begin, *end, *strides]
    if begin and isinstance(tensor, Tensor) and tensor.has_value and all(map(_is_plain, values[1:])):
        return strided_slice(tensor, begin, end, strides, **masks, var=var)  # the op has no name: nothing to scope
    with name_scope(None, "strided_slice", [item for item in values if isinstance(item, Tensor)]) as scope:
        if begin:
            spec = [_stacked(items) for items in (begin, end, strides)]
            kinds = {item.dtype.base for item in spec}
            if len(kinds) > 1:
                spec = [
                    item if item.dtype.base == dtypes.int64 else build("Cast", item, DstT=dtypes.int64) for item in spec
                ]
        else:
            spec = [constant([], dtypes.int32)] * 3
        first, last, step = spec
        return strided_slice(tensor, first, last, step, **masks, var=var, name=scope)


_slice_helper = get_item


def _stacked(items: list[Any]) -> Any:
    if all(type(item) is int for item in items):
        return constant(items, name="stack")
    wide = any(isinstance(item, Tensor) and item.dtype.base == dtypes.int64 for item in items)
    if wide:
        items = [
            build("Cast", item, DstT=dtypes.int64)
            if isinstance(item, Tensor) and item.dtype.base != dtypes.int64
            else item
            for item in items
        ]
    return convert_to_tensor(items, dtypes.int64 if wide else None, name="stack")


hooks.fill("get_item", get_item)


@public("strided_slice")
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """`input_[begin:end:strides]` as `x[...]` means it; bit i of a mask is about `begin[i]`, `end[i]`, `strides[i]`.

    Args:
        input_: tensor to slice.
        begin, end, strides: integer vectors of one length; strides of 1 if None.
        begin_mask, end_mask: bits of dimensions in which begin or end do not matter: from or to the very end.
        ellipsis_mask: bit that stands for all dimensions not named (at most one).
        new_axis_mask: bits that put in a dimension of size 1.
        shrink_axis_mask: bits of single indices, whose dimension goes away.
        var: the variable that `input_` is the value of; the result then has `assign(value)`.

    Example:
        >>> import anabranch as tf
        >>> tf.strided_slice(tf.zeros([4, 6]), [1, 0], [3, 6], [1, 2]).shape.as_list()
        [2, 3]
    """
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    if strides is None:
        begin = convert_to_tensor(begin)
        strides = build("OnesLike", begin)
    part = build("StridedSlice", input_, begin, end, strides, name=name, **masks)
    if var is None:
        if part._maker is not None:
            part.assign = _only_of_variables
    else:
        scope = part.op.name

        def assign(value: Any, name: str | None = None) -> Any:
            """Assign `value` to this slice of the variable."""
            return var._strided_slice_assign(
                begin=begin, end=end, strides=strides, value=value, name=name or scope + "_assign", **masks
            )

        part.assign = assign
    return part


def _only_of_variables(value: Any, name: str | None = None) -> None:
    """Refuse to assign to a slice of a tensor."""
    raise ValueError(
        "Sliced assignment is only supported for variables\n"
        + errors.message(
            "a slice of a tensor, which is a value",
            "a slice of a tf.Variable",
            "tf.tensor_scatter_update(tensor, indices, updates), or tf.Variable(tensor)[...].assign(value)",
        )
    )


@public("boolean_mask")
def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: Any = None) -> Any:
    """The elements (or slices) of `tensor` at which `mask` is true, in order, along one dimension.

    Args:
        tensor: tensor `[n0, n1, ...]`.
        mask: boolean tensor of known rank k; its shape is that of k dimensions of `tensor` from `axis` on.
        name: name of the scope.
        axis: where the masked dimensions begin; 0 if None.

    Returns:
        A tensor in which these k dimensions are one, of as many entries as `mask` has true ones.

    Raises:
        ValueError: `mask` is a scalar, its rank is not known, or the shapes do not fit.
    """
    with name_scope(name, "boolean_mask", [item for item in (tensor, mask) if isinstance(item, Tensor)]):
        tensor = convert_to_tensor(tensor, name="tensor")
        mask = convert_to_tensor(mask, name="mask")
        counted = OperationCount()
        raw_mask, raw = mask._shape, tensor._shape
        if raw_mask is None or not raw_mask:
            heading = (
                "mask cannot be scalar."
                if raw_mask is not None
                else (
                    "Number of mask dimensions must be specified, even if some dimensions are None. "
                    "E.g. shape=[None] is ok, but shape=None is not."
                )
            )
            raise ValueError(
                heading
                + "\n"
                + errors.message(
                    f"mask of shape {shapes.show(raw_mask)}",
                    "a mask of known rank, 1 or more",
                    "mask.set_shape([None])",
                )
            )
        count = len(raw_mask)
        first = 0
        if axis is not None:
            from_axis = np.asarray(axis) if not isinstance(axis, Tensor) else known(axis)
            if from_axis is None:
                raise ValueError(
                    errors.message(
                        f"axis {axis!r}", "an axis known while the graph is built", "a Python int, such as axis=0"
                    )
                )
            first = int(from_axis)
            if first < 0:
                if raw is None:
                    raise ValueError(
                        errors.message(
                            f"axis {first}, a tensor of unknown rank",
                            "a tensor of known rank",
                            "tensor.set_shape([None, None])",
                        )
                    )
                first += len(raw)
        if raw is not None:
            shapes.TensorShape(raw[first : first + count]).assert_is_compatible_with(raw_mask)
        # A mask of several dimensions is one of a single dimension once those of the tensor are joined.
        if count > 1:
            dims = shape_of(tensor)
            size = build("Prod", build("Slice", dims, [first], [count]), [0])
            joined = build(
                "ConcatV2",
                [
                    build("Slice", dims, [0], [first]),
                    build("Reshape", size, [1]),
                    build("StridedSlice", dims, [first + count], [0], [1], end_mask=1),
                ],
                0,
            )
            tensor = build("Reshape", tensor, joined)
            if raw is not None:
                whole = shapes.num_elements(raw[first : first + count])
                tensor.set_shape((*raw[:first], whole, *raw[first + count :]))
            mask = build("Reshape", mask, [-1])
        places = build("Squeeze", build("Where", mask), squeeze_dims=[1])
        taken = dense_rows(tensor, places, first) if count == 1 else build("GatherV2", tensor, places, first)
        counted.set(27)
        return taken
