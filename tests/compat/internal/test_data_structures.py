"""Modules below `tensorflow.python.data.util`, as programs of the time import them."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import data_structures as names


def test_structures_of_elements_have_lists_as_leaves():
    element = {"b": [1, 2], "a": (3, 4)}
    assert names.is_sequence(element)
    assert not names.is_sequence([1])
    assert names.flatten(element) == [3, 4, [1, 2]]
    assert names.map_structure_up_to({"b": 0, "a": 0}, lambda x, y: (x, y), element, {"b": 5, "a": 6}) == {
        "b": ([1, 2], 5),
        "a": ((3, 4), 6),
    }
    names.assert_same_structure((1, 2), (3, 4))
    names.assert_same_structure((1, 2), {"a": 3, "b": 4}, check_types=False)
    names.assert_shallow_structure((0, 0), ((1, 2), 3))
    with pytest.raises(ValueError, match="Structure had 3 elements, but flat_sequence had 2"):
        names.pack_sequence_as(element, [1, 2])
    with pytest.raises(ValueError, match="same number of elements"):
        names.assert_same_structure((1, 2), {"a": 3}, check_types=False)


def test_operands_and_seeds():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(5)
        assert session.run(names.optional_param_to_tensor("size", None)) == 0
        assert session.run(names.optional_param_to_tensor("name", "a", "", tf.string)) == b"a"
        assert session.run(names.partial_shape_to_tensor([None, 3])).tolist() == [-1, 3]
        assert [int(seed) for seed in session.run(names.get_seed(7))] == [5, 7]


def test_sparse_tensors_as_variants():
    with tf.Graph().as_default(), tf.Session() as session:
        element = (tf.SparseTensor([[0, 1]], [7], [1, 3]), tf.constant(2))
        classes, types = names.get_classes(element), (tf.int32, tf.int32)
        assert names.any_sparse(classes)
        assert classes == (tf.SparseTensor, tf.Tensor)
        shapes = (tf.TensorShape([1, 3]), tf.TensorShape([]))
        assert names.as_dense_types(types, classes) == (tf.variant, tf.int32)
        assert names.as_dense_shapes(shapes, classes)[0].ndims is None
        parts = names.serialize_sparse_tensors(element)
        again = names.deserialize_sparse_tensors(parts, types, shapes, classes)
        dense, plain = session.run([tf.sparse.to_dense(again[0]), again[1]])
        np.testing.assert_array_equal(dense, [[0, 7, 0]])
        assert plain == 2
        rows = names.serialize_many_sparse_tensors(element[0])
        assert session.run(tf.shape(rows)).tolist() == [1, 3]
