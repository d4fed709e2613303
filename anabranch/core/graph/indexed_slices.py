"""Sparse updates of rows: `IndexedSlices`, which gradients of gathers are, and its conversion to a dense tensor."""

from __future__ import annotations

import collections
import math
import warnings
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.composite_tensor import CompositeTensor
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.core.values.type_spec import TypeSpec

LARGE_DENSE_SIZE = 100_000_000
"""A conversion to a dense tensor of at least this many elements is warned of."""

IndexedSlicesValue = collections.namedtuple("IndexedSlicesValue", ["values", "indices", "dense_shape"])
IndexedSlicesValue.__doc__ = (
    "What fetching an IndexedSlices gives: arrays `values`, `indices` and `dense_shape` (or None)."
)
public("IndexedSlicesValue")(IndexedSlicesValue)


@public("IndexedSlices")
class IndexedSlices(CompositeTensor):
    """Rows of a larger tensor: ``dense[indices[i]] = values[i]``, rows that occur twice adding up, zeros elsewhere.

    Args:
        values: tensor ``[n, ...]``.
        indices: integer tensor ``[n]`` of positions in dimension 0 of the dense tensor.
        dense_shape: integer vector, the shape of the dense tensor; None if it is not known.
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Any:
        """The rows, a tensor ``[n, ...]``."""
        return self._values

    @property
    def indices(self) -> Any:
        """Position of each row, a tensor ``[n]``."""
        return self._indices

    @property
    def dense_shape(self) -> Any:
        """Shape of the dense tensor, an integer vector, or None."""
        return self._dense_shape

    @property
    def shape(self) -> shapes.TensorShape:
        """What is known of the dense shape while the graph is built."""
        from_values = self._values._shape
        known = None if from_values is None else (None, *from_values[1:])
        if self._dense_shape is None:
            return shapes.TensorShape(known)
        return shapes.TensorShape(shapes.merge(known, known_shape(self._dense_shape)))

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return self.shape

    @property
    def name(self) -> str:
        """Name of :attr:`values`."""
        return self._values.name

    @property
    def device(self) -> str:
        """Device of the op that makes :attr:`values`."""
        return self._values.device

    @property
    def op(self) -> Any:
        """The op that makes :attr:`values`."""
        return self._values.op

    @property
    def dtype(self) -> dtypes.DType:
        """Element type of :attr:`values`."""
        return self._values.dtype

    @property
    def graph(self) -> Any:
        """The graph that holds the tensors."""
        return self._values.graph

    def consumers(self) -> list[Any]:
        """Operations that take one of the tensors, each once."""
        parts = [self._values, self._indices] + ([self._dense_shape] if self._dense_shape is not None else [])
        return list(dict.fromkeys(op for part in parts for op in part.consumers()))

    @property
    def _type_spec(self) -> IndexedSlicesSpec:
        dense = None if self._dense_shape is None else self._dense_shape.dtype
        return IndexedSlicesSpec(self.shape, self.dtype, self._indices.dtype, dense, self._indices.shape)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(build("Neg", self._values), self._indices, self._dense_shape)

    def __str__(self) -> str:
        dense = f", dense_shape={self._dense_shape}" if self._dense_shape is not None else ""
        return f"IndexedSlices(indices={self._indices}, values={self._values}{dense})"

    __repr__ = __str__


def known_shape(vector: Any) -> shapes.RawShape:
    """The raw shape that an integer vector holds, as far as it is known while the graph is built (-1 means unknown)."""
    if isinstance(vector, shapes.TensorShape):
        return vector.raw
    if isinstance(vector, (list, tuple)):  # numbers, which `IndexedSlices` takes too
        return tuple(None if size is None or size < 0 else int(size) for size in vector)
    array = inference.partial_value(vector)
    if array is not None:
        return tuple([None if item is None or item < 0 else int(item) for item in array])
    length = vector._shape
    return None if length is None else shapes.of_rank(length[0])


def to_dense(value: IndexedSlices, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """The dense tensor that `value` stands for (:func:`densify`), with a warning when it may be large."""
    if dtype is not None and dtypes.as_dtype(dtype).base != value.dtype.base:
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for IndexedSlices "
            f"with dtype {value.dtype.name}\n"
            + errors.message(
                f"IndexedSlices {value.name!r} of dtype {value.dtype.name}",
                dtypes.as_dtype(dtype).name,
                f"tf.IndexedSlices(tf.cast(x.values, tf.{dtypes.as_dtype(dtype).name}), x.indices, x.dense_shape)",
            )
        )
    if value.dense_shape is not None:
        known = known_shape(value.dense_shape)
        size = None if known is None or None in known else math.prod(d for d in known if d is not None)
        if size is None:
            warnings.warn(
                f"Converting sparse IndexedSlices {value.name!r} to a dense Tensor of unknown shape. "
                "This may consume a large amount of memory.",
                stacklevel=2,
            )
        elif size >= LARGE_DENSE_SIZE:
            warnings.warn(
                f"Converting sparse IndexedSlices {value.name!r} to a dense Tensor with {size} elements. "
                "This may consume a large amount of memory.",
                stacklevel=2,
            )
    return densify(value, name)


def densify(value: IndexedSlices, name: str | None = None) -> Any:
    """The dense tensor that `value` stands for, as a sum of its rows by index, without a warning.

    Raises:
        ValueError: the dense shape is not known.
    """
    if value.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices without dense_shape: {value}\n"
            + errors.message(
                f"IndexedSlices {value.name!r} without dense_shape",
                "a dense shape, to know how many rows there are",
                "tf.IndexedSlices(values, indices, dense_shape=tf.shape(params))",
            )
        )
    rows = build(
        "StridedSlice",
        value.dense_shape,
        [0],
        [1],
        [1],
        shrink_axis_mask=1,
        name=f"{name}/rows" if name else None,
    )
    dense = build("UnsortedSegmentSum", value.values, value.indices, rows, name=name)
    known = known_shape(value.dense_shape)
    if known is not None:
        dense.set_shape(known)
    return dense


convert.register_tensor_conversion_function(IndexedSlices, to_dense)


@public("IndexedSlicesSpec")
class IndexedSlicesSpec(TypeSpec):
    """Dense shape and dtypes of IndexedSlices.

    Args:
        shape: the dense shape, which may be known in part; None allows any.
        dtype: dtype of the rows.
        indices_dtype: int32 or int64.
        dense_shape_dtype: int32 or int64; None for slices without a dense shape.
        indices_shape: the shape of the indices, ``[n]``.
    """

    __slots__ = ("_dense_shape_dtype", "_indices_dtype", "_indices_shape", "_shape", "_values_dtype")

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        indices_dtype: Any = dtypes.int64,
        dense_shape_dtype: Any = None,
        indices_shape: Any = None,
    ) -> None:
        self._shape, self._values_dtype = shapes.TensorShape(shape), dtypes.as_dtype(dtype)
        self._indices_dtype = dtypes.as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else dtypes.as_dtype(dense_shape_dtype)
        self._indices_shape = shapes.TensorShape(indices_shape).with_rank(1)

    @property
    def value_type(self) -> Any:
        """`IndexedSlices`."""
        return IndexedSlices

    def _serialize(self) -> tuple[Any, ...]:
        dtypes_of_places = self._indices_dtype, self._dense_shape_dtype
        return self._shape, self._values_dtype, *dtypes_of_places, self._indices_shape

    @property
    def _component_specs(self) -> tuple[TensorSpec, ...]:
        rows = TensorSpec(self._indices_shape.concatenate(self._shape[1:]), self._values_dtype)
        specs = rows, TensorSpec(self._indices_shape, self._indices_dtype)
        if self._dense_shape_dtype is None:
            return specs
        return *specs, TensorSpec([self._shape.ndims], self._dense_shape_dtype)

    def _to_components(self, value: Any) -> tuple[Any, ...]:
        parts = value.values, value.indices
        return parts if value.dense_shape is None else (*parts, value.dense_shape)

    def _from_components(self, components: Any) -> Any:
        if all(isinstance(component, np.ndarray) for component in components):
            return IndexedSlicesValue(*components, *[None] * (3 - len(components)))
        return IndexedSlices(*components)


@public("convert_to_tensor_or_indexed_slices")
def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """``value`` as a tensor, or as it is if it is an :class:`IndexedSlices`.

    Args:
        value: what ``tf.convert_to_tensor`` takes, an `IndexedSlices`, or an `IndexedSlicesValue`.
        dtype: dtype that it must have.
        name: name of a tensor that is made.

    Raises:
        ValueError: it is an `IndexedSlices` of another dtype.
    """
    if isinstance(value, IndexedSlicesValue):
        parts = [None if part is None else convert.convert_to_tensor(part) for part in value]
        value = IndexedSlices(*parts)
    if not isinstance(value, IndexedSlices):
        return convert.convert_to_tensor(value, dtype, name)
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        kind = dtypes.as_dtype(dtype).name
        raise ValueError(
            f"Tensor conversion requested dtype {kind} for Tensor with dtype {value.dtype.name}: {value}\n"
            + errors.message(f"an IndexedSlices of dtype {value.dtype.name}", kind, "tf.cast its values")
        )
    return value


def convert_n_to_tensor_or_indexed_slices(values: Any, dtype: Any = None, name: str | None = None) -> list[Any]:
    """Each of ``values`` by :func:`convert_to_tensor_or_indexed_slices`; None stays None."""
    return [
        None if value is None else convert_to_tensor_or_indexed_slices(value, dtype, name and f"{name}_{number}")
        for number, value in enumerate(values)
    ]
