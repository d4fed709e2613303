"""Learning rates in both tiers: at the steps where they turn, and with numbers that are tensors."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

train = tf.train


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found


LENGTHS = (3, 41, 47, 55, 61, 82, 83, 94, 97, 107, 109, 110, 115, 1000, 12345)
"""Among them those whose reciprocal in float32 is rounded down."""


def test_stairs_fall_at_each_multiple(session):
    step = tf.placeholder(tf.int64, [])
    rates = [train.exponential_decay(1.0, step, length, 0.5, staircase=True) for length in LENGTHS]
    for times in (1, 2, 3):
        for length, rate in zip(LENGTHS, rates, strict=True):
            assert session.run(rate, {step: length * times}) == 0.5**times
            assert session.run(rate, {step: length * times - 1}) == 0.5 ** (times - 1)


@pytest.mark.parametrize("cycle", [False, True])
def test_polynomials_end_at_their_end(session, cycle):
    """A progress above 1 would give the root of a negative number."""
    step = tf.placeholder(tf.int64, [])
    rates = [train.polynomial_decay(1.0, step, length, 0.125, 0.9, cycle) for length in LENGTHS]
    for length, rate in zip(LENGTHS, rates, strict=True):
        assert session.run(rate, {step: length}) == 0.125
        assert session.run(rate, {step: 0}) == 1.0
        assert 0.125 < session.run(rate, {step: length - 1}) < 1.0
        if not cycle:
            assert session.run(rate, {step: length + 1}) == 0.125


def test_restarts_begin_at_the_full_rate(session):
    step = tf.placeholder(tf.int64, [])
    even = [train.cosine_decay_restarts(1.0, step, length, t_mul=1.0) for length in LENGTHS]
    for length, rate in zip(LENGTHS, even, strict=True):
        assert session.run(rate, {step: 3 * length}) == 1.0
        assert session.run(rate, {step: 3 * length - 1}) < 0.3


def test_division_by_a_scalar_is_exact(session):
    x = np.arange(1, 2000, dtype=np.float32)
    given = tf.placeholder(tf.float32, [None])
    divisors = (3.0, 41.0, 47.0, 0.1)
    found = session.run([given / divisor for divisor in divisors], {given: x})
    for divisor, quotient in zip(divisors, found, strict=True):
        np.testing.assert_array_equal(quotient, x / np.float32(divisor))


def test_numbers_may_be_tensors(session):
    numbers = [tf.placeholder_with_default(value, []) for value in (0.5, 20.0, 0.8, 1.5, 0.25)]
    rate, steps, factor, growth, least = numbers
    step = tf.constant(30)
    pairs = [
        (train.exponential_decay(rate, step, steps, factor), train.exponential_decay(0.5, step, 20, 0.8)),
        (train.natural_exp_decay(rate, step, steps, factor), train.natural_exp_decay(0.5, step, 20, 0.8)),
        (train.inverse_time_decay(rate, step, steps, factor), train.inverse_time_decay(0.5, step, 20, 0.8)),
        (
            train.polynomial_decay(rate, step, steps, least, growth, True),
            train.polynomial_decay(0.5, step, 20, 0.25, 1.5, True),
        ),
        (train.cosine_decay(rate, step, steps, least), train.cosine_decay(0.5, step, 20, 0.25)),
        (
            train.cosine_decay_restarts(rate, step, steps, growth, factor, least),
            train.cosine_decay_restarts(0.5, step, 20, 1.5, 0.8, 0.25),
        ),
        (
            train.linear_cosine_decay(rate, step, steps, growth, factor, least),
            train.linear_cosine_decay(0.5, step, 20, 1.5, 0.8, 0.25),
        ),
    ]
    for first, second in session.run(pairs):
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_noise_has_the_variance_asked_for(session):
    """Its factor is the cosine, which is 1/2 in the middle of the first period."""
    step = tf.placeholder(tf.float32, [])
    rate = train.noisy_linear_cosine_decay(1.0, step, 100, 4.0, 1.0, 0.5, 0.0, 0.0)
    call = session.make_callable(rate, [step])
    found = np.array([call(50.0) for _ in range(400)])
    assert abs(found.mean() - 0.25) < 0.04
    assert abs(found.std() / (0.5 * (4.0 / 51) ** 0.5) - 1) < 0.15


@pytest.mark.parametrize(
    "decay",
    [
        lambda rate, step: tf.train.exponential_decay(rate, step, 10, 0.9),
        lambda rate, step: tf.train.natural_exp_decay(rate, step, 10, 0.9),
        lambda rate, step: tf.train.inverse_time_decay(rate, step, 10, 0.9),
        lambda rate, step: tf.train.polynomial_decay(rate, step, 10, 0.01),
        lambda rate, step: tf.train.cosine_decay(rate, step, 10),
        lambda rate, step: tf.train.cosine_decay_restarts(rate, step, 10),
        lambda rate, step: tf.train.linear_cosine_decay(rate, step, 10),
    ],
)
def test_the_type_of_a_rate_is_kept(decay):
    with tf.Graph().as_default(), tf.Session() as session:
        single = session.run(decay(0.1, tf.constant(3)))
        double = session.run(decay(np.float64(0.1), tf.constant(3)))
        assert session.run(decay(1, tf.constant(3))).dtype == np.float32
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(double, single, 1e-6)
