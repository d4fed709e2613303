"""Steps whose batch is never of the same size: few programs, and the results of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.plans import policy, shape_families
from anabranch.xla import program as programs

SIZES = (3, 299, 1, 40, 150, 64, 33, 129, 2)


def session(tier, seed=5):
    return tf.Session(config=tf.SessionOptions(tier=tier, seed=seed))


def perceptron():
    x, y = tf.placeholder(tf.float32, [None, 20]), tf.placeholder(tf.int64, [None])
    hidden = tf.layers.dense(x, 8, tf.nn.relu)
    logits = tf.layers.dense(hidden, 5)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    loss += 1e-3 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
    gradient = tf.gradients(loss, tf.trainable_variables()[0])[0]
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return [step, loss, accuracy, gradient, logits], lambda draw, n: {x: draw.randn(n, 20), y: draw.randint(0, 5, n)}


def convolutional():
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int64, [None])
    hidden = tf.layers.max_pooling2d(tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu), 2, 2)
    hidden = tf.layers.average_pooling2d(tf.layers.conv2d(hidden, 4, 3, padding="same"), 2, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(tf.layers.flatten(hidden), 10))
    step = tf.train.AdamOptimizer(1e-2).minimize(loss)
    return [step, loss], lambda draw, n: {x: draw.randn(n, 8, 8, 1), y: draw.randint(0, 10, n)}


def embedded():
    x, y = tf.placeholder(tf.int32, [None, 6]), tf.placeholder(tf.float32, [None])
    table = tf.get_variable("table", [50, 8])
    hidden = tf.layers.dense(tf.reduce_mean(tf.nn.embedding_lookup(table, x), 1), 8, tf.nn.tanh)
    answer = tf.squeeze(tf.layers.dense(hidden, 1), 1)
    loss = tf.losses.mean_squared_error(y, answer)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [step, loss, answer], lambda draw, n: {x: draw.randint(0, 50, (n, 6)), y: draw.randn(n)}


def normalised():
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    hidden = tf.nn.relu(tf.layers.batch_normalization(tf.layers.conv2d(x, 4, 3), training=False))
    return [tf.nn.softmax(tf.layers.dense(tf.reduce_mean(hidden, [1, 2]), 4))], lambda draw, n: {
        x: draw.randn(n, 8, 8, 3)
    }


def in_training():
    """Batch normalisation by the batch itself: rows meet in the middle of the step."""
    x = tf.placeholder(tf.float32, [None, 6])
    hidden = tf.nn.relu(tf.layers.batch_normalization(tf.layers.dense(x, 4), training=True))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - tf.reduce_mean(x, 1, keepdims=True)))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    return [step, loss], lambda draw, n: {x: draw.randn(n, 6)}


def rolled_out():
    """A recurrent policy that learns from one episode: its steps are the batch."""
    x, gains = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None])
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(4), x[None], dtype=tf.float32)
    policy = tf.nn.softmax(tf.layers.dense(outputs[0], 3))
    loss = -tf.reduce_sum(tf.log(policy[:, 0]) * gains)
    variables = tf.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    step = tf.train.RMSPropOptimizer(0.01).apply_gradients(zip(gradients, variables, strict=True))
    return [step, loss, norm, policy], lambda draw, n: {x: draw.randn(n, 5), gains: draw.randn(n)}


def tagged():
    """Sentences of their own lengths in a batch as long as the longest, read from both ends; words are looked up."""
    words, tags = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None, None])
    lengths = tf.placeholder(tf.int32, [None])
    inputs = tf.nn.dropout(tf.nn.embedding_lookup(tf.get_variable("words", [30, 4]), words), keep_prob=0.75, seed=4)
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.GRUCell(4), inputs, lengths, dtype=tf.float32
    )
    logits = tf.layers.dense(tf.reshape(tf.concat(outputs, -1), [-1, 8]), 3)
    logits = tf.reshape(logits, [-1, tf.shape(words)[1], 3])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
    mask = tf.sequence_mask(lengths, tf.shape(words)[1], dtype=tf.float32)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss, logits], lambda draw, n: {
        words: draw.randint(0, 30, (3, n)),
        tags: draw.randint(0, 3, (3, n)),
        lengths: [n, *draw.randint(1, n + 1, 2)],
    }


def summed_by_arrays():
    """A loop written by hand over TensorArrays, of steps in front of the batch, whose last step is looked at."""
    x = tf.placeholder(tf.float32, [None, 2, 3])
    count = tf.shape(x)[0]
    kernel = tf.get_variable("kernel", [3, 3])
    rows = tf.TensorArray(tf.float32, count).unstack(x)
    states = tf.TensorArray(tf.float32, count)

    def body(i, state, states):
        state = tf.tanh(tf.matmul(state, kernel) + rows.read(i))
        return i + 1, state, states.write(i, state)

    _, last, states = tf.while_loop(lambda i, *_: i < count, body, (0, tf.zeros([2, 3]), states))
    states = states.stack()
    loss = tf.reduce_mean(tf.square(last)) + tf.reduce_mean(states[-1] * states[0]) + tf.reduce_mean(states[::-1] * x)
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [step, loss, states, tf.gradients(loss, x)[0]], lambda draw, n: {x: draw.randn(n, 2, 3)}


MODELS = (perceptron, convolutional, embedded, normalised, in_training)
RECURRENT = (rolled_out, tagged, summed_by_arrays)
LENGTHS = (3, 20, 1, 7, 40, 12, 32, 2)


def results(model, tier, sizes, seed=5):
    """What the steps of a model give, and what ``explain`` says at the end."""
    with tf.Graph().as_default():
        if seed is not None:
            tf.set_random_seed(3)
        fetches, feeds = model()
        draw = np.random.RandomState(1)
        with session(tier, seed) as s:
            s.run(tf.global_variables_initializer())
            for i, v in enumerate(tf.global_variables()):  # the same without a seed
                value = 0.3 * np.random.RandomState(i).randn(*v.shape.as_list())
                v.load(np.abs(value) if "variance" in v.name or "beta" in v.name or "Adam" in v.name else value, s)
            found = [s.run(fetches, feeds(draw, n)) for n in sizes]
            return found, s.explain(fetches, feeds(draw, sizes[-1]))


@pytest.mark.parametrize(
    ("model", "seed"),
    [*((model, 5) for model in MODELS), (perceptron, None)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_batches_of_any_size_give_what_the_interpreter_gives(model, seed, compiled):
    expected, _ = results(model, "interpreted", SIZES, seed)
    compiled.clear()
    found, told = results(model, "compiled", SIZES, seed)
    assert len([p for p in compiled if p.batch_axes]) <= 3  # capacities of 32, 64 and 192
    assert "batches of any size" in told
    assert "   host " not in told
    for left, right in zip(expected, found, strict=True):
        for one, other in zip(left, right, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert np.shape(one) == np.shape(other)
                np.testing.assert_allclose(other, one, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("model", RECURRENT, ids=lambda model: model.__name__)
def test_sequences_of_any_length_give_what_the_interpreter_gives(model, compiled):
    expected, _ = results(model, "interpreted", LENGTHS)
    compiled.clear()
    found, told = results(model, "compiled", LENGTHS)
    steps = [p for p in compiled if p.batch_axes and len(p.group.ops) > 20]
    assert len(steps) <= 2  # capacities of 32 and 64
    assert "batches of any size" in told
    for left, right in zip(expected, found, strict=True):
        for one, other in zip(left, right, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(other, one, rtol=2e-4, atol=2e-5)


def test_sequences_of_any_length_are_compiled_beside_steps(compiled, monkeypatch):
    for price in ("COMPILE_BASE", "COMPILE_OP", "COMPILE_PRODUCT"):
        monkeypatch.setattr(policy, price, getattr(policy, price) / 100)
    lengths = [int(n) for n in np.random.RandomState(2).randint(1, 60, 40)]
    expected, _ = results(rolled_out, "interpreted", lengths, None)
    means = []
    plain = programs.Program.executable

    def noted(self, *args, **options):
        if options.get("batch"):
            means.append(options["means"])
        return plain(self, *args, **options)

    monkeypatch.setattr(programs.Program, "executable", noted)
    found, _ = results(rolled_out, "auto", lengths, None)
    assert programs.Means.HERE not in means
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_allclose(left[1], right[1], rtol=1e-3, atol=1e-4)


def test_all_sizes_in_random_order_take_nine_programs(compiled):
    order = [int(n) for n in np.random.RandomState(0).permutation(np.arange(1, 300))]
    expected, _ = results(normalised, "interpreted", order)
    compiled.clear()
    found, _ = results(normalised, "compiled", order)
    steps = [p for p in compiled if any(op.type == "Softmax" for op in p.group.ops)]
    assert len(steps) <= 9
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other[0], one[0], rtol=1e-4, atol=1e-6)


def test_a_seeded_program_repeats_bit_for_bit():
    first, second = (results(perceptron, "compiled", SIZES[:5])[0] for _ in range(2))
    for left, right in zip(first, second, strict=True):
        for one, other in zip(left[1:], right[1:], strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_automatic_tier_pads_once_it_compiles(compiled, monkeypatch):
    for price in ("COMPILE_BASE", "COMPILE_OP", "COMPILE_PRODUCT"):
        monkeypatch.setattr(policy, price, getattr(policy, price) / 30)  # so that 120 steps pay for it
    sizes = [int(n) for n in np.random.RandomState(2).randint(1, 300, 120)]
    expected, _ = results(embedded, "interpreted", sizes)
    found, told = results(embedded, "auto", sizes)
    assert "batches of any size" in told
    assert "tier: compiled" in told
    assert len([p for p in compiled if p.batch_axes]) <= 7
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_allclose(left[1], right[1], rtol=1e-3)


def simple(compute, sizes, dtype=tf.float32, tier="compiled", columns=4):
    """Results of a function of one batch, with what ``explain`` says."""
    with tf.Graph().as_default():
        x = tf.placeholder(dtype, [None, columns])
        y = compute(x)
        with session(tier) as s:
            s.run(tf.global_variables_initializer())
            draw = np.random.RandomState(0)
            found = [s.run(y, {x: draw.randint(1, 9, (n, columns))}) for n in sizes]
            return found, s.explain(y, {x: draw.randint(1, 9, (max(sizes[-1], 1), columns))})


def compare(compute, sizes, **options):
    found, told = simple(compute, sizes, **options)
    for one, other in zip(found, simple(compute, sizes, **{**options, "tier": "interpreted"})[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return told


@pytest.mark.parametrize(
    ("compute", "named"),
    [
        (lambda x: tf.nn.top_k(tf.transpose(x), 1, name="best")[0], "best (TopKV2): "),
        (lambda x: tf.matrix_determinant(tf.matmul(x, x, transpose_b=True), name="det"), "det (MatrixDeterminant)"),
    ],
)
def test_an_op_that_cannot_be_padded_leaves_the_batch_to_the_host(compute, named):
    told = compare(compute, SIZES[:7])
    assert f"batches are not padded: {named}" in told


def test_two_sizes_that_change_are_not_one_batch():
    with tf.Graph().as_default():
        x, z = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None])
        y = tf.reduce_sum(x) * tf.reduce_sum(z)
        with session("compiled") as s:
            for n, m in ((3, 3), (5, 5), (7, 7), (9, 9), (9, 4), (5, 8), (7, 7), (33, 2)):
                assert s.run(y, {x: np.ones((n, 2)), z: np.ones(m)}) == 2 * n * m


def test_what_the_graph_decides_by_a_size_is_decided_for_each():
    def least(x):
        return tf.reduce_sum(x, 0) * tf.cast(tf.minimum(tf.shape(x)[0], 100), tf.float32)

    told = compare(least, (5, 6, 128, 97, 98, 99, 100, 101, 120, 3))
    assert "batches of any size" in told


def test_what_is_known_of_few_rows_alone_is_not_relied_on():
    """Small arrays of integers that follow from shapes are known while tracing, larger ones are not."""

    def ramp(x):
        return tf.reduce_sum(x, 1) * tf.cast(tf.zeros_like(tf.range(tf.shape(x)[0] * 20)), tf.float32)[0] + x[:, 0]

    told = compare(ramp, (5, 6, 64, 40, 33, 50, 63, 45, 58))
    assert "batches of any size" in told


def test_a_program_that_few_sizes_may_use_is_given_up():
    def odd(x):
        return tf.reduce_sum(x) * tf.cast(tf.minimum(tf.shape(x)[0], 61), tf.float32)

    told = compare(odd, (5, 6, *range(40, 61)))
    assert "batches are not padded" in told


def test_sizes_that_are_fetched_are_exact():
    told = compare(lambda x: [tf.shape(x), tf.size(x) * 2, tf.cast(x, tf.int32)][1], (1, 7, 40, 299, 33))
    assert "batches of any size" in told
    compare(lambda x: tf.shape(x), (1, 7, 40, 299, 33))
    compare(lambda x: tf.range(tf.shape(x)[0]), (1, 7, 40, 299, 33))


@pytest.mark.parametrize("sizes", [(0, 1, 2, 3, 0, 40), (4, 5, 6, 0, 1), (1, 1, 2, 0)])
def test_empty_batches_and_single_rows(sizes):
    compare(lambda x: tf.reduce_sum(tf.tanh(x), 0) + tf.reduce_max(tf.concat([x, tf.ones_like(x)], 1)[:, -1] * 0 + 1)
            if 0 not in sizes else tf.reduce_sum(tf.tanh(x), 0), sizes)  # fmt: skip
    compare(lambda x: x * tf.reduce_mean(x, 1, keepdims=True), sizes)


def test_softmax_over_the_batch_sees_no_padding():
    told = compare(lambda x: tf.nn.softmax(x, 0), SIZES)
    assert "batches of any size" in told


def test_checks_do_not_see_the_padding():
    """Zeros, which padding is, would fail."""
    with tf.Graph().as_default():
        x, ids = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])
        total = tf.get_variable("total", initializer=np.zeros(2, np.float32))
        rows = tf.gather(tf.constant(np.arange(8, dtype=np.float32).reshape(4, 2)), ids - 1)
        with tf.control_dependencies([tf.assert_positive(x, data=["not positive", x], summarize=4)]):
            step = tf.assign_add(total, tf.reduce_sum(rows * x, 0))
        with session("compiled") as s:
            s.run(tf.global_variables_initializer())
            for n in (2, 3, 40, 5, 33, 100):
                s.run(step, {x: np.ones((n, 2)), ids: np.arange(n) % 4 + 1})
            before = s.run(total)
            bad = np.ones((50, 2))
            bad[49, 1] = -3
            with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
                s.run(step, {x: bad, ids: np.ones(50, int)})
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[48\] = 4 is not in \[0, 4\)"):
                s.run(step, {x: np.ones((50, 2)), ids: [1] * 48 + [5, 1]})
            np.testing.assert_array_equal(s.run(total), before)
            s.run(step, {x: np.ones((50, 2)), ids: np.ones(50, int)})
            np.testing.assert_array_equal(s.run(total), before + np.float32([0, 50]))
            assert "batches of any size" in s.explain(step, {x: bad, ids: np.ones(50, int)})


@pytest.mark.parametrize("columns", [4, 3])
def test_random_numbers_are_those_of_the_exact_size(columns):
    compare(lambda x: tf.nn.dropout(x, keep_prob=0.5, seed=7) * 2, SIZES, columns=columns)
    compare(lambda x: x + tf.random_normal(tf.shape(x), seed=2), SIZES[:6], columns=columns)


def test_a_size_that_keeps_coming_gets_a_plan_of_its_own(compiled):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.reduce_sum(tf.tanh(x), 0)
        with session("compiled") as s:
            for n in (2, 3, 4, 5, *[50] * 80):
                s.run(y, {x: np.ones((n, 3))})
            assert "padded" not in s.explain(y, {x: np.ones((50, 3))})
            assert "are padded" in s.explain(y, {x: np.ones((5, 3))})
            assert len(compiled) == shape_families.MOST_PLANS_OF_BATCHES + 2 + 1


def test_a_step_with_a_host_op_in_the_middle_pads_on_both_sides():
    def compute(x):
        middle = tf.py_func(lambda v: v * 2, [tf.tanh(x)], tf.float32)
        middle.set_shape([None, 4])
        return tf.nn.softmax(middle, 0)

    told = compare(compute, SIZES)
    assert "batches of any size" in told
    assert told.count("host ") == 1
