"""Steps over arrays whose shapes the graph does not tell are one program, as all that follows from shapes is known."""

from __future__ import annotations

import re

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build as build_op
from anabranch.runtime.plans import policy


def host_ops(session, fetches, feeds):
    """Types of the ops that run on the host."""
    lines = session.explain(fetches, feeds).splitlines()
    return sorted(line.rpartition("(")[2].rstrip(")") for line in lines if line.strip().startswith("host "))


def values(build, feeds, steps=1):
    """What the last of some steps gives in each tier, and the ops that the compiled step left to the host."""
    found = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            fetches, placeholders = build()
            fed = dict(zip(placeholders, feeds, strict=True))
            with tf.Session(config=tf.SessionOptions(tier=tier, seed=3)) as s:
                if tf.global_variables():
                    s.run(tf.global_variables_initializer())
                for _ in range(steps):
                    result = s.run(fetches, fed)
                found.append(result)
                left = host_ops(s, fetches, fed)
    for plain, compiled in zip(*found, strict=True):
        if plain is not None:
            np.testing.assert_allclose(plain, compiled, rtol=2e-5, atol=1e-6)
    return found[1], left


def random(*shape):
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32)


def test_the_axes_of_a_gradient_with_unknown_shapes():
    def build():
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        w, b = tf.Variable(np.ones((3, 2), np.float32)), tf.Variable(np.zeros(2, np.float32))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        return [tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss], [x, y]

    result, left = values(build, [random(5, 3), random(5, 2)], steps=3)
    assert not left
    assert result[1] < 5


def test_axes_that_are_fetched():
    def build():
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        axes = build_op("BroadcastGradientArgs", tf.shape(x), tf.shape(y))
        return [axes[0], axes[1], tf.reduce_sum(x) * 2], [x, y]

    result, left = values(build, [random(1, 3), random(4, 1)])
    assert not left
    assert [result[0].tolist(), result[1].tolist()] == [[0], [1]]


def test_axes_that_follow_from_a_fed_shape_run_on_the_host():
    def build():
        x, shape = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
        return [build_op("BroadcastGradientArgs", tf.shape(x), shape)[1], tf.reduce_sum(x) * 2], [x, shape]

    result, left = values(build, [random(4, 3), np.array([1, 3], np.int32)])
    assert left == ["BroadcastGradientArgs"]
    assert result[0].tolist() == [0]


def test_shapes_that_do_not_fit_are_told_as_the_interpreter_tells_them():
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as s:
            x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
            axes = build_op("BroadcastGradientArgs", tf.shape(x), tf.shape(y))
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs\. \[3\]"):
                s.run(axes[0], {x: random(2), y: random(3)})


@pytest.mark.parametrize("static", [False, True])
def test_second_order_gradients_through_map_fn(static):
    def build():
        x = tf.placeholder(tf.float32, [4, 6, 1] if static else None)
        y = tf.placeholder(tf.float32, [4, 6, 1] if static else None)
        w = [
            tf.Variable(np.linspace(-1, 1, 8).astype(np.float32).reshape(1, 8)),
            tf.Variable(np.full(8, 0.1, np.float32)),
            tf.Variable(np.linspace(1, -1, 8).astype(np.float32).reshape(8, 1)),
        ]

        def loss(parts, inputs, labels):
            out = tf.matmul(tf.nn.relu(tf.matmul(inputs, parts[0]) + parts[1]), parts[2])
            return tf.reduce_mean(tf.square(tf.reshape(out, [-1]) - tf.reshape(labels, [-1])))

        def task(item):
            inner = tf.gradients(loss(w, *item), w)
            return loss([part - 0.1 * grad for part, grad in zip(w, inner, strict=True)], *item)

        total = tf.reduce_sum(tf.map_fn(task, (x, y), dtype=tf.float32))
        grads = tf.gradients(total, w)
        return [total, *grads, tf.train.AdamOptimizer(0.01).minimize(total)], [x, y]

    result, left = values(build, [random(4, 6, 1), random(4, 6, 1)], steps=2)
    assert not left
    assert all(np.abs(grad).sum() > 0 for grad in result[1:4])


