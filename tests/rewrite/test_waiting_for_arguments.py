"""Ops of bodies that wait for an argument of the body: it is there already, and is not an op to run."""

from __future__ import annotations

import numpy as np

import anabranch as tf


def test_the_gradient_of_a_loop_that_waits_for_its_argument_is_compiled():
    """The gradients of a sum wait for each other, hence for what came in; that once sent the loop to the host."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2])
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5 + tf.reduce_sum(w)), (0, x))
        gradient = tf.gradients(y, w)[0]
        config = tf.SessionOptions(tier="compiled")
        with tf.Session(config=config) as session:
            session.run(w.initializer)
            found = session.run(gradient, {x: np.ones((4, 2), np.float32)})
            told = session.explain(gradient, {x: np.ones((4, 2), np.float32)})
    np.testing.assert_allclose(found, np.full(2, 4 * 2 * (1 + 1.5 + 1.5**2)), rtol=1e-6)
    assert told.count("    program ") == 1
    assert "    host " not in told
