"""Specifications of values that are not there yet: what functions and datasets of generators take."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


def _sparse(rows, value=1.0):
    return tf.SparseTensor([[0, 1]], [value], [rows, 3])


def test_a_function_is_traced_once_for_a_specification_of_sparse_tensors():
    shapes = []

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 3], tf.float32)])
    def dense(x):
        shapes.append(x.shape.as_list())
        return tf.sparse.to_dense(x)

    assert dense(_sparse(2)).numpy().tolist() == [[0, 1, 0], [0, 0, 0]]
    assert dense(_sparse(1)).numpy().tolist() == [[0, 1, 0]]
    assert shapes == [[None, 3]]
    with pytest.raises(ValueError, match="inputs incompatible with input_signature"):
        dense(_sparse(2, 1))


def test_a_specification_stands_for_a_value_that_comes_later():
    @tf.function
    def same(x):
        return x

    concrete = same.get_concrete_function(tf.SparseTensorSpec([None, 3], tf.float32))
    assert [tensor.shape.as_list() for tensor in concrete.inputs] == [[None, 2], [None], [2]]


def test_a_generator_gives_sparse_tensors():
    def rows():
        yield _sparse(2), np.arange(2)
        yield _sparse(4, 3.0), np.arange(5)

    signature = (tf.SparseTensorSpec([None, 3], tf.float32), tf.TensorSpec([None], tf.int64))
    dataset = tf.data.Dataset.from_generator(rows, output_signature=signature)
    first, second = [(tf.sparse.to_dense(a).numpy().shape, b.numpy().size) for a, b in dataset]
    assert (first, second) == (((2, 3), 2), ((4, 3), 5))
    assert dataset.output_shapes[0].as_list() == [None, 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: np.zeros(3), "could not be converted"), (lambda: _sparse(2, 1.5), "of shape .*was expected")],
)
def test_a_generator_that_does_not_keep_to_its_signature_is_refused(make, message):
    spec = tf.SparseTensorSpec([5, 3], tf.float32)
    dataset = tf.data.Dataset.from_generator(lambda: iter([make()]), output_signature=spec)
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnknownError, TypeError, ValueError), match=message):
        next(iter(dataset))


def test_a_signature_of_something_else_is_refused():
    with pytest.raises(TypeError, match=r"must contain objects that are subclass of `tf\.TypeSpec`"):
        tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.float32)


def test_none_has_a_place_in_elements():
    dataset = tf.data.Dataset.from_tensors((tf.constant([1, 2]), None)).repeat(3).map(lambda x, y: (x + 1, y)).batch(2)
    assert [(x.numpy().tolist(), y) for x, y in dataset] == [([[2, 3], [2, 3]], None), ([[2, 3]], None)]
    with pytest.raises(ValueError, match="None in from_tensor_slices"):
        tf.data.Dataset.from_tensor_slices((tf.constant([1, 2]), None))


def test_an_element_of_an_array_may_be_written_again():
    def last(n):
        array = tf.TensorArray(tf.float32, 1)
        for i in range(n):
            array = array.write(0, float(i))
        return array.stack()

    assert last(3).numpy().tolist() == [2.0]
    assert tf.function(last, autograph=False)(3).numpy().tolist() == [2.0]


def test_a_function_knows_what_is_known_of_the_sparse_tensors_of_a_dataset():
    known = []

    @tf.function
    def count(x):
        known.append(x.shape.as_list())
        return tf.sparse.reduce_sum(x)

    def rows():
        yield _sparse(2)
        yield _sparse(4, 3.0)

    dataset = tf.data.Dataset.from_generator(rows, output_signature=tf.SparseTensorSpec([None, 3], tf.float32))
    assert [count(x).numpy() for x in dataset] == [1, 3]
    assert known == [[None, 3]]
    outer = tf.function(lambda x: count(x))
    assert [outer(x).numpy() for x in dataset] == [1, 3]
    assert known == [[None, 3]] * 2
