"""What a plan has bound stays bound, whatever happens to variables that are not its own."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.plans import binding
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Layout, ResourceHandle


@pytest.fixture
def bound(monkeypatch):
    """The plans that were bound, in order."""
    plans = []
    real = binding.bind

    def bind(plan, manager):
        plans.append(plan)
        return real(plan, manager)

    monkeypatch.setattr(binding, "bind", bind)
    return plans


def _ones(count):
    return np.ones(count, np.float32)


def test_a_variable_that_changes_its_shape_disturbs_only_its_own_steps(session, tier, bound):
    mine = tf.Variable(0.0)
    other = tf.Variable(_ones(1), validate_shape=False)
    value = tf.placeholder(tf.float32, [None])
    longer = tf.assign(other, value, validate_shape=False).op
    step, total = mine.assign_add(tf.random_uniform([], 1.0, 1.0)).op, tf.reduce_sum(other)
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(step)
    del bound[:]
    for count in range(2, 12):
        session.run(longer, {value: _ones(count)})
        session.run(step)
        assert session.run(total) == count
    binds_of_mine = [plan for plan in bound if step in plan.fetches]
    assert not binds_of_mine
    assert sum(total in plan.fetches for plan in bound) == 10
    assert session.run(mine) == 13.0


def test_variables_that_appear_and_vanish_elsewhere_disturb_nothing(session, bound):
    mine = tf.Variable(0.0)
    step = mine.assign_add(1.0).op
    with tf.container("elsewhere"):
        others = [tf.Variable(_ones(3)) for _ in range(4)]
        table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
        insert = table.insert(["a"], [1])
    session.run(mine.initializer)
    for _ in range(3):
        session.run(step)
    del bound[:]
    for other in others:
        session.run(other.initializer)
        session.run(step)
    session.run(insert)
    session.run(step)
    tf.Session.reset("", ["elsewhere"])
    session.run(step)
    assert not [plan for plan in bound if step in plan.fetches]
    assert session.run(mine) == 9.0
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run(others[0])


def test_one_s_own_variables_are_bound_anew(session, bound):
    mine = tf.Variable(_ones(1), validate_shape=False)
    value = tf.placeholder(tf.float32, [None])
    change = tf.assign(mine, value, validate_shape=False).op
    total, there = tf.reduce_sum(mine), tf.is_variable_initialized(mine)
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run(total)
    assert not session.run(there)
    for count in range(1, 6):
        session.run(change, {value: _ones(count)})
        assert session.run([total, there]) == [count, True]
    tf.Session.reset("")
    assert not session.run(there)
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run(total)


def test_random_streams_that_are_cleared_are_looked_up_anew():
    with tf.Session(config=tf.SessionOptions(tier="compiled", seed=3)) as session:
        drawn = tf.random_uniform([3], seed=5)
        first = [session.run(drawn).tolist() for _ in range(4)]
        tf.Session.reset("")
        assert [session.run(drawn).tolist() for _ in range(4)] == first


def test_layouts_that_nobody_holds_are_forgotten():
    manager = ResourceManager(0)
    handle = ResourceHandle("variable", "", "v")
    kept = Layout()
    for _ in range(100):
        slot = manager.slot(handle, tf.float32, (), None, Layout())
    manager.slot(handle, tf.float32, (), None, kept)
    gc.collect()
    assert len(slot._layouts) == 1
    manager.publish([(slot, np.float32(1))])
    assert not kept.holds
    assert slot._layouts is None
