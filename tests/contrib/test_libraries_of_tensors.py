"""Checks of shapes, weights of losses, and tables of `tf.contrib`, as programs of TensorFlow 1.8 use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

framework, losses, lookup = tf.contrib.framework, tf.contrib.losses, tf.contrib.lookup


@pytest.fixture(autouse=True)
def _own_graph() -> Any:
    with tf.Graph().as_default():
        yield


def value(tensor: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run([tf.tables_initializer()])
        return session.run(tensor, feeds)


@pytest.mark.parametrize("known", [True, False])
def test_predictions_come_first_from_remove_squeezable_dimensions(known: bool) -> None:
    shape = [3, 1] if known else None
    predictions = tf.placeholder_with_default([[0], [1], [2]], shape)
    labels = tf.placeholder_with_default([3, 4, 5], [3] if known else None)
    pair = framework.remove_squeezable_dimensions(predictions, labels)
    assert [part.tolist() for part in value(pair)] == [[0, 1, 2], [3, 4, 5]]
    with_labels = framework.remove_squeezable_dimensions(labels, predictions)
    assert [part.tolist() for part in value(with_labels)] == [[3, 4, 5], [0, 1, 2]]


def test_with_shape_of_what_is_known() -> None:
    x = tf.constant([[1.0, 2.0]])
    assert framework.with_shape([1, 2], x) is x
    assert value(framework.with_shape([], tf.constant([3.0]))) == 3.0
    with pytest.raises(ValueError, match="expected \\(2, 1\\), got \\(1, 2\\)"):
        framework.with_shape([2, 1], x)
    with pytest.raises(ValueError, match="Invalid rank 2"):
        framework.with_shape([[1], [2]], x)
    with pytest.raises(ValueError, match="Invalid dtype float64"):
        framework.with_shape([1.1], x)
    with pytest.raises(ValueError, match="Invalid dtype"):
        framework.with_shape(tf.constant([1, 2], tf.int64), x)


def test_with_shape_of_what_is_known_when_it_runs() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    checked = framework.with_shape([1, 2], x)
    assert checked.shape.as_list() == [1, 2]
    assert value(checked, {x: [[1.0, 2.0]]}).tolist() == [[1.0, 2.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[expected\] \[actual\].\] \[1 2\] \[2 2\]"):
        value(checked, {x: np.ones((2, 2))})
    with pytest.raises(ValueError, match="not compatible"):
        framework.with_shape([1, 2, 3], x)
    tensor = framework.with_shape(tf.constant([2, 2]), tf.constant([[1.0, 2.0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2 2\] \[1 2\]"):
        value(tensor)
    ranks = framework.with_shape(tf.constant([1]), tf.constant([[1.0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[1\] \[1 1\]"):
        value(ranks)


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        (1.0, (1 + 4 + 9 + 16 + 25 + 36) / 6),
        ([1.0, 0.0], (1 + 4 + 9) / 3),
        ([2.0, 1.0], (2 * 14 + 77) / 6),
        ([[2.0], [1.0]], (2 * 14 + 77) / 6),
        ([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]], (1 + 18) / 2),
        ([0.0, 0.0], 0.0),
    ],
)
def test_weights_of_losses_belong_to_the_first_axes(weights: Any, wanted: float) -> None:
    predictions = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    loss = losses.mean_squared_error(predictions, tf.zeros([2, 3]), weights)
    assert value(loss) == pytest.approx(wanted)
    assert losses.get_losses() == [loss]


def test_weights_that_do_not_fit_losses() -> None:
    with pytest.raises(ValueError, match=r"weights of rank 2 for losses of rank 1"):
        losses.softmax_cross_entropy(tf.ones([2, 3]), tf.ones([2, 3]), weights=tf.ones([2, 3]))
    with pytest.raises(ValueError, match=r"weights.get_shape\(\).ndims cannot be None"):
        losses.compute_weighted_loss(tf.ones([2]), tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match=r"losses.get_shape\(\).ndims cannot be None"):
        losses.compute_weighted_loss(tf.placeholder(tf.float32))


def test_an_argument_scope_keeps_losses_out_of_the_collection() -> None:
    logits, labels = tf.constant([[1.2, 0.4]]), tf.constant([[1.0, 0.0]])
    with framework.arg_scope([losses.add_loss], loss_collection=None):
        losses.absolute_difference(logits, labels)
        losses.softmax_cross_entropy(logits, labels)
    assert not losses.get_losses()


@pytest.mark.parametrize(
    ("keys", "empty"),
    [
        (np.array([4, 5], np.int64), -1),
        (np.array([4, 5], np.int64), np.iinfo(np.int64).min),
        (np.array(["a", "b"]), ""),
    ],
)
def test_a_dense_table_needs_no_deleted_key(keys: Any, empty: Any) -> None:
    dtype = tf.string if keys.dtype.kind == "U" else tf.int64
    table = lookup.MutableDenseHashTable(dtype, tf.int64, -7, empty)
    with tf.Session() as session:
        session.run(table.insert(tf.constant(keys, dtype), tf.constant([1, 2], tf.int64)))
        assert session.run(table.lookup(tf.constant(keys, dtype))).tolist() == [1, 2]
    with pytest.raises(TypeError, match="keys of bool"):
        lookup.MutableDenseHashTable(tf.bool, tf.int64, -7, False)
    with pytest.raises(ValueError, match="known only when the graph runs"):
        lookup.MutableDenseHashTable(tf.int64, tf.int64, -7, tf.placeholder(tf.int64, []))


def test_hashers_and_vocabularies_that_are_refused() -> None:
    table = lookup.index_table_from_tensor(["a"], num_oov_buckets=1, hasher_spec=lookup.HasherSpec("own", None))
    with pytest.raises(ValueError, match="Unknown hasher own"):
        table.lookup(tf.constant(["b"]))
    with pytest.raises(ValueError, match="mapping must be specified"):
        lookup.index_table_from_tensor(None)
    with pytest.raises(TypeError, match="Invalid key_dtype, expected integer or string"):
        lookup.IdTableWithHashBuckets(None, num_oov_buckets=5, key_dtype=tf.float64)
    file = lookup.TextFileInitializer(
        tf.constant(["a", "b"]),
        tf.string,
        lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        lookup.TextFileIndex.LINE_NUMBER,
    )
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        lookup.HashTable(file, -1)


def test_the_graph_of_inputs() -> None:
    first, second = tf.Graph(), tf.Graph()
    with first.as_default():
        values = [tf.constant(0.0), tf.Variable(1.0)]
        assert framework.get_graph_from_inputs([]) is first
    assert framework.get_graph_from_inputs(values) is first
    assert framework.get_graph_from_inputs(values, first) is first
    with pytest.raises(ValueError, match="is not from the passed-in graph"):
        framework.get_graph_from_inputs(values, second)
    with second.as_default(), pytest.raises(ValueError, match="must be from the same graph"):
        framework.get_graph_from_inputs([*values, tf.constant(2.0)])


def test_a_variable_without_a_value_becomes_zeros_once() -> None:
    variable = tf.Variable([1.0, 2.0])
    zeros = framework.zero_initializer(variable)
    with tf.Session() as session:
        assert session.run(zeros).tolist() == [0.0, 0.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="input is already initialized"):
            session.run(zeros)


def test_names_that_stand_elsewhere_too() -> None:
    assert tf.contrib.metrics.set_union is tf.sets.set_union
    assert tf.contrib.summary.eval_dir("model") == "model/eval"
    assert tf.contrib.summary.eval_dir("model", "test") == "model/eval_test"
    state = tf.contrib.seq2seq.BeamSearchDecoderState(cell_state=1, log_probs=2, finished=3, lengths=4)
    assert state.accumulated_attention_probs == ()
    assert issubclass(lookup.KeyValueTensorInitializer, lookup.TableInitializerBase)
    assert framework.RecordInput.__name__ == "RecordInput"


@pytest.mark.parametrize("assert_unused", [False, True])
def test_forward_gradients(assert_unused: bool) -> None:
    x, z = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    ys = [tf.square(x) * z, tf.reduce_sum(tf.sin(x)), tf.gather(x, [2, 0])]
    forward = tf.contrib.nn.fwd_gradients(ys, [x, z], [tf.constant([1.0, 0.0, 2.0]), tf.constant(10.0)], assert_unused)
    first, second, third = value(forward)
    np.testing.assert_allclose(first, [4 + 10, 40, 24 + 90], rtol=1e-6)
    np.testing.assert_allclose(second, np.cos(1.0) + 2 * np.cos(3.0), rtol=1e-5)
    np.testing.assert_allclose(third, [2.0, 1.0])
