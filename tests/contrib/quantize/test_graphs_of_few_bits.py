"""`tf.contrib.quantize`: what graphs become; values stand in `tests/golden/contrib.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.contrib.quantize import insertion, patterns, ranges

X = np.random.RandomState(0).randn(4, 6, 6, 3).astype(np.float32)


def net(x: Any, is_training: bool, fused: bool) -> Any:
    layers = tf.contrib.layers
    norm = {"fused": fused, "is_training": is_training, "decay": 0.5}
    y = layers.conv2d(x, 4, 3, normalizer_fn=layers.batch_norm, normalizer_params=norm, scope="first")
    return layers.fully_connected(layers.flatten(y), 3, activation_fn=None, scope="last")


@pytest.mark.parametrize("fused", [False, True])
def test_what_was_trained_is_restored_and_computes_with_few_values(fused: bool, tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [4, 6, 6, 3])
        y = net(x, True, fused)
        tf.contrib.quantize.create_training_graph()
        loss = tf.losses.mean_squared_error(tf.ones([4, 3]), y)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            step = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
        session.run(tf.global_variables_initializer())
        before = session.run(loss, {x: X})
        for _ in range(30):
            session.run(step, {x: X})
        assert session.run(loss, {x: X}) < before / 2
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [4, 6, 6, 3])
        net(x, False, fused)
        tf.contrib.quantize.create_eval_graph()
        tf.train.Saver().restore(session, path)
        weights, outputs = session.run(
            [
                graph.get_tensor_by_name("first/weights_quant/FakeQuantWithMinMaxVars:0"),
                graph.get_tensor_by_name("first/act_quant/FakeQuantWithMinMaxVars:0"),
            ],
            {x: X},
        )
        for values in (weights, outputs):
            assert 10 < len(np.unique(values)) <= 256
        assert outputs.min() == 0
        assert "first/Conv2D_Fold" in [op.name for op in graph.get_operations()]


def test_a_second_rewrite_changes_nothing() -> None:
    with tf.Graph().as_default() as graph:
        net(tf.placeholder(tf.float32, [4, 6, 6, 3]), True, False)
        tf.contrib.quantize.create_training_graph()
        count = len(graph.get_operations())
        tf.contrib.quantize.create_training_graph()
        assert len(graph.get_operations()) == count


def test_a_graph_with_an_optimizer_is_refused() -> None:
    with tf.Graph().as_default():
        y = tf.layers.dense(tf.ones([2, 3]), 1)
        tf.train.AdamOptimizer().minimize(tf.reduce_sum(y))
        with pytest.raises(ValueError, match=r"Training op found in graph, exiting \['ApplyAdam'\]"):
            tf.contrib.quantize.create_training_graph()


def test_nothing_outside_the_scope_changes() -> None:
    with tf.Graph().as_default() as graph:
        y = tf.contrib.layers.fully_connected(tf.ones([2, 3]), 4, scope="a/one")
        tf.contrib.layers.fully_connected(y, 4, scope="a/two")
        tf.contrib.quantize.experimental_create_training_graph(scope="a/two")
        rounded = [op.name for op in graph.get_operations() if op.type.startswith("FakeQuant")]
        assert rounded == [f"a/two/{name}/FakeQuantWithMinMaxVars" for name in ("weights_quant", "act_quant")]


def test_delays_count_steps() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [64, 3])
        tf.contrib.layers.fully_connected(x, 4, activation_fn=None, biases_initializer=tf.ones_initializer())
        out = graph.get_tensor_by_name("fully_connected/BiasAdd:0")
        taken = tf.negative(tf.nn.relu(out))
        tf.contrib.quantize.experimental_create_training_graph(weight_bits=2, activation_bits=2, quant_delay=3)
        session.run(tf.global_variables_initializer())
        values = np.random.RandomState(0).randn(64, 3)
        numbers = [len(np.unique(session.run(taken, {x: values}))) for _ in range(4)]
        assert min(numbers[:2]) > 50
        assert numbers[3] <= 4


@pytest.mark.parametrize("per_channel", [False, True])
def test_ranges_follow_the_last_values(per_channel: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 2])
        y = ranges.LastValueQuantize(x, per_channel=per_channel, vars_collection="ranges")
        session.run(tf.global_variables_initializer())
        session.run(y, {x: [[-1.0, 2.0], [3.0, 0.5]]})
        low, high = session.run(tf.get_collection("ranges"))
        np.testing.assert_array_equal(low, [-1, 0] if per_channel else -1)
        np.testing.assert_array_equal(high, [3, 2] if per_channel else 3)
        with pytest.raises(ValueError, match="Expected 1D, 2D or 4D input"):
            ranges.MovingAvgQuantize(tf.ones([1, 2, 3]), per_channel=True)
        fixed = session.run(ranges.FixedQuantize(tf.constant([-9.0, 1.0, 9.0])))
        np.testing.assert_allclose(fixed, [-6.0, 1.0, 6.0], atol=0.03)


def test_patterns_find_ops_by_their_inputs() -> None:
    with tf.Graph().as_default() as graph:
        a, b = tf.constant(1.0), tf.placeholder(tf.float32)
        total = (a * b) - a
        left, right = patterns.OpTypePattern("Const"), patterns.OpTypePattern("Mul|Div", name="product")
        whole = patterns.OpTypePattern("Sub", inputs=[left, right], ordered_inputs=False)
        (match,) = patterns.GraphMatcher(whole).match_graph(graph)
        assert match.get_op(whole) is total.op
        assert match.get_tensor("product") is total.op.inputs[0]
        assert match.get_op("other") is None
        with pytest.raises(ValueError, match="Expect Pattern or str"):
            match.get_op(1)
        ordered = patterns.OpTypePattern("Sub", inputs=[left, right])
        assert patterns.GraphMatcher(ordered).match_op(total.op) is None
        assert insertion.InputToOps(graph).ConsumerOperations(b.op) == {total.op.inputs[0].op}


def test_averages_without_bias_keep_their_digits() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        average = tf.Variable(0.0, trainable=False)
        value = tf.placeholder(tf.float32, [])
        moved = ranges.assign_moving_average(average, value, 0.999)
        session.run(tf.global_variables_initializer())
        # As TensorFlow 1.15.5: the share of the new value is 0.001 and the correction is of 1 - 0.001.
        assert session.run(moved, {value: 3.0}) == np.float32(3.0 * 0.001) / (1 - (np.float32(1) - np.float32(0.001)))
