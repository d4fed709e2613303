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


@_v2("sparse.sparse_dense_matmul")
def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """Product of two matrices of which one is sparse, each transposed and conjugated if asked for."""
    if isinstance(sp_a, tf.SparseTensor) or not isinstance(b, tf.SparseTensor):
        return tf.sparse.sparse_dense_matmul(sp_a, b, adjoint_a, adjoint_b, name)
    dense = tf.convert_to_tensor(sp_a, b.dtype)
    turned = tf.sparse.sparse_dense_matmul(b, dense, not adjoint_b, not adjoint_a, name)
    return tf.linalg.adjoint(turned)


@_v2("map_fn")
def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """``fn`` applied to each row of ``elems``, dense, sparse or ragged; the results stacked along a new dimension."""
    options = (parallel_iterations, back_prop, swap_memory, infer_shape, name)
    leaves = tf.nest.flatten(elems)
    if not any(isinstance(leaf, tf.SparseTensor | tf.RaggedTensor) for leaf in leaves):
        return tf.map_fn(fn, elems, dtype, *options, fn_output_signature)
    signature = dtype if fn_output_signature is None else fn_output_signature

    def of_row(number: Any) -> Any:
        return fn(tf.nest.pack_sequence_as(elems, [_row(leaf, number) for leaf in leaves]))

    first = leaves[0]
    if isinstance(first, tf.SparseTensor):
        count = first.dense_shape[0]
    elif isinstance(first, tf.RaggedTensor):
        count = first.nrows(tf.int64)
    else:
        count = tf.shape(first, out_type=tf.int64)[0]
    if signature is not None:
        return tf.map_fn(of_row, tf.range(count), signature, *options)
    if len(leaves) > 1 or not isinstance(first, tf.RaggedTensor) or first.ragged_rank > 1:
        raise ValueError(
            errors.message(
                "elems of tf.map_fn that are sparse or ragged, without the dtype of what the function gives",
                "fn_output_signature",
                "tf.map_fn(fn, elems, fn_output_signature=tf.float32)",
            )
        )
    return _ragged_rows(of_row, count, first.dtype)


def _ragged_rows(of_row: Callable[[Any], Any], count: Any, dtype: Any) -> Any:
    """The ragged tensor whose rows a function of their numbers gives."""

    def rows_of(kind: Any) -> Any:
        return tf.TensorArray(kind, tf.cast(count, tf.int32), infer_shape=False)

    def step(number: Any, rows: Any, lengths: Any) -> Any:
        row = tf.convert_to_tensor(of_row(number), dtype)
        place = tf.cast(number, tf.int32)
        return number + 1, rows.write(place, row), lengths.write(place, tf.shape(row, out_type=tf.int64)[0])

    start = tf.zeros([], tf.int64), rows_of(dtype), rows_of(tf.int64)
    _, rows, lengths = tf.while_loop(lambda number, *_: number < count, step, start)
    return tf.RaggedTensor.from_row_lengths(rows.concat(), lengths.stack(), validate=False)


class DynamicRaggedShape:
    """The shape of a ragged tensor: the sizes of its dimensions, but for the ragged ones.

    Args:
        ragged: the tensor.
        out_type: the dtype of the sizes.
    """

    def __init__(self, ragged: Any, out_type: Any) -> None:
        self._ragged, self._dtype = ragged, out_type

    @property
    def rank(self) -> Any:
        """How many dimensions there are."""
        return self._ragged.shape.ndims

    def __getitem__(self, axis: int) -> Any:
        """The size of a dimension.

        Raises:
            ValueError: it is ragged.
        """
        ragged = self._ragged
        if axis < 0 and self.rank is not None:
            axis += self.rank
        if axis == 0:
            return ragged.nrows(self._dtype)
        if 0 < axis <= ragged.ragged_rank:
            raise ValueError(
                f"Index {axis} is not uniform\n"
                + errors.message(f"the size of the ragged dimension {axis}", "a uniform one", "x.row_lengths()")
            )
        return tf.shape(ragged.flat_values, out_type=self._dtype)[axis - ragged.ragged_rank]


def _row(leaf: Any, number: Any) -> Any:
    """A row of a tensor, which has a dimension less."""
    if isinstance(leaf, tf.RaggedTensor):
        return leaf[number]
    if not isinstance(leaf, tf.SparseTensor):
        return tf.gather(leaf, number)
    sparse = leaf
    its = tf.equal(sparse.indices[:, 0], number)
    indices, values = tf.boolean_mask(sparse.indices, its), tf.boolean_mask(sparse.values, its)
    row = tf.SparseTensor(indices[:, 1:], values, sparse.dense_shape[1:])
    if sparse.shape.ndims is not None:
        row.set_shape(sparse.shape[1:])
    return row


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
        values: integers of at least 0: a tensor, a ragged one, or a sparse one of which the stored values count.
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
    if isinstance(values, tf.RaggedTensor):
        numbers = tf.cast(values.flat_values, tf.int64)
        if not by_row:
            return tf.zeros_like(numbers), numbers, None, values.dtype
        return tf.cast(values.value_rowids(), tf.int64), numbers, values.nrows(tf.int64), values.dtype
    values = tf.convert_to_tensor(values)
    numbers = tf.reshape(tf.cast(values, tf.int64), [-1])
    if not by_row or values.shape.ndims == 1:
        return tf.zeros_like(numbers), numbers, None, values.dtype
    sizes = tf.shape(values, out_type=tf.int64)
    return tf.repeat(tf.range(sizes[0]), sizes[1]), numbers, sizes[0], values.dtype
