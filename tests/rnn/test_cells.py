"""Cells against their formulas in NumPy float64, their names against TensorFlow 1, wrappers against what they wrap."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

BATCH, DEPTH, UNITS = 3, 4, 5
X = np.random.RandomState(0).randn(BATCH, DEPTH)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(make, state_of=None, x=X, tier="compiled"):
    """One step of a cell from a random state: values of variables by name, state, output and new state."""
    rng = np.random.RandomState(1)
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        cell = make()
        inputs = tf.constant(x, tf.float64)
        sizes = cell.state_size
        flat = [tf.constant(rng.randn(len(x), size)) for size in tf.contrib.framework.nest.flatten(sizes)]
        state = tf.contrib.framework.nest.pack_sequence_as(sizes, flat)
        with tf.variable_scope("rnn", dtype=tf.float64, initializer=tf.random_uniform_initializer(-0.5, 0.5)):
            output, new = cell(inputs, state)
        variables = tf.global_variables()
        with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
            session.run(tf.global_variables_initializer())
            values = session.run([variables, flat, output, tf.contrib.framework.nest.flatten(new)])
        names = {v.op.name.removeprefix("rnn/"): value for v, value in zip(variables, values[0], strict=True)}
        return names, values[1], values[2], values[3]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_basic_rnn(tier):
    v, (h,), output, (new,) = step(lambda: tf.nn.rnn_cell.BasicRNNCell(UNITS), tier=tier)
    assert list(v) == ["basic_rnn_cell/kernel", "basic_rnn_cell/bias"]
    expected = np.tanh(np.hstack([X, h]) @ v["basic_rnn_cell/kernel"] + v["basic_rnn_cell/bias"])
    np.testing.assert_allclose(output, expected, rtol=1e-12)
    np.testing.assert_array_equal(new, output)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_gru(tier):
    v, (h,), output, (new,) = step(lambda: tf.nn.rnn_cell.GRUCell(UNITS), tier=tier)
    assert list(v) == [
        "gru_cell/gates/kernel",
        "gru_cell/gates/bias",
        "gru_cell/candidate/kernel",
        "gru_cell/candidate/bias",
    ]
    np.testing.assert_array_equal(v["gru_cell/gates/bias"], np.ones(2 * UNITS))
    gates = sigmoid(np.hstack([X, h]) @ v["gru_cell/gates/kernel"] + v["gru_cell/gates/bias"])
    r, u = np.split(gates, 2, 1)
    c = np.tanh(np.hstack([X, r * h]) @ v["gru_cell/candidate/kernel"] + v["gru_cell/candidate/bias"])
    np.testing.assert_allclose(output, u * h + (1 - u) * c, rtol=1e-12)
    np.testing.assert_array_equal(new, output)


def lstm(x, c, h, kernel, bias, forget_bias=1.0):
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, 1)
    c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
    return c, np.tanh(c) * sigmoid(o)


@pytest.mark.parametrize("tuples", [True, False])
def test_basic_lstm(tuples):
    v, state, output, new = step(lambda: tf.nn.rnn_cell.BasicLSTMCell(UNITS, 0.7, state_is_tuple=tuples))
    assert list(v) == ["basic_lstm_cell/kernel", "basic_lstm_cell/bias"]
    c, h = state if tuples else np.split(state[0], 2, 1)
    c, h = lstm(X, c, h, v["basic_lstm_cell/kernel"], v["basic_lstm_cell/bias"], 0.7)
    np.testing.assert_allclose(output, h, rtol=1e-12)
    np.testing.assert_allclose(np.hstack(new), np.hstack([c, h]), rtol=1e-12)


def test_lstm_with_everything():
    v, (c, m), output, (new_c, new_m) = step(
        lambda: tf.nn.rnn_cell.LSTMCell(
            UNITS, use_peepholes=True, cell_clip=0.4, num_proj=3, proj_clip=0.2, forget_bias=0.5, num_unit_shards=2
        )
    )
    assert list(v) == [
        "lstm_cell/kernel/part_0", "lstm_cell/kernel/part_1", "lstm_cell/bias", "lstm_cell/w_f_diag",
        "lstm_cell/w_i_diag", "lstm_cell/w_o_diag", "lstm_cell/projection/kernel",
    ]  # fmt: skip
    kernel = np.vstack([v["lstm_cell/kernel/part_0"], v["lstm_cell/kernel/part_1"]])
    i, j, f, o = np.split(np.hstack([X, m]) @ kernel + v["lstm_cell/bias"], 4, 1)
    new = sigmoid(f + 0.5 + v["lstm_cell/w_f_diag"] * c) * c + sigmoid(i + v["lstm_cell/w_i_diag"] * c) * np.tanh(j)
    new = np.clip(new, -0.4, 0.4)
    out = sigmoid(o + v["lstm_cell/w_o_diag"] * new) * np.tanh(new)
    out = np.clip(out @ v["lstm_cell/projection/kernel"], -0.2, 0.2)
    np.testing.assert_allclose(output, out, rtol=1e-12)
    np.testing.assert_allclose(new_c, new, rtol=1e-12)
    np.testing.assert_array_equal(new_m, output)


def test_layer_norm_lstm():
    v, (c, h), output, (new_c, _) = step(lambda: tf.contrib.rnn.LayerNormBasicLSTMCell(UNITS))
    scope = "layer_norm_basic_lstm_cell/"
    assert set(v) == {
        f"{scope}kernel",
        *(
            f"{scope}{part}/{kind}"
            for part in ("input", "transform", "forget", "output", "state")
            for kind in ("gamma", "beta")
        ),
    }

    def norm(x, part):
        mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-12) * v[f"{scope}{part}/gamma"] + v[f"{scope}{part}/beta"]

    i, j, f, o = np.split(np.hstack([X, h]) @ v[f"{scope}kernel"], 4, 1)
    i, j, f, o = norm(i, "input"), norm(j, "transform"), norm(f, "forget"), norm(o, "output")
    new = norm(c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j), "state")
    np.testing.assert_allclose(new_c, new, rtol=1e-10)
    np.testing.assert_allclose(output, np.tanh(new) * sigmoid(o), rtol=1e-10)


def test_names_of_a_stack():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.MultiRNNCell(
            [tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicLSTMCell(4), 0.5), tf.nn.rnn_cell.GRUCell(3)]
        )
        tf.nn.dynamic_rnn(cell, tf.zeros([2, 6, 5]), dtype=tf.float32)
        assert [v.op.name for v in tf.global_variables()] == [
            "rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel",
            "rnn/multi_rnn_cell/cell_0/basic_lstm_cell/bias",
            "rnn/multi_rnn_cell/cell_1/gru_cell/gates/kernel",
            "rnn/multi_rnn_cell/cell_1/gru_cell/gates/bias",
            "rnn/multi_rnn_cell/cell_1/gru_cell/candidate/kernel",
            "rnn/multi_rnn_cell/cell_1/gru_cell/candidate/bias",
        ]
        assert len(cell.trainable_weights) == 6


def test_a_cell_shares_its_variables():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.GRUCell(3)
        x = tf.zeros([2, 3])
        cell(x, cell.zero_state(2, tf.float32))
        cell(x, cell.zero_state(2, tf.float32))
        assert len(tf.global_variables()) == 4
        with tf.variable_scope("again"):
            tf.nn.rnn_cell.GRUCell(3)(x, cell.zero_state(2, tf.float32))
        assert len(tf.global_variables()) == 8


def test_a_cell_of_the_user():
    class Minimal(tf.nn.rnn_cell.RNNCell):
        state_size = 3
        output_size = 3

        def __call__(self, x, state, scope=None):
            with tf.variable_scope(scope or "minimal"):
                w = tf.get_variable("w", [3, 3], initializer=tf.ones_initializer())
            new = tf.matmul(x, w) + state
            return new, new

    with tf.Graph().as_default():
        outputs, state = tf.nn.dynamic_rnn(Minimal(), tf.ones([2, 4, 3]), dtype=tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            np.testing.assert_array_equal(session.run(outputs)[0], [[3.0] * 3, [6.0] * 3, [9.0] * 3, [12.0] * 3])
            np.testing.assert_array_equal(session.run(state), np.full((2, 3), 12.0))


def test_dropout_keeps_the_expectation_and_the_memory():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.BasicLSTMCell(200)
        dropped = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=0.5, state_keep_prob=0.25, seed=1)
        x, state = tf.ones([4, 3]), cell.zero_state(4, tf.float32)
        with tf.variable_scope("s"):
            plain, plain_state = cell(x, state)
            output, new = dropped(x, state)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            a, b, c, d, e, f = session.run([plain, output, plain_state.c, new.c, plain_state.h, new.h])
        np.testing.assert_array_equal(c, d)
        kept = b != 0
        np.testing.assert_allclose(b[kept], 2 * a[kept], rtol=1e-6)
        assert 0.4 < kept.mean() < 0.6
        assert 0.18 < (f != 0).mean() < 0.32
        np.testing.assert_allclose(f[f != 0], 4 * e[f != 0], rtol=1e-6)


def test_variational_dropout_has_one_mask():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.DropoutWrapper(
            tf.nn.rnn_cell.BasicRNNCell(50), output_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32
        )
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.ones([3, 6, 4]), dtype=tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            dropped = session.run(outputs) == 0
        assert (dropped == dropped[:1, :1]).all()
        assert 10 < dropped[0, 0].sum() < 40


def test_residual():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.GRUCell(4)
        x, state = tf.ones([2, 4]), tf.zeros([2, 4])
        plain, _ = cell(x, state)
        added, _ = tf.nn.rnn_cell.ResidualWrapper(cell)(x, state)
        doubled, _ = tf.nn.rnn_cell.ResidualWrapper(cell, lambda i, o: 2 * i + o)(x, state)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            a, b, c = session.run([plain, added, doubled])
        np.testing.assert_allclose(b, a + 1, rtol=1e-6)
        np.testing.assert_allclose(c, a + 2, rtol=1e-6)


def test_device_wrapper():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.GRUCell(4), "/cpu:0")
        output, _ = cell(tf.ones([2, 4]), cell.zero_state(2, tf.float32))
        assert output.op.device == "/device:CPU:0"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(2), 1.5), "between 0 and 1"),
        (lambda: tf.nn.rnn_cell.MultiRNNCell([]), "at least one cell"),
        (lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(2)], False), "state_is_tuple"),
        (lambda: tf.nn.rnn_cell.GRUCell(2)(tf.zeros([2, 3, 4]), tf.zeros([2, 2])), "expected ndim=2"),
        (lambda: tf.nn.rnn_cell.GRUCell(2)(tf.placeholder(tf.float32, [2, None]), tf.zeros([2, 2])), "shape"),
    ],
)
def test_refusals(make, told):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=told):
        make()


def test_what_is_no_cell():
    with tf.Graph().as_default(), pytest.raises(TypeError, match="is not an RNNCell"):
        tf.nn.dynamic_rnn(lambda x, s: (x, s), tf.zeros([2, 3, 4]), dtype=tf.float32)
