"""Arrays, sparse tensors, variables and random numbers under version 2's argument lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes

import anabranch as tf
from anabranch.compat.v2.namespaces import version_2 as _v2
from anabranch.core.graph.build import build
from anabranch.core.graph.tensor import TensorLike
from anabranch.variables.variable import Variable as AnyVariable
from anabranch.variables.variable import make_variable


class _VariableType(type):
    """The type of :class:`Variable`: every variable is an instance, whichever version's name it was made under."""

    def __call__(
        cls,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: str | None = None,
        constraint: Any = None,
        synchronization: Any = tf.VariableSynchronization.AUTO,
        aggregation: Any = tf.VariableAggregation.NONE,
        shape: Any = None,
        experimental_enable_variable_lifting: bool = True,
    ) -> Any:
        del experimental_enable_variable_lifting
        return make_variable(
            initial_value,
            trainable=True if trainable is None else trainable,
            validate_shape=validate_shape,
            caching_device=caching_device,
            name=name,
            variable_def=variable_def,
            dtype=dtype,
            import_scope=import_scope,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
            shape=shape,
            use_resource=True,
        )

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, AnyVariable)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, AnyVariable)


@_v2("Variable")
class Variable(metaclass=_VariableType):
    """A variable behind a handle, of whatever shape and dtype its value has."""


@_v2("convert_to_tensor")
def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Any:
    """``value`` as a tensor."""
    return tf.convert_to_tensor(value, dtype, name, dtype_hint=dtype_hint)


@_v2("is_tensor")
def is_tensor(x: Any) -> bool:
    """Whether a value is a tensor, a variable, or made of tensors: sparse, ragged, slices."""
    return tf.is_tensor(x) or isinstance(x, tf.RaggedTensor)


@_v2("range")
def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """Numbers from ``start`` to before ``limit``, of which tensors are cast to ``dtype``."""
    if limit is None:
        start, limit = 0, start
    if dtype is not None:
        parts = (start, limit, delta)
        start, limit, delta = (
            tf.cast(part, dtype) if isinstance(part, (tf.Tensor, TensorLike)) else part for part in parts
        )
    return tf.range(start, limit, delta, dtype, name)


@_v2("constant")
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Any:
    """A tensor of a value; one that is a tensor already is cast and reshaped."""
    if isinstance(value, (tf.Tensor, TensorLike)):
        tensor = convert_to_tensor(value)
        tensor = tensor if dtype is None else tf.cast(tensor, dtype)
        return tensor if shape is None else tf.reshape(tensor, shape)
    return tf.constant(value, dtype, shape, name)


@_v2("matmul", "linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Any:
    """The product of matrices, of ``output_type`` if it is given."""
    del grad_a, grad_b  # hints for kernels of eight bits
    a = tf.convert_to_tensor(a, name="a")
    b = tf.convert_to_tensor(b, a.dtype.base, name="b") if not isinstance(b, tf.Tensor) else b
    if output_type is not None and tf.as_dtype(output_type) != a.dtype.base:
        # Sums of narrow integers are taken in the wide type.
        wide = tf.as_dtype(output_type)
        a, b = tf.cast(a, wide), tf.cast(b, wide)
    return tf.matmul(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, a_is_sparse, b_is_sparse, name)


@_v2("pad")
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None) -> Any:
    """``tensor`` with elements before and after its own along each dimension."""
    return tf.pad(tensor, paddings, mode, name, constant_values)


