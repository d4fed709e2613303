"""Attention against models in NumPy (float64), names of variables, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

seq2seq = tf.contrib.seq2seq

BATCH, TIME, DEPTH, UNITS, STEPS = 3, 5, 4, 6, 4
RANDOM = np.random.RandomState(0)
MEMORY = RANDOM.randn(BATCH, TIME, DEPTH)
INPUTS = RANDOM.randn(BATCH, STEPS, 2)
LENGTHS = [5, 2, 3]
TIERS = ["interpreted", "compiled"]
BOUND = tf.random_uniform_initializer(-0.9, 0.9, seed=3)


def run(fetches, tier="interpreted", feeds=None):
    with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def walked(p, previous):
    """The monotonic distribution, place by place: reach a place from where the last step was, choose it or go on."""
    out = np.zeros_like(p)
    for b in range(len(p)):
        for start in range(p.shape[1]):
            mass = previous[b, start]
            for place in range(start, p.shape[1]):
                out[b, place] += mass * p[b, place]
                mass *= 1 - p[b, place]
    return out


MECHANISMS = {
    "luong": lambda m, n: seq2seq.LuongAttention(UNITS, m, n, dtype=tf.float64),
    "luong scaled": lambda m, n: seq2seq.LuongAttention(UNITS, m, n, scale=True, dtype=tf.float64),
    "bahdanau": lambda m, n: seq2seq.BahdanauAttention(UNITS, m, n, dtype=tf.float64),
    "bahdanau normed": lambda m, n: seq2seq.BahdanauAttention(UNITS, m, n, normalize=True, dtype=tf.float64),
    "luong monotonic": lambda m, n: seq2seq.LuongMonotonicAttention(
        UNITS, m, n, scale=True, score_bias_init=-0.5, mode="recursive", dtype=tf.float64
    ),
    "bahdanau monotonic": lambda m, n: seq2seq.BahdanauMonotonicAttention(
        UNITS, m, n, normalize=True, score_bias_init=-0.5, dtype=tf.float64
    ),
}


def alignments_of(kind, v, keys, query, previous, lengths):
    """A model of each mechanism; ``v`` has the values of variables by the last part of their names."""
    if kind.startswith("luong"):
        score = np.einsum("btu,bu->bt", keys, query) * v.get("attention_g", 1.0)
    else:
        hidden = keys + (query @ v["query_layer"])[:, None]
        weights = v["attention_v"]
        if "attention_g" in v:
            weights = v["attention_g"] * weights / np.sqrt(np.sum(weights**2))
            hidden = hidden + v["attention_b"]
        score = np.tanh(hidden) @ weights
    dead = np.arange(TIME)[None] >= np.array(lengths)[:, None]
    if kind.endswith("monotonic"):
        return walked(np.where(dead, 0, sigmoid(score + v["attention_score_bias"])), previous)
    return softmax(np.where(dead, -np.inf, score))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_wrapper_against_numpy(kind, tier):
    with tf.Graph().as_default():
        with tf.variable_scope("net", dtype=tf.float64, initializer=BOUND):
            mechanism = MECHANISMS[kind](tf.constant(MEMORY), tf.constant(LENGTHS))
            cell = seq2seq.AttentionWrapper(
                tf.nn.rnn_cell.BasicRNNCell(UNITS), mechanism, attention_layer_size=3, alignment_history=True
            )
            state = cell.zero_state(BATCH, tf.float64)
            outputs, final = tf.nn.dynamic_rnn(cell, tf.constant(INPUTS), initial_state=state, dtype=tf.float64)
        variables = {}
        for variable in tf.global_variables():
            parts = variable.op.name.split("/")
            variables[parts[-2] if parts[-1] in ("kernel", "bias") else parts[-1]] = variable
        # The cell has a kernel and a bias.
        variables["basic_rnn_cell"], bias = [
            next(v for v in tf.global_variables() if v.op.name.endswith(f"basic_rnn_cell/{part}"))
            for part in ("kernel", "bias")
        ]
        v, b, made, history, last, start = run(
            [
                variables,
                bias,
                outputs,
                final.alignment_history.stack(),
                final._replace(alignment_history=()),
                state.alignments,
            ],
            tier,
        )
    mask = (np.arange(TIME)[None] < np.array(LENGTHS)[:, None])[..., None]
    values = MEMORY * mask
    keys = values @ v["memory_layer"]
    assert start[:, 0].tolist() == [1.0 if kind.endswith("monotonic") else 0.0] * BATCH
    h, attention, previous = np.zeros((BATCH, UNITS)), np.zeros((BATCH, 3)), start
    for t in range(STEPS):
        h = np.tanh(np.hstack([INPUTS[:, t], attention, h]) @ v["basic_rnn_cell"] + b)
        previous = alignments_of(kind, v, keys, h, previous, LENGTHS)
        context = np.einsum("bt,btd->bd", previous, values)
        attention = np.hstack([h, context]) @ v["attention_layer"]
        np.testing.assert_allclose(made[:, t], attention, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(history[t], previous, rtol=1e-6, atol=1e-9)
    assert last.time == STEPS
    np.testing.assert_allclose(last.cell_state, h, rtol=1e-7)
    np.testing.assert_allclose(last.attention, attention, rtol=1e-6)
    np.testing.assert_allclose(last.attention_state, previous, rtol=1e-6, atol=1e-9)
    assert not np.any(history * ~mask[..., 0])


@pytest.mark.parametrize("kind", MECHANISMS)
def test_gradients_against_differences(kind):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        memory = tf.constant(MEMORY)
        with tf.variable_scope("net", dtype=tf.float64, initializer=BOUND):
            mechanism = MECHANISMS[kind](memory, tf.constant(LENGTHS))
            cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(UNITS), mechanism, attention_layer_size=3)
            outputs, _ = tf.nn.dynamic_rnn(
                cell, tf.constant(INPUTS), initial_state=cell.zero_state(BATCH, tf.float64), dtype=tf.float64
            )
        loss = tf.reduce_sum(tf.tanh(outputs))
        session.run(tf.global_variables_initializer())
        assert len(tf.trainable_variables()) >= 6
        gradients = session.run(tf.gradients(loss, [memory, *tf.trainable_variables()]))
        values = session.run([memory, *tf.trainable_variables()])
        for x, value, gradient in zip([memory, *tf.trainable_variables()], values, gradients, strict=True):
            direction = RANDOM.randn(*value.shape)
            sides = []
            for moved in (value + 1e-5 * direction, value - 1e-5 * direction):
                if x is not memory:
                    x.load(moved, session)
                sides.append(session.run(loss, {memory: moved} if x is memory else None))
            if x is not memory:
                x.load(value, session)
            difference = (sides[0] - sides[1]) / 2e-5
            np.testing.assert_allclose(np.sum(gradient * direction), difference, rtol=1e-6, atol=1e-8, err_msg=x.name)


def test_names_of_variables():
    with tf.Graph().as_default():
        memory = tf.zeros([2, 3, 4])
        first = seq2seq.BahdanauAttention(5, memory, normalize=True)
        second = seq2seq.LuongMonotonicAttention(5, memory, scale=True)
        cell = seq2seq.AttentionWrapper(
            tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(5) for _ in range(2)]), [first, second], [6, 7]
        )
        decoder = seq2seq.BasicDecoder(
            cell,
            seq2seq.TrainingHelper(tf.zeros([2, 3, 4]), [3, 2]),
            cell.zero_state(2, tf.float32),
            tf.layers.Dense(8),
        )
        seq2seq.dynamic_decode(decoder)
        inner = "decoder/attention_wrapper"
        assert [(v.op.name, v.shape.as_list()) for v in tf.global_variables()] == [
            ("memory_layer/kernel", [4, 5]),
            ("memory_layer_1/kernel", [4, 5]),
            (f"{inner}/multi_rnn_cell/cell_0/basic_lstm_cell/kernel", [4 + 13 + 5, 20]),
            (f"{inner}/multi_rnn_cell/cell_0/basic_lstm_cell/bias", [20]),
            (f"{inner}/multi_rnn_cell/cell_1/basic_lstm_cell/kernel", [10, 20]),
            (f"{inner}/multi_rnn_cell/cell_1/basic_lstm_cell/bias", [20]),
            (f"{inner}/bahdanau_attention/query_layer/kernel", [5, 5]),
            (f"{inner}/bahdanau_attention/attention_v", [5]),
            (f"{inner}/bahdanau_attention/attention_g", []),
            (f"{inner}/bahdanau_attention/attention_b", [5]),
            (f"{inner}/attention_layer/kernel", [9, 6]),
            (f"{inner}/luong_monotonic_attention/attention_g", []),
            (f"{inner}/luong_monotonic_attention/attention_score_bias", []),
            (f"{inner}/attention_layer_1/kernel", [9, 7]),
            ("decoder/dense/kernel", [13, 8]),
            ("decoder/dense/bias", [8]),
        ]
        assert len(tf.trainable_variables()) == 16


def test_the_same_cell_in_two_decoders_has_one_set_of_variables():
    with tf.Graph().as_default():
        mechanism = seq2seq.LuongAttention(5, tf.zeros([2, 3, 4]), scale=True)
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(5), mechanism, attention_layer_size=6)
        layer, table = tf.layers.Dense(8), tf.zeros([8, 4])
        for helper in (
            seq2seq.TrainingHelper(tf.zeros([2, 3, 4]), [3, 2]),
            seq2seq.GreedyEmbeddingHelper(table, [1, 1], 0),
        ):
            decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), layer)
            with tf.variable_scope("decode", reuse=tf.AUTO_REUSE):
                seq2seq.dynamic_decode(decoder, maximum_iterations=4)
        assert len(tf.global_variables()) == 9


def test_parts_of_the_wrapper():
    """Given functions, no layer, the cell's own output, a first state, several mechanisms."""
    with tf.Graph().as_default():
        memory = tf.constant(MEMORY)
        asked = []

        def attend(mechanism, output, state, layer):
            asked.append((mechanism, layer))
            alignments, following = mechanism(output, state)
            return tf.fill([BATCH, 4], tf.cast(7.0, tf.float64)), alignments, following

        with tf.variable_scope("net", dtype=tf.float64, initializer=BOUND):
            mechanism = seq2seq.LuongAttention(
                UNITS, memory, probability_fn=seq2seq.hardmax, dtype=tf.float64, custom_key_value_fn=lambda k, v: (k, v)
            )
            cell = seq2seq.AttentionWrapper(
                tf.nn.rnn_cell.BasicRNNCell(UNITS),
                mechanism,
                cell_input_fn=lambda inputs, attention: inputs + attention[:, :2],
                output_attention=False,
                attention_fn=attend,
                initial_cell_state=tf.ones([BATCH, UNITS], tf.float64),
            )
            state = cell.zero_state(BATCH, tf.float64)
            replaced = state.clone(attention=tf.ones([BATCH, 4], tf.float64))
            output, new = cell(tf.constant(INPUTS[:, 0]), replaced)
        assert cell.output_size == UNITS
        assert cell.state_size.attention == DEPTH
        assert cell.state_size.alignments == TIME
        assert asked == [(mechanism, None)]
        kernel, bias = (
            next(v for v in tf.global_variables() if v.op.name.endswith(f"cell/{e}")) for e in ("kernel", "bias")
        )
        out, k, b, attention, alignments = run([output, kernel, bias, new.attention, new.alignments])
    expected = np.tanh(np.hstack([INPUTS[:, 0] + 1, np.ones((BATCH, UNITS))]) @ k + b)
    np.testing.assert_allclose(out, expected, rtol=1e-7)
    assert attention.tolist() == [[7.0] * 4] * BATCH
    assert sorted(alignments[0].tolist()) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
