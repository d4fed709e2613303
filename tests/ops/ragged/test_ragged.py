"""Ragged rows as a dense tensor: every kind of partition, limits, bad partitions, gradients refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

VALUES = np.float32([1, 2, 3, 4, 5])


def dense(kinds, partitions, shape=-1, values=VALUES, default=0):
    with tf.Graph().as_default(), tf.Session() as session:
        result = build(
            "RaggedTensorToTensor",
            np.int64(shape),
            values,
            np.asarray(default, np.asarray(values).dtype),
            [np.int64(item) for item in partitions],
            row_partition_types=list(kinds),
        )
        value = session.run(result)
        assert result.shape.is_compatible_with(value.shape)
        return value.tolist()


ROWS = [[1, 2, 0], [0, 0, 0], [3, 4, 5]]


@pytest.mark.parametrize(
    ("kinds", "partitions"),
    [
        (["ROW_SPLITS"], [[0, 2, 2, 5]]),
        (["ROW_LENGTHS"], [[2, 0, 3]]),
        (["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [3, [0, 0, 2, 2, 2]]),
    ],
)
def test_kinds_of_partitions(kinds, partitions) -> None:
    assert dense(kinds, partitions) == ROWS
    assert dense(kinds, partitions, [2, -1]) == ROWS[:2]
    assert dense(kinds, partitions, [-1, 2], default=9) == [[1, 2], [9, 9], [3, 4]]
    assert dense(kinds, partitions, [4, 4]) == [[*line, 0] for line in [*ROWS, [0, 0, 0]]]


def test_two_ragged_dimensions_and_rows_of_vectors() -> None:
    kinds = ["ROW_SPLITS", "ROW_SPLITS"]
    assert dense(kinds, [[0, 1, 3], [0, 2, 2, 5]]) == [[[1, 2, 0], [0, 0, 0]], [[0, 0, 0], [3, 4, 5]]]
    pairs = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert dense(["ROW_LENGTHS"], [[1, 2]], values=pairs, default=[7, 8]) == [[[0, 1], [7, 8]], [[2, 3], [4, 5]]]
    words = np.array([b"a", b"b"], object)
    assert dense(["ROW_SPLITS"], [[0, 0, 2]], values=words, default=np.array(b"-", object)) == [
        [b"-", b"-"],
        [b"a", b"b"],
    ]


@pytest.mark.parametrize(
    ("kinds", "partitions", "message"),
    [
        (["ROW_SPLITS"], [[0, 2]], "the partitions cut 2 rows out of 5 values"),
        (["ROW_SPLITS"], [[0, 3, 2, 5]], "row splits must start with 0 and not fall"),
        (["ROW_LENGTHS"], [[-1, 6]], "row lengths and row ids must be vectors of numbers from 0 on"),
        (["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [2, [0, 0, 1, 1, 2]], "row id 2 for 2 rows"),
        (["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [2, [1, 0, 0, 0, 0]], "row ids must not fall"),
    ],
)
def test_bad_partitions(kinds, partitions, message) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        dense(kinds, partitions)


def test_attributes_and_gradients_that_are_refused() -> None:
    with pytest.raises(ValueError, match="one of"):
        dense(["ROWS"], [[0, 5]])
    with tf.Graph().as_default():
        values = tf.constant(VALUES)
        result = build(
            "RaggedTensorToTensor",
            np.int64(-1),
            values,
            np.float32(0),
            [np.int64([5])],
            row_partition_types=["ROW_LENGTHS"],
        )
        with pytest.raises(NotImplementedError, match="the gradient of RaggedTensorToTensor"):
            tf.gradients(result, values)


# ------------------------------------------------------------------------------------------------- n-grams and counts
def grams(rows, widths, pad_width=0, whole=False):
    flat = [word for row in rows for word in row]
    splits = np.cumsum([0, *map(len, rows)])
    with tf.Graph().as_default(), tf.Session() as session:
        made = build(
            "StringNGrams", np.array(flat, object), splits, separator="_", ngram_widths=widths, left_pad="<",
            right_pad=">", pad_width=pad_width, preserve_short_sequences=whole,
        )  # fmt: skip
        assert [part.shape.as_list() for part in made] == [[None], [len(rows) + 1]]
        words, ends = session.run(made)
    return [[word.decode() for word in words[a:b]] for a, b in itertools.pairwise(ends.tolist())]


WORDS = [["a", "b", "c"], [], ["d"]]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [  # as TensorFlow gives them
        (([1, 2],), [["a", "b", "c", "a_b", "b_c"], [], ["d"]]),
        (([3],), [["a_b_c"], [], []]),
        (([2], 0, True), [["a_b", "b_c"], [], ["d"]]),
        (([5], 1, True), [["<_a_b_c_>"], [], ["<_d_>"]]),
        (([3], 1), [["<_a_b", "a_b_c", "b_c_>"], [], ["<_d_>"]]),
        (([2], -1), [["<_a", "a_b", "b_c", "c_>"], ["<_>"], ["<_d", "d_>"]]),
        (
            ([3], -1),
            [
                ["<_<_a", "<_a_b", "a_b_c", "b_c_>", "c_>_>"],
                ["<_<_>", "<_>_>"],
                ["<_<_d", "<_d_>", "d_>_>"],
            ],
        ),
    ],
)
def test_ngrams(given, wanted) -> None:
    assert grams(WORDS, *given) == wanted


def test_bad_ngrams() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="must contain positive values"):
        grams(WORDS, [0])
    with tf.Graph().as_default(), tf.Session() as session:
        splits = tf.placeholder(tf.int64, [None])
        made = build(
            "StringNGrams", ["a", "b"], splits, separator="", ngram_widths=[1], left_pad="", right_pad="",
            pad_width=0, preserve_short_sequences=False,
        )  # fmt: skip
        for bad, told in (([0, 3], "end with the number of values, 2"), ([1, 2], "start with 0"), ([], "start with 0")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=told):
                session.run(made, {splits: bad})


def counts(splits, values, size, weights=(), dtype=np.float32, **options):
    with tf.Graph().as_default(), tf.Session() as session:
        made = build(
            "RaggedBincount", np.int64(splits), np.int32(values), np.int32(size), np.array(weights, dtype), **options
        )
        assert made.shape.as_list() == [len(splits) - 1, size]
        return session.run(made).tolist()


def test_counts_of_rows() -> None:
    splits, values = [0, 3, 3, 5], [1, 1, 7, 0, 2]
    assert counts(splits, values, 3) == [[0, 2, 0], [0, 0, 0], [1, 0, 1]]
    assert counts(splits, values, 3, [1, 2, 3, 4, 5], np.int64) == [[0, 3, 0], [0, 0, 0], [4, 0, 5]]
    assert counts(splits, values, 3, binary_output=True) == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Input must be non-negative"):
        counts([0, 1], [-1], 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be the same shape as `values`"):
        counts([0, 1], [1], 3, [1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="end with the number of values, 1"):
        counts([0, 2], [1], 3)
