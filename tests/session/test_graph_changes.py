"""What a graph that grows costs the steps that are there, and what changes of its operations do to them."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import ops
from anabranch.core.graph import body_ops
from anabranch.core.graph.build import build
from anabranch.runtime import worker as workers
from anabranch.runtime.fast_path import fast_step
from anabranch.runtime.interpreter import body_plans
from anabranch.runtime.plans import plan


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def plans(monkeypatch):
    """The plans that are made, those of nested bodies included."""
    made = []

    class Counted(plan.Plan):
        def __init__(self, *args, **options):
            made.append(self)
            super().__init__(*args, **options)

    monkeypatch.setattr(workers, "Plan", Counted)
    monkeypatch.setattr(body_plans, "Plan", Counted)
    return made


@pytest.fixture(params=["interpreted", "compiled"])
def session(g, request):
    with tf.Session(graph=g, config=tf.SessionOptions(tier=request.param)) as found:
        yield found


# ------------------------------------------------------------------------------------------------------------ additions
def _unrelated_op(g, i):
    tf.constant(float(i))


def _unrelated_op_with_a_shape(g, i):
    tf.placeholder(tf.float32).set_shape([i])


def _consumer_of_the_result(g, i):
    tf.identity(g.get_tensor_by_name("y:0"))


def _control_inputs_of_a_new_op(g, i):
    tf.no_op()._add_control_input(g.get_operation_by_name("y"))


def _attribute_device_and_input_of_a_new_op(g, i):
    op = tf.identity(g.get_tensor_by_name("y:0")).op
    op._set_attr("_mark", i)
    op._set_device("/cpu:0")
    op._update_input(0, g.get_tensor_by_name("x:0"))


def _new_variable(g, i):
    tf.Variable(float(i), name="v")


def _gradient(g, i):
    assert tf.gradients(g.get_tensor_by_name("y:0"), g.get_tensor_by_name("x:0"))[0] is not None


def _new_loop_with_its_gradient(g, i):
    x = g.get_tensor_by_name("x:0")
    _, y = tf.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, y * x), (0, x))
    assert tf.gradients(y, x)[0] is not None


def _new_conditional(g, i):
    x = g.get_tensor_by_name("x:0")
    with tf.control_dependencies([g.get_operation_by_name("y")]):
        inside = tf.cond(x > 0.0, lambda: x * 2.0, lambda: x)
    assert tf.gradients(inside, x)[0] is not None


def _second_maker_of_a_variable(g, i):
    build("VariableV2", shape=[], dtype=tf.float32, shared_name="w", name=f"again{i}")


def _import(g, i):
    with tf.Graph().as_default() as other:
        tf.identity(tf.constant(1.0), name="inside")
    tf.import_graph_def(other.as_graph_def(), name=f"part{i}")


ADDITIONS = [
    _unrelated_op,
    _unrelated_op_with_a_shape,
    _consumer_of_the_result,
    _control_inputs_of_a_new_op,
    _attribute_device_and_input_of_a_new_op,
    _new_variable,
    _gradient,
    _new_loop_with_its_gradient,
    _new_conditional,
    _second_maker_of_a_variable,
    _import,
]


@pytest.mark.parametrize("add", ADDITIONS)
def test_additions_leave_plans_and_the_short_way_alone(g, session, plans, add, monkeypatch):
    x = tf.placeholder(tf.float32, [], name="x")
    w = tf.Variable(3.0, name="w")
    y = tf.add(tf.multiply(x, x), w, name="y")
    session.run(w.initializer)
    for _ in range(3):
        assert session.run(y, {x: np.float32(2.0)}) == 7.0
    assert len(plans) == 2
    hot = []
    run = fast_step.FastStep.run
    monkeypatch.setattr(fast_step.FastStep, "run", lambda *args: hot.append(True) or run(*args))
    for i in range(4):
        add(g, i)
        assert session.run(y, {x: np.float32(2.0)}) == 7.0
        assert len(plans) == 2
    assert len(hot) == (4 if session._options.tier == "compiled" else 0)


def test_additions_leave_the_plans_of_bodies_alone(g, plans):
    x = tf.placeholder(tf.float32, [])
    _, y = tf.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, y * x), (0, x))
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        assert session.run(y, {x: 2.0}) == 16.0
        made = len(plans)
        assert made == 3  # of the step, the condition and the body
        for i in range(3):
            tf.constant(i)
            assert session.run(y, {x: 2.0}) == 16.0
        assert len(plans) == made


def test_additions_leave_the_plans_of_other_shapes_alone(g, plans):
    x = tf.placeholder(tf.float32, [None])
    y = tf.reduce_sum(x * 2.0)
    with tf.Session() as session:
        for i in range(40):
            tf.constant(i)
            assert session.run(y, {x: np.ones(1 + i % 4, np.float32)}) == 2.0 * (1 + i % 4)
            if i == 8:
                made = len(plans)
        assert len(plans) == made <= 4


# -------------------------------------------------------------------------------------------------------------- changes
def check(session, plans, fetch, feeds, before, change, after):
    """That the step gives ``before``, and ``after`` once ``change`` was made, by a new plan."""
    for _ in range(2):
        np.testing.assert_array_equal(session.run(fetch, feeds), before)
    made = len(plans)
    change()
    for _ in range(2):
        np.testing.assert_array_equal(session.run(fetch, feeds), after)
    assert len(plans) > made


def test_another_input(g, session, plans):
    x = tf.placeholder(tf.float32, [])
    y = tf.multiply(x, 2.0)
    check(session, plans, y, {x: 3.0}, 6.0, lambda: y.op._update_input(1, tf.constant(5.0)), 15.0)


def test_another_input_far_from_the_fetch(g, session, plans):
    x = tf.placeholder(tf.float32, [])
    first = tf.multiply(x, 2.0)
    y = first + 1.0
    check(session, plans, y, {x: 3.0}, 7.0, lambda: first.op._update_input(1, tf.constant(5.0)), 16.0)


@pytest.mark.parametrize("use_resource", [False, True])
def test_another_control_input(g, session, plans, use_resource):
    v = tf.get_variable("v", initializer=0.0, use_resource=use_resource)
    session.run(v.initializer)
    add = v.assign_add(1.0).op
    y = tf.identity(tf.constant(5.0))
    check(session, plans, y, {}, 5.0, lambda: y.op._add_control_input(add), 5.0)
    assert session.run(v) == 2.0


def test_another_attribute(g, session, plans):
    x = tf.placeholder(tf.float32, [2, 2])
    y = tf.matmul(x, x)
    value = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    check(session, plans, y, {x: value}, value @ value, lambda: y.op._set_attr("transpose_a", True), value.T @ value)


def test_another_device(g, session, plans):
    y = tf.constant(1.0) + 1.0
    assert session.run(y) == 2.0
    made = len(plans)
    y.op._set_device("/device:GPU:77")
    with pytest.raises(tf.errors.InvalidArgumentError, match="/device:GPU:77"):
        session.run(y)
    assert len(plans) > made


def test_another_shape(g, session, plans):
    x = tf.placeholder(tf.float32)
    y = tf.reduce_sum(x, axis=-1)
    value = np.ones((2, 3), np.float32)
    check(session, plans, y, {x: value}, [3.0, 3.0], lambda: x.set_shape([None, 3]), [3.0, 3.0])


def test_an_op_inside_a_branch_that_somebody_outside_waits_for(g, session, plans):
    """The branch has it as a control output from then on, though no input of any op that was there has changed."""
    v = tf.get_variable("v", initializer=0.0, use_resource=True)
    inside = []

    def branch():
        inside.append(v.assign_add(1.0).op)
        return tf.constant(2.0)

    x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 0.0, branch, lambda: tf.constant(3.0))
    session.run(v.initializer)

    def wait():
        with tf.control_dependencies(inside):
            tf.no_op()

    session.run(y, {x: 1.0})
    assert session.run(v) == 0.0
    check(session, plans, y, {x: 1.0}, 2.0, wait, 2.0)
    assert session.run(v) == 2.0


@pytest.mark.parametrize("kind", ["loop", "branch"])
def test_a_body_that_its_gradient_grows(g, session, plans, kind):
    x = tf.placeholder(tf.float32, [])
    if kind == "loop":
        _, y = tf.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, tf.sin(y) * x), (0, x))
    else:
        y = tf.cond(x > 0.0, lambda: tf.sin(tf.sin(x) * x), lambda: x)
    before = session.run(y, {x: 2.0})
    made = len(plans)
    made_by = y.op.inputs[0].op
    inputs, outputs = len(made_by.inputs), len(made_by.outputs)
    (gradient,) = tf.gradients(y, x)
    assert (len(made_by.inputs), len(made_by.outputs)) != (inputs, outputs)
    assert session.run(y, {x: 2.0}) == before
    assert len(plans) > made
    derivative = (session.run(y, {x: 2.001}).astype(float) - session.run(y, {x: 1.999})) / 0.002
    np.testing.assert_allclose(session.run(gradient, {x: 2.0}), derivative, rtol=1e-2)


def test_a_body_that_captures_one_more_tensor(g, session, plans):
    """A new op in a body that an op holds gives that op an input."""
    x = tf.placeholder(tf.float32, [])
    offset = tf.placeholder_with_default(10.0, [])
    y = tf.cond(x > 0.0, lambda: x * 2.0, lambda: x * 3.0)
    choice = y.op.inputs[0].op
    first, second = (choice._attrs[name] for name in ("then_branch", "else_branch"))
    assert session.run(y, {x: 2.0}) == 4.0
    made, inputs = len(plans), len(choice.inputs)
    with g.building(first):
        added = tf.add(first.outputs[0], offset)
    assert len(choice.inputs) == inputs + 1
    assert session.run(y, {x: 2.0}) == 4.0
    assert len(plans) > made
    more = body_ops.add_output(choice, [added, second.outputs[0]])
    assert session.run([y, more], {x: 2.0}) == [4.0, 14.0]


def test_ops_taken_out(g, session, plans):
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    unused = tf.identity(y, name="unused")
    assert session.run([y, unused], {x: 1.0}) == [2.0, 2.0]
    assert session.run(y, {x: 1.0}) == 2.0
    made = len(plans)
    body_ops.remove_ops(g, [unused.op])
    assert session.run(y, {x: 1.0}) == 2.0
    assert len(plans) > made
    with pytest.raises(ValueError, match="'unused:0'"):
        session.run("unused:0", {x: 1.0})


def test_an_order_that_is_restored(g, session, plans):
    """Effects run in the order of creation, and an op that takes what is newer goes behind it."""
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    session.run(v.initializer)
    factor = tf.constant(2.0)
    double = build("AssignVariableOp", v.handle, tf.multiply(v.read_value(), factor))
    add = v.assign_add(1.0).op
    result = tf.group(double, add)
    session.run(result)
    assert session.run(v) == 3.0
    made = len(plans)
    later = tf.constant(2.0)
    double.inputs[1].op._update_input(1, later)
    body_ops.disorder(double.inputs[1].op)
    body_ops.restore_order(g)
    assert later.op._id < double.inputs[1].op._id < double._id
    session.run(result)
    assert session.run(v) == 7.0
    assert len(plans) > made


def test_a_change_while_nobody_had_looked_does_not_count(g):
    x = tf.placeholder(tf.float32)
    changes = g._stamp()
    y = tf.identity(x)
    y.set_shape([2])
    assert g._changes == changes
    stamp = g._stamp()
    assert stamp == changes
    y.set_shape([2])  # nothing new
    assert g._changes == changes
    x.set_shape([2])
    assert g._changes == changes + 1


def test_an_import_that_fails_does_not_hide_changes(g, session, plans):
    x = tf.placeholder(tf.float32, [])
    y = tf.multiply(x, 2.0)
    assert session.run(y, {x: 3.0}) == 6.0
    proto = tf.GraphDef()
    proto.node.add(name="a", op="Identity", input=["missing"])
    with pytest.raises(ValueError, match="missing"):
        tf.import_graph_def(proto)
    other = tf.constant(5.0)
    y.op._update_input(1, other)
    assert session.run(y, {x: 3.0}) == 15.0


def test_an_operation_gets_its_inputs_after_it_was_made() -> None:
    """As programs that copy graphs write: the operation of a node first, so that it can be found, then its inputs."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        y = tf.concat([tf.matmul(x, tf.ones([3, 4])), tf.zeros([2, 1])], 1, name="y")
        copies = {}

        def copy(op):
            if op.type == "Placeholder":
                return op
            if op not in copies:
                node = tf.NodeDef()
                node.CopyFrom(op.node_def)
                node.name = f"copied/{op.name}"
                made = copies[op] = tf.Operation(node, graph, [], op._output_types, [], [], None, op.op_def)
                graph._add_op(made)
                made._add_control_inputs([copy(control) for control in op.control_inputs])
                for tensor in op.inputs:
                    made._add_input(copy(tensor.op).outputs[tensor.value_index])
                ops.set_shapes_for_outputs(made)
                graph._record_op_seen_by_control_dependencies(made)
            return copies[op]

        copied = copy(y.op).outputs[0]
        assert copied.name == "copied/y:0"
        assert copied.shape.as_list() == [2, 5]
        assert [one.op.type for one in copied.op.inputs] == [one.op.type for one in y.op.inputs]
        assert copied.op.inputs[0] is not y.op.inputs[0]
        value = np.arange(6, dtype=np.float32).reshape(2, 3)
        for _ in range(3):
            left, right = session.run([y, copied], {x: value})
            np.testing.assert_array_equal(left, right)
        (slope,) = tf.gradients(copied, x)
        np.testing.assert_array_equal(session.run(slope, {x: value}), np.full([2, 3], 4, np.float32))
        again = tf.import_graph_def(graph.as_graph_def(), {"x": tf.constant(value)}, ["copied/y:0"], name="again")
        np.testing.assert_array_equal(session.run(again[0]), left)


def test_an_input_that_is_not_there_yet_is_asked_for() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.constant(2.0)
        op = tf.Operation(tf.NodeDef(op="Neg", name="late", attr=(-x).op.node_def.attr), graph, [])
        with pytest.raises(tf.errors.InvalidArgumentError, match="late/input_0"):
            session.run(op)
        op._add_input(x)
        assert session.run(op.outputs[0]) == -2.0
        with pytest.raises(ValueError, match="a further input for operation 'late'"):
            op._add_input(x)
        with pytest.raises(TypeError, match="cast it"):
            tf.Operation(tf.NodeDef(op="Neg", name="other", attr=(-x).op.node_def.attr), graph, [])._add_input(
                tf.constant(1)
            )