def test_monotonic_attention(mode, tier):
    p = RANDOM.uniform(0.1, 0.9, (4, 7))
    previous = softmax(RANDOM.randn(4, 7))
    if mode == "hard":
        p, previous = np.round(p), np.eye(7)[[0, 2, 6, 3]]
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float64, [None, 7])
        made = seq2seq.monotonic_attention(fed, tf.constant(previous), mode)
        np.testing.assert_allclose(run(made, tier, {fed: p}), walked(p, previous), rtol=1e-9, atol=1e-12)


def test_noise_makes_hard_choices():
    """With much noise, the probabilities that a place is chosen are near 0 or 1, half of them each."""
    with tf.Graph().as_default():
        memory = tf.zeros([200, 1, 4])
        mechanism = seq2seq.BahdanauMonotonicAttention(3, memory, sigmoid_noise=1e4, sigmoid_noise_seed=1)
        alignments, _ = mechanism(tf.zeros([200, 3]), tf.ones([200, 1]))
        found = run(alignments)
    assert np.all((found < 0.01) | (found > 0.99))
    assert 60 < found.sum() < 140


def test_safe_cumprod():
    x = np.array([[0.5, 0.0, 0.3, 1.0]])
    with tf.Graph().as_default():
        given = tf.constant(x)
        made = seq2seq.safe_cumprod(given, axis=1, exclusive=True)
        (gradient,) = tf.gradients(made, given)
        value, slope = run([made, gradient])
    np.testing.assert_allclose(value, [[1, 0.5, 0, 0]], atol=1e-12)
    assert np.all(np.isfinite(slope))


