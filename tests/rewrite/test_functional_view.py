"""The functional view: what TensorFlow gave, in both tiers; its ops; what it keeps of the user's graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from anabranch.control_flow_ops import merge, switch
from golden.graphs.v1_steps import STEPS, check, meta_graph

import anabranch as tf
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.regions import IrregularError
from anabranch.core.graph.verify import verify_graph
from anabranch.rewrite import functional_view


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", [name for name in STEPS if name != "switches"])
def test_as_tensorflow(name: str, tier: str) -> None:
    check(name, tier, told=f"tier: {tier}")


def test_irregular_graphs_run_by_tokens() -> None:
    check("switches", told="by tokens: 'Merge' does not merge the branches of one condition")


def view_of(name: str, step: int) -> functional_view.View:
    """The view of a step of a recorded graph, which must be well formed."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph(name).graph_def, name="")
        fetches = [graph.as_graph_element(item) for item in STEPS[name][step]["fetches"]]
        feeds = [graph.as_graph_element(item) for item in STEPS[name][step]["feeds"]]
        found = functional_view.view(graph, fetches, feeds)
    verify_graph(found.graph)
    return found


@pytest.mark.parametrize("name", [name for name in STEPS if name != "switches"])
def test_views_are_well_formed(name: str) -> None:
    for step in range(len(STEPS[name])):
        view_of(name, step)


def kinds(ops: list[Operation]) -> dict[str, int]:
    """How many ops of each type, bodies included."""
    found: dict[str, int] = {}
    for op in ops:
        found[op.type] = found.get(op.type, 0) + 1
    return found


def test_one_conditional_for_each_stage() -> None:
    """The two conditionals of a layer follow each other; those of the gradient come after."""
    found = kinds(view_of("batch_norm", 1).graph.root.operations)
    assert found.get("If", 0) + found.get("StatelessIf", 0) == 8
    assert "Switch" not in found
    alone = kinds(view_of("batch_norm", 3).graph.root.operations)
    assert alone.get("If", 0) + alone.get("StatelessIf", 0) == 4


def test_constant_predicates_leave_no_conditional() -> None:
    found = kinds(view_of("cond_constant", 0).graph._operations)
    assert "StatelessIf" not in found
    assert "Log" not in found  # of the branch that is never taken
    assert found["Exp"] == 1


def test_stacks_are_lists() -> None:
    found = view_of("while", 1)
    counts = kinds(found.graph._operations)
    assert counts["StatelessWhile"] == 2
    assert counts["TensorListPushBack"] == counts["TensorListPopBack"] > 0
    forward, backward = (op for op in found.graph.root.operations if op.type == "StatelessWhile")
    assert forward._id < backward._id
    (first, _) = (use.body for use in bodies_of(forward))
    assert first.outputs[0].op.type == "Less"


def test_names_sites_and_originals_stay() -> None:
    found = view_of("cond_effects", 1)
    op = found.graph.get_operation_by_name("cond/AssignAdd")
    user = found.user_op(op)
    assert user is not op
    assert (user.name, user.type) == (op.name, op.type)
    assert op.user_site is user.user_site


def test_shapes_of_variables_that_change() -> None:
    found = view_of("while_shapes", 0)
    (loop,) = (op for op in found.graph.root.operations if op.type == "StatelessWhile")
    shapes = [output.shape.as_list() for output in loop.outputs]
    assert [None, 2] in shapes
    assert [] in shapes


def test_errors_name_the_users_op() -> None:
    pred = tf.placeholder(tf.bool, [])
    off, on = switch(tf.constant(0.0), pred)
    bad = tf.check_numerics(1.0 / off, "divided")
    found = merge([bad, on]).output
    with tf.Session() as session:
        assert session.run(found, {pred: True}) == 0.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="divided") as caught:
            session.run(found, {pred: False})
    assert caught.value.op is bad.op


def test_fetches_inside() -> None:
    """A tensor of a branch is what tokens tell; an operation of a branch runs if the branch is taken."""
    pred = tf.placeholder(tf.bool, [])
    variable = tf.Variable(1.0)
    off, on = switch(tf.constant(2.0), pred)
    inside = tf.assign_add(variable, on)
    found = merge([off, on * 3.0]).output
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(inside.op, {pred: False})
        assert session.run(variable) == 1.0
        session.run(inside.op, {pred: True})
        assert "tokens" not in session.explain(inside.op, {pred: True})
        assert session.run([found, variable], {pred: True}) == [6.0, 3.0]
        assert session.run(inside, {pred: True}) == 5.0
        assert "is inside of a conditional or loop" in session.explain(inside, {pred: True})


def test_feeds_inside() -> None:
    pred = tf.placeholder(tf.bool, [])
    off, on = switch(tf.constant(2.0), pred)
    middle = on * 3.0
    found = merge([off, middle + 1.0]).output
    with tf.Session() as session:
        assert session.run(found, {pred: True}) == 7.0
        assert session.run(found, {pred: True, middle: 5.0}) == 6.0
        assert "tokens" in session.explain(found, {pred: True, middle: 5.0})  # what is fed is alive in any case


