"""Ragged rows as a dense tensor: every kind of partition, limits, bad partitions, gradients refused."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.build import build

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
            [np.int64([0, 5])],
            row_partition_types=["ROW_SPLITS"],
        )
        with pytest.raises(NotImplementedError, match="the gradient of RaggedTensorToTensor"):
            tf.gradients(result, values)
