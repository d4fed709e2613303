"""``tf.sparse_*`` and ``tf.sparse.*``: functions of sparse tensors.

Policy. A function takes a `SparseTensor` or a `SparseTensorValue` and says so when it gets something else; static
shapes travel where they are known. Names, argument spellings and results are TensorFlow's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor, as_sparse, is_sparse
from anabranch.core.values import dtypes, shapes


def _one_of(first: Any, second: Any, names: tuple[str, str]) -> Any:
    """The one of two spellings of an argument that is given."""
    if first is not None and second is not None:
        raise ValueError(f"Cannot specify both '{names[0]}' and '{names[1]}'")
    return second if first is None else first


def _parts(sparse: SparseTensor) -> tuple[Any, Any, Any]:
    return sparse.indices, sparse.values, sparse.dense_shape


def _with_shape(sparse: SparseTensor, raw: shapes.RawShape) -> SparseTensor:
    sparse._static = raw
    return sparse


# -------------------------------------------------------------------------------------------------- order and reshaping
@public("sparse_reorder", "sparse.reorder")
def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The same sparse tensor with coordinates in row-major order."""
    sparse = as_sparse(sp_input)
    indices, values = build("SparseReorder", *_parts(sparse), name=name)
    if sparse.get_shape().is_fully_defined():
        return SparseTensor(indices, values, convert.constant(list(sparse._raw() or ()), dtypes.int64))
    return _with_shape(SparseTensor(indices, values, build("Identity", sparse.dense_shape)), sparse._raw())


@public("sparse_reshape", "sparse.reshape")
def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another dense shape; one dimension of ``shape`` may be -1.

    Raises:
        ValueError: sizes that are known do not go together.
    """
    sparse = as_sparse(sp_input)
    _check_sizes(sparse, partial_value(shape) if isinstance(shape, Tensor) else shape)
    shape = convert.convert_to_tensor(shape, name="shape")
    if shape.dtype.base != dtypes.int64:
        shape = build("Cast", shape, DstT="int64")
    with name_scope(name, "SparseReshape", [sparse]) as scope:
        indices, new_shape = build("SparseReshape", sparse.indices, sparse.dense_shape, shape, name=scope)
        return SparseTensor(indices, sparse.values, new_shape)


def _check_sizes(sparse: SparseTensor, shape: Any) -> None:
    """Refuse a shape of another number of elements, as far as both are known."""
    own = sparse.get_shape().raw
    wanted = list(shape) if isinstance(shape, (list, tuple, np.ndarray)) and np.ndim(shape) == 1 else [None]
    if own is None or None in own or not all(isinstance(size, (int, np.integer)) for size in wanted):
        return
    if wanted.count(-1) > 1:
        raise ValueError(
            f"At most one dimension can be inferred (-1). Found: {wanted}\n"
            + errors.message(f"shape={wanted}", "at most one -1", "give the other sizes")
        )
    total, known_size = math.prod(size or 0 for size in own), math.prod(size for size in wanted if size != -1)
    size = total // known_size * known_size if -1 in wanted and known_size else known_size
    if size != total:
        raise ValueError(
            f"Cannot reshape a tensor with {total} elements to shape {wanted} ({size} elements).\n"
            + errors.message(f"shape={wanted} for {list(own)}", "a shape of as many elements", "tf.sparse_reset_shape")
        )


@public("sparse_transpose", "sparse.transpose")
def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Dimensions in the order ``perm``, reversed if None; the result is in row-major order."""
    with name_scope(name, "SparseTranspose", [sp_input]):
        sparse = as_sparse(sp_input)
        if perm is None:
            rank = sparse.get_shape().ndims
            if rank is not None:
                perm = list(range(rank - 1, -1, -1))
            else:
                count = build("Size", sparse.dense_shape)
                perm = build("Sub", build("Sub", count, 1), build("Range", 0, count, 1))
        indices = build("GatherV2", sparse.indices, perm, 1)
        dense_shape = build("GatherV2", sparse.dense_shape, perm, 0)
        return sparse_reorder(SparseTensor(indices, sparse.values, dense_shape))


