"""Learning rates that change with the step, where ops run at once: functions, which optimizers call at each step."""

import math

import numpy as np
import pytest

import anabranch as tf

train = tf.train
SCHEDULES = {
    "exponential": (lambda step: train.exponential_decay(0.1, step, 2, 0.5), lambda n: 0.1 * 0.5 ** (n / 2)),
    "stairs": (lambda step: train.exponential_decay(0.1, step, 2, 0.5, True), lambda n: 0.1 * 0.5 ** (n // 2)),
    "natural": (lambda step: train.natural_exp_decay(0.1, step, 2, 0.5), lambda n: 0.1 * math.exp(-0.25 * n)),
    "inverse": (lambda step: train.inverse_time_decay(0.1, step, 2, 0.5), lambda n: 0.1 / (1 + 0.25 * n)),
    "polynomial": (lambda step: train.polynomial_decay(0.1, step, 4, 0.0), lambda n: 0.1 * (1 - min(n, 4) / 4)),
    "pieces": (
        lambda step: train.piecewise_constant(step, [1, 3], [0.1, 0.2, 0.3]),
        lambda n: 0.1 * (1 + (n > 1) + (n > 3)),
    ),
    "cosine": (lambda step: train.cosine_decay(0.1, step, 4), lambda n: 0.05 * (1 + math.cos(math.pi * min(n, 4) / 4))),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_computed_for_the_step_that_is(name):
    schedule, expected = SCHEDULES[name]
    step = tf.Variable(0, trainable=False)
    rate = schedule(step)
    for number in range(6):
        np.testing.assert_allclose(rate(), expected(number), rtol=1e-5, atol=1e-8)
        step.assign_add(1)


@pytest.mark.parametrize(
    "make",
    [train.GradientDescentOptimizer, train.AdamOptimizer, lambda rate: train.MomentumOptimizer(rate, 0.0)],
)
def test_optimizers_follow_it(make):
    """A rate that ends after one step: with the rate of the beginning the variable would go on."""
    step = train.get_or_create_global_step()
    step.assign(0)
    weight = tf.Variable(1.0)
    optimizer = make(train.piecewise_constant(step, [0], [0.5, 0.0]))
    seen = []
    for _ in range(3):
        optimizer.minimize(lambda: weight * 1.0, global_step=step)
        seen.append(float(weight))
    np.testing.assert_allclose(seen, [0.5] * 3, atol=1e-6)


def test_in_a_function_it_is_a_tensor():
    step = tf.Variable(2, trainable=False)

    @tf.function
    def rate():
        return train.exponential_decay(0.1, step, 2, 0.5)

    np.testing.assert_allclose(rate(), 0.05)


def test_what_is_wrong_before_there_is_a_step_is_told_then():
    with pytest.raises(ValueError, match="global_step is required for exponential_decay"):
        train.exponential_decay(0.1, None, 1, 0.5)
    with pytest.raises(ValueError, match="length of boundaries should be 1 less"):
        train.piecewise_constant(tf.Variable(0), [1], [0.1])
    with pytest.raises(TypeError, match="missing a required argument: 'decay_rate'"):
        train.exponential_decay(0.1, tf.Variable(0), 1)
