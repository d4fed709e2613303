"""Block cells and fused loops against the cells they stand for; convolutional LSTM, highways, stacks."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

rnn = tf.contrib.rnn
TIME, BATCH, DEPTH, UNITS = 5, 3, 4, 6
X = np.random.RandomState(0).randn(TIME, BATCH, DEPTH)
LENGTHS = [5, 2, 3]
BOUND = tf.random_uniform_initializer(-0.9, 0.9, seed=3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def scope(name="net", **kwargs):
    return tf.variable_scope(name, dtype=tf.float64, initializer=BOUND, **kwargs)


def run(fetches, values=None, tier="interpreted"):
    """The fetches; variables have their first values, or those of ``values``, one after another."""
    with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
        session.run(tf.global_variables_initializer())
        for variable, value in zip(tf.global_variables(), values or [], strict=bool(values)):
            variable.load(value, session)
        return session.run(fetches)


PAIRS = {
    "lstm": (lambda: rnn.LSTMBlockCell(UNITS, forget_bias=0.5), lambda: rnn.LSTMCell(UNITS, forget_bias=0.5)),
    "lstm with peepholes": (
        lambda: rnn.LSTMBlockCell(UNITS, use_peephole=True, cell_clip=0.2),
        lambda: rnn.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.2),
    ),
    "gru": (lambda: rnn.GRUBlockCellV2(UNITS), lambda: rnn.GRUCell(UNITS)),
    "old gru": (lambda: rnn.GRUBlockCell(cell_size=UNITS), lambda: rnn.GRUCell(UNITS)),
}
NAMES = {
    "lstm": ["lstm_cell/kernel", "lstm_cell/bias"],
    "lstm with peepholes": [f"lstm_cell/{n}" for n in ("kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag")],
    "gru": [f"gru_cell/{n}" for n in ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")],
    "old gru": [f"gru_cell/{n}" for n in ("w_ru", "b_ru", "w_c", "b_c")],
}


@pytest.mark.parametrize("kind", PAIRS)
def test_block_cells_are_cells(kind):
    found = []
    for make in PAIRS[kind]:
        with tf.Graph().as_default():
            with scope():
                outputs, state = tf.nn.dynamic_rnn(make(), tf.constant(X), time_major=True, dtype=tf.float64)
            names = [v.op.name.removeprefix("net/rnn/") for v in tf.global_variables()]
            found.append((names, run([outputs, state])))
    assert found[0][0] == NAMES[kind]
    for a, b in zip(
        tf.contrib.framework.nest.flatten(found[0][1]), tf.contrib.framework.nest.flatten(found[1][1]), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("peephole", [False, True])
def test_fused_lstm_is_the_loop(peephole, lengths, tier):
    start = (np.full((BATCH, UNITS), 0.1), np.full((BATCH, UNITS), -0.2))
    with tf.Graph().as_default():
        with scope():
            cell = rnn.LSTMBlockFusedCell(UNITS, use_peephole=peephole, cell_clip=0.4)
            fused = cell(tf.constant(X), tuple(map(tf.constant, start)), sequence_length=lengths)
            again, _ = cell(list(tf.unstack(tf.constant(X))), dtype=tf.float64)
        assert len(again) == TIME
        names = [v.op.name for v in tf.global_variables()]
        shared = [f"net/lstm_fused_cell/{n}" for n in ("kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag")]
        assert names == shared[: 5 if peephole else 2]
        gradients = tf.gradients(fused[0], tf.global_variables())
        values, (outputs, state), gradients = run([tf.global_variables(), fused, gradients], tier=tier)
    with tf.Graph().as_default():
        with scope():
            plain = tf.nn.dynamic_rnn(
                rnn.LSTMCell(UNITS, use_peepholes=peephole, cell_clip=0.4),
                tf.constant(X),
                lengths,
                rnn.LSTMStateTuple(*map(tf.constant, start)),
                time_major=True,
            )
        order = [names.index(f"net/lstm_fused_cell/{v.op.name.rpartition('/')[2]}") for v in tf.global_variables()]
        slopes = tf.gradients(plain[0], tf.global_variables())
        (expected, final), slopes = run([plain, slopes], [values[i] for i in order])
    np.testing.assert_allclose(outputs, expected, rtol=1e-9)
    np.testing.assert_allclose(state.c, final.c, rtol=1e-9)
    np.testing.assert_allclose(state.h, final.h, rtol=1e-9)
    for i, slope in zip(order, slopes, strict=True):
        np.testing.assert_allclose(gradients[i], slope, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_reversed_in_time(lengths, dynamic):
    with tf.Graph().as_default():
        with scope():
            cell = rnn.FusedRNNCellAdaptor(rnn.BasicRNNCell(UNITS), use_dynamic_rnn=dynamic)
            made = rnn.TimeReversedFusedRNN(cell)(tf.constant(X), dtype=tf.float64, sequence_length=lengths)
        kernel, bias = tf.global_variables()
        k, b, outputs, final = run([kernel, bias, *made])
    for row, length in enumerate(lengths or [TIME] * BATCH):
        h = np.zeros(UNITS)
        for t in reversed(range(length)):
            h = np.tanh(np.hstack([X[t, row], h]) @ k + b)
            np.testing.assert_allclose(outputs[t, row], h, rtol=1e-9)
        assert not outputs[length:, row].any()
        np.testing.assert_allclose(final[row], h, rtol=1e-9)


@pytest.mark.parametrize("skip", [False, True])
def test_conv_lstm(skip):
    """One step in one dimension, its convolution written out."""
    x, width, channels = np.random.RandomState(1).randn(2, 7, 3), 7, 2
    with tf.Graph().as_default():
        cell = rnn.Conv1DLSTMCell(input_shape=[7, 3], output_channels=channels, kernel_shape=[3], skip_connection=skip)
        assert cell.output_size.as_list() == [7, channels + 3 * skip]
        first = [np.random.RandomState(2).randn(2, *s.as_list()) for s in cell.state_size]
        with scope():
            output, state = cell(tf.constant(x), rnn.LSTMStateTuple(*map(tf.constant, first)))
        names = [v.op.name for v in tf.global_variables()]
        assert names == ["net/conv_1d_lstm_cell/kernel", "net/conv_1d_lstm_cell/biases"]
        kernel, bias, out, c, h = run([*tf.global_variables(), output, *state])
    joined = np.pad(np.concatenate([x, first[1]], -1), [(0, 0), (1, 1), (0, 0)])
    gates = sum(joined[:, k : k + width] @ kernel[k] for k in range(3)) + bias
    i, j, f, o = np.split(gates, 4, -1)
    new = sigmoid(f + 1) * first[0] + sigmoid(i) * np.tanh(j)
    expected = np.tanh(new) * sigmoid(o)
    expected = np.concatenate([expected, x], -1) if skip else expected
    np.testing.assert_allclose(out, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(c, new, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(h, expected, rtol=1e-7, atol=1e-9)


def test_conv_lstm_over_time():
    with tf.Graph().as_default():
        cell = rnn.ConvLSTMCell(2, [8, 6, 3], 4, [3, 3], use_bias=False)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 8, 6, 3]), dtype=tf.float32)
        assert outputs.shape.as_list() == [2, 5, 8, 6, 4]
        assert state.c.shape.as_list() == [2, 8, 6, 4]
        assert [v.op.name for v in tf.global_variables()] == ["rnn/conv_lstm_cell/kernel"]
        assert np.isfinite(run(outputs)).all()


@pytest.mark.parametrize("coupled", [True, False])
def test_highway(coupled):
    x = X[0]
    with tf.Graph().as_default():
        with scope():
            cell = rnn.HighwayWrapper(
                rnn.BasicRNNCell(DEPTH), couple_carry_transform_gates=coupled, carry_bias_init=0.5
            )
            output, _ = cell(tf.constant(x), tf.zeros([BATCH, DEPTH], tf.float64))
        names = [v.op.name.removeprefix("net/") for v in tf.global_variables()]
        gates = ["carry_w", "carry_b", *([] if coupled else ["transform_w", "transform_b"])]
        assert names[2:] == gates
        assert names[:2] == ["basic_rnn_cell/kernel", "basic_rnn_cell/bias"]
        v, out = run([tf.global_variables(), output])
    inner = np.tanh(x @ v[0][:DEPTH] + v[1])
    gate = sigmoid(x @ v[2] + v[3])
    other = 1 - gate if coupled else sigmoid(x @ v[4] + v[5])
    assert v[3].tolist() == [0.5] * DEPTH
    np.testing.assert_allclose(out, x * gate + inner * other, rtol=1e-9)


def test_stacks_of_both_kinds_agree():
    made = {}
    for kind in ("dynamic", "static"):
        with tf.Graph().as_default():
            cells = [[rnn.GRUCell(n) for n in (UNITS, 3)] for _ in range(2)]
            with scope():
                if kind == "dynamic":
                    outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(
                        *cells, tf.constant(X), sequence_length=LENGTHS, dtype=tf.float64, time_major=True
                    )
                else:
                    steps, fw, bw = rnn.stack_bidirectional_rnn(
                        *cells, tf.unstack(tf.constant(X)), sequence_length=LENGTHS, dtype=tf.float64
                    )
                    outputs = tf.stack(steps)
            assert len(fw) == len(bw) == 2
            made[kind] = [v.op.name for v in tf.global_variables()], run([outputs, fw, bw])
    assert sorted(made["static"][0]) == sorted(name.replace("/bidirectional_rnn", "") for name in made["dynamic"][0])
    assert made["dynamic"][0][0] == "net/stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/gru_cell/gates/kernel"
    for a, b in zip(*(tf.contrib.framework.nest.flatten(made[k][1]) for k in made), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_homes_of_cells():
    assert tf.contrib.rnn.rnn_cell.BasicLSTMCell is tf.nn.rnn_cell.BasicLSTMCell
    assert tf.contrib.rnn.core_rnn_cell.LSTMStateTuple is tf.nn.rnn_cell.LSTMStateTuple
    assert issubclass(tf.nn.rnn_cell.GRUCell, tf.contrib.rnn.LayerRNNCell)


REFUSED = {
    "gru size": (lambda: rnn.GRUBlockCell(), "Exactly one of num_units or cell_size"),
    "fused state": (lambda: rnn.LSTMBlockFusedCell(3)(tf.zeros([2, 2, 2])), "Either initial_state or dtype needs"),
    "conv shape": (lambda: rnn.ConvLSTMCell(2, [5, 3], 4, [3]), "Invalid input_shape .* for conv_ndims=2"),
    "no list": (lambda: rnn.stack_bidirectional_rnn(rnn.GRUCell(3), [], []), "cells_fw must be a list of cells"),
    "depths": (
        lambda: rnn.stack_bidirectional_dynamic_rnn([rnn.GRUCell(3)] * 2, [rnn.GRUCell(3)], None),
        "must have the same depth",
    ),
    "states": (
        lambda: rnn.stack_bidirectional_dynamic_rnn([rnn.GRUCell(3)], [rnn.GRUCell(3)], None, initial_states_fw=[1, 2]),
        "initial_states_fw must be a list of state tensors",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, text = REFUSED[what]
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        call()


def test_a_fused_cell_says_how_it_runs():
    with pytest.raises(NotImplementedError, match="FusedRNNCell without __call__"):
        rnn.FusedRNNCell()(None)
