"""What ``element_spec`` and the structures of ``tf.data.experimental`` are: specs of tensors, which go back in."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

D = tf.data.Dataset
E = tf.data.experimental


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_specs_of_tensors_in_their_structure():
    dataset = D.from_tensor_slices({"x": np.zeros([4, 3], np.float32), "y": (np.arange(4), ["a"] * 4)}).batch(2)
    wanted = {
        "x": tf.TensorSpec([None, 3], tf.float32),
        "y": (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.string)),
    }
    assert dataset.element_spec == wanted
    assert dataset.make_one_shot_iterator().element_spec == wanted
    assert E.get_structure(dataset) == wanted
    assert all(isinstance(spec, E.Structure) for spec in tf.nest.flatten(dataset.element_spec))


def test_specs_of_sparse_tensors():
    sparse = tf.SparseTensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 2])
    (spec,) = D.from_tensors((sparse,)).element_spec
    assert spec == tf.SparseTensorSpec([2, 2], tf.float32)
    assert spec == E.SparseTensorStructure(tf.float32, [2, 2])


def test_a_spec_is_the_signature_of_a_function_of_elements():
    dataset = D.range(6).batch(3)

    @tf.function(input_signature=[dataset.element_spec])
    def total(numbers):
        return tf.reduce_sum(numbers)

    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(total(element)) == 3


def test_structures_are_specs_that_datasets_and_optionals_take():
    assert E.TensorStructure(tf.int64, []) == tf.TensorSpec([], tf.int64)
    ragged = E.RaggedTensorStructure(tf.int64, [None, None], 1)
    assert ragged == tf.RaggedTensorSpec([None, None], tf.int64, 1)
    numbers = D.range(3)
    again = E.from_variant(E.to_variant(numbers), E.TensorStructure(tf.int64, []))
    assert again.element_spec == numbers.element_spec
    optional = E.Optional.from_value((tf.constant(1.0), tf.constant([2])))
    assert optional.value_structure == (tf.TensorSpec([], tf.float32), tf.TensorSpec([1], tf.int32))
    empty = E.Optional.none_from_structure(optional.value_structure)
    assert E.OptionalStructure(optional.value_structure) == E.OptionalStructure.from_value(optional)
    element = again.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run([element, empty.has_value()]) == [0, False]


def test_a_structure_that_is_no_spec_is_refused():
    with pytest.raises(TypeError, match=r"objects that are subclass of `tf\.TypeSpec` but found"):
        E.from_variant(E.to_variant(D.range(3)), tf.int64)
