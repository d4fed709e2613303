"""Handles that come out of functions: whoever takes one works on what the function's op makes."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import functional_ops
from anabranch.core.graph.build import build


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


def variable(name="v"):
    return build("VarHandleOp", dtype=tf.float32, shape=[2], shared_name=name)


def read(handle):
    return build("ReadVariableOp", handle, dtype=tf.float32)


def test_a_variable(session) -> None:
    @tf.Defun()
    def make():
        return variable()

    @tf.Defun()
    def outer():
        return make()

    handle = make()
    session.run(build("AssignVariableOp", handle, [1.0, 2.0]))
    for _ in range(3):
        session.run(build("AssignAddVariableOp", outer(), [1.0, 1.0]))
    values = session.run([read(handle), read(make()), read(outer()), read(variable())])
    np.testing.assert_array_equal(values, [[4, 5]] * 4)


def test_a_handle_that_is_handed_through(session) -> None:
    @tf.Defun(tf.resource, tf.resource)
    def second(one, other):
        return other

    @tf.Defun(tf.resource, tf.resource)
    def exchanged(one, other):
        return second(other, one)

    a, b = variable("a"), variable("b")
    session.run([build("AssignVariableOp", a, [1.0, 1.0]), build("AssignVariableOp", b, [2.0, 2.0])])
    values = session.run([read(second(a, b)), read(second(b, a)), read(exchanged(a, b)), read(exchanged(b, a))])
    assert [value[0] for value in values] == [2, 1, 1, 2]
    (slope,) = tf.gradients(tf.reduce_sum(read(second(a, b)) * 3.0), [b])
    np.testing.assert_array_equal(session.run(slope), [3, 3])


def test_tables_and_queues(session) -> None:
    @tf.Defun()
    def table():
        return build("MutableHashTableV2", key_dtype=tf.string, value_dtype=tf.int64, shared_name="t")

    @tf.Defun()
    def queue():
        return build("FIFOQueueV2", component_types=[tf.float32], shared_name="q")

    keys, values = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
    session.run(build("LookupTableInsertV2", table(), keys, values))
    found = build("LookupTableFindV2", table(), tf.constant(["b", "z"]), tf.constant(-1, tf.int64))
    assert session.run([found, build("LookupTableSizeV2", table())])[0].tolist() == [2, -1]
    session.run(build("QueueEnqueueV2", queue(), [tf.constant(3.0)]))
    assert session.run(build("QueueSizeV2", queue())) == 1


def test_a_graph_that_was_written(session) -> None:
    with tf.Graph().as_default() as graph:

        @tf.Defun()
        def make():
            return variable()

        tf.identity(read(make()), name="value")
        tf.group(build("AssignVariableOp", make(), [1.0, 2.0]), name="set")
    value, assign = tf.import_graph_def(graph.as_graph_def(), return_elements=["value:0", "set"], name="")
    session.run(assign)
    assert session.run(value).tolist() == [1, 2]


def test_a_variable_that_a_loop_hands_on(session) -> None:
    """TensorFlow's gradient of a loop reads the shape of a variable from the loop's output."""
    handle = variable()
    session.run(build("AssignVariableOp", handle, [1.0, 2.0]))

    @tf.Defun(tf.int32, tf.float32, tf.resource)
    def condition(i, total, v):
        return i < 3

    @tf.Defun(tf.int32, tf.float32, tf.resource)
    def body(i, total, v):
        return i + 1, total + tf.reduce_sum(read(v)), v

    _, total, out = functional_ops.While([0, 0.0, handle], condition, body)
    again = build("AssignAddVariableOp", out, [1.0, 1.0])
    np.testing.assert_array_equal(session.run([total, read(out)])[1], [1, 2])
    session.run(again)
    values = session.run([total, read(out), build("VariableShape", out)])
    assert values[0] == 15
    np.testing.assert_array_equal(values[1], [2, 3])
    assert values[2].tolist() == [2]
