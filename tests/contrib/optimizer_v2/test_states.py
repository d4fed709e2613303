"""`tf.contrib.optimizer_v2`: optimizers of programs and refusals; values stand in `tests/golden/contrib.json`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

v2 = tf.contrib.optimizer_v2


class Descent(v2.OptimizerV2):  # type: ignore[misc,name-defined]
    """An optimizer of a program: a count of steps divides the rate."""

    def __init__(self, rate: Any, name: str = "Descent") -> None:
        super().__init__(False, name)
        self._set_hyper("rate", rate)

    def _create_vars(self, var_list: Any, state: Any) -> None:
        state.create_non_slot(1.0, "count")
        for var in var_list:
            state.create_slot(var, tf.ones_like(var), "old")
            state.create_slot_with_initializer(var, tf.zeros_initializer(), var.shape, tf.float32, "sum")

    def _resource_apply_dense(self, grad: Any, handle: Any, state: Any) -> Any:
        rate = state.get_hyper("rate", tf.float32) / state.get_non_slot("count")
        total = state.get_slot(handle, "sum").assign_add(grad)
        with tf.control_dependencies([total]):
            return tf.group(handle.assign_sub(rate * grad), state.get_slot(handle, "old").assign(grad))

    def _finish(self, state: Any) -> Any:
        return state.get_non_slot("count").assign_add(1.0)


def test_an_optimizer_of_a_program() -> None:
    rate = [0.5]
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=[4.0, -2.0], use_resource=True)
        step = tf.train.get_or_create_global_step()
        optimizer = Descent(lambda: rate[0])
        train = optimizer.minimize(tf.reduce_sum(v * v) / 2, step)
        assert optimizer.get_slot_names() == ["old", "sum"]
        assert [w.op.name for w in optimizer.variables()] == ["count", "v/Descent", "v/Descent_1"]
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(v), [2, -1])
        session.run(train)
        np.testing.assert_allclose(session.run(v), [1.5, -0.75])
        np.testing.assert_allclose(session.run(optimizer.get_slot(v, "sum")), [6, -3])
        assert session.run(step) == 2


def test_a_constraint_follows_the_update() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable([1.0, 5.0], constraint=lambda x: tf.clip_by_value(x, 0.5, 3.0))
        train = v2.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(v))
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_array_equal(session.run(v), [0.5, 3])
        with pytest.raises(RuntimeError, match="Cannot use a constraint function on a sparse variable"):
            v2.GradientDescentOptimizer(1.0).minimize(tf.gather(v, [0]))


def test_where_ops_run_at_once() -> None:
    def train(kind: str) -> Any:
        rate = [0.25]
        v = tf.contrib.eager.Variable([1.0, 2.0])
        optimizer = getattr(v2, kind)(lambda: rate[0])
        for _ in range(2):
            optimizer.minimize(lambda: tf.reduce_sum(v * v))
            rate[0] = 0.1
        return v.numpy()

    with mode.eager_mode():
        np.testing.assert_allclose(train("GradientDescentOptimizer"), [0.4, 0.8], rtol=1e-6)
        np.testing.assert_allclose(train("AdamOptimizer"), [0.651743, 1.650568], rtol=1e-5)


def test_refusals() -> None:
    class Old(v2.OptimizerV2):  # type: ignore[misc,name-defined]
        def _create_slots(self, var_list: Any) -> None:
            """Not what is called."""

    with pytest.raises(RuntimeError, match="Override _create_vars instead of _create_slots"):
        Old(False, "Old")
    with pytest.raises(ValueError, match="initial_accumulator_value must be positive: 0"):
        v2.AdagradOptimizer(0.1, 0.0)
    with tf.Graph().as_default():
        v = tf.Variable(1.0)
        with pytest.raises(NotImplementedError, match="_apply_dense"):
            v2.OptimizerV2(False, "Base").minimize(v * v)
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            v2.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0), var_list=[v])
