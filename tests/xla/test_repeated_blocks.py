"""Blocks that a graph repeats are found, computed as loops, and give what the ops give one by one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.xla.loops import repeated_blocks, rolled_blocks
from anabranch.xla.loops.units import Sum


def run_in_both_tiers(build, feed=None, steps=1):
    """What ``build()`` gives in each tier: fetched ``steps`` times, with the explanation of the compiled one."""
    found = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            tf.set_random_seed(4)
            fetches = build()
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                session.run(tf.global_variables_initializer())
                values = [session.run(fetches, feed and feed()) for _ in range(steps)]
                told = session.explain(fetches, feed and feed())
        found.append(values)
    return found[0], found[1], told


def assert_same(first, second, tolerance=1e-5):
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, tolerance, tolerance)


CELLS = {
    "lstm": lambda: tf.nn.rnn_cell.LSTMCell(7),
    "gru": lambda: tf.nn.rnn_cell.GRUCell(7),
    "basic": lambda: tf.nn.rnn_cell.BasicRNNCell(7),
    "peephole": lambda: tf.nn.rnn_cell.LSTMCell(7, use_peepholes=True, num_proj=5, cell_clip=1.0),
    "nas": lambda: tf.contrib.rnn.NASCell(7),
    "norm": lambda: tf.contrib.rnn.LayerNormBasicLSTMCell(7),
    "two layers": lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(7), tf.nn.rnn_cell.GRUCell(6)]),
}


@pytest.mark.parametrize("kind", CELLS)
def test_an_unrolled_network_and_its_gradient_are_loops(kind):
    steps = 40
    data = np.random.default_rng(0).normal(size=(steps, 3, 4)).astype(np.float32)

    def build():
        inputs = tf.unstack(tf.constant(data))
        outputs, state = tf.nn.static_rnn(CELLS[kind](), inputs, dtype=tf.float32)
        loss = tf.add_n(
            [
                tf.reduce_sum(tf.square(tf.concat(outputs, 1))),
                *map(tf.reduce_sum, tf.contrib.framework.nest.flatten(state)),
            ]
        )
        train = tf.train.MomentumOptimizer(0.001, 0.9).minimize(loss)
        with tf.control_dependencies([train]):
            after = [tf.identity(variable.read_value()) for variable in tf.trainable_variables()]
        return [loss, outputs[-1], outputs[0], *after]

    first, second, told = run_in_both_tiers(build, steps=3)
    assert_same(first, second)
    blocks = [int(line.split()[0]) for line in told.splitlines() if "each are one loop" in line]
    assert max(blocks) >= steps - 1
    assert len(blocks) >= 2, told


SLICES = {
    "element": lambda x, i: x[:, i],
    "element of three": lambda x, i: x[:, i, :],
    "range": lambda x, i: tf.squeeze(x[:, i : i + 1], [1]),
    "ellipsis": lambda x, i: x[..., i, :],
    "backwards": lambda x, i: x[:, 29 - i],
    "slice": lambda x, i: tf.squeeze(tf.slice(x, [0, i, 0], [-1, 1, -1]), [1]),
}


@pytest.mark.parametrize(
    ("kind", "batch"), [*((kind, None) for kind in SLICES), ("element", 3), ("range", 3)], ids=lambda value: str(value)
)
def test_a_network_that_slices_its_sequence_is_a_loop(kind, batch):
    steps, units = 30, 5
    data = np.random.default_rng(0).normal(size=(3, steps, 4)).astype(np.float32)
    feeds = {}

    def build():
        x = tf.placeholder(tf.float32, [batch, steps, 4])
        feeds.clear()
        feeds[x] = data
        w = tf.get_variable("w", [4 + units, 3 * units])
        b = tf.get_variable("b", [3 * units])
        h, outputs = tf.zeros([tf.shape(x)[0], units]), []
        for i in range(steps):
            gates = tf.matmul(tf.concat([SLICES[kind](x, i), h], 1), w) + b
            keep, new, out = tf.split(gates, 3, axis=1)
            h = tf.sigmoid(keep) * h + tf.tanh(new) * tf.sigmoid(out)
            outputs.append(h)
        loss = tf.reduce_sum(tf.square(tf.stack(outputs, 1) - 0.5))
        return [loss, outputs[3], *tf.gradients(loss, [w, b, x])]

    first, second, told = run_in_both_tiers(build, lambda: feeds)
    assert_same(first, second, 1e-4)
    blocks = [int(line.split()[0]) for line in told.splitlines() if "each are one loop" in line]
    assert len(blocks) >= (1 if kind == "slice" else 2), told  # the gradient of `tf.slice` pads by computed sizes
    assert min(blocks) >= steps - 2


def test_slices_that_leave_gaps_or_cut_two_dimensions_are_what_they_are():
    data = np.random.default_rng(0).normal(size=(2, 60, 8)).astype(np.float32)

    def build():
        x, found = tf.constant(data), []
        for part in (
            [x[:, 2 * i] for i in range(30)],
            [x[:, 10 + 3 * i : 13 + 3 * i] for i in range(12)],
            [x[:, i, i % 8] for i in range(30)],
            [x[:, i : i + 2, 3] for i in range(30)],
            [x[:, -1 - i] for i in range(30)],
            [x[:, i, 2:] for i in range(30)],
        ):
            total = tf.zeros_like(part[0])
            for one in part:
                total = tf.tanh(total * 0.5 + one) + tf.sigmoid(one) * total - tf.square(one)
            found.append(total)
        return found

    first, second, _ = run_in_both_tiers(build)
    assert_same(first, second)


def test_what_follows_from_shapes_in_a_block_may_be_needed_outside():
    data = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    feeds = {}

    def build():
        x = tf.placeholder(tf.float32, [None, 4])
        feeds.clear()
        feeds[x] = data
        h, sizes = x, []
        for _ in range(30):
            h = tf.tanh(h * 0.5) + tf.sigmoid(h) - tf.square(h) * 0.1
            sizes.append(tf.shape(h)[0])
        again = [tf.reshape(h, [size, 2, 2]) for size in sizes]
        return [tf.add_n(again), sizes[3]]

    first, second, told = run_in_both_tiers(build, lambda: feeds)
    assert_same(first, second)
    assert "each are one loop" in told


def test_a_sum_of_products_is_one_product():
    steps = 30

    def build():
        w = tf.get_variable("w", [50, 40], initializer=tf.random_normal_initializer(seed=1, stddev=0.1))
        v = tf.get_variable("v", [40, 50], initializer=tf.random_normal_initializer(seed=2, stddev=0.1))
        h = tf.ones([2, 50])
        for _ in range(steps):
            h = tf.tanh(tf.matmul(tf.tanh(tf.matmul(h, w)), v) + 0.1)
        return tf.gradients(tf.reduce_sum(h), [w, v])

    with tf.Graph().as_default() as graph:
        build()
        ops = graph.get_operations()
    units = repeated_blocks.find(ops, {op: tuple(op._inputs) for op in ops}, {}, frozenset())
    sums = [unit for unit in units if isinstance(unit, Sum)]
    assert [len(one.terms) for one in sums] == [steps, steps]
    first, second, told = run_in_both_tiers(build)
    assert_same(first, second)
    assert "each are one loop" in told


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_layers_with_variables_of_their_own_are_no_loop(first, resource):
    def variable(i):
        start = tf.random_normal_initializer(seed=i, stddev=0.3)
        return tf.get_variable(f"w{i}", [5, 5], initializer=start, use_resource=resource)

    def build():
        h = tf.ones([2, 5])
        made = [variable(i) for i in range(40)] if first else None
        read = [w.read_value() for w in made] if first else None
        for i in range(40):
            h = tf.tanh(tf.matmul(h, read[i] if first else variable(i))) * 2.0 - 0.1
        return [h]

    first, second, told = run_in_both_tiers(build)
    assert_same(first, second)
    assert "one loop" not in told


def test_a_check_that_fails_in_a_block_is_told_of_the_op():
    """Ops that may fail are traced one by one, and the error names the one that did."""
    with tf.Graph().as_default():
        table = tf.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
        ids = tf.placeholder(tf.int32, [30])
        h = tf.zeros([3])
        for i in range(30):
            with tf.name_scope(f"step{i}"):
                h = tf.tanh(h * 0.5 + tf.gather(table, ids[i])) + tf.sin(h)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            given = np.full(30, 2, np.int32)
            expected = np.zeros(3, np.float32)
            for _ in range(30):
                expected = np.tanh(expected * np.float32(0.5) + np.arange(6, 9, dtype=np.float32)) + np.sin(expected)
            np.testing.assert_allclose(session.run(h, {ids: given}), expected, 1e-5)
            given[17] = 4
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices = 4 is not in \[0, 4\)") as caught:
                session.run(h, {ids: given})
            assert caught.value.op.name.startswith("step17/")


def test_what_random_ops_draw_are_rows():
    def build():
        cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(6), output_keep_prob=0.5, seed=3)
        outputs, _ = tf.nn.static_rnn(cell, tf.unstack(tf.ones([20, 2, 4])), dtype=tf.float32)
        return outputs

    first, second, told = run_in_both_tiers(build, steps=2)
    assert_same(first, second)
    assert np.count_nonzero(first[0][3] == 0) > 0
    assert "blocks of" in told


def test_a_block_that_differs_ends_a_loop():
    def build():
        x, h = tf.constant([0.3, -0.2]), tf.zeros([2])
        kept = []
        for i in range(60):
            h = tf.sin(h * 0.9 + x) + tf.tanh(h) * (0.5 if i != 29 else 0.25)
            kept.append(h)
        return [kept[0], kept[29], kept[30], kept[59]]

    first, second, told = run_in_both_tiers(build)
    assert_same(first, second)
    assert sum("each are one loop" in line for line in told.splitlines()) >= 1


@pytest.fixture(scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LEAST_SAVED", 6), ("LEAST_OPS", 2), ("LEAST_BLOCKS", 3), ("LEAST_TERMS", 3)):
            patch.setattr(repeated_blocks, name, value)
        patch.setattr(rolled_blocks, "LEAST_TERMS", 3)
        yield


UNARY = (tf.tanh, tf.sin, tf.negative, lambda x: tf.reshape(x, [6]), lambda x: tf.concat([x[3:], x[:3]], 0))
BINARY = (tf.add, tf.subtract, tf.multiply, tf.maximum, lambda x, y: tf.where(x > y, x, y * 0.5))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random_repetitions_give_what_the_ops_give_one_by_one(small, data):
    """A random block, repeated, with some blocks changed, rows from outside, and anything fetched."""
    carried = data.draw(st.integers(1, 3))
    plan = data.draw(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 99)), min_size=2, max_size=7)
    )
    count = data.draw(st.integers(3, 8))
    odd = data.draw(st.sets(st.integers(0, count - 1), max_size=2))
    taken = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, 99)), min_size=1, max_size=5))
    follow = data.draw(st.lists(st.integers(0, 99), min_size=carried, max_size=carried))
    lag = data.draw(st.booleans())
    grad = data.draw(st.booleans())
    numbers = np.random.default_rng(5)
    rows_given = numbers.normal(size=(count, 6)).astype(np.float32)
    starts = numbers.normal(size=(carried, 6)).astype(np.float32)

    def build():
        rows = tf.split(tf.constant(rows_given), count)
        shared = tf.constant(numbers_shared)
        state = [tf.constant(start) for start in starts]
        everything, before = [], state
        for t in range(count):
            values = [*state, tf.squeeze(rows[t], [0]), shared, *(before[:1] if lag else ())]
            for kind, a, b in plan:
                x, y = values[a % len(values)], values[b % len(values)]
                values.append(UNARY[kind](x) if kind < 5 else BINARY[kind - 5](x, y))
            if t in odd:
                values.append(values[-1] * 0.75)
            before = state
            state = [tf.clip_by_value(values[-1 - i % len(values)], -2.0, 2.0) for i in follow]
            everything.append(values)
        fetched = [everything[t][i % len(everything[t])] for t, i in taken]
        if grad:
            slopes = tf.gradients(tf.add_n([tf.reduce_sum(x) for x in state]), [shared, *rows[:1]])
            fetched += [slope for slope in slopes if slope is not None]
        return [*fetched, *state]

    numbers_shared = numbers.normal(size=6).astype(np.float32)
    first, second, _ = run_in_both_tiers(build)
    assert_same(first, second)


def test_rows_are_found_whatever_their_order():
    values = rolled_blocks.Values()
    array = np.arange(12.0).reshape(6, 2)
    keys = [object() for _ in range(6)]
    with tf.Graph().as_default():
        values.keep(keys, jnp.asarray(array, jnp.float32))
        other = object()
        values[other] = np.array([9.0, 9.0], np.float32)
        for order in ([0, 1, 2], [5, 4, 3, 2], [1, 0, 2, 3, 5], [3]):
            np.testing.assert_array_equal(values.stacked([keys[i] for i in order]), array[order])
        found = values.stacked([other, keys[4], keys[3], keys[0], other])
        np.testing.assert_array_equal(found, [[9, 9], *array[[4, 3, 0]], [9, 9]])
        assert values.line([keys[3], keys[2]])[1:] == (3, -1)
        assert values.line([keys[3], keys[1]]) is None
