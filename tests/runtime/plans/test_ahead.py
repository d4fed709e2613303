"""When a plan changes its tier: by a clock that the tests supply, or by a schedule; and what runs meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import cache
from anabranch.runtime.interpreter import straight_line
from anabranch.runtime.plans import ahead, comparison, policy, shape_families
from anabranch.runtime.worker import Worker
from anabranch.xla import background, capacities, disk_cache, engine, startup
from anabranch.xla import program as programs

ROW = np.linspace(-1.0, 1.0, 6).astype(np.float32)


@pytest.fixture(autouse=True)
def _graph(monkeypatch):
    engine.devices("cpu")  # else its start is part of the price
    monkeypatch.setattr(programs, "_shared", cache.Cache("executables", 1024))  # not what other tests compiled
    with tf.Graph().as_default():
        yield


class Clock:
    """A clock by which each step takes ``tick`` seconds."""

    def __init__(self):
        self.now = 0.0
        self.tick = 0.0

    def __call__(self):
        self.now += self.tick
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(Worker, "clock", found)
    monkeypatch.setattr(Worker, "busy", found)
    return found


@pytest.fixture
def gate(monkeypatch):
    """Holds compilations beside steps back until it is set."""
    found = threading.Event()
    compiled = ahead.Ahead._compiled

    def held(self):
        assert found.wait(60)
        return compiled(self)

    monkeypatch.setattr(ahead.Ahead, "_compiled", held)
    yield found
    found.set()
    _finish()


def _finish():
    for thread in list(background._threads):
        thread.join(60)


def _step():
    v = tf.Variable(np.arange(6.0, dtype=np.float32))
    x = tf.placeholder(tf.float32, [6])
    return v, x, [tf.reduce_sum(tf.tanh(v) * x), v.assign_add(tf.sigmoid(x)).op]


def _tier(session, fetches, feeds):
    return session.explain(fetches, feeds).splitlines()[0].partition("tier: ")[2]


def _plan(session):
    (found,) = [plan for plan, _ in session._worker._plans.values() if len(plan.analysis.order) > 5]
    return found


def test_runs_that_took_no_time_begin_nothing(clock):
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(200):
            session.run(fetches, {x: ROW})
        assert _tier(session, fetches, {x: ROW}).startswith("interpreted")
        assert _plan(session).ahead is None


SMALL_PROGRAM = """
import sys, anabranch as tf
x = tf.placeholder(tf.float32, [3])
w = tf.Variable([1.0, 2.0, 3.0])
big = tf.Variable(tf.zeros([64, 64]))
loss = tf.reduce_sum(tf.square(w * x)) + tf.reduce_sum(tf.matmul(big, big))
loss += tf.cond(x[0] > 0.0, lambda: tf.reduce_sum(big), lambda: tf.reduce_sum(w.assign_add(x)))
loss += tf.reduce_sum(tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w), [0, x])[1])
step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run([loss, step], {x: [1.0, 2.0, 3.0]})
print('jax' in sys.modules)
"""


@pytest.mark.parametrize("others", [0, 1])
def test_a_small_program_starts_no_jax_whether_others_are_on_disk(tmp_path, others):
    for _ in range(others):
        disk_cache.DiskCache(tmp_path).put("0" * 64, b"of another program")
    assert disk_cache.DiskCache(tmp_path).was_empty == (not others)
    shown = subprocess.run(
        [sys.executable, "-c", SMALL_PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANABRANCH_CACHE": str(tmp_path)},
    )
    assert (shown.returncode, shown.stdout.strip()) == (0, "False"), shown.stderr


def test_no_run_waits_for_what_is_compiled_meanwhile(clock, gate):
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(fetches, {x: ROW})
        price = _plan(session).cost.compile * 1e-6
        clock.tick = price * policy.BEGINS_AFTER
        session.run(fetches, {x: ROW})
        assert _plan(session).ahead is not None
        for _ in range(20):  # by now they have taken more than compiling would
            session.run(fetches, {x: ROW})
        assert _tier(session, fetches, {x: ROW}).startswith("interpreted (its programs are being compiled meanwhile)")
        gate.set()
        _finish()
        session.run(fetches, {x: ROW})
        assert _tier(session, fetches, {x: ROW}).startswith("compiled (its programs were compiled beside 22")
        value = np.arange(6.0) + 23 / (1 + np.exp(-ROW.astype(np.float64)))
        np.testing.assert_allclose(session.run(v), value, rtol=1e-5)


def test_the_step_compiles_for_itself_what_could_not_be_compiled_beside_it(clock, monkeypatch):
    def refuse(self):
        raise ahead.NotPossible("for a test")

    monkeypatch.setattr(ahead.Ahead, "_compiled", refuse)
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(fetches, {x: ROW})
        clock.tick = _plan(session).cost.compile * 1e-6 / 2
        for tier in ("interpreted", "interpreted", "compiled"):
            session.run(fetches, {x: ROW})
            _finish()
            assert _tier(session, fetches, {x: ROW}).startswith(tier)


@pytest.mark.parametrize("how", ["graph seed", "deterministic", "seed of the session"])
def test_a_schedule_asks_no_clock_and_waits_at_its_run(clock, gate, how, monkeypatch):
    if how == "graph seed":
        tf.set_random_seed(1)
    monkeypatch.setitem(startup.choices.environment, startup.THREADS, "2")  # as if it had come first
    options = tf.SessionOptions(deterministic=how == "deterministic", seed=3 if how == "seed of the session" else None)
    clock.tick = 1000.0
    v, x, fetches = _step()
    with tf.Session(config=options) as session:
        session.run(v.initializer)
        runs = 0
        while policy.choose(_plan(session), "auto")[0] == "interpreted" if runs else True:
            session.run(fetches, {x: ROW})
            runs += 1
        assert 10 < runs <= policy.MAX_INTERPRETED_RUNS
        assert _plan(session).ahead is not None
        assert _tier(session, fetches, {x: ROW}).startswith("interpreted")
        waiting = threading.Thread(target=session.run, args=(fetches, {x: ROW}))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        gate.set()
        waiting.join(60)
        assert not waiting.is_alive()
        assert _tier(session, fetches, {x: ROW}).startswith("compiled")
        value = np.arange(6.0) + (runs + 1) / (1 + np.exp(-ROW.astype(np.float64)))
        np.testing.assert_allclose(session.run(v), value, rtol=1e-5)


def test_a_run_that_waits_keeps_its_deadline(clock, gate):
    tf.set_random_seed(1)
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        runs = 0
        while policy.choose(_plan(session), "auto")[0] == "interpreted" if runs else True:
            session.run(fetches, {x: ROW})
            runs += 1
        with pytest.raises(tf.errors.DeadlineExceededError, match="ran past its timeout_in_ms"):
            session.run(fetches, {x: ROW}, options=tf.RunOptions(timeout_in_ms=100))
        gate.set()
        session.run(fetches, {x: ROW})
        value = np.arange(6.0) + (runs + 1) / (1 + np.exp(-ROW.astype(np.float64)))
        np.testing.assert_allclose(session.run(v), value, rtol=1e-5)


def test_values_that_must_be_known_are_found_out_beside_the_steps(clock):
    x = tf.placeholder(tf.float32, [None, 4])
    n = tf.placeholder(tf.int32, [])
    rows = tf.reshape(tf.tanh(x), tf.stack([n * 2, -1])) + 1.0
    step = tf.reduce_sum(tf.matmul(rows, rows, transpose_b=True))
    feeds = {x: np.ones((6, 4), np.float32), n: 3}
    with tf.Session() as session:
        session.run(step, feeds)
        clock.tick = 1.0
        before = session.run(step, feeds)
        _finish()
        assert len(programs._shared) == 1
        np.testing.assert_allclose(session.run(step, feeds), before, rtol=1e-5)
        assert _tier(session, step, feeds).startswith("compiled")
        assert len(programs._shared) == 1  # the step compiled nothing


def test_random_ops_and_row_updates_are_compiled_beside_the_steps(clock):
    table = tf.Variable(np.zeros((300, 8), np.float32))
    ids = tf.placeholder(tf.int32, [None])
    drawn = tf.random_normal([8])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * drawn)
    step = [tf.train.AdamOptimizer(0.1).minimize(loss), loss]
    feeds = {ids: np.array([1, 5, 5, 7], np.int32)}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(shape_families.MOST_RUNS - 1):
            session.run(step, feeds)
        clock.tick = 10.0
        session.run(step, feeds)
        _finish()
        there = len(programs._shared)
        assert there
        session.run(step, feeds)
        assert _tier(session, step, feeds).startswith("compiled")
        assert len(programs._shared) == there
        assert np.count_nonzero(np.abs(session.run(table)).sum(1)) == 3


def _loop_before_a_mask():
    """A loop whose gradient needs shapes that it has kept; between both, how many rows a mask leaves."""
    x, n = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [])
    v = tf.Variable(np.eye(4, dtype=np.float32))
    _, h = tf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, v) + tf.fill(tf.shape(h), 0.1))), [0, x]
    )
    mask = tf.placeholder(tf.bool, [None])
    loss = tf.reduce_sum(tf.square(tf.boolean_mask(h, mask)))
    gradient = tf.gradients(loss, v)[0]
    rows = np.random.RandomState(0).randn(6, 4).astype(np.float32)
    feeds = [{x: rows, n: 5, mask: np.arange(6) <= i} for i in range(6)]
    return [loss, gradient, v.assign_sub(0.1 * gradient)], feeds


def test_what_programs_hand_on_to_others_is_known_beside_the_steps(clock):
    step, feeds = _loop_before_a_mask()
    results = {}
    for tier in ("interpreted", "auto"):
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            results[tier] = [session.run(step, feeds[i % 6]) for i in range(shape_families.MOST_RUNS)]
            clock.tick = 10.0 if tier == "auto" else 0.0
            results[tier].append(session.run(step, feeds[1]))
            _finish()
            clock.tick, there = 0.0, len(programs._shared)
            results[tier] += [session.run(step, feeds[i % 6]) for i in range(6)]
            told = session.explain(step, feeds[0])
    assert "tier: compiled" in told
    assert "While)" not in told  # what runs on the host is told one by one
    assert there == len(programs._shared)  # no step compiles
    for mine, others in zip(results["auto"], results["interpreted"], strict=True):
        for first, second in zip(mine, others, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


def test_nothing_is_compiled_before_all_that_must_be_known_has_been_found_out(clock, monkeypatch):
    step, feeds = _loop_before_a_mask()
    compiled = []
    elsewhere = background.compiled_elsewhere
    monkeypatch.setattr(background, "compiled_elsewhere", lambda *a: compiled.append(1) or elsewhere(*a))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i in range(shape_families.MOST_RUNS):
            session.run(step, feeds[i % 6])
        clock.tick = 10.0
        session.run(step, feeds[1])
        _finish()
        session.run(step, feeds[1])
        told = session.explain(step, feeds[0])
    assert "tier: compiled" in told
    assert len(compiled) == told.count("    program ")


def test_a_loop_beside_sizes_that_data_decide_is_no_small_piece():
    step, feeds = _loop_before_a_mask()
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.global_variables_initializer())
        for i in range(12):
            session.run(step, feeds[i % 6])
        told = session.explain(step, feeds[0])
    assert "(Where)" in told
    assert "While)" not in told  # what runs on the host is told one by one


def test_shapes_that_have_programs_of_their_own_run_these_where_others_share_a_plan(clock, monkeypatch):
    monkeypatch.setattr(shape_families, "MOST_SIZES", 1)  # nothing is padded
    x, v = tf.placeholder(tf.float32, [None, None]), tf.Variable(np.ones((8, 8), np.float32))
    y = tf.matmul(x, x, transpose_b=True)
    fetches = [tf.reduce_sum(tf.tanh(y)), v.assign_add(tf.matmul(v, v) * 0.01).op]

    def run(rows):
        return session.run(fetches, {x: np.ones((rows, 2 * rows), np.float32)})[0]

    def plan_of(rows):
        plans = [plan for plan, _ in session._worker._plans.values() if plan.feed_shapes == ((rows, 2 * rows),)]
        return plans[0] if plans else None

    with tf.Session() as session:
        session.run(v.initializer)
        for rows in range(2, 2 + shape_families.MOST_PLANS):
            run(rows)
        clock.tick = 10.0
        run(2)
        _finish()
        for rows in (20, 21, 22):  # a plan for all others
            run(rows)
            _finish()
        (family,) = [family for family in session._worker._families.values() if family is not None]
        assert family.plan.tier == "compiled"
        assert plan_of(2).ahead is not None  # its programs are there, and were not needed yet
        np.testing.assert_allclose(run(2), 4 * np.tanh(4.0), rtol=1e-5)
        assert plan_of(2).tier == "compiled"
        clock.tick = 0.0
        for _ in range(policy.MAX_INTERPRETED_RUNS + 1):
            run(30)
        assert plan_of(30).tier == "interpreted"
        for _ in range(3):  # it has come so often that it is worth programs
            run(30)
            _finish()
        assert plan_of(30).tier == "compiled"


def test_a_deterministic_session_comes_before_the_devices_start(monkeypatch):
    monkeypatch.setattr(startup, "choices", startup.Choices())
    monkeypatch.delenv(startup.THREADS, raising=False)
    with tf.Session(config=tf.SessionOptions(deterministic=True)):
        assert startup.choices.environment == {startup.THREADS: "8"}
    startup.choices.started = True
    with tf.Session(config=tf.SessionOptions(deterministic=True)):
        pass
    startup.choices.environment.clear()
    with pytest.raises(tf.errors.FailedPreconditionError, match="after JAX has started its devices"):
        tf.Session(config=tf.SessionOptions(deterministic=True))


@pytest.fixture
def begun(monkeypatch):
    """The runs after which compilations have begun, as numbers of the plan's runs."""
    runs = []
    start = ahead.Ahead.start

    def counted(self):
        runs.append(self._plan.runs)
        start(self)

    monkeypatch.setattr(ahead.Ahead, "start", counted)
    return runs


