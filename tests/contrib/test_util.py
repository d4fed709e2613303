"""Values known from the graph, tensors as protos, op lists."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.contrib import util


def test_values_known_from_the_graph() -> None:
    with tf.Graph().as_default():
        place = tf.placeholder(tf.float32, [None, 3])
        assert util.constant_value(tf.constant([1, 2])).tolist() == [1, 2]
        assert util.constant_value(tf.shape(tf.zeros([2, 3]))).tolist() == [2, 3]
        assert util.constant_value(tf.shape(place)[1] * 2) == 6
        assert util.constant_value(place) is None
        assert util.constant_value(tf.shape(place)) is None
        assert util.constant_value(tf.shape(place), partial=True).tolist() == [None, 3]
        assert tf.get_static_value(tf.stack([tf.shape(place)[0], 4]), partial=True).tolist() == [None, 4]
        assert util.constant_value_as_shape(tf.shape(place)).as_list() == [None, 3]
        assert util.constant_value_as_shape(tf.placeholder(tf.int32, [2])).as_list() == [None, None]
        assert util.constant_value_as_shape(tf.placeholder(tf.int32, [None])).ndims is None
        assert util.constant_value_as_shape(tf.constant(-1)).ndims is None
        with pytest.raises(ValueError, match=r"Shape \(1, 3\) must have rank 1"):
            util.constant_value_as_shape(tf.constant([[1, 2, 3]]))
        for scalar in (tf.constant(3), tf.placeholder(tf.int32, [])):
            with pytest.raises(ValueError, match="require a statically known scalar with value '-1'"):
                util.constant_value_as_shape(scalar)
    for value in (3, "a", [1], None):  # what is not a tensor is given back, as TensorFlow 1.15 does
        assert util.constant_value(value) is value


def test_protos() -> None:
    proto = util.make_tensor_proto([1.0, 2.0], shape=[2, 1])
    assert util.make_ndarray(proto).tolist() == [[1.0], [2.0]]


def test_op_types_of_a_graph() -> None:
    with tf.Graph().as_default() as graph:
        tf.matmul(np.ones((1, 1)), np.ones((1, 1)))
    assert util.ops_used_by_graph_def(graph.as_graph_def()) == ["Const", "MatMul"]
    assert [op.name for op in util.stripped_op_list_for_graph(graph.as_graph_def()).op] == ["Const", "MatMul"]
