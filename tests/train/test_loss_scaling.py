"""Scaled losses: what TensorFlow 1.15.5's scales and variables are, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

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


KERAS = tf.keras.mixed_precision.experimental


# What TensorFlow 1.15.5 has after each step of a tape on the sum of squares: scaled loss, variable, scale, iterations.
@pytest.mark.parametrize(
    ("scale", "steps"),
    [
        (
            lambda: EXPERIMENTAL.DynamicLossScale(64.0, 2),
            [(320.0, 0.8, 64, 1), (204.8, 0.64, 128, 2), (262.144, 0.512, 128, 3), (167.77214, 0.512, 64, 3)],
        ),
        (
            lambda: 128,
            [(640.0, 0.8, 128, 1), (409.6, 0.64, 128, 2), (262.144, 0.512, 128, 3), (167.77214, -np.inf, 128, 4)],
        ),
    ],
)
def test_optimizers_of_keras_where_ops_run_at_once(scale, steps):
    with mode.eager_mode():
        v = tf.Variable([1.0, 2.0])
        optimizer = KERAS.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), scale())
        for number, wanted in enumerate(steps):
            with tf.GradientTape() as tape:
                scaled = optimizer.get_scaled_loss(tf.reduce_sum(v * v))
            (slope,) = optimizer.get_unscaled_gradients(tape.gradient(scaled, [v]))
            optimizer.apply_gradients([(slope * (np.inf if number == 3 else 1.0), v)])
            found = (float(scaled), v.numpy()[0], float(optimizer.loss_scale()), int(optimizer.iterations))
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
        assert optimizer.lr.numpy() == np.float32(0.1)


@pytest.mark.parametrize("eager", [False, True])
def test_models_train_with_a_scaled_loss(eager):
    x = np.linspace(0.0, 1.0, 24, dtype=np.float32).reshape(8, 3)
    with mode.eager_mode() if eager else tf.Graph().as_default():
        histories = []
        for scale in (None, EXPERIMENTAL.DynamicLossScale(1024.0, increment_period=3)):
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), kernel_initializer="ones")])
            adam = tf.keras.optimizers.Adam(0.05)
            optimizer = adam if scale is None else KERAS.LossScaleOptimizer(adam, scale)
            model.compile(optimizer, "mse")
            histories.append(model.fit(x, x[:, :1], epochs=5, batch_size=4, shuffle=False, verbose=0).history["loss"])
        np.testing.assert_allclose(histories[1], histories[0], rtol=1e-5)
        assert tf.keras.backend.get_value(scale()) == 8192.0
        before = model.get_weights()[0]
        model.train_on_batch(np.full((4, 3), np.inf, np.float32), x[:4, :1])
        np.testing.assert_array_equal(model.get_weights()[0], before)
        assert tf.keras.backend.get_value(scale()) == 4096.0
        assert tf.keras.backend.get_value(optimizer.iterations) == 10
        assert len(optimizer.weights) == 5


def test_what_keras_does_not_scale():
    with tf.Graph().as_default():
        sgd = tf.keras.optimizers.SGD
        scaled = EXPERIMENTAL.enable_mixed_precision_graph_rewrite(sgd(0.1))
        assert type(scaled) is KERAS.LossScaleOptimizer
        with pytest.raises(ValueError, match="does not support wrapping optimizers with a clipnorm"):
            KERAS.LossScaleOptimizer(sgd(0.1, clipnorm=1.0), 8)
        with pytest.raises(ValueError, match='"opt" must be an instance of OptimizerV2'):
            KERAS.LossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), 8)
        with pytest.raises(NotImplementedError, match="is not yet implemented for LossScaleOptimizers"):
            scaled.get_config()
