"""Maps that hold sparse tensors under numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def added(indices: Any, values: Any, sizes: Any, kind: str = "AddSparseToTensorsMap", name: str = "m") -> tf.Tensor:
    """The number, or numbers, of a sparse tensor in the map called ``name``."""
    places = np.array(indices, np.int64).reshape(-1, len(sizes))
    return build(kind, places, tf.constant(values), np.array(sizes, np.int64), shared_name=name)


def taken(numbers: Any, dtype: Any = tf.int32, name: str = "m") -> Any:
    return build("TakeManySparseFromTensorsMap", numbers, dtype=dtype, shared_name=name)


def test_what_is_put_in_is_taken_out_once() -> None:
    first = added([[0, 1], [2, 2]], [10, 20], [3, 4])
    second = added([[1, 5]], [30], [2, 6])
    numbers = tf.placeholder(tf.int64, [None])
    take = taken(numbers)
    with tf.Session() as session:
        given = [session.run(first), session.run(second), session.run(first)]
        assert given == [0, 1, 2]
        indices, values, sizes = session.run(take, {numbers: [1, 0]})
        np.testing.assert_array_equal(indices, [[0, 1, 5], [1, 0, 1], [1, 2, 2]])
        np.testing.assert_array_equal(values, [30, 10, 20])
        np.testing.assert_array_equal(sizes, [2, 3, 6])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to find SparseTensor: 1 in map: m"):
            session.run(take, {numbers: [2, 1]})
        assert session.run(take, {numbers: [2]})[1].tolist() == [10, 20], "a failed take leaves the others"


def test_rows_are_put_in_one_by_one_also_empty_ones() -> None:
    many = added([[0, 3], [0, 1], [2, 0]], [b"a", b"b", b"c"], [4, 5], "AddManySparseToTensorsMap")
    numbers = tf.placeholder(tf.int64, [None])
    take = taken(numbers, tf.string)
    assert many.shape.as_list() == [4]
    with tf.Session() as session:
        given = session.run(many)
        assert given.tolist() == [0, 1, 2, 3]
        indices, values, sizes = session.run(take, {numbers: given[::-1]})
        np.testing.assert_array_equal(indices, [[1, 0], [3, 3], [3, 1]])
        assert values.tolist() == [b"c", b"a", b"b"]
        np.testing.assert_array_equal(sizes, [4, 5])


def test_what_does_not_fit_is_refused() -> None:
    numbers = tf.placeholder(tf.int64, [None])
    with tf.Session() as session:
        matrix, vector = session.run([added([[0, 0]], [1], [1, 1]), added([[0]], [1], [1])])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Inconsistent shape across SparseTensors: rank prior"):
            session.run(taken(numbers), {numbers: [matrix, vector]})
        again = session.run(added([[0]], [1], [1]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="dtype mismatch: the map holds int32"):
            session.run(taken(numbers, tf.float32), {numbers: [again]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be in row-major order"):
            session.run(added([[1, 0], [0, 0]], [1, 2], [2, 1], "AddManySparseToTensorsMap"))


def test_a_map_without_a_shared_name_has_the_name_of_what_adds() -> None:
    number = added([[0]], [7], [1], name="")
    take = taken(tf.placeholder_with_default(np.array([0], np.int64), [None]), name=number.op.name)
    with tf.Session() as session:
        session.run(number)
        assert session.run(take)[1].tolist() == [7]
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Unable to find SparseTensor: 0"):
        session.run(take)
