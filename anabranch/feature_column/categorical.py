"""Categories: ids as they are, hashes of words, and weights beside another column's ids."""

from __future__ import annotations

import dataclasses
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.feature_column.contract import (
    CategoricalColumn,
    SparseInputs,
    Transformed,
    check_compatible,
    check_key,
    check_words,
    refusal,
    to_sparse,
)


class _IdColumn(CategoricalColumn):
    """A column whose own tensor are its ids, without weights."""

    key: str

    @property
    def name(self) -> str:
        return self.key

    def ids_and_weights(self, features: Transformed) -> SparseInputs:
        return SparseInputs(features.get(self), None)


@dataclasses.dataclass(frozen=True)
class HashedCategoricalColumn(_IdColumn):
    """What `categorical_column_with_hash_bucket` makes."""

    key: str
    hash_bucket_size: int
    dtype: Any

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def transform(self, features: Transformed) -> Any:
        words = to_sparse(features.get(self.key))
        check_words(words.dtype, f"key: {self.key}, tensor dtype: {words.dtype}")
        check_compatible(words, self.key, self.dtype)
        values = words.values if self.dtype == tf.string else tf.as_string(words.values)
        ids = tf.string_to_hash_bucket_fast(values, self.hash_bucket_size, name="lookup")
        return tf.SparseTensor(words.indices, ids, words.dense_shape)


@public("feature_column.categorical_column_with_hash_bucket")
def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = tf.string
) -> HashedCategoricalColumn:
    """Return a column whose ids are hashes of words or integers.

    Args:
        key: name of the feature, and of the column; ``""`` and -1 in a dense feature stand for no value.
        hash_bucket_size: number of ids, above 1.
        dtype: string, or an integer dtype.

    Raises:
        ValueError: the number is missing or below 1, or the dtype is another one.
    """
    if hash_bucket_size is None:
        raise refusal(
            ValueError,
            f"hash_bucket_size must be set. key: {key}",
            "None",
            "a number of buckets",
            "hash_bucket_size=1000",
        )
    if hash_bucket_size < 1:
        raise refusal(
            ValueError,
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}",
            f"{hash_bucket_size}",
            "a number of buckets above 0",
            "hash_bucket_size=1000",
        )
    check_key(key)
    dtype = tf.as_dtype(dtype)
    check_words(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


@dataclasses.dataclass(frozen=True)
class IdentityCategoricalColumn(_IdColumn):
    """What `categorical_column_with_identity` makes."""

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.VarLenFeature(tf.int64)}

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    def transform(self, features: Transformed) -> Any:
        given = to_sparse(features.get(self.key))
        if not given.dtype.is_integer:
            raise refusal(
                ValueError,
                f"Invalid input, not integer. key: {self.key} dtype: {given.dtype}",
                f"{given.dtype}",
                "a feature of integers",
                "tf.to_int64(feature)",
            )
        ids = tf.to_int64(given.values)
        limit = tf.constant(self.number_buckets, tf.int64)
        if self.default_value is None:
            checks = [
                tf.assert_less(
                    ids,
                    limit,
                    message=f"{self.key}: an id is not below num_buckets",
                    name="assert_less_than_num_buckets",
                ),
                tf.assert_greater_equal(
                    ids,
                    tf.constant(0, tf.int64),
                    message=f"{self.key}: an id is below 0",
                    name="assert_greater_or_equal_0",
                ),
            ]
            with tf.control_dependencies(checks):
                ids = tf.identity(ids)
        else:
            wrong = tf.logical_or(ids < 0, ids >= limit, name="out_of_range")
            ids = tf.where(wrong, tf.fill(tf.shape(ids), tf.constant(self.default_value, tf.int64)), ids)
        return tf.SparseTensor(given.indices, ids, given.dense_shape)


@public("feature_column.categorical_column_with_identity")
def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Return a column of integers that are ids already.

    Args:
        key: name of the feature, and of the column; -1 in a dense feature stands for no value.
        num_buckets: ids are below it.
        default_value: the id of numbers that are not in the range; if None, running a step with one fails with
            `InvalidArgumentError`.

    Raises:
        ValueError: ``num_buckets`` is below 1, or the default not in the range.
    """
    check_key(key)
    if num_buckets < 1:
        raise refusal(
            ValueError,
            f"num_buckets {num_buckets} < 1, column_name {key}",
            f"{num_buckets}",
            "a number of ids above 0",
            "num_buckets=10",
        )
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise refusal(
            ValueError,
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}",
            f"{default_value}",
            f"an id below {num_buckets}",
            "default_value=0",
        )
    return IdentityCategoricalColumn(key, num_buckets, default_value)


@dataclasses.dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """What `weighted_categorical_column` makes."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: Any

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec = dict(self.categorical_column.parse_example_spec)
        if self.weight_feature_key in spec:
            raise refusal(
                ValueError,
                f"Parse config {spec[self.weight_feature_key]} already exists for {self.weight_feature_key}.",
                "a weight with the name of the ids",
                "another feature",
                "pass weight_feature_key= of a feature of its own",
            )
        return {**spec, self.weight_feature_key: tf.VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform(self, features: Transformed) -> Any:
        weights = features.get(self.weight_feature_key)
        if self.dtype != weights.dtype.base_dtype:
            raise refusal(
                ValueError,
                f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.",
                f"weights of {weights.dtype}",
                f"weights of {self.dtype}",
                "pass dtype= to the column",
            )
        weights = to_sparse(weights, ignored=0.0)
        if not weights.dtype.is_floating:
            weights = tf.SparseTensor(weights.indices, tf.to_float(weights.values), weights.dense_shape)
        return features.get(self.categorical_column), weights

    def ids_and_weights(self, features: Transformed) -> SparseInputs:
        return SparseInputs(*features.get(self))


@public("feature_column.weighted_categorical_column")
def weighted_categorical_column(
    categorical_column: Any, weight_feature_key: str, dtype: Any = tf.float32
) -> WeightedCategoricalColumn:
    """Return a column with the ids of another one, each with a weight of a second feature.

    Args:
        categorical_column: column of the ids.
        weight_feature_key: name of the feature of weights, with as many entries as the ids; a dense one's zeros are
            left out.
        dtype: of the weights, a dtype of numbers.

    Raises:
        ValueError: ``dtype`` is not one of numbers.
    """
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise refusal(
            ValueError,
            f"dtype {dtype} is not convertible to float.",
            f"{dtype}",
            "a dtype of numbers",
            "dtype=tf.float32",
        )
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)
