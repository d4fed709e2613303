"""Stretches whose sizes change give what their ops give one by one, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.interpreter import open_calls, open_stretches
from anabranch.runtime.plans import shape_families

RUNS = 24


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def served(monkeypatch):
    """How often a stretch has been served by its code."""
    count = [0]
    run = open_stretches.OpenStretch._results

    def counted(self, env, bugs):
        results = run(self, env, bugs)
        count[0] += results is not None
        assert not bugs
        return results

    monkeypatch.setattr(open_stretches.OpenStretch, "_results", counted)
    return count


def _lookups(random):
    """Sparse features of as many values as the data say, looked up and trained."""
    feature = tf.sparse_placeholder(tf.int64, [None, None])
    labels = tf.placeholder(tf.float32, [None, 1])
    table = tf.Variable(random.randn(50, 4).astype(np.float32))
    slopes = tf.Variable(random.randn(50, 1).astype(np.float32))
    hidden = tf.nn.embedding_lookup_sparse(table, feature, None, combiner="sqrtn")
    wide = tf.nn.embedding_lookup_sparse(slopes, feature, None, combiner="sum")
    logits = tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer()) + wide
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    steps = [
        tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=[table]),
        tf.train.FtrlOptimizer(0.1).minimize(loss, var_list=[slopes]),
    ]

    def feed(rows):
        counts = random.randint(1, 6, rows)
        at = np.stack([np.repeat(np.arange(rows), counts), np.concatenate([np.arange(n) for n in counts])], 1)
        value = tf.SparseTensorValue(at, random.randint(0, 50, len(at)), [rows, 6])
        return {feature: value, labels: random.randint(0, 2, (rows, 1)).astype(np.float32)}

    return [loss, hidden, *steps], feed


def _words(random):
    """Unique words, rows that are added up by document, broadcasts, slices of sizes that only steps tell."""
    words, documents = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.int32, [None])
    table = tf.Variable(random.randn(30, 4).astype(np.float32))
    unique, index, counts = tf.unique_with_counts(words)
    weights = tf.gather(1.0 / tf.cast(counts, tf.float32), index)
    rows = tf.nn.embedding_lookup(table, tf.gather(unique, index)) * weights[:, None]
    total = tf.unsorted_segment_sum(rows, documents, tf.size(labels))
    hidden = tf.concat([tf.tanh(total), tf.ones([tf.shape(total)[0], 1])], 1)
    first = tf.reduce_sum(hidden[: tf.shape(labels)[0] // 2], axis=1, keepdims=True)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden))
    loss += tf.reduce_mean(tf.square(first - tf.reduce_mean(hidden)))
    step = tf.train.AdamOptimizer(0.1).minimize(loss)

    def feed(rows):
        counts = random.randint(1, 6, rows)
        return {
            words: random.randint(0, 30, counts.sum()).astype(np.int32),
            documents: np.repeat(np.arange(rows), counts).astype(np.int32),
            labels: random.randint(0, 5, rows).astype(np.int32),
        }

    return [loss, first, step], feed


def _graphs(random):
    """Convolutions over graphs of as many nodes as the data say."""
    matrix = tf.sparse_placeholder(tf.float32, [None, None])
    features, mask = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None])
    weights = tf.Variable(random.randn(3, 4).astype(np.float32))
    hidden = tf.nn.relu(tf.sparse_tensor_dense_matmul(matrix, tf.matmul(features, weights)))
    chosen = tf.where(hidden > 0.5, tf.square(hidden), tf.sigmoid(hidden))
    loss = tf.reduce_sum(tf.expand_dims(mask, 1) * chosen) / tf.reduce_sum(mask)
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    def feed(rows):
        at = np.unique(random.randint(0, rows * rows, 3 * rows))
        value = tf.SparseTensorValue(
            np.stack([at // rows, at % rows], 1), random.rand(len(at)).astype(np.float32), [rows] * 2
        )
        return {
            matrix: value,
            features: random.randn(rows, 3).astype(np.float32),
            mask: np.ones(rows, np.float32),
        }

    return [loss, chosen, step], feed


def _segments(random):
    """Segments of rows, masks, casts and a softmax of as many rows as the data say; zeros that are negative, too."""
    words, documents = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.int64, [None])
    table = tf.Variable(random.randn(30, 64).astype(np.float32))
    rows = tf.nn.relu(tf.gather(table, words))
    sums = tf.segment_sum(rows, documents) / tf.segment_sum(tf.ones_like(rows), documents)
    parts = [sums, tf.segment_mean(rows, documents)]
    for reduce in (tf.sparse_segment_sum, tf.sparse_segment_mean, tf.sparse_segment_sqrt_n):
        parts.append(reduce(table, words, documents))
        parts.append(reduce(table, words, documents, num_segments=tf.size(labels)))
    hidden = tf.add_n(parts)
    known = tf.expand_dims(tf.cast(labels, tf.float32), 1) * hidden > 0.3
    chosen = tf.where_v2(known, hidden, -hidden) + tf.where_v2(known[:, :1], hidden, tf.zeros_like(hidden))
    shares = tf.nn.softmax(chosen) * tf.math.reciprocal(tf.maximum(tf.abs(chosen), 0.5))
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    loss = tf.reduce_mean(entropy) + tf.nn.l2_loss(shares) + tf.reduce_sum(tf.cast(tf.equal(labels, 1), tf.float32))
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)

    def feed(rows):
        counts = random.randint(1, 6, rows)
        return {
            words: random.randint(0, 30, counts.sum()).astype(np.int32),
            documents: np.repeat(np.arange(rows), counts).astype(np.int32),
            labels: random.randint(0, 5, rows),
        }

    return [loss, chosen, step], feed


def _normalised(random):
    """Rows of length 1, a softmax over distributions, gradients clipped by their norm; numbers of rows that are -1."""
    rows, documents = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.float32, [None, 8])
    table = tf.Variable(random.randn(30, 8).astype(np.float32))
    hidden = tf.nn.l2_normalize(tf.gather(table, rows), 1)
    total = tf.unsorted_segment_sum(hidden, documents, tf.shape(labels)[0])
    total += tf.math.rsqrt(tf.square(total) + 1e-3)
    loss = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=total)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    gradients = tf.gradients(loss, [table])
    clipped, norm = tf.clip_by_global_norm([*gradients, tf.reduce_sum(total)], 0.5)
    step = optimizer.apply_gradients([(clipped[0], table)])

    def feed(rows_):
        counts = random.randint(1, 60, rows_)
        own = np.repeat(np.arange(rows_), counts)
        own[:: random.randint(2, 9)] = -1 if random.rand() < 0.1 else 0
        shares = random.rand(rows_, 8).astype(np.float32) * (random.rand(rows_, 8) < 0.7)
        return {rows: random.randint(0, 30, counts.sum()), documents: own, labels: shares.astype(np.float32)}

    return [loss, norm, step], feed


def _run(make, tier, monkeypatch, open_code):
    with tf.Graph().as_default(), monkeypatch.context() as patch:
        patch.setattr(shape_families, "MOST_SIZES", 1)  # what is padded has no stretches
        if not open_code:
            patch.setattr(open_stretches, "LEAST_OPS", 1 << 30)
        random = np.random.RandomState(1)
        fetches, feed = make(random)
        sizes = np.random.RandomState(2).randint(2, 40, RUNS)
        with tf.Session(config=tf.SessionOptions(tier=tier, seed=3)) as session:
            session.run(tf.global_variables_initializer())
            values = [session.run(fetches, feed(rows))[:2] for rows in sizes]
            return values, session.run(tf.global_variables())


@pytest.mark.parametrize("make", [_lookups, _words, _graphs, _segments, _normalised])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_steps_of_ever_new_sizes_are_as_without_code_for_them(make, tier, served, monkeypatch):
    values, variables = _run(make, tier, monkeypatch, True)
    assert served[0] > RUNS // 3
    expected, expected_variables = _run(make, tier, monkeypatch, False)
    for one, other in zip(values, expected, strict=True):
        for value, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(value, wanted)
    for value, wanted in zip(variables, expected_variables, strict=True):
        np.testing.assert_array_equal(value, wanted)


def _looked_up():
    ids = tf.placeholder(tf.int64, [None])
    table = tf.Variable(np.arange(20, dtype=np.float32).reshape(10, 2))
    rows = tf.nn.embedding_lookup(table, ids, name="rows")
    total = tf.reduce_sum(tf.square(rows - tf.reduce_mean(rows, 0)), 1) / tf.cast(tf.size(ids), tf.float32)
    return ids, total, table


def test_an_error_is_that_of_its_op_and_changes_nothing(served):
    ids, total, table = _looked_up()
    step = tf.assign_add(table, tf.fill([10, 2], tf.reduce_sum(total)))
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(tf.global_variables_initializer())
        for size in range(1, RUNS):
            session.run([total, step.op], {ids: np.arange(size) % 10})
        assert served[0] > 4
        before = session.run(table)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[2\] = 10 is not in \[0, 10\)"):
            session.run([total, step.op], {ids: [1, 2, 10]})
        np.testing.assert_array_equal(session.run(table), before)


def test_no_rows_and_negative_indices_go_to_the_kernels(served):
    ids, total, _ = _looked_up()
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(tf.global_variables_initializer())
        for size in range(1, RUNS):
            session.run(total, {ids: np.arange(size) % 10})
        assert session.run(total, {ids: np.zeros(0, np.int64)}).shape == (0,)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = -1 is not in"):
            session.run(total, {ids: [-1]})


def test_what_follows_from_shapes_is_of_the_dtype_of_its_operand(served):
    """Zeros are of the shape, and of the dtype, of what they are like."""
    x = tf.placeholder(tf.float64, [None])
    zeros = tf.zeros_like(x, optimize=False)
    result = tf.add_n([tf.concat([zeros, x], 0) * float(i) for i in range(4)])
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        for size in [*range(1, RUNS), 3, 700, 3]:
            value = session.run(result, {x: np.ones(size)})
            np.testing.assert_array_equal(value, np.concatenate([np.zeros(size), np.full(size, 6.0)]))
    assert served[0] > 4


def _changing_broadcasts(random):
    """Gradients of broadcasts, of concatenations, of means over all but the last dimension."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 4])
    weights = tf.Variable(random.randn(4, 4).astype(np.float32))
    both = tf.matmul(x, weights) * tf.matmul(y, weights) - tf.reduce_mean(y, 0, keepdims=True)
    joined = tf.concat([both, tf.matmul(x, weights)], 0)
    parts = tf.reshape(joined, [tf.shape(x)[0] * 2, -1, 2])
    rows = tf.reduce_mean(tf.square(parts), [0, 1]) + tf.cast(tf.size(y), tf.float32)
    loss = tf.reduce_sum(rows) + tf.reduce_sum(tf.tile(tf.reduce_max(joined, 1, keepdims=True), [1, 3]))
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)

    def feed(count):
        values = random.randn(2, count, 4).astype(np.float32)
        return {x: values[0], y: values[1]}

    return [loss, rows, step], feed


def test_sizes_that_are_new_are_computed_as_integers(served, monkeypatch):
    anew = [0]
    compute = open_calls.FromShapes._compute

    def counted(self, given):
        anew[0] += 1
        return compute(self, given)

    monkeypatch.setattr(open_calls.FromShapes, "_compute", counted)
    values, _ = _run(_changing_broadcasts, "interpreted", monkeypatch, True)
    computed = anew[0]
    expected, _ = _run(_changing_broadcasts, "interpreted", monkeypatch, False)
    for one, other in zip(values, expected, strict=True):
        for value, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(value, wanted)
    assert served[0] > RUNS // 3
    assert computed < 4 * RUNS
