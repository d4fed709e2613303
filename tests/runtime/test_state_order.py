"""Which version of a variable each op of a step sees, in both tiers, for ref and resource variables."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def resource(request):
    return request.param


def variable(session, value, resource, name="v"):
    found = tf.Variable(value, name=name, use_resource=resource)
    session.run(found.initializer)
    return found


def test_a_fetched_variable_is_read_after_the_writes_of_the_step(session):
    v = variable(session, 1.0, False)
    add = tf.assign_add(v, 2.0)
    assert session.run([v, add.op])[0] == 3.0
    assert session.run([add, v]) == [5.0, 5.0]


def test_a_read_sees_the_writes_it_depends_on_and_no_others(session, resource):
    v = variable(session, 1.0, resource)
    plain = v.read_value()
    first = v.assign_add(1.0)
    with tf.control_dependencies([first]):
        after = v.read_value()
    before, later, _ = session.run([plain, after, first.op])
    assert (before, later) == (1.0, 2.0)


def test_an_operand_is_read_where_its_consumer_stands(session, resource):
    v = variable(session, 1.0, resource)
    assign = v.assign(10.0)
    with tf.control_dependencies([assign]):
        out = v + 1.0  # v/read is older than the assignment
    assert session.run(out) == 11.0


def test_the_output_of_an_assignment_is_its_value(session, resource):
    v = variable(session, 1.0, resource)
    twice = tf.identity(v.assign_add(1.0)) * 2.0
    assert session.run(twice) == 4.0


def test_writes_chain_in_order_of_creation(session, resource):
    v = variable(session, 1.0, resource)
    double = v.assign(tf.constant(0.0) + 5.0)
    add = v.assign_add(1.0)
    session.run([add.op, double.op])
    assert session.run(v.read_value()) == 6.0


def test_control_edges_order_writes_against_creation(session, resource):
    v = variable(session, 1.0, resource)
    gate = tf.placeholder(tf.float32)
    add = v.assign_add(gate)
    other = v.assign(tf.constant(100.0))
    add.op._add_control_input(other.op)
    session.run([add.op], {gate: 1.0})
    assert session.run(v.read_value()) == 101.0


def test_a_write_may_read_the_variable_it_writes(session, resource):
    v = variable(session, np.arange(4, dtype=np.float32), resource)
    session.run(v.assign(tf.reverse(v, [0]) * 2.0).op)
    np.testing.assert_array_equal(session.run(v.read_value()), [6, 4, 2, 0])


def test_swapping_two_variables_uses_old_values(session, resource):
    a = variable(session, 1.0, resource, "a")
    b = variable(session, 2.0, resource, "b")
    old_a, old_b = tf.identity(a) + 0.0, tf.identity(b) + 0.0
    session.run(tf.group(a.assign(old_b), b.assign(old_a)))
    assert session.run([a.read_value(), b.read_value()]) == [2.0, 1.0]


def test_initialised_is_known_inside_a_step(session, resource):
    v = tf.Variable(3.0, name="v", use_resource=resource)
    ready = tf.is_variable_initialized(v)
    assert not session.run(ready)
    with tf.control_dependencies([v.initializer]):
        now = tf.is_variable_initialized(v)
    assert session.run(now)
    assert session.run(ready)


def test_an_assignment_needs_the_value_that_it_assigns(session, resource):
    source, target = (tf.Variable(value, use_resource=resource) for value in (1.0, 2.0))
    copy = target.assign(source)
    for fetches in (copy, tf.group(copy), [source.initializer, tf.group(copy)]):
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"uninitialized value Variable\b"):
            session.run(fetches)
    session.run(source.initializer)
    session.run(tf.group(copy))
    assert session.run(target) == 1.0


def test_two_sessions_share_no_state(tier, resource):
    v = tf.Variable(1.0, use_resource=resource)
    add = v.assign_add(1.0)
    options = tf.SessionOptions(tier=tier)
    with tf.Session(config=options) as one, tf.Session(config=options) as two:
        one.run(v.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value"):
            two.run(v.read_value())
        two.run(v.initializer)
        one.run(add.op)
        assert one.run(v.read_value()) == 2.0
        assert two.run(v.read_value()) == 1.0


def test_shared_name_shares_within_a_session(session):
    a = build("VariableV2", shape=(), dtype=tf.float32, shared_name="w", name="a")
    b = build("VariableV2", shape=(), dtype=tf.float32, shared_name="w", name="b")
    session.run(tf.assign(a, 4.0).op)
    assert session.run(b) == 4.0


def test_a_fed_variable_is_not_read(session, resource):
    v = variable(session, 1.0, resource)
    read = v.value()
    assert session.run(read * 2.0, {read: 21.0}) == 42.0


def test_a_variable_may_change_shape_if_it_was_made_so(session):
    v = tf.Variable(np.zeros(2, np.float32), validate_shape=False, trainable=False)
    session.run(v.initializer)
    value = tf.placeholder(tf.float32)
    grow = tf.assign(v, value, validate_shape=False)
    session.run(grow.op, {value: np.ones((3, 3))})
    assert session.run(v).shape == (3, 3)


def test_a_wrong_shape_is_refused_and_changes_nothing(session, resource):
    v = variable(session, np.zeros(2, np.float32), resource)
    value = tf.placeholder(tf.float32)
    write = v.assign(value)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        session.run(write.op, {value: np.ones((3, 3))})
    assert session.run(v.read_value()).shape == (2,)


def test_reset_clears_containers(tier):
    with tf.container("box"):
        v = tf.Variable(1.0, name="boxed")
    w = tf.Variable(1.0, name="open")
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        session.run([v.initializer, w.initializer])
        tf.Session.reset("", ["box"])
        with pytest.raises(tf.errors.FailedPreconditionError, match="boxed"):
            session.run(v)
        assert session.run(w) == 1.0
