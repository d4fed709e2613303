"""Initial values: their distributions, exact ones, parts of larger variables, and configurations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def values(initializer, shape, **arguments):
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        return session.run(initializer(shape, **arguments))


SHAPE = [5, 5, 20, 40]  # 500 inputs, 1000 outputs


@pytest.mark.parametrize(
    ("make", "variance", "kind"),
    [
        (lambda: tf.random_uniform_initializer(-1.0, 3.0, seed=1), 16 / 12, "uniform"),
        (lambda: tf.random_normal_initializer(stddev=2.0, seed=1), 4.0, "normal"),
        (lambda: tf.truncated_normal_initializer(stddev=2.0, seed=1), 4.0 * 0.8796256610342398**2, "truncated"),
        (lambda: tf.uniform_unit_scaling_initializer(2.0, seed=1), 4.0 / 500, "uniform"),
        (lambda: tf.variance_scaling_initializer(seed=1), 1 / 500, "truncated"),
        (lambda: tf.variance_scaling_initializer(3.0, "fan_out", "normal", seed=1), 3 / 1000, "truncated"),
        (lambda: tf.variance_scaling_initializer(1.0, "fan_avg", "untruncated_normal", seed=1), 1 / 750, "normal"),
        (lambda: tf.variance_scaling_initializer(1.0, "fan_avg", "uniform", seed=1), 1 / 750, "uniform"),
        (lambda: tf.glorot_uniform_initializer(seed=1), 1 / 750, "uniform"),
        (lambda: tf.glorot_normal_initializer(seed=1), 1 / 750, "truncated"),
        (lambda: tf.initializers.he_normal(seed=1), 2 / 500, "truncated"),
        (lambda: tf.initializers.he_uniform(seed=1), 2 / 500, "uniform"),
        (lambda: tf.initializers.lecun_normal(seed=1), 1 / 500, "truncated"),
        (lambda: tf.initializers.lecun_uniform(seed=1), 1 / 500, "uniform"),
    ],
)
def test_distributions(make, variance, kind):
    """Variance within six standard errors for 20,000 numbers, and the right bounds."""
    unit = tf.uniform_unit_scaling_initializer
    initializer = make()
    if isinstance(initializer, unit):
        variance = (math.sqrt(3 / 500) * 2.0) ** 2 / 3
    found = values(initializer, SHAPE).astype(np.float64).ravel()
    if kind == "uniform":
        half = math.sqrt(3 * variance)
        assert np.ptp(found) <= 2 * half * (1 + 1e-6)
        assert np.ptp(found) > 1.99 * half
    elif kind == "truncated":
        bound = 2 * math.sqrt(variance) / 0.8796256610342398
        assert 0.97 * bound < np.abs(found).max() <= bound * (1 + 1e-6)
    else:
        assert np.abs(found).max() > 2.5 * math.sqrt(variance)
    assert np.var(found) == pytest.approx(variance, rel=0.06)


@pytest.mark.parametrize("shape", [[6, 4], [4, 6], [2, 3, 4], [5, 5]])
def test_orthogonal(shape):
    found = values(tf.orthogonal_initializer(gain=2.0, seed=3), shape).astype(np.float64).reshape(-1, shape[-1])
    product = found.T @ found if found.shape[0] >= found.shape[1] else found @ found.T
    np.testing.assert_allclose(product, 4.0 * np.eye(len(product)), atol=1e-5)


def test_exact_values():
    np.testing.assert_array_equal(values(tf.zeros_initializer(), [2, 2], dtype=tf.int32), np.zeros([2, 2]))
    assert values(tf.ones_initializer(tf.int64), [3]).dtype == np.int64
    np.testing.assert_array_equal(values(tf.constant_initializer([1, 2]), [2, 2]), [[1, 2], [2, 2]])
    np.testing.assert_array_equal(values(tf.constant_initializer(np.eye(2), verify_shape=True), [2, 2]), np.eye(2))
    np.testing.assert_array_equal(values(tf.initializers.identity(3.0), [2, 3]), 3 * np.eye(2, 3))
    integers = values(tf.random_uniform_initializer(0, 9, seed=1, dtype=tf.int32), [200])
    assert (integers.min(), integers.max()) == (0, 8)


def test_parts_of_larger_variables():
    """A part is scaled by the whole variable's inputs, and the parts of an identity matrix make one."""
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(3)):
        eye = tf.get_variable("eye", [5, 4], initializer=tf.initializers.identity())
        wide = tf.get_variable("wide", [300, 50], initializer=tf.initializers.lecun_uniform(seed=1))
        unit = tf.get_variable("unit", [300, 50], initializer=tf.uniform_unit_scaling_initializer(seed=1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(eye.as_tensor()), np.eye(5, 4))
        for part in (*wide, *unit):
            assert np.abs(session.run(part)).max() == pytest.approx(math.sqrt(3 / 300), rel=0.01)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.zeros_initializer(tf.int32),
        lambda: tf.ones_initializer(),
        lambda: tf.constant_initializer([1, 2]),
        lambda: tf.random_uniform_initializer(0, 3, 4),
        lambda: tf.random_normal_initializer(1.0, 2.0, 3),
        lambda: tf.truncated_normal_initializer(1.0, 2.0, 3),
        lambda: tf.uniform_unit_scaling_initializer(2.0, 3),
        lambda: tf.variance_scaling_initializer(2.0, "fan_out", "uniform", 3, tf.float64),
        lambda: tf.glorot_uniform_initializer(3),
        lambda: tf.glorot_normal_initializer(3),
        lambda: tf.orthogonal_initializer(2.0, 3),
        lambda: tf.initializers.identity(2.0),
    ],
)
def test_configurations(make):
    initializer = make()
    config = initializer.get_config()
    again = type(initializer).from_config(config)
    assert vars(again) == vars(initializer)
    assert again.get_config() == config


def test_refusals():
    for problem, text, call in (
        (ValueError, "`scale` must be positive", lambda: tf.variance_scaling_initializer(0.0)),
        (ValueError, "Invalid `mode` argument", lambda: tf.variance_scaling_initializer(mode="x")),
        (ValueError, "Invalid `distribution` argument", lambda: tf.variance_scaling_initializer(distribution="x")),
        (ValueError, "Expected floating point type, got", lambda: tf.random_normal_initializer(dtype=tf.int32)),
        (TypeError, "Invalid type for initial value", lambda: tf.constant_initializer({})),
        (ValueError, "at least two-dimensional", lambda: tf.orthogonal_initializer()([3])),
        (ValueError, "only be used for 2D matrices", lambda: tf.initializers.identity()([3])),
        (TypeError, "verify_shape=True", lambda: tf.constant_initializer([1, 2, 3], verify_shape=True)([2])),
    ):
        with pytest.raises(problem, match=text):
            call()
