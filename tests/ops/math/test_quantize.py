"""Gradients of fake quantisation, public names, errors; values are in the rows and in test_raw_golden.py."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.session import SessionOptions

X = np.array([[-5.0, -1.0, 0.2], [0.9, 2.0, 7.0]], np.float32)
TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])


def run(make: object, tier: str = "auto") -> object:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


@TIERS
def test_gradients_pass_within_the_range(tier: str) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3) + 1

    def make() -> list[tf.Tensor]:
        x, low, high = tf.constant(X), tf.constant(-2.0), tf.constant(3.0)
        lows, highs = tf.constant([-2.0, -0.5, -1.0]), tf.constant([0.5, 3.0, 3.0])
        args = tf.gradients(tf.fake_quant_with_min_max_args(x, -2.0, 3.0), x, weights)
        plain = tf.gradients(tf.quantization.fake_quant_with_min_max_vars(x, low, high), [x, low, high], weights)
        channels = tf.fake_quant_with_min_max_vars_per_channel(x, lows, highs)
        back = tf.quantization.quantize_and_dequantize(x, -1.0, 1.0, range_given=True)
        return [*args, *plain, *tf.gradients(channels, [x, lows, highs], weights), *tf.gradients(back, x, weights)]

    args, plain, low, high, channels, lows, highs, back = run(make, tier)
    inside = (X >= -2) & (X <= 3)
    assert np.array_equal(args, weights * inside)
    assert np.array_equal(plain, weights * inside)
    assert (low, high) == (1.0, 6.0)
    below, above = np.float32([-2, -0.5, -1]) > X, np.float32([0.5, 3, 3]) < X
    assert np.array_equal(channels, weights * ~(below | above))
    assert np.array_equal(lows, (weights * below).sum(0))
    assert np.array_equal(highs, (weights * above).sum(0))
    assert np.array_equal(back, weights)


def test_there_and_back_by_name() -> None:
    for kind, step in ((tf.quint8, 12 / 255), (tf.qint8, 12 / 255), (tf.qint16, 12 / 65535)):
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            if mode == "MIN_FIRST" and kind == tf.qint16:
                continue

            def make(kind: tf.DType = kind, mode: str = mode) -> tf.Tensor:
                found = tf.quantize(X, -5.0, 7.0, kind, mode)
                assert found.output.dtype == kind
                return tf.dequantize(found.output, found.output_min, found.output_max, mode)

            low = 0 if mode == "SCALED" and kind == tf.quint8 else -5
            np.testing.assert_allclose(run(make), np.clip(X, low, 7), atol=1.2 * step)
    first, second = run(
        lambda: [
            tf.quantize_v2(X, -5.0, 7.0, tf.quint8).output,
            tf.quantization.quantize(X, -5.0, 7.0, tf.quint8).output,
        ]
    )
    assert np.array_equal(first, second)


def test_a_net_learns_under_fake_quantisation() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(64, 4)).astype(np.float32)
    target = x @ np.float32([[0.5], [-1.0], [0.25], [2.0]])
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.Variable(tf.zeros([4, 1]))
        limit = tf.Variable(3.0)
        rounded = tf.fake_quant_with_min_max_vars(weights, -limit, limit, num_bits=6)
        loss = tf.reduce_mean(tf.square(tf.matmul(x, rounded) - target))
        step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
        session.run(tf.global_variables_initializer())
        for _ in range(100):
            session.run(step)
        assert session.run(loss) < 0.02
        assert len(np.unique(session.run(rounded))) == 4


@TIERS
def test_errors(tier: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Maximum of the range must be at least the minimum"):
        run(lambda: tf.quantize(X, 3.0, -1.0, tf.quint8).output, tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_min must be at most input_max"):
        run(lambda: tf.quantization.quantize_and_dequantize(X, 3.0, -1.0, range_given=True), tier)
    with tf.Graph().as_default():
        for make, text in (
            (lambda: tf.fake_quant_with_min_max_args(X, 3.0, 1.0), "min has to be smaller than max"),
            (lambda: tf.fake_quant_with_min_max_args(X, num_bits=1), "num_bits must be between 2 and 16"),
            (lambda: tf.fake_quant_with_min_max_vars(X, [1.0], 3.0), "rank 0"),
            (lambda: tf.quantize(X, 0.0, 1.0, tf.qint8, round_mode="HALF_TO_EVEN"), "only supported for mode 'SCALED'"),
            (lambda: tf.quantization.quantize_and_dequantize(X, 0.0, 1.0, num_bits=1), "num_bits=1"),
        ):
            with pytest.raises(ValueError, match=text):
                make()
        x = tf.constant(X)
        first = tf.gradients(tf.fake_quant_with_min_max_args(x), x)[0]
        assert tf.gradients(first, x) == [None]
