"""Functions of a graph: ``tf.Defun``."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook
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
    assert [arg.name for arg in proto.signature.input_arg] == ["x"]
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


# ------------------------------------------------------------------- captured values, definitions, symbolic gradients
def test_values_from_outside_are_inputs_of_the_call_or_computed_in_the_function():
    with tf.Graph().as_default(), tf.Session() as session:
        outside = tf.constant(5.0) + 1.0

        @tf.Defun(tf.float32)
        def captures(x):
            return x + outside

        @tf.Defun(tf.float32, capture_by_value=True)
        def copies(x):
            return tf.cond(x > 0, lambda: x + outside, lambda: x - outside)

        first, second, third = captures(1.0), copies(1.0), copies(-1.0)
        assert captures.captured_inputs == [outside]
        assert copies.captured_inputs == []
        assert len(first.op.inputs) == 2
        assert len(second.op.inputs) == 1
        assert session.run([first, second, third]) == [7.0, 7.0, -7.0]
        given = tf.constant(1.0)
        assert session.run(tf.gradients(copies(given), given)) == [1.0]


def test_what_has_no_value_is_not_captured_by_value():
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, name="fed")
        variable = tf.get_variable("v", [])
        for tensor, words in ((fed, r"placeholder .name:fed, type:Placeholder"), (variable, r"stateful node .name:v")):
            function = tf.Defun(tf.float32, capture_by_value=True)(_plus(tensor))
            with pytest.raises(ValueError, match=f"^Cannot capture a {words}.* by value"):
                function(1.0)


def _plus(tensor):
    return lambda x: x + tensor


def test_definitions_have_the_names_and_the_text_of_the_python_function():
    with tf.Graph().as_default() as graph:

        @tf.Defun(tf.float32, tf.float32, func_name="Product")
        def function(first, second):
            """Multiply."""
            return first * second

        function(1.0, 2.0)
        assert [argument.name for argument in function.definition.signature.input_arg] == ["first", "second"]
        assert function.definition.signature.description == "Multiply."
        assert [item.signature.name for item in graph.as_graph_def().library.function] == ["Product"]
        many = tf.Defun(tf.float32, tf.float32)(lambda *values: values[0])
        assert [argument.name for argument in many.definition.signature.input_arg] == ["values0", "values1"]


def test_names_of_results_and_keywords_are_checked():
    with tf.Graph().as_default():
        function = tf.Defun(tf.float32, out_names=["a", "b"])(lambda x: x)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"^output names must be either empty or equal in size"
        ):
            function(1.0)
        with pytest.raises(ValueError, match=r"^Unknown keyword arguments: other"):
            tf.Defun(tf.float32, other=1.5)(lambda x: x)


def test_symbolic_gradients():
    with tf.Graph().as_default(), tf.Session() as session:
        function = tf.Defun(tf.float32, tf.float32)(lambda x, y: (x * y, x + 2 * y))
        for name in ("Gradient", "_symbolic_gradient"):
            module = "python.ops.functional_ops" if name == "Gradient" else "python.ops.gen_functional_ops"
            gradient = hook.resolve(module, name)
            inputs = [3.0, 4.0, 1.0, 10.0]  # x, y, and gradients of both results
            more = {} if name == "Gradient" else {"Tout": [tf.float32, tf.float32]}
            assert session.run(gradient(inputs, f=function, **more)) == [4.0 + 10.0, 3.0 + 20.0]
        constant = tf.Defun(tf.float32)(lambda x: tf.constant(1.0))
        assert session.run(hook.resolve("python.ops.functional_ops", "Gradient")([3.0, 1.0], constant)) == [0.0]


def test_functions_of_definitions():
    module = "python.framework.function"
    with tf.Graph().as_default() as graph, tf.Session() as session:
        function = tf.Defun(tf.float32, func_name="MySquare")(lambda x: x * x)
        again = hook.resolve(module, "_from_definition")(function.definition)
        assert again.name == "MySquare"
        assert again.declared_input_types == [tf.float32]
        given = tf.constant(3.0)
        assert session.run([again(given), *tf.gradients(again(given), given)]) == [9.0, 6.0]
        functions = hook.resolve(module, "_from_library")(graph.as_graph_def().library)
        squares = [item for item in functions if item.name.startswith("MySquare")]
        assert squares
        assert session.run([item(3.0) for item in squares]) == [9.0] * len(squares)
        library = tf.GraphDef().library
        library.gradient.add(function_name="none", gradient_func="neither")
        with pytest.raises(ValueError, match=r"^FunctionDefLibrary missing 'none' FunctionDef"):
            hook.resolve(module, "_from_library")(library)


def test_attributes_that_keywords_stand_for():
    attributes = hook.resolve("python.framework.function", "_parse_kwargs_as_attrs")
    made = attributes("f", noinline=True, compiled=True, separate_compiled_gradients=False)
    assert made["_noinline"].b
    assert made["_XlaCompile"].b
    assert not made["_XlaSeparateCompiledGradients"].b
    assert made["_XlaScope"].s == b"function_f"
    assert attributes("f") == {}
    with pytest.raises(ValueError, match=r"^Unknown keyword arguments"):
        attributes("f", other=1)
