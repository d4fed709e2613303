"""Ragged tensors in programs: fed, in loops and functions, differentiated, checked when the graph runs."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as new:
        yield new


def run(x, feeds=None):
    with tf.Session() as session:
        return session.run(x, feeds)


def rows(x, feeds=None):
    return run(x, feeds).to_list()


def test_feeding_and_fetching():
    x = tf.ragged.placeholder(tf.int32, 2)
    value = tf.ragged.constant_value([[[1], [2, 3]], []], dtype=np.int32)
    assert rows(x * 2, {x: value}) == [[[2], [4, 6]], []]
    fetched = run({"all": x, "parts": [x.row_splits]}, {x: value})
    assert fetched["all"].nested_row_splits[1].tolist() == [0, 1, 3]
    assert fetched["parts"][0].tolist() == [0, 2, 2]
    assert str(fetched["all"]) == "<tf.RaggedTensorValue [[[1], [2, 3]], []]>"
    with pytest.raises(TypeError, match=r"a list fed to a RaggedTensor(.|\n)*tf\.ragged\.constant_value"):
        run(x, {x: [[1]]})
    with tf.Session().as_default():
        assert x.eval({x: value}).to_list() == [[[1], [2, 3]], []]


GROWS = [tf.TensorShape([]), tf.TensorShape([2, None])]


def test_loops_and_conditionals():
    x = tf.ragged.constant([[1.0, 2.0], [3.0]])
    count, y = tf.while_loop(lambda i, r: i < 3, lambda i, r: (i + 1, r * 2.0), (0, x))
    assert isinstance(y, tf.RaggedTensor)
    assert run(count) == 3
    assert rows(y) == [[8.0, 16.0], [24.0]]
    grown = tf.while_loop(lambda i, r: i < 2, lambda i, r: (i + 1, tf.concat([r, r], 1)), (0, x), GROWS)[1]
    assert rows(grown) == [[1.0, 2.0] * 4, [3.0] * 4]
    chosen = tf.cond(tf.placeholder_with_default(True, []), lambda: x + 1.0, lambda: x)
    assert rows(chosen) == [[2.0, 3.0], [4.0]]


def slopes(y, x):
    return run(tf.convert_to_tensor(tf.gradients(y, x)[0])).tolist()


def test_gradients():
    flat = tf.placeholder_with_default([3.0, 1.0, 4.0, 1.0, 5.0], [5])
    fill = tf.constant(7.0)
    x = tf.RaggedTensor.from_row_splits(flat, [0, 2, 2, 5])
    weights = tf.reshape(tf.range(9.0), [3, 3])
    dense = tf.reduce_sum(x.to_tensor(fill) * weights)
    # The values are at (0, 0), (0, 1), (2, 0), (2, 1) and (2, 2), the others are the fill's.
    assert slopes(dense, flat) == [0, 1, 6, 7, 8]
    assert slopes(dense, fill) == 36 - 22
    assert slopes(tf.reduce_sum(tf.reduce_sum(x, 1) ** 2), flat) == [8, 8, 20, 20, 20]
    assert slopes(tf.reduce_sum(tf.reduce_max(x, 1)), flat) == [1, 0, 0, 0, 1]
    assert slopes(tf.reduce_sum(x * [[1.0], [2.0], [3.0]]), flat) == [1, 1, 3, 3, 3]
    assert slopes(tf.reduce_sum(x[:, :1]), flat) == [1, 0, 1, 0, 0]
    assert slopes(tf.reduce_sum(tf.gather(x, [2, 2])), flat) == [0, 0, 2, 2, 2]
    wide = tf.RaggedTensor.from_row_splits(tf.reshape(flat[:4], [2, 2]), [0, 0, 2])
    assert slopes(tf.reduce_sum(wide.to_tensor() * np.arange(8.0).reshape(2, 2, 2)), flat) == [4, 5, 6, 7, 0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: tf.RaggedTensor.from_row_splits([1, 2], x), "row_splits must not fall"),
        (lambda x: tf.RaggedTensor.from_row_lengths([1, 2], x), "their sum must be the number of values"),
        (lambda x: tf.RaggedTensor.from_value_rowids([1, 2, 3], x), "value_rowids must not fall"),
    ],
)
def test_checks_when_the_graph_runs(make, words):
    place = tf.placeholder(tf.int64, [None])
    x = make(place)
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        run(x, {place: [0, 3, 1]})


def test_rows_that_differ_when_the_graph_runs():
    first, second = (tf.ragged.placeholder(tf.int32, 1, []) for _ in range(2))
    values = [tf.ragged.constant_value(one, dtype=np.int32) for one in ([[1, 2], [3]], [[1], [2, 3]])]
    for x, words in (
        (first + second, "dimension size mismatch"),
        (tf.ragged.map_flat_values(tf.add, first, second), "Inputs must have identical ragged splits"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            run(x, dict(zip((first, second), values, strict=True)))
        assert rows(x, {first: values[0], second: values[0]}) == [[2, 4], [6]]


def test_what_is_refused():
    x = tf.ragged.constant([[1, 2], [3]])
    with pytest.raises(ValueError, match=r"constructor is private(.|\n)*from_row_splits"):
        tf.RaggedTensor(x.values, x.row_splits)
    with pytest.raises(TypeError, match=r"Failed to convert object of type(.|\n)*x\.to_tensor\(\)"):
        tf.convert_to_tensor(x)
    with pytest.raises(ValueError, match="Cannot index into an inner ragged dimension"):
        x[:, 0]
    with pytest.raises(TypeError, match="may not be used as a boolean"):
        bool(x)
    with pytest.raises(ValueError, match="mismatched row_splits dtypes"):
        x + x.with_row_splits_dtype(tf.int32)
    with pytest.raises(ValueError, match=r"to_list\(\) is only supported in eager mode"):
        x.to_list()
    with pytest.raises(TypeError, match="RaggedTensor"):
        tf.matmul(x, x)


def test_functions_of_dense_tensors_are_what_they_were():
    assert tf.add.__name__ == "add"
    assert tf.add is tf.math.add
    with pytest.raises(TypeError, match="Failed to convert object of type <class 'object'>"):
        tf.add(object(), 1)
    assert run(tf.reduce_sum([[1, 2]], 1)).tolist() == [3]


def test_where_ops_run_at_once():
    with mode.eager_mode():
        x = tf.ragged.constant([[1, 2], [], [3]])
        assert str(x) == "<tf.RaggedTensor [[1, 2], [], [3]]>"
        assert (x + tf.constant(1)).to_list() == [[2, 3], [], [4]]
        assert x[0].numpy().tolist() == [1, 2]
        assert tf.reduce_sum(x, 1).numpy().tolist() == [3, 0, 3]

        @tf.function
        def doubled(value):
            return value * 2

        assert doubled(x).to_list() == [[2, 4], [], [6]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"row_splits\[0\] must be 0"):
            tf.RaggedTensor.from_row_splits([1, 2], [1, 2])


def test_shapes_that_are_known():
    x = tf.ragged.constant([[[1, 2], [3]], []])
    assert x.shape.as_list() == [2, None, None]
    assert x.to_tensor().shape.as_list() == [2, None, None]
    assert tf.RaggedTensor.from_tensor(tf.zeros([2, 3, 4])).shape.as_list() == [2, None, 4]
    assert x[:, :1].shape.as_list() == [2, None, None]


def test_rows_are_filled_up_or_cut_to_a_shape() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.ragged.constant([[1, 2, 3], [], [4]])
        dense = rows.to_tensor(default_value=9, shape=[None, 2])
        assert dense.shape.as_list() == [None, 2]
        assert session.run(dense).tolist() == [[1, 2], [9, 9], [4, 9]]
        assert session.run(rows.to_tensor(shape=(4, 4)))[2:].tolist() == [[4, 0, 0, 0], [0, 0, 0, 0]]
        fed = tf.placeholder(tf.int64, [2])
        assert session.run(rows.to_tensor(shape=fed), {fed: [2, 1]}).tolist() == [[1], [0]]
        assert session.run(rows.to_tensor()).shape == (3, 3)
