"""Functions of a graph: ``tf.Defun``."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.verify import verify_graph


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found
        verify_graph(graph)


def test_calls(session):
    @tf.Defun(tf.float32, tf.float32, func_name="Poly")
    def poly(x, y):
        return x * x + y, x - y

    a, b = poly(2.0, 3.0)
    assert (a.op.type, a.op.name) == ("PartitionedCall", "Poly")
    c, _ = poly(a, b, name="again")
    assert c.op.name == "again"
    assert session.run([a, b, c]) == [7.0, -1.0, 48.0]
    assert tf.gradients(c, a)[0] is not None
    assert (poly.name, poly.declared_input_types) == ("Poly", [tf.float32, tf.float32])


def test_types_and_shapes_of_the_call(session):
    @tf.Defun()
    def double(x):
        return x + x

    assert double(tf.constant([1, 2])).shape.as_list() == [2]
    assert session.run([double(tf.constant(3)), double(tf.constant("a"))]) == [6, b"aa"]


def test_values_from_outside(session):
    v = tf.Variable(3.0)
    x = tf.placeholder(tf.float32, [])

    @tf.Defun(tf.float32)
    def f(y):
        return y * v + x

    z = f(2.0)
    session.run(v.initializer)
    assert session.run([z, *tf.gradients(z, [v, x])], {x: 1.0}) == [7.0, 2.0, 1.0]


def test_effects_without_results(session):
    v = tf.Variable(1.0)

    @tf.Defun(tf.float32)
    def add(y):
        tf.assign_add(v, y)

    call = add(2.0)
    assert isinstance(call, tf.Operation)
    session.run(v.initializer)
    session.run(call)
    assert session.run(v) == 3.0


def test_a_function_as_the_gradient(session):
    @tf.Defun(tf.float32, tf.float32)
    def backward(x, grad):
        return grad * x * 100.0

    @tf.Defun(tf.float32, grad_func=backward)
    def forward(x):
        return tf.exp(x)

    x = tf.constant(2.0)
    assert session.run(tf.gradients(forward(x), x)) == [200.0]
    assert forward.grad_func_name == "backward"


def test_a_python_function_as_the_gradient(session):
    shift = tf.constant(1.0)

    @tf.Defun(tf.float32, tf.float32, python_grad_func=lambda op, grad: [grad * op.inputs[1], None])
    def forward(x, y):
        return x * y * y + shift

    x, y = tf.constant(2.0), tf.constant(5.0)
    z = forward(x, y)
    assert session.run(tf.gradients(z, [x])) == [5.0]
    assert tf.gradients(z, [y]) == [None]


def test_in_loops_and_conditionals(session):
    @tf.Defun(tf.float32)
    def f(x):
        return tf.cond(x > 1.0, lambda: x * 2.0, lambda: x + 1.0)

    x = tf.constant(0.5)
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, f(y)), (0, x))
    assert session.run([y, *tf.gradients(y, x)]) == [6.0, 4.0]


def test_shapes_of_results():
    with tf.Graph().as_default():

        @tf.Defun(tf.float32, shape_func=lambda op: [[7]])
        def f(x):
            return tf.reshape(tf.placeholder_with_default(x, None), [-1])

        assert f(np.zeros(7, np.float32)).shape.as_list() == [7]


def test_the_definition():
    @tf.Defun(tf.float32, out_names=["result"])
    def f(x):
        return x * 2.0

    proto = f.definition
    assert [arg.name for arg in proto.signature.input_arg] == ["arg0"]
    assert [arg.name for arg in proto.signature.output_arg] == ["result"]
    assert dict(proto.ret) == {"result": "mul:z:0"}


def plain(x, y):
    return x


REFUSED = {
    "no function": (lambda: tf.Defun()(3), "must be callable"),
    "defaults": (lambda: tf.Defun()(lambda x, y=1: x), "argument defaults or keywords"),
    "too many types": (lambda: tf.Defun(tf.int32, tf.int32, tf.int32)(plain), "fewer arguments than the number"),
    "too few arguments": (
        lambda: tf.Defun(tf.int32, tf.int32)(plain)(1),
        "arguments: 2, received: 1",
    ),
    "another argument": (lambda: tf.Defun(tf.int32, tf.int32)(plain)(1, 2, size=3), "Unknown keyword arguments: size"),
    "None": (lambda: tf.Defun(tf.int32)(lambda x: (x, None))(1), "can not return None"),
    "two gradients": (
        lambda: tf.Defun(tf.int32, grad_func=plain, python_grad_func=plain)(lambda x: x),
        "Gradient defined twice",
    ),
    "no types": (lambda: tf.Defun()(plain).definition, "declared input types"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        call()
