"""What an op hands on is looked behind, whichever op of the kind it is: values, handles, invariants of loops."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import opdef
from anabranch.core.graph import body_ops, passing
from anabranch.core.graph.build import build
from anabranch.rewrite import reach

assert dir(tf)  # loads everything that defines ops
TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])
PASSING = sorted(
    name
    for name, item in opdef.all_definitions().items()
    if item.only_passes and not any(spec.is_ref for spec in (*item.inputs, *item.outputs))
)
ALL = pytest.mark.parametrize("name", PASSING)


def through(name: str, tensor: tf.Tensor) -> tf.Tensor:
    """``tensor`` behind an op of this type."""
    listed = opdef.lookup(name).inputs[0].is_list
    found = build(name, [tensor] if listed else tensor)
    return found[0] if isinstance(found, list) else found


def test_kinds() -> None:
    assert {"Identity", "IdentityN", "Snapshot", "StopGradient", "PreventGradient", "GuaranteeConst"} <= set(PASSING)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        checked = tf.check_numerics(x, "text")
        fed = tf.placeholder_with_default(x, [2])
        printed = tf.Print(x, [x])
        assert passing.passed(checked) is None
        assert passing.passed(fed) is None
        assert passing.passed(printed) is None
        assert passing.origin(tf.stop_gradient(tf.identity(x))) is x
        first, second = tf.identity_n([x, checked])
        assert passing.origin(first) is x
        assert passing.origin(second) is checked
        with tf.control_dependencies([checked]):
            late = tf.identity(x)
        assert passing.origin(late) is x
        assert passing.origin(late, waiting=False) is late


@pytest.mark.parametrize("name", [name for name in PASSING if name != "GuaranteeConst"])  # which refuses handles
@TIERS
def test_a_handle_leads_to_its_variable(name: str, tier: str) -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.Variable([1.0, 2.0], use_resource=True)
        handle = through(name, variable.handle)
        assert reach.maker_of(handle) is variable.handle.op
        read = build("ReadVariableOp", handle, dtype=tf.float32)
        more = build("AssignAddVariableOp", handle, tf.constant([1.0, 1.0]))
        with tf.Session(graph=graph, config=tf.SessionOptions(tier=tier)) as session:
            session.run(variable.initializer)
            session.run(more)
            assert session.run(read).tolist() == [2.0, 3.0]


@ALL
@TIERS
def test_a_loop_variable_that_is_handed_on_does_not_change(name: str, tier: str) -> None:
    """The limit of a loop is known, so that a list that grows with it is an array of a program."""
    with tf.Graph().as_default() as graph:
        limit, width = tf.constant(5), tf.placeholder(tf.float32, [3])

        def body(i, most, row, total):
            return i + 1, through(name, most), through(name, row), total + row * tf.cast(i, tf.float32)

        *_, total = tf.while_loop(lambda i, most, *_: i < most, body, [0, limit, width, tf.zeros([3])])
        last = total.op.inputs[0]
        loop, inside = last.op, last.op._attrs["body"]
        stays = {tensor for i, tensor in enumerate(loop._inputs) if body_ops.passes_through(inside, i)}
        assert {limit, width} <= stays
        assert loop._inputs[last.value_index] not in stays
        with tf.Session(graph=graph, config=tf.SessionOptions(tier=tier)) as session:
            assert session.run(total, {width: [1.0, 2.0, 3.0]}).tolist() == [10.0, 20.0, 30.0]


@ALL
def test_gradients_of_what_a_loop_hands_on(name: str) -> None:
    """A value that passes stops its gradient only where the op says so."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2])

        def body(i, row, total):
            return i + 1, through(name, row), total + row * row

        _, row, total = tf.while_loop(lambda i, *_: i < 3, body, [0, x, tf.zeros([2])])
        if name == "PreventGradient":
            with pytest.raises(LookupError, match="Gradient explicitly disabled"):
                tf.gradients(total + row, x)
            return
        (found,) = tf.gradients(total + row, x)
        # Each of the three iterations adds 2 x, the last row 1; what stops gradients leaves those of iteration 0.
        expected = [2.0, 4.0] if name == "StopGradient" else [7.0, 13.0]
        with tf.Session(graph=graph) as session:
            assert session.run(found, {x: [1.0, 2.0]}).tolist() == expected


@ALL
@TIERS
def test_reads_of_references(name: str, tier: str) -> None:
    """What hands a reference on is read where it is consumed; what copies is read when it runs, and what changes the
    gradient is an op of its own.
    """
    definition = opdef.lookup(name)
    if definition.inputs[0].is_list:
        pytest.skip("a list of references is read by the op")
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(1.0, use_resource=False)
        read = through(name, variable._ref())
        plain = definition.passes_gradient and definition.role is None
        assert passing.is_transparent_read(read.op) == plain
        with tf.control_dependencies([tf.assign(variable, 5.0)]):
            later = read + 1.0
        with tf.Session(graph=graph, config=tf.SessionOptions(tier=tier)) as session:
            session.run(variable.initializer)
            assert session.run(later) == (6.0 if plain else 2.0)


def test_frozen_graphs_pass_values_where_handles_were() -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.Variable([1.0, 2.0], use_resource=True)
        read = build("ReadVariableOp", through("Snapshot", variable.handle), dtype=tf.float32)
        output = tf.identity(read, name="output")
        with tf.Session(graph=graph) as session:
            session.run(variable.initializer)
            frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["output"])
    assert "ReadVariableOp" not in {node.op for node in frozen.node}
    with tf.Graph().as_default() as graph:
        (output,) = tf.import_graph_def(frozen, return_elements=["output:0"], name="")
        with tf.Session(graph=graph) as session:
            assert session.run(output).tolist() == [1.0, 2.0]


def test_training_nodes_are_what_only_hands_on() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = x
        for name in PASSING:
            if not opdef.lookup(name).inputs[0].is_list:
                y = through(name, y)
        y = tf.placeholder_with_default(tf.check_numerics(y, "text"), [2], name="fed")
        tf.square(y, name="output")
    left = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    assert [node.op for node in left.node] == ["Placeholder", "PlaceholderWithDefault", "Square"]
    assert np.array_equal([list(node.input) for node in left.node][1:], [["x"], ["fed"]])
