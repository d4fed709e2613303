"""Programs run in a quickly compiled form at first; when the optimised one takes over is fixed in advance."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import cache
from anabranch.xla import drafts
from anabranch.xla import program as programs


@pytest.fixture(autouse=True)
def _graph(monkeypatch):
    monkeypatch.setattr(programs, "_shared", cache.Cache("executables", 1024))  # not what other tests compiled
    with tf.Graph().as_default():
        yield


@pytest.fixture
def made(monkeypatch):
    """The forms that are compiled, in order, each with the name of the thread that does it."""
    found = []

    def watch(name):
        compile_ = getattr(drafts.Source, name)

        def spy(self):
            found.append((name.removesuffix("_elsewhere"), threading.current_thread().name))
            return compile_(self)

        monkeypatch.setattr(drafts.Source, name, spy)

    for name in ("draft", "final", "final_elsewhere"):
        watch(name)
    return found


def _drafted(monkeypatch, runs=4):
    monkeypatch.setattr(drafts, "runs_as_draft", lambda jaxpr: runs)


def _step():
    """A step that counts in a variable, and what it needs."""
    v = tf.Variable(np.arange(6.0, dtype=np.float32))
    x = tf.placeholder(tf.float32, [6])
    return v, x, [tf.reduce_sum(tf.tanh(v) * x), v.assign_add(tf.sigmoid(x))]


def _hot(session, fetches, feeds):
    """Runs until the plan is compiled; what the last run gave."""
    for _ in range(100):
        found = session.run(fetches, feeds)
        if "tier: compiled" in session.explain(fetches, feeds):
            return found
    raise AssertionError("never compiled")


ROW = np.linspace(-1.0, 1.0, 6).astype(np.float32)


def test_the_final_form_is_begun_early_and_takes_over_at_a_run_that_is_fixed(monkeypatch, made):
    _drafted(monkeypatch, 8)
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        _hot(session, fetches, {x: ROW})
        assert made == [("draft", "anabranch-step")]
        assert "a draft, compiled quickly; the optimised form takes over in 7 runs" in session.explain(
            fetches, {x: ROW}
        )
        session.run(fetches, {x: ROW})
        for thread in threading.enumerate():
            if thread.name == "anabranch-final-form":
                thread.join()
        assert made == [("draft", "anabranch-step"), ("final", "anabranch-final-form")]
        assert "takes over in 6 runs" in session.explain(fetches, {x: ROW})  # though it is there
        for _ in range(6):
            session.run(fetches, {x: ROW})
        assert "takes over in 0 runs" in session.explain(fetches, {x: ROW})
        session.run(fetches, {x: ROW})
        assert "draft" not in session.explain(fetches, {x: ROW})
        assert len(made) == 2


def test_a_run_waits_for_the_final_form(monkeypatch, made):
    _drafted(monkeypatch, 2)  # begun at the first of them
    go = threading.Event()
    final = drafts.Source.final_elsewhere

    def slow(self):
        assert go.wait(60)
        return final(self)

    monkeypatch.setattr(drafts.Source, "final_elsewhere", slow)
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        _hot(session, fetches, {x: ROW})
        session.run(fetches, {x: ROW})
        third = threading.Thread(target=session.run, args=(fetches, {x: ROW}))
        third.start()
        third.join(0.2)
        assert third.is_alive()
        go.set()
        third.join(60)
        assert not third.is_alive()
        assert "draft" not in session.explain(fetches, {x: ROW})


def test_both_forms_compute_the_same(monkeypatch):
    _drafted(monkeypatch, 3)
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        value = np.arange(6.0)
        for _ in range(80):
            found, _ = session.run(fetches, {x: ROW})
            value += 1 / (1 + np.exp(-ROW.astype(np.float64)))
        assert "tier: compiled" in session.explain(fetches, {x: ROW})
        np.testing.assert_allclose(session.run(v), value, rtol=1e-5)
        assert np.isfinite(found)


def test_a_check_that_fails_writes_nothing_in_either_form(monkeypatch):
    _drafted(monkeypatch, 4)
    v = tf.Variable(np.zeros(4, np.float32))
    i = tf.placeholder(tf.int32, [1])
    step = tf.scatter_add(v, i, [1.0])
    with tf.Session() as session:
        session.run(v.initializer)
        _hot(session, step.op, {i: [1]})
        for _ in range(8):
            before = session.run(v)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 4\)"):
                session.run(step.op, {i: [7]})
            np.testing.assert_array_equal(session.run(v), before)
            session.run(step.op, {i: [1]})
            assert session.run(v)[1] == before[1] + 1
        assert "draft" not in session.explain(step.op, {i: [1]})


def test_sessions_share_the_forms_and_count_for_themselves(monkeypatch, made):
    _drafted(monkeypatch, 4)
    v, x, fetches = _step()
    with tf.Session() as one, tf.Session() as other:
        for session in (one, other):
            session.run(v.initializer)
        _hot(one, fetches, {x: ROW})
        for _ in range(6):
            one.run(fetches, {x: ROW})
        assert "draft" not in one.explain(fetches, {x: ROW})
        _hot(other, fetches, {x: ROW})
        assert "takes over in 3 runs" in other.explain(fetches, {x: ROW})  # as if it were alone
        for _ in range(6):
            other.run(fetches, {x: ROW})
        assert "draft" not in other.explain(fetches, {x: ROW})
    assert [name for name, _ in made] == ["draft", "final"]


def test_who_asks_for_the_compiled_tier_gets_the_final_form_at_once(monkeypatch, made):
    _drafted(monkeypatch, 4)
    v, x, fetches = _step()
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(v.initializer)
        session.run(fetches, {x: ROW})
    assert {name for name, _ in made} == {"final"}


def test_the_draft_serves_on_where_the_final_form_cannot_be_compiled(monkeypatch):
    _drafted(monkeypatch, 2)

    def fails(self):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(drafts.Source, "final_elsewhere", fails)
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        _hot(session, fetches, {x: ROW})
        first = session.run(v)
        for _ in range(6):
            session.run(fetches, {x: ROW})
        np.testing.assert_allclose(session.run(v), first + 6 / (1 + np.exp(-ROW)), rtol=1e-5)


def test_a_step_compiles_the_final_form_itself_where_no_process_can(monkeypatch, made, caplog):
    _drafted(monkeypatch, 3)
    monkeypatch.setattr(sys, "executable", "")
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        _hot(session, fetches, {x: ROW})
        for _ in range(4):
            session.run(fetches, {x: ROW})
        assert "draft" not in session.explain(fetches, {x: ROW})
    assert made[1:] == [("final", "anabranch-final-form"), ("final", "MainThread")]
    assert "no Python executable is known" in caplog.text


def test_an_xla_that_does_not_know_the_options_makes_final_forms(monkeypatch, made):
    _drafted(monkeypatch, 4)
    monkeypatch.setattr(drafts, "OPTIONS", {"xla_cpu_no_such_option": True})
    v, x, fetches = _step()
    with tf.Session() as session:
        session.run(v.initializer)
        _hot(session, fetches, {x: ROW})
        assert "draft" not in session.explain(fetches, {x: ROW})
    assert [name for name, _ in made] == ["draft", "final"]


def test_a_draft_keeps_no_graph_alive(monkeypatch, made):
    _drafted(monkeypatch, 50)
    with tf.Graph().as_default() as graph:
        v, x, fetches = _step()
        with tf.Session() as session:
            session.run(v.initializer)
            _hot(session, fetches, {x: ROW})
    gone = weakref.ref(graph)
    del graph, v, x, fetches, session
    gc.collect()
    assert gone() is None
    v, x, fetches = _step()
    with tf.Session() as session:  # the same computation: what its final form is made of has gone with the graph
        session.run(v.initializer)
        _hot(session, fetches, {x: ROW})
        for _ in range(50):
            session.run(fetches, {x: ROW})
        assert "draft" not in session.explain(fetches, {x: ROW})
    assert [name for name, _ in made] == ["draft", "draft", "final"]


# --------------------------------------------------------------------------------------------------------------- policy
def _jaxpr(function, *shapes):
    import jax

    return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes])


def test_work_is_what_is_computed_one_by_one():
    import jax
    import jax.numpy as jnp

    assert drafts.work(_jaxpr(lambda x: jnp.tanh(x) * 2.0, (10, 10)).jaxpr) == (2, 200.0)
    assert drafts.work(_jaxpr(jnp.dot, (10, 10), (10, 10)).jaxpr) == (1, 0.0)
    assert drafts.work(_jaxpr(lambda x: x.T.reshape(100), (10, 10)).jaxpr)[1] == 0.0
    equations, elements = drafts.work(
        _jaxpr(lambda x: jax.lax.while_loop(lambda v: v[0] < 1.0, lambda v: v * v, x), (50,)).jaxpr
    )
    assert elements == pytest.approx(drafts.LOOP_RUNS * 51)
    assert equations >= 3
    assert drafts.work(_jaxpr(lambda x: jax.lax.scan(lambda c, _: (c * c, None), x, None, 7)[0], (5,)).jaxpr)[1] == 35.0
    written = _jaxpr(lambda x, y: jax.lax.dynamic_update_slice(x, y, (0,)), (1000,), (3,))
    assert drafts.work(written.jaxpr)[1] < 10  # in place


def test_the_number_of_runs_follows_from_the_work(monkeypatch):
    def runs(equations, elements):
        monkeypatch.setattr(drafts, "work", lambda jaxpr: (equations, elements))
        return drafts.runs_as_draft(None)

    assert runs(10, 1e3) == 0  # compiled in no time
    assert runs(1000, 1e4) == drafts.MOST_RUNS
    assert runs(1000, 1e8) == 1000 * drafts.FINAL_PER_EQUATION // (2e8 * drafts.EXCESS_PER_ELEMENT)
    assert runs(1000, 1e10) == 0  # the draft would be too slow
    assert runs(1000, 0.0) == drafts.MOST_RUNS
