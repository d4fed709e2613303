"""What libraries do with optimizers, averages, sessions and gradients, and TensorFlow takes."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(fetch) for fetch in fetches]


@pytest.mark.parametrize("name", [n for n in dir(tf.train) if n.endswith("Optimizer") and n != "Optimizer"])
def test_optimizers_derive_from_the_base_itself(name):
    assert getattr(tf.train, name).__base__ is tf.train.Optimizer


@pytest.mark.parametrize(("use_resource", "method"), [(False, "_apply_dense"), (True, "_resource_apply_dense")])
def test_an_optimizer_without_a_rule_says_what_is_missing(use_resource, method):
    class Empty(tf.train.Optimizer):
        def __init__(self):
            super().__init__(False, "Empty")

    v = tf.get_variable("v", [2], use_resource=use_resource)
    with pytest.raises(NotImplementedError, match=f"override {method}"):
        Empty().minimize(tf.reduce_sum(v * v))


def test_variables_by_the_views_of_a_dict():
    variables = {"a": tf.Variable(1.0), "b": tf.Variable(2.0)}
    optimizer = tf.train.GradientDescentOptimizer(0.25)
    step = optimizer.minimize(tf.square(variables["a"]) + tf.square(variables["b"]), var_list=variables.values())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run(list(variables.values())) == [0.5, 1.0]


def test_one_variable_averaged_twice_without_bias():
    from anabranch.train.moving_averages import assign_moving_average

    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    first, second = (assign_moving_average(v, value, 0.9, zero_debias=True) for value in (1.0, 2.0))
    names = [variable.op.name for variable in tf.global_variables()]
    assert names == ["v", "v/biased", "v/local_step", "v/biased_1", "v/local_step_1"]
    np.testing.assert_allclose(run(first, second, first), [1.0, 2.0, 1.0], rtol=1e-5)


def test_averages_without_bias_in_scopes_that_reuse_variables():
    from anabranch.train.moving_averages import assign_moving_average

    for reuse in (None, True, True):
        with tf.variable_scope("bn", reuse=reuse):
            v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), trainable=False)
            assign_moving_average(v, 1.0, 0.9, zero_debias=True)
    assert [variable.op.name for variable in tf.global_variables()] == ["bn/v", "bn/bn/v/biased", "bn/bn/v/local_step"]


@pytest.mark.parametrize("fails", [False, True])
def test_the_graph_is_open_again_after_a_monitored_session(graph, fails):
    v = tf.get_variable("v", [])
    try:
        with tf.train.MonitoredTrainingSession() as session:
            session.run(v)
            assert graph.finalized
            if fails:
                raise KeyError("x")
    except KeyError:
        assert fails
    assert not graph.finalized
    graph.finalize()
    tf.train.SingularMonitoredSession().close()
    assert graph.finalized


def test_part_of_a_variable_as_the_target_of_assign():
    for use_resource in (False, True):
        with tf.Graph().as_default():
            v = tf.get_variable("v", [2, 3], initializer=tf.zeros_initializer(), use_resource=use_resource)
            assign = tf.assign(v[1, :], [1.0, 2.0, 3.0])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(assign)
                assert session.run(v).tolist() == [[0, 0, 0], [1, 2, 3]]


def test_zeros_for_what_is_not_connected_read_nothing():
    for use_resource in (False, True):
        with tf.Graph().as_default():
            v = tf.get_variable("v", [2], use_resource=use_resource)
            (gradient,) = tf.gradients(tf.constant(1.0), [v], unconnected_gradients="zero")
            with tf.Session() as session:  # v has no value
                assert session.run(gradient).tolist() == [0, 0]


@pytest.mark.parametrize("shape", [[3], [2, 2], [1, 2, 4]])
def test_a_start_of_another_shape_is_refused(shape):
    x = tf.ones([2, 3])
    with pytest.raises(ValueError, match="are incompatible"):
        tf.gradients(tf.tanh(x), x, grad_ys=tf.ones(shape))


def test_a_summed_gradient_is_a_reshape_of_a_sum():
    a, b = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3])
    for x in (b, tf.ones([2, 1]), tf.ones([])):
        (gradient,) = tf.gradients(a + x, x)
        assert (gradient.op.type, gradient.op.inputs[0].op.type) == ("Reshape", "Sum")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (~(1 << 31), tf.int32, 2**31 - 1),
        (0xFFFFFFFF, tf.int32, -1),
        ([0xDEADBEEF, 1], tf.int32, [0xDEADBEEF - 2**32, 1]),
        (-1, tf.uint8, 255),
        (200, tf.int8, -56),
        (-1, tf.uint64, 2**64 - 1),
    ],
)
def test_constants_by_their_bits(value, dtype, expected):
    assert run(tf.constant(value, dtype))[0].tolist() == expected


@pytest.mark.parametrize(("value", "dtype"), [(256, tf.uint8), (1 << 32, tf.int32), ([1, 1 << 40], tf.int32)])
def test_constants_with_more_bits_are_refused(value, dtype):
    with pytest.raises(OverflowError, match="Expected: integers from"):
        tf.constant(value, dtype)


def test_static_values_of_values():
    assert tf.get_static_value(5) == 5
    assert tf.get_static_value(np.float32(2)) == 2
    assert isinstance(tf.Tensor.OVERLOADABLE_OPERATORS, set)