def test_what_changes_between_iterations_is_not_taken_for_a_shape():
    """A list to which each iteration pushes another integer, whose popped elements are an input known before."""

    def build():
        x = tf.placeholder(tf.float32)

        def body(i, total):
            return i + 1, total + tf.reduce_sum(tf.reshape(x, tf.stack([i + 1, -1]))[0])

        total = tf.while_loop(lambda i, total: i < 2, body, [0, 0.0])[1]
        return [total, tf.gradients(total, x)[0]], [x]

    x = random(2, 3)
    result, _ = values(build, [x])
    np.testing.assert_allclose(result[0], x.sum() + x[0].sum(), rtol=1e-5)
    np.testing.assert_allclose(result[1], [[2, 2, 2], [1, 1, 1]])


def test_shapes_kept_by_an_inner_loop_and_by_one_branch():
    def build():
        x, many = tf.placeholder(tf.float32), tf.placeholder(tf.bool)
        w = tf.Variable(np.ones((3,), np.float32))

        def inner(y):
            return tf.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, tf.tanh(z * w + 0.1)), [0, y])[1]

        def step(i, y):
            return i + 1, tf.cond(many, lambda: inner(y) * tf.reduce_sum(w), lambda: y + w)

        out = tf.while_loop(lambda i, y: i < 3, step, [0, x])[1]
        return [tf.reduce_sum(out), *tf.gradients(out, [x, w])], [x, many]

    for many in (True, False):
        result, left = values(build, [random(2, 3), np.array(many)])
        assert left == ["While"]  # a list of what one of two branches keeps for its gradient is no part of a program
        assert result[2].shape == (3,)


def test_what_one_plan_spent_on_a_body_counts_for_others():
    x = tf.placeholder(tf.float32, [])
    out = tf.while_loop(lambda i, y: i < 40, lambda i, y: (i + 1, tf.tanh(y * 1.5) + 0.1), [0, x])[1]
    other = out + 1.0
    with tf.Session(config=tf.SessionOptions(seed=1)) as s:
        runs = 0
        while "tier: compiled" not in s.explain(out, {x: 0.5}):
            s.run(out, {x: 0.5})
            runs += 1
            assert runs < 512
        assert runs > 3
        s.run(other, {x: 0.5})
        again = 1
        while "tier: compiled" not in s.explain(other, {x: 0.5}):
            s.run(other, {x: 0.5})
            again += 1
        assert again < runs / 2


