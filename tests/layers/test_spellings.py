"""Arguments that programs write and TensorFlow takes."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetch, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetch, feeds)


@pytest.mark.parametrize("dtype", [np.float64, "float64", np.dtype("float64"), tf.float64, "double"])
@pytest.mark.parametrize(
    "make",
    [
        lambda d: tf.get_variable("v", [4], dtype=d),
        lambda d: tf.get_variable("v", [4], dtype=d, use_resource=True),
        lambda d: tf.get_local_variable("v", [4], dtype=d),
        lambda d: tf.get_variable("v", [4], dtype=d, partitioner=tf.fixed_size_partitioner(2)),
        lambda d: tf.layers.Dense(3, dtype=d)(tf.ones([2, 3], tf.float64)),
        lambda d: tf.layers.BatchNormalization(dtype=d)(tf.ones([2, 3], tf.float64)),
    ],
)
def test_types_of_variables_by_any_name(make, dtype):
    assert make(dtype).dtype.base_dtype == tf.float64


def test_type_of_a_scope_by_its_numpy_class():
    with tf.variable_scope("s", dtype=np.float64):
        assert tf.get_variable("v", [2]).dtype.base_dtype == tf.float64


def test_shapes_as_sizes_of_windows():
    x = tf.zeros([1, 4, 6, 1])
    assert tf.layers.max_pooling2d(x, tf.TensorShape([2, 3]), 1).shape.as_list() == [1, 3, 4, 1]
    assert tf.layers.conv2d(x, 2, tf.TensorShape([2, 3])).shape.as_list() == [1, 3, 4, 2]
    assert tf.layers.conv2d(x, 2, np.array([2, 3])).shape.as_list() == [1, 3, 4, 2]


def test_fused_batch_norm_is_for_four_axes_only():
    x = np.random.RandomState(0).rand(2, 3, 4).astype(np.float32)
    plain, fused = (tf.layers.batch_normalization(tf.constant(x), fused=form, training=True) for form in (False, True))
    np.testing.assert_allclose(*run([plain, fused]))


@pytest.mark.parametrize(("scale", "center"), [(True, True), (False, False), (True, False), (False, True)])
def test_adjustment_comes_before_gamma_and_beta(scale, center):
    x = np.random.RandomState(0).rand(8, 3).astype(np.float32)
    training = tf.placeholder(tf.bool, [])
    shapes = []

    def adjustment(shape):
        shapes.append(shape)
        return tf.constant([1.0, 2.0, 3.0]), tf.fill([shape[0], 1], 0.5)

    normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
    y = tf.layers.batch_normalization(
        tf.constant(x),
        training=training,
        adjustment=adjustment,
        scale=scale,
        center=center,
        gamma_initializer=tf.constant_initializer(2.0),
        beta_initializer=tf.constant_initializer(7.0),
    )
    gamma, beta = 2.0 if scale else 1.0, 7.0 if center else 0.0
    expected = (normal * [1, 2, 3] + 0.5) * gamma + beta
    np.testing.assert_allclose(run(y, {training: True}), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(y, {training: False}), x / np.sqrt(1.001) * gamma + beta, rtol=1e-5)
    assert len(shapes) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"adjustment": lambda shape: (tf.ones(shape[-1:]), tf.zeros(shape[-1:]))},
        {"axis": 2},
        {"axis": [1, 3]},
        {"renorm": True},
        {"virtual_batch_size": 2},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_fused_goes_the_long_way_where_the_fused_op_cannot(arguments):
    x = np.random.RandomState(0).rand(2, 2, 2, 3).astype(np.float32)
    plain, fused = (
        tf.layers.batch_normalization(tf.constant(x), fused=form, training=True, **arguments) for form in (False, True)
    )
    assert not any(op.type.startswith("FusedBatchNorm") for op in tf.get_default_graph().get_operations())
    np.testing.assert_allclose(*run([plain, fused]))


def test_channels_that_batch_normalization_does_not_know():
    with pytest.raises(ValueError, match=r"Input has undefined `axis` dimension. Input shape: \(5, \?, 3, 3\)"):
        tf.layers.batch_normalization(tf.placeholder(tf.float32, [5, None, 3, 3]), axis=1)


@pytest.mark.parametrize("function", [tf.layers.max_pooling3d, tf.layers.average_pooling3d])
def test_three_dimensions_are_pooled_with_the_channels_last(function):
    x = np.random.RandomState(0).rand(2, 3, 4, 5, 6).astype(np.float32)
    first = function(tf.constant(x), 2, 1, data_format="channels_first")
    last = function(tf.constant(x.transpose(0, 2, 3, 4, 1)), 2, 1)
    assert {op.get_attr("data_format") for op in first.graph.get_operations() if "Pool3D" in op.type} == {b"NDHWC"}
    assert first.op.name.endswith("/transpose_1")
    values = run([first, last])
    np.testing.assert_array_equal(values[0], values[1].transpose(0, 4, 1, 2, 3))


@pytest.mark.parametrize("options", [{}, {"scale": True}, {"fused": False}, {"updates_collections": None}])
@pytest.mark.parametrize("shape", [[2, 4], [2, 3, 3, 4]])
def test_averages_of_contrib_stay_whole_under_a_partitioner(options, shape):
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        y = tf.contrib.layers.batch_norm(tf.ones(shape), scope="b", **options)
        assert tf.get_variable_scope().partitioner is not None
    names = {variable.op.name.removeprefix("a/b/") for variable in tf.global_variables()}
    assert names >= {"beta/part_0", "beta/part_1", "moving_mean", "moving_variance"}
    assert not any(name.startswith("moving") and "part" in name for name in names)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y).shape == tuple(shape)


def test_averages_stay_whole_under_a_partitioner():
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        tf.layers.batch_normalization(tf.zeros([2, 4]))
        tf.layers.dense(tf.zeros([2, 4]), 2)
    names = [variable.op.name for variable in tf.global_variables()]
    assert names == [
        "a/batch_normalization/gamma/part_0",
        "a/batch_normalization/gamma/part_1",
        "a/batch_normalization/beta/part_0",
        "a/batch_normalization/beta/part_1",
        "a/batch_normalization/moving_mean",
        "a/batch_normalization/moving_variance",
        "a/dense/kernel/part_0",
        "a/dense/kernel/part_1",
        "a/dense/bias/part_0",
        "a/dense/bias/part_1",
    ]


def test_a_probability_as_an_array():
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(3), np.array(0.5), np.float32(1.0))
    assert cell(tf.ones([2, 3]), tf.zeros([2, 3]))[0].shape.as_list() == [2, 3]


def test_numbers_that_are_computed_with_before_they_meet_a_tensor():
    logits = tf.constant([0.5, -1.0])
    weighted = tf.nn.weighted_cross_entropy_with_logits(tf.constant([1.0, 0.0]), logits, pos_weight=np.float64(3.0))
    expected = [3 * np.log1p(np.exp(-0.5)), np.log1p(np.exp(-1.0))]
    np.testing.assert_allclose(run(weighted), expected, rtol=1e-6)
    assert run(tf.nn.lrn(tf.ones([1, 1, 1, 4]), np.float32(2.0))).shape == (1, 1, 1, 4)
