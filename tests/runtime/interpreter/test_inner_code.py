"""Conditionals, loops and draws inside bodies that are straight code: what the interpreter gives op by op."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.interpreter import inner_code, straight_line, turns
from anabranch.runtime.plans import policy


@pytest.fixture
def inner_runs(monkeypatch):
    """How often a conditional or loop ran inside straight code."""
    runs = []
    call = inner_code.InnerCode.__call__

    def counted(self, turn, *values):
        runs.append(self._op.role)
        return call(self, turn, *values)

    monkeypatch.setattr(inner_code.InnerCode, "__call__", counted)
    return runs


def _op_by_op(monkeypatch):
    monkeypatch.setattr(straight_line, "of", lambda plan, bodies: None)


def _interpreted():
    return tf.Session(config=tf.SessionOptions(tier="interpreted"))


def _decoder():
    """A loop that takes a word or its own by a conditional inside a conditional, trained over any number of rows."""
    x = tf.placeholder(tf.float32, [None, None, 3])
    coin = tf.placeholder(tf.float32, [None])
    kernel = tf.get_variable("kernel", initializer=np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3))
    rows = tf.shape(x)[1]

    def body(t, h, array):
        def own():
            return tf.tanh(tf.matmul(tf.concat([h, h], 1), kernel))

        given = tf.cond(
            coin[t] < 0.3,
            lambda: tf.zeros([rows, 3]),
            lambda: tf.cond(coin[t] < 0.6, own, lambda: tf.sin(x[t] * h)),
        )
        h = tf.tanh(tf.matmul(tf.concat([x[t], given], 1), kernel))
        return t + 1, h, array.write(t, given)

    shapes = [tf.TensorShape([]), tf.TensorShape([None, 3]), tf.TensorShape(None)]
    length = tf.shape(x)[0]
    first = [0, tf.zeros([rows, 3]), tf.TensorArray(tf.float32, length, infer_shape=False)]
    _, h, array = tf.while_loop(lambda t, *_: t < length, body, first, shape_invariants=shapes)
    loss = tf.reduce_sum(tf.square(h)) + tf.reduce_mean(array.stack())
    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)

    def feeds(step):
        random = np.random.RandomState(step)
        size = (random.randint(2, 7), random.randint(1, 6), 3)
        return {x: random.randn(*size), coin: random.rand(size[0])}

    return [loss, step], feeds


def _search():
    """A loop with a search inside whose rounds the data decide, and a conditional in that; drawn noise in both."""
    x = tf.placeholder(tf.float32, [None, 2])
    scale = tf.get_variable("scale", initializer=np.float32([0.5, 0.25]))

    def inner(k, y):
        y = tf.cond(tf.reduce_sum(y) > 1.0, lambda: y * scale, lambda: y + tf.random_uniform(tf.shape(y)))
        return k + 1, y

    def outer(t, h, total):
        def going(k, y):
            return tf.logical_and(k < 9, tf.reduce_max(tf.abs(y)) > 0.4)

        shapes = [tf.TensorShape([]), tf.TensorShape([None, 2])]
        k, y = tf.while_loop(going, inner, [0, h + tf.random_normal(tf.shape(h))], shape_invariants=shapes)
        return t + 1, 0.5 * y + x, total + k

    shapes = [tf.TensorShape([]), tf.TensorShape([None, 2]), tf.TensorShape([])]
    _, h, total = tf.while_loop(lambda t, *_: t < 6, outer, [0, x, 0], shape_invariants=shapes)
    loss = tf.reduce_sum(h)
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [loss, total, step], lambda step: {x: np.random.RandomState(step).randn(1 + step % 5, 2)}


def _trained(build, steps=14):
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        fetches, feeds = build()
        with _interpreted() as session:
            session.run(tf.global_variables_initializer())
            results = [session.run(fetches, feeds(step))[:-1] for step in range(steps)]
            return results, session.run(tf.trainable_variables())


@pytest.mark.parametrize("build", [_decoder, _search])
def test_a_loop_with_bodies_inside_trains_as_it_does_op_by_op(build, monkeypatch, inner_runs):
    results, variables = _trained(build)
    assert len(inner_runs) > 100
    _op_by_op(monkeypatch)
    del inner_runs[:]
    expected, plain = _trained(build)
    assert not inner_runs
    assert results == expected
    for one, other in zip(variables, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_failure_inside_leaves_variables_and_streams_as_they_were(inner_runs):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        limit = tf.placeholder(tf.float32, [])
        drawn = tf.get_variable("drawn", initializer=0.0)

        def body(t, total):
            with tf.control_dependencies([tf.assert_less(total, limit, message="too much was drawn")]):
                return t + 1, total + tf.cond(t > 1, lambda: tf.random_uniform([]), lambda: tf.constant(0.5))

        total = tf.while_loop(lambda t, _: t < 9, body, [0, 0.0])[1]
        update = tf.assign_add(drawn, total)
        with _interpreted() as session:
            session.run(drawn.initializer)
            first = [session.run(update, {limit: 100.0}) for _ in range(6)]
            with pytest.raises(tf.errors.InvalidArgumentError, match="too much was drawn"):
                session.run(update, {limit: 0.75})
            first += [session.run(update, {limit: 100.0}) for _ in range(3)]
        with _interpreted() as session:
            session.run(drawn.initializer)
            assert [session.run(update, {limit: 100.0}) for _ in range(9)] == first
    assert inner_runs


def test_an_endless_loop_inside_ends_when_the_step_does(inner_runs):
    with tf.Graph().as_default():
        wait = tf.placeholder(tf.bool, [])

        def inner(k):
            return tf.while_loop(lambda k: tf.logical_or(wait, k < 3), lambda k: k + 1, [k])

        result = tf.while_loop(lambda t, _: t < 5, lambda t, k: (t + 1, inner(k * 0)), [0, 0])[1]
        with _interpreted() as session:
            assert [session.run(result, {wait: False}) for _ in range(4)] == [3] * 4
            assert inner_runs
            with pytest.raises(tf.errors.DeadlineExceededError, match="ms"):
                session.run(result, {wait: True}, options=tf.RunOptions(timeout_in_ms=300))
            assert session.run(result, {wait: False}) == 3


def test_a_long_loop_inside_is_left_to_the_executor(monkeypatch):
    left = []
    run = straight_line.Straight.run

    def noted(self, values, turn=None, recurring=True):
        try:
            return run(self, values, turn, recurring)
        except turns.TooLong:
            left.append(self)
            raise

    monkeypatch.setattr(straight_line.Straight, "run", noted)
    monkeypatch.setattr(policy, "COMPILE_BASE", 0.0)
    with tf.Graph().as_default():
        rounds = tf.placeholder(tf.int32, [])
        x = np.linspace(-1, 1, 40_000, dtype=np.float32).reshape(200, 200)

        def outer(t, y):
            y = tf.while_loop(lambda k, _: k < rounds, lambda k, y: (k + 1, tf.tanh(tf.matmul(y, x))), [0, y])[1]
            return t + 1, y / 2

        total = tf.reduce_sum(tf.while_loop(lambda t, _: t < 4, outer, [0, tf.constant(x)])[1])
        with tf.Session() as session:
            for _ in range(3):
                session.run(total, {rounds: 2})
            assert np.isfinite(session.run(total, {rounds: 1200}))
    assert left


def test_a_function_of_a_dataset_has_conditionals_inside(inner_runs):
    def function(x):
        return tf.cond(
            tf.reduce_sum(x) > 10, lambda: x * 2, lambda: tf.while_loop(lambda y: y[0] < 20, lambda y: y + x, [x])
        )

    with tf.Graph().as_default(), tf.Session() as session:
        elements = [np.arange(1, 2 + n % 7) for n in range(20)]
        dataset = tf.data.Dataset.from_generator(lambda: iter(elements), tf.int64, [None]).map(function)
        following = dataset.make_one_shot_iterator().get_next()
        for element in elements:
            expected = element * 2 if element.sum() > 10 else element + (20 - 1) * element
            np.testing.assert_array_equal(session.run(following), expected)
    assert inner_runs


def _places(x, i):
    """What looks elements up by their places, with places and sizes that are data."""
    rows = tf.shape(x)[0]
    best = tf.argmax(x, 1, output_type=tf.int32)
    at = tf.stack([tf.range(rows), best], 1)
    picked = tf.gather_nd(x, at)
    spread = tf.scatter_nd(at, picked, tf.shape(x)) + tf.one_hot(tf.argmin(x, 1), tf.shape(x)[1])
    chosen = tf.where(tf.equal(best % 2, tf.cast(i % 2, tf.int32)), x, spread)
    cut = chosen[:, i % 2 :] * tf.transpose(tf.transpose(x)[i % 2 :])
    return 0.5 * x + tf.reduce_sum(cut, 1, keepdims=True) * 0.01 + spread


@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf, np.finfo(np.float32).min])
def test_places_are_those_of_the_kernels(special, monkeypatch):
    def run():
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, None])
            shapes = [tf.TensorShape([]), tf.TensorShape([None, None])]
            y = tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, _places(y, i)), [0, x], shape_invariants=shapes)[
                1
            ]
            step = tf.gradients(y, x)
            with _interpreted() as session:
                results = []
                for n in range(12):
                    given = np.random.RandomState(n).randn(2 + n % 5, 3 + n % 4).astype(np.float32)
                    if special is not None and n > 3:
                        given[:, :2] = special
                    results += session.run([y, step[0]], {x: given})
                return results

    results = run()
    _op_by_op(monkeypatch)
    for one, other in zip(results, run(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_place_that_is_out_of_range_is_told_by_its_op():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        last = tf.placeholder(tf.int32, [])
        body = lambda i, y: (i + 1, y + tf.gather_nd(x, [[i, 0], [last, i]])[1])  # noqa: E731
        y = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0])[1]
        with _interpreted() as session:
            for rows in (3, 4, 5, 6, 7, 8, 9):
                assert session.run(y, {x: np.ones((rows, 3)), last: 1}) == 3
            with pytest.raises(tf.errors.InvalidArgumentError, match="does not index into"):
                session.run(y, {x: np.ones((5, 3)), last: 5})
