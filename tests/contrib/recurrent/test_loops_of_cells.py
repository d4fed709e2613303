"""`tf.contrib.recurrent`: gradients that a program writes itself; other values stand in `tests/golden/contrib.json`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import anabranch as tf

Theta = namedtuple("Theta", "w b")
State = namedtuple("State", "h")
Inputs = namedtuple("Inputs", "x")


def cell(theta: Theta, state: State, inputs: Inputs) -> Any:
    h = tf.sigmoid(tf.matmul(tf.concat([inputs.x, state.h], 1), theta.w) + theta.b)
    return State(h), State(h)


def gradient(theta: Theta, state: State, inputs: Inputs, extras: State, of_state: State) -> Any:
    d = of_state.h * extras.h * (1 - extras.h)
    both = tf.matmul(d, theta.w, transpose_b=True)
    size = inputs.x.shape[1].value
    of_w = tf.matmul(tf.concat([inputs.x, state.h], 1), d, transpose_a=True)
    return Theta(of_w, tf.reduce_sum(d, 0)), State(both[:, size:]), Inputs(both[:, :size])


@pytest.mark.parametrize("time", [1, 5])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_gradient_of_the_program_is_the_derived_one(time: int, tier: str) -> None:
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        theta = Theta(tf.constant(random.randn(5, 3)), tf.constant(random.randn(3)))
        start, x = State(tf.constant(random.randn(2, 3))), Inputs(tf.constant(random.randn(time, 2, 2)))
        results = []
        for cell_grad in (None, gradient):
            states, last = tf.contrib.recurrent.Recurrent(theta, start, x, cell, cell_grad=cell_grad)
            assert isinstance(states, State)
            assert last.h.shape == [2, 3]
            loss = tf.reduce_sum(tf.square(states.h)) + tf.reduce_sum(last.h)
            results.append([states.h, last.h, *tf.gradients(loss, [theta.w, theta.b, start.h, x.x])])
        derived, own = session.run(results)
        for one, other in zip(derived, own, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_none_in_a_gradient_means_zeros() -> None:
    def step(theta: Any, state: Any, x: Any) -> Any:
        return theta * state + x, []

    def of_step(theta: Any, state: Any, x: Any, extras: Any, of_state: Any) -> Any:
        return state * of_state, theta * of_state, None

    with tf.Graph().as_default(), tf.Session() as session:
        theta, x = tf.constant(2.0), tf.constant([1.0, 2.0, 3.0])
        _, last = tf.contrib.recurrent.Recurrent(theta, tf.constant(1.0), x, step, of_step)
        of_theta, of_x = session.run(tf.gradients(last, [theta, x]))
        assert of_theta == 3 * 2**2 + 2 * 2 + 2  # the derivative of t^3 + t^2 + 2 t + 3
        assert not of_x.any()
        _, last = tf.contrib.recurrent.Recurrent(theta, tf.constant(1.0), x, step, lambda *parts: (parts[4],))
        with pytest.raises(ValueError, match="1 gradients of cell_grad"):
            tf.gradients(last, theta)


def test_scales_of_losses_below_1_are_refused() -> None:
    with pytest.raises(ValueError, match="loss scale must be at least 1"):
        tf.contrib.mixed_precision.FixedLossScaleManager(0.5)
