"""Scaled losses: what TensorFlow 1.15.5's scales and variables are, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

LOSSES = [1.0, 1.0, np.inf, 1.0, np.nan, np.inf, np.inf, np.inf, 1.0, 1.0, 1.0]
# What TensorFlow 1.15.5 has after each of these steps: scale, good steps, global step, the variable.
GROWING = [
    (8, 1, 1, 0.8),
    (16, 0, 2, 0.46),
    (8, 0, 2, 0.46),
    (8, 1, 3, 0.062),
    (4, 0, 3, 0.062),
    (2, 0, 3, 0.062),
    (1, 0, 3, 0.062),
    (1, 0, 3, 0.062),
    (1, 1, 4, -0.3086),
    (2, 0, 5, -0.58042),
    (2, 1, 6, -0.708974),
]
EXPERIMENTAL = tf.train.experimental


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_scale_that_grows_and_shrinks(tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        factor = tf.placeholder(tf.float32, [])
        scale = EXPERIMENTAL.DynamicLossScale(8.0, 2, 2.0)
        optimizer = EXPERIMENTAL.MixedPrecisionLossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), scale)
        step = tf.train.get_or_create_global_step()
        train = optimizer.minimize(tf.reduce_sum(v * v) * factor, global_step=step)
        names = {variable.op.name: variable for variable in tf.global_variables()}
        assert list(names) == ["v", "current_loss_scale", "good_steps", "global_step", "v/Momentum"]
        assert optimizer.get_slot(v, "momentum") is names["v/Momentum"]
        session.run(tf.global_variables_initializer())
        for loss, (size, good, done, value) in zip(LOSSES, GROWING, strict=True):
            session.run(train, {factor: loss})
            state = session.run([names["current_loss_scale"], names["good_steps"], step, v])
            assert state[:3] == [size, good, done]
            np.testing.assert_allclose(state[3], [value, value], rtol=1e-5)


def test_scales_of_any_size_give_the_same_training():
    results = []
    for wrap in (
        lambda o: o,
        lambda o: EXPERIMENTAL.MixedPrecisionLossScaleOptimizer(o, 1024),
        EXPERIMENTAL.enable_mixed_precision_graph_rewrite,
    ):
        with tf.Graph().as_default(), tf.Session() as session:
            table = tf.get_variable("t", [5, 2], initializer=tf.ones_initializer())
            loss = tf.reduce_sum(tf.square(tf.gather(table, [1, 3, 1])))
            train = wrap(tf.train.AdamOptimizer(0.1)).minimize(loss)
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            results.append(session.run(table))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    np.testing.assert_allclose(results[2], results[0], rtol=1e-6)
    EXPERIMENTAL.disable_mixed_precision_graph_rewrite()


def test_arguments_of_scales():
    with tf.Graph().as_default():
        assert EXPERIMENTAL.FixedLossScale(2).get_config() == {"loss_scale_value": 2.0}
        dynamic = EXPERIMENTAL.DynamicLossScale.from_config({"initial_loss_scale": 4, "increment_period": 3})
        assert (dynamic.initial_loss_scale, dynamic.increment_period, dynamic.multiplier) == (4.0, 3, 2.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EXPERIMENTAL.FixedLossScale("a"), "must be a Python int or float"),
        (lambda: EXPERIMENTAL.FixedLossScale(0.5), "must be at least 1"),
        (lambda: EXPERIMENTAL.MixedPrecisionLossScaleOptimizer(3, 2.0), '"opt" must be an instance of Optimizer'),
        (
            lambda: EXPERIMENTAL.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), "x"),
            "Could not interpret loss scale identifier: x",
        ),
        (lambda: EXPERIMENTAL.enable_mixed_precision_graph_rewrite(3), "must be an instance of a tf.train.Optimizer"),
        (
            lambda: EXPERIMENTAL.enable_mixed_precision_graph_rewrite(
                EXPERIMENTAL.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), 2)
            ),
            "must not already be an instance",
        ),
    ],
)
def test_what_is_refused(make, words):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        make()


def test_optimizers_of_keras_are_refused_for_now():
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match=r"of tf\.keras"):
        EXPERIMENTAL.enable_mixed_precision_graph_rewrite(tf.keras.optimizers.SGD(0.1))
