"""The gradient of a loop keeps no more than its backward pass reads: counted in bytes, in both tiers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import anabranch as tf
from anabranch.xla import program as programs

WIDE = 100_000
"""Floats of a tensor that is large beside all else of a step."""


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def _read(y, x, i):
    """The square of it is read by the gradient: y itself is kept."""
    return y * y * 0.001 + x


def _not_read(y, x, i):
    """Linear in y: nothing is kept."""
    return y * 0.5 + x


def _large_on_the_side(y, x, i):
    """What leads to a number that no gradient goes through is not kept, nor what only makes a constant factor."""
    side = tf.exp(tf.ones([WIDE]) * tf.stop_gradient(y[0]))
    return y * 0.5 + x + tf.stop_gradient(tf.reduce_mean(side))


def _read_small_of_large(y, x, i):
    """Of a large tensor only its sum is read."""
    large = tf.ones([WIDE]) * 0.5 + tf.stop_gradient(y[0])
    return y * tf.stop_gradient(tf.reduce_sum(large) * 1e-9) + x


def _factor_by_count(y, x, i):
    """The large factor is read, but follows from the number of the iteration: it is computed again."""
    return y * (tf.range(WIDE, dtype=tf.float32) * 1e-6 + tf.cast(i, tf.float32)) + x


# What an iteration adds, in floats of the loop's width (WIDE), and a body that does so.
BODIES = {"read": (_read, WIDE, 1), "linear": (_not_read, WIDE, 0), "side": (_large_on_the_side, 4, 0)}
BODIES |= {"sum": (_read_small_of_large, 4, 0), "again": (_factor_by_count, WIDE, 0)}


def _gradient(step, width, iterations):
    x = tf.placeholder(tf.float32, [width])
    _, y = tf.while_loop(lambda i, _: i < iterations, lambda i, y: (i + 1, step(y, x, i)), (0, x))
    return tf.gradients(y, x)[0], x


def _compiled_bytes(monkeypatch, step, width, iterations):
    found = []
    compile_ = programs.Program._compile

    def measured(self, *args, **kwargs):
        made = compile_(self, *args, **kwargs)
        forms, _ = made
        found.append(forms.memory_analysis().temp_size_in_bytes)
        return made

    with monkeypatch.context() as patch, tf.Graph().as_default():
        patch.setattr(programs.Program, "_compile", measured)
        gradient, x = _gradient(step, width, iterations)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(gradient, {x: np.ones(width)})
    return max(found)


def _interpreted_bytes(step, width, iterations):
    with tf.Graph().as_default():
        gradient, x = _gradient(step, width, iterations)
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            session.run(gradient, {x: np.ones(width)})  # what a first run makes besides
            tracemalloc.start()
            try:
                session.run(gradient, {x: np.ones(width)})
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_an_iteration_adds_what_the_backward_pass_reads_and_nothing_else(tier, name, monkeypatch):
    step, width, kept = BODIES[name]
    few, many = 4, 20
    if tier == "compiled":
        sizes = [_compiled_bytes(monkeypatch, step, width, n) for n in (few, many)]
    else:
        sizes = [_interpreted_bytes(step, width, n) for n in (few, many)]
    grown = (sizes[1] - sizes[0]) / (many - few) / (4 * WIDE)
    assert kept - 0.2 < grown < kept + 0.2