def test_compiling_begins_when_runs_have_shown_which_sizes_change(clock, begun):
    table = tf.Variable(np.zeros((300, 8), np.float32))
    ids = tf.placeholder(tf.int32, [None])
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 1.0))
    step = [tf.train.AdamOptimizer(0.1).minimize(loss), loss]  # adds the gradients of equal rows: how many, data decide
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        clock.tick = 10.0
        for i in range(10):
            there = len(programs._shared)
            feeds = {ids: np.arange(12, dtype=np.int32) % (i + 2)}
            session.run(step, feeds)
            if begun and there:
                assert len(programs._shared) == there  # no step compiles
            _finish()
        assert begun == [shape_families.MOST_SHAPES + 1]
        assert _tier(session, step, feeds).startswith("compiled")


def test_a_shape_that_came_first_is_not_compiled_where_others_keep_coming(clock, begun, monkeypatch):
    monkeypatch.setattr(shape_families, "MOST_SIZES", 1)  # nothing is padded
    x = tf.placeholder(tf.float32, [None, None])
    fetches = tf.reduce_sum(tf.sort(x * x, axis=0)) + tf.reduce_sum(tf.matmul(x, x, transpose_b=True))

    def run(rows):
        return session.run(fetches, {x: np.ones((rows, 2 * rows + 1), np.float32)})

    with tf.Session() as session:
        for rows in range(2, 30):
            run(rows)
        clock.tick = 10.0
        for _ in range(4):
            assert run(3) == 3 * 7 + 9 * 7
            _finish()
        own = [plan for plan, _ in session._worker._plans.values() if plan.feed_shapes == ((3, 7),)]
        assert [plan.runs for plan in own] == [1]
        assert len(begun) == 1


