"""How the bodies of conditionals and loops run: state, channels, Python functions, tiers that change on the way."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values.host_list import HostList
from anabranch.runtime.interpreter import straight_line
from anabranch.session import SessionOptions

TIERS = ["interpreted", "compiled"]


def session(tier="auto"):
    return tf.Session(config=tf.SessionOptions(tier=tier, seed=1))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("resource", [False, True])
def test_a_branch_not_taken_needs_no_value(tier, resource):
    v = tf.get_variable("v", initializer=3.0, use_resource=resource)
    known = tf.is_variable_initialized(v)
    value = tf.cond(known, v.read_value, lambda: tf.constant(7.0))
    make = tf.cond(tf.is_variable_initialized(v), tf.no_op, lambda: v.initializer)
    with session(tier) as s:
        assert s.run(value) == 7
        s.run(make)
        assert s.run([value, v]) == [3, 3]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("resource", [False, True])
def test_a_failed_iteration_changes_nothing(tier, resource):
    v = tf.get_variable("v", initializer=np.zeros(4, np.float32), use_resource=resource)
    n = tf.placeholder(tf.int32, [])

    def body(i):
        with tf.control_dependencies([tf.scatter_update(v, [i], [1.0])]):
            return i + 1

    loop = tf.while_loop(lambda i: i < n, body, [0])
    with session(tier) as s:
        s.run(v.initializer)
        assert s.run(loop, {n: 2}) == 2
        np.testing.assert_array_equal(s.run(v), [1, 1, 0, 0])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"= 4 is not in \[0, 4\)"):
            s.run(loop, {n: 6})
        np.testing.assert_array_equal(s.run(v), [1, 1, 0, 0])


@pytest.mark.parametrize("tier", TIERS)
def test_the_error_is_that_of_the_iteration(tier):
    n = tf.placeholder(tf.int32, [])

    def body(i):
        with tf.control_dependencies([tf.Assert(i < 3, ["too large", i])]):
            return i + 1

    loop = tf.while_loop(lambda i: i < n, body, [0])
    with session(tier) as s, pytest.raises(tf.errors.InvalidArgumentError, match=r"\[too large\] \[3\]"):
        s.run(loop, {n: 9})


@pytest.mark.parametrize("tier", TIERS)
def test_python_functions_in_a_loop(tier):
    seen = []

    def note(x):
        seen.append(int(x))
        return np.int64(x * 2)

    def body(i, total):
        value = tf.py_func(note, [i], tf.int64)
        value.set_shape([])
        return i + 1, total + value

    loop = tf.while_loop(lambda i, _: i < 4, body, [tf.constant(0, tf.int64), tf.constant(0, tf.int64)])
    with session(tier) as s:
        assert s.run(loop)[1] == 12
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("tier", TIERS)
def test_a_queue_in_a_branch(tier):
    queue = tf.FIFOQueue(4, [tf.float32], [[]])
    fill = queue.enqueue_many([[1.0, 2.0, 3.0]])
    take = tf.placeholder(tf.bool, [])
    count = tf.Variable(0)

    def taken():
        with tf.control_dependencies([tf.assign_add(count, 1)]):
            return queue.dequeue()

    value = tf.cond(take, taken, lambda: tf.constant(-1.0))
    with session(tier) as s:
        s.run([count.initializer, fill])
        assert [s.run(value, {take: bool(t)}) for t in (1, 0, 1)] == [1, -1, 2]
        assert s.run([count, queue.size()]) == [2, 1]


def test_a_long_loop_starts_anew_compiled():
    n = tf.placeholder(tf.int32, [])
    v = tf.Variable(0)

    def body(i, x):
        with tf.control_dependencies([tf.assign_add(v, 1)]):
            return i + 1, x * 1.0001 + 1

    loop = tf.while_loop(lambda i, _: i < n, body, [0, 0.0])
    with session() as s:
        s.run(v.initializer)
        assert s.run(loop, {n: 20_000})[0] == 20_000
        assert "a loop in it ran as long as compiling takes" in s.explain(loop, {n: 20_000})
        assert s.run(v) == 20_000


@pytest.mark.parametrize("tier", TIERS)
def test_shapes_that_grow_and_differentiate(tier):
    x = tf.constant([1.0, 2.0])
    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(
        lambda i, _: i < n,
        lambda i, v: (i + 1, tf.concat([v, 2 * v], 0)),
        [0, x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    (grad,) = tf.gradients(tf.reduce_sum(y), x)
    with session(tier) as s:
        for trips in (0, 1, 3):
            made, slope = s.run([y, grad], {n: trips})
            assert made.shape == (2 ** (trips + 1),)
            np.testing.assert_allclose(slope, [3.0**trips] * 2)


@pytest.mark.parametrize("tier", TIERS)
def test_an_end_that_depends_on_data_differentiates(tier):
    x = tf.placeholder(tf.float64, [])
    y = tf.while_loop(lambda v: v < 100, lambda v: v * v, [x])
    (grad,) = tf.gradients(y, x)
    with session(tier) as s:
        for value, power in ((3.0, 8), (2.0, 8), (50.0, 2)):
            np.testing.assert_allclose(s.run([y, grad], {x: value}), [value**power, power * value ** (power - 1)])


def test_a_fed_number_of_iterations_is_one_program():
    n = tf.placeholder(tf.int32, [])
    x = tf.constant(1.5, tf.float64)
    _, y = tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, tf.sin(v) + v), [0, x])
    (grad,) = tf.gradients(y, x)
    with session("compiled") as s:
        for trips in (1, 5, 7):
            value, slope = 1.5, 1.0
            for _ in range(trips):
                value, slope = np.sin(value) + value, slope * (np.cos(value) + 1)
            np.testing.assert_allclose(s.run([y, grad], {n: trips}), [value, slope], rtol=1e-12)
        told = s.explain([y, grad], {n: 5})
    assert told.count("program ") == 1
    assert "host " not in told


@pytest.mark.parametrize("resource", [False, True])
def test_random_numbers_do_not_depend_on_the_tier(resource):
    v = tf.get_variable("v", initializer=0.0, use_resource=resource)

    def body(i, total):
        with tf.control_dependencies([tf.assign_add(v, tf.random_uniform([], seed=4))]):
            return i + 1, total + tf.random_normal([2], seed=5)

    n = tf.placeholder(tf.int32, [])
    loop = tf.while_loop(lambda i, _: i < n, body, [0, tf.zeros([2])])
    found = []
    for tier in TIERS:
        with session(tier) as s:
            s.run(v.initializer)
            found.append([s.run(loop, {n: 3})[1], s.run(loop, {n: 2})[1], s.run(v)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("tier", TIERS)
def test_a_step_without_the_backward_pass_keeps_nothing_of_a_loop(tier, monkeypatch):
    kept = []
    push = HostList.push

    def noted(self, value):
        kept.append(value)
        return push(self, value)

    monkeypatch.setattr(HostList, "push", noted)
    x = tf.placeholder(tf.float32, [4])
    w = tf.Variable(1.1)
    _, y = tf.while_loop(lambda i, _: i < 10, lambda i, v: (i + 1, tf.sin(v) * w), [0, x])
    grad = tf.gradients(y, w)
    with session(tier) as s:
        s.run(w.initializer)
        s.run(y, {x: np.ones(4)})
        assert kept == []
        s.run(grad, {x: np.ones(4)})
        assert (kept == []) == (tier == "compiled")  # where they are arrays of the program


@pytest.mark.parametrize("tier", TIERS)
def test_outputs_that_nobody_uses_are_not_computed(tier):
    called = []

    def note(value):
        called.append(value)
        return value

    def branch():
        costly = tf.py_func(note, [x], tf.float32, stateful=False)
        costly.set_shape([])
        return x * 2.0, costly

    x, count = tf.placeholder(tf.float32, []), tf.Variable(0)
    cheap, costly = tf.cond(x > 0, branch, lambda: (x, x))

    def step(i, total, other):
        with tf.control_dependencies([tf.assign_add(count, 1)]):
            made = tf.py_func(note, [other], tf.float32, stateful=False)
        made.set_shape([])
        return i + 1, total + 1.0, made

    _, total, other = tf.while_loop(lambda i, *_: i < 3, step, [0, x, x])
    with session(tier) as s:
        s.run(count.initializer)
        assert s.run([cheap, total], {x: 2.0}) == [4.0, 5.0]
        assert called == []
        assert s.run(costly, {x: 2.0}) == 2.0
        assert len(called) == 1
        assert s.run([other, total], {x: 3.0}) == [3.0, 6.0]
        assert len(called) == 4
        assert s.run(count) == 3  # an effect happens where something that is used, or somebody who waits, needs it


def test_what_a_branch_or_a_call_overflows_is_no_warning():
    x = tf.placeholder(tf.float32, [])
    branch = tf.cond(x > 0.0, lambda: x * 1e38 * 4.0, lambda: tf.log(x))
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        results = [session.run(branch, {x: value}) for value in (1.0, 2.0, 3.0, -1.0, 0.0, -2.0)]
    np.testing.assert_array_equal(results, [np.inf, np.inf, np.inf, np.nan, -np.inf, np.nan])


def test_a_branch_whose_code_does_not_serve_is_run_by_its_items(monkeypatch):
    monkeypatch.setattr(straight_line.Straight, "is_best", property(lambda self: True))
    monkeypatch.setattr(straight_line.Straight, "run", lambda self, values, turn=None, recurring=True: None)
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier="auto")) as session:
        x = tf.placeholder(tf.float32, [None])
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x[::-1], lambda: x * 2)
        for value in ([1.0, 2.0], [-1.0, -2.0]):
            found = session.run(y, {x: value})
            np.testing.assert_array_equal(found, value[::-1] if sum(value) > 0 else np.multiply(value, 2))
