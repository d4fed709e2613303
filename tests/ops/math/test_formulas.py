"""Formulas of TensorFlow's late versions, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


def test_polynomials(session):
    x = np.float32([-1.5, 0, 2, 3])
    coefficients = [2.0, -1.0, np.float32([1, 2, 3, 4]), 5.0]
    found = session.run(tf.math.polyval(coefficients, x))
    np.testing.assert_allclose(found, 2 * x**3 - x**2 + np.array([1, 2, 3, 4]) * x + 5, 1e-6)
    assert session.run(tf.math.polyval([], x)).tolist() == [0, 0, 0, 0]


def test_reciprocals(session):
    x = tf.constant([0.0, 2.0, -4.0])
    y = tf.math.reciprocal_no_nan(x)
    assert session.run(y).tolist() == [0, 0.5, -0.25]
    assert session.run(tf.gradients(y, x)[0]).tolist() == [0, -0.25, -1 / 16]


def test_log_sigmoid(session):
    x = tf.constant([-800.0, -1.0, 0.0, 800.0])
    y = tf.log_sigmoid(x)
    np.testing.assert_allclose(session.run(y), -np.logaddexp(0, -np.float64([-800, -1, 0, 800])), 1e-6)
    np.testing.assert_allclose(session.run(tf.gradients(y, x)[0]), [1, 1 / (1 + np.exp(-1)), 0.5, 0], 1e-6)
    assert tf.log_sigmoid is tf.math.log_sigmoid
    assert y.op.type == "Neg"


def test_vectorised_maps_find_out_what_they_return(session):
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    total, halves = session.run(tf.vectorized_map(lambda row: (tf.reduce_sum(row), tf.cast(row, tf.float32) / 2), x))
    assert total.tolist() == [3, 7, 11]
    assert halves.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    w = tf.constant(3.0)
    pairs = {"a": tf.constant([1.0, 2.0]), "b": tf.constant([5.0, 7.0])}
    y = tf.vectorized_map(lambda pair: pair["a"] * w + pair["b"], pairs)
    assert session.run([y, tf.gradients(y, w)[0]])[0].tolist() == [8, 13]
    assert session.run(tf.gradients(y, w)[0]) == 3
    with pytest.raises(TypeError, match="callable"):
        tf.vectorized_map(3, x)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (tf.igamma, ([-1, 0, 2, 0, -2, 1], [0, 0, 0, 1, 1, np.inf]), [0, 0, 0, np.nan, np.nan, 1]),
        (
            tf.igammac,
            ([-1, 0, 2, 0, 2, 1, np.nan, 1e-30], [1, 1, 0, 0, -1, np.inf, 1, 1e-3]),
            [*[np.nan] * 2, 1, *[np.nan] * 2, 0, np.nan, 0],
        ),
        (
            tf.zeta,
            ([0.5, -2, 1, 1.5, 3, 3, np.nan, 1e10, 1e10, 1e10], [1, -1, 2, 0, -2, -2.0, 1, 0.5, 1, 2]),
            [np.nan, np.nan, *[np.inf] * 4, np.nan, np.inf, 1, 0],
        ),
        (
            tf.polygamma,
            ([1, 2, 3, 10, 1.5, -1], [0, -2, -2, 0, 1, 1]),
            [np.inf, -np.inf, np.inf, -np.inf, np.nan, np.nan],
        ),
        (
            tf.betainc,
            ([0, 1, -1, 1, 1, 2, 1, np.nan], [1, 0, 1, 1, 1, 1, 1, 1], [0.5, 0.5, 0.5, -0.5, 1.5, 0, 1, 0.5]),
            [*[np.nan] * 5, 0, 1, np.nan],
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_functions_at_the_edges_of_their_domains(session, function, arguments, expected, dtype):
    given = [tf.placeholder(dtype, [len(expected)]) for _ in arguments]
    found = session.run(function(*given), dict(zip(given, arguments, strict=True)))
    np.testing.assert_allclose(found, np.array(expected, dtype), 1e-6, 1e-12)


LARGE = {
    "a": [250, 1e3, 1e5, 1e6, 1e7, 1e10, 1e10, 1e30, 1e30, 1e30, 250, 1e3, 9e4, 201],
    "x": [251, 1.01e3, 1.003e5, 1.001e6, 1.0002e7, 1e10, 1e3, 1e30, 2e30, 0, 190, 1.25e3, 9e4, 210],
}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-10)])
def test_incomplete_gamma_functions_of_large_arguments(tier, dtype, tolerance):
    special = pytest.importorskip("scipy.special")
    a, x = (np.array(LARGE[name], dtype) for name in "ax")
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        fed = [tf.placeholder(dtype, [None]) for _ in "ax"]
        functions = [tf.igamma(*fed), tf.igammac(*fed)]
        lower, upper = session.run(functions, dict(zip(fed, (a, x), strict=True)))
    np.testing.assert_allclose(lower, special.gammainc(np.float64(a), np.float64(x)), tolerance, 1e-37)
    np.testing.assert_allclose(upper, special.gammaincc(np.float64(a), np.float64(x)), tolerance, 1e-37)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-6)])
def test_the_slope_of_igamma_by_large_first_arguments(session, dtype, tolerance):
    special = pytest.importorskip("scipy.special")
    a = np.array([250, 1e3, 1e3, 1e5, 1e6, 1e15, 1e30, 0, 1e30], dtype)
    x = np.array([251, 1010, 1e3, 1.003e5, 9.99e5, 1e15, 1e30, 0, 0], dtype)
    fed = [tf.placeholder(dtype, [None]) for _ in "ax"]
    slopes = session.run(tf.gradients(tf.igamma(*fed), fed[0])[0], dict(zip(fed, (a, x), strict=True)))
    step = np.sqrt(np.float64(a)) * 1e-3
    above, below = (special.gammainc(np.float64(a) + change, np.float64(x)) for change in (step, -step))
    centred = (above - below)[:5] / (2 * step[:5])
    np.testing.assert_allclose(slopes[:5], centred, tolerance)
    # At the middle the density of the gamma distribution is that of a normal one.
    np.testing.assert_allclose(slopes[5:7], -1 / np.sqrt(2 * np.pi * np.float64(a[5:7])), tolerance)
    assert slopes[7:].tolist() == [0, 0]
