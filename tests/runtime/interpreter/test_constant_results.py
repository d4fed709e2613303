"""What follows from constants alone is computed in the first interpreted run of a plan, and handed out later."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import host_ops

RUNS = 3


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def kept(monkeypatch):
    """The types of the ops whose results are kept."""
    types = []
    remembering = host_ops._remembering

    def counted(compute, outputs):
        types.append(outputs[0].op.type)
        return remembering(compute, outputs)

    monkeypatch.setattr(host_ops, "_remembering", counted)
    return types


def _session():
    return tf.Session(config=tf.SessionOptions(tier="interpreted"))


def test_axes_of_a_sum_are_computed_once(kept):
    variable = tf.Variable(np.ones([4, 3], np.float32))
    total, more = tf.reduce_sum(variable), tf.assign_add(variable, np.ones([4, 3]))
    with _session() as session:
        session.run(variable.initializer)
        for run in range(RUNS):
            assert session.run(total) == 12.0 * (run + 1)
            session.run(more)
    assert kept == ["Range"]


def test_what_is_fed_or_read_is_not_constant(kept):
    start = tf.constant(2)
    variable = tf.Variable(1)
    numbers, sizes = tf.range(start, 5), tf.range(variable, 5)
    with _session() as session:
        session.run(variable.initializer)
        for fed in (1, 3, 4):
            assert session.run(numbers).tolist() == [2, 3, 4]
            assert session.run(numbers, {start: fed}).tolist() == list(range(fed, 5))
            session.run(variable.assign(fed))
            assert session.run(sizes).tolist() == list(range(fed, 5))
    assert kept == ["Range"]


def test_a_fetched_result_is_the_callers():
    numbers = tf.range(tf.constant(0), 4) + 1
    with _session() as session:
        for _ in range(RUNS):
            value = session.run(numbers)
            assert value.tolist() == [1, 2, 3, 4]
            value[:] = 0


def test_an_op_that_fails_does_so_at_each_run():
    constant = tf.constant([3, 1])
    parts = tf.gather(constant, tf.constant([0, 1]) * 2)
    with _session() as session:
        for _ in range(RUNS):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 2 is not in \[0, 2\)"):
                session.run(parts)


def test_random_numbers_and_large_results_are_not_kept():
    drawn = tf.random_uniform(tf.constant([2]) + 1)
    large = tf.fill(tf.constant([40, 50]) * 1, 1.5) + 1.0
    with _session() as session:
        values = [session.run(drawn).tobytes() for _ in range(RUNS)]
        for _ in range(RUNS):
            np.testing.assert_array_equal(session.run(large), np.full([40, 50], 2.5, np.float32))
    assert len(set(values)) == RUNS


def test_a_long_chain_of_constants():
    value = tf.constant(0)
    for _ in range(3000):
        value = tf.identity(value)
    with _session() as session:
        for _ in range(2):
            assert session.run(value + 1) == 1
