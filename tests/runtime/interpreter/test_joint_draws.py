"""Draws that interpreted steps make together give the numbers of draws one by one, and move the streams as far."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.random import distributions, philox
from anabranch.runtime.interpreter import joint_draws

STEPS = 8


@pytest.fixture
def drawn(monkeypatch):
    """How many draws each call has made together."""
    numbers = []
    together = joint_draws.JointDraws._drawn

    def counted(self, attempt):
        found = together(self, attempt)
        numbers.append(len(found))
        return found

    monkeypatch.setattr(joint_draws.JointDraws, "_drawn", counted)
    return numbers


def _results(build, feeds, least, monkeypatch):
    monkeypatch.setattr(joint_draws, "LEAST_DRAWS", least)
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        size, fetches = build()
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            return [session.run(fetches, {size: value}) for value in feeds]


def _require_same(build, feeds, monkeypatch):
    together = _results(build, feeds, 3, monkeypatch)
    one_by_one = _results(build, feeds, 1 << 30, monkeypatch)
    for step, other in zip(together, one_by_one, strict=True):
        for value, expected in zip(step, other, strict=True):
            assert value.dtype == expected.dtype
            np.testing.assert_array_equal(value, expected)


def test_noise_and_dropout_of_all_sizes(drawn, monkeypatch):
    def build():
        size = tf.placeholder(tf.int32, [])
        rows = tf.ones(tf.stack([size, 7]))
        dropped = [tf.nn.dropout(rows, 0.5) for _ in range(4)]
        noise = [tf.random_normal([count]) for count in (1, 31, 32, 33, 400, 9000)]
        uniform = [tf.random_uniform([3, count]) for count in (0, 1, 2, 5, 2000, 4000)]
        double = [tf.random_uniform([2, 3], dtype=tf.float64) for _ in range(3)]
        return size, [*dropped, *noise, *uniform, *double, tf.random_uniform([])]

    _require_same(build, [5, 6, 5, 40, 0, 5, 6, 1], monkeypatch)
    # Normal numbers of two sizes, uniform ones of five, masks of four rows or more; float64 is drawn one by one.
    assert set(drawn) == {2, 5, 4, 0}


def test_more_than_one_call_draws(drawn, monkeypatch):
    def build():
        size = tf.placeholder(tf.int32, [])
        return size, [tf.random_uniform([size, 1000]) for _ in range(11)]

    _require_same(build, [8] * STEPS, monkeypatch)
    assert set(drawn) == {11}


def test_draws_that_fail_say_so_and_move_nothing(drawn):
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        size = tf.placeholder(tf.int32, [])
        draws = [tf.random_uniform(tf.stack([size])) for _ in range(4)]
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            steps = [session.run(draws, {size: 3}) for _ in range(5)]
            with pytest.raises(tf.errors.InvalidArgumentError, match="Dimension -1 must be >= 0"):
                session.run(draws, {size: -1})
            steps.append(session.run(draws, {size: 3}))
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            expected = [session.run(draws, {size: 3}) for _ in range(6)]
    assert 4 in drawn
    np.testing.assert_array_equal(steps, expected)


@pytest.mark.parametrize("place", [0, 5, (1 << 32) - 3, (1 << 64) + 7, (1 << 127) + (1 << 40)])
def test_words_of_several_streams(place):
    places, counts = [(17, place), (1 << 63, place + 9), (0xFFFFFFFF, 2)], [40, 4, 1000]
    streams = [philox.stream_at(*one) for one in places]
    dtype = np.dtype(np.float32)
    for value, stream, count in zip(
        distributions.uniforms_of_streams(places, counts, dtype), streams, counts, strict=True
    ):
        words = philox.host_words(stream, count)
        np.testing.assert_array_equal(value, philox.float32(np, words, lambda array, kind: array.view(kind)))


def test_a_counter_that_carries_is_left_to_its_op():
    places = [(17, (1 << 64) - 2), (3, 0)]
    assert distributions.uniforms_of_streams(places, [100, 8], np.dtype(np.float32)) == [None, None]
