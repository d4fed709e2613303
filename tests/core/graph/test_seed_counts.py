"""Operations that public functions count as for the seeds behind them, beside TensorFlow 1.15."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden.graphs.seed_count_cases import cases, counted

import anabranch as tf

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/seed_counts.json").read_text())
CASES = cases(tf)


def test_all_cases_are_there():
    assert GOLDEN.keys() == CASES.keys()


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_many_as_tensorflow(name):
    assert counted(tf, CASES[name]) == GOLDEN[name]


def test_a_program_with_a_graph_seed_draws_tensorflows_numbers():
    """Values of TensorFlow 1.15.5: flips, dropout, a draw in a branch, weights behind layers, and what comes last."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        x = tf.constant(np.arange(24, dtype=np.float32).reshape(12, 1, 2, 1))
        flipped = tf.image.random_flip_left_right(x)
        single = tf.image.random_flip_up_down(tf.transpose(x[0]))
        dropped = tf.nn.dropout(tf.ones([2, 4]), 0.5)
        drawn = tf.cond(tf.constant(True), lambda: tf.random_uniform([2]), lambda: tf.zeros([2]))
        layer = tf.layers.dropout(tf.layers.conv2d(tf.zeros([1, 4, 4, 1]), 1, 1), training=True)
        tf.layers.conv2d(layer, 1, 2)
        behind = tf.random_uniform([2], maxval=1000, dtype=tf.int32)
        session.run(tf.global_variables_initializer())
        assert session.run(flipped)[:, 0, 0, 0].tolist() == [0, 2, 5, 7, 9, 11, 12, 14, 16, 19, 20, 22]
        assert session.run(single).ravel().tolist() == [0, 1]
        assert session.run(dropped).ravel().tolist() == [2, 2, 2, 0, 2, 0, 2, 2]
        np.testing.assert_array_equal(session.run(drawn), np.float32([0.164162278175354, 0.9629760980606079]))
        first, _, second, _ = session.run(tf.trainable_variables())
        np.testing.assert_array_equal(first.ravel(), np.float32([-1.6002683639526367]))
        weights = [0.1586170792579651, -0.7271575331687927, 0.8291487097740173, 0.7239482998847961]
        np.testing.assert_array_equal(second.ravel(), np.float32(weights))
        assert session.run(behind).tolist() == [778, 305]
