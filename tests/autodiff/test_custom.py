"""`tf.custom_gradient` and the derived rule."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import opdef
from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import DERIVED, PURE, Int, Op, Type
from anabranch.core.graph.build import build
from anabranch.testing import check_gradients


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def values(fetches, feeds=None, tier="interpreted"):
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        return session.run(fetches, feeds)


# --------------------------------------------------------------------------------------------------------------- custom
def test_own_gradient_replaces_that_of_the_inside() -> None:
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.log(1 + e), lambda grad: grad * (1 - 1 / (1 + e))

    x = tf.placeholder(tf.float32, [2])
    (gradient,) = tf.gradients(log1pexp(x), x)
    np.testing.assert_allclose(values(gradient, {x: [0.0, 100.0]})[0], 0.5)
    assert log1pexp.__name__ == "log1pexp"


@tf.custom_gradient
def leaky(x):
    """A rectifier whose gradient has a gradient of its own; both look at a value from inside."""
    y = tf.maximum(x, 0.2 * x)

    @tf.custom_gradient
    def slope(dy):
        return tf.where(y >= 0, dy, 0.2 * dy), lambda ddx: tf.where(y >= 0, ddx, 0.2 * ddx)

    return y, slope


def penalised(w, x):
    return tf.reduce_sum(tf.square(leaky(leaky(x * w) + x) * w))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "within",
    [
        lambda pred, f, g: tf.cond(pred, f, g),
        lambda pred, f, g: tf.cond(pred, lambda: tf.cond(pred, f, g), g),
        lambda pred, f, g: tf.switch_case(tf.to_int32(pred), [g, f]),
    ],
)
def test_a_gradient_with_a_gradient_of_its_own_in_branches(within, known, tier) -> None:
    pred = tf.placeholder(tf.bool, [])
    start = np.float32([1, -2, 3])
    x = tf.placeholder(tf.float32, [3] if known else None)
    w = tf.get_variable("w", initializer=[0.5, 0.7, -0.3])

    def second_orders(y):
        first = tf.gradients(y, x)[0]
        return [y, first, *tf.gradients(tf.reduce_sum(tf.square(first)), [w, x])]

    one, other = lambda: penalised(w, x), lambda: tf.reduce_sum(x * w * x * x)
    chosen = [second_orders(within(pred, one, other)), second_orders(one()), second_orders(other())]
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        session.run(w.initializer)
        for value in (True, False):
            found, first, second = session.run(chosen, {pred: value, x: start})
            for item, wanted in zip(found, first if value else second, strict=True):
                np.testing.assert_allclose(item, wanted, rtol=1e-5)


def test_a_gradient_of_a_gradient_in_a_branch_has_values() -> None:
    pred, x = tf.placeholder(tf.bool, []), tf.constant([1.0, -2.0, 3.0])
    w = tf.placeholder_with_default(np.float32([0.5, 0.7, -0.3]), [3])
    y = tf.cond(pred, lambda: tf.reduce_sum(tf.square(leaky(x * w)) * w), lambda: tf.reduce_sum(x * w * x))
    (first,) = tf.gradients(y, x)
    (second,) = tf.gradients(tf.reduce_sum(tf.square(first)), w)
    # TensorFlow 1.15.5's.
    np.testing.assert_allclose(
        values([first, second], {pred: True}), [[0.25, -0.05488, -0.00648], [0.75, 0.0258155, -0.000839808]], rtol=2e-4
    )
    np.testing.assert_allclose(values([first, second], {pred: False}), [[1, -2.8, -1.8], [4, 22.4, -21.6]], rtol=1e-5)


def test_structures_and_several_arguments() -> None:
    @tf.custom_gradient
    def f(x, y):
        def grad(g_sum, g_parts_x, g_parts_y):
            return g_sum * 10.0 + g_parts_x, [g_sum * 100.0 + g_parts_y]

        return {"sum": x + y, "parts": [x * 1.0, (y * 1.0,)]}, lambda a, b, c: grad(c, a, b)

    x, y = tf.constant(1.0), tf.constant(2.0)
    result = f(x, y)
    assert set(result) == {"sum", "parts"}
    assert isinstance(result["parts"][1], tuple)
    assert values(tf.gradients(result["sum"], [x, y])) == [10.0, 100.0]
    assert values(tf.gradients(result["parts"][1][0], [x, y])) == [0.0, 1.0]


def test_nested_custom_gradients() -> None:
    @tf.custom_gradient
    def outer(x):
        @tf.custom_gradient
        def slope(at):
            return at * 2.0, lambda grad: grad * 7.0

        return tf.square(x), lambda grad: grad * slope(x)

    x = tf.constant(3.0)
    first = tf.gradients(outer(x), x)[0]
    second = tf.gradients(first, x)[0]
    assert values([first, second]) == [6.0, 7.0]


def test_rules_live_as_long_as_the_graph() -> None:
    with tf.Graph().as_default():
        y = tf.custom_gradient(lambda x: (x * 1.0, lambda grad: grad))(tf.constant(1.0))
        rule = weakref.ref(y.op._gradient_function)
        assert y.op.get_attr("_gradient_op_type").startswith(b"CustomGradient-")
    assert rule() is not None
    del y
    gc.collect()
    assert rule() is None


def test_variables_get_their_gradients() -> None:
    with tf.variable_scope("scope", use_resource=True):
        v = tf.get_variable("v", initializer=tf.constant([1.0, 2.0]))

    @tf.custom_gradient
    def f(x):
        def grad(g, variables=None):
            assert variables == [v]
            return g * 3.0, [g * 5.0]

        return x * v, grad

    x = tf.constant([1.0, 1.0])
    of_x, of_v = tf.gradients(f(x), [x, v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(of_x), [3.0, 3.0])
        np.testing.assert_array_equal(session.run(of_v), [5.0, 5.0])


def test_variables_that_are_not_trainable_are_not_asked_for() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.variable_scope("scope", use_resource=True):
        fixed = tf.get_variable("fixed", initializer=tf.constant(2.0), trainable=False)
        v = tf.get_variable("v", initializer=tf.constant(3.0))
    asked: list[list[str]] = []

    def grad(g, variables):
        asked.append([one.op.name for one in variables])
        return g * 3.0, [tf.reduce_sum(g)]

    tf.gradients(tf.custom_gradient(lambda x: (x * fixed * v, grad))(x), x)
    assert asked == [["scope/v"]]
    alone = tf.custom_gradient(lambda x: (x * fixed, lambda g: g * 7.0))(x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(tf.gradients(alone, x)[0]).tolist() == [7.0, 7.0]


def test_a_tape_tells_which_variables_a_graph_reads_in_its_block() -> None:
    with tf.variable_scope("scope", use_resource=True):
        v, w, outside = (tf.get_variable(name, [3, 2]) for name in ("v", "w", "outside"))
        fixed = tf.get_variable("fixed", [], trainable=False)
        reference = tf.get_variable("reference", [], use_resource=False)
    y = outside * 2.0
    with tf.GradientTape() as tape:
        tf.gather(w, [1]) + tf.cond(tf.constant(True), lambda: v[:1] * 1.0, lambda: v[1:2] * 2.0)
        with tape.stop_recording():
            outside + 1.0
        y = y * fixed * reference
        with tf.GradientTape(watch_accessed_variables=False) as blind:
            assert [one.op.name for one in tape.watched_variables()] == ["scope/v", "scope/w"]
            made = tf.layers.dense(tf.ones([1, 2]), 1, name="dense")
            made = tf.layers.batch_normalization(made, training=True, name="norm")
    outside.assign_add(outside)
    names = [one.op.name for one in tape.watched_variables()]
    assert names == ["scope/v", "scope/w"]  # the layers' variables are references
    assert blind.watched_variables() == ()
    with tf.variable_scope("resources", use_resource=True), tf.GradientTape() as tape:
        made = tf.layers.batch_normalization(tf.layers.dense(made, 1, name="dense"), training=True, name="norm")
    of_layers = [one.op.name for one in tape.watched_variables()]
    assert of_layers == [f"resources/{name}" for name in ("dense/kernel", "dense/bias", "norm/gamma", "norm/beta")]
    slopes = tape.gradient(made, tape.watched_variables())
    assert [slope is not None for slope in slopes] == [True] * 4
    assert len(tape.watched_variables()) == 4


def test_refusals() -> None:
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match=r"keywords arguments only when eager execution is enabled"):
        tf.custom_gradient(lambda x: (x, lambda g: g))(x=x)
    with pytest.raises(TypeError, match=r"return y, lambda grad_y"):
        tf.custom_gradient(lambda x: x)(x)
    with pytest.raises(TypeError, match=r"custom_gradient\(3\)"):
        tf.custom_gradient(3)
    wrong = tf.custom_gradient(lambda x: (x * 1.0, lambda g: (g, g)))(x)
    with pytest.raises(ValueError, match=r"expected to return 1 gradients, but returned 2 instead"):
        tf.gradients(wrong, x)


def test_refused_variables() -> None:
    with tf.variable_scope("scope", use_resource=True):
        v = tf.get_variable("v", initializer=tf.constant(1.0))
    x = tf.constant(1.0)
    with pytest.raises(TypeError, match=r"grad_fn must accept a 'variables' keyword argument"):
        tf.custom_gradient(lambda x: (x * v, lambda g: g))(x)
    short = tf.custom_gradient(lambda x: (x * v, lambda g, variables: (g, [])))(x)
    with pytest.raises(ValueError, match=r"Must return gradient for each variable"):
        tf.gradients(short, x)

    @tf.custom_gradient
    def makes_a_reference(x):
        return x * tf.get_variable("ref", initializer=tf.constant(1.0), use_resource=False), lambda g: g

    with pytest.raises(TypeError, match=r"All variables used by `f` wrapped with @custom_gradient must be"):
        makes_a_reference(x)


# -------------------------------------------------------------------------------------------------------------- derived
class TestDerivedCube(Op):
    """``x ** 3 + shift``, checked to be below 1000, beside the integer part of x."""

    signature = "x: T, shift: int32 -> y: T, part: int32"
    attrs = {"T": Type("float double complex64 complex128"), "power": Int(3)}
    effect = PURE
    compile_time = ("shift",)
    gradient = DERIVED

    def shape(c):
        return [c.shapes[0], c.shapes[0]]

    @uses_lax
    def kernel(ctx, inputs, attrs):
        x, shift = inputs
        y = x
        for _ in range(attrs["power"] - 1):
            y = y * x
        ctx.check(
            ctx.xp.all(ctx.xp.abs(y) < 1000), tf.errors.InvalidArgumentError, "{0} is large", ctx.xp.max(ctx.xp.abs(y))
        )
        return y + int(shift), ctx.xp.real(x).astype(np.int32)


def test_derived_rule_in_both_orders_and_tiers() -> None:
    check_gradients(lambda x: build("TestDerivedCube", x, 7).y, [[0.5, -2.0]])
    check_gradients(lambda x: build("TestDerivedCube", x, 7).y, [np.array([0.5 + 1j, -2.0])], order=3)


def test_derived_rule_is_one_op_that_serialises(graph) -> None:
    x = tf.placeholder(tf.float32, [2])
    found = tf.gradients(build("TestDerivedCube", x, 7).y, x)[0]
    assert found.op.type == "AnabranchVjp"
    assert found.op.get_attr("forward").name == "TestDerivedCube"
    with tf.Graph().as_default() as again:
        tf.import_graph_def(graph.as_graph_def(), name="")
        copy = again.get_operation_by_name(found.op.name)
        assert copy._attrs["forward"] == found.op._attrs["forward"]
        np.testing.assert_array_equal(values(copy.outputs[0], {x.name: [1.0, 2.0]}), [3.0, 12.0])


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_checks_of_the_forward_kernel_hold_in_its_derivative(tier) -> None:
    x = tf.placeholder(tf.float32, [2])
    gradient = tf.gradients(build("TestDerivedCube", x, 7).y, x)[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="8000 is large"):
        values(gradient, {x: [1.0, 20.0]}, tier)


def test_derived_rules_are_for_pure_ops_with_kernels() -> None:
    fields = {"signature": "x: float -> y: float", "shape": lambda c: c.shapes[0], "gradient": DERIVED}
    with pytest.raises(TypeError, match=r"a derived gradient of a host-only op"):
        opdef.define("TestHostOnly", "d", effect=PURE, host_kernel=lambda *a: a, **fields)
    with pytest.raises(TypeError, match=r"a derived gradient of a channel op"):
        opdef.define("TestChannel", "d", effect=opdef.channel("x"), host_kernel=lambda *a: a, **fields)


def test_users_may_register_over_a_derived_rule() -> None:
    tf.RegisterGradient("TestDerivedCube")(lambda op, grad, part: [grad * 0.0, None])
    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(values(tf.gradients(build("TestDerivedCube", x, 7).y, x)[0]), [0.0, 0.0])


def test_named_attributes_compare_by_content() -> None:
    first = NamedAttrs("Const", (("value", np.zeros(2)),))
    assert first == NamedAttrs("Const", (("value", np.zeros(2)),))
    assert hash(first) == hash(NamedAttrs("Const", (("value", np.zeros(2)),)))
    assert first != NamedAttrs("Const", (("value", np.ones(2)),))


def test_passed_gradients():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.4, 2.6])
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0), use_resource=True)
        rounded = tf.grad_pass_through(tf.round)(x)
        scaled = tf.grad_pass_through(lambda y: y * w)(x)
        session.run(w.initializer)
        assert session.run([rounded, tf.gradients(rounded, x)[0]])[0].tolist() == [1, 3]
        assert session.run(tf.gradients(rounded, x)[0]).tolist() == [1, 1]
        assert session.run([scaled, tf.gradients(scaled, x)[0]])[1].tolist() == [1, 1]
        assert tf.gradients(scaled, w) == [None]


def test_recomputed_gradients():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([0.5, 2.0])
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0), use_resource=True)
        calls = []

        @tf.recompute_grad
        def f(y):
            calls.append(y)
            return tf.exp(y * w)

        y = f(x)
        of_x, of_w = tf.gradients(y, [x, w])
        session.run(w.initializer)
        assert len(calls) == 2  # anew for the gradient
        value = np.exp(3 * np.array([0.5, 2.0]))
        np.testing.assert_allclose(session.run(of_x), 3 * value, 1e-6)
        np.testing.assert_allclose(session.run(of_w), (value * [0.5, 2.0]).sum(), 1e-6)
        forward = {op for op in session.graph.get_operations() if op.type == "Exp"}
        assert len(forward) == 2


def test_what_a_recomputed_function_is_given_by_name() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(3.0)
        square = tf.recompute_grad(lambda x, scale=1.0: tf.square(x) * scale)
        y = square(x, scale=2.0)
        assert session.run([y, *tf.gradients(y, x), *tf.gradients(square(x), x)]) == [18.0, 12.0, 6.0]
