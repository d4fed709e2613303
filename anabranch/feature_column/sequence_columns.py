"""Columns whose examples are sequences of steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.feature_column.contract import (
    CategoricalColumn,
    FeatureColumn,
    SequenceInputs,
    SparseInputs,
    Transformed,
    refusal,
)


def sequence_lengths(tensor: Any, elements: int = 1) -> Any:
    """The number of steps of each example ``[batch]`` of a sparse tensor ``[batch, steps * elements, ...]``."""
    rows, places = tensor.indices[:, 0], tensor.indices[:, 1]
    counts = tf.to_int64(tf.floor_div(tf.segment_max(places + 1, rows) + elements - 1, elements))
    missing = tf.maximum(tensor.dense_shape[:1] - tf.shape(counts, out_type=tf.int64), 0)
    return tf.concat([counts, tf.zeros(missing, tf.int64)], axis=0)


@dataclasses.dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """Ids of each step, of another categorical column."""

    categorical_column: Any

    @property
    def name(self) -> str:
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform(self, features: Transformed) -> Any:
        return self.categorical_column.transform(features)

    def ids_and_weights(self, features: Transformed) -> SparseInputs:
        ids, weights = self.categorical_column.ids_and_weights(features)
        rank = ids.dense_shape.shape[0].value
        if rank == 3:
            return SparseInputs(ids, weights)
        shape = tf.concat([ids.dense_shape, [1]], axis=0)
        return SparseInputs(
            tf.sparse_reshape(ids, shape), None if weights is None else tf.sparse_reshape(weights, shape)
        )


@dataclasses.dataclass(frozen=True)
class SequenceNumericColumn(FeatureColumn):
    """Numbers of each step."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> Any:
        """`TensorShape` of one step's values."""
        return tf.TensorShape(self.shape)

    def transform(self, features: Transformed) -> Any:
        values = features.get(self.key)
        return values if self.normalizer_fn is None else self.normalizer_fn(values)

    def sequence_dense_tensor(self, features: Transformed, variables: Any) -> SequenceInputs:
        """The numbers of each step; those that are not there are ``default_value``."""
        given = features.get(self)
        if not isinstance(given, tf.SparseTensor):
            raise refusal(
                TypeError,
                f"The input of {self.name} must be a SparseTensor.",
                "a dense tensor",
                "a SparseTensor [batch, values]",
                "tf.VarLenFeature, or tf.contrib.layers.dense_to_sparse",
            )
        elements = self.variable_shape.num_elements()
        dense = tf.sparse_tensor_to_dense(given, default_value=self.default_value)
        dense = tf.reshape(dense, [tf.shape(dense)[0], -1, *self.shape])
        per_step = elements if given.shape.ndims == 2 else 1
        return SequenceInputs(dense, sequence_lengths(given, per_step))
