"""Deadlines: a step that is late gives its caller an error on time, and changes nothing, whatever it is doing."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import step_threads
from tests.running_steps import LONG, expiring, until

LATE = 1.5 * LONG
"""Seconds that a step of these tests would take, which are not waited for."""


def within(milliseconds):
    return tf.RunOptions(timeout_in_ms=milliseconds)


def still_running():
    return [str(step) for step in step_threads._running]


@pytest.fixture
def sleeper():
    """A Python function that sleeps until the test is over, or for a long time."""
    over, sleeps = threading.Event(), threading.Event()

    def sleep(value):
        sleeps.set()
        over.wait(LATE)
        return value

    sleep.sleeps = sleeps
    yield sleep
    over.set()
    until(lambda: not still_running())


@pytest.fixture
def v(session):
    found = tf.Variable(np.full(3, 1.0, np.float32), name="v")
    session.run(found.initializer)
    return found


def products(x, count, size=1000):
    """A chain of products that takes some seconds."""
    value = tf.fill([size, size], x)
    for _ in range(count):
        value = tf.matmul(value, value) * 1e-9
    return value


def test_a_python_function_that_sleeps_is_left_at_the_deadline(session, v, sleeper):
    slept = tf.py_func(sleeper, [tf.constant(5.0)], tf.float32)
    slept.set_shape([])
    step = v.assign_add(tf.fill([3], slept))
    with expiring(session, sleeper.sleeps.is_set) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms") as caught:
            session.run(step.op, options=options)
    assert caught.value.op is slept.op
    assert still_running()
    np.testing.assert_array_equal(session.run(v), np.full(3, 1.0))
    session.run(v.assign_add(np.ones(3, np.float32)).op)
    np.testing.assert_array_equal(session.run(v), np.full(3, 2.0))


def test_what_a_late_function_returns_commits_nothing(session, v):
    waits, go, returned = threading.Event(), threading.Event(), threading.Event()

    def wait(value):
        waits.set()
        go.wait(LATE)
        returned.set()
        return value

    slept = tf.py_func(wait, [tf.constant(5.0)], tf.float32)
    slept.set_shape([])
    step = v.assign_add(tf.fill([3], slept))
    with expiring(session, waits.is_set) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            session.run(step.op, options=options)
    go.set()
    assert returned.wait(LONG)
    until(lambda: not still_running())
    np.testing.assert_array_equal(session.run(v), np.full(3, 1.0))


def test_a_stateless_python_function_is_left_too(session, sleeper):
    slept = tf.py_func(sleeper, [tf.constant(5.0)], tf.float32, stateful=False)
    with expiring(session, sleeper.sleeps.is_set) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            session.run(slept, options=options)
    assert still_running()


def test_the_timeout_of_the_session_counts_for_each_run(tier, sleeper):
    config = tf.SessionOptions(tier=tier, config=tf.ConfigProto(operation_timeout_in_ms=100_000))
    with tf.Session(config=config) as session:
        v = tf.Variable(1.0, name="v")
        session.run(v.initializer)
        add = v.assign_add(1.0).op
        slept = tf.py_func(sleeper, [tf.constant(5.0)], tf.float32)
        slept.set_shape([])
        for _ in range(3):
            session.run(add)
        call = session.make_callable(v.assign(slept).op)
        for run in (lambda: session.run(v.assign(slept).op), call):
            sleeper.sleeps.clear()
            with expiring(session, sleeper.sleeps.is_set):
                with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
                    run()
        assert session.run(v) == 4.0


def test_a_chain_of_products_is_left_at_the_deadline(session, v):
    x = tf.placeholder(tf.float32, [])
    step = v.assign_add(products(x, 40)[0, :3])
    early = session.make_callable(v.assign_add(products(x, 1, 8)[0, :3]).op, [x])
    early(0.0)
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        session.run(step.op, {x: 1.0}, options=within(1))
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        session.run(step.op, {x: 1.0}, options=within(400))
    np.testing.assert_array_equal(session.run(v), np.full(3, 1.0))
    early(0.0)
    np.testing.assert_array_equal(session.run(v), np.full(3, 1.0))


def test_a_late_program_is_left_and_its_variables_are_free_at_once(monkeypatch):
    """The program itself is late: whatever it gives is dropped, and others may write its variables meanwhile."""
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v = tf.Variable(np.full(3, 1.0, np.float32), name="v")
        session.run(v.initializer)
        add = v.assign_add(np.ones(3, np.float32)).op
        session.run(add)
        called, go = threading.Event(), threading.Event()
        real = step_threads.engine.refuse_after_fork
        late = threading.local()

        def slow():  # called when a program is about to be compiled or called
            if threading.current_thread().name == "anabranch-step" and not getattr(late, "done", False):
                late.done = True
                called.set()
                go.wait(LATE)
            return real()

        monkeypatch.setattr(step_threads.engine, "refuse_after_fork", slow)
        with expiring(session, called.is_set) as options:
            with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
                session.run(add, options=options)
        assert still_running()
        session.run(add)
        np.testing.assert_array_equal(session.run(v), np.full(3, 3.0))
        go.set()
        until(lambda: not still_running())
        np.testing.assert_array_equal(session.run(v), np.full(3, 3.0))


def test_a_step_in_time_is_as_without_a_deadline(session, v):
    x = tf.placeholder(tf.float32, [3])
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x > 0), [x])]):
        step = v.assign_add(x)
    for _ in range(3):
        session.run(step.op, {x: np.ones(3)}, options=within(60000))
    with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
        session.run(step.op, {x: -np.ones(3)}, options=within(60000))
    session.run(step.op, {x: np.ones(3)})
    np.testing.assert_array_equal(session.run(v), np.full(3, 5.0))
    total = tf.Variable(tf.zeros([]), name="total")
    session.run(total.initializer)
    noise = total.assign_add(tf.random_uniform([], seed=3))
    plain = [session.run(noise) for _ in range(4)]
    session.run(total.initializer)
    assert plain[0] != plain[1]
    assert session.run(noise, options=within(60000)) < 1.0


def test_default_graph_and_session_of_a_python_function(tier):
    """Python functions run for their callers: what surrounds these is there, whatever thread runs them."""
    seen = []
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        told = tf.py_func(lambda: seen.append((tf.get_default_graph(), tf.get_default_session())), [], [])
        session.run(told, options=within(60000))
        session.run(told)
        assert seen == [(graph, session)] * 2


def test_what_stands_is_told_when_a_step_is_left(session, v, sleeper):
    queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]])
    session.run(queue.enqueue(2.0))
    item = queue.dequeue()
    slept = tf.py_func(sleeper, [item], tf.float32)
    slept.set_shape([])
    step = v.assign_add(tf.fill([3], slept))
    with expiring(session, sleeper.sleeps.is_set) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"kept: QueueDequeueV2 .*fifo_queue"):
            session.run(step.op, options=options)
    assert session.run(queue.size()) == 0
    np.testing.assert_array_equal(session.run(v), np.full(3, 1.0))
