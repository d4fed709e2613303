"""A variable is computed from its slots as they are stored: nothing is computed twice, and no slot is copied."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.xla import lowering, program

SHAPE = (37, 41)
OPTIMIZERS = {
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5),
    "rms": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered rms": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "ada max": lambda: tf.contrib.opt.AdaMaxOptimizer(0.1),
    "add sign": lambda: tf.contrib.opt.AddSignOptimizer(0.1),
    "power sign": lambda: tf.contrib.opt.PowerSignOptimizer(0.1),
}


@pytest.fixture
def compiled(monkeypatch):
    """By number of ops, the executables that are made from here on."""
    executables = {}
    compile_ = program.Program._compile

    def recorded(self, *arguments, **options):
        executables[len(self.group.ops)] = compile_(self, *arguments, **options)
        return executables[len(self.group.ops)]

    monkeypatch.setattr(program.Program, "_compile", recorded)
    # What other tests have had refused would be expected of all programs of this process.
    monkeypatch.setattr(lowering, "emits_checks", set())
    return executables


def _copies(compiled):
    """How many arrays of the variable's shape the largest program copies."""
    text = compiled[max(compiled)].function.as_text()
    return sum(f"f32[{SHAPE[0]},{SHAPE[1]}]" in line and " copy(" in line for line in text.splitlines())


def _states(build, tier, bad=False):
    """All variables after two steps, of which a third failed if it is to."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, SHAPE)
        w = tf.Variable(random.normal(size=SHAPE).astype(np.float32))
        with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
            gradient = tf.identity(x)
        step = build(w, gradient)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(step, {x: random.normal(size=SHAPE)})
            if bad:
                with pytest.raises(errors.InvalidArgumentError, match="assert_less"):
                    session.run(step, {x: np.full(SHAPE, 200.0)})
            return session.run(tf.global_variables())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_slot_is_copied_and_a_failed_step_changes_none(name, compiled):
    def build(w, gradient):
        return OPTIMIZERS[name]().apply_gradients([(gradient, w)])

    expected = _states(build, "interpreted")
    found = _states(build, "compiled", bad=True)
    assert _copies(compiled) == 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def _adam_of_plain_ops(w, gradient):
    """Adam as Keras writes it: an assignment for each slot, and the variable from what the slots then hold."""
    m, v = (tf.get_variable(name, initializer=np.zeros(SHAPE, np.float32), use_resource=True) for name in "mv")
    with tf.control_dependencies([m.assign_add((gradient - m) * 0.1), v.assign_add((gradient**2 - v) * 0.1)]):
        return w.assign_sub(0.1 * m.read_value() / (tf.sqrt(v.read_value()) + 1e-3)).op


def test_slots_that_ops_of_their_own_write_are_not_copied(compiled):
    tf.enable_resource_variables()
    try:
        expected = _states(_adam_of_plain_ops, "interpreted")
        found = _states(_adam_of_plain_ops, "compiled", bad=True)
    finally:
        tf.disable_resource_variables()
    assert _copies(compiled) == 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_a_write_that_depends_on_another_is_refused_for_its_shape(compiled):
    del compiled
    with tf.Graph().as_default():
        v, w = (tf.Variable(tf.ones([3]), use_resource=True) for _ in range(2))
        factor = tf.placeholder(tf.float32)
        with tf.control_dependencies([v.assign_add([1.0, 2.0, 3.0])]):
            step = w.assign_sub(v.read_value() * factor)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            session.run(step, {factor: 1.0})
            with pytest.raises(errors.InvalidArgumentError, match="shape"):
                session.run(step, {factor: np.ones((2, 1))})
            np.testing.assert_array_equal(session.run(v), [2.0, 3.0, 4.0])
            np.testing.assert_array_equal(session.run(w), [-1.0, -2.0, -3.0])
            session.run(step, {factor: [1.0, 0.0, 0.0]})
            np.testing.assert_array_equal(session.run(w), [-4.0, -2.0, -3.0])
