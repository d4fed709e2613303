"""`tf.gradients`: what it returns, what it builds and under which names, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def values(fetches, feeds=None):
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        return session.run(fetches, feeds)


def placeholder(*shape, dtype=tf.float32, name="x"):
    return tf.placeholder(dtype, shape, name=name)


# -------------------------------------------------------------------------------- results
def test_product_rule_and_repeated_xs() -> None:
    x, w = placeholder(2), placeholder(2, name="w")
    y = x * w + tf.exp(x)
    first, again, of_w = tf.gradients(y, [x, x, w])
    assert first is again
    at = {x: [0.0, 1.0], w: [3.0, 4.0]}
    np.testing.assert_allclose(values(first, at), [4.0, 4.0 + np.e], rtol=1e-6)
    np.testing.assert_array_equal(values(of_w, at), [0.0, 1.0])


def test_sum_over_ys_and_grad_ys() -> None:
    x = placeholder(2)
    ys = [x * 2.0, tf.square(x)]
    total = tf.gradients(ys, x)[0]
    weighted = tf.gradients(ys, x, grad_ys=[tf.constant([10.0, 0.0]), None])[0]
    np.testing.assert_array_equal(values(total, {x: [1.0, 3.0]}), [4.0, 8.0])
    np.testing.assert_array_equal(values(weighted, {x: [1.0, 3.0]}), [22.0, 6.0])


def test_a_y_that_is_an_x() -> None:
    x = placeholder(3)
    y = x * 5.0
    of_itself, of_y = tf.gradients(x, x)[0], tf.gradients([y, x], [y, x])
    np.testing.assert_array_equal(values(of_itself, {x: [0, 0, 0]}), [1, 1, 1])
    np.testing.assert_array_equal(values(of_y[0], {x: [0, 0, 0]}), [1, 1, 1])
    np.testing.assert_array_equal(values(of_y[1], {x: [0, 0, 0]}), [6, 6, 6])


def test_x_in_the_middle_and_behind() -> None:
    x = placeholder(2)
    h = tf.square(x)
    y = tf.exp(h)
    of_x, of_h = tf.gradients(y, [x, h])
    np.testing.assert_allclose(values(of_h, {x: [1.0, 0.0]}), [np.e, 1.0], rtol=1e-6)
    np.testing.assert_allclose(values(of_x, {x: [1.0, 0.0]}), [2 * np.e, 0.0], rtol=1e-6)


def test_unconnected_is_none_or_zeros() -> None:
    x, other = placeholder(2), placeholder(None, 3, name="other")
    y = tf.square(x)
    assert tf.gradients(y, other) == [None]
    zeros = tf.gradients(y, [x, other], unconnected_gradients=tf.UnconnectedGradients.ZERO)[1]
    assert zeros.op.name == "zeros_like"
    np.testing.assert_array_equal(values(zeros, {other: np.ones((2, 3))}), np.zeros((2, 3)))
    assert tf.gradients(y, other, unconnected_gradients="none") == [None]


def test_integer_paths_and_stops_give_none() -> None:
    x = placeholder(2)
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]
    assert tf.gradients(tf.floor(x), x) == [None]
    assert tf.gradients(tf.stop_gradient(x) * 2.0, x) == [None]
    assert tf.gradients(tf.shape(x), x) == [None]
    assert tf.gradients(tf.square(x), 3.0) == [None]


def test_other_outputs_of_an_op_get_zeros_or_nothing() -> None:
    x = placeholder(2, 4)
    left, right = tf.split(x, 2, 1)
    of_x, of_right = tf.gradients(left, [x, right])
    np.testing.assert_array_equal(values(of_x, {x: np.zeros((2, 4))}), [[1, 1, 0, 0]] * 2)
    assert of_right is None


def test_stop_gradients() -> None:
    x = placeholder()
    a = x * 2.0
    b = x + a
    partial = tf.gradients(b, [x, a], stop_gradients=[x, a])
    whole = tf.gradients(b, [x, a])
    assert [values(g, {x: 1.0}) for g in partial] == [1.0, 1.0]
    assert [values(g, {x: 1.0}) for g in whole] == [3.0, 1.0]
    assert tf.gradients(tf.square(x), x, stop_gradients=x)[0] is not None


def test_integer_ys_start_with_ones() -> None:
    x = tf.placeholder(tf.int32, [2], name="i")
    np.testing.assert_array_equal(values(tf.gradients(x, x)[0], {x: [5, 6]}), [1, 1])


def test_complex_ys() -> None:
    z = tf.placeholder(tf.complex64, [1])
    y = tf.square(z)
    with pytest.raises(TypeError, match=r"Gradients of complex tensors must set grad_ys \(y.dtype = tf.complex64\)"):
        tf.gradients(y, z)
    gradient = tf.gradients(y, z, grad_ys=tf.constant([1 + 0j], tf.complex64))[0]
    np.testing.assert_allclose(values(gradient, {z: [1 + 2j]}), [2 - 4j])


def test_many_uses_of_one_tensor_in_each_aggregation() -> None:
    x = placeholder(2)
    y = tf.square(x) + tf.exp(x) + tf.sin(x)
    method = tf.AggregationMethod
    found = [
        tf.gradients(y, x, aggregation_method=m)[0]
        for m in (None, method.ADD_N, method.DEFAULT, method.EXPERIMENTAL_TREE, method.EXPERIMENTAL_ACCUMULATE_N)
    ]
    assert [g.op.name for g in found] == [
        "gradients/AddN",
        "gradients_1/AddN",
        "gradients_2/AddN",
        "gradients_3/x_gradient_sum/AddN_1",
        "gradients_4/x_gradient_sum/AccumulateNV2",
    ]
    at = np.array([0.5, -1.0], np.float32)
    for gradient in found:
        np.testing.assert_allclose(values(gradient, {x: at}), 2 * at + np.exp(at) + np.cos(at), rtol=1e-6)


def test_deep_graphs_are_walked_without_recursion_and_add_one_op_a_step() -> None:
    x = placeholder()
    y = x
    for _ in range(10_000):
        y = tf.identity(y)
    before = len(tf.get_default_graph().get_operations())
    assert tf.gradients(y, x)[0] is not None
    assert len(tf.get_default_graph().get_operations()) - before < 10_100


# -------------------------------------------------------------------------------- names
def test_names_and_order(graph) -> None:
    x = placeholder(2)
    with tf.name_scope("s"):
        y = tf.square(x)
    tf.gradients(tf.exp(y), x)
    made = graph.get_operations()[3:]
    assert [(op.type, op.name) for op in made[:3]] == [
        ("Const", "gradients/Shape"),
        ("Const", "gradients/grad_ys_0"),
        ("Fill", "gradients/Fill"),
    ]
    assert [op.name.rpartition("/")[0] for op in made[3:] if op.type == "Mul"] == [
        "gradients/Exp_grad",
        "gradients/s/Square_grad",
        "gradients/s/Square_grad",
    ]
    assert graph.get_operations()[6].original.name == "Exp"
    assert graph.get_operation_by_name("gradients/Fill").original is None
    assert tf.gradients(y, x, name="slopes")[0].op.name == "slopes/s/Square_grad/Mul_1"


def test_given_starts_become_identities() -> None:
    x = placeholder(2)
    y = tf.identity(x)
    assert tf.gradients(y, x, grad_ys=[tf.constant([1.0, 2.0])])[0].op.name == "gradients/grad_ys_0"


def test_gated_gradients_wait_for_each_other(graph) -> None:
    x = placeholder(2)
    y = tf.multiply(x, tf.exp(x))
    tf.gradients(y, x, gate_gradients=True)
    gate = graph.get_operation_by_name("gradients/Mul_grad/tuple/group_deps")
    assert gate.type == "NoOp"
    passed = graph.get_operation_by_name("gradients/Mul_grad/tuple/control_dependency_1")
    assert passed.control_inputs == [gate]
    assert [op.name for op in gate.control_inputs] == ["gradients/Mul_grad/Mul", "gradients/Mul_grad/Mul_1"]


def test_colocation(graph) -> None:
    x = placeholder(2)
    with tf.device("/cpu:1"):
        y = tf.exp(x)
    apart = tf.gradients(y, x)[0].op
    beside = tf.gradients(y, x, colocate_gradients_with_ops=True)[0].op
    assert apart.device == ""
    assert "_class" not in apart._attrs
    assert beside.device == y.op.device
    assert beside.colocation_groups() == [b"loc:@Exp"]


def test_sums_across_devices_are_made_on_each_device(graph) -> None:
    x = placeholder(2)
    with tf.device("/cpu:0"):
        a, b = tf.exp(x), tf.sin(x)
    with tf.device("/cpu:1"):
        c = tf.cos(x)
    found = tf.gradients([a, b, c], x, colocate_gradients_with_ops=True)[0]
    assert found.op.type == "AddN"
    assert [t.op.type for t in found.op.inputs] == ["AddN", "Mul"]


def test_gradients_of_a_graph_that_is_not_the_default() -> None:
    x = placeholder(2)
    y = tf.square(x)
    with tf.Graph().as_default() as other:
        found = tf.gradients(y, x)[0]
        assert not other.get_operations()
    assert found.graph is x.graph


def test_errors_show_the_line_of_the_forward_op() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.reshape(x, [2])  # the forward line
    (gradient,) = tf.gradients(y, x)
    assert "the forward line" in str(gradient.op.original.user_site)
    assert "tf.gradients(y, x)" in str(gradient.op.user_site)


# -------------------------------------------------------------------------------- slices
def test_slices_are_kept_concatenated_or_made_dense() -> None:
    table = placeholder(5, 2, name="table")
    one = tf.reduce_sum(tf.gather(table, [0, 1]))
    two = tf.reduce_sum(tf.gather(table, tf.constant([1, 1], tf.int64)))
    alone = tf.gradients(one, table)[0]
    assert isinstance(alone, tf.IndexedSlices)
    both = tf.gradients(one + two, table)[0]
    assert isinstance(both, tf.IndexedSlices)
    assert both.indices.dtype == tf.int64
    dense = tf.gradients(one + two + tf.reduce_sum(table), table)[0]
    assert isinstance(dense, tf.Tensor)
    at = {table: np.zeros((5, 2))}
    np.testing.assert_array_equal(values(both.indices, at), [0, 1, 1, 1])
    np.testing.assert_array_equal(values(tf.convert_to_tensor(both), at)[:, 0], [1, 3, 0, 0, 0])
    np.testing.assert_array_equal(values(dense, at)[:, 0], [2, 4, 1, 1, 1])


def test_slices_as_starts() -> None:
    x = placeholder(3, 2)
    y = x * 2.0
    start = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([1]), tf.constant([3, 2]))
    found = tf.gradients(y, x, grad_ys=[start])[0]
    np.testing.assert_array_equal(values(tf.convert_to_tensor(found), {x: np.zeros((3, 2))}), [[0, 0], [2, 4], [0, 0]])


# -------------------------------------------------------------------------------- user's own rules
@tf.RegisterGradient("TestReversed")
def _reversed(op, grad):
    return -grad


@tf.RegisterGradient("TestTwo")
def _two(op, grad):
    return grad, grad


@tf.RegisterGradient("TestShape")
def _wrong_shape(op, grad):
    return tf.ones([7])


@tf.RegisterGradient("TestDtype")
def _wrong_dtype(op, grad):
    return tf.cast(grad, tf.float64)


@tf.RegisterGradient("TestNumber")
def _number(op, grad):
    return np.full([2], 3.0)


@tf.RegisterGradient("TestRaises")
def _raises(op, grad):
    raise RuntimeError("no such thing")


tf.NotDifferentiable("TestNone")


def overridden(graph, name):
    x = placeholder(2)
    with graph.gradient_override_map({"Square": name}):
        y = tf.square(x)
    return x, lambda: tf.gradients(y, x)[0]


def test_override_map(graph) -> None:
    x, gradient = overridden(graph, "TestReversed")
    np.testing.assert_array_equal(values(gradient(), {x: [1.0, 2.0]}), [-1.0, -1.0])


def test_override_by_another_ops_rule_and_by_none(graph) -> None:
    x, gradient = overridden(graph, "Identity")
    np.testing.assert_array_equal(values(gradient(), {x: [1.0, 2.0]}), [1.0, 1.0])
    assert overridden(graph, "TestNone")[1]() is None
    np.testing.assert_array_equal(values(overridden(graph, "TestNumber")[1]()), [3.0, 3.0])


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("TestTwo", ValueError, r"Num gradients 2 .*(?s:.*)registered as 'TestTwo'.*line \d+"),
        ("TestShape", ValueError, r"Incompatible shapes between op input and calculated input gradient.*\[2\].*\[7\]"),
        ("TestDtype", TypeError, r"dtype float64 from the gradient rule registered as 'TestDtype'(?s:.*)op 'Square'"),
        ("TestNowhere", LookupError, r"No gradient defined for operation 'Square' \(op type: Square\)"),
    ],
)
def test_what_a_rule_returns_is_checked(graph, name, error, text) -> None:
    with pytest.raises(error, match=text):
        overridden(graph, name)[1]()


def test_an_exception_in_a_rule_says_for_which_op(graph) -> None:
    with pytest.raises(RuntimeError, match="no such thing") as caught:
        overridden(graph, "TestRaises")[1]()
    assert any("'Square'" in note and "TestRaises" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("name", ["Square", "Floor", "TestReversed"])
def test_a_gradient_is_registered_once(name) -> None:
    with pytest.raises(KeyError, match=rf"Registering two gradient with name \W+{name}"):
        tf.RegisterGradient(name)(lambda op, grad: grad)
    with pytest.raises(KeyError, match=rf"Registering two gradient with name \W+{name}"):
        tf.NoGradient(name)


def test_names_of_gradients_are_strings() -> None:
    with pytest.raises(TypeError, match="op_type must be a string"):
        tf.RegisterGradient(3)
    with pytest.raises(TypeError, match="op_type must be a string"):
        tf.NotDifferentiable(3)
    with pytest.raises(TypeError, match="a function of op and gradients"):
        tf.RegisterGradient("TestUnused")(3)


def test_prevented_gradient() -> None:
    x = placeholder(2)
    y = build("PreventGradient", x, message="use the other loss")
    with pytest.raises(LookupError, match=r"Gradient explicitly disabled\. Reason: use the other loss"):
        tf.gradients(y, x)
    with pytest.raises(LookupError, match="Reason: \N{REPLACEMENT CHARACTER}"):  # of a file: no UTF-8
        tf.gradients(build("PreventGradient", x, message=b"\xff"), x)


# -------------------------------------------------------------------------------- refusals
def test_refusals() -> None:
    x = placeholder(2)
    y = tf.square(x)
    with pytest.raises(ValueError, match=r"Invalid aggregation_method specified 7"):
        tf.gradients(y, x, aggregation_method=7)
    with pytest.raises(ValueError, match=r"Passed 2 grad_ys for 1 ys"):
        tf.gradients(y, x, grad_ys=[None, None])
    with pytest.raises(ValueError, match=r"Unknown value for unconnected_gradients: 'foo'"):
        tf.gradients(y, x, unconnected_gradients="foo")
    with pytest.raises(TypeError, match=r"Gradient type complex64 generated for real or integer-valued"):
        tf.gradients(y, x, grad_ys=tf.cast(x, tf.complex64))
    with pytest.raises(TypeError, match=r"must be numeric to obtain a default gradient"):
        tf.gradients(tf.placeholder(tf.string), x)
    with pytest.raises(TypeError, match=r"None among xs"):
        tf.gradients(y, None)
    with pytest.raises(TypeError, match=r"differentiate with respect to slices.values"):
        tf.gradients(y, tf.IndexedSlices(x, tf.constant([0, 1])))
    with tf.Graph().as_default():
        other = placeholder(2, name="other")
        with pytest.raises(ValueError, match=r"must be from the same graph"):
            tf.gradients(y, other)


# -------------------------------------------------------------------------------- nested bodies
def test_inside_a_nested_body(graph) -> None:
    outside = placeholder(2)
    before = tf.square(outside)
    body = graph.new_body("body")
    with graph.building(body):
        inner = body.add_arg(tf.float32, [2], "inner")
        y = inner * before
        of_inner, of_outside = tf.gradients(y, [inner, outside])
    assert of_inner.op.body is body
    assert of_outside.op.body is body
    from_root = tf.gradients(y, inner)[0]
    assert from_root.op.body is body
    other = graph.new_body("other")
    with graph.building(other), pytest.raises(ValueError, match=r"of the nested body 'body' in body 'other'"):
        tf.gradients(y, inner)


# -------------------------------------------------------------------------------- second order
def test_hessians() -> None:
    x = placeholder(2)
    y = x[0] * x[0] * x[1] + tf.exp(x[1])
    (found,) = tf.hessians(y, x)
    np.testing.assert_allclose(values(found, {x: [2.0, 3.0]}), [[6.0, 4.0], [4.0, np.exp(3.0)]], rtol=1e-6)
    assert found.shape.as_list() == [2, 2]
    assert found.op.name.startswith("hessians/")


def test_hessians_of_matrices_scalars_and_nothing() -> None:
    m, s, none = placeholder(2, 1, name="m"), placeholder(name="s"), placeholder(0, name="none")
    y = tf.reduce_sum(m * m * s) + tf.reduce_sum(none)
    of_m, of_s, of_none = tf.hessians(y, [m, s, none])
    at = {m: [[1.0], [2.0]], s: 3.0, none: []}
    np.testing.assert_array_equal(values(of_m, at).reshape(2, 2), [[6, 0], [0, 6]])
    assert values(of_s, at) == 0.0
    assert values(of_none, at).shape == (0, 0)


def test_refused_hessians() -> None:
    x = placeholder(2)
    with pytest.raises(ValueError, match=r"no gradient with respect to 'x:0', so no Hessian"):
        tf.hessians(tf.floor(x), x)


def test_hessians_in_a_loop() -> None:
    """Where the size is not known while the graph is built, and where it is large."""
    of_one, of_none, large = placeholder(None), tf.placeholder(tf.float32), placeholder(20)

    def y(x):
        return tf.reduce_sum(x) * tf.reduce_sum(x * x)

    for x, given in ((of_one, [1.0, 2.0, 3.0]), (of_none, [[1.0, 2.0]]), (large, np.arange(20.0))):
        (found,) = tf.hessians(y(x), x)
        flat = np.ravel(given)
        size = flat.size
        wanted = 2 * flat[:, None] + 2 * flat[None, :] + 2 * flat.sum() * np.eye(size)
        value = values(found, {x: given})
        assert value.shape == np.shape(given) * 2
        np.testing.assert_allclose(value.reshape(size, size), wanted, rtol=1e-5)
    assert tf.hessians(y(large), large)[0].shape.as_list() == [20, 20]


# ------------------------------------------------------------------------------------------------------------ variables
@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_as_xs(use_resource) -> None:
    with tf.variable_scope("scope", use_resource=use_resource):
        v = tf.get_variable("v", initializer=tf.constant([1.0, 2.0]))
        unused = tf.get_variable("unused", initializer=tf.constant([5.0, 6.0]))
    y = tf.reduce_sum(tf.square(v) * 3.0)
    of_v, none = tf.gradients(y, [v, unused])
    zeros = tf.gradients(y, unused, unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]
    of_read = tf.gradients(y, v.value())[0]
    assert none is None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(of_v), [6.0, 12.0])
        np.testing.assert_array_equal(session.run(zeros), [0.0, 0.0])
    assert (of_read is None) == use_resource  # a handle is read anew by each use, a reference once


@pytest.mark.parametrize("use_resource", [False, True])
def test_gathered_variables_have_slices(use_resource) -> None:
    with tf.variable_scope("scope", use_resource=use_resource):
        v = tf.get_variable("v", initializer=tf.constant([[1.0], [2.0], [3.0]]))
    found = tf.gradients(tf.reduce_sum(tf.nn.embedding_lookup(v, [2, 2])), v)[0]
    assert isinstance(found, tf.IndexedSlices)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value = session.run(found)
    np.testing.assert_array_equal(value.indices, [2, 2])
    np.testing.assert_array_equal(value.values, [[1.0], [1.0]])
    np.testing.assert_array_equal(value.dense_shape, [3, 1])


@pytest.mark.parametrize("use_resource", [False, True])
def test_hessian_of_a_variable(use_resource) -> None:
    with tf.variable_scope("scope", use_resource=use_resource):
        v = tf.get_variable("v", initializer=tf.constant([1.0, 2.0]))
    (found,) = tf.hessians(tf.reduce_prod(v) + tf.reduce_sum(v * v), v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(found), [[2.0, 1.0], [1.0, 2.0]], rtol=1e-6)


@pytest.mark.parametrize(("colocated", "device"), [(True, "/job:ps/task:0"), (False, "/job:worker/task:0")])
def test_a_gradient_that_an_op_passes_on_is_behind_the_gate_where_that_op_is(colocated, device):
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            w, b = tf.ones([3, 5]), tf.ones([5])
            y = tf.matmul(tf.ones([4, 3]), w) + b
        with tf.device("/job:worker/task:0"):
            loss = tf.reduce_sum(y * 2.0)
            grads = tf.gradients(loss, [w, b], colocate_gradients_with_ops=colocated, gate_gradients=True)
        passed = graph.get_operation_by_name("gradients/add_grad/tuple/control_dependency")
        assert passed.device == device
        assert passed.inputs[0].op.name == "gradients/mul_grad/tuple/control_dependency"
        assert [grad.shape.as_list() for grad in grads] == [[3, 5], [5]]
