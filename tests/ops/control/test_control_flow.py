"""Ops that hold bodies: how they are built, their shapes, invariants and files."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph import body_ops
from anabranch.core.graph.verify import InvalidGraphError, verify_graph
from anabranch.ops.control.public_dependencies import with_dependencies


@pytest.fixture
def g():
    graph = tf.Graph()
    with graph.as_default():
        yield graph
        verify_graph(graph)


def maker(result):
    """The conditional or loop behind a result."""
    return result.op.inputs[0].op


def kinds(graph):
    return [op.type for op in graph.root.operations]


def reread(graph):
    """The graph from its GraphDef; writing it again gives the same."""
    proto = graph.as_graph_def()
    again = tf.Graph()
    with again.as_default():
        tf.import_graph_def(proto, name="")
    verify_graph(again)
    assert again.as_graph_def() == proto
    return again


def test_a_conditional_without_effects(g):
    x = tf.constant([1.0, 2.0], name="x")
    y = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: tf.concat([x, x], 0))
    op = maker(y)
    assert (op.type, op.name, y.op.name, y.shape.as_list()) == ("StatelessIf", "cond", "cond/Merge", [None])
    then, other = (use.body for use in body_ops.bodies_of(op))
    assert [op.name for op in then.operations] == ["cond/mul/y", "cond/mul/x_capture", "cond/mul"]
    assert then.captures == {x: then.args[0]}
    assert body_ops.outer_of(other.args[0]) is x
    assert reread(g).get_tensor_by_name("cond/Merge:0").shape.as_list() == [None]


def test_a_conditional_with_an_effect(g):
    v = tf.Variable(1.0, name="v")
    tf.cond(tf.constant(True), lambda: tf.assign(v, 2.0), lambda: v.read_value())
    op = g.get_operation_by_name("cond")
    assert op.type == "If"
    then, other = (use.body for use in body_ops.bodies_of(op))
    assert [arg.dtype for arg in then.args] == [arg.dtype for arg in other.args] == [v._ref().dtype]
    assert op.inputs[1] is v._ref()
    assert op.get_attr("Tin") == [tf.float32]
    again = reread(g).get_operation_by_name("cond")
    assert again.get_attr("then_branch").args[0].dtype == v._ref().dtype


def test_branches_by_number(g):
    x = tf.constant(1.0)
    index = tf.placeholder(tf.int32, [])
    assert maker(tf.switch_case(index, [lambda: x, lambda: -x])).type == "StatelessCase"
    v = tf.Variable(1.0, use_resource=True)
    y = tf.switch_case(index, {1: lambda: v.assign_add(x), 0: lambda: x}, default=lambda: x * 3.0)
    assert maker(y).type == "Case"
    assert len(maker(y).get_attr("branches")) == 3
    reread(g)


def test_a_loop(g):
    x = tf.constant([1.0, 2.0])
    i, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])
    op = maker(y)
    assert (op.type, op.name, maker(i)) == ("StatelessWhile", "while", op)
    assert (i.op.name, y.op.name) == ("while/Exit", "while/Exit_1")
    assert y.shape.as_list() == [2]
    condition, body = (use.body for use in body_ops.bodies_of(op))
    assert [arg.dtype for arg in condition.args] == [arg.dtype for arg in body.args]
    assert [body_ops.passes_through(body, k) for k in range(5)] == [False, True, False, False, True]
    assert body_ops.is_invariant(body.args[4])
    assert body_ops.outer_of(body.args[4]) is x
    reread(g)


def test_a_loop_with_an_effect(g):
    v = tf.Variable(0, name="v")
    i = tf.while_loop(lambda i: i < 3, lambda i: tf.assign_add(v, i), [0])
    assert maker(i).type == "While"
    reread(g)


def test_calls(g):
    from anabranch.core.graph.build import build_operation

    x, v = tf.constant(1.0), tf.Variable(1.0)
    for kind, inside in (("PartitionedCall", lambda: x * 2.0), ("StatefulPartitionedCall", lambda: tf.assign(v, x))):
        body = g.new_body("f")
        with g.building(body):
            body.outputs = [tf.identity(inside())]
        op = build_operation(kind, [body_ops.line_up([body])], {"f": body, "Tout": [tf.float32]}, kind)
        body_ops.own(op)
        assert op.outputs[0].shape.as_list() == []
    reread(g)


# ---------------------------------------------------------------------------------------------------------- invariants
BREAKS = {
    "an argument that is missing": (lambda op, then: then.args.pop(), r"has \d arguments for \d inputs"),
    "an output that is missing": (lambda op, then: then.outputs.pop(), r"returns \[\], not \['float32'\]"),
    "another owner": (lambda op, then: setattr(then, "owner", None), "holds, has no owner"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_invariants(name):
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0)
        op = maker(tf.cond(x > 0.0, lambda: x, lambda: -x))
        breaks, text = BREAKS[name]
        breaks(op, op.get_attr("then_branch"))
        with pytest.raises(InvalidGraphError, match=text):
            verify_graph(graph)


def test_growing_keeps_the_order(g):
    x = tf.constant(1.0)
    y = tf.cond(x > 0.0, lambda: x, lambda: -x)
    z = tf.identity(y)
    late = tf.constant(2.0, name="late")
    then = maker(y).get_attr("then_branch")
    with g.building(then):
        grown = then.capture(late)
    assert maker(y).inputs[-1] is late
    assert maker(y).get_attr("else_branch").args[-1].op._attrs["index"] == 1
    with pytest.raises(InvalidGraphError, match="was made after it"):
        verify_graph(g)
    body_ops.restore_order(g)
    assert late.op._id < maker(y)._id < z.op._id
    verify_graph(g)
    assert body_ops.outer_of(grown) is late


def test_an_op_of_a_branch_as_a_control_input(g):
    v = tf.Variable(1.0)
    inner = []

    def branch():
        inner.append(tf.assign_add(v, 1.0).op)
        return tf.constant(1.0)

    y = tf.cond(tf.constant(True), branch, lambda: tf.constant(2.0))
    with tf.control_dependencies(inner):
        n = tf.no_op()
    assert n.control_inputs == [maker(y)]
    assert maker(y).get_attr("then_branch").control_outputs == inner
    again = reread(g).get_operation_by_name("cond")
    assert [op.name for op in again.get_attr("then_branch").control_outputs] == ["cond_then_branch/cond/AssignAdd"]


def test_what_nothing_needs_is_not_written(g):
    v = tf.Variable(1.0)

    def branch():
        tf.assign_add(v, 1.0)
        return tf.constant(1.0)

    tf.cond(tf.constant(True), branch, lambda: tf.constant(2.0))
    functions = {f.signature.name: f for f in g.as_graph_def().library.function}
    assert [node.op for node in functions["cond_true"].node_def] == ["Const"]


def test_captured_reads_are_captured_references(g):
    v = tf.Variable([1.0, 2.0], name="v")
    y = tf.cond(tf.constant(True), lambda: v * 2.0, lambda: v + 1.0)
    assert list(maker(y).inputs) == [maker(y).inputs[0], v._ref()]
    assert maker(y).type == "If"


def test_constants_are_known_inside(g):
    n = tf.constant([2, 3])
    y = tf.cond(tf.constant(True), lambda: tf.zeros(n), lambda: tf.ones(n))
    assert y.shape.as_list() == [2, 3]


def test_shapes_of_resource_variables_are_known_inside(g):
    v = tf.Variable(np.ones((2, 3), np.float32), use_resource=True)
    y = tf.cond(tf.constant(True), lambda: v.read_value(), lambda: v * 2.0)
    assert y.shape.as_list() == [2, 3]


def test_no_control_dependencies_take_ops_out_of_loops_and_branches():
    x = tf.placeholder_with_default(2.0, [])

    def step(i, drawn):
        with tf.control_dependencies(None):
            sample = tf.random_uniform([], name="sample")
            scaled = tf.cond(x > 1, lambda: sample * x, lambda: sample)
            count = tf.cast(i, tf.float32)  # which only the loop has
        return i + 1, drawn.write(i, scaled + 0 * count)

    drawn = tf.while_loop(lambda i, _: i < 4, step, [0, tf.TensorArray(tf.float32, 4)])[1].stack()

    def branch():
        with tf.control_dependencies([x.op]), tf.control_dependencies(None):
            inside = tf.identity(x, name="lifted")
        return inside + 1

    chosen = tf.cond(x > 1, branch, lambda: x)
    graph = tf.get_default_graph()
    lifted = next(op for op in graph.get_operations() if op.name.endswith("lifted"))
    sample = next(op for op in graph.get_operations() if op.name.endswith("sample/RandomUniform"))
    assert lifted.body.is_root
    assert sample.body.is_root
    assert lifted.control_inputs == []
    with tf.Session() as sess:
        first, second = sess.run(drawn), sess.run(drawn)
        assert len(set(first.tolist())) == len(set(second.tolist())) == 1
        assert first[0] != second[0]
        assert sess.run([chosen, lifted.outputs[0]]) == [3.0, 2.0]
        assert sess.run(tf.gradients(chosen, x)) == [1.0]


@pytest.mark.parametrize("value", [3, 2.5, True, "a", [1, 2], np.float32(4)], ids=repr)
def test_a_plain_value_waits_as_a_tensor_does(g, value):
    v = tf.Variable(0)
    result = with_dependencies([tf.assign(v, 5)], value)
    with tf.Session() as session:
        session.run(v.initializer)
        expected = value.encode() if isinstance(value, str) else value
        np.testing.assert_array_equal(session.run(result), expected)
        assert session.run(v) == 5
