"""Summaries wait for the end of a step: it stays whole, one program, and changes nothing if one cannot be made."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import opdef


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


def network():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", [3, 2], initializer=tf.ones_initializer())
    y = tf.matmul(x, w)
    loss = tf.reduce_mean(tf.square(y))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    tf.summary.scalar("loss", loss)
    tf.summary.histogram("y", y)
    tf.summary.histogram("weights", w)
    tf.summary.image("picture", tf.reshape(y, [-1, 1, 2, 1]), max_outputs=2)
    return x, w, loss, train, tf.summary.merge_all()


def tags(data):
    return [value.tag for value in tf.Summary.FromString(data).value]


def test_a_step_with_summaries_is_one_program(session):
    x, _, loss, train, merged = network()
    session.run(tf.global_variables_initializer())
    feed = {x: np.ones((2, 3), np.float32)}
    data, value, _ = session.run([merged, loss, train], feed)
    assert tags(data) == ["loss", "y", "weights", "picture/image/0", "picture/image/1"]
    found = {value.tag: value for value in tf.Summary.FromString(data).value}
    assert found["loss"].simple_value == value == 9.0
    assert (found["y"].histo.num, found["y"].histo.sum) == (4, 12)
    assert (found["weights"].histo.num, found["weights"].histo.sum) == (6, 6)
    told = session.explain([merged, loss, train], feed)
    if "tier: compiled" in told:
        assert told.count("    program ") == 1
        program = told.index("    program ")
        assert told.index("weights (HistogramSummary)") < program < told.index("y (HistogramSummary)")
        assert "owns the buffers of w, w/Momentum" in told


@pytest.mark.parametrize(("bad", "told"), [(np.nan, "Nan"), (np.inf, "Infinity")])
def test_a_summary_that_cannot_be_made_leaves_the_step_undone(session, bad, told):
    x, w, _, train, merged = network()
    session.run(tf.global_variables_initializer())
    session.run([merged, train], {x: np.ones((2, 3), np.float32)})
    before = session.run(tf.global_variables())
    given = np.ones((2, 3), np.float32)
    given[1, 0] = bad
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"^{told} in summary histogram for: y") as caught:
            session.run([merged, train], {x: given})
        assert caught.value.op.type == "HistogramSummary"
        for one, other in zip(before, session.run(tf.global_variables()), strict=True):
            np.testing.assert_array_equal(one, other)
    session.run([merged, train], {x: np.ones((2, 3), np.float32)})
    assert not np.array_equal(before[0], session.run(w))


def test_equal_programs_name_their_own_summaries():
    """Executables are shared by what they compute; the message names the op of the graph that ran."""
    for name in ("first", "second"):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            x = tf.placeholder(tf.float32, [3])
            w = tf.Variable(tf.zeros([3]))
            grown = w.assign_add(x)
            summary = tf.summary.histogram(name, x * 2.0)
            session.run(tf.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"Nan in summary histogram for: {name}"):
                session.run([grown, summary], {x: [0, np.nan, 0]})
            np.testing.assert_array_equal(session.run(w), [0, 0, 0])


def test_a_histogram_of_what_the_step_writes(session):
    """Its check reads what a write made: the write is taken back."""
    x = tf.placeholder(tf.float32, [3])
    w = tf.get_variable("w", [3], initializer=tf.zeros_initializer())
    grown = w.assign_add(x)
    summary = tf.summary.histogram("grown", tf.log(grown + 1.0))
    session.run(tf.global_variables_initializer())
    session.run([grown, summary], {x: [1, 2, 3]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Infinity in summary histogram for: grown"):
        session.run([grown, summary], {x: [0, -3, 0]})
    np.testing.assert_array_equal(session.run(w), [1, 2, 3])


def test_a_summary_that_something_waits_for_comes_first(session):
    x = tf.placeholder(tf.float32, [2])
    w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    summary = tf.summary.histogram("x", x * 2.0)
    with tf.control_dependencies([summary]):
        grown = w.assign_add(x)
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Nan in summary histogram"):
        session.run(grown, {x: [np.nan, 0]})
    np.testing.assert_array_equal(session.run(w), [0, 0])


def test_sounds_texts_and_tensors_wait_too():
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        x = tf.placeholder(tf.float32, [2, 8])
        w = tf.get_variable("w", [2, 8], initializer=tf.zeros_initializer())
        grown = w.assign_add(x)
        tf.summary.audio("sound", x * 0.5, 8000, max_outputs=2)
        tf.summary.text("words", tf.constant(["a", "b"]))
        tf.summary.tensor_summary("all", x * 2.0)
        tf.summary.scalar("total", tf.reduce_sum(x))
        merged = tf.summary.merge_all()
        session.run(tf.global_variables_initializer())
        data, _ = session.run([merged, grown], {x: np.ones((2, 8))})
        assert tags(data) == ["sound/audio/0", "sound/audio/1", "words", "all", "total"]
        told = session.explain([merged, grown], {x: np.ones((2, 8))})
        assert told.count("    program ") == 1
        assert "owns the buffers of w" in told


def test_a_summary_whose_check_no_program_can_make_comes_first():
    """The rows that an optimizer puts together have a size of their own in each step."""
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        ids = tf.placeholder(tf.int32, [6])
        w = tf.get_variable("w", [9, 4], initializer=tf.ones_initializer())
        train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(tf.gather(w, ids))))
        (summed,) = [op for op in graph.get_operations() if op.type == "UnsortedSegmentSum"]
        summary = tf.summary.histogram("rows", summed.outputs[0])
        session.run(tf.global_variables_initializer())
        for given, count in (([1, 2, 3, 4, 5, 6], 6), ([1, 1, 1, 2, 2, 3], 3), ([8] * 6, 1)):
            data, _ = session.run([summary, train], {ids: given})
            assert tf.Summary.FromString(data).value[0].histo.num == 4 * count


def test_a_tag_that_is_fed_is_not_what_the_graph_says(session):
    x = tf.placeholder(tf.float32, [])
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    grown = w.assign_add(x)
    merged = tf.summary.merge([tf.summary.scalar("a", x * 2.0), tf.summary.scalar("b", x * 3.0)])
    tag = merged.op.inputs[1].op.inputs[0]
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag a found"):
        session.run([grown, merged], {x: 1.0, tag: "a"})
    assert session.run(w) == 0


def test_a_tag_that_occurs_twice_fails_before_anything_is_written(session):
    x = tf.placeholder(tf.float32, [])
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    grown = w.assign_add(x)
    one = tf.summary.scalar("same", x * 2.0)
    merged = tf.summary.merge([one, tf.summary.merge([one])])
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag same found in summary inputs"):
        session.run([grown, merged], {x: 1.0})
    assert session.run(w) == 0


def test_only_pure_ops_of_the_host_can_be_total():
    with pytest.raises(TypeError, match="total on an op that is not a pure op of the host"):

        class CompiledAndTotal(opdef.Op):
            """An op with a kernel."""

            signature = "x: float -> y: float"
            effect = opdef.PURE
            gradient = opdef.NotDifferentiable("a test")

            def shape(c):
                return c.shapes[0]

            def total(op):
                return True

            def kernel(ctx, inputs, attrs):
                return inputs[0]