def test_what_was_compiled_for_other_shapes_is_compiled_anew_beside_the_steps(clock, begun, monkeypatch):
    fits = iter([False, True])
    monkeypatch.setattr(ahead.Ahead, "fits", property(lambda self: next(fits)))
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        clock.tick = 10.0
        tiers = []
        for _ in range(3):
            session.run(fetches, {x: ROW})
            _finish()
            tiers.append(_plan(session).tier)
    assert (begun, tiers) == ([1, 2], ["interpreted", "interpreted", "compiled"])


def test_compiling_anew_looks_at_all_values_of_a_step_once_more(clock, monkeypatch):
    fits = iter([False, True])
    monkeypatch.setattr(ahead.Ahead, "fits", property(lambda self: next(fits)))
    step, feeds = _loop_before_a_mask()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i in range(2 * shape_families.MOST_RUNS):
            session.run(step, feeds[i % 6])
        clock.tick = 10.0
        for i in range(6):
            there = len(programs._shared)
            session.run(step, feeds[i % 6])
            if _tier(session, step, feeds[i % 6]).startswith("compiled"):
                break
            _finish()
        assert _tier(session, step, feeds[i % 6]).startswith("compiled")
        assert there == len(programs._shared)  # the step compiled nothing


@pytest.fixture
def seconds(monkeypatch):
    """What a run is taken to last, by the tier that it ran in."""
    found = {"interpreted": 0.004, "compiled": 0.001}
    took = Worker._took

    def noted(plan, _):
        took(plan, found[plan.tier])

    monkeypatch.setattr(Worker, "_took", staticmethod(noted))
    return found


