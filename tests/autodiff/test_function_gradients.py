"""Graphs in which TensorFlow 1 differentiated a function: their `SymbolicGradient` nodes are calls once imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

X, Y = np.array([1.0, 2.0, 3.0], np.float32), np.array([4.0, 5.0, 6.0], np.float32)


def graph_of(*functions: Any, takes: list[Any], gives: list[Any], of: str) -> tf.GraphDef:
    """A graph with placeholders for what a gradient takes, and the gradient of a function by name."""
    with tf.Graph().as_default() as graph:
        for function in functions:
            function(*[tf.placeholder(kind) for kind in function.declared_input_types])
        library = graph.as_graph_def().library
    proto = tf.GraphDef()
    proto.versions.producer = 134
    proto.library.CopyFrom(library)
    for i, kind in enumerate(takes):
        proto.node.add(name=f"x{i}", op="Placeholder").attr["dtype"].type = kind.as_datatype_enum
    node = proto.node.add(name="gradient", op="SymbolicGradient", input=[f"x{i}" for i in range(len(takes))])
    node.attr["f"].func.name = of
    for key, kinds in (("Tin", takes), ("Tout", gives)):
        node.attr[key].list.type.extend([kind.as_datatype_enum for kind in kinds])
    return proto


def run(proto: tf.GraphDef, tier: str, *fed: np.ndarray) -> list[np.ndarray]:
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        (op,) = tf.import_graph_def(proto, return_elements=["gradient"], name="")
        again = graph.as_graph_def()
        values = session.run(op.outputs, {f"x{i}:0": value for i, value in enumerate(fed)})
    with tf.Graph().as_default(), tf.Session() as session:  # what is written is ordinary calls
        (op,) = tf.import_graph_def(again, return_elements=["gradient"], name="")
        for one, other in zip(values, session.run(op.outputs, dict(zip(op.inputs, fed, strict=True))), strict=True):
            np.testing.assert_allclose(one, other, 1e-6)
    return list(values)


@pytest.fixture(params=["interpreted", "compiled"])
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_of_two_arguments_and_two_results(tier: str) -> None:
    @tf.Defun(tf.float32, tf.float32, func_name="f")
    def f(a: Any, b: Any) -> Any:
        return a * tf.sin(b), a + b

    proto = graph_of(f, takes=[tf.float32] * 4, gives=[tf.float32] * 2, of="f")
    by_a, by_b = run(proto, tier, X, Y, X, Y)
    np.testing.assert_allclose(by_a, X * np.sin(Y) + Y, 1e-5)
    np.testing.assert_allclose(by_b, X * X * np.cos(Y) + Y, 1e-5)


def test_of_an_argument_that_is_not_used_and_of_integers(tier: str) -> None:
    @tf.Defun(tf.float32, tf.float32, tf.int32, func_name="f")
    def f(a: Any, b: Any, i: Any) -> Any:
        return tf.gather(a, i), i + 1

    i = np.array([2, 2], np.int32)
    takes = [tf.float32, tf.float32, tf.int32, tf.float32, tf.int32]
    proto = graph_of(f, takes=takes, gives=takes[:3], of="f")
    by_a, by_b, by_i = run(proto, tier, X, Y, i, np.array([1.0, 10.0], np.float32), i)
    np.testing.assert_array_equal(by_a, [0, 0, 11])
    np.testing.assert_array_equal(by_b, [0, 0, 0])
    np.testing.assert_array_equal(by_i, [0, 0])


def test_of_a_function_that_differentiates_another(tier: str) -> None:
    @tf.Defun(tf.float32, func_name="sine")
    def sine(a: Any) -> Any:
        return tf.sin(a)

    @tf.Defun(tf.float32, func_name="f")
    def f(a: Any) -> Any:
        return sine(a) * a

    proto = graph_of(f, sine, takes=[tf.float32] * 2, gives=[tf.float32], of="f")
    (function,) = [item for item in proto.library.function if item.signature.name == "f"]
    (call,) = [node for node in function.node_def if "f" in node.attr]
    call.op = "SymbolicGradient"  # now f(a) = cos(a) * a * a: the call has a as the result's gradient as well
    call.input.append(call.input[0])
    call.attr["Tin"].list.type.append(1)
    (by_a,) = run(proto, tier, X, np.ones(3, np.float32))
    np.testing.assert_allclose(by_a, 2 * X * np.cos(X) - X**2 * np.sin(X), 1e-5)


def test_of_a_function_with_a_gradient_of_its_own(tier: str) -> None:
    @tf.Defun(tf.float32, func_name="f")
    def f(a: Any) -> Any:
        return a * a

    @tf.Defun(tf.float32, tf.float32, func_name="rule")
    def rule(a: Any, dy: Any) -> Any:
        return dy * 7.0 + a

    proto = graph_of(f, rule, takes=[tf.float32] * 2, gives=[tf.float32], of="f")
    proto.library.gradient.add(function_name="f", gradient_func="rule")
    (by_a,) = run(proto, tier, X, Y)
    np.testing.assert_allclose(by_a, Y * 7 + X, 1e-6)
