"""Sparse tensors: `SparseTensor`, three tensors that stand for one, and `SparseTensorValue`, what fetching it gives.

Policy. A sparse tensor is coordinates `[n, rank]`, values `[n]` and a dense shape `[rank]`, as TensorFlow has it; no op
sees it as one thing. It is never made dense silently: converting one to a tensor is an error that names
`tf.sparse_tensor_to_dense`. Sessions feed and fetch it as a whole (`runtime/fetching.py`).
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import known_shape
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.composite_tensor import (
    CompositeTensor,
    batched,
    register_type_spec_from_value_converter,
    unbatched,
)
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.core.values.type_spec import BatchableTypeSpec

SparseTensorValue = collections.namedtuple("SparseTensorValue", ["indices", "values", "dense_shape"])
SparseTensorValue.__doc__ = "What fetching a SparseTensor gives: arrays `indices`, `values` and `dense_shape`."
public("SparseTensorValue")(SparseTensorValue)


@public("SparseTensor", "sparse.SparseTensor")
class SparseTensor(CompositeTensor):
    """A tensor of which only some elements are stored: ``dense[indices[i]] = values[i]``, zeros (or ``""``) elsewhere.

    Args:
        indices: int64 tensor ``[n, rank]``; most ops want rows in row-major order (``tf.sparse_reorder``).
        values: tensor ``[n]``.
        dense_shape: int64 tensor ``[rank]``; ``shape`` is its name from before version 1.0.

    Example:
        >>> import anabranch as tf
        >>> x = tf.SparseTensor(indices=[[0, 1], [2, 0]], values=[1.0, 2.0], dense_shape=[3, 2])
        >>> with tf.Session() as session:
        ...     session.run(tf.sparse_tensor_to_dense(x)).tolist()
        [[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any = None, *, shape: Any = None) -> None:
        if (dense_shape is None) == (shape is None):
            self._refuse("no dense_shape" if shape is None else "dense_shape and shape", "dense_shape, an int64 vector")
        dense_shape = shape if dense_shape is None else dense_shape
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert.convert_to_tensor(indices, dtypes.int64, "indices")
            self._values = convert.convert_to_tensor(values, name="values")
            self._dense_shape = convert.convert_to_tensor(dense_shape, dtypes.int64, "dense_shape")
        self._static: shapes.RawShape = None
        count, rank = _ranked(self._indices, 2, "indices")
        (values_count,) = _ranked(self._values, 1, "values")
        (shape_rank,) = _ranked(self._dense_shape, 1, "dense_shape")
        if None not in (count, values_count) and count != values_count:
            words = f"Dimensions {count} and {values_count} are not compatible"
            self._refuse(f"{count} indices and {values_count} values", "one row of indices for each value", words)
        if None not in (rank, shape_rank) and rank != shape_rank:
            words = f"Dimensions {rank} and {shape_rank} are not compatible"
            given = f"indices of {rank} columns and a dense_shape of {shape_rank} elements"
            self._refuse(given, "one for each dimension", words)

    @property
    def _type_spec(self) -> SparseTensorSpec:
        return SparseTensorSpec(self.shape, self.dtype)

    def _refuse(self, given: str, expected: str, words: str = "") -> None:
        advice = errors.message(given, expected, "tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2])")
        raise ValueError(f"{words}\n{advice}" if words else advice)

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """A constant sparse tensor of a SparseTensorValue; a SparseTensor is returned as it is."""
        if isinstance(sparse_tensor_value, SparseTensor):
            return sparse_tensor_value
        if not isinstance(sparse_tensor_value, SparseTensorValue):
            raise TypeError(
                f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value}.\n"
                + errors.message(
                    type(sparse_tensor_value).__name__,
                    "a SparseTensorValue",
                    "tf.SparseTensorValue(indices, values, shape)",
                )
            )
        return cls(*sparse_tensor_value)

    @property
    def indices(self) -> Any:
        """Coordinates, an int64 tensor ``[n, rank]``."""
        return self._indices

    @property
    def values(self) -> Any:
        """The stored elements, a tensor ``[n]``."""
        return self._values

    @property
    def dense_shape(self) -> Any:
        """Shape of the dense tensor, an int64 tensor ``[rank]``."""
        return self._dense_shape

    @property
    def shape(self) -> shapes.TensorShape:
        """What is known of the dense shape while the graph is built."""
        return shapes.TensorShape(self._raw())

    @property
    def _shape(self) -> shapes.RawShape:
        return self._raw()

    def _raw(self) -> shapes.RawShape:
        dims = known_shape(self._dense_shape)
        if self._static is not None:
            dims = shapes.merge(dims, self._static)
        if dims is None and self._indices._shape is not None:
            dims = shapes.of_rank(self._indices._shape[1])
        return dims

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Add to what is known of the dense shape.

        Raises:
            ValueError: it does not go together with what is known.
        """
        self._static = shapes.merge(self._raw(), shapes.as_raw(shape))

    @property
    def name(self) -> str:
        """Name of :attr:`values`."""
        return self._values.name

    @property
    def op(self) -> Any:
        """The op that makes :attr:`values`."""
        return self._values.op

    @property
    def device(self) -> str:
        """Device of the op that makes :attr:`values`."""
        return self._values.device

    @property
    def dtype(self) -> dtypes.DType:
        """Element type of :attr:`values`."""
        return self._values.dtype

    @property
    def graph(self) -> Any:
        """The graph that holds the tensors."""
        return self._indices.graph

    def consumers(self) -> list[Any]:
        """Operations that take one of the tensors, each once."""
        parts = (self._indices, self._values, self._dense_shape)
        return list(dict.fromkeys(op for part in parts for op in part.consumers()))

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its SparseTensorValue, computed in ``session`` or the default session."""
        parts = [self._indices, self._values, self._dense_shape]
        return SparseTensorValue(*hooks.evaluate(parts, feed_dict, self.graph, session))

    def _with_dense(self, type_name: str, dense: Any, name: str, integers_become: Any = None) -> SparseTensor:
        with name_scope(None, name, [self._indices, self._values, self._dense_shape, dense]) as scope:
            values, other = self._values, convert.convert_to_tensor(dense, self.dtype.base, "y")
            if integers_become is not None and self.dtype.is_integer and other.dtype.base == self.dtype.base:
                values, other = (build("Cast", part, DstT=integers_become) for part in (values, other))
            values = build(type_name, self._indices, values, self._dense_shape, other, name=scope)
        return SparseTensor(self._indices, values, self._dense_shape)

    def __mul__(self, dense: Any) -> SparseTensor:
        """Each stored element times the one of ``dense``, which is broadcast to the dense shape."""
        return self._with_dense("SparseDenseCwiseMul", dense, "mul")

    __rmul__ = __mul__

    def __truediv__(self, dense: Any) -> SparseTensor:
        """Each stored element divided by the one of ``dense``, which is broadcast to the dense shape.

        Integers become float64 first, those of 8 and 16 bits float32.
        """
        wide = "float64" if self.dtype.size > 2 else "float32"
        return self._with_dense("SparseDenseCwiseDiv", dense, "truediv", wide)

    __div__ = __truediv__

    def __str__(self) -> str:
        return f"SparseTensor(indices={self._indices!s}, values={self._values!s}, dense_shape={self._dense_shape!s})"

    __repr__ = __str__