def _compiled_after_runs(session, clock, fetches, feeds):
    for _ in range(comparison.LEAST):
        session.run(fetches, feeds)
    clock.tick = _plan(session).cost.compile * 1e-6 * policy.BEGINS_AFTER
    session.run(fetches, feeds)
    clock.tick = 0.0
    _finish()
    session.run(fetches, feeds)
    assert _plan(session).tier == "compiled"


def test_a_plan_whose_compiled_form_is_slower_goes_back(clock, seconds):
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        seconds["compiled"] = 0.006
        _compiled_after_runs(session, clock, fetches, {x: ROW})
        for _ in range(comparison.SETTLING + comparison.COMPARED - 2):
            session.run(fetches, {x: ROW})
        assert _plan(session).tier == "compiled"
        for _ in range(comparison.TRIED + 3):
            session.run(fetches, {x: ROW})
            told = _tier(session, fetches, {x: ROW})
            assert told.startswith("interpreted (compiled, a run took 6 ms, and interpreted 4 ms)")
        assert _plan(session).comparison is None
        clock.tick = _plan(session).cost.compile
        for _ in range(5):  # nothing compiles it again
            session.run(fetches, {x: ROW})
        assert _plan(session).ahead is None
        runs = _plan(session).runs
        value = np.arange(6.0) + runs / (1 + np.exp(-ROW.astype(np.float64)))
        np.testing.assert_allclose(session.run(v), value, rtol=1e-5)


