"""Steps in which two sizes change apart, or something grows with the square of one: the interpreter's results."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.cancellation import CancellationToken
from anabranch.runtime.plans import ahead, shape_families
from anabranch.xla.padding.sizes import LEAST_OF_TWO, Observed, Sizes, Uneven, capacity, least

PAIRS = ((3, 4), (9, 2), (4, 9), (7, 7), (16, 5), (2, 20), (1, 1), (5, 12), (6, 11), (8, 3), (13, 10), (2, 15))


def translated():
    """A decoder that looks at all words of its source in each step; a loop over sources, one over targets."""
    source, target = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None, None])
    lengths = tf.placeholder(tf.int32, [None])
    cell = tf.nn.rnn_cell.GRUCell(4)
    tables = [tf.get_variable(name, [20, 4]) for name in ("sources", "targets")]
    with tf.variable_scope("encoder"):
        inputs = tf.nn.dropout(tf.nn.embedding_lookup(tables[0], source), keep_prob=0.75, seed=4)
        memory, state = tf.nn.dynamic_rnn(cell, inputs, lengths, dtype=tf.float32)
    mask = tf.sequence_mask(lengths, tf.shape(source)[1], dtype=tf.float32)
    steps = tf.shape(target)[1]
    given = tf.TensorArray(tf.float32, steps).unstack(
        tf.transpose(tf.nn.embedding_lookup(tables[1], target), [1, 0, 2])
    )
    decoder = tf.nn.rnn_cell.GRUCell(4)

    def body(i, state, states):
        _, state = decoder(given.read(i), state)
        scores = tf.nn.softmax(tf.reduce_sum(memory * state[:, None], 2) + (mask - 1.0) * 1e9)
        state = state + tf.reduce_sum(memory * scores[:, :, None], 1)
        return i + 1, state, states.write(i, state)

    _, _, states = tf.while_loop(lambda i, *_: i < steps, body, (0, state, tf.TensorArray(tf.float32, steps)))
    outputs = tf.reshape(tf.transpose(states.stack(), [1, 0, 2]), [-1, 4])
    logits = tf.reshape(tf.layers.dense(outputs, 20), [-1, steps, 20])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss, logits], lambda draw, n, m: {
        source: draw.randint(0, 20, (3, n)),
        lengths: [n, *draw.randint(1, n + 1, 2)],
        target: draw.randint(0, 20, (3, m)),
    }


def documents():
    """Words are read sentence by sentence, and sentences then: words of all sentences are rows of one matrix."""
    words = tf.placeholder(tf.int32, [None, None, None])
    shape = tf.shape(words)
    inputs = tf.nn.embedding_lookup(tf.get_variable("words", [20, 4]), words)
    inputs = tf.reshape(inputs, [shape[0] * shape[1], shape[2], 4])
    cells = [tf.nn.rnn_cell.GRUCell(3) for _ in range(2)]
    read, _ = tf.nn.dynamic_rnn(cells[0], inputs, dtype=tf.float32, scope="words")
    weights = tf.nn.softmax(tf.layers.dense(read, 1), 1)
    sentences = tf.reshape(tf.reduce_sum(read * weights, 1), [shape[0], shape[1], 3])
    _, last = tf.nn.dynamic_rnn(cells[1], sentences, dtype=tf.float32, scope="sentences")
    loss = tf.reduce_mean(tf.square(last - 1.0))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss, last, weights], lambda draw, n, m: {words: draw.randint(0, 20, (2, n, m))}


def bucketed():
    """Batches of ever new sizes of sequences of ever new lengths."""
    x, y = tf.placeholder(tf.float32, [None, None, 3]), tf.placeholder(tf.float32, [None, 2])
    _, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(4), x, dtype=tf.float32)
    rows = tf.layers.dense(tf.reshape(x, [-1, 3]), 2, tf.nn.relu)
    pooled = tf.reduce_max(tf.reshape(rows, [-1, tf.shape(x)[1], 2]), 1)
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(state.h, 2) + pooled)
    step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    return [step, loss, pooled], lambda draw, n, m: {x: draw.randn(n, m, 3), y: draw.randn(n, 2)}


def joined():
    """Sources and targets one behind the other: as long as both together."""
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    both = tf.layers.dense(tf.concat([x, [[1.0, 2.0, 3.0]], y], 0), 4, tf.nn.tanh)
    loss = tf.reduce_mean(tf.reduce_max(both, 0)) + tf.reduce_mean(both)
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss, both], lambda draw, n, m: {x: draw.randn(n, 3), y: draw.randn(m, 3)}


def attended():
    """Each word looks at each other, with dropout: as many random numbers as the square of the length."""
    x = tf.placeholder(tf.float32, [None, None, 4])
    batch, length = tf.shape(x)[0], tf.shape(x)[1]
    query, key, value = (
        tf.transpose(tf.reshape(tf.layers.dense(x, 8), [batch, length, 2, 4]), [0, 2, 1, 3]) for _ in range(3)
    )
    scores = tf.nn.dropout(tf.nn.softmax(tf.matmul(query, key, transpose_b=True)), keep_prob=0.75, seed=3)
    outputs = tf.reshape(tf.transpose(tf.matmul(scores, value), [0, 2, 1, 3]), [batch, length, 8])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(outputs, 4) - x))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss, outputs], lambda draw, n, m: {x: draw.randn(4, n, 4)}


def compared():
    """Two texts, read with one table: its gradient has rows for the words of both."""
    texts = [tf.placeholder(tf.int32, [None, None]) for _ in range(2)]
    table = tf.get_variable("words", [20, 4])
    read = [tf.reduce_max(tf.tanh(tf.nn.embedding_lookup(table, text)), 1) for text in texts]
    loss = tf.reduce_mean(tf.square(read[0] - read[1]) - read[0])
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss], lambda draw, n, m: {
        texts[0]: draw.randint(0, 20, (3, n)),
        texts[1]: draw.randint(0, 20, (3, m)),
    }


MODELS = (translated, documents, bucketed, joined, attended)


def results(model, tier, pairs, seed=5, times=1):
    """What the steps of a model give, and what ``explain`` says at the end."""
    with tf.Graph().as_default():
        if seed is not None:
            tf.set_random_seed(3)
        fetches, feeds = model()
        draw = np.random.RandomState(1)
        with tf.Session(config=tf.SessionOptions(tier=tier, seed=seed)) as s:
            s.run(tf.global_variables_initializer())
            for i, v in enumerate(tf.trainable_variables()):
                v.load(0.3 * np.random.RandomState(i).randn(*v.shape.as_list()), s)
            given = [feeds(draw, *pair) for pair in pairs] * times
            found = [s.run(fetches, one) for one in given]
            return found, s.explain(fetches, feeds(draw, *pairs[-1]))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_two_sizes_that_change_apart_give_what_the_interpreter_gives(model, compiled, monkeypatch):
    monkeypatch.setattr(shape_families, "MOST_PLANS_OF_BATCHES", 0)
    looping = model in (translated, documents)  # which take long to compile
    pairs = [pair for pair in PAIRS if not looping or (min(pair) > 1 and max(pair) <= LEAST_OF_TWO)]
    expected, _ = results(model, "interpreted", pairs)
    compiled.clear()
    found, told = results(model, "compiled", pairs)
    assert "batches of any size" in told
    steps = [program for program in compiled if program.batch_axes]
    assert 1 <= len(steps) <= 4  # there are two capacities
    for left, right in zip(expected, found, strict=True):
        for one, other in zip(left, right, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert np.shape(one) == np.shape(other)
                np.testing.assert_allclose(other, one, rtol=2e-4, atol=2e-5)


def test_what_the_host_gives_may_be_as_long_as_both_together():
    """`Unique` gives the place of each word of two texts; which sum that is, interpreted runs have shown."""
    with tf.Graph().as_default(), tf.Session() as s:
        fetches, feeds = compared()
        draw = np.random.RandomState(1)
        s.run(tf.global_variables_initializer())
        for i, v in enumerate(tf.trainable_variables()):
            v.load(0.3 * np.random.RandomState(i).randn(*v.shape.as_list()), s)
        given = [feeds(draw, *pair) for pair in PAIRS]
        found = [s.run(fetches, one) for one in given]
        (plan,) = [family.plan for family in s._worker._families.values() if family is not None and family.plan]
        beside = ahead.Ahead(plan, plan.observed)
        beside.start()
        beside.wait(CancellationToken())
        assert beside.result is not None
        ahead.adopt(plan, beside.result)
        found += [s.run(fetches, one) for one in given]
        assert not plan.varying.stopped
        told = s.explain(fetches, given[-1])
    assert "batches of any size" in told
    assert "tier: compiled" in told
    twice, _ = results(compared, "interpreted", PAIRS, None, times=2)
    for left, right in zip(twice, found, strict=True):
        np.testing.assert_allclose(left[1], right[1], rtol=1e-4, atol=1e-5)


def test_three_sizes_that_change_apart_are_not_padded():
    with tf.Graph().as_default():
        given = [tf.placeholder(tf.float32, [None, 2]) for _ in range(3)]
        y = tf.add_n([tf.reduce_sum(x) * (i + 1) for i, x in enumerate(given)])
        draw = np.random.RandomState(0)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as s:
            for _ in range(12):
                sizes = draw.randint(1, 30, 3)
                feeds = {x: np.ones((n, 2)) for x, n in zip(given, sizes, strict=True)}
                assert s.run(y, feeds) == 2 * sizes @ [1, 2, 3]
            assert "batches of any size" not in s.explain(y, feeds)


def test_numbers_as_polynomials_of_two_sizes():
    def values(at, function):
        return tuple([function(*point) for point in at.points])

    at, all_sums = Sizes((32, 16)), Sizes((32, 16), sums=True)
    for function in (
        lambda n, m: 3 * n - 1,
        lambda n, m: m + 7,
        lambda n, m: 2 * n * m,
        lambda n, m: n * n,
        lambda n, m: 5 * m * m - 4,
    ):
        for one in (at, all_sums):
            line = one.line(values(one, function))
            assert all(one.at(line, (n, m)) == function(n, m) for n in (1, 9) for m in (2, 30))
            assert one.lowest(line, (2, 3)) == function(2, 3)
    assert at.line((4, 4, 4)) is None
    both = all_sums.line(values(all_sums, lambda n, m: n * m - n + 2 * m))
    assert all_sums.at(both, (5, 7)) == 35 - 5 + 14
    assert all_sums.lowest(both, (2, 3)) <= 6 - 32 + 6
    with pytest.raises(Uneven, match="for batches of"):
        at.line(values(at, lambda n, m: n + m))
    with pytest.raises(Uneven, match="for batches of"):
        all_sums.line(values(all_sums, lambda n, m: n**3))


def test_what_is_observed_of_a_dimension():
    pairs = [(2, 3), (4, 4), (9, 1), (5, 8), (1, 1), (6, 2), (3, 7)]
    for function, terms in (
        (lambda n, m: 4 * n, ((4, (1, 0)),)),
        (lambda n, m: 3 * n * m, ((3, (1, 1)),)),
        (lambda n, m: 2 * n + 5 * m, ((2, (1, 0)), (5, (0, 1)))),
        (lambda n, m: m - 1, ((1, (0, 1)), (-1, (0, 0)))),
    ):
        one = Observed()
        assert all([one.note(function(*pair), pair) for pair in pairs])
        assert one.terms() == (terms,)
    fixed, other = Observed(), Observed()
    assert all([fixed.note(7, pair) for pair in pairs])
    assert fixed.same == 7
    assert not all([other.note(n**3 + m, (n, m)) for n, m in pairs])


def test_capacities_of_two_sizes():
    for n in range(1, 200):
        room = capacity((n, 1))
        assert room[1] == LEAST_OF_TWO
        assert least(room)[0] <= n <= room[0] <= max(2 * n - 1, LEAST_OF_TWO)
