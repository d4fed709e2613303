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


def test_cells_of_a_grid_and_what_they_refuse() -> None:
    kinds = tf.contrib.grid_rnn
    with tf.Graph().as_default(), tf.Session() as session:
        cell = kinds.Grid2BasicRNNCell(2, non_recurrent_fn=tf.nn.relu)
        assert (cell.state_size, cell.output_size) == ((2,), (2,))
        x, state = tf.ones([1, 3]), (tf.zeros([1, 2]),)
        with tf.variable_scope("root", initializer=tf.constant_initializer(0.2)):
            output, new = cell(x, state)
        names = ["project_m_0", "recurrent/cell_1/basic_rnn_cell/kernel", "recurrent/cell_1/basic_rnn_cell/bias"]
        dense = ["non_recurrent/cell_0/fully_connected/weights", "non_recurrent/cell_0/fully_connected/biases"]
        wanted = [f"root/Grid2BasicRNNCell/{name}" for name in [*names, *dense]]
        assert [v.op.name for v in tf.global_variables()] == wanted
        session.run(tf.global_variables_initializer())
        # The key is a structure of one, and so is an array.
        (got,), (after,) = session.run([output, new], {state: np.array([[0.1, 0.3]])})
        projected = np.full([1, 2], 0.6)
        h = np.tanh(0.2 * (projected.sum() + 0.4))
        np.testing.assert_allclose(after, np.full([1, 2], h), rtol=1e-6)
        np.testing.assert_allclose(got, np.full([1, 2], 0.2 * (projected.sum() + 2 * h)), rtol=1e-6)
        with pytest.raises(ValueError, match="Expected state as a tuple of 1 element"):
            cell(x, (state[0], state[0]))
        with pytest.raises(ValueError, match=r"Invalid dims: \[2\]. Must be in \[0, 2\)"):
            kinds.GridRNNCell(2, num_dims=2, input_dims=2)
        with pytest.raises(TypeError, match="cell_fn must return an RNNCell instance"):
            kinds.GridRNNCell(2, cell_fn=lambda units: units)


def test_a_grid_runs_in_a_loop() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        cell = tf.contrib.grid_rnn.Grid3LSTMCell(4, output_is_tuple=False)
        outputs, states = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
        gradients = tf.gradients(outputs, tf.trainable_variables())
        session.run(tf.global_variables_initializer())
        assert session.run(outputs).shape == (2, 5, 4)
        assert len(states) == 3
        assert all(np.isfinite(each).all() for each in session.run(gradients))
