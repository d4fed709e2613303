"""Categories that a list or a file of words names."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.feature_column.categorical import _IdColumn
from anabranch.feature_column.contract import (
    Transformed,
    check_compatible,
    check_key,
    check_words,
    refusal,
    to_sparse,
)


class _VocabularyColumn(_IdColumn):
    """A column whose ids are looked up in a table."""

    dtype: Any
    default_value: int
    num_oov_buckets: int

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.VarLenFeature(self.dtype)}

    def table(self, dtype: Any) -> Any:
        raise NotImplementedError

    def transform(self, features: Transformed) -> Any:
        words = to_sparse(features.get(self.key))
        check_words(words.dtype, f"key: {self.key}, tensor dtype: {words.dtype}")
        check_compatible(words, self.key, self.dtype)
        dtype = self.dtype
        if dtype.is_integer:
            words, dtype = tf.SparseTensor(words.indices, tf.to_int64(words.values), words.dense_shape), tf.int64
        return self.table(dtype).lookup(words)


@dataclasses.dataclass(frozen=True)
class VocabularyListCategoricalColumn(_VocabularyColumn):
    """What `categorical_column_with_vocabulary_list` makes."""

    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: Any
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def table(self, dtype: Any) -> Any:
        return tf.contrib.lookup.index_table_from_tensor(
            self.vocabulary_list,
            num_oov_buckets=self.num_oov_buckets,
            default_value=self.default_value,
            dtype=dtype,
            name=f"{self.key}_lookup",
        )


@dataclasses.dataclass(frozen=True)
class VocabularyFileCategoricalColumn(_VocabularyColumn):
    """What `categorical_column_with_vocabulary_file` makes."""

    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: Any
    default_value: int

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    def table(self, dtype: Any) -> Any:
        return tf.contrib.lookup.index_table_from_file(
            self.vocabulary_file,
            num_oov_buckets=self.num_oov_buckets,
            vocab_size=self.vocabulary_size,
            default_value=self.default_value,
            key_dtype=dtype,
            name=f"{self.key}_lookup",
        )


def _checked_buckets(key: str, buckets: Any, default: Any, unset: Any) -> int:
    count = buckets or 0
    if count < 0:
        raise refusal(
            ValueError,
            f"Invalid num_oov_buckets {buckets} in {key}.",
            f"{buckets}",
            "a number of buckets",
            "num_oov_buckets=1",
        )
    if count and default not in (None, unset):
        raise refusal(
            ValueError,
            f"Can't specify both num_oov_buckets and default_value in {key}.",
            f"num_oov_buckets={buckets} and default_value={default}",
            "one of the two",
            f"num_oov_buckets={buckets}",
        )
    return int(count)


@public("feature_column.categorical_column_with_vocabulary_list")
def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> VocabularyListCategoricalColumn:
    """Return a column whose ids are the places of words in a list.

    Args:
        key: name of the feature, and of the column; ``""`` and -1 in a dense feature stand for no value.
        vocabulary_list: words or integers, each once.
        dtype: of the feature; the list's own if None (int64 for integers).
        default_value: the id of other words; those with -1 take no part in what is made of the column.
        num_oov_buckets: ids above the list's for other words, which are hashed, instead of ``default_value``.

    Raises:
        ValueError: the list is empty, has a word twice, or is of another dtype; or both ways for other words are given.
    """
    check_key(key)
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise refusal(
            ValueError,
            f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}",
            f"{vocabulary_list!r}",
            "a list of words",
            "tf.feature_column.categorical_column_with_hash_bucket",
        )
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise refusal(
            ValueError,
            f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}",
            "a word twice",
            "each word once",
            "sorted(set(vocabulary_list))",
        )
    own = tf.as_dtype(np.asarray(vocabulary_list).dtype if not isinstance(vocabulary_list[0], bytes) else tf.string)
    count = _checked_buckets(key, num_oov_buckets, default_value, -1)
    check_words(own, f"column_name: {key} vocabulary dtype: {own}", "vocabulary ")
    dtype = own if dtype is None else tf.as_dtype(dtype)
    if dtype.is_integer != own.is_integer:
        raise refusal(
            ValueError,
            f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}",
            f"a list of {own}",
            f"a list of {dtype}",
            "leave dtype out",
        )
    check_words(dtype, f"column_name: {key}")
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), dtype, default_value, count)


@public("feature_column.categorical_column_with_vocabulary_file")
def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: Any,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = tf.string,
) -> VocabularyFileCategoricalColumn:
    """Return a column whose ids are the line numbers of words in a file.

    Args:
        key: name of the feature, and of the column; ``""`` and -1 in a dense feature stand for no value.
        vocabulary_file: a file with a word, or an integer, a line.
        vocabulary_size: number of lines to read; counted now if None.
        num_oov_buckets: ids above the file's for other words, which are hashed.
        default_value: the id of other words without such buckets; -1 if None, which takes no part in what is made of
            the column.
        dtype: string, or an integer dtype.

    Raises:
        ValueError: there is no file, the size is below 1, or both ways for other words are given.
    """
    check_key(key)
    if not vocabulary_file:
        raise refusal(
            ValueError,
            f"Missing vocabulary_file in {key}.",
            f"{vocabulary_file!r}",
            "a path",
            'vocabulary_file="words.txt"',
        )
    if vocabulary_size is None:
        if not tf.gfile.Exists(vocabulary_file):
            raise refusal(
                ValueError,
                f"vocabulary_file in {key} does not exist.",
                f"{vocabulary_file}",
                "a file that is there, or its vocabulary_size",
                "vocabulary_size=1000",
            )
        with tf.gfile.GFile(vocabulary_file, "rb") as file:
            vocabulary_size = sum(1 for _ in file)
    if vocabulary_size < 1:
        raise refusal(
            ValueError,
            f"Invalid vocabulary_size in {key}.",
            f"{vocabulary_size}",
            "a number of lines above 0",
            "leave vocabulary_size out",
        )
    count = _checked_buckets(key, num_oov_buckets, default_value, None)
    dtype = tf.as_dtype(dtype)
    check_words(dtype, f"column_name: {key}")
    default = -1 if default_value is None else default_value
    return VocabularyFileCategoricalColumn(key, str(vocabulary_file), vocabulary_size, count, dtype, default)