@public("sparse.expand_dims")
def sparse_expand_dims(sp_input: Any, axis: int | None = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor with a new dimension of size 1 at ``axis`` (the last one if None)."""
    sparse = as_sparse(sp_input)
    rank = sparse.get_shape().ndims
    if rank is None:
        raise ValueError(
            errors.message(
                "a sparse tensor of unknown rank", "a sparse tensor of known rank", "tf.sparse_reshape(x, ...)"
            )
        )
    place = -1 if axis is None else axis
    if not -rank - 1 <= place <= rank:
        raise ValueError(
            errors.message(f"axis {axis} of rank {rank}", f"an axis from {-rank - 1} to {rank}", "axis=-1")
        )
    place += rank + 1 if place < 0 else 0
    with name_scope(name, "expand_dims", [sparse]):
        zeros = build("ZerosLike", build("Slice", sparse.indices, [0, 0], [-1, 1]))
        indices = [
            build("Slice", sparse.indices, [0, 0], [-1, place]),
            zeros,
            build("Slice", sparse.indices, [0, place], [-1, -1]),
        ]
        size = [
            build("Slice", sparse.dense_shape, [0], [place]),
            np.array([1], np.int64),
            build("Slice", sparse.dense_shape, [place], [-1]),
        ]
        return SparseTensor(build("ConcatV2", indices, 1), sparse.values, build("ConcatV2", size, 0))


# ------------------------------------------------------------------------------------------------------ joined and cut
@public("sparse_concat", "sparse.concat")
def sparse_concat(
    axis: int | None = None,
    sp_inputs: Sequence[Any] = (),
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Sparse tensors joined along a dimension, in row-major order.

    Args:
        axis: the dimension; ``concat_dim`` is its old name.
        sp_inputs: list of sparse tensors of one rank.
        name: name of the op.
        expand_nonconcat_dim: whether other dimensions may differ: the largest counts. ``expand_nonconcat_dims`` is its
            new name.
    """
    axis = _one_of(axis, concat_dim, ("axis", "concat_dim"))
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    inputs = [as_sparse(item, f"sp_inputs[{i}]") for i, item in enumerate(sp_inputs)]
    if len(inputs) == 1:
        return inputs[0]
    if not inputs or axis is None:
        raise ValueError(
            errors.message("no sparse tensors, or no axis", "sparse tensors and an axis", "tf.sparse_concat(0, [a, b])")
        )
    sizes = [item.dense_shape for item in inputs]
    if expand:
        largest = build("Max", build("Pack", sizes, axis=0), [0])
        rank = inputs[0].get_shape().ndims
        sizes = [_replaced(largest, size, axis, rank) for size in sizes]
    joined = build(
        "SparseConcat",
        [item.indices for item in inputs],
        [item.values for item in inputs],
        sizes,
        concat_dim=axis,
        name=name,
    )
    statics = [item._raw() for item in inputs]
    result = SparseTensor(*joined)
    if all(raw is not None for raw in statics) and not expand:
        known: list[int | None] = []
        place = axis % len(statics[0] or (0,))
        for d, column in enumerate(zip(*[raw or () for raw in statics], strict=True)):
            if d == place:
                known.append(None if None in column else sum(int(size or 0) for size in column))
            else:
                known.append(next((size for size in column if size is not None), None))
        return _with_shape(result, tuple(known))
    return result


def _replaced(largest: Any, size: Any, axis: int, rank: int | None) -> Any:
    """``largest`` with the element ``axis`` of ``size``."""
    place = axis + rank if axis < 0 and rank is not None else axis
    if place < 0:
        raise ValueError(
            errors.message(
                f"axis {axis} of unknown rank",
                "sparse tensors of known rank",
                "an axis counted from the front, such as axis=1",
            )
        )
    own = build("Slice", size, [place], [1])
    return build(
        "ConcatV2", [build("Slice", largest, [0], [place]), own, build("Slice", largest, [place + 1], [-1])], 0
    )


@public("sparse_split", "sparse.split")
def sparse_split(
    keyword_required: Any = None,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """A sparse tensor cut into ``num_split`` parts along ``axis`` (``split_dim`` is its old name); keywords only."""
    if is_sparse(keyword_required) and sp_input is None:
        sp_input = keyword_required
    elif keyword_required is not None and not is_sparse(keyword_required):
        raise ValueError(
            "Keyword arguments are required for this function.\n"
            + errors.message(
                f"{keyword_required!r} as the first argument",
                "keywords only",
                "tf.sparse_split(sp_input=x, num_split=2, axis=0)",
            )
        )
    if sp_input is None or num_split is None:
        raise ValueError(
            f"{'sp_input' if sp_input is None else 'num_split'} is required\n"
            + errors.message(
                "one of them missing", "both sp_input and num_split", "tf.sparse_split(sp_input=x, num_split=2, axis=0)"
            )
        )
    axis = _one_of(axis, split_dim, ("axis", "split_dim"))
    if axis is None:
        raise ValueError("axis is required\n" + errors.message("no axis", "a dimension", "axis=0"))
    sparse = as_sparse(sp_input)
    parts = build("SparseSplit", axis, *_parts(sparse), num_split=num_split, name=name)
    flat = [item for part in parts for item in (part if isinstance(part, (list, tuple)) else [part])]
    return [SparseTensor(flat[i], flat[num_split + i], flat[2 * num_split + i]) for i in range(num_split)]


@public("sparse_slice", "sparse.slice")
def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of a sparse tensor that begins at ``start`` and has at most ``size``."""
    sparse = as_sparse(sp_input)
    start = convert.convert_to_tensor(start, dtypes.int64)
    size = convert.convert_to_tensor(size, dtypes.int64)
    with name_scope(name, "SparseSlice", [sparse]) as scope:
        return SparseTensor(*build("SparseSlice", *_parts(sparse), start, size, name=scope))


@public("sparse_retain", "sparse.retain")
def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The stored elements where the bool vector ``to_retain`` is true."""
    sparse = as_sparse(sp_input)
    to_retain = convert.convert_to_tensor(to_retain)
    if sparse.values._shape is not None and to_retain._shape is not None:
        sparse.values.get_shape()[0].merge_with(to_retain.get_shape()[0])
    where = build("Reshape", build("Where", to_retain), [-1])
    return _with_shape(
        SparseTensor(
            build("GatherV2", sparse.indices, where, 0),
            build("GatherV2", sparse.values, where, 0),
            build("Identity", sparse.dense_shape),
        ),
        sparse._raw(),
    )


@public("sparse_reset_shape", "sparse.reset_shape")
def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same elements in a larger dense shape of the same rank, or in the smallest that holds them if None.

    Raises:
        ValueError, InvalidArgumentError (when it runs): ``new_shape`` is smaller, or of another rank.
    """
    sparse = as_sparse(sp_input)
    indices, values = build("Identity", sparse.indices), build("Identity", sparse.values)
    if new_shape is None:
        rank = sparse.get_shape().ndims
        # With nothing stored the largest coordinate of each dimension is -1.
        low = build("Sub", build("ZerosLike", build("Reshape", sparse.dense_shape, [1, -1])), np.int64(1))
        dense_shape = build("Add", build("Max", build("ConcatV2", [indices, low], 0), [0]), np.int64(1))
        if rank is not None:
            dense_shape.set_shape([rank])
        return SparseTensor(indices, values, dense_shape)
    new_shape = convert.convert_to_tensor(new_shape, dtypes.int64)
    given, own = new_shape._shape, sparse.dense_shape._shape
    if given is not None and own is not None and given[0] is not None and own[0] is not None and given[0] != own[0]:
        raise ValueError(
            f"Dimensions {given[0]} and {own[0]} are not compatible\n"
            + errors.message(
                f"new_shape of {given[0]} dimensions", f"{own[0]}, as before", "tf.sparse_reshape(x, shape)"
            )
        )
    known = _known_vector(new_shape)
    old = sparse._raw()
    if known is not None and old is not None and any(n < (o or 0) for n, o in zip(known, old, strict=False)):
        raise ValueError(
            f"Requested new_shape should have dimension sizes >= sp_input.shape.  Found new_shape {list(known)}, "
            f"sp_input.shape {list(old)}.\n"
            + errors.message(f"new_shape={list(known)}", f"at least {list(old)}", "tf.sparse_slice(x, ...) to cut")
        )
    if known is None or old is None or None in old:
        fits = build("All", build("LessEqual", sparse.dense_shape, new_shape), [0])
        check = build(
            "Assert", fits, [np.array(b"new_shape is smaller than the sparse tensor's shape", object), new_shape]
        )
        with new_shape.graph.control_dependencies([check]):
            new_shape = build("Identity", new_shape)
    return SparseTensor(indices, values, new_shape)


def _known_vector(tensor: Any) -> tuple[int, ...] | None:
    array = partial_value(tensor)
    return tuple(array.tolist()) if isinstance(array, np.ndarray) else None


@public("sparse_fill_empty_rows", "sparse.fill_empty_rows")
def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Each row that stores nothing gets ``default_value`` at its first place.

    Returns:
        The sparse tensor, and a bool vector: which rows were empty.
    """
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [sparse]):
        default = convert.convert_to_tensor(default_value, sparse.values.dtype.base)
        indices, values, empty, _ = build("SparseFillEmptyRows", *_parts(sparse), default)
        return _with_shape(SparseTensor(indices, values, sparse.dense_shape), sparse._raw()), empty


# --------------------------------------------------------------------------------------------------- dense and sparse
@public("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """A dense tensor with ``sparse_values`` at ``sparse_indices`` and ``default_value`` elsewhere.

    Args:
        sparse_indices: coordinates, ``[n, rank]``; a vector for a vector, a scalar for one element of it.
        output_shape: the dense shape, of the same dtype.
        sparse_values: a vector ``[n]``, or one scalar for all.
        default_value: a scalar.
        validate_indices: whether coordinates must be in row-major order without repetition.
        name: name of the op.
    """
    sparse_indices, output_shape = _same_integers(sparse_indices, output_shape)
    return build(
        "SparseToDense",
        sparse_indices,
        output_shape,
        sparse_values,
        default_value,
        validate_indices=validate_indices,
        name=name,
    )


def _same_integers(indices: Any, shape: Any) -> tuple[Any, Any]:
    if (
        isinstance(shape, (list, tuple))
        and isinstance(indices, Tensor)
        and not any(isinstance(s, Tensor) for s in shape)
    ):
        return indices, convert.convert_to_tensor(shape, indices.dtype.base)
    return indices, shape


@public("sparse_tensor_to_dense", "sparse.to_dense")
def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """The dense tensor, with ``default_value`` (0 or ``""`` if None) where nothing is stored.

    Coordinates must be in row-major order without repetition, unless ``validate_indices`` is False.
    """
    sparse = as_sparse(sp_input)
    if default_value is None:
        default_value = b"" if sparse.dtype.base is dtypes.string else np.zeros((), sparse.dtype.base.np)
    elif default_value == 0 and sparse.dtype.base is dtypes.string and not isinstance(default_value, Tensor):
        raise TypeError(errors.message("default_value=0 for strings", "a string", 'default_value=""'))
    dense = sparse_to_dense(
        sparse.indices,
        sparse.dense_shape,
        sparse.values,
        convert.convert_to_tensor(default_value, sparse.dtype.base),
        validate_indices,
        name,
    )
    dense.set_shape(sparse._raw())
    return dense


@public("sparse.from_dense")
def sparse_from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements of a dense tensor that are not 0 (or ``""``), in row-major order."""
    with name_scope(name, "dense_to_sparse", [tensor]):
        tensor = convert.convert_to_tensor(tensor)
        nothing = b"" if tensor.dtype.base is dtypes.string else np.zeros((), tensor.dtype.base.np)
        indices = build("Where", build("NotEqual", tensor, convert.constant(nothing, tensor.dtype.base)))
        return SparseTensor(indices, build("GatherNd", tensor, indices), build("Shape", tensor, out_type="int64"))


@public("sparse.eye")
def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """The identity matrix ``[num_rows, num_columns]`` as a sparse tensor."""
    with name_scope(name, "eye", [num_rows, num_columns]):
        rows = convert.convert_to_tensor(num_rows, dtypes.int64)
        columns = rows if num_columns is None else convert.convert_to_tensor(num_columns, dtypes.int64)
        diagonal = build("Range", np.int64(0), build("Minimum", rows, columns), np.int64(1))
        ones = build("Fill", build("Shape", diagonal), convert.constant(1, dtype))
        return SparseTensor(build("Pack", [diagonal, diagonal], axis=1), ones, build("Pack", [rows, columns]))


@public("sparse_tensor_dense_matmul", "sparse.sparse_dense_matmul", "sparse.matmul")
def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Product of a sparse matrix and a dense one, each transposed and conjugated if asked for.

    Example:
        >>> import anabranch as tf
        >>> a = tf.SparseTensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
        >>> with tf.Session() as session:
        ...     session.run(tf.sparse_tensor_dense_matmul(a, [[1.0], [10.0]])).tolist()
        [[20.0], [3.0]]
    """
    sparse = as_sparse(sp_a, "sp_a")
    with name_scope(name, "SparseTensorDenseMatMul", [sparse, b]):
        dense = convert.convert_to_tensor(b, sparse.dtype.base, "b")
        return build("SparseTensorDenseMatMul", *_parts(sparse), dense, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


@public("sparse_add", "sparse.add")
def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """Sum of two tensors, at least one of them sparse; the result is sparse if both are.

    Args:
        a, b: sparse or dense tensors of one dense shape.
        threshold: where both tensors are sparse and store something, sums whose size is below it are left out; 0
            keeps all. ``thresh`` is its old name.
    """
    threshold = _one_of(threshold, thresh, ("threshold", "thresh"))
    threshold = 0 if threshold is None else threshold
    if not is_sparse(a) and not is_sparse(b):
        raise TypeError(
            "At least one input should be SparseTensor; do you mean to use tf.add()?\n"
            + errors.message("two dense tensors", "a sparse one", "tf.add(a, b)")
        )
    if is_sparse(a) and is_sparse(b):
        first, second = as_sparse(a, "a"), as_sparse(b, "b")
        real = first.dtype.base.real_dtype
        threshold = convert.convert_to_tensor(threshold, real, "thresh")
        total = SparseTensor(*build("SparseAdd", *_parts(first), *_parts(second), threshold))
        return _with_shape(total, shapes.merge(first._raw(), second._raw()))
    sparse, dense = (a, b) if is_sparse(a) else (b, a)
    sparse = as_sparse(sparse)
    return build("SparseTensorDenseAdd", *_parts(sparse), convert.convert_to_tensor(dense, sparse.dtype.base))


def _extremum(type_name: str, sp_a: Any, sp_b: Any, name: str | None) -> SparseTensor:
    first, second = as_sparse(sp_a, "sp_a"), as_sparse(sp_b, "sp_b")
    with name_scope(name, type_name, [first, second]) as scope:
        indices, values = build(type_name, *_parts(first), *_parts(second), name=scope)
    return _with_shape(SparseTensor(indices, values, first.dense_shape), first._raw())


@public("sparse_maximum", "sparse.maximum")
def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The larger one of two sparse tensors where either stores something; the other is 0 there."""
    return _extremum("SparseSparseMaximum", sp_a, sp_b, name)


@public("sparse_minimum", "sparse.minimum")
def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The smaller one of two sparse tensors where either stores something; the other is 0 there."""
    return _extremum("SparseSparseMinimum", sp_a, sp_b, name)


@public("sparse_softmax", "sparse.softmax")
def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Softmax over the stored elements of each row of the last dimension."""
    sparse = as_sparse(sp_input)
    with name_scope(name, "SparseSoftmax", [sparse]) as scope:
        values = build("SparseSoftmax", *_parts(sparse), name=scope)
        return _with_shape(SparseTensor(sparse.indices, values, sparse.dense_shape), sparse._raw())


# ---------------------------------------------------------------------------------------------------------- reductions
def _reduced(type_name: str, sp_input: Any, axis: Any, keepdims: Any, reduction_axes: Any, keep_dims: Any) -> Any:
    axis = _one_of(axis, reduction_axes, ("axis", "reduction_axes"))
    keep = bool(_one_of(keepdims, keep_dims, ("keepdims", "keep_dims")) or False)
    sparse = as_sparse(sp_input)
    if axis is None:
        rank = sparse.get_shape().ndims
        axis = list(range(rank)) if rank is not None else build("Range", 0, build("Size", sparse.dense_shape), 1)
    return build(type_name, *_parts(sparse), axis, keep_dims=keep)


@public("sparse_reduce_sum", "sparse.reduce_sum")
def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Tensor:
    """Sums of a sparse tensor over dimensions (all if None), as a dense tensor."""
    return _reduced("SparseReduceSum", sp_input, axis, keepdims, reduction_axes, keep_dims)


@public("sparse_reduce_max", "sparse.reduce_max")
def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Tensor:
    """The largest stored elements over dimensions (all if None), as a dense tensor; 0 where nothing is stored."""
    return _reduced("SparseReduceMax", sp_input, axis, keepdims, reduction_axes, keep_dims)


@public("sparse_reduce_sum_sparse", "sparse.reduce_sum_sparse")
def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> SparseTensor:
    """Sums of a sparse tensor over dimensions (all if None), as a sparse tensor."""
    return SparseTensor(*_reduced("SparseReduceSumSparse", sp_input, axis, keepdims, reduction_axes, keep_dims))


@public("sparse_reduce_max_sparse", "sparse.reduce_max_sparse")
def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> SparseTensor:
    """The largest stored elements over dimensions (all if None), as a sparse tensor."""
    return SparseTensor(*_reduced("SparseReduceMaxSparse", sp_input, axis, keepdims, reduction_axes, keep_dims))


# ------------------------------------------------------------------------------------------------------- as strings
@public("serialize_sparse", "io.serialize_sparse")
def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """A sparse tensor as a vector of three strings."""
    return build("SerializeSparse", *_parts(as_sparse(sp_input)), out_type=out_type, name=name)


@public("serialize_many_sparse", "io.serialize_many_sparse")
def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """The rows of a sparse tensor as strings ``[rows, 3]``."""
    return build("SerializeManySparse", *_parts(as_sparse(sp_input)), out_type=out_type, name=name)


@public("deserialize_many_sparse", "io.deserialize_many_sparse")
def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """A sparse tensor of the rows that strings ``[rows, 3]`` hold; ``rank`` is that of the result, if known."""
    indices, values, dense_shape = build("DeserializeManySparse", serialized_sparse, dtype=dtype, name=name)
    if rank is not None:
        indices.set_shape([None, rank])
        dense_shape.set_shape([rank])
    return SparseTensor(indices, values, dense_shape)
