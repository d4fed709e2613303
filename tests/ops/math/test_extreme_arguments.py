"""Incomplete beta and gamma functions, zeta and derivatives of digamma where series and powers leave their range."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.special as special

import anabranch as tf

SIZES = [1e-8, 0.5, 3.0, 50.0, 150.0, 1.5e3, 1e5, 3e6, 1e8]


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


def values_of(session, function, arguments):
    fed = [tf.placeholder(argument.dtype, [None]) for argument in arguments]
    return session.run(function(*fed), dict(zip(fed, arguments, strict=True)))


def beta_arguments(dtype):
    """Pairs of all sizes, each at fixed places and around its mean."""
    rows = []
    for a, b in itertools.product(SIZES, SIZES):
        mean = a / (a + b)
        deviation = np.sqrt(mean * (b / (a + b)) / (a + b))
        places = [0.0, 1e-20, 0.25, 0.5, 0.999, 1.0, *(mean + step * deviation for step in (-6, -2, 0, 0.5, 2, 6))]
        rows += [(a, b, min(max(x, 0.0), 1.0)) for x in places]
    return [np.array(column, dtype) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 2e-8)])
def test_betainc_of_all_sizes(session, dtype, tolerance):
    arguments = beta_arguments(dtype)
    wanted = special.betainc(*(argument.astype(np.float64) for argument in arguments))
    value = values_of(session, tf.betainc, arguments)
    assert value.dtype == dtype
    np.testing.assert_allclose(value, wanted, tolerance, tolerance)


def test_betainc_of_huge_arguments_is_the_normal_distribution(session):
    a = np.repeat([1e12, 1e20, 1e30], 5)
    x = 0.5 + np.tile([-2.0, -0.5, 0.0, 0.5, 2.0], 3) / np.sqrt(8 * a)
    for dtype in ("float64", "float32"):
        places = x.astype(dtype)
        wanted = special.ndtr((places.astype(np.float64) - 0.5) * np.sqrt(8 * a))
        got = values_of(session, tf.betainc, (a.astype(dtype), a.astype(dtype), places))
        np.testing.assert_allclose(got, wanted, 1e-6 if dtype == "float32" else 1e-11)


def test_betainc_keeps_the_digits_of_small_tails(session):
    a, b, x = np.array([(1e6, 1e6, 0.49), (3e3, 1e5, 0.0255), (1e8, 1e8, 0.4997), (2e3, 2e3, 0.3)]).T
    np.testing.assert_allclose(values_of(session, tf.betainc, (a, b, x)), special.betainc(a, b, x), 1e-7, 0)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-11)])
def test_the_upper_gamma_function_of_small_arguments(session, dtype, tolerance):
    small = [1e-20, 1e-8, 1e-3, 0.1, 0.24, 0.26], [1e-30, 1e-8, 1e-3, 0.1, 0.5, 1.0, 1.09]
    a, x = (np.array(column, dtype) for column in zip(*itertools.product(*small), strict=True))
    wanted = special.gammaincc(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(values_of(session, tf.igammac, (a, x)), wanted, tolerance)


def zeta_of_negative(s, q):
    """The sum of ``(q + n) ** -s``, its terms up to 0 one by one."""
    terms = [(q + n) ** -float(s) for n in range(int(np.ceil(-q)))]
    return np.sum(terms) + special.zeta(s, q + len(terms))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 5e-5), ("float64", 1e-9)])
def test_zeta_of_extreme_arguments(session, dtype, tolerance):
    near = [(s, q) for s in (2, 3, 5, 10) for q in (-0.3, -1.75, -2.25, -10.7, -33.3)]
    far = [(2, 1e12), (2, 1e20), (4, 1e8), (1.5, 1e20), (30, 0.1), (1.0001, 5.0)]
    s, q = (np.array(column, dtype) for column in zip(*near, *far, strict=True))
    wanted = [
        zeta_of_negative(order, place) if place < 0 else special.zeta(order, place)
        for order, place in zip(s.astype(np.float64), q.astype(np.float64), strict=True)
    ]
    np.testing.assert_allclose(values_of(session, tf.zeta, (s, q)), wanted, tolerance)
    odd = np.array([3, 5, 21], dtype), np.array([-10.5, -1.5, -1.5], dtype)  # terms on both sides of 0 cancel
    np.testing.assert_allclose(
        values_of(session, tf.zeta, odd),
        special.zeta([3, 5, 21], [11.5, 2.5, 2.5]),
        max(tolerance, 1e-3 * (dtype == "float32")),
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-10)])
def test_derivatives_of_digamma_of_any_order(session, dtype, tolerance):
    pairs = [(1, 1e20), (4, 1e6), (15, 1e3), (30, 7.3), (34, 50.0), (50, 50.0), (100, 20.0), (170, 60.0), (3, 0.25)]
    n, x = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    order, place = n.astype(np.float64), x.astype(np.float64)
    log = special.gammaln(order + 1) + np.log(special.zeta(order + 1, place))
    wanted = np.where(order % 2 == 1, 1, -1) * np.exp(log)
    np.testing.assert_allclose(values_of(session, tf.polygamma, (n, x)), wanted, tolerance)
    ends = [np.array(column, dtype) for column in ([1, 2, 3, 100, 2], [np.inf, 0, 0, 1e30, np.nan])]
    np.testing.assert_array_equal(
        values_of(session, tf.polygamma, ends), np.array([0, -np.inf, np.inf, 0, np.nan], dtype)
    )
    negative = [np.array(column, dtype) for column in ([1, 2, 3], [-1.25, -0.3, -10.7])]
    factorials = np.array([1, -2, 6])
    sums = [zeta_of_negative(k + 1, float(place)) for k, place in zip(*negative, strict=True)]
    np.testing.assert_allclose(values_of(session, tf.polygamma, negative), factorials * sums, tolerance)