@pytest.mark.parametrize("now", [0.007, 0.9], ids=["no quicker", "far slower"])
def test_a_plan_that_went_back_and_is_no_quicker_is_compiled_for_good(clock, seconds, monkeypatch, now):
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        seconds["compiled"] = 0.006
        _compiled_after_runs(session, clock, fetches, {x: ROW})
        while _plan(session).tier == "compiled":
            session.run(fetches, {x: ROW})
        seconds["interpreted"] = now
        monkeypatch.setattr(programs.Program, "_compile", None)  # its programs are there yet
        tried = 0
        while _plan(session).tier == "interpreted":
            session.run(fetches, {x: ROW})
            tried += 1
        assert tried == (comparison.TRIED if now < 0.1 else 1)
        for _ in range(2 * comparison.COMPARED):
            session.run(fetches, {x: ROW})
        assert _tier(session, fetches, {x: ROW}).startswith("compiled")
        assert _plan(session).comparison is None


@pytest.mark.parametrize("compiled", [0.001, 0.0045], ids=["quicker", "hardly slower"])
def test_a_plan_whose_compiled_form_is_not_slower_stays_compiled(clock, seconds, compiled):
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        seconds["compiled"] = compiled
        _compiled_after_runs(session, clock, fetches, {x: ROW})
        for _ in range(2 * comparison.COMPARED):
            session.run(fetches, {x: ROW})
        assert _plan(session).comparison is None
        assert _plan(session).tier == "compiled"


def test_runs_beside_compilations_are_passed_over(clock, seconds, monkeypatch):
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        seconds["compiled"] = 0.006
        _compiled_after_runs(session, clock, fetches, {x: ROW})
        monkeypatch.setattr(background, "is_busy", lambda: True)
        for _ in range(comparison.PASSED_OVER):
            session.run(fetches, {x: ROW})
        assert _plan(session).tier == "compiled"
        for _ in range(comparison.SETTLING + comparison.COMPARED):  # always beside others: so they are what it takes
            session.run(fetches, {x: ROW})
        assert _plan(session).tier == "interpreted"