def test_the_cost_of_a_step_whose_shapes_come_several_at_once():
    """`ShapeN` gives one known value per output; each belongs to its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, None, None, 2])
        kernel = tf.placeholder(tf.float32, [3, 3, 2, 4])
        grad = tf.placeholder(tf.float32, [None, None, None, 4])
        sizes = tf.shape_n([x, kernel])
        options = {"strides": [1, 1, 1, 1], "padding": "SAME"}
        dx = build_op("Conv2DBackpropInput", sizes[0], kernel, grad, **options)
        dk = build_op("Conv2DBackpropFilter", x, sizes[1], grad, **options)
        fed = {x: np.ones([2, 6, 5, 2]), kernel: np.ones([3, 3, 2, 4]), grad: np.ones([2, 6, 5, 4])}
        found = session.run([dx, dk], fed)
        assert [value.shape for value in found] == [(2, 6, 5, 2), (3, 3, 2, 4)]
        assert found[0][0, 2, 2, 0] == 9 * 4
        assert found[1][1, 1, 0, 0] == 2 * 6 * 5


def test_what_convolutions_are_taken_to_cost_with_and_without_a_library(monkeypatch):
    """By it they are one call when compiled, and a step takes less time until then; float64 is not its."""
    costs = {}
    for there in ("a test does without", object()):
        monkeypatch.setattr(policy.library, "found", lambda there=there: there)
        for dtype in (tf.float32, tf.float64):
            with tf.Graph().as_default(), tf.Session() as session:
                images, kernel = tf.zeros([8, 32, 32, 16], dtype), tf.ones([3, 3, 16, 32], dtype)
                told = session.explain(tf.reduce_sum(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME")))
                numbers = re.search(r"interpreted run ([\d.]+) ms.*compilation ([\d.]+) ms", told)
                costs[isinstance(there, str), dtype] = tuple(map(float, numbers.groups()))
    assert costs[True, tf.float64] == costs[False, tf.float64] == costs[True, tf.float32]
    assert costs[False, tf.float32][0] < costs[True, tf.float32][0] * 0.8
    assert costs[False, tf.float32][1] < costs[True, tf.float32][1] - 50


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_that_a_program_must_know(use_resource):
    with tf.Graph().as_default():
        n = tf.get_variable("n", initializer=3, trainable=False, use_resource=use_resource)
        start = tf.get_variable("start", initializer=1, trainable=False, use_resource=use_resource)
        rows = tf.get_variable("rows", initializer=np.zeros([8], np.float32), use_resource=use_resource)
        first = tf.range(start, start + n) * 2
        with tf.control_dependencies([first]):
            grown = tf.assign_add(n, 2)
        with tf.control_dependencies([grown]):
            second = tf.one_hot(tf.range(tf.identity(n)), n + 0)
            written = tf.scatter_add(rows, tf.range(start, start + n), tf.fill([n + 0], 1.0))
        branch = tf.cond(start > 0, lambda: tf.reduce_max(tf.range(1, start + 5)), lambda: 0)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            a, b, c, d, _ = session.run([first, second, branch, grown, written])
            assert (a.tolist(), b.tolist(), c, d) == ([2, 4, 6], np.eye(5).tolist(), 5, 5)
            assert session.run([rows, n])[0].tolist() == [0, 1, 1, 1, 1, 1, 0, 0]
            a, b, _ = session.run([first, second, written])
            assert (a.tolist(), b.tolist()) == ([2, 4, 6, 8, 10], np.eye(7).tolist())
            assert session.run(rows).tolist() == [0, 2, 2, 2, 2, 2, 1, 1]


def test_a_ring_of_rows_that_starts_where_a_variable_says():
    with tf.Graph().as_default():
        ring = tf.get_variable("ring", initializer=np.zeros([5], np.float32), trainable=False, use_resource=False)
        index = tf.get_variable("index", initializer=0, trainable=False, use_resource=False)
        fed = tf.placeholder(tf.float32, [None])
        count = tf.shape(fed)[0]
        places = tf.range(index, index + count) % 5
        stored = tf.scatter_update(ring, places, fed)
        with tf.control_dependencies([stored]):
            moved = tf.assign(index, (index + count) % 5)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            for values in ([1, 2], [3, 4, 5], [6], [7, 8, 9]):
                session.run(moved, {fed: values})
            assert session.run([ring, index])[0].tolist() == [6, 7, 8, 9, 5]
            assert session.run(index) == 4


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_branch_that_must_know_a_value_and_reads_a_variable(use_resource):
    with tf.Graph().as_default():
        rows = tf.get_variable("rows", initializer=np.arange(6, dtype=np.float32), use_resource=use_resource)
        count = tf.placeholder(tf.int32, [])
        size = tf.cast(tf.reduce_sum(rows[:3]), tf.int32) * (count - 2)  # which the program itself would compute
        taken = tf.cond(count > 0, lambda: tf.reduce_sum(tf.gather(rows, tf.range(size))), lambda: -1.0)
        looped = tf.while_loop(
            lambda i, total: i < 2, lambda i, total: (i + 1, total + tf.reduce_sum(rows[: size - 1])), [0, 0.0]
        )[1]
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            assert session.run([taken, looped], {count: 3}) == [3.0, 2.0]
            assert session.run([taken, looped], {count: 4}) == [15.0, 20.0]
