"""Loops over time: against a plain loop in NumPy, dynamic against static, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import nest

BATCH, TIME, DEPTH, UNITS = 3, 6, 4, 5
X = np.random.RandomState(0).randn(BATCH, TIME, DEPTH)
LENGTHS = [6, 2, 4]
CELLS = {
    "rnn": lambda: tf.nn.rnn_cell.BasicRNNCell(UNITS),
    "gru": lambda: tf.nn.rnn_cell.GRUCell(UNITS),
    "lstm": lambda: tf.nn.rnn_cell.BasicLSTMCell(UNITS),
    "stack": lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(3), tf.nn.rnn_cell.BasicLSTMCell(UNITS)]),
}
TIERS = ["interpreted", "compiled"]


def run(fetches, tier, feeds=None):
    with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def scope():
    return tf.variable_scope("net", dtype=tf.float64, initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=1))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_against_numpy(lengths, tier):
    with tf.Graph().as_default():
        with scope():
            outputs, state = tf.nn.dynamic_rnn(CELLS["rnn"](), tf.constant(X), lengths, dtype=tf.float64)
        kernel, bias = tf.global_variables()
        k, b, made, final = run([kernel, bias, outputs, state], tier)
    h, expected = np.zeros((BATCH, UNITS)), np.zeros((BATCH, TIME, UNITS))
    for t in range(TIME):
        new = np.tanh(np.hstack([X[:, t], h]) @ k + b)
        live = np.array([[True]] * BATCH) if lengths is None else np.array([[t < n] for n in lengths])
        expected[:, t] = np.where(live, new, 0)
        h = np.where(live, new, h)
    np.testing.assert_allclose(made, expected, rtol=1e-10)
    np.testing.assert_allclose(final, h, rtol=1e-10)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("cell", CELLS)
def test_dynamic_is_static(cell, tier):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [None, None, DEPTH])
        n = tf.placeholder(tf.int32, [None])
        with scope():
            dynamic, state = tf.nn.dynamic_rnn(CELLS[cell](), x, n, dtype=tf.float64)
        steps = tf.unstack(tf.constant(X), axis=1)
        with scope(), tf.variable_scope("rnn", reuse=True) as entered:
            static, last = tf.nn.static_rnn(CELLS[cell](), steps, dtype=tf.float64, sequence_length=n, scope=entered)
        variables = tf.trainable_variables()
        weights = np.random.RandomState(2).randn(BATCH, TIME, UNITS)
        grads = tf.gradients(tf.reduce_sum(dynamic * weights), [x, *variables])
        grads_static = tf.gradients(tf.reduce_sum(tf.stack(static, axis=1) * weights), variables)
        feeds = {x: X, n: LENGTHS}
        found = run(
            [dynamic, nest.flatten(state), grads, tf.stack(static, 1), nest.flatten(last), grads_static], tier, feeds
        )
    np.testing.assert_allclose(found[0], found[3], rtol=1e-10)
    for a, b in zip(found[1], found[4], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    for a, b in zip(found[2][1:], found[5], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    for row, length in enumerate(LENGTHS):
        assert (found[2][0][row, length:] == 0).all()
        assert (found[2][0][row, :length] != 0).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_against_differences(cell, tier):
    with tf.Graph().as_default():
        with scope():
            outputs, state = tf.nn.dynamic_rnn(CELLS[cell](), tf.constant(X), LENGTHS, dtype=tf.float64)
        loss = tf.reduce_sum(tf.sin(outputs)) + sum(tf.reduce_sum(part * part) for part in nest.flatten(state))
        variable = tf.trainable_variables()[0]
        (grad,) = tf.gradients(loss, [variable])
        direction = np.random.RandomState(3).randn(*variable.shape.as_list())
        moved = tf.placeholder(tf.float64, variable.shape)
        assign = tf.assign(variable, moved)
        with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
            session.run(tf.global_variables_initializer())
            start, slope = session.run([variable, grad])
            values = []
            for shift in (1e-5, -1e-5):
                session.run(assign, {moved: start + shift * direction})
                values.append(session.run(loss))
    np.testing.assert_allclose((values[0] - values[1]) / 2e-5, (slope * direction).sum(), rtol=1e-7)


def test_compiled_as_one_program():
    with tf.Graph().as_default():
        with scope():
            outputs, _ = tf.nn.dynamic_rnn(CELLS["lstm"](), tf.constant(X), dtype=tf.float64)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(outputs**2))
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            told = session.explain(train)
    assert told.count("program ") == 1
    assert "host " not in told
    assert "interpreted:" not in told


@pytest.mark.parametrize("time_major", [False, True])
def test_bidirectional(time_major):
    given = X.transpose(1, 0, 2) if time_major else X
    with tf.Graph().as_default():
        with scope():
            (fw, bw), states = tf.nn.bidirectional_dynamic_rnn(
                CELLS["gru"](), CELLS["gru"](), tf.constant(given), LENGTHS, dtype=tf.float64, time_major=time_major
            )
        names = [v.op.name for v in tf.global_variables()]
        with scope(), tf.variable_scope("bidirectional_rnn", reuse=True):
            static, _, _ = tf.nn.static_bidirectional_rnn(
                CELLS["gru"](), CELLS["gru"](), tf.unstack(tf.constant(X), axis=1), dtype=tf.float64,
                sequence_length=LENGTHS, scope=tf.get_variable_scope(),
            )  # fmt: skip
        a, b, c, s = run([fw, bw, tf.stack(static, 1), states], "compiled")
    assert names[0] == "net/bidirectional_rnn/fw/gru_cell/gates/kernel"
    assert names[4] == "net/bidirectional_rnn/bw/gru_cell/gates/kernel"
    both = np.concatenate([a, b], -1)
    np.testing.assert_allclose(both.transpose(1, 0, 2) if time_major else both, c, rtol=1e-10)
    first = b[0, :] if time_major else b[:, 0]
    np.testing.assert_allclose(s[1], first, rtol=1e-10)


@pytest.mark.parametrize("tier", TIERS)
def test_raw_rnn_is_dynamic_rnn(tier):
    with tf.Graph().as_default():
        x = tf.constant(X.transpose(1, 0, 2))
        with scope():
            expected, final = tf.nn.dynamic_rnn(CELLS["gru"](), x, LENGTHS, dtype=tf.float64, time_major=True)
        array = tf.TensorArray(tf.float64, size=TIME).unstack(x)
        cell = CELLS["gru"]()

        def loop_fn(time, output, state, loop_state):
            following = cell.zero_state(BATCH, tf.float64) if output is None else state
            finished = time >= LENGTHS
            done = tf.reduce_all(finished)
            zeros = tf.zeros([BATCH, DEPTH], tf.float64)
            given = tf.cond(done, lambda: zeros, lambda: array.read(time))
            return finished, given, following, output, None

        with scope(), tf.variable_scope("rnn", reuse=True) as entered:
            emitted, state, _ = tf.nn.raw_rnn(cell, loop_fn, scope=entered)
        a, b, c, d = run([expected, final, emitted.stack(), state], tier)
    np.testing.assert_allclose(c, a, rtol=1e-10)
    np.testing.assert_allclose(d, b, rtol=1e-10)


@pytest.mark.parametrize("tier", TIERS)
def test_raw_rnn_emits_sizes_that_the_step_tells(tier):
    with tf.Graph().as_default():
        size = tf.placeholder(tf.int32)
        cell = CELLS["lstm"]()

        def loop_fn(time, output, state, _):
            if output is None:
                state, lead = cell.zero_state(4, tf.float32), []
            else:
                lead = [4]
            emit = tf.ones([*lead, 2, 3], tf.int32), tf.ones([*lead, size], tf.int64)
            return tf.constant([2, 3, 3, 1]) <= time, tf.ones([4, DEPTH]), state, emit, None

        fixed, fed = (array.stack() for array in tf.nn.raw_rnn(cell, loop_fn)[0])
        assert fixed.shape.as_list() == [None, 4, 2, 3]
        fixed, fed = run([fixed, fed], tier, {size: 2})
    expected = [[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 1, 0]]  # nothing is emitted after a sequence has ended
    np.testing.assert_array_equal(fixed, np.broadcast_to(np.array(expected)[..., None, None], [3, 4, 2, 3]))
    np.testing.assert_array_equal(fed, np.broadcast_to(np.array(expected)[..., None], [3, 4, 2]))


@pytest.mark.parametrize("tier", [*TIERS, "auto"])
def test_lengths_that_change(tier):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [None, None, DEPTH])
        with scope():
            _, state = tf.nn.dynamic_rnn(CELLS["rnn"](), x, dtype=tf.float64)
        kernel, bias = tf.global_variables()
        with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
            session.run(tf.global_variables_initializer())
            k, b = session.run([kernel, bias])
            for time in (1, 4, 2, 6, 3):
                h = np.zeros((2, UNITS))
                for t in range(time):
                    h = np.tanh(np.hstack([X[:2, t], h]) @ k + b)
                np.testing.assert_allclose(session.run(state, {x: X[:2, :time]}), h, rtol=1e-9)


def test_no_steps_at_all():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None, DEPTH])
        outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), x, dtype=tf.float32)
        made, final = run([outputs, state], "compiled", {x: np.zeros((2, 0, DEPTH), np.float32)})
    assert made.shape == (2, 0, 3)
    np.testing.assert_array_equal(final, np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda c: tf.nn.dynamic_rnn(c, tf.zeros([2, 3, 4])), ValueError, "you must give a dtype"),
        (lambda c: tf.nn.dynamic_rnn(c, tf.zeros([2]), dtype=tf.float32), ValueError, "rank at least 2"),
        (
            lambda c: tf.nn.dynamic_rnn(c, tf.placeholder(tf.float32, [2, 3, None]), dtype=tf.float32),
            ValueError,
            "Input size",
        ),
        (
            lambda c: tf.nn.dynamic_rnn(c, tf.zeros([2, 3, 4]), [[1, 2]], dtype=tf.float32),
            ValueError,
            "vector of length",
        ),
        (lambda c: tf.nn.static_rnn(c, tf.zeros([2, 3]), dtype=tf.float32), TypeError, "must be a sequence"),
        (lambda c: tf.nn.static_rnn(c, [], dtype=tf.float32), ValueError, "must not be empty"),
    ],
)
def test_refusals(call, error, told):
    with tf.Graph().as_default(), pytest.raises(error, match=told):
        call(tf.nn.rnn_cell.GRUCell(3))


def test_wrong_number_of_lengths():
    with tf.Graph().as_default():
        n = tf.placeholder(tf.int32, [None])
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), tf.zeros([2, 3, 4]), n, dtype=tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape for Tensor sequence_length"):
            run(outputs, "compiled", {n: [1, 2, 3]})