def test_hardmax():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None])
        assert run(seq2seq.hardmax(x), feeds={x: [[1, 3, 2], [5, 5, 0]]}).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("old", [False, True])
def test_a_mechanism_of_a_program(old):
    """A class that derives from the base finds keys, values and masking there; it once gave alignments alone."""
    base = tf.contrib.seq2seq._BaseAttentionMechanism

    class Location(base):
        def __init__(self, memory, lengths):
            super().__init__(None, memory, lambda score, _: tf.nn.softmax(score), lengths, None)

        def __call__(self, query, state):
            alignments = self._probability_fn(tf.zeros_like(state), state)
            return alignments if old else (alignments, alignments)

    with tf.Graph().as_default():
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(3), Location(tf.constant(MEMORY, tf.float32), LENGTHS))
        _, state = cell(tf.zeros([BATCH, 2]), cell.zero_state(BATCH, tf.float32))
        found = run(state.alignments)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0, 0, 0])


def mechanism(batch=2):
    return seq2seq.LuongAttention(5, tf.zeros([batch, 3, 4]))


def wrap(**kwargs):
    return seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(5), mechanism(), **kwargs)


REFUSED = {
    "no cell": (lambda: seq2seq.AttentionWrapper(5, mechanism()), TypeError, "cell"),
    "no mechanism": (
        lambda: seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(5), [mechanism(), 3]),
        TypeError,
        "attention_mechanism must be an AttentionMechanism or list",
    ),
    "size and layer": (
        lambda: wrap(attention_layer_size=3, attention_layer=tf.layers.Dense(3)),
        ValueError,
        "Only one of attention_layer_size and attention_layer",
    ),
    "two sizes": (
        lambda: wrap(attention_layer_size=[3, 4]),
        ValueError,
        "exactly one item per attention_mechanism, saw: 2",
    ),
    "input function": (lambda: wrap(cell_input_fn=3), TypeError, "cell_input_fn must be callable, saw type: int"),
    "attention function": (lambda: wrap(attention_fn=3), TypeError, "attention_fn must be callable"),
    "other state": (lambda: wrap()(tf.zeros([2, 3]), tf.zeros([2, 5])), TypeError, "instance of AttentionWrapperState"),
    "other batch": (lambda: wrap().zero_state(6, tf.float32), Exception, "Are you using the BeamSearchDecoder"),
    "depths": (
        lambda: mechanism()(tf.zeros([2, 6]), tf.zeros([2, 3])),
        ValueError,
        "Query .* has units: 6. Keys .* have units: 5",
    ),
    "unknown depth": (
        lambda: seq2seq.LuongAttention(5, tf.placeholder(tf.float32, [2, 3, None])),
        ValueError,
        "fully defined inner dims",
    ),
    "query layer": (
        lambda: seq2seq._BaseAttentionMechanism(3, tf.zeros([2, 3, 4]), tf.nn.softmax),
        TypeError,
        "query_layer is not a Layer: int",
    ),
    "probabilities": (
        lambda: seq2seq._BaseAttentionMechanism(None, tf.zeros([2, 3, 4]), 3),
        TypeError,
        "probability_fn must be callable, saw type: int",
    ),
    "mode": (
        lambda: seq2seq.monotonic_attention(tf.zeros([2, 3]), tf.zeros([2, 3]), "soft"),
        ValueError,
        "mode must be 'recursive', 'parallel', or 'hard'",
    ),
    "clone": (
        lambda: wrap().zero_state(2, tf.float32).clone(cell_state=tf.zeros([3, 5])),
        ValueError,
        "expected to be same as the one to clone",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, kind, text = REFUSED[what]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


def test_an_empty_memory_fails_the_step():
    with tf.Graph().as_default():
        lengths = tf.placeholder(tf.int32, [2])
        values = seq2seq.LuongAttention(5, tf.zeros([2, 3, 4]), lengths).keys
        with pytest.raises(tf.errors.InvalidArgumentError, match="must greater than zero"):
            run(values, feeds={lengths: [0, 2]})
