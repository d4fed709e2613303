"""Crosses: one id for each combination of the values of several features."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.feature_column.categorical import HashedCategoricalColumn
from anabranch.feature_column.contract import CategoricalColumn, SparseInputs, Transformed, refusal


@dataclasses.dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """What `crossed_column` makes."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    def leaves(self) -> Iterator[Any]:
        """Names and columns that are crossed, those of crosses among them instead of the crosses."""
        for key in self.keys:
            if isinstance(key, CrossedColumn):
                yield from key.leaves()
            else:
                yield key

    @property
    def name(self) -> str:
        return "_X_".join(sorted(leaf if isinstance(leaf, str) else leaf.name for leaf in self.leaves()))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: tf.VarLenFeature(tf.string)} if isinstance(key, str) else key.parse_example_spec)
        return spec

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def transform(self, features: Transformed) -> Any:
        crossed = []
        for leaf in self.leaves():
            if isinstance(leaf, str):
                crossed.append(features.get(leaf))
                continue
            ids, weights = leaf.ids_and_weights(features)
            if weights is not None:
                raise refusal(
                    ValueError,
                    f"crossed_column does not support weight_tensor, but the given column populates weight_tensor. "
                    f"Given column: {leaf.name}",
                    "a column with weights",
                    "columns without",
                    "cross the column of the ids",
                )
            crossed.append(ids)
        return tf.sparse.cross_hashed(crossed, num_buckets=self.hash_bucket_size, hash_key=self.hash_key)

    def ids_and_weights(self, features: Transformed) -> SparseInputs:
        return SparseInputs(features.get(self), None)


@public("feature_column.crossed_column")
def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """Return a column whose ids are hashes of combinations, one of each feature's values.

    Args:
        keys: two or more names of string features, or categorical columns that do not hash themselves.
        hash_bucket_size: number of ids, above 1.
        hash_key: where hashes begin.

    Raises:
        ValueError: there are fewer than two keys, one of them is something else, or the number of ids is below 1.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise refusal(
            ValueError,
            f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}",
            f"{hash_bucket_size}",
            "a number of ids",
            "hash_bucket_size=1000",
        )
    if not keys or len(keys) < 2:
        raise refusal(
            ValueError,
            f"keys must be a list with length > 1. Given: {keys}",
            f"{keys!r}",
            "two or more features",
            'keys=["city", "job"]',
        )
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise refusal(
                ValueError,
                f"Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}",
                f"{key!r}",
                "the name of a feature, or a categorical column",
                "tf.feature_column.bucketized_column for numbers",
            )
        if isinstance(key, HashedCategoricalColumn):
            raise refusal(
                ValueError,
                f"categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will "
                f"increase probability of collision. Instead, use the feature name as a string. Given: {key}",
                "a column that hashes",
                "the feature's name",
                f"{key.key!r}",
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
