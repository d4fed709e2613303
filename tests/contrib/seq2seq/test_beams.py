"""Beam search against a search over Python lists, and its parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import internals

seq2seq = tf.contrib.seq2seq

BATCH, UNITS, CLASSES, END = 2, 4, 5, 1
TIERS = ["interpreted", "compiled"]
BOUND = tf.random_uniform_initializer(-2.0, 2.0, seed=3)
RANDOM = np.random.RandomState(0)
TABLE = RANDOM.randn(CLASSES, 3)
START = [2, 3]
FIRST = RANDOM.randn(BATCH, UNITS)
MEMORY = RANDOM.randn(BATCH, 4, 3)


def run(fetches, tier="interpreted", feeds=None):
    with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Beam:
    """A beam of the plain search."""

    def __init__(self, ids=(), prob=0.0, done=False, state=None, attended=None, alignments=()):
        self.ids, self.prob, self.done, self.state = ids, prob, done, state
        self.attended, self.alignments = attended, alignments


def searched(entry, cell, width, limit, length_weight=0.0, coverage_weight=0.0):
    """Beam search for one entry of the batch, over lists; ``cell`` gives logits, state and alignments."""
    state = FIRST[entry]
    beams = [Beam(state=state, attended=np.zeros(MEMORY.shape[1]))]
    for _ in range(limit):
        if all(beam.done for beam in beams) and len(beams) > 1:
            break
        found = []
        for beam in beams:
            if beam.done:
                choices, new, alignments = [(END, 0.0)], beam.state, np.zeros_like(beam.attended)
            else:
                logits, new, alignments = cell(entry, beam.ids[-1] if beam.ids else START[entry], beam.state)
                choices = list(enumerate(log_softmax(logits)))
            attended = beam.attended + alignments
            for item, prob in choices:
                length = len(beam.ids) + (item != END) if not beam.done else beam.ids.index(END) + 1
                score = (beam.prob + prob) / ((5.0 + length) / 6.0) ** length_weight
                if beam.done and coverage_weight:
                    score += coverage_weight * np.log(np.minimum(attended, 1)).sum()
                ids = beam.ids + (item,)
                history = (*beam.alignments, alignments)
                found.append((score, Beam(ids, beam.prob + prob, beam.done or item == END, new, attended, history)))
        found.sort(key=lambda pair: -pair[0])
        beams = [beam for _, beam in found[:width]]
        scores = [score for score, _ in found[:width]]
    return beams, scores


def padded(ids, steps):
    """Ids up to the end, and the end token after it."""
    ids = list(ids)
    stop = ids.index(END) if END in ids else len(ids)
    return (ids[:stop] + [END] * steps)[:steps]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("width", "limit", "weight"), [(3, 6, 0.0), (2, 12, 1.0), (4, 3, 0.6), (1, 5, 0.0)])
def test_against_lists(width, limit, weight, tier):
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.GRUCell(UNITS)
        with tf.variable_scope("net", dtype=tf.float64, initializer=BOUND):
            layer = tf.layers.Dense(CLASSES)
            decoder = seq2seq.BeamSearchDecoder(
                cell,
                tf.constant(TABLE),
                START,
                END,
                seq2seq.tile_batch(tf.constant(FIRST), width),
                width,
                layer,
                weight,
            )
            made, state, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=limit)
        assert made.predicted_ids.shape.as_list() == [BATCH, None, width]
        values, made, state, lengths = run([tf.global_variables(), made, state, lengths], tier)
    gates, gate_bias, kernel, bias, dense, shift = values

    def step(entry, token, h):
        x = TABLE[token]
        r, u = np.split(1 / (1 + np.exp(-(np.hstack([x, h]) @ gates + gate_bias))), 2)
        h = u * h + (1 - u) * np.tanh(np.hstack([x, r * h]) @ kernel + bias)
        return h @ dense + shift, h, np.zeros(MEMORY.shape[1])

    steps = made.predicted_ids.shape[1]
    assert lengths.shape == (BATCH, width)
    for entry in range(BATCH):
        # Entries of a batch stop together: the search goes on to the last step of all.
        beams, scores = searched(entry, step, width, steps, weight)
        assert made.predicted_ids[entry].T.tolist() == [padded(beam.ids, steps) for beam in beams]
        np.testing.assert_allclose(state.log_probs[entry], [beam.prob for beam in beams], rtol=1e-9)
        np.testing.assert_allclose(made.beam_search_decoder_output.scores[entry, -1], scores, rtol=1e-9)
        assert state.finished[entry].tolist() == [beam.done for beam in beams]
        ends = [beam.ids.index(END) + 1 if beam.done else steps for beam in beams]
        assert state.lengths[entry].tolist() == ends
    assert steps == limit or np.all(state.finished)


def test_a_wide_beam_finds_the_best_of_all():
    """With as many beams as there are sequences, the first is the best of them all."""
    limit, width = 3, CLASSES**3
    with tf.Graph().as_default():
        with tf.variable_scope("net", dtype=tf.float64, initializer=BOUND):
            decoder = seq2seq.BeamSearchDecoder(
                tf.nn.rnn_cell.BasicRNNCell(UNITS),
                lambda ids: tf.gather(tf.constant(TABLE), ids),
                START,
                END,
                seq2seq.tile_batch(tf.constant(FIRST), width),
                width,
                tf.layers.Dense(CLASSES),
            )
            made, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=limit)
        (kernel, bias, dense, shift), made, state = run([tf.global_variables(), made, state])
    for entry in range(BATCH):
        best = {}
        for ids in itertools.product(range(CLASSES), repeat=limit):
            h, token, prob, path = FIRST[entry], START[entry], 0.0, []
            for item in ids:
                h = np.tanh(np.hstack([TABLE[token], h]) @ kernel + bias)
                prob += log_softmax(h @ dense + shift)[item]
                path.append(item)
                token = item
                if item == END:
                    break
            best[tuple(path)] = prob
        path = max(best, key=best.get)
        assert made.predicted_ids[entry, :, 0].tolist() == padded(path, limit)
        np.testing.assert_allclose(state.log_probs[entry, 0], best[path], rtol=1e-9)


@pytest.mark.parametrize("coverage", [0.0, 0.7])
@pytest.mark.parametrize("reorder", [True, False])
def test_with_attention(reorder, coverage):
    width, limit = 3, 7
    with tf.Graph().as_default():
        with tf.variable_scope("net", dtype=tf.float64, initializer=BOUND):
            memory = seq2seq.tile_batch(tf.constant(MEMORY), width)
            cell = seq2seq.AttentionWrapper(
                tf.nn.rnn_cell.BasicRNNCell(UNITS),
                seq2seq.LuongAttention(UNITS, memory, dtype=tf.float64),
                alignment_history=True,
                output_attention=False,
                cell_input_fn=lambda inputs, attention: inputs,
            )
            first = cell.zero_state(BATCH * width, tf.float64)
            first = first.clone(cell_state=seq2seq.tile_batch(tf.constant(FIRST), width))
            decoder = seq2seq.BeamSearchDecoder(
                cell, tf.constant(TABLE), START, END, first, width, tf.layers.Dense(CLASSES),
                coverage_penalty_weight=coverage, reorder_tensor_arrays=reorder,
            )  # fmt: skip
            made, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=limit)
        history = state.cell_state.alignment_history
        history = history if reorder else history.stack()
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        values, made, history, state = run([variables, made, history, state._replace(cell_state=())])
    keys = MEMORY @ values["net/memory_layer/kernel"]
    kernel, bias = (values[f"net/decoder/attention_wrapper/basic_rnn_cell/{part}"] for part in ("kernel", "bias"))
    dense, shift = (values[f"net/decoder/dense/{part}"] for part in ("kernel", "bias"))

    def step(entry, token, h):
        h = np.tanh(np.hstack([TABLE[token], h]) @ kernel + bias)
        return h @ dense + shift, h, np.exp(log_softmax(keys[entry] @ h))

    steps = made.predicted_ids.shape[1]
    for entry in range(BATCH):
        beams, _ = searched(entry, step, width, steps, coverage_weight=coverage)
        assert made.predicted_ids[entry].T.tolist() == [padded(beam.ids, steps) for beam in beams]
        if coverage:
            np.testing.assert_allclose(
                state.accumulated_attention_probs[entry], [beam.attended for beam in beams], rtol=1e-9
            )
        if reorder:
            rows = history.reshape(steps, BATCH, width, -1)[:, entry]
            for number, beam in enumerate(beams):
                live = beam.ids.index(END) + 1 if beam.done else steps
                np.testing.assert_allclose(rows[:live, number], beam.alignments[:live], rtol=1e-9)
    if not coverage:
        assert state.accumulated_attention_probs == ()


def test_a_memory_of_unknown_batch():
    """As programs are served: batch, memory and its lengths are fed."""
    with tf.Graph().as_default():
        memory = tf.placeholder(tf.float32, [None, None, 3])
        lengths = tf.placeholder(tf.int32, [None])
        batch, width = tf.shape(memory)[0], 2
        tf.set_random_seed(1)
        cell = seq2seq.AttentionWrapper(
            tf.nn.rnn_cell.BasicLSTMCell(UNITS),
            seq2seq.BahdanauAttention(UNITS, seq2seq.tile_batch(memory, width), seq2seq.tile_batch(lengths, width)),
            attention_layer_size=3,
        )
        decoder = seq2seq.BeamSearchDecoder(
            cell,
            tf.constant(TABLE, tf.float32),
            tf.fill([batch], 2),
            END,
            cell.zero_state(batch * width, tf.float32),
            width,
            tf.layers.Dense(CLASSES),
        )
        made, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
        assert made.predicted_ids.shape.as_list() == [None, None, width]
        found = [run(made.predicted_ids, tier, {memory: MEMORY, lengths: [4, 2]}).shape for tier in TIERS]
    assert found[0] == found[1]
    assert found[0][::2] == (BATCH, width)


def test_tile_batch():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2])
        pair = seq2seq.tile_batch(tf.nn.rnn_cell.LSTMStateTuple(x, tf.ones([3], tf.int32)), 2)
        assert isinstance(pair, tf.nn.rnn_cell.LSTMStateTuple)
        assert pair.c.shape.as_list() == [None, 2]
        assert pair.h.shape.as_list() == [6]
        made = run(pair.c, feeds={x: [[1, 2], [3, 4]]})
    assert made.tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


@pytest.mark.parametrize("tier", TIERS)
def test_a_parent_that_is_no_beam_fails_the_step(tier):
    with tf.Graph().as_default():
        parents = tf.placeholder(tf.int32, [2, 1, 2])
        beams = seq2seq.gather_tree([[[1, 2]], [[3, 4]]], parents, [2], 9)
        assert run(beams, tier, {parents: [[[5, 5]], [[1, 0]]]}).tolist() == [[[2, 1]], [[3, 4]]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Saw invalid parent id"):
            run(beams, tier, {parents: [[[0, 0]], [[1, 2]]]})


def test_modules_that_programs_import():
    for module in ("beam_search_ops", "attention_wrapper", "helper"):
        assert internals.places(f"contrib.seq2seq.python.ops.{module}")[0] == "contrib.seq2seq"
    for module in ("lstm_ops", "gru_ops", "fused_rnn_cell"):
        assert "contrib.rnn" in internals.places(f"contrib.rnn.python.ops.{module}")


def search(state=None, width=2, **kwargs):
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    given = dict({"start_tokens": [1, 1], "end_token": 0}, **kwargs)
    state = tf.zeros([2 * width, UNITS]) if state is None else state
    return seq2seq.BeamSearchDecoder(cell, tf.zeros([5, 3]), initial_state=state, beam_width=width, **given)


REFUSED = {
    "start": (lambda: search(start_tokens=1), ValueError, "start_tokens must be a vector"),
    "end": (lambda: search(end_token=[1]), ValueError, "end_token must be a scalar"),
    "layer": (lambda: search(output_layer=3), TypeError, "output_layer must be a Layer"),
    "state": (lambda: search(tf.zeros([2, UNITS])), ValueError, r"tile_batch\(state, 2\)"),
    "weight": (lambda: search(length_penalty_weight=[1.0]), ValueError, "length_penalty_weight must be a scalar"),
    "coverage": (
        lambda: search(coverage_penalty_weight=1.0).initialize(),
        ValueError,
        "coverage_penalty_weight must be 0.0 if no cell is instance of AttentionWrapper",
    ),
    "no batch": (lambda: seq2seq.tile_batch(tf.constant(1), 2), ValueError, "t must have a batch dimension"),
    "tree": (
        lambda: seq2seq.gather_tree(tf.zeros([2, 1, 2], tf.int32), tf.zeros([2, 1, 3], tf.int32), [1], 0),
        ValueError,
        r"two tensors \[time, batch, beam\]",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, kind, text = REFUSED[what]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()