@_v2("gather_nd")
def gather_nd(
    params: Any, indices: Any, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Slices of ``params`` at places."""
    del bad_indices_policy  # an index outside raises
    return tf.gather_nd(params, indices, name, batch_dims)


@_v2("linspace")
def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Any:
    """``num`` numbers (or arrays) at equal distances from ``start`` to ``stop``, along a new dimension ``axis``."""
    with tf.name_scope(name, "linspace", [start, stop]):
        start = tf.convert_to_tensor(start, name="start")
        stop = tf.convert_to_tensor(stop, start.dtype, name="stop")
        if start.dtype.is_integer:  # as the quotient of integers is
            start, stop = tf.cast(start, tf.float64), tf.cast(stop, tf.float64)
        if start.shape.ndims == 0 and stop.shape.ndims == 0 and isinstance(num, int) and num > 0:
            return tf.linspace(start, stop, num)
        shape = tf.broadcast_dynamic_shape(tf.shape(start), tf.shape(stop))
        start, stop = tf.broadcast_to(start, shape), tf.broadcast_to(stop, shape)
        rank = tf.rank(start) if start.shape.ndims is None else start.shape.ndims
        place = axis if axis >= 0 else rank + 1 + axis
        count = tf.cast(num, tf.int32)
        steps = tf.cast(tf.range(count), start.dtype) / tf.cast(tf.maximum(count - 1, 1), start.dtype)
        shape_of_steps = tf.concat([tf.ones([place], tf.int32), [count], tf.ones([rank - place], tf.int32)], 0)
        share = tf.reshape(steps, shape_of_steps)
        start, stop = tf.expand_dims(start, axis), tf.expand_dims(stop, axis)
        # The last one is `stop` itself, not what rounding makes of it.
        return tf.where_v2(tf.equal(share, 1), stop, start + (stop - start) * share)


@_v2("math.in_top_k", "nn.in_top_k")
def in_top_k(targets: Any, predictions: Any, k: Any, name: str | None = None) -> Any:
    """Whether each target is among the ``k`` classes with the highest predictions."""
    return tf.nn.in_top_k(predictions, targets, k, name)


@_v2("math.top_k", "nn.top_k")
def top_k(input: Any, k: Any = 1, sorted: bool = True, index_type: Any = tf.int32, name: str | None = None) -> Any:
    """The ``k`` largest entries of each row, and where they are."""
    largest = tf.nn.top_k(input, k, sorted, name)
    if tf.as_dtype(index_type) == tf.int32:
        return largest
    return type(largest)(largest.values, tf.cast(largest.indices, index_type))


@_v2("math.bincount")
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = tf.int32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Any:
    """How often each number from 0 on occurs in ``arr``, or in each of its rows with ``axis=-1``."""
    if isinstance(arr, tf.RaggedTensor):
        if axis is None:
            arr, weights = arr.flat_values, getattr(weights, "flat_values", weights)
        else:
            return _ragged_bincount(arr, weights, minlength, maxlength, dtype, binary_output)
    if axis is None and not binary_output:
        return tf.bincount(arr, weights, minlength, maxlength, dtype, name)
    with tf.name_scope(name, "bincount", [arr, weights]):
        arr = tf.convert_to_tensor(arr, name="arr")
        if arr.dtype.base not in (tf.int32, tf.int64):
            arr = tf.cast(arr, tf.int32)
        if axis is None:
            arr = tf.reshape(arr, [-1])
        counts = tf.cast(tf.size(arr) > 0, arr.dtype) * (tf.reduce_max(arr) + 1)
        if minlength is not None:
            counts = tf.maximum(tf.cast(minlength, arr.dtype), counts)
        if maxlength is not None:
            counts = tf.minimum(tf.cast(maxlength, arr.dtype), counts)
        amounts = tf.constant([], dtype) if weights is None else tf.reshape(weights, tf.shape(arr))
        return build("DenseBincount", arr, counts, amounts, binary_output=binary_output)


def _ragged_bincount(arr: Any, weights: Any, minlength: Any, maxlength: Any, dtype: Any, binary_output: bool) -> Any:
    """How often each number occurs in the rows of a ragged matrix, ``[rows, size]``."""
    numbers, rows = tf.cast(arr.flat_values, tf.int64), tf.cast(arr.value_rowids(), tf.int64)
    amounts = tf.ones_like(numbers, dtype) if weights is None else getattr(weights, "flat_values", weights)
    size = tf.reduce_max(tf.concat([[tf.constant(-1, tf.int64)], numbers], 0)) + 1
    if minlength is not None:
        size = tf.maximum(tf.cast(minlength, tf.int64), size)
    if maxlength is not None:
        size = tf.minimum(tf.cast(maxlength, tf.int64), size)
    outside = tf.fill(tf.shape(numbers), tf.constant(-1, tf.int64))  # these are not counted
    places = tf.where_v2(numbers < size, rows * size + numbers, outside)
    counts = tf.math.unsorted_segment_sum(amounts, places, arr.nrows(tf.int64) * size)
    if binary_output:
        counts = tf.minimum(counts, tf.ones_like(counts))
    return tf.reshape(counts, tf.stack([arr.nrows(tf.int64), size]))


@_v2("scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None) -> Any:
    """Zeros of ``shape`` with ``updates`` added at places."""
    del bad_indices_policy  # an index outside raises
    return tf.scatter_nd(indices, updates, shape, name)


@_v2("reverse_sequence")
def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: int | None = None, batch_axis: int | None = None, name: str | None = None
) -> Any:
    """``input`` with the beginning of each sequence in reverse order."""
    return tf.reverse_sequence(input, seq_lengths, seq_axis, batch_axis, name)


# -------------------------------------------------------------------------------------------------------------- sparse
@_v2("sparse.add")
def sparse_add(a: Any, b: Any, threshold: Any = 0) -> Any:
    """The sum of two tensors, of which one is sparse at least."""
    return tf.sparse.add(a, b, threshold)


@_v2("sparse.concat")
def sparse_concat(axis: Any, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: str | None = None) -> Any:
    """Sparse tensors one behind the other along ``axis``."""
    return tf.sparse.concat(axis, sp_inputs, name, expand_nonconcat_dims)


def _sparse_reduction(name: str) -> None:
    dense, sparse = getattr(tf.sparse, name), getattr(tf, f"sparse_{name}_sparse")

    def reduce(
        sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False, name: str | None = None
    ) -> Any:
        with tf.name_scope(name, "sparse_reduction"):
            return (sparse if output_is_sparse else dense)(sp_input, axis, keepdims)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = dense.__doc__
    _v2(f"sparse.{name}")(reduce)


_sparse_reduction("reduce_sum")
_sparse_reduction("reduce_max")


# -------------------------------------------------------------------------------------------------------------- random
def _with_algorithm(name: str) -> None:
    first: Callable[..., Any] = getattr(tf.random, name)

    def draw(shape: Any, seed: Any, *args: Any, alg: Any = "auto_select", **kwargs: Any) -> Any:
        del alg  # Philox is the algorithm on all devices
        return first(shape, seed, *args, **kwargs)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = first.__doc__
    _v2(f"random.{name}")(draw)


for _name in ("stateless_uniform", "stateless_normal", "stateless_truncated_normal"):
    _with_algorithm(_name)


# --------------------------------------------------------------------------------------------------- NumPy's functions
@_v2("experimental.numpy.finfo")
def finfo(dtype: Any) -> Any:
    """What NumPy says of the floats of a dtype: ``eps``, ``max``, ``tiny``."""
    return ml_dtypes.finfo(tf.as_dtype(dtype).as_numpy_dtype)


@_v2("experimental.numpy.select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Of each place the choice of the first condition that holds there, ``default`` where none does."""
    choices = [tf.convert_to_tensor(choice) for choice in choicelist]
    result = tf.cast(default, choices[0].dtype)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        result = tf.where_v2(condition, choice, result)
    return result
