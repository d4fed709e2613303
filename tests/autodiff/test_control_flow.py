"""Gradients of conditionals and calls."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph import body_ops
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.verify import verify_graph


@pytest.fixture
def g():
    graph = tf.Graph()
    with graph.as_default():
        yield graph
        verify_graph(graph)


def types(graph, start):
    return [op.type for op in graph.get_operations() if op.name.startswith(start)]


def run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


@pytest.mark.parametrize("shape", [[2], [None], None], ids=str)
def test_a_conditional(g, shape):
    x = tf.placeholder(tf.float64, shape)
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: tf.exp(x) * x, lambda: x * x * x)
    (first,) = tf.gradients(y, x)
    (second,) = tf.gradients(first, x)
    (third,) = tf.gradients(second, x)
    given = np.array([1.0, 2.0])
    for taken, wanted in (
        (True, [(given + n) * np.exp(given) for n in (1, 2, 3)]),
        (False, [3 * given**2, 6 * given, 6 * given**0]),
    ):
        for value, right in zip(run([first, second, third], {x: given, p: taken}), wanted, strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-12)
    optionals = [op for op in g.get_operations() if op.type.startswith("Optional")]
    assert bool(optionals) == (shape != [2])  # of known shape, zeros stand in


def test_a_branch_that_does_not_depend(g):
    x = tf.placeholder(tf.float32, [None])
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: x * 3.0, lambda: tf.zeros([1]))
    (dx,) = tf.gradients(y, x)
    assert run(dx, {x: [1.0, 1.0], p: True}).tolist() == [3.0, 3.0]
    assert run(dx, {x: [1.0, 1.0], p: False}).tolist() == [0.0, 0.0]
    assert tf.gradients(tf.cond(p, lambda: tf.zeros([1]), lambda: tf.ones([1])), x) == [None]
    assert tf.gradients(tf.cond(p, lambda: tf.stop_gradient(x), lambda: tf.to_float(tf.shape(x))), x) == [None]


def test_branches_by_number(g):
    x = tf.placeholder(tf.float32, [None])
    i = tf.placeholder(tf.int32, [])
    y = tf.switch_case(i, [lambda: x * x, lambda: tf.sin(x), lambda: x])
    (dx,) = tf.gradients(y, x)
    assert dx.op.type == "StatelessCase"
    for index, wanted in ((0, 1.0), (1, np.cos(0.5)), (2, 1.0), (7, 1.0)):
        np.testing.assert_allclose(run(dx, {x: [0.5], i: index}), [wanted], rtol=1e-6)


def test_calls(g):
    x = tf.placeholder(tf.float32, [None])
    v = tf.Variable(3.0, use_resource=True)
    body = g.new_body("f")
    with g.building(body):
        body.outputs = [tf.sin(x) * v]
    op = build_operation(
        "StatefulPartitionedCall", [body_ops.line_up([body])], {"f": body, "Tout": [tf.float32]}, "call"
    )
    body_ops.own(op)
    dx, dv = tf.gradients(op.outputs[0], [x, v])
    assert dx.op.type == dv.op.type == "PartitionedCall"
    (ddx,) = tf.gradients(dx, x)
    found = run([dx, dv, ddx], {x: [0.5]})
    np.testing.assert_allclose(found[0], [3 * np.cos(0.5)], rtol=1e-6)
    np.testing.assert_allclose(found[1], np.sin(0.5), rtol=1e-6)
    np.testing.assert_allclose(found[2], [-3 * np.sin(0.5)], rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
def test_variables_read_inside(g, resource):
    v = tf.get_variable("v", [2], initializer=tf.constant_initializer([2.0, 3.0]), use_resource=resource)
    w = tf.get_variable("w", [2], initializer=tf.constant_initializer([5.0, 7.0]), use_resource=resource)
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: v * v * w, lambda: w + 0.0)
    dv, dw = tf.gradients(y, [v, w])
    assert [value.tolist() for value in run([dv, dw], {p: True})] == [[20.0, 42.0], [4.0, 9.0]]
    assert [value.tolist() for value in run([dv, dw], {p: False})] == [[0.0, 0.0], [1.0, 1.0]]


def test_with_respect_to_the_read_of_a_variable(g):
    v = tf.Variable([1.0, 2.0])
    read = v.value()
    y = tf.cond(tf.constant(True), lambda: v * 2.0, lambda: v + 1.0) + read * 3.0
    (dv,), (dread,) = tf.gradients(y, v), tf.gradients(y, read)
    assert run([dv, dread])[1].tolist() == [5.0, 5.0]
    assert tf.gradients(y, v, stop_gradients=[read]) == [None]


def test_slices_of_a_table(g):
    table = tf.Variable(np.ones((4, 2), np.float32), use_resource=True)
    p = tf.placeholder(tf.bool, [])
    both = tf.cond(p, lambda: tf.gather(table, [1, 1]), lambda: tf.gather(table, [0, 3]))
    (slices,) = tf.gradients(both, table)
    assert isinstance(slices, tf.IndexedSlices)
    dense = tf.unsorted_segment_sum(slices.values, slices.indices, 4)
    assert run(dense, {p: True})[:, 0].tolist() == [0.0, 2.0, 0.0, 0.0]
    assert run(dense, {p: False})[:, 0].tolist() == [1.0, 0.0, 0.0, 1.0]
    one = tf.cond(p, lambda: tf.gather(table, [1, 1]), lambda: table[:2] * 2.0)
    (mixed,) = tf.gradients(one, table)
    assert isinstance(mixed, tf.Tensor)
    assert run(mixed, {p: True})[:, 0].tolist() == [0.0, 2.0, 0.0, 0.0]
    assert run(mixed, {p: False})[:, 0].tolist() == [2.0, 2.0, 0.0, 0.0]


def test_nothing_is_taken_out_that_the_gradient_does_not_read(g):
    x = tf.placeholder(tf.float32, [3])
    y = tf.cond(x[0] > 0.0, lambda: tf.sin(tf.exp(x) + 1.0) + x, lambda: x * 2.0)
    count = len(y.op.inputs[0].op.outputs)
    tf.gradients(y, x)
    # exp(x) and the argument of the sine; not the sine, the sum or the constant
    assert len(y.op.inputs[0].op.outputs) - count == 2
    tf.gradients(y, x)
    assert len(y.op.inputs[0].op.outputs) - count == 2


def test_shapes_alone_are_taken_out_as_shapes(g):
    x = tf.placeholder(tf.float32, [None, None])
    y = tf.cond(tf.size(x) > 0, lambda: tf.reduce_sum(x + 1.0, 0), lambda: tf.zeros([1]))
    tf.gradients(y, x)
    assert {output.dtype for output in y.op.outputs[1:]} <= {tf.variant, tf.int32}
    then = y.op.inputs[0].op.get_attr("then_branch")
    assert all(output.op.inputs[0].dtype == tf.int32 for output in then.outputs[1:] if output.dtype == tf.variant)


def test_override_inside_a_branch(g):
    name = "TenTimes"
    if name not in REGISTERED:
        REGISTERED.append(name)
        tf.RegisterGradient(name)(lambda op, grad: grad * 10.0)
    x = tf.constant(2.0)

    def branch():
        with g.gradient_override_map({"Square": name}):
            return tf.square(x)

    assert run(tf.gradients(tf.cond(tf.constant(True), branch, lambda: x), x)) == [10.0]


REGISTERED: list[str] = []


def test_stopping_inside_and_outside(g):
    x = tf.constant(2.0)
    inner = []

    def branch():
        inner.append(x * 3.0)
        return inner[0] * inner[0] + x

    y = tf.cond(tf.constant(True), branch, lambda: x)
    assert run(tf.gradients(y, x)) == [37.0]
    assert run(tf.gradients(y, x, stop_gradients=inner)) == [1.0]
    z = tf.identity(x)
    y = tf.cond(tf.constant(True), lambda: z * z, lambda: z)
    assert tf.gradients(y, x, stop_gradients=[z]) == [None]
    assert run(tf.gradients(y, x, stop_gradients=[z], unconnected_gradients="zero")) == [0.0]


def test_gradients_inside_of_a_branch(g):
    x = tf.constant(3.0)
    v = tf.Variable(2.0)
    y = tf.cond(tf.constant(True), lambda: tf.gradients(x * x * v, [x, v])[0], lambda: x)
    assert run([y, *tf.gradients(y, [x, v])]) == [12.0, 4.0, 6.0]


def test_conditionals_within_conditionals(g):
    x = tf.placeholder(tf.float64, [None])
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])

    def outer():
        y = tf.sin(x)
        return tf.cond(q, lambda: y * x, lambda: tf.exp(y)) * y

    z = tf.cond(p, outer, lambda: x)
    (dx,) = tf.gradients(z, x)
    (ddx,) = tf.gradients(dx, x)
    a = np.array([0.3, 0.9])
    s, c = np.sin(a), np.cos(a)
    first = run([dx, ddx], {x: a, p: True, q: True})
    np.testing.assert_allclose(first[0], s * s + 2 * a * s * c, rtol=1e-12)
    np.testing.assert_allclose(first[1], 4 * s * c + 2 * a * (c * c - s * s), rtol=1e-12)
    np.testing.assert_allclose(run(dx, {x: a, p: True, q: False}), np.exp(s) * c * (1 + s), rtol=1e-12)
    assert run(dx, {x: a, p: False, q: False}).tolist() == [1.0, 1.0]


def test_optionals():
    with tf.Graph().as_default():
        some = build("OptionalFromValue", [tf.constant([1, 2]), tf.constant("a")])
        none = build("OptionalNone")
        numbers, text = build("OptionalGetValue", some, output_types=[tf.int32, tf.string], output_shapes=[[None], []])
        has = [build("OptionalHasValue", item) for item in (some, none)]
        found = run([numbers, text, *has])
        assert [found[0].tolist(), *found[1:]] == [[1, 2], b"a", True, False]
        empty = build("OptionalGetValue", none, output_types=[tf.int32], output_shapes=[[]])
        with pytest.raises(tf.errors.InvalidArgumentError, match="The given optional does not have a value"):
            run(empty)
        with pytest.raises(TypeError, match=r"has type int32|variant"):
            build("OptionalHasValue", tf.constant(1))


@pytest.mark.parametrize("tier", ["interpreted", "compiled", "auto"])
def test_an_optional_of_a_string_is_no_value_of_a_program(tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x, text = tf.placeholder(tf.float32, []), tf.placeholder(tf.string, [])
        some = build("OptionalFromValue", [x * 2.0, text])
        chosen = tf.cond(x > 0.0, lambda: some, lambda: build("OptionalFromValue", [x, tf.constant("none")]))
        values = build("OptionalGetValue", chosen, output_types=[tf.float32, tf.string], output_shapes=[[], []])
        assert session.run([*values, x + 1.0], {x: 1.0, text: "a"}) == [2.0, b"a", 2.0]
        assert session.run([*values, x + 1.0], {x: -1.0, text: "a"}) == [-1.0, b"none", 0.0]


def test_sums_and_zeros_of_optionals():
    with tf.Graph().as_default():
        a, b, none = (
            build("OptionalFromValue", [tf.constant([1.0])]),
            build("OptionalFromValue", [tf.constant([2.0])]),
            build("OptionalNone"),
        )

        def value(optional):
            return build("OptionalGetValue", optional, output_types=[tf.float32], output_shapes=[[1]])[0]

        total, zero = value(tf.add_n([a, none, b, a])), value(tf.zeros_like(b))
        assert [item.tolist() for item in run([total, zero])] == [[4.0], [0.0]]


def test_with_respect_to_what_is_inside_of_a_branch():
    held = []

    def branch():
        held.append(x * 3.0)
        return held[0] * held[0]

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        y = tf.cond(x > 0.0, branch, lambda: x)
        with pytest.raises(
            ValueError, match=r"x 'cond/mul:0' of the nested body(.|\n)*inside of the branch(.|\n)*line \d+"
        ):
            tf.gradients(y, held[0])
