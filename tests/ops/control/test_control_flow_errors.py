"""What a user is told of a wrong conditional or loop: in three parts, with the lines of function and call."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

PARTS = r"(.|\n)*Given: (.|\n)*Expected: (.|\n)*Instead: (.|\n)*"


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def _lines(*marks):
    """A pattern for the lines of this file that end in the comments ``# <mark>``, in this order."""
    with open(__file__) as file:
        numbers = {line.rsplit("# ", 1)[1].strip(): i for i, line in enumerate(file, 1) if line.count("  # ") == 1}
    return r"(.|\n)*".join(rf"test_control_flow_errors\.py\", line {numbers[mark]}\b" for mark in marks)


def _branch_pair():
    def one():  # first branch
        return tf.constant(1.0), tf.constant(2.0)

    def other():  # other branch
        return tf.constant(1.0)

    tf.cond(tf.placeholder(tf.bool, []), one, other)  # call of cond


def _branch_dtypes():
    def one():  # first dtype
        return tf.constant(1.0)

    def other():  # other dtype
        return tf.constant(1)

    tf.cond(tf.placeholder(tf.bool, []), one, other)  # call for dtypes


def _too_few():
    def body(i, x):  # body that forgets
        return i + 1

    tf.while_loop(lambda i, x: i < 3, body, (0, 1.0))  # call that gets too few


def _other_dtype():
    def body(i, x):  # body of another dtype
        return i + 1, tf.cast(x, tf.float64)

    tf.while_loop(lambda i, x: i < 3, body, (0, 1.0))  # call for another dtype


def _other_shape():
    def body(i, x):  # body that grows
        return i + 1, tf.concat([x, x], 0)

    tf.while_loop(lambda i, x: i < 3, body, (0, tf.zeros([2])))  # call without an invariant


def _broken_invariant():
    def body(i, x):  # body that breaks it
        return i + 1, x[tf.newaxis]

    invariants = (tf.TensorShape([]), tf.TensorShape([None]))
    tf.while_loop(lambda i, x: i < 3, body, (0, tf.zeros([2])), invariants)  # call with an invariant


def _no_bool():
    def condition(i):  # condition that is a number
        return i + 1

    tf.while_loop(condition, lambda i: i + 1, (0,))  # call with a number


@pytest.mark.parametrize(
    ("made", "error", "text", "marks"),
    [
        (_branch_pair, ValueError, "Incompatible return values", ("first branch", "other branch", "call of cond")),
        (_branch_dtypes, ValueError, r"same type\(s\)", ("first dtype", "other dtype", "call for dtypes")),
        (_too_few, ValueError, "Number of inputs and outputs", ("body that forgets", "call that gets too few")),
        (_other_dtype, TypeError, "has type float64", ("body of another dtype", "call for another dtype")),
        (_other_shape, ValueError, r"but has shape \(4,\)", ("body that grows", "call without an invariant")),
        (_broken_invariant, ValueError, "shape_invariants", ("body that breaks it", "call with an invariant")),
        (_no_bool, TypeError, "", ("condition that is a number", "call with a number")),
    ],
)
def test_what_is_wrong_with_the_graph_is_told_with_both_lines(made, error, text, marks):
    with pytest.raises(error, match=rf"{text}{PARTS}{_lines(*marks)}"):
        made()


def _read(array, i):
    return array.read(i)  # the read


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("past", [3, -1])
def test_a_read_past_an_array_is_told_with_the_lines_of_body_and_call(tier, past):
    array = tf.TensorArray(tf.float32, 3).unstack([1.0, 2.0, 3.0])
    offset = tf.placeholder(tf.int32, [])

    def body(i, total):
        return i + 1, total + _read(array, i + offset)

    def twice():
        return tf.while_loop(lambda i, _: i < 1, body, (0, 0.0))[1]  # the loop

    found = tf.cond(offset > 9, lambda: 0.0, twice)  # the conditional
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        assert session.run(found, {offset: 2}) == 3.0
        lines = _lines("the read", "the loop", "the conditional")
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"index {past}{PARTS}{lines}") as told:
            session.run(found, {offset: past})
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_write_past_an_array_in_a_loop(tier):
    count = tf.placeholder(tf.int32, [])

    def body(i, array):
        return i + 1, array.write(i, 1.0)  # the write

    start = tf.TensorArray(tf.float32, 2)
    _, array = tf.while_loop(lambda i, _: i < count, body, (0, start))  # the writing loop
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        np.testing.assert_array_equal(session.run(array.stack(), {count: 2}), [1, 1])
        lines = _lines("the write", "the writing loop")
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"index 2{PARTS}{lines}"):
            session.run(array.stack(), {count: 3})


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_read_past_an_array_of_tensorflow_1(tier):
    index = tf.placeholder(tf.int32, [], name="index")
    handle, flow = build("TensorArrayV3", tf.constant(3), dtype=tf.float32)
    flow = build("TensorArrayScatterV3", handle, tf.range(3), tf.constant([1.0, 2.0, 3.0]), flow)
    false, true = build("Switch", flow, index > -9)
    element = build("TensorArrayReadV3", handle, index, true, dtype=tf.float32, name="element")
    build("Merge", [element, false * 0.0], name="out")
    graph_def = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        tf.import_graph_def(graph_def, name="")  # the import
        assert session.run("out:0", {"index:0": 1}) == 2.0
        lines = rf"'element' \(TensorArrayReadV3\)(.|\n)*{_lines('the import')}"
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"index 4{PARTS}{lines}"):
            session.run("out:0", {"index:0": 4})
