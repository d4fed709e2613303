"""The caches of sessions: that threads may use them all at once, that they are bounded, and what is left of them."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import worker as workers
from anabranch.runtime.interpreter import body_plans
from anabranch.runtime.plans import plan
from anabranch.runtime.v1 import plans as version_one
from anabranch.xla import background
from tests.running_steps import until_waiting

v1 = tf.control_flow_ops


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def made(monkeypatch):
    """Weak references to all plans that are made."""
    references = []

    class Watched(plan.Plan):
        def __init__(self, *args, **options):
            references.append(weakref.ref(self))
            super().__init__(*args, **options)

    class WatchedTokens(version_one.TokenPlan):
        def __init__(self, *args, **options):
            references.append(weakref.ref(self))
            super().__init__(*args, **options)

    monkeypatch.setattr(workers, "Plan", Watched)
    monkeypatch.setattr(body_plans, "Plan", Watched)
    monkeypatch.setattr(version_one, "TokenPlan", WatchedTokens)
    return references


def frame(count, x):
    """``x`` doubled ``count`` times, by a loop of version 1."""
    start = v1.enter(tf.constant(0), "loop")
    most = v1.enter(count, "loop", is_constant=True)
    value = v1.enter(x, "loop")
    merged, _ = v1.merge([start, start])
    carried, _ = v1.merge([value, value])
    going = v1.loop_cond(tf.less(merged, most))
    stops, goes = v1.switch(merged, going)
    result, turns = v1.switch(carried, going)
    merged.op._update_input(1, v1.next_iteration(goes + 1))
    carried.op._update_input(1, v1.next_iteration(turns * 2.0))
    v1.exit(stops)
    return v1.exit(result)


# -------------------------------------------------------------------------------------------------------------- threads
SECONDS = pytest.mark.parametrize("seconds", [1.5, pytest.param(6.0, marks=pytest.mark.slow)])


@SECONDS
def test_threads_use_every_cache_at_once(g, seconds):
    """Steps with changing shapes and fetches, a growing graph, explanations and ends of other sessions."""
    x, n = tf.placeholder(tf.float32, [None], name="x"), tf.placeholder(tf.int32, [])
    total = tf.reduce_sum(x)
    products = [total * float(i) for i in range(24)]
    shape_of = tf.shape(tf.nn.log_softmax([x]))
    _, looped = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y + 1.0), (0, total))
    chosen = tf.cond(total > 3.0, lambda: total * 2.0, lambda: total - 1.0)
    framed = frame(n, total)
    options = tf.SessionOptions(tier="interpreted", plan_cache_size=16)
    compiled_options = tf.SessionOptions(tier="compiled", plan_cache_size=16)
    session, compiled = tf.Session(config=options), tf.Session(config=compiled_options)
    w = tf.Variable(0.0)
    compiled.run(w.initializer)
    step = compiled.make_callable(w.assign_add(tf.reduce_sum(x)), [x], asynchronous=True)
    end = time.monotonic() + seconds
    problems, rounds = [], []

    def forever(work):
        try:
            i = 0
            while time.monotonic() < end and not problems:
                work(i)
                i += 1
            rounds.append(i)
        except BaseException as problem:
            problems.append(problem)

    def fed(i, length):
        return {x: np.ones(length, np.float32)}

    def fetches(i):
        length = 2 + i % 3
        assert session.run(products[i % 24], fed(i, length)) == length * (i % 24)
        assert session.run([products[i % 24], total], fed(i, length)) == [length * (i % 24), length]

    def lengths(i):
        length = 1 + i % 40
        assert session.run(total, fed(i, length)) == length
        np.testing.assert_array_equal(session.run(shape_of, fed(i, length)), [1, length])

    def bodies(i):
        length = 1 + i % 7
        got = session.run([looped, chosen], {**fed(i, length), n: i % 5})
        assert got == [length + i % 5, length * 2 if length > 3 else length - 1]
        assert session.run(framed, {**fed(i, length), n: i % 5}) == length * 2 ** (i % 5)

    def grows(i):
        with g.as_default():
            added = total + float(i)
        assert session.run(added, fed(i, 3)) == 3.0 + i
        added.op._set_attr("_mark", i)

    def explains(i):
        assert "plan of" in session.explain(products[i % 24], fed(i, 1 + i % 3))
        assert "plans of bodies" in session.explain_caches()

    def others(i):
        with tf.Session(graph=g, config=options) as other:
            assert other.run(total, fed(i, 2)) == 2.0
            assert "families" in other.explain_caches()

    def flies(i):
        step(np.ones(1 + i % 3, np.float32))
        assert compiled.run(total, fed(i, 1 + i % 3)) == 1 + i % 3

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        works = [fetches, lengths, bodies, grows, explains, others, flies]
        threads = [threading.Thread(target=forever, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if problems:
        raise problems[0]
    assert len(rounds) == len(works)
    step.wait()
    for one in (session, compiled):
        assert len(one._worker._plans) <= 16
        one.close()


@SECONDS
def test_plans_are_found_while_others_are_made(g, seconds):
    """Many plans, so that going over them takes long, while other threads use them."""
    x = tf.placeholder(tf.float32, [])
    known = [x + float(i) for i in range(250)]
    session = tf.Session(config=tf.SessionOptions(tier="interpreted"))
    for y in known:
        session.run(y, {x: 1.0})
    end = time.monotonic() + seconds
    problems = []

    def forever(work):
        i = 0
        try:
            while time.monotonic() < end and not problems:
                work(i)
                i += 1
        except BaseException as problem:
            problems.append(problem)

    def finds(i):
        assert session.run(known[i * 7 % 250], {x: 1.0}) == 1.0 + i * 7 % 250

    def makes(i):
        session.explain([known[i % 250], known[i * 11 % 249]], {x: 1.0})

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=forever, args=(work,)) for work in (finds, makes, finds, makes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    session.close()
    if problems:
        raise problems[0]


def test_two_threads_make_one_plan(g, made):
    x = tf.placeholder(tf.float32, [])
    y = x
    for _ in range(300):
        y = y + 1.0
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        threads = [threading.Thread(target=lambda: session.run(y, {x: 1.0})) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1


# --------------------------------------------------------------------------------------------------------------- bounds
def test_plans_of_bodies_are_bounded(g, made):
    """A loop of version 1 has a graph of its own for each plan."""
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    y = frame(n, x)
    options = tf.SessionOptions(tier="interpreted", plan_cache_size=16)
    with tf.Session(config=options) as session:
        for length in range(1, 60):
            np.testing.assert_array_equal(session.run(y, {x: np.ones(length), n: 3}), np.full(length, 8.0))
        assert len(session._worker._bodies._plans) <= 16
        gc.collect()
        alive = sum(reference() is not None for reference in made)
        assert len(made) >= 3 * 59
        assert alive <= 16 + 16


@pytest.mark.slow
def test_plans_of_bodies_are_bounded_by_the_default(g, made):
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    y = frame(n, x)
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        for length in range(1, 400):
            session.run(y, {x: np.ones(length), n: 3})
        assert len(session._worker._bodies._plans) <= 256
        assert len(session._worker._plans) <= 256


def test_a_step_does_not_drop_the_plans_of_its_own_bodies(g, made):
    x = y = tf.placeholder(tf.float32, [])
    for i in range(30):
        y = tf.cond(y > 0.0, lambda y=y, i=i: y + float(i), lambda y=y: y)
    options = tf.SessionOptions(tier="interpreted", plan_cache_size=8)
    with tf.Session(config=options) as session:
        for _ in range(3):
            assert session.run(y, {x: 1.0}) == 436.0
        assert len(made) == 1 + 30


# ------------------------------------------------------------------------------------------------------------------ end
@pytest.mark.parametrize("tier", ["auto", "interpreted", "compiled"])
def test_nothing_is_left_of_the_plans_of_a_closed_session(g, made, tier):
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    w = tf.Variable(1.0)
    y = tf.reduce_sum(x) * w
    _, looped = tf.while_loop(lambda i, _: i < n, lambda i, z: (i + 1, z + w), (0, y))
    text = tf.py_func(lambda value: value, [looped], tf.float32)
    framed = frame(n, y)
    step = w.assign_add(y)
    session = tf.Session(config=tf.SessionOptions(tier=tier))
    session.run(w.initializer)
    call = session.make_callable([y, looped], [x, n])
    flies = session.make_callable(step, [x], asynchronous=True)
    for length in (1, 2, 3, 4, 5, 6, 7, 2, 2, 2):
        fed = {x: np.ones(length, np.float32), n: 3}
        session.run([y, looped], fed)
        session.run({"both": [text, framed]}, fed)
        session.run(y, fed)
        call(np.ones(length, np.float32), 3)
        flies(np.zeros(length, np.float32))
    flies.wait()
    session.explain(looped, {x: np.ones(2), n: 3})
    assert len(made) > 10
    session.close()
    for thread in list(background._threads):  # what it was compiling
        thread.join(60)
    gc.collect()
    assert [reference() for reference in made if reference() is not None] == []
    caches = [session._fetch_plans, session._worker._plans, session._worker._families, *session._worker._bodies.caches]
    assert [len(one) for one in caches] == [0] * len(caches)
    for function, values in ((call, (np.ones(2), 3)), (flies, (np.ones(2),))):
        with pytest.raises(RuntimeError, match="closed Session"):
            function(*values)


def test_what_ends_after_the_session_leaves_nothing(g, made):
    """A step that was running is cancelled, and what it still puts is not kept."""
    queue = tf.FIFOQueue(1, tf.float32)
    waits = queue.dequeue() + 1.0
    session = tf.Session()
    problems = []

    def wait():
        try:
            session.run(waits)
        except tf.errors.CancelledError as problem:
            problems.append(problem)

    thread = threading.Thread(target=wait)
    thread.start()
    until_waiting(session)
    session.close()
    thread.join(60)
    assert len(problems) == 1
    problems.clear()
    assert session.explain(waits).startswith("plan of")
    gc.collect()
    assert [reference() for reference in made if reference() is not None] == []


# ---------------------------------------------------------------------------------------------------------------- lists
def test_caches_are_explained(g):
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    with tf.Session(config=tf.SessionOptions(tier="compiled", plan_cache_size=7)) as session:
        for _ in range(4):
            session.run(y, {x: 1.0})
        session.run(y + 1.0, {x: 1.0})
        own, shared = session.explain_caches().split("caches of the process\n")
        lines = {line[:36].strip(): line[36:].split() for line in own.splitlines()[1:]}
        assert lines["structures of fetches"] == ["2", "of", "7", "3", "hits", "2", "misses"]
        assert lines["plans"][:3] == ["2", "of", "7"]
        assert lines["plans of bodies"][:3] == ["0", "of", "7"]
        assert lines["variants of programs"][:3] == ["2", "in", "2"]
        names = [line[:36].strip() for line in shared.splitlines()]
        assert {"executables", "programs of single ops", "canonical device names"} <= set(names)
        session.close()
        assert "  0 of 7" in session.explain_caches()
