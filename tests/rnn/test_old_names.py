"""Names and arguments of recurrent networks from before TensorFlow 1.0."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import old_names


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setattr(old_names, "_warned", set())
    with tf.Graph().as_default():
        yield


def run(fetches):
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_loops():
    steps = [tf.constant(np.full((2, 3), i), tf.float32) for i in range(4)]
    with tf.variable_scope("net", initializer=tf.constant_initializer(0.1)):
        cell = tf.nn.rnn_cell.GRUCell(5)
        with pytest.warns(FutureWarning, match="tf.nn.static_rnn"):
            outputs, state = tf.nn.rnn(cell, steps, dtype=tf.float32)
        with pytest.warns(FutureWarning, match="tf.nn.static_bidirectional_rnn"):
            both, _, _ = tf.nn.bidirectional_rnn(
                tf.nn.rnn_cell.GRUCell(5), tf.nn.rnn_cell.GRUCell(5), steps, dtype=tf.float32
            )
    last, final, joined = run([outputs[-1], state, both[-1]])
    np.testing.assert_allclose(last, final)
    np.testing.assert_allclose(joined[:, :5], last, rtol=1e-6)


def test_wrappers():
    with tf.variable_scope("root", initializer=tf.constant_initializer(0.5)):
        with pytest.warns(FutureWarning, match="tf.contrib.rnn.OutputProjectionWrapper"):
            cell = tf.nn.rnn_cell.OutputProjectionWrapper(tf.nn.rnn_cell.GRUCell(3), 2)
        output, _ = cell(tf.ones([1, 3]), tf.fill([1, 3], 0.1))
    np.testing.assert_allclose(run(output), [[0.231907, 0.231907]], rtol=1e-5)  # as TensorFlow 0.7.1 gave


def test_linear():
    x = tf.constant([[1.0, 2.0]])
    with tf.variable_scope("root", initializer=tf.constant_initializer(1.0)):
        with pytest.warns(FutureWarning, match="tf.layers.dense"):
            y = tf.nn.rnn_cell.linear([x, x], 2, True, bias_start=0.5)
        with pytest.raises(ValueError, match="already exists"):
            tf.nn.rnn_cell.linear([x, x], 2, False)
    assert run(y).tolist() == [[6.5, 6.5]]


@pytest.mark.parametrize("cell", ["BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell"])
def test_size_of_inputs_is_found_from_them(cell, caplog):
    with caplog.at_level(logging.WARNING, "anabranch"):
        made = getattr(tf.nn.rnn_cell, cell)(4, input_size=7)
    assert "The input_size parameter is deprecated" in caplog.text
    output, _ = made(tf.zeros([2, 3]), made.zero_state(2, tf.float32))
    assert output.shape.as_list() == [2, 4]
