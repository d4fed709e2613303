"""Handles that a conditional chooses: an op on one works on what was chosen. Values are TensorFlow 1.15.5's."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


@pytest.fixture
def pred(session):
    return tf.placeholder(tf.bool, [])


@pytest.fixture
def two(pred):
    """Two variables, and the handle of the first where ``pred`` holds."""
    with tf.variable_scope("s", use_resource=True):
        a, b = tf.get_variable("a", initializer=[1.0, 2.0]), tf.get_variable("b", initializer=[3.0, 4.0])
    return a, b, tf.cond(pred, lambda: a.handle, lambda: b.handle)


def read(handle):
    return build("ReadVariableOp", handle, dtype=tf.float32)


def for_both(session, pred, fetch):
    return [np.asarray(session.run(fetch, {pred: value})).tolist() for value in (True, False)]


def test_reads_and_writes(session, pred, two) -> None:
    a, b, handle = two
    session.run(tf.global_variables_initializer())
    assert for_both(session, pred, read(handle)) == [[1, 2], [3, 4]]
    add = build("AssignAddVariableOp", handle, [10.0, 10.0])
    for value in (True, True, False):
        session.run(add, {pred: value})
    assert [value.tolist() for value in session.run([a, b])] == [[21, 22], [13, 14]]


def test_the_order_of_effects(session, pred, two) -> None:
    a, _, handle = two
    with tf.control_dependencies([a.assign([7.0, 7.0])]):
        value = read(handle)
    with tf.control_dependencies([value]):
        write = build("AssignVariableOp", handle, [9.0, 9.0])
    with tf.control_dependencies([write]):
        after = a.read_value()
    session.run(tf.global_variables_initializer())
    assert for_both(session, pred, [value, after]) == [[[7, 7], [9, 9]], [[3, 4], [7, 7]]]


def test_updates_of_a_training_step(session, pred, two) -> None:
    a, b, handle = two
    step = build("ResourceApplyGradientDescent", handle, 0.5, [1.0, 1.0])
    scattered = build("ResourceScatterAdd", handle, [0, 0], [1.0, 1.0])
    rows = build("ResourceGather", handle, [1], dtype=tf.float32)
    session.run(tf.global_variables_initializer())
    session.run(step, {pred: True})
    session.run(scattered, {pred: False})
    assert [value.tolist() for value in session.run([a, b])] == [[0.5, 1.5], [5, 4]]
    assert for_both(session, pred, rows) == [[1.5], [4]]


def test_gradients(session, pred, two) -> None:
    a, b, handle = two
    value = read(handle)
    slopes = tf.gradients(tf.reduce_sum(value * value), [a, b])
    session.run(tf.global_variables_initializer())
    assert for_both(session, pred, slopes) == [[[2, 4], [0, 0]], [[0, 0], [6, 8]]]


def test_a_variable_without_a_value(session, pred, two) -> None:
    a, _, handle = two
    there, shape = build("VarIsInitializedOp", handle), build("VariableShape", handle)
    session.run(a.initializer)
    assert for_both(session, pred, there) == [True, False]
    assert session.run(shape, {pred: True}).tolist() == [2]
    value = read(handle)
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value s/b") as failed:
        session.run(value, {pred: False})
    assert failed.value.op is value.op


def test_a_write_that_waits_for_an_assertion(session, pred, two) -> None:
    a, b, handle = two
    fine = tf.placeholder(tf.bool, [])
    with tf.control_dependencies([tf.Assert(fine, ["no"])]):
        add = build("AssignAddVariableOp", handle, [1.0, 1.0])
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        session.run(add, {pred: True, fine: False})
    session.run(add, {pred: True, fine: True})
    assert [value.tolist() for value in session.run([a, b])] == [[2, 3], [3, 4]]


def test_in_branches_and_loops(session, pred, two) -> None:
    a, b, handle = two
    branch = tf.cond(pred, lambda: read(handle) * 2, lambda: read(handle) * 3)
    total = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + read(handle)), [0, tf.zeros([2])])[1]

    def alternating(i):
        chosen = tf.cond(tf.equal(i % 2, 0), lambda: a.handle, lambda: b.handle)
        with tf.control_dependencies([build("AssignAddVariableOp", chosen, [1.0, 1.0])]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 5, alternating, [0])
    session.run(tf.global_variables_initializer())
    assert for_both(session, pred, [branch, total]) == [[[2, 4], [3, 6]], [[9, 12], [9, 12]]]
    session.run(loop)
    assert [value.tolist() for value in session.run([a, b])] == [[4, 5], [5, 6]]


def test_choices_within_choices_and_by_number(session, pred) -> None:
    number = tf.placeholder(tf.int32, [])
    with tf.variable_scope("s", use_resource=True):
        a, b, c = (tf.get_variable(f"v{i}", initializer=[float(i)]) for i in range(3))
    nested = tf.cond(pred, lambda: a.handle, lambda: tf.cond(number * 2 > 1, lambda: b.handle, lambda: c.handle))
    numbered = tf.switch_case(number, [lambda: a.handle, lambda: b.handle, lambda: c.handle])
    write = build("AssignVariableOp", numbered, [9.0])
    session.run(tf.global_variables_initializer())
    values = [session.run(read(nested), {pred: p, number: n}).tolist() for p in (True, False) for n in (0, 1)]
    assert values == [[0], [0], [2], [1]]
    session.run(write, {number: 1})
    assert [session.run(read(numbered), {number: i}).tolist() for i in range(3)] == [[0], [9], [2]]


def test_switches_and_merges_of_version_1(session, pred, two) -> None:
    a, b, _ = two
    of_a, _ = build("Switch", a.handle, pred)
    _, of_b = build("Switch", b.handle, pred)
    merged = build("Merge", [of_a, of_b])[0]
    session.run(tf.global_variables_initializer())
    assert for_both(session, pred, read(merged)) == [[3, 4], [1, 2]]


def test_tables(session, pred) -> None:
    one, other = (tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1) for _ in range(2))
    handle = tf.cond(pred, lambda: one.resource_handle, lambda: other.resource_handle)
    insert = build("LookupTableInsertV2", handle, ["x"], np.int64([5]))
    find = build("LookupTableFindV2", handle, ["x", "y"], np.int64(-5))
    session.run(insert, {pred: True})
    assert for_both(session, pred, find) == [[5, -5], [-5, -5]]
    assert session.run([one.size(), other.size()]) == [1, 0]


def test_a_handle_that_goes_into_a_function(session, pred, two) -> None:
    @tf.Defun(tf.resource, tf.bool)
    def inner(handle, chosen):
        return tf.cond(chosen, lambda: read(handle), lambda: read(handle) * 2)

    _, _, handle = two
    session.run(tf.global_variables_initializer())
    assert for_both(session, pred, inner(handle, pred)) == [[1, 2], [6, 8]]
