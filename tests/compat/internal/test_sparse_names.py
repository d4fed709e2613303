"""Maps of sparse tensors as ``python.ops.sparse_ops`` names them; the words of what cannot be read back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import sparse_names


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def test_a_map_is_found_by_the_operation_that_put_tensors_in() -> None:
    value = tf.SparseTensorValue(np.array([[0, 1], [2, 0]]), np.array([5, 7], np.int32), np.array([3, 2]))
    whole = sparse_names._add_sparse_to_tensors_map(value)
    rows = sparse_names._add_many_sparse_to_tensors_map(value, shared_name="rows")
    numbers = tf.placeholder(tf.int64, [None])
    one = sparse_names._take_many_sparse_from_tensors_map(whole.op, numbers, rank=2)
    two = sparse_names._take_many_sparse_from_tensors_map(rows.op, rows)
    assert one.dense_shape.shape == (3,)
    with tf.Session() as session:
        taken = session.run(one, {numbers: [session.run(whole)]})
        assert taken.indices.tolist() == [[0, 0, 1], [0, 2, 0]]
        assert taken.values.tolist() == [5, 7]
        again = session.run(two)
        assert (again.indices.tolist(), again.dense_shape.tolist()) == ([[0, 1], [2, 0]], [3, 2])


def test_operations_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="sparse_map_op be an Operation"):
        sparse_names._take_many_sparse_from_tensors_map(tf.constant(1), [0])
    with pytest.raises(TypeError, match="Instead, found `Const`"):
        sparse_names._take_many_sparse_from_tensors_map(tf.constant(1).op, [0])
    with pytest.raises(TypeError, match=r"Input must be a SparseTensor\."):
        sparse_names._add_sparse_to_tensors_map(tf.constant(1))


def test_words_of_what_cannot_be_read_back() -> None:
    first = tf.serialize_sparse(tf.SparseTensor([[0, 1]], [1], [3, 2]))
    second = tf.serialize_sparse(tf.SparseTensor([[0, 1, 1]], [1], [3, 2, 2]))
    failing = [
        (
            tf.deserialize_many_sparse(tf.stack([first, second]), tf.int32),
            "rank prior to SparseTensor[1] was: 2 but rank of SparseTensor[1] is: 3",
        ),
        (
            tf.deserialize_many_sparse(tf.stack([first]), tf.int64),
            "Requested SparseTensor of type int64 but SparseTensor[0].values.dtype() == int32",
        ),
        (tf.deserialize_many_sparse([["a", "b", "c"]], tf.int32), "Could not parse serialized proto"),
    ]
    with tf.Session() as session:
        for tensor, words in failing:
            with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(words)):
                session.run(tensor)


def test_serialised_tensors_become_rows():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
        one = sparse_names.deserialize_sparse(tf.serialize_sparse(x), tf.float32, rank=2)
        assert one.get_shape().ndims == 2
        rows = sparse_names.deserialize_sparse(tf.serialize_many_sparse(x), tf.float32)
        for read in (one, rows):
            assert session.run(tf.sparse_tensor_to_dense(read)).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]