def _ranked(tensor: Any, rank: int, what: str) -> tuple[int | None, ...]:
    raw = tensor._shape
    if raw is None:
        return (None,) * rank
    if len(raw) != rank:
        raise ValueError(
            f"Shape {shapes.TensorShape(raw)} must have rank {rank}\n"
            + errors.message(
                f"{what} of shape {shapes.show(raw)}",
                f"rank {rank}",
                "indices [n, rank], values [n], dense_shape [rank]",
            )
        )
    return raw


def is_sparse(value: Any) -> bool:
    """Whether ``value`` is a SparseTensor or a SparseTensorValue."""
    return isinstance(value, (SparseTensor, SparseTensorValue))


def as_sparse(value: Any, argument: str = "sp_input") -> SparseTensor:
    """``value`` as a SparseTensor; TypeError in three parts if it is none."""
    if is_sparse(value):
        return SparseTensor.from_value(value)
    raise TypeError(
        "Input must be a SparseTensor.\n"
        + errors.message(
            f"{argument} of type {type(value).__name__}",
            "a SparseTensor",
            "tf.SparseTensor(indices, values, dense_shape)",
        )
    )


@public("SparseTensorSpec")
class SparseTensorSpec(BatchableTypeSpec):
    """Dense shape and dtype of a sparse tensor.

    Args:
        shape: the dense shape, which may be known in part; None allows any.
        dtype: dtype of the values.

    Example:
        >>> import anabranch as tf
        >>> tf.SparseTensorSpec([None, 3], tf.int32).is_compatible_with(tf.SparseTensor([[0, 1]], [7], [2, 3]))
        True
    """

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        self._shape, self._dtype = shapes.TensorShape(shape), dtypes.as_dtype(dtype)

    shape = property(lambda self: self._shape, doc="The dense shape.")
    dtype = property(lambda self: self._dtype, doc="The dtype of the values.")
    rank = property(lambda self: self._shape.ndims, doc="The number of dimensions, or None.")

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """The spec of a SparseTensor or SparseTensorValue; TypeError of anything else."""
        if isinstance(value, SparseTensorValue):
            if isinstance(value.values, np.ndarray):
                return cls(value.dense_shape, value.values.dtype)
            value = SparseTensor.from_value(value)
        if not isinstance(value, SparseTensor):
            raise TypeError(
                "Expected SparseTensor or SparseTensorValue\n"
                + errors.message(f"a {type(value).__name__}", "a sparse tensor", "tf.SparseTensorSpec(shape, dtype)")
            )
        return cls(value.shape, value.dtype)

    @property
    def value_type(self) -> Any:
        """`SparseTensor`."""
        return SparseTensor

    @property
    def _trace_key(self) -> Any:
        return SparseTensor, self._shape.raw

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype

    @property
    def _component_specs(self) -> list[TensorSpec]:
        rank = self._shape.ndims
        return [
            TensorSpec([None, rank], dtypes.int64),
            TensorSpec([None], self._dtype),
            TensorSpec([rank], dtypes.int64),
        ]

    def _to_components(self, value: Any) -> list[Any]:
        value = SparseTensor.from_value(value)
        return [value.indices, value.values, value.dense_shape]

    def _from_components(self, components: Any) -> Any:
        if all(isinstance(component, np.ndarray) for component in components):
            return SparseTensorValue(*components)
        value = SparseTensor(*components)
        value._static = self._shape.raw
        return value

    # A list of tensors that can be stacked: the sparse tensor in one variant.
    @property
    def _flat_tensor_specs(self) -> list[TensorSpec]:
        return [TensorSpec(None, dtypes.variant)]

    def _to_tensor_list(self, value: Any) -> list[Any]:
        return [build("SerializeSparse", *self._to_components(value), out_type=dtypes.variant)]

    def _to_batched_tensor_list(self, value: Any) -> list[Any]:
        if self._shape.ndims == 0:
            unbatched(self._shape)  # which refuses
        return [build("SerializeManySparse", *self._to_components(value), out_type=dtypes.variant)]

    def _from_compatible_tensor_list(self, tensor_list: list[Any]) -> SparseTensor:
        value = SparseTensor(*build("DeserializeSparse", tensor_list[0], dtype=self._dtype))
        value.indices.set_shape([None, self._shape.ndims])
        value.dense_shape.set_shape([self._shape.ndims])
        return value

    def _batch(self, batch_size: int | None) -> SparseTensorSpec:
        return SparseTensorSpec(batched(batch_size, self._shape), self._dtype)

    def _unbatch(self) -> SparseTensorSpec:
        return SparseTensorSpec(unbatched(self._shape), self._dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape


register_type_spec_from_value_converter(SparseTensorValue, SparseTensorSpec.from_value)


@public("convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """``value`` as a tensor, or as a SparseTensor if it is a sparse value.

    Raises:
        RuntimeError: it has another dtype.
    """
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if is_sparse(value):
        sparse = SparseTensor.from_value(value)
        if dtype is not None and sparse.dtype.base != dtype.base:
            raise RuntimeError(
                f"Sparse dtype: requested = {dtype.name}, actual = {sparse.dtype.name}\n"
                + errors.message(
                    f"a SparseTensor of dtype {sparse.dtype.name}", dtype.name, "tf.cast(x, ...) before or after"
                )
            )
        return sparse
    return convert.convert_to_tensor(value, dtype, name)


def _to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    raise TypeError(
        f"Failed to convert object of type {type(value)} to Tensor. Contents: {value}. Consider casting elements to a "
        "supported type.\n"
        + errors.message(
            "a sparse tensor where a dense one is wanted", "a dense tensor", "tf.sparse_tensor_to_dense(x)"
        )
    )


convert.register_tensor_conversion_function((SparseTensor, SparseTensorValue), _to_tensor)