def _growing(rows, trips):
    """A loop whose variable gets a row more in each iteration, and in which much is computed."""

    def body(i, a):
        for _ in range(60):
            a = tf.tanh(a) + 0.1
        return i + 1, tf.concat([a, a[:1]], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    return tf.while_loop(lambda i, a: i < trips, body, [0, rows], shape_invariants=shapes)[1]


def test_bodies_are_interpreted_again_when_a_plan_goes_back(clock, seconds, monkeypatch):
    x = tf.placeholder(tf.float32, [1, 4])
    v = tf.Variable(tf.ones([4, 4]))
    fetches = [tf.reduce_sum(_growing(tf.matmul(x, v), 3)), v.assign_add(0.1 * v).op]
    feeds = {x: np.ones((1, 4), np.float32)}
    served = []
    run = straight_line.Straight.run

    def noted(self, *args):
        served.append(run(self, *args))
        return served[-1]

    monkeypatch.setattr(straight_line.Straight, "run", noted)
    with tf.Session() as session:
        session.run(v.initializer)
        seconds["compiled"] = 0.006
        _compiled_after_runs(session, clock, fetches, feeds)
        while _plan(session).tier == "compiled":
            del served[:]
            session.run(fetches, feeds)
        assert len(served) < 7  # the body has been compiled on its own
        del served[:]
        row = session.run(v).sum(0)
        total = session.run(fetches, feeds)[0]
        assert len(served) == 7
        assert None not in served
    rows = row[None]
    for _ in range(3):
        for _ in range(60):
            rows = np.tanh(rows) + 0.1
        rows = np.concatenate([rows, rows[:1]])
    np.testing.assert_allclose(total, rows.sum(), rtol=1e-5)


def test_a_body_on_the_host_that_has_code_for_all_its_sizes_is_not_compiled(clock, monkeypatch):
    monkeypatch.setattr(shape_families, "MOST_SIZES", 0)  # or it would be padded, and part of the program
    x, mask = tf.placeholder(tf.float32, [6, 4]), tf.placeholder(tf.bool, [6])
    v = tf.Variable(tf.ones([4]))
    kept = tf.boolean_mask(x * v, mask)

    def body(i, a):
        for _ in range(60):
            a = tf.tanh(a) + 0.1
        return i + 1, a + tf.reduce_mean(a * kept, 0)

    h = tf.while_loop(lambda i, a: i < 20, body, [0, v], shape_invariants=[tf.TensorShape([]), tf.TensorShape([4])])[1]
    fetches = [tf.reduce_sum(h), v.assign_add(0.1 * h).op]
    feeds = [{x: np.ones((6, 4), np.float32), mask: np.arange(6) <= i} for i in range(4)]
    with tf.Session() as session:
        session.run(v.initializer)
        for i in range(2 * shape_families.MOST_RUNS):
            session.run(fetches, feeds[i % 4])
        clock.tick = 10.0
        session.run(fetches, feeds[0])
        _finish()
        clock.tick, there = 0.0, len(programs._shared)
        for i in range(20):
            session.run(fetches, feeds[i % 4])
        told = session.explain(fetches, feeds[0])
    assert "tier: compiled" in told
    assert "host     while (" in told
    assert there == len(programs._shared)


def test_a_seeded_plan_and_one_whose_tier_was_asked_for_compare_nothing(clock):
    tf.set_random_seed(1)
    v, x, fetches = _step()
    for config in (None, tf.SessionOptions(tier="compiled")):
        with tf.Session(config=config) as session:
            session.run(v.initializer)
            session.run(fetches, {x: ROW})
            assert _plan(session).comparison is None


def test_padded_arrays_of_a_run_are_looked_at_as_they_are():
    value = capacities.padded(np.arange(5), (0,), capacities.Capacities(), "rows")
    np.testing.assert_array_equal(ahead.observed({"key": value})["key"], np.arange(5))
