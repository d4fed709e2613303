"""Copies of operations in other graphs, and marks for a compiler."""

from __future__ import annotations

import pytest

import anabranch as tf

copying = tf.contrib.copy_graph


def test_copies_compute_what_their_models_compute() -> None:
    with tf.Graph().as_default():
        w = tf.Variable([2.0, 3.0], name="w")
        frozen = tf.Variable(1.0, trainable=False, name="frozen")
        x = tf.placeholder(tf.float32, [2], name="x")
        product = w * x
        with tf.control_dependencies([tf.no_op(name="before")]):
            y = tf.add(product, frozen, name="y")
        tf.add_to_collection("ends", y)
    second = tf.Graph()
    variables = [copying.copy_variable_to_graph(each, second, "copied") for each in (w, frozen)]
    z = copying.copy_op_to_graph(y, second, variables, "copied")
    assert z.graph is second
    assert z.name == "copied/y:0"
    assert second.get_collection("copied/ends") == [z]
    assert [each.name for each in second.get_collection("trainable_variables")] == ["copied/w:0"]
    assert [op.name for op in z.op.control_inputs] == ["copied/before"]
    assert copying.copy_op_to_graph(y, second, variables, "copied") is z
    assert copying.get_copied_op(y, second, "copied") is z
    with tf.Session(graph=second) as session:
        session.run([each.initializer for each in variables])
        fed = copying.get_copied_op(x, second, "copied")
        assert session.run(z, {fed: [10.0, 20.0]}).tolist() == [21.0, 61.0]


def test_what_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="is not a Variable"):
        copying.copy_variable_to_graph(tf.constant(1.0), tf.Graph())
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name="v")
        with pytest.raises(TypeError, match="Could not copy instance"):
            copying.copy_op_to_graph(v, tf.Graph(), [])


def test_operations_are_marked_for_a_compiler() -> None:
    scope = tf.contrib.compiler.jit.experimental_jit_scope
    with tf.Graph().as_default():
        with scope():
            a = tf.constant(1.0)
            with scope(lambda node: node.op == "Const", separate_compiled_gradients=True):
                b = tf.constant(2.0)
                c = b + a
        with scope(False):
            d = tf.constant(3.0)
        e = tf.constant(4.0)
        assert [x.op.get_attr("_XlaScope") for x in (a, b, c, d)] == [b"jit_scope_0"] * 3 + [b"jit_scope_1"]
        assert a.op.get_attr("_XlaCompile")
        assert not d.op.get_attr("_XlaCompile")
        assert b.op.get_attr("_XlaSeparateCompiledGradients")
        assert "_XlaScope" not in e.op.node_def.attr
        with tf.Session() as session:
            assert session.run(c + d) == 6.0


def test_a_function_is_compiled() -> None:
    ran = tf.contrib.compiler.xla.compile(lambda x, y: (x + y, tf.no_op()), [1.0, tf.constant(2.0)])
    with tf.Session() as session:
        assert session.run(ran) == [3.0]
    assert [op.type for op in ran[0].op.control_inputs] == ["NoOp"]
    with pytest.raises(TypeError, match="a list of arguments"):
        tf.contrib.compiler.xla.compile(tf.identity, 1.0)
