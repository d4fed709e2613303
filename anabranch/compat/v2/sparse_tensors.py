"""Functions of version 2 that take sparse tensors as wholes: a function of their values, counts as sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.compat.v2.namespaces import version_2 as _v2
from anabranch.core import errors


@_v2("sparse.map_values")
def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function of values gives for those of sparse tensors, which have the same indices, as a sparse tensor.

    Raises:
        ValueError: no argument is a sparse tensor, or the function gives another number of values.
    """
    sparse = [item for item in (*args, *kwargs.values()) if isinstance(item, tf.SparseTensor)]
    if not sparse:
        raise ValueError("No SparseTensor in argument list of map_values")
    first = sparse[0]
    checks = [tf.debugging.assert_equal(one.dense_shape, first.dense_shape) for one in sparse[1:]]
    checks += [tf.debugging.assert_equal(one.indices, first.indices) for one in sparse[1:]]

    def plain(item: Any) -> Any:
        return item.values if isinstance(item, tf.SparseTensor) else item

    with tf.control_dependencies([check for check in checks if check is not None]):
        values = tf.convert_to_tensor(
            op(*[plain(item) for item in args], **{name: plain(item) for name, item in kwargs.items()})
        )
    if not values.shape[:1].is_compatible_with(first.values.shape[:1]):
        raise ValueError(
            errors.message(
                f"values of shape {values.shape} for {first.values.shape[0]} indices",
                "a value for each index",
                "a function of elements",
            )
        )
    result = tf.SparseTensor(first.indices, values, first.dense_shape)
    result.set_shape(first.shape)
    return result


@_v2("sparse.bincount")
def bincount(
    values: Any,
    weights: Any = None,
    axis: int | None = 0,
    minlength: int | None = None,
    maxlength: int | None = None,
    binary_output: bool = False,
    name: str | None = None,
) -> Any:
    """How often each number from 0 on occurs, as a sparse tensor ``[size]``, or ``[batch, size]`` with ``axis=-1``.

    Args:
        values: integers of at least 0: a tensor, or a sparse tensor of which the stored values count.
        weights: what each value counts for, 1 if None; of the kind of ``values``.
        axis: 0 for all values together, -1 for each row of a matrix.
        minlength: the least size.
        maxlength: the size; larger numbers are left out.
        binary_output: give 1 for what occurs.
        name: name scope.
    """
    if axis not in (0, -1, None):
        raise ValueError(
            f"Unsupported axis value {axis}. Only 0 and -1 are currently supported.\n"
            + errors.message(f"axis={axis}", "0 or -1", "axis=-1")
        )
    if weights is not None and binary_output:
        raise ValueError(
            "Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.\n"
            + errors.message("both of them", "weights or binary_output", "binary_output=False")
        )
    with tf.name_scope(name, "count"):
        rows, numbers, batch, kind = _flat(values, axis == -1)
        tf_one = tf.ones_like(numbers, kind)
        amounts = tf_one if weights is None else tf.reshape(getattr(weights, "values", weights), [-1])
        negative = tf.debugging.assert_non_negative(numbers, message="Input values must all be non-negative!")
        with tf.control_dependencies([] if negative is None else [negative]):
            numbers = tf.identity(numbers)
        if maxlength is not None:
            kept = numbers < maxlength
            rows, numbers, amounts = (tf.boolean_mask(one, kept) for one in (rows, numbers, amounts))
        largest = tf.reduce_max(tf.concat([[tf.constant(-1, tf.int64)], numbers], 0))
        size = tf.maximum(largest + 1, minlength or 0) if not maxlength else tf.constant(maxlength, tf.int64)
        keys = rows * size + numbers
        order = tf.argsort(keys, stable=True)
        found, places = tf.unique(tf.gather(keys, order))
        if binary_output:
            counts = tf.ones_like(found, kind)
        else:
            counts = tf.math.unsorted_segment_sum(tf.gather(amounts, order), places, tf.size(found))
        columns = found % tf.maximum(size, 1)
        if batch is None:
            return tf.SparseTensor(columns[:, tf.newaxis], counts, tf.reshape(size, [1]))
        indices = tf.stack([found // tf.maximum(size, 1), columns], 1)
        return tf.SparseTensor(indices, counts, tf.stack([batch, size]))


def _flat(values: Any, by_row: bool) -> tuple[Any, Any, Any, Any]:
    """The row and the number of each value, int64; how many rows there are, None for one; the dtype of counts."""
    if isinstance(values, tf.SparseTensor):
        numbers = tf.cast(values.values, tf.int64)
        by_row = by_row and values.shape.ndims != 1
        rows = values.indices[:, 0] if by_row else tf.zeros_like(numbers)
        return rows, numbers, values.dense_shape[0] if by_row else None, values.dtype
    values = tf.convert_to_tensor(values)
    numbers = tf.reshape(tf.cast(values, tf.int64), [-1])
    if not by_row or values.shape.ndims == 1:
        return tf.zeros_like(numbers), numbers, None, values.dtype
    sizes = tf.shape(values, out_type=tf.int64)
    return tf.repeat(tf.range(sizes[0]), sizes[1]), numbers, sizes[0], values.dtype
