"""``tf.contrib.reduce_slice_ops``: sums, products and extremes of slices along an axis, which may overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public


def _reduced(kind: Callable[..., Any], data: Any, indices: Any, axis: Any, name: str | None, scope: str) -> Any:
    with tf.name_scope(name, scope, [data, indices, axis]):
        data = tf.convert_to_tensor(data, name="data")
        indices = tf.convert_to_tensor(indices, name="indices")
        rank = indices.shape.ndims
        if rank not in (1, 2) or (rank == 2 and not indices.shape[1].is_compatible_with(2)):
            raise ValueError(
                errors.message(
                    f"indices of shape {indices.shape}",
                    "pairs [slices, 2] of first and last places, or a vector of places between slices",
                    "indices=[[0, 2], [1, 3]]",
                )
            )
        starts, ends = (indices[:-1], indices[1:]) if rank == 1 else (indices[:, 0], indices[:, 1])
        place = tf.contrib.util.constant_value(tf.convert_to_tensor(axis))
        if place is None:
            raise ValueError(errors.message("an axis that a step computes", "a known axis", "axis=0"))
        place = int(place)
        size = tf.cast(tf.shape(data)[place], indices.dtype)
        starts = tf.maximum(starts, 0)
        lengths = tf.maximum(tf.minimum(ends, size) - starts, 0)
        count = tf.size(lengths)
        numbers = tf.repeat(tf.range(count), lengths)
        within = tf.range(tf.reduce_sum(lengths)) - tf.gather(tf.cumsum(lengths, exclusive=True), numbers)
        rows = tf.gather(data, tf.gather(starts, numbers) + within, axis=place)
        if place == 0:
            return kind(rows, numbers, count)
        order = None if data.shape.ndims is None else list(range(data.shape.ndims))
        if order is None:
            raise ValueError(errors.message("data of unknown rank", "data of a known rank", "data.set_shape(shape)"))
        order.insert(0, order.pop(place))
        back = sorted(range(len(order)), key=order.__getitem__)
        return tf.transpose(kind(tf.transpose(rows, order), numbers, count), back)


@public("contrib.reduce_slice_ops.reduce_slice_sum")
def reduce_slice_sum(data: Any, indices: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Sums of slices along an axis; of an empty slice 0.

    Args:
        data: at least of rank 1.
        indices: ``[slices, 2]``, the first place of each slice and the one after its last (places beyond the end are
            the end); or a vector, between whose elements the slices are.
        axis: the axis, which becomes one of the slices; it must be known when the graph is built.
        name: of the operations.

    Raises:
        ValueError: indices of another rank, or an axis that is not known.

    >>> with tf.Session() as session:
    ...     data = [[1, 2], [40, 50], [700, 800]]
    ...     print(session.run(tf.contrib.reduce_slice_ops.reduce_slice_sum(data, [[0, 1], [1, 1], [0, 9]], 0)))
    [[  1   2]
     [  0   0]
     [741 852]]
    """
    return _reduced(tf.unsorted_segment_sum, data, indices, axis, name, "ReduceSliceSum")


@public("contrib.reduce_slice_ops.reduce_slice_prod")
def reduce_slice_prod(data: Any, indices: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Products of slices along an axis; of an empty slice 1. Arguments are those of :func:`reduce_slice_sum`."""
    return _reduced(tf.unsorted_segment_prod, data, indices, axis, name, "ReduceSliceProd")


@public("contrib.reduce_slice_ops.reduce_slice_max")
def reduce_slice_max(data: Any, indices: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Largest elements of slices along an axis; of an empty slice the least number of the dtype.

    Arguments are those of :func:`reduce_slice_sum`.
    """
    return _reduced(tf.unsorted_segment_max, data, indices, axis, name, "ReduceSliceMax")


@public("contrib.reduce_slice_ops.reduce_slice_min")
def reduce_slice_min(data: Any, indices: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Smallest elements of slices along an axis; of an empty slice the greatest number of the dtype.

    Arguments are those of :func:`reduce_slice_sum`.
    """
    return _reduced(tf.unsorted_segment_min, data, indices, axis, name, "ReduceSliceMin")


__getattr__, __dir__ = api.module_attributes("contrib.reduce_slice_ops")
