"""Sparse tensors: made, shown, fed, fetched, refused."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_three_tensors_with_names():
    x = tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2])
    assert [x.indices.name, x.values.name, x.dense_shape.name] == [
        "SparseTensor/indices:0",
        "SparseTensor/values:0",
        "SparseTensor/dense_shape:0",
    ]
    assert x.indices.dtype == x.dense_shape.dtype == tf.int64
    assert (x.dtype, x.get_shape().as_list(), x.graph) == (tf.float32, [3, 2], tf.get_default_graph())
    assert x.op is x.values.op
    assert tf.sparse.SparseTensor is tf.SparseTensor
    assert str(x).startswith("SparseTensor(indices=Tensor(")
    assert tf.SparseTensor(indices=[[0]], values=[1], shape=[3]).get_shape().as_list() == [3]
    with pytest.raises(ValueError, match="Given: no dense_shape"):
        tf.SparseTensor([[0]], [1])


def test_fetched_and_fed_as_one():
    x = tf.sparse_placeholder(tf.float32, name="x")
    assert [t.name for t in (x.indices, x.values, x.dense_shape)] == ["x/indices:0", "x/values:0", "x/shape:0"]
    assert x.shape.ndims is None
    value = tf.SparseTensorValue(np.array([[1, 2]]), np.array([5.0], np.float32), np.array([3, 4]))
    with tf.Session() as session:
        for given in (value, tuple(value), ([[1, 2]], [5.0], [3, 4])):
            found = session.run(x, {x: given})
            assert isinstance(found, tf.SparseTensorValue)
            assert [part.tolist() for part in found] == [[[1, 2]], [5.0], [3, 4]]
        both = session.run({"x": x, "v": x.values * 2.0}, {x: value})
        assert both["v"].tolist() == [10.0]
        assert x.eval({x: value}, session).values.tolist() == [5.0]
        with pytest.raises(TypeError, match="its indices, values and dense shape"):
            session.run(x, {x: [1.0]})


@pytest.mark.parametrize(("shape", "static"), [([3, 2], [3, 2]), ([None, 4], [None, 4]), (None, None)])
def test_placeholders_of_known_shape(shape, static):
    x = tf.sparse_placeholder(tf.int32, shape)
    assert (None if x.shape.ndims is None else x.shape.as_list()) == static
    assert x.dense_shape.op.type == ("Const" if shape == [3, 2] else "Placeholder")
    with tf.Session() as session:
        assert session.run(x, {x: ([[0, 0]], [7], [2, 4])}).dense_shape.tolist() == [2, 4]


def test_conversions():
    value = tf.SparseTensorValue([[0]], [1], [2])
    x = tf.SparseTensor.from_value(value)
    assert tf.SparseTensor.from_value(x) is x
    assert tf.convert_to_tensor_or_sparse_tensor(x) is x
    assert isinstance(tf.convert_to_tensor_or_sparse_tensor(value), tf.SparseTensor)
    assert isinstance(tf.convert_to_tensor_or_sparse_tensor([1.0]), tf.Tensor)
    with pytest.raises(RuntimeError, match="requested = float32, actual = int32"):
        tf.convert_to_tensor_or_sparse_tensor(x, tf.float32)
    with pytest.raises(TypeError, match="Neither a SparseTensor nor SparseTensorValue"):
        tf.SparseTensor.from_value([1])
    with pytest.raises(TypeError, match=r"tf\.sparse_tensor_to_dense"):
        tf.convert_to_tensor(x)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (([0, 1], [1.0, 2.0], [3]), "indices of shape .2.\n.*rank 2"),
        (([[0], [1]], [[1.0, 2.0]], [3]), "values of shape .1,2.\n.*rank 1"),
        (([[0], [1]], [1.0], [3]), "2 indices and 1 values"),
        (([[0], [1]], [1.0, 2.0], [3, 3]), "indices of 1 columns and a dense_shape of 2 elements"),
    ],
)
def test_parts_that_do_not_fit(parts, told):
    with pytest.raises(ValueError, match=told):
        tf.SparseTensor(*parts)
