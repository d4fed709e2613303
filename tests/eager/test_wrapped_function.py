"""Traced functions called in graphs and in other functions, and `tf.wrap_function`; values as TensorFlow 1.15.5 has."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import wrapped_function

SCALAR = tf.TensorSpec([], tf.float32)


def _variable(value: Any) -> Any:
    return tf.Variable(value, use_resource=True)


# ------------------------------------------------------------------------------------------ traced functions in graphs
def test_a_traced_function_is_called_in_another_function_with_its_effects() -> None:
    v = _variable(1.0)

    @tf.function
    def add(x: Any) -> Any:
        v.assign_add(x)
        return v * 2.0

    traced = add.get_concrete_function(SCALAR)

    @tf.function
    def twice(x: Any) -> Any:
        return traced(x), traced(x), v.read_value()

    assert [float(y) for y in twice(tf.constant(3.0))] == [8.0, 14.0, 7.0]
    assert float(v.read_value()) == 7.0


def test_gradients_go_through_a_traced_function_in_another() -> None:
    v = _variable(7.0)
    traced = tf.function(lambda x: x * x * v).get_concrete_function(SCALAR)
    outer = tf.function(lambda x: traced(x) + traced(2.0 * x))
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)
    assert float(y) == 140.0
    assert [float(slope) for slope in tape.gradient(y, [x, v])] == [140.0, 20.0]


def test_a_traced_function_keeps_its_own_gradient_where_it_is_called() -> None:
    @tf.custom_gradient
    def odd(x: Any) -> Any:
        return x * 2.0, lambda slope: slope * 100.0

    traced = tf.function(odd).get_concrete_function(SCALAR)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(3.0)
        y = traced(x)
        assert session.run([y, tf.gradients(y, x)[0]]) == [6.0, 100.0]


def test_a_traced_function_is_called_in_a_branch() -> None:
    v = _variable(7.0)
    traced = tf.function(lambda x: x * x * v).get_concrete_function(SCALAR)
    chosen = tf.function(lambda x, p: tf.cond(p, lambda: traced(x), lambda: -traced(x)))
    x = tf.constant(2.0)
    assert [float(chosen(x, tf.constant(p))) for p in (True, False)] == [28.0, -28.0]


def test_a_traced_function_in_a_graph_of_a_session() -> None:
    v = _variable(7.0)
    traced = tf.function(lambda x: 2.0 * x).get_concrete_function(tf.TensorSpec([None], tf.float32))
    with_variable = tf.function(lambda x: x * v).get_concrete_function(SCALAR)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None])
        y = traced(x)
        found = session.run([y, tf.gradients(y, x)[0]], {x: [1.0, 2.0]})
        np.testing.assert_array_equal(found, [[2.0, 4.0], [2.0, 2.0]])
        with pytest.raises(RuntimeError, match="Attempting to capture an EagerTensor"):
            with_variable(tf.constant(1.0))
        with pytest.raises(ValueError, match="reshape it"):
            traced(tf.zeros([2, 2]))


# -------------------------------------------------------------------------------------------------------- wrap_function
def _wrapped() -> Any:
    def function(x: Any, y: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0))
        tf.assign_add(w, 1.0)
        z = tf.identity(w * x, name="z")
        return {"z": z, "sum": z + y, "none": None}

    return tf.wrap_function(function, [SCALAR, SCALAR])


def test_a_wrapped_function_runs_only_what_its_results_need() -> None:
    wrapped = _wrapped()
    found = wrapped(tf.constant(2.0), tf.constant(1.0))
    assert {key: None if value is None else float(value) for key, value in found.items()} == {
        "z": 6.0,
        "sum": 7.0,
        "none": None,
    }
    (variable,) = wrapped.graph.variables
    assert (variable.name, float(variable.numpy())) == ("w:0", 3.0)
    assert wrapped.graph.get_collection("trainable_variables") == [variable]


def test_parts_of_a_wrapped_function_are_functions_with_its_variables() -> None:
    wrapped = _wrapped()
    part = wrapped.prune(wrapped.inputs[0], "z:0")
    assert float(part(tf.constant(5.0))) == 15.0
    (write,) = [op.name for op in wrapped.graph.get_operations() if op.type == "AssignAddVariableOp"]
    assert wrapped.prune([], [write])() == [None]
    assert wrapped.prune([], write)() is None
    assert float(part(tf.constant(5.0))) == 25.0
    outer = tf.function(lambda x: part(x) + 1.0)
    with tf.GradientTape() as tape:
        y = outer(tf.constant(7.0))
    assert float(y) == 36.0
    assert [float(slope) for slope in tape.gradient(y, list(wrapped.graph.variables))] == [7.0]
    with tf.GradientTape() as tape:
        y = part(tf.constant(7.0))
    assert [float(slope) for slope in tape.gradient(y, list(wrapped.graph.variables))] == [7.0]
    assert float(wrapped.graph.variables[0].numpy()) == 5.0  # no derivative has run the write


def test_order_within_a_wrapped_function_is_that_of_control_edges() -> None:
    def function(x: Any, add: bool) -> Any:
        v = tf.Variable(5.0)
        op = v.assign_add(x) if add else v.assign_sub(x)
        with tf.control_dependencies([op]):
            return v.read_value()

    up, down = (tf.wrap_function(function, [SCALAR, add]) for add in (True, False))
    assert [float(up(1.0)), float(up(1.0)), float(down(1.0)), float(down(1.0))] == [6.0, 7.0, 4.0, 3.0]


def test_what_cannot_be_wrapped_or_pruned_is_refused() -> None:
    with pytest.raises(ValueError, match="Unable to lift tensor"):
        tf.wrap_function(lambda x: tf.Variable(x * 2.0) + x, [SCALAR])
    wrapped = _wrapped()
    operation = wrapped.graph.get_operations()[0].name
    with pytest.raises(ValueError, match="Feeds must be tensors"):
        wrapped.prune([operation], "z:0")
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError, match="from this graph"):
        wrapped.prune([], other)
    with pytest.raises(TypeError, match="Expected argument names"):
        wrapped(tf.constant(1.0))


def test_variables_of_a_graph_that_is_imported_live_in_the_process(tmp_path: pathlib.Path) -> None:
    prefix = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        w = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
        local = tf.get_variable(
            "local", initializer=3.0, use_resource=True, trainable=False, collections=["local_variables"]
        )
        tf.identity(x * w + local, name="out")
        saver = tf.train.Saver([w])
        session.run([w.initializer, local.initializer, w.assign([5.0, 6.0])])
        session.run(w.assign([5.0, 6.0]))
        saver.save(session, prefix)
        initializers = [w.initializer.name, local.initializer.name]

    def imported() -> None:
        tf.train.import_meta_graph(f"{prefix}.meta")

    first, second = tf.wrap_function(imported, []), tf.wrap_function(imported, [])
    for model in (first, second):
        model.prune([], initializers)()
    first.prune(["save/Const:0"], "save/restore_all")(tf.constant(prefix))
    ones = tf.ones([2])
    found = [model.prune(["x:0"], "out:0")(ones).numpy().tolist() for model in (first, second)]
    assert found == [[8.0, 9.0], [4.0, 5.0]]
    graph = first.graph
    assert [v.name for v in graph.get_collection("local_variables")] == ["local:0"]
    assert [v.numpy().tolist() for v in graph.get_collection("trainable_variables")] == [[5.0, 6.0]]


def test_references_of_a_graph_that_is_imported_are_each_functions_own(tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default() as graph:
        v = tf.Variable(2.0, name="v", use_resource=False)
        tf.identity(v.assign_add(1.0), name="more")
    init = v.initializer.name
    functions = [tf.wrap_function(lambda: tf.import_graph_def(graph.as_graph_def(), name=""), []) for _ in range(2)]
    for function in functions:
        function.prune([], init)()
    more = [function.prune([], "more:0") for function in functions]
    assert [float(more[i]()) for i in (0, 0, 1)] == [3.0, 4.0, 3.0]


def test_functions_of_one_graph_share_variables_by_their_names() -> None:
    def made(value: int, combine: Any) -> Any:
        def function(x: Any) -> Any:
            with tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
                v = tf.get_variable("v", [], tf.int32, initializer=tf.constant_initializer(value))
            return combine(v, x)

        return function

    graph = wrapped_function.WrappedGraph()
    signature = [tf.TensorSpec([], tf.int32)]
    add = graph.wrap_function(made(3, lambda v, x: v + x), signature, "add")
    write = graph.wrap_function(made(4, lambda v, x: (v.assign(x).op, v)[0]), signature, "write")
    assert int(add(tf.constant(7))) == 10
    assert write(tf.constant(20)) is None
    assert int(add(tf.constant(7))) == 27
    assert list(graph.variables) == ["shared/v"]
    assert list(graph.functions) == ["add", "write"]


def test_a_function_of_a_graph_def() -> None:
    traced = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([None, 2], tf.float32)).graph
    revived = wrapped_function.function_from_graph_def(
        traced.as_graph_def(), traced.inputs[0].name, traced.outputs[0].name
    )
    np.testing.assert_array_equal(revived(tf.ones([1, 2])).numpy(), [[2.0, 2.0]])
