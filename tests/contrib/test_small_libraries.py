"""Small libraries of `tf.contrib`: cuDNN's layers, the projector, staging, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf

cudnn = tf.contrib.cudnn_rnn
TIME, BATCH, SIZE, UNITS = 5, 3, 4, 2
X = np.random.RandomState(0).randn(TIME, BATCH, SIZE).astype(np.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    h = c = np.zeros([x.shape[1], UNITS])
    outputs = []
    for step in x:
        i, g, f, o = np.split(np.concatenate([step, h], 1) @ kernel + bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs), h, c


def test_lstm_of_two_layers() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        layer = cudnn.CudnnLSTM(2, UNITS)
        outputs, (h, c) = layer(tf.constant(X))
        names = [f"cudnn_lstm/rnn/multi_rnn_cell/cell_{i}/cudnn_compatible_lstm_cell" for i in (0, 1)]
        assert [v.op.name for v in tf.global_variables()] == [
            f"{name}/{part}" for name in names for part in ("kernel", "bias")
        ]
        assert len(layer.trainable_variables) == 4
        session.run(tf.global_variables_initializer())
        k0, b0, k1, b1, got, got_h, got_c = session.run([*tf.global_variables(), outputs, h, c])
        limit = np.sqrt(6 / (SIZE + UNITS))
        assert abs(k0[:SIZE]).max() <= limit
        assert not b0.any()
        first, h0, c0 = lstm(X, k0, b0)
        second, h1, c1 = lstm(first, k1, b1)
        np.testing.assert_allclose(got, second, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(got_h, [h0, h1], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(got_c, [c0, c1], rtol=1e-4, atol=1e-6)
        again, _ = layer(tf.constant(X), initial_state=(h, c), training=False)
        assert len(tf.global_variables()) == 4
        assert session.run(again).shape == (TIME, BATCH, UNITS)
        assert tf.gradients(outputs, tf.trainable_variables())[0] is not None
    assert layer.state_shape(7) == ([2, 7, UNITS],) * 2


def test_gru_in_two_directions() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        outputs, (h,) = cudnn.CudnnGRU(1, UNITS, direction="bidirectional", name="gru")(
            tf.constant(X), sequence_lengths=[5, 3, 1]
        )
        base = "gru/stack_bidirectional_rnn/cell_0/bidirectional_rnn"
        parts = [
            "gates/kernel",
            "gates/bias",
            "candidate/input_projection/kernel",
            "candidate/input_projection/bias",
            "candidate/hidden_projection/kernel",
            "candidate/hidden_projection/bias",
        ]
        expected = [f"{base}/{way}/cudnn_compatible_gru_cell/{part}" for way in ("fw", "bw") for part in parts]
        assert [v.op.name for v in tf.global_variables()] == expected
        session.run(tf.global_variables_initializer())
        *weights, got, last = session.run([*tf.global_variables(), outputs, h])
    assert got.shape == (TIME, BATCH, 2 * UNITS)
    assert not got[3:, 1].any()
    for way, steps in ((0, range(3)), (1, reversed(range(3)))):  # the second example has three steps
        gates, gate_bias, given, given_bias, hidden, hidden_bias = weights[6 * way : 6 * way + 6]
        state = np.zeros(UNITS)
        for t in steps:
            r, u = np.split(sigmoid(np.concatenate([X[t, 1], state]) @ gates + gate_bias), 2)
            new = np.tanh(X[t, 1] @ given + given_bias + r * (state @ hidden + hidden_bias))
            state = (1 - u) * new + u * state
            np.testing.assert_allclose(got[t, 1, way * UNITS : (way + 1) * UNITS], state, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(last[way, 1], state, rtol=1e-4, atol=1e-6)


def test_plain_layers_and_bad_arguments() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = [
            kind(1, UNITS, dropout=0.5)(tf.constant(X.transpose(1, 0, 2)), time_major=False)[0]
            for kind in (cudnn.CudnnRNNTanh, cudnn.CudnnRNNRelu)
        ]
        session.run(tf.global_variables_initializer())
        tanh, relu = session.run(made)
        assert tanh.shape == relu.shape == (BATCH, TIME, UNITS)
        assert relu.min() >= 0
        assert tanh.min() < 0
        with pytest.raises(ValueError, match="direction must be unidirectional or bidirectional"):
            cudnn.CudnnLSTM(1, 2, direction="back")
        with pytest.raises(NotImplementedError, match="skip_input"):
            cudnn.CudnnLSTM(1, 2, input_mode="skip_input")


def test_projector(tmp_path: Path) -> None:
    projector = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = "words"
    embedding.metadata_path = "labels.tsv"
    embedding.sprite.image_path = "sprite.png"
    embedding.sprite.single_image_dim.extend([28, 28])
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(tmp_path))
        projector.visualize_embeddings(writer, config)
        writer.close()
    text = (tmp_path / "projector_config.pbtxt").read_text()
    assert text_format.Parse(text, projector.ProjectorConfig()) == config
    assert 'tensor_name: "words"' in text
    with pytest.raises(ValueError, match="must have a logdir"):
        projector.visualize_embeddings("", config)


def test_staging() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        area = tf.contrib.staging.StagingArea([tf.float32, tf.int32], [[2], []], capacity=2)
        fed = tf.placeholder(tf.float32, [2])
        put, (x, y), size = area.put([fed, tf.constant(3)]), area.get(), area.size()
        session.run(put, {fed: [1, 2]})
        session.run(put, {fed: [3, 4]})
        assert session.run(size) == 2
        np.testing.assert_array_equal(session.run([x, y])[0], [1, 2])
        np.testing.assert_array_equal(session.run(x), [3, 4])
        named = tf.contrib.staging.StagingArea([tf.int32], names=["n"])
        session.run(named.put({"n": tf.constant(5)}))
        assert session.run(named.get()) == {"n": 5}


def test_memory() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        used = tf.contrib.memory_stats.MaxBytesInUse()
        assert (used.dtype, used.shape.as_list()) == (tf.int64, [])
        if tf.test.is_gpu_available():
            assert session.run(used) > 0
        else:
            with pytest.raises(tf.errors.OpError, match="keeps no statistics"):
                session.run(used)
