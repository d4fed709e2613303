"""The short way of a step, and how programs on the CPU are called: what changes between two steps is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture
def session():
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as found:
        yield found


@pytest.fixture
def planned(session, monkeypatch):
    """How often a plan was looked for."""
    calls = []
    real = session._plan

    def plan(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(session, "_plan", plan)
    return calls


def ones(*shape):
    return np.ones(shape, np.float32)


def test_a_step_like_the_last_one_needs_no_plan(session, planned):
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [])
    v = tf.Variable(2.0)
    session.run(v.initializer)
    add, out = v.assign_add(1.0), x * y + 0.0
    feeds = {x: ones(3), y: np.array(4, np.float32)}
    for _ in range(2):
        assert session.run([out, add.op], feeds)[0].tolist() == [4, 4, 4]
    del planned[:]
    for _ in range(3):
        found, none = session.run([out, add.op], feeds)
        assert (found.tolist(), none, found.flags.writeable) == ([4, 4, 4], None, True)
    assert not planned
    assert session.run(v) == 7.0
    for changed in (
        {y: np.array(4, np.float32), x: ones(3)},
        {x: ones(2), y: np.array(4, np.float32)},
        {x: np.ones(3), y: np.array(4, np.float32)},
        {x: [1.0, 1.0, 1.0], y: 4.0},
    ):
        del planned[:]
        assert set(session.run([out, add.op], changed)[0].tolist()) == {4.0}
        assert planned
    with pytest.raises(ValueError, match=r"shape \(1, 3\)"):
        session.run([out, add.op], {x: ones(1, 3), y: np.array(4, np.float32)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must feed a value"):
        session.run([out, add.op], {x: ones(3)})
    assert session.run(v) == 11.0


def test_callables_need_no_plan_either(session, planned):
    x = tf.placeholder(tf.float32, [None])
    call = session.make_callable([x + 1.0], [x])
    for _ in range(3):
        call(ones(2))
    del planned[:]
    assert call(ones(2))[0].tolist() == [2, 2]
    assert call([1, 1])[0].tolist() == [2, 2]
    assert not planned
    assert call(ones(3))[0].tolist() == [2, 2, 2]
    assert planned


def test_what_a_graph_learns_later_holds(session):
    x = tf.placeholder(tf.float32)
    out = x + 1.0
    for _ in range(3):
        session.run(out, {x: ones(2)})
    x.set_shape([3])
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        session.run(out, {x: ones(2)})
    for _ in range(3):
        session.run(out, {x: ones(3)})
    session.graph.prevent_feeding(x)
    with pytest.raises(ValueError, match="may not be fed"):
        session.run(out, {x: ones(3)})


def test_variables_that_change_their_shape_or_vanish(session):
    v = tf.Variable(ones(2), validate_shape=False)
    longer = tf.assign(v, ones(3), validate_shape=False)
    total = tf.reduce_sum(v) + 0.0
    session.run(v.initializer)
    for _ in range(3):
        assert session.run(total) == 2
    session.run(longer.op)
    assert session.run(total) == 3
    tf.Session.reset("")
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run(total)


def test_a_closed_session_runs_nothing(session):
    out = tf.constant(1.0) + 1.0
    call = session.make_callable(out)
    for _ in range(3):
        session.run(out)
        call()
    session.close()
    for run in (call, lambda: session.run(out)):
        with pytest.raises(RuntimeError, match="closed Session"):
            run()


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.complex128, np.uint64])
def test_values_of_64_bits_stay_what_they_are(session, dtype):
    large = np.array([2**53 - 9, 5], dtype)
    x, v = tf.placeholder(tf.as_dtype(dtype), [2]), tf.Variable(large)
    session.run(v.initializer)
    both = [x + v, v.assign(v + x)]
    for i in range(1, 4):
        found = session.run(both, {x: np.array([1, 1], dtype)})
        assert [value.dtype for value in found] == [dtype, dtype]
        assert found[1].tolist() == [2**53 - 9 + i, 5 + i]


_SCRIPT = """
    import anabranch as tf
    import numpy as np
    session = tf.Session(config=tf.SessionOptions(tier="compiled"))
    x = tf.placeholder(tf.float32, [2])
    {before}
    session.run(x + 1.0, {{x: np.ones(2)}})
    import jax
    assert jax.config.values["jax_cpu_enable_async_dispatch"] is True
    program = jax.jit(lambda a: a @ a @ a @ a @ a)
    a = jax.numpy.ones((700, 700))
    program(a).block_until_ready()
    print(program(a).is_ready())
"""


@pytest.mark.parametrize(
    ("before", "variables", "at_once"),
    [
        ("", {}, True),
        ("", {"ANABRANCH_CPU_DISPATCH": "threads"}, False),
        ("session.make_callable(x + 2.0, [x], asynchronous=True)", {}, False),
        ("import jax", {}, False),
    ],
)
def test_programs_on_the_cpu_run_in_the_thread_that_calls_them(before, variables, at_once):
    script = textwrap.dedent(_SCRIPT).format(before=before)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **variables}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, timeout=100
    )
    assert (found.returncode, found.stdout.strip()) == (0, str(at_once)), found.stderr


def test_ways_that_there_are_not():
    environment = {**os.environ, "ANABRANCH_CPU_DISPATCH": "fast"}
    script = "import anabranch as tf; tf.Session(config=tf.SessionOptions(tier='compiled')).run(tf.constant(1.0) + 1)"
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100)
    assert "ValueError: Given: ANABRANCH_CPU_DISPATCH='fast'" in found.stderr