def test_v1_inside_of_bodies() -> None:
    """Control flow of version 1 in a branch of a conditional that holds bodies."""
    pred, other = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [])

    def yes() -> Any:
        off, on = switch(x, other)
        return merge([off + 1.0, on + 2.0]).output

    found = tf.cond(pred, yes, lambda: x * 10.0)
    with tf.Session() as session:
        for p, q, wanted in ((True, True, 7.0), (True, False, 6.0), (False, True, 50.0)):
            assert session.run(found, {pred: p, other: q, x: 5.0}) == wanted


def test_bodies_on_v1() -> None:
    """New conditionals and loops on top of an imported graph."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph("while").graph_def, name="old")
        y, n, x = (graph.get_tensor_by_name(f"old/{name}") for name in ("while/Exit_1:0", "n:0", "x:0"))
        y.set_shape([2])
        _, z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z + y), [0, tf.zeros([2])])
        with tf.Session() as session:
            found, wanted = session.run([z, y], {n: 2, x: [0.5, 0.25]})
            np.testing.assert_allclose(found, 3 * wanted, 1e-6)
            assert "tokens" not in session.explain([z, y], {n: 2, x: [0.5, 0.25]})


def test_imported_twice() -> None:
    """Frames of one name are two loops."""
    with tf.Graph().as_default() as graph:
        for name in ("a", "b"):
            tf.import_graph_def(meta_graph("while").graph_def, name=name)
        names = ["a/while/Exit_1:0", "b/while/Exit_1:0"]
        feeds = {"a/n:0": 1, "b/n:0": 2, "a/x:0": [0.5, 1.0], "b/x:0": [0.5, 1.0]}
        with tf.Session(graph=graph) as session:
            first, second = session.run(names, feeds)
        x = np.array([0.5, 1.0], np.float32)
        once = x * x + np.sin(x)
        np.testing.assert_allclose(first, once, 1e-5)
        np.testing.assert_allclose(second, once * x + np.sin(once), 1e-5)


def test_handles_that_are_chosen_have_no_view() -> None:
    pred = tf.placeholder(tf.bool, [])
    arrays = [build("TensorArrayV3", 2, dtype=tf.float32, element_shape=[]) for _ in range(2)]
    flows = [build("TensorArrayWriteV3", a.handle, 0, tf.constant(float(i)), a.flow) for i, a in enumerate(arrays)]
    handle = merge([switch(arrays[0].handle, pred)[0], switch(arrays[1].handle, pred)[1]]).output
    flow = merge([switch(flows[0], pred)[0], switch(flows[1], pred)[1]]).output
    found = build("TensorArrayReadV3", handle, 0, flow, dtype=tf.float32)
    with pytest.raises(IrregularError, match="is chosen while the step runs"):
        functional_view.view(tf.get_default_graph(), [found], [pred])
    with tf.Session() as session:
        assert [session.run(found, {pred: p}) for p in (False, True)] == [0.0, 1.0]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_what_waits_for_a_conditional_waits_for_what_its_branches_do(tier: str) -> None:
    """``tf.case(exclusive=True)`` of TensorFlow 1: switches and constants wait for the merge of a guarded assertion."""
    ok = tf.placeholder(tf.bool, [], name="ok")
    false, true = switch(ok, ok)
    with tf.control_dependencies([false]):
        text = tf.constant("not allowed")
    guarded = build("Assert", false, [text])
    with tf.control_dependencies([guarded]):
        after = tf.identity(false)
    guard = merge([after, tf.identity(true)]).output
    pred = tf.placeholder(tf.bool, [], name="pred")
    with tf.control_dependencies([guard]):
        if_false, if_true = switch(pred, pred)
        top = tf.constant(5)
    with tf.control_dependencies([tf.identity(if_false)]):
        one = tf.constant(1)
    with tf.control_dependencies([tf.identity(if_true)]):
        two = tf.constant(2)
    either = merge([one, two]).output
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        for fetch, expected in ((either, 2), (top, 5), (guard.op, None)):
            assert session.run(fetch, {ok: True, pred: True}) == expected
            with pytest.raises(tf.errors.InvalidArgumentError, match="not allowed"):
                session.run(fetch, {ok: False, pred: True})


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_arrays_of_strings(tier: str) -> None:
    handle, flow = build("TensorArrayV3", tf.constant(2), dtype=tf.string)
    flow = build("TensorArrayScatterV3", handle, tf.constant([1, 0]), tf.constant(["a", "b"]), flow)
    read = build("TensorArrayReadV3", handle, tf.constant(1), flow, dtype=tf.string)
    whole = build("TensorArrayGatherV3", handle, tf.range(2), flow, dtype=tf.string)
    false, true = switch(read, tf.placeholder_with_default(True, []))
    either = merge([false, tf.string_join([true, "!"])]).output
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        found = session.run([either, whole])
    assert found[0] == b"a!"
    assert found[1].tolist() == [b"b", b"a"]
