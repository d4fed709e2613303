"""Damaged and hostile graph files: read in time and memory in proportion to their bytes, or refused."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.graph import verify
from anabranch.core.graphdef import expansion, import_graph, import_nodes
from anabranch.core.protos import graph_pb2
from anabranch.core.values import budgets
from anabranch.runtime.plans import hosting


def import_(graph_def):
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")


def test_names_are_compared_for_a_few_unknown_types_only(monkeypatch):
    compared = []
    near = import_nodes.difflib.get_close_matches
    monkeypatch.setattr(
        import_nodes.difflib, "get_close_matches", lambda *args: compared.append(args[0]) or near(*args)
    )
    graph = graph_pb2.GraphDef()
    for i in range(1500):
        graph.node.add(name=f"n{i}", op=f"Foo{i}")
    with pytest.raises(NotImplementedError, match=r"'Foo0', 'Foo1'.*'Foo999'"):
        import_(graph)
    assert len(compared) == import_nodes.MOST_SUGGESTED


def cycle_of(count):
    graph = graph_pb2.GraphDef()
    for i in range(count):
        node = graph.node.add(name=f"n{i}", op="Identity", input=[f"n{(i - 1) % count}"])
        node.attr["T"].type = 1
    return graph


def test_a_long_cycle_is_shown_by_its_ends():
    with pytest.raises(ValueError, match=r"the cycle n0 -> n1 -> .* -> \.\.\. \(4981 more\) -> .*n4999 -> n0") as info:
        import_(cycle_of(5000))
    assert len(str(info.value)) < 1000


def test_a_string_that_is_repeated_without_end_is_refused():
    graph = graph_pb2.GraphDef()
    node = graph.node.add(name="c", op="Const")
    node.attr["dtype"].type = 7
    value = node.attr["value"].tensor
    value.dtype = 7
    value.string_val.extend([b"x", b"y"])
    value.tensor_shape.dim.add(size=2**27)
    with pytest.raises(ValueError, match=r"2 strings that claims the shape \[134217728\]"):
        import_(graph)
    value.tensor_shape.dim[0].size = 3
    import_(graph)


def functions_that_call_each_other(depth, calls=2):
    graph = graph_pb2.GraphDef()
    for level in range(depth + 1):
        function = graph.library.function.add()
        function.signature.name = f"f{level}"
        function.signature.input_arg.add(name="x", type=1)
        function.signature.output_arg.add(name="y", type=1)
        last = "x"
        for i in range(calls):
            node = function.node_def.add(name=f"c{i}", op="PartitionedCall" if level else "Neg", input=[last])
            if level:
                call(node, f"f{level - 1}")
            else:
                node.attr["T"].type = 1
            last = f"c{i}:output:0" if level else f"c{i}:y:0"
        function.ret["y"] = last
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    call(graph.node.add(name="y", op="PartitionedCall", input=["x"]), f"f{depth}")
    return graph


def call(node, name):
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["f"].func.name = name


def with_variables(graph):
    """The same graph whose innermost function draws: no two calls can be one."""
    graph.library.function[0].node_def.add(name="r", op="Const").attr["dtype"].type = 3
    shape = graph.library.function[0].node_def[-1].attr["value"].tensor
    shape.dtype = 3
    shape.tensor_shape.dim.add(size=0)
    draw = graph.library.function[0].node_def.add(name="draw", op="RandomUniform", input=["r:output:0"])
    draw.attr["dtype"].type = 1
    draw.attr["T"].type = 3
    return graph


def test_functions_that_each_call_the_next_twice_are_refused_where_they_are_too_many(monkeypatch):
    graph = with_variables(functions_that_call_each_other(40))
    match = r"(?s)a graph of 86 nodes .* that they make 6597069766654 operations.*at most 24984.*while_loop"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=match):
        import_(graph)
    graph = with_variables(functions_that_call_each_other(4, calls=5))
    monkeypatch.setattr(expansion, "LEAST_SHARED", 0)
    monkeypatch.setattr(expansion, "LEAST", 0)
    monkeypatch.setattr(expansion, "PER_NODE", 50)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"5155 operations.*\n.*at most 1450"):
        import_(graph)
    monkeypatch.setenv(budgets.VARIABLE, str(4 * budgets.MOST))
    import_(graph)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("depth", [10, 12])
def test_calls_of_a_function_that_only_computes_share_a_body(depth, tier):
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        definition = functions_that_call_each_other(depth)
        tf.import_graph_def(definition, name="")
        assert len(graph._operations) == 2 + 3 * (depth + 1)
        verify.verify_graph(graph)
        assert session.run("y:0", {"x:0": [3.0, -1.0]}).tolist() == [3.0, -1.0]
        written = graph.as_graph_def()
        assert {function.signature.name for function in written.library.function} == {
            f"f{level}" for level in range(depth + 1)
        }
        with tf.Graph().as_default() as again:
            tf.import_graph_def(written, name="")
            assert len(again._operations) == 2 + 3 * (depth + 1)


def test_a_shared_body_that_was_changed_is_written_once(monkeypatch):
    monkeypatch.setattr(expansion, "LEAST_SHARED", -1000)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(functions_that_call_each_other(2), name="")
        (negation,) = [op for op in graph._operations if op.name == "y_f/c0_f/c0_f/c0"]
        negation._set_device("/device:CPU:0")
        written = graph.as_graph_def()
        names = [function.signature.name for function in written.library.function]
        assert len(set(names)) == len(names) == 6  # as they were read, and as they are now
        with tf.Graph().as_default():
            tf.import_graph_def(written, name="")
            with tf.Session() as other:
                assert other.run("y:0", {"x:0": 2.0}) == session.run("y:0", {"x:0": 2.0}) == 2.0


def test_what_calls_of_calls_would_execute_is_counted_before_it_is_planned():
    for depth in (20, 60):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            tf.import_graph_def(functions_that_call_each_other(depth), name="")
            match = (
                rf"(?s)the call 'y', .* it takes {3 * (2 ** (depth + 1) - 1)} operations to execute.*at most 1048576"
            )
            with pytest.raises(tf.errors.ResourceExhaustedError, match=match):
                session.run("y:0", {"x:0": 1.0})
            assert len(graph._operations) == 2 + 3 * (depth + 1)


def test_a_gradient_gives_each_call_a_body_of_its_own(monkeypatch):
    monkeypatch.setattr(expansion, "LEAST_SHARED", -1000)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(functions_that_call_each_other(2), name="")
        x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
        assert len(graph._operations) == 2 + 9
        (gradient,) = tf.gradients(tf.sin(y), x)
        verify.verify_graph(graph)
        assert session.run([y, gradient], {x: 0.0}) == [0.0, 1.0]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(functions_that_call_each_other(16), name="")
        match = r"(?s)the call 'y'.*it takes 393213 operations to differentiate or change it.*at most 16384"
        with pytest.raises(tf.errors.ResourceExhaustedError, match=match):
            tf.gradients(graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0"))


def test_calls_with_inputs_of_other_shapes_share_no_body_but_the_last(monkeypatch):
    monkeypatch.setattr(expansion, "LEAST_SHARED", -1000)
    definition = functions_that_call_each_other(1)
    del definition.node[:]
    for i in range(7):
        placeholder = definition.node.add(name=f"x{i}", op="Placeholder")
        placeholder.attr["dtype"].type = 1
        placeholder.attr["shape"].shape.dim.add(size=i % 6)
        call(definition.node.add(name=f"y{i}", op="PartitionedCall", input=[f"x{i}"]), "f1")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(definition, name="")
        shapes = [graph.get_tensor_by_name(f"y{i}:0").shape for i in range(7)]
        assert [shape.as_list() if shape.ndims else None for shape in shapes] == [[0], [1], [2], None, None, None, [0]]
        verify.verify_graph(graph)
        for i in range(7):
            assert session.run(f"y{i}:0", {f"x{i}:0": [1.0] * (i % 6)}).tolist() == [1.0] * (i % 6)


def test_each_call_costs_the_same(monkeypatch):
    asked = []
    own = hosting.needs_host
    monkeypatch.setattr(hosting, "needs_host", lambda *args: asked.append(1) or own(*args))
    counts = []
    for depth in (5, 7):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            tf.import_graph_def(functions_that_call_each_other(depth), name="")
            asked.clear()
            assert session.run("y:0", {"x:0": 3.0}) == 3.0
            counts.append(len(asked))
    assert counts[1] < 8 * counts[0]  # four times as many calls, each asked about once for each that holds it


def test_a_body_s_names_are_compared_with_no_others(monkeypatch):
    taken = []
    own = import_graph._Import._unique_names
    monkeypatch.setattr(
        import_graph._Import, "_unique_names", lambda self, *args: taken.append(args[2]) or own(self, *args)
    )
    import_(functions_that_call_each_other(3))
    assert [body is None for body in taken].count(True) == 1
    assert len(taken) == 16
