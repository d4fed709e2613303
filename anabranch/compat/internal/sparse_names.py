"""``python.ops.sparse_ops``: maps of sparse tensors by the op that puts them in; products of sparse matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import anabranch as tf
from anabranch.core import errors
from anabranch.ops.sparse.tensor_maps import AddManySparseToTensorsMap, AddSparseToTensorsMap

_DEFAULT_HASH_KEY = 0xDECAFCAFFE
_MAKERS = (AddSparseToTensorsMap.definition, AddManySparseToTensorsMap.definition)


def _added(many: bool, sp_input: Any, container: str | None, shared_name: str | None, name: str | None) -> Any:
    if isinstance(sp_input, tf.SparseTensorValue):
        sp_input = tf.SparseTensor.from_value(sp_input)
    if not isinstance(sp_input, tf.SparseTensor):
        raise TypeError(
            "Input must be a SparseTensor.\n"
            + errors.message(
                f"a {type(sp_input).__name__}", "a SparseTensor", "tf.SparseTensor(indices, values, shape)"
            )
        )
    parts = (sp_input.indices, sp_input.values, sp_input.dense_shape)
    kind = _MAKERS[many].type_name
    return tf.build_op(kind, *parts, container=container or "", shared_name=shared_name or "", name=name)


def _add_sparse_to_tensors_map(
    sp_input: Any, container: str | None = None, shared_name: str | None = None, name: str | None = None
) -> Any:
    """Put a sparse tensor into a map; its number, an int64 scalar."""
    return _added(False, sp_input, container, shared_name, name)


def _add_many_sparse_to_tensors_map(
    sp_input: Any, container: str | None = None, shared_name: str | None = None, name: str | None = None
) -> Any:
    """Put the rows of a sparse tensor into a map; their numbers, int64 ``[rows]``."""
    return _added(True, sp_input, container, shared_name, name)


def _take_many_sparse_from_tensors_map(
    sparse_map_op: Any, sparse_handles: Any, rank: int | None = None, name: str | None = None
) -> Any:
    """Take sparse tensors out of the map of the operation that put them in; they are rows of one sparse tensor.

    Args:
        sparse_map_op: the operation.
        sparse_handles: numbers ``[rows]``.
        rank: the rank of each of them, if it is known.
        name: name of the operation.
    """
    if not isinstance(sparse_map_op, tf.Operation):
        raise TypeError(
            "sparse_map_op be an Operation\n"
            + errors.message(f"a {type(sparse_map_op).__name__}", "the operation that put tensors in", "handle.op")
        )
    if sparse_map_op.definition not in _MAKERS:
        raise TypeError(
            "sparse_map_op must be one of AddSparseToTensorsMap or AddSparseToTensorsMap. Instead, found "
            f"`{sparse_map_op.type}`.\n"
            + errors.message(
                f"an operation of type {sparse_map_op.type}", "one that puts tensors into a map", "handle.op"
            )
        )
    with tf.colocate_with(sparse_map_op):
        indices, values, sizes = tf.build_op(
            "TakeManySparseFromTensorsMap",
            sparse_handles,
            dtype=sparse_map_op.get_attr("T"),
            container=sparse_map_op.get_attr("container").decode(),
            shared_name=sparse_map_op.get_attr("shared_name").decode() or sparse_map_op.name,
            name=name,
        )
    width = None if rank is None else rank + 1
    indices.set_shape([None, width])
    sizes.set_shape([width])
    return tf.SparseTensor(indices, values, sizes)


def deserialize_sparse(serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None) -> Any:
    """The sparse tensor of serialised ones ``[..., 3]``, with a dimension of its own for each of the leading ones.

    Args:
        serialized_sparse: strings, or variants.
        dtype: dtype of the values.
        rank: rank of the result, if it is known.
        name: name of the operation.
    """
    parts = tf.build_op("DeserializeSparse", serialized_sparse, dtype=dtype, name=name)
    parts[0].set_shape([None, rank])
    parts[2].set_shape([rank])
    return tf.SparseTensor(*parts)


# ------------------------------------------------------------------------------------------ products of sparse matrices
class SparseMatrix(NamedTuple):
    """A sparse matrix, or a batch of them."""

    indices: Any
    values: Any
    dense_shape: Any


def sparse_tensor_to_csr_sparse_matrix(indices: Any, values: Any, dense_shape: Any, name: str | None = None) -> Any:
    """The matrices of the parts of a sparse tensor."""
    del name
    return SparseMatrix(*map(tf.convert_to_tensor, (indices, values, dense_shape)))


def csr_sparse_matrix_to_sparse_tensor(sparse_matrix: Any, type: Any, name: str | None = None) -> Any:
    """The parts of the sparse tensor of matrices."""
    del type, name
    return sparse_matrix


def sparse_matrix_sparse_mat_mul(
    a: Any,
    b: Any,
    type: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Any:
    """Products of sparse matrices: each entry meets those of the row that its column names, and equal places are added.

    Work and memory follow the number of such pairs, not the size of the matrices.
    """
    del type
    with tf.name_scope(name, "sparse_matrix_sparse_mat_mul"):
        rank = a.indices.shape[-1]
        left, right = _entries(a, transpose_a, adjoint_a, rank), _entries(b, transpose_b, adjoint_b, rank)
        inner, columns = right.dense_shape[-2], right.dense_shape[-1]
        starts = _batch(right, rank) * inner + right.indices[:, -2]
        order = tf.argsort(starts, stable=True)
        starts = tf.gather(starts, order)
        wanted = _batch(left, rank) * inner + left.indices[:, -1]
        first = tf.searchsorted(starts, wanted, side="left", out_type=tf.int64)
        meets = tf.searchsorted(starts, wanted, side="right", out_type=tf.int64) - first
        from_left = tf.repeat(tf.range(tf.size(meets)), meets)
        within = tf.range(tf.reduce_sum(meets)) - tf.gather(tf.cumsum(meets, exclusive=True), from_left)
        from_right = tf.gather(order, tf.gather(first, from_left) + within)
        values = tf.gather(left.values, from_left) * tf.gather(right.values, from_right)
        row = tf.gather(_batch(left, rank) * left.dense_shape[-2] + left.indices[:, -2], from_left)
        places, segments = tf.unique(row * columns + tf.gather(right.indices[:, -1], from_right))
        sums = tf.unsorted_segment_sum(values, segments, tf.size(places))
        order = tf.argsort(places)
        shape = tf.concat([left.dense_shape[:-1], [columns]], 0)
        indices = tf.transpose(tf.unravel_index(tf.gather(places, order), shape))
        return SparseMatrix(indices, tf.gather(sums, order), shape)


def _entries(matrix: Any, transpose: bool, adjoint: bool, rank: int) -> SparseMatrix:
    """The entries of matrices as they enter a product."""
    if not (transpose or adjoint):
        return matrix
    turned = [*range(rank - 2), rank - 1, rank - 2]
    values = tf.math.conj(matrix.values) if adjoint else matrix.values
    return SparseMatrix(tf.gather(matrix.indices, turned, axis=1), values, tf.gather(matrix.dense_shape, turned))


def _batch(matrix: SparseMatrix, rank: int) -> Any:
    """For each entry the number of its matrix."""
    return matrix.indices[:, 0] if rank == 3 else tf.zeros_like(matrix.indices[:, 0])
