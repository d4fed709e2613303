"""Decoders, helpers and losses against plain loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

seq2seq = tf.contrib.seq2seq

BATCH, TIME, DEPTH, UNITS, CLASSES = 3, 6, 4, 5, 7
RANDOM = np.random.RandomState(0)
X = RANDOM.randn(BATCH, TIME, DEPTH)
TABLE = RANDOM.randn(CLASSES, DEPTH)
TIERS = ["interpreted", "compiled"]
BOUND = tf.random_uniform_initializer(-1.5, 1.5, seed=3)


def run(fetches, tier="interpreted", feeds=None):
    with tf.Session(config=tf.SessionOptions(tier=tier, precision="highest")) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def decoder(helper, layer=True, seed=3, batch=BATCH):
    cell = tf.nn.rnn_cell.BasicRNNCell(UNITS)
    output = tf.layers.Dense(CLASSES, name="out") if layer else None
    return seq2seq.BasicDecoder(cell, helper, cell.zero_state(batch, tf.float64), output)


def scope():
    return tf.variable_scope("net", dtype=tf.float64, initializer=BOUND)


def weights():
    """Kernel and bias of the cell and of the layer, as NumPy makes them later."""
    return tf.global_variables()


def step(values, x, h):
    """The cell and the layer."""
    kernel, bias, dense, shift = values
    h = np.tanh(np.hstack([x, h]) @ kernel + bias)
    return h, h @ dense + shift


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("impute", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_training(time_major, impute, tier):
    lengths = [4, 1, 5]
    with tf.Graph().as_default():
        x, n = tf.placeholder(tf.float64, [None, None, DEPTH]), tf.placeholder(tf.int32, [None])
        helper = seq2seq.TrainingHelper(x, n, time_major=time_major)
        with scope():
            outputs, state, told = seq2seq.dynamic_decode(decoder(helper), time_major, impute_finished=impute)
        assert outputs.rnn_output.shape.as_list() == ([None, BATCH, CLASSES] if time_major else [BATCH, None, CLASSES])
        fed = X.transpose(1, 0, 2) if time_major else X
        values, made, final, ends = run([weights(), outputs, state, told], tier, {x: fed, n: lengths})
    logits, ids = (item.swapaxes(0, 1) if time_major else item for item in made)
    assert ends.tolist() == lengths
    assert logits.shape == (BATCH, 5, CLASSES)
    h = np.zeros((BATCH, UNITS))
    for t in range(5):
        live = np.array([[t < n or not impute] for n in lengths])
        new, expected = step(values, X[:, t], h)
        h = np.where(live, new, h)
        np.testing.assert_allclose(logits[:, t], np.where(live, expected, 0), rtol=1e-9, atol=1e-12)
        assert ids[:, t].tolist() == np.where(live[:, 0], expected.argmax(1), 0).tolist()
    np.testing.assert_allclose(final, h, rtol=1e-9)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("limit", [None, 3])
def test_greedy(limit, tier):
    start, end = [1, 2, 3], 5
    with tf.Graph().as_default():
        helper = seq2seq.GreedyEmbeddingHelper(tf.constant(TABLE), start, end)
        with scope():
            outputs, _, told = seq2seq.dynamic_decode(decoder(helper), maximum_iterations=limit or 50)
        values, ids, ends = run([weights(), outputs.sample_id, told], tier)
    h, fed, done, lengths, found = np.zeros((BATCH, UNITS)), np.array(start), np.zeros(BATCH, bool), np.zeros(BATCH), []
    while not done.all() and len(found) < (limit or 50):
        h, logits = step(values, TABLE[fed], h)
        fed = logits.argmax(1)
        found.append(fed)
        lengths = np.where(done, lengths, len(found))
        done = done | (fed == end)
    assert ids.tolist() == np.array(found).T.tolist()
    assert ends.tolist() == lengths.tolist()
    assert limit or len(set(lengths)) > 1  # some sequence ends before another, or nothing was tested


def test_no_step_at_all():
    with tf.Graph().as_default():
        x, n = tf.placeholder(tf.float64, [None, None, DEPTH]), tf.placeholder(tf.int32, [None])
        with scope():
            outputs, _, told = seq2seq.dynamic_decode(decoder(seq2seq.TrainingHelper(x, n)))
        with scope() as again:
            again.reuse_variables()
            none, _, _ = seq2seq.dynamic_decode(decoder(seq2seq.TrainingHelper(x, n)), maximum_iterations=0)
        for tier in TIERS:
            for feeds in ({x: X, n: [0, 0, 0]}, {x: X[:, :0], n: [0, 0, 0]}):
                made, ends = run([outputs, told], tier, feeds)
                assert made.rnn_output.shape == (BATCH, 0, CLASSES)
                assert made.sample_id.shape == (BATCH, 0)
                assert ends.tolist() == [0, 0, 0]
            assert run(none, tier, {x: X, n: [3, 3, 3]}).rnn_output.shape == (BATCH, 0, CLASSES)


def test_gradient_of_training_is_that_of_dynamic_rnn():
    with tf.Graph().as_default():
        lengths = [4, 1, 6]
        with scope():
            outputs, _, _ = seq2seq.dynamic_decode(
                decoder(seq2seq.TrainingHelper(tf.constant(X), lengths), layer=False), impute_finished=True
            )
        with tf.variable_scope("net/decoder", reuse=True) as again:
            cell = tf.nn.rnn_cell.BasicRNNCell(UNITS, name="basic_rnn_cell", reuse=True)
            plain, _ = tf.nn.dynamic_rnn(cell, tf.constant(X), lengths, dtype=tf.float64, scope=again)
        assert len(tf.global_variables()) == 2
        both = [tf.gradients(tf.reduce_sum(tf.sin(y)), tf.global_variables()) for y in (outputs.rnn_output, plain)]
        first, second = run(both)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_scheduled_embeddings(probability):
    """Where the sample is -1 the given input was read, elsewhere the embedding of the sample."""
    lengths = [6, 3, 5]
    with tf.Graph().as_default():
        helper = seq2seq.ScheduledEmbeddingTrainingHelper(
            tf.constant(X), lengths, tf.constant(TABLE), probability, seed=1, scheduling_seed=2
        )
        with scope():
            outputs, _, _ = seq2seq.dynamic_decode(decoder(helper))
        values, made = run([weights(), outputs])
    h, read, sampled = np.zeros((BATCH, UNITS)), X[:, 0], made.sample_id
    for t in range(6):
        h, logits = step(values, read, h)
        np.testing.assert_allclose(made.rnn_output[:, t], logits, rtol=1e-9, atol=1e-12)
        if t < 5:
            read = np.where(sampled[:, t, None] < 0, X[:, t + 1], TABLE[np.maximum(sampled[:, t], 0)])
    share = np.mean(sampled >= 0)
    assert share == probability if probability != 0.5 else 0.1 < share < 0.9
    assert sampled.max() < CLASSES


@pytest.mark.parametrize("through", [None, lambda x: x * 2.0, "layer"])
@pytest.mark.parametrize("auxiliary", [False, True])
def test_scheduled_outputs(auxiliary, through):
    """Where the sample is true, the last output was read (through the function), joined to the auxiliary inputs."""
    x, extra = RANDOM.randn(BATCH, TIME, UNITS), RANDOM.randn(BATCH, TIME, 2)
    with tf.Graph().as_default():
        with scope():
            function = tf.layers.Dense(UNITS, use_bias=False, name="through") if through == "layer" else through
            helper = seq2seq.ScheduledOutputTrainingHelper(
                tf.constant(x),
                [6, 6, 2],
                0.5,
                seed=4,
                next_inputs_fn=function,
                auxiliary_inputs=tf.constant(extra) if auxiliary else None,
            )
            outputs, _, _ = seq2seq.dynamic_decode(decoder(helper, layer=False))
        values, made = run([weights(), outputs])
    assert made.sample_id.dtype == bool
    assert 0 < made.sample_id.mean() < 1
    kernel, bias = values[:2]
    x = np.concatenate([x, extra], -1) if auxiliary else x
    h, read = np.zeros((BATCH, UNITS)), x[:, 0]
    for t in range(TIME):
        h = np.tanh(np.hstack([read, h]) @ kernel + bias)
        np.testing.assert_allclose(made.rnn_output[:, t], h, rtol=1e-9, atol=1e-12)
        if t + 1 < TIME:
            own = h if through is None else h @ values[2] if through == "layer" else h * 2
            own = np.hstack([own, extra[:, t + 1]]) if auxiliary else own
            read = np.where(made.sample_id[:, t, None], own, x[:, t + 1])


def test_samples_follow_the_distribution():
    """One step of many sequences with fixed logits; a low temperature makes it the greatest."""
    logits = np.log([0.5, 0.25, 0.125, 0.125])

    class Fixed(tf.nn.rnn_cell.RNNCell):
        state_size, output_size = 1, 4

        def call(self, inputs, state):
            return tf.tile(tf.constant(logits, tf.float32)[None], [tf.shape(inputs)[0], 1]), state

    with tf.Graph().as_default():
        found = []
        for temperature in (None, 1e-3):
            helper = seq2seq.SampleEmbeddingHelper(tf.zeros([4, 2]), tf.zeros([4000], tf.int32), 9, temperature, seed=7)
            made, _, _ = seq2seq.dynamic_decode(
                seq2seq.BasicDecoder(Fixed(), helper, tf.zeros([4000, 1])), maximum_iterations=1
            )
            found.append(made.sample_id)
        drawn, greatest = run(found)
    shares = np.bincount(drawn[:, 0], minlength=4) / 4000
    np.testing.assert_allclose(shares, np.exp(logits), atol=0.04)
    assert set(greatest[:, 0].tolist()) == {0}


@pytest.mark.parametrize("next_inputs", [None, lambda ids: ids * 0.5])
def test_inference_helper(next_inputs):
    with tf.Graph().as_default():
        helper = seq2seq.InferenceHelper(
            sample_fn=lambda outputs: outputs * 2.0,
            sample_shape=[UNITS],
            sample_dtype=tf.float64,
            start_inputs=tf.zeros([BATCH, UNITS], tf.float64),
            end_fn=lambda samples: samples[:, 0] > 1e9,
            next_inputs_fn=next_inputs,
        )
        with scope():
            made, _, _ = seq2seq.dynamic_decode(decoder(helper, layer=False), maximum_iterations=4)
        (kernel, bias), outputs = run([weights(), made])
    h, read = np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))
    for t in range(4):
        h = np.tanh(np.hstack([read, h]) @ kernel + bias)
        np.testing.assert_allclose(outputs.sample_id[:, t], 2 * h, rtol=1e-9)
        read = h if next_inputs else 2 * h


def test_custom_helper_with_a_structure_of_outputs():
    """Any structure of inputs; samples of a shape of their own; a state that the helper changes."""

    class Twice(tf.nn.rnn_cell.RNNCell):
        state_size, output_size = 2, 2

        def call(self, inputs, state):
            return inputs["x"] + state, state + 1.0

    with tf.Graph().as_default():
        helper = seq2seq.CustomHelper(
            initialize_fn=lambda: (tf.constant([False, False]), {"x": tf.zeros([2, 2])}),
            sample_fn=lambda time, outputs, state: tf.stack([outputs, -outputs], 2),
            next_inputs_fn=lambda time, outputs, state, sample_ids: (
                tf.constant([True, False]) & (time >= 1),
                {"x": sample_ids[:, :, 1]},
                state * 2.0,
            ),
            sample_ids_shape=[2, 2],
            sample_ids_dtype=tf.float32,
        )
        with pytest.raises(ValueError, match="batch_size accessed before initialize was called"):
            helper.batch_size
        outputs, state, lengths = seq2seq.dynamic_decode(
            seq2seq.BasicDecoder(Twice(), helper, tf.zeros([2, 2])), maximum_iterations=tf.constant(4)
        )
        made, final, ends = run([outputs, state, lengths])
    assert made.sample_id.shape == (2, 4, 2, 2)
    expected, s, x = [], 0.0, 0.0
    for _ in range(4):
        expected.append(x + s)
        s, x = (s + 1) * 2, -(x + s)
    assert made.rnn_output[:, :, 0].tolist() == [expected, expected]
    assert final.tolist() == [[s, s]] * 2
    assert ends.tolist() == [2, 4]


def test_a_helper_of_an_old_program():
    """Before 1.4 a helper did not say what its samples are: numbers of classes."""

    class Doubling(seq2seq.Helper):
        batch_size = 2

        def initialize(self, name=None):
            return tf.constant([False, False]), tf.ones([2, 3])

        def sample(self, time, outputs, state, name=None):
            return tf.tile([0], [2])

        def next_inputs(self, time, outputs, state, name=None, **unused):
            return time + 1 >= tf.constant([2, 3]), outputs * 2.0, state

    class Same(tf.nn.rnn_cell.RNNCell):
        state_size, output_size = 1, 3

        def call(self, inputs, state):
            return inputs, state

    with tf.Graph().as_default():
        outputs, _, lengths = seq2seq.dynamic_decode(seq2seq.BasicDecoder(Same(), Doubling(), tf.zeros([2, 1])))
        made, ends = run([outputs, lengths])
    assert made.rnn_output[:, :, 0].tolist() == [[1, 2, 4]] * 2
    assert made.sample_id.tolist() == [[0, 0, 0]] * 2
    assert ends.tolist() == [2, 3]


def losses(**kwargs):
    return dict({"average_across_timesteps": False, "average_across_batch": False}, **kwargs)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lambda e, w: (e * w).sum() / w.sum()),
        (losses(), lambda e, w: e * w),
        (losses(average_across_batch=True), lambda e, w: (e * w).sum(0) / w.sum(0)),
        (losses(average_across_timesteps=True), lambda e, w: (e * w).sum(1) / w.sum(1)),
        (losses(sum_over_batch=True, sum_over_timesteps=True), lambda e, w: (e * w).sum() / (w != 0).sum()),
        (losses(sum_over_batch=True), lambda e, w: (e * w).sum(0) / (w != 0).sum(0)),
        (losses(sum_over_timesteps=True), lambda e, w: (e * w).sum(1) / (w != 0).sum(1)),
    ],
)
def test_sequence_loss(options, expected):
    logits, targets = RANDOM.randn(2, 3, 4), RANDOM.randint(0, 4, (2, 3))
    w = np.array([[1.0, 0.5, 0.25], [2.0, 1.0, 0.0]])
    entropy = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], 2)[..., 0]
    with tf.Graph().as_default():
        loss = seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets, tf.int32), tf.constant(w), **options)
        np.testing.assert_allclose(run(loss), expected(entropy, w), rtol=1e-9)


def test_sequence_loss_of_nothing_is_zero():
    with tf.Graph().as_default():
        loss = seq2seq.sequence_loss(tf.ones([2, 3, 4]), tf.zeros([2, 3], tf.int32), tf.zeros([2, 3]))
        assert run(loss) == 0
        own = seq2seq.sequence_loss(
            tf.ones([2, 3, 4]),
            tf.zeros([2, 3], tf.int32),
            tf.ones([2, 3]),
            softmax_loss_function=lambda labels, logits: tf.cast(labels, tf.float32) + tf.reduce_sum(logits, 1),
        )
        assert run(own) == 4


def training(**kwargs):
    return seq2seq.TrainingHelper(tf.zeros([2, 3, 4]), **dict({"sequence_length": [3, 2]}, **kwargs))


REFUSED = {
    "lengths": (lambda: training(sequence_length=3), ValueError, "sequence_length must be a vector"),
    "start": (
        lambda: seq2seq.GreedyEmbeddingHelper(tf.zeros([3, 4]), 1, 2),
        ValueError,
        "start_tokens must be a vector",
    ),
    "end": (
        lambda: seq2seq.GreedyEmbeddingHelper(tf.zeros([3, 4]), [1], [2]),
        ValueError,
        "end_token must be a scalar",
    ),
    "probability": (
        lambda: seq2seq.ScheduledOutputTrainingHelper(tf.zeros([2, 3, 4]), [3, 2], [[0.5]]),
        ValueError,
        "either a scalar or a vector",
    ),
    "next inputs": (
        lambda: seq2seq.ScheduledOutputTrainingHelper(tf.zeros([2, 3, 4]), [3, 2], 0.5, next_inputs_fn=3),
        TypeError,
        "next_inputs_fn must be a function of outputs",
    ),
    "helper": (
        lambda: seq2seq.BasicDecoder(tf.nn.rnn_cell.GRUCell(3), 3, None),
        TypeError,
        "helper must be a Helper, received",
    ),
    "layer": (
        lambda: seq2seq.BasicDecoder(tf.nn.rnn_cell.GRUCell(3), training(), None, lambda x: x),
        TypeError,
        "output_layer must be a Layer, received",
    ),
    "decoder": (lambda: seq2seq.dynamic_decode(3), TypeError, "Expected decoder to be type Decoder"),
    "keyword": (lambda: seq2seq.dynamic_decode(3, axis=3), TypeError, "unexpected keyword argument 'axis'"),
    "limit": (
        lambda: seq2seq.dynamic_decode(decoder(training(), batch=2), maximum_iterations=[3]),
        ValueError,
        "maximum_iterations must be a scalar",
    ),
    "incomplete": (
        lambda: seq2seq.dynamic_decode(seq2seq.Decoder()),
        NotImplementedError,
        "Decoder without initialize",
    ),
    "logits": (
        lambda: seq2seq.sequence_loss(tf.zeros([3, 4]), tf.zeros([3]), tf.zeros([3])),
        ValueError,
        r"Logits must be a \[batch_size x sequence_length x logits\] tensor",
    ),
    "average and sum": (
        lambda: seq2seq.sequence_loss(tf.zeros([2, 3, 4]), tf.zeros([2, 3]), tf.zeros([2, 3]), sum_over_batch=True),
        ValueError,
        "average_across_batch and sum_over_batch cannot be set to True",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, kind, text = REFUSED[what]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


def test_lengths_beyond_the_inputs_fail_the_step():
    with tf.Graph().as_default():
        n = tf.placeholder(tf.int32, [BATCH])
        with scope():
            outputs, _, _ = seq2seq.dynamic_decode(decoder(seq2seq.TrainingHelper(tf.constant(X), n)))
        for tier in TIERS:
            with pytest.raises(tf.errors.OpError, match=r"read|index|Index"):
                run(outputs, tier, {n: [1, 2, 9]})
