"""``python.ops.sparse_ops``: maps of sparse tensors, by the operation that puts them in, and the key of crosses."""

from __future__ import annotations

from typing import Any

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
