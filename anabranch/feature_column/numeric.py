"""Numbers, and the buckets into which boundaries divide them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.feature_column.contract import (
    CategoricalColumn,
    DenseColumn,
    SparseInputs,
    Transformed,
    Variables,
    check_key,
    refusal,
)


@dataclasses.dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """What `numeric_column` makes."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape(self.shape)

    def transform(self, features: Transformed) -> Any:
        values = features.get(self.key)
        if isinstance(values, tf.SparseTensor):
            raise refusal(
                ValueError,
                f"The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                f"key: {self.key}",
                "a SparseTensor",
                "a dense tensor",
                "tf.sparse_tensor_to_dense(feature)",
            )
        if self.normalizer_fn is not None:
            values = self.normalizer_fn(values)
        return tf.cast(values, tf.float32)

    def dense_tensor(self, features: Transformed, variables: Variables) -> Any:
        return features.get(self)


@public("feature_column.numeric_column")
def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Return a column of real numbers, or of integers that become float32.

    Args:
        key: name of the feature, and of the column.
        shape: of one example's values: an integer, or integers.
        default_value: for examples without the feature when they are parsed: a number for all values, or one for each.
        dtype: of the feature in the example.
        normalizer_fn: applied to the tensor, behind ``default_value``; None for nothing.

    Raises:
        TypeError: a dimension is not an integer, ``normalizer_fn`` cannot be called, or the default does not fit.
        ValueError: a dimension is not positive, or ``dtype`` is not a number.

    Example:
        >>> import anabranch as tf
        >>> price = tf.feature_column.numeric_column("price", normalizer_fn=lambda x: x / 10)
        >>> inputs = tf.feature_column.input_layer({"price": tf.constant([20.0, 30.0])}, [price])
        >>> with tf.Session() as session:
        ...     session.run(inputs).tolist()
        [[2.0], [3.0]]
    """
    check_key(key)
    shape = _checked_shape(shape, key)
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise refusal(
            ValueError,
            f"dtype must be convertible to float. dtype: {dtype}, key: {key}",
            f"{dtype}",
            "a dtype of numbers",
            "dtype=tf.float32",
        )
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise refusal(
            TypeError,
            f"normalizer_fn must be a callable. Given: {normalizer_fn}",
            f"{normalizer_fn!r}",
            "a function of a tensor",
            "normalizer_fn=lambda x: x / 10",
        )
    return NumericColumn(key, shape, _checked_default(shape, default_value, dtype, key), dtype, normalizer_fn)


def _checked_shape(shape: Any, key: str) -> tuple[int, ...]:
    dims = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if any(not isinstance(dim, (int, np.integer)) for dim in dims):
        raise refusal(
            TypeError,
            f"shape dimensions must be integer. shape: {shape}, key: {key}",
            f"{shape!r}",
            "integers",
            "shape=(2,)",
        )
    if any(dim < 1 for dim in dims):
        raise refusal(
            ValueError,
            f"shape dimensions must be greater than 0. shape: {shape}, key: {key}",
            f"{shape!r}",
            "dimensions above 0",
            "shape=(1,)",
        )
    return tuple(int(dim) for dim in dims)


def _checked_default(shape: tuple[int, ...], value: Any, dtype: Any, key: str) -> Any:
    """A nested tuple of the shape, or None."""
    if value is None:
        return None
    values = np.asarray(value)
    if values.shape and values.shape != shape:
        raise refusal(
            ValueError,
            f"The shape of default_value must be equal to given shape. default_value: {value}, shape: {shape}, "
            f"key: {key}",
            f"a default of shape {values.shape}",
            f"a number, or values of shape {shape}",
            "default_value=0",
        )
    if values.dtype.kind not in "iuf" or (dtype.is_integer and values.dtype.kind == "f"):
        raise refusal(
            TypeError,
            f"default_value must be compatible with dtype. default_value: {value}, dtype: {dtype}, key: {key}",
            f"{value!r}",
            f"numbers of {dtype}",
            "default_value=0",
        )
    return _nested(np.broadcast_to(values, shape).astype(int if dtype.is_integer else float).tolist())


def _nested(values: Any) -> Any:
    return tuple(map(_nested, values)) if isinstance(values, list) else values


@dataclasses.dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """What `bucketized_column` makes."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.source_column.parse_example_spec

    @property
    def _buckets(self) -> int:
        return len(self.boundaries) + 1

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape((*self.source_column.shape, self._buckets))

    @property
    def num_buckets(self) -> int:
        return self._buckets * self.source_column.shape[0]

    def transform(self, features: Transformed) -> Any:
        return build(
            "Bucketize", features.get(self.source_column), boundaries=[float(edge) for edge in self.boundaries]
        )

    def dense_tensor(self, features: Transformed, variables: Variables) -> Any:
        return tf.one_hot(tf.to_int64(features.get(self)), self._buckets, on_value=1.0, off_value=0.0)

    def ids_and_weights(self, features: Transformed) -> SparseInputs:
        buckets = features.get(self)
        first = (
            np.arange(self.source_column.shape[0], dtype=np.int32) * self._buckets
        )  # ids of each place's first bucket
        indices = tf.where(tf.greater_equal(buckets, 0))
        ids = tf.reshape(buckets + first, [-1])
        return SparseInputs(tf.SparseTensor(indices, ids, tf.shape(buckets, out_type=tf.int64)), None)


@public("feature_column.bucketized_column")
def bucketized_column(source_column: Any, boundaries: Any) -> BucketizedColumn:
    """Return a column of the buckets into which numbers fall: one more than there are boundaries.

    Args:
        source_column: one-dimensional numeric column.
        boundaries: sorted list or tuple; a bucket holds its lower boundary, and not its upper one.

    Raises:
        ValueError: the source is not such a column, or the boundaries are not sorted.

    Example:
        >>> import anabranch as tf
        >>> age = tf.feature_column.numeric_column("age")
        >>> ages = tf.feature_column.bucketized_column(age, [18, 65])
        >>> inputs = tf.feature_column.input_layer({"age": tf.constant([10.0, 65.0])}, [ages])
        >>> with tf.Session() as session:
        ...     session.run(inputs).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if not isinstance(source_column, NumericColumn):
        raise refusal(
            ValueError,
            f"source_column must be a column generated with numeric_column(). Given: {source_column}",
            f"{source_column!r}",
            "a numeric column",
            'tf.feature_column.numeric_column("age")',
        )
    if len(source_column.shape) > 1:
        raise refusal(
            ValueError,
            f"source_column must be one-dimensional column. Given: {source_column}",
            f"values of shape {source_column.shape}",
            "a column with shape=(n,)",
            "a column for each of the values",
        )
    if not boundaries or not isinstance(boundaries, (list, tuple)) or list(boundaries) != sorted(set(boundaries)):
        raise refusal(
            ValueError,
            "boundaries must be a sorted list.",
            f"{boundaries!r}",
            "a list that increases",
            "boundaries=[0.0, 1.0]",
        )
    return BucketizedColumn(source_column, tuple(boundaries))
