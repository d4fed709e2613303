"""What a RunMetadata tells of partitions, and sessions that are entered or fed in ways that TensorFlow refuses."""

from __future__ import annotations

import warnings

import pytest

import anabranch as tf


def test_partitions() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.multiply(x, 2.0, name="y")
        tf.add(y, 1.0, name="not_needed")
        metadata = tf.RunMetadata()
        assert session.run(y, {x: 3.0}, tf.RunOptions(output_partition_graphs=True), metadata) == 6
        (graph,) = metadata.partition_graphs
        assert {node.name for node in graph.node} >= {"y", "y/y"}
        assert "not_needed" not in {node.name for node in graph.node}
        assert {node.device for node in graph.node} == {"/job:localhost/replica:0/task:0/device:CPU:0"}
        session.run(y, {x: 3.0}, run_metadata=metadata)
        assert len(metadata.partition_graphs) == 0
        session.run(
            tf.constant(1.0), options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata
        )
        assert len(metadata.step_stats.dev_stats) == 1


def test_sessions_are_not_entered_twice() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(RuntimeError, match="Session context managers are not re-entrant"), session:
            pass
        with session.as_default():
            assert tf.constant(2).eval() == 2


def test_a_second_interactive_session_warns() -> None:
    with tf.Graph().as_default():
        first = tf.InteractiveSession()
        with pytest.warns(UserWarning, match="An interactive session is already active"):
            second = tf.InteractiveSession()
        second.close()
        first.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tf.InteractiveSession().close()


def test_values_that_a_placeholder_does_not_hold() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        text, small = tf.placeholder(tf.string), tf.placeholder(tf.int32)
        with pytest.raises(TypeError, match=r"Type of feed value 1 with type <class 'int'> is not compatible with"):
            session.run(tf.identity(text), {text: 1})
        with pytest.raises((TypeError, OverflowError), match="is not compatible with Tensor type"):
            session.run(tf.identity(small), {small: 2**40})


def test_a_sparse_tensor_of_known_shape_is_fed_without_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.sparse_placeholder(tf.float32, shape=[2, 3])
        dense = tf.sparse_tensor_to_dense(sparse)
        assert session.run(dense, {sparse: ([[1, 2]], [5.0])}).tolist() == [[0, 0, 0], [0, 0, 5]]
