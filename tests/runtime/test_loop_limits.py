"""Loops of compiled programs can be stopped: by a deadline, and at every depth; what cannot last pays nothing."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import step_threads
from anabranch.xla.loops import loop_limits
from tests.running_steps import until

ENDLESS = 2_000_000_000
"""Iterations that take longer than anybody waits."""


@pytest.fixture
def compiled():
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        yield session


@pytest.fixture
def n():
    return tf.placeholder(tf.int32, [], name="n")


def counted(n, update, start):
    """``start``, updated ``n`` times."""
    return tf.while_loop(lambda i, value: i < n, lambda i, value: (i + 1, update(value)), (0, start))[1]


def grown(value):
    return value * 1.0000001 + 1e-9


def budgets(session):
    """For each compiled program of the session's steps, how often its loops may run in a caller's thread."""
    return [
        executable.facts.budget
        for plan, _ in session._worker._plans.values()
        for segment in plan.segments
        for item in segment.items
        if hasattr(item, "program")
        for executable in item.program._variants.values()
    ]


def check(session, fetch, n, late, v):
    """With few iterations the step is done; with endless ones it is stopped at the deadline and has changed nothing."""
    session.run(v.initializer)
    session.run(fetch, {n: 3})
    before = session.run(v)
    assert not np.array_equal(before, np.zeros_like(before))
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        session.run(fetch, {n: late}, options=tf.RunOptions(timeout_in_ms=400))
    np.testing.assert_array_equal(session.run(v), before)
    session.run(fetch, {n: 3})
    assert not np.array_equal(session.run(v), before)


def test_a_loop_of_numbers(session, n):
    v = tf.Variable(0.0, name="v")
    check(session, v.assign_add(counted(n, grown, v + 1.0)).op, n, ENDLESS, v)


def test_a_loop_of_arrays(session, n):
    v = tf.Variable(np.zeros(1000, np.float32), name="v")
    check(session, v.assign_add(counted(n, lambda x: tf.tanh(grown(x)), v + 1.0)).op, n, ENDLESS, v)


def test_a_loop_of_products(session, n):
    v = tf.Variable(np.zeros((64, 64), np.float32), name="v")
    check(session, v.assign_add(counted(n, lambda x: tf.matmul(x, x) * 0.01, v + 1.0)).op, n, ENDLESS, v)


def test_a_loop_whose_condition_is_computed(session, n):
    v = tf.Variable(0.0, name="v")
    loop = tf.while_loop(
        lambda i, x: tf.logical_and(x < 1e30, tf.cast(i, tf.float32) < tf.cast(n, tf.float32)),
        lambda i, x: (i + 1, grown(x)),
        (0, v + 1.0),
    )
    check(session, v.assign_add(loop[1]).op, n, ENDLESS, v)


def test_a_loop_inside_of_one(session, n):
    v = tf.Variable(0.0, name="v")
    outer = counted(tf.constant(3), lambda x: counted(n, grown, x), v + 1.0)
    check(session, v.assign_add(outer).op, n, ENDLESS, v)


def test_a_loop_around_one(session, n):
    v = tf.Variable(0.0, name="v")
    outer = counted(n, lambda x: counted(tf.constant(3), grown, x), v + 1.0)
    check(session, v.assign_add(outer).op, n, ENDLESS, v)


def test_a_loop_in_a_branch(session, n):
    v = tf.Variable(0.0, name="v")
    chosen = tf.cond(n > 2, lambda: counted(n, grown, v + 1.0), lambda: v + 2.0)
    check(session, v.assign_add(chosen).op, n, ENDLESS, v)


def test_a_loop_with_checks_and_writes(session, n):
    v = tf.Variable(0.0, name="v")

    def body(i):
        with tf.control_dependencies([tf.Assert(i >= 0, [i]), v.assign_add(1.0)]):
            return i + 1

    step = tf.while_loop(lambda i: i < n, body, [0])
    check(session, step, n, ENDLESS, v)


def test_the_gradient_of_a_loop(session, n):
    v = tf.Variable(0.0, name="v")
    x = tf.constant(1.5)
    y = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.sin(x)), (0, x + v), maximum_iterations=40_000_000)[1]
    (slope,) = tf.gradients(y, x)
    # (A list of so many numbers has no room in a program, which then is one for each iteration.)
    check(session, v.assign_add(tf.abs(slope) + 1.0).op, n, 30_000_000, v)


def test_a_loop_that_draws_random_numbers_takes_back_what_it_drew(compiled, n):
    v = tf.Variable(0.0, name="v")
    step = v.assign_add(counted(n, lambda x: x + tf.random_uniform([], seed=7), 1.0))
    compiled.run(v.initializer)
    plain = [float(compiled.run(step, {n: 2})) for _ in range(2)]
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as other:
        other.run(v.initializer)
        found = [float(other.run(step, {n: 2}))]
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            other.run(step, {n: ENDLESS}, options=tf.RunOptions(timeout_in_ms=300))
        found.append(float(other.run(step, {n: 2})))
    assert found == plain


def test_loops_that_cannot_last_have_no_limit(compiled):
    x = tf.placeholder(tf.float32, [8])
    compiled.run(counted(tf.constant(20), grown, x), {x: np.ones(8)})
    assert budgets(compiled) == [None]


def test_loops_without_a_bound_and_long_ones_have_one(compiled, n):
    x = tf.placeholder(tf.float32, [8])
    compiled.run(counted(n, grown, x), {x: np.ones(8), n: 5})
    assert budgets(compiled)[0] > 1000
    large = tf.placeholder(tf.float32, [512, 512])
    long = counted(tf.constant(2000), lambda a: tf.matmul(a, a), large)
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        compiled.run(long, {large: np.zeros((512, 512))}, options=tf.RunOptions(timeout_in_ms=1000))
    until(lambda: not step_threads._running)  # it may still compile
    assert 1 <= budgets(compiled)[1] < 1000


def test_a_limit_is_the_memory_that_the_program_reads():
    limit = loop_limits._Numbers(5)
    assert limit.array.unsafe_buffer_pointer() == limit.numbers.ctypes.data
    limit.stop()
    assert int(np.asarray(limit.array)[3]) == loop_limits.NONE


def test_the_price_of_an_iteration_counts_products_and_inner_loops():
    import jax
    import jax.numpy as jnp

    def priced(function, *arguments):
        return loop_limits.price(jax.make_jaxpr(function)(*arguments).jaxpr)

    a = jnp.zeros((100, 200)), jnp.zeros((200, 300))
    assert priced(jnp.dot, *a) == pytest.approx(
        loop_limits.PER_EQUATION + 30_000 * loop_limits.PER_ELEMENT + 12e6 * loop_limits.PER_FLOP, rel=0.01
    )
    once = priced(lambda x: x * 2.0, jnp.zeros(50))
    many = priced(lambda x: jax.lax.scan(lambda c, _: (c * 2.0, None), x, None, length=10)[0], jnp.zeros(50))
    assert 10 * once < many < 12 * once
