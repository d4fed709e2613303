"""Samples and warps of images, sparse probabilities, solutions of equations, against NumPy, SciPy and exact answers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.ndimage

import anabranch as tf
from anabranch.contrib.image import colours

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True, params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


def numeric_gradient(function, x, delta=1e-5):
    """Central differences of a scalar function of an array."""
    result = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        steps = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * delta
            steps.append(function(moved))
        result[i] = (steps[0] - steps[1]) / (2 * delta)
    return result


def test_resampler_is_bilinear_with_zeros_around(session):
    data = RANDOM.normal(size=(2, 5, 6, 3))
    warp = RANDOM.uniform(-2, 7, size=(2, 4, 3, 2))
    expected = np.stack(
        [
            np.stack(
                [
                    scipy.ndimage.map_coordinates(
                        np.pad(image[..., c], 3), [places[..., 1] + 3, places[..., 0] + 3], order=1
                    )
                    for c in range(3)
                ],
                -1,
            )
            for image, places in zip(data, warp, strict=True)
        ]
    )
    images, places = tf.placeholder(tf.float64, data.shape), tf.placeholder(tf.float64, [2, None, 3, 2])
    sampled = tf.contrib.resampler.resampler(images, places)
    total = tf.reduce_sum(sampled * tf.constant([1.0, 2.0, 3.0], tf.float64))

    def value(x, w):
        return session.run(total, {images: x, places: w})

    np.testing.assert_allclose(session.run(sampled, {images: data, places: warp}), expected, atol=1e-12)
    by_data, by_warp = session.run(tf.gradients(total, [images, places]), {images: data, places: warp})
    np.testing.assert_allclose(by_warp, numeric_gradient(lambda w: value(data, w), warp), atol=1e-6)
    some = data[:, :2, :2]
    small = numeric_gradient(
        lambda x: value(np.concatenate([np.concatenate([x, data[:, :2, 2:]], 2), data[:, 2:]], 1), warp), some
    )
    np.testing.assert_allclose(by_data[:, :2, :2], small, atol=1e-6)


@pytest.mark.parametrize(
    ("data", "warp", "kind", "text"),
    [
        (
            [2, 5, 6, 3, 1],
            [2, 4, 2],
            tf.errors.UnimplementedError,
            "Only bilinear interpolation is currently supported",
        ),
        ([2, 5, 6, 3], [2], tf.errors.InvalidArgumentError, "warp should be at least a matrix"),
        ([2, 5, 6, 3], [2, 4, 3], tf.errors.UnimplementedError, "warping coordinates must be 2D"),
        (
            [2, 5, 6, 3],
            [1, 4, 2],
            tf.errors.InvalidArgumentError,
            "Batch size of data and warp tensor must be the same",
        ),
    ],
)
def test_resampler_refuses_shapes(data: list[int], warp: list[int], kind: type[Exception], text: str) -> None:
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        tf.contrib.resampler.resampler(tf.zeros(data), tf.zeros(warp))


def test_sparsemax_is_the_nearest_point_of_the_simplex(session):
    logits = RANDOM.normal(size=(20, 6)) * 2
    given = tf.placeholder(tf.float64, [None, 6])
    values = tf.contrib.sparsemax.sparsemax(given)
    nearest = []
    for row in logits:  # the threshold by bisection
        low, high = row.min() - 1, row.max()
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
        nearest.append(np.maximum(row - low, 0))
    np.testing.assert_allclose(session.run(values, {given: logits}), nearest, atol=1e-12)
    odd = np.zeros((4, 6))
    odd[0, 1], odd[1, 2], odd[2, :5], odd[3] = np.nan, np.inf, -np.inf, -np.inf
    found = session.run(values, {given: odd})
    assert np.isnan(found[[0, 1, 3]]).all()
    np.testing.assert_array_equal(found[2], [0, 0, 0, 0, 0, 1])
    labels = np.eye(6)[RANDOM.integers(0, 6, 20)]
    loss = tf.contrib.sparsemax.sparsemax_loss(given, values, tf.constant(labels))
    gradient = session.run(tf.gradients(tf.reduce_sum(loss), given)[0], {given: logits})
    np.testing.assert_allclose(gradient, np.array(nearest) - labels, atol=1e-12)  # equation 6 of the paper
    assert (session.run(loss, {given: logits}) >= -1e-12).all()


def test_activations(session):
    x = RANDOM.normal(size=(4, 5)) * 3
    given, alpha = tf.constant(x), tf.constant(0.4, tf.float64)
    expected = 0.4 * np.logaddexp(0, x / 0.4)
    np.testing.assert_allclose(session.run(tf.contrib.nn.scaled_softplus(given, alpha)), expected, rtol=1e-12)
    clipped = tf.contrib.nn.scaled_softplus(given, alpha, clip=1.5)
    np.testing.assert_allclose(session.run(clipped), np.minimum(expected, 1.5), rtol=1e-12)
    by_alpha = session.run(tf.gradients(clipped, alpha)[0])
    low, high = (np.minimum(a * np.logaddexp(0, x / a), 1.5).sum() for a in (0.4 - 1e-6, 0.4 + 1e-6))
    np.testing.assert_allclose(by_alpha, (high - low) / 2e-6, rtol=1e-5)
    normal = tf.random_normal([200_000], seed=1, dtype=tf.float64)
    kept = session.run(tf.contrib.nn.alpha_dropout(normal, 0.8, seed=2))
    assert abs(kept.mean()) < 0.02
    assert abs(kept.std() - 1) < 0.02
    assert tf.contrib.nn.alpha_dropout(given, 1.0) is given
    with pytest.raises(ValueError, match="range"):
        tf.contrib.nn.alpha_dropout(given, 0.0)
    a, b = tf.constant([[1.0, 2.0]]), tf.constant([[0.0, 1.0]])
    flipped = tf.contrib.nn.deprecated_flipped_softmax_cross_entropy_with_logits(a, b)
    np.testing.assert_allclose(session.run(flipped), [np.logaddexp(1, 2) - 2], rtol=1e-6)


def oscillator(y, t):
    return tf.stack([y[1], -y[0] * (1 + 0.1 * tf.cast(t, y.dtype))])


def test_equations_are_solved_to_the_error_that_is_allowed(session):
    times = np.linspace(0, 5, 7)
    start = tf.constant([1.0, 0.0], tf.float64)
    solution, facts = tf.contrib.integrate.odeint(oscillator, start, times, rtol=1e-8, full_output=True)
    expected = scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -y[0] * (1 + 0.1 * t)],
        (0, 5),
        [1, 0],
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-12,
    ).y.T
    found, taken = session.run([solution, facts])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert taken["num_func_evals"] == 6 * len(taken["integrate_points"]) + 1
    assert len(taken["error_ratio"]) == len(taken["integrate_points"])
    turned = tf.contrib.integrate.odeint(lambda y, t: 1j * y, tf.constant(1, tf.complex128), times)
    np.testing.assert_allclose(session.run(turned), np.exp(1j * times), atol=1e-5)
    short = tf.contrib.integrate.odeint(oscillator, start, times, method="dopri5", options={"max_num_steps": 1})
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_num_steps exceeded"):
        session.run(short)
    with pytest.raises(tf.errors.InvalidArgumentError, match="monotonic increasing"):
        session.run(tf.contrib.integrate.odeint(oscillator, start, [0.0, 2.0, 1.0]))
    for wrong, match in (({"method": "euler"}, "invalid method"), ({"options": {"safety": 1}}, "without specifying")):
        with pytest.raises(ValueError, match=match):
            tf.contrib.integrate.odeint(oscillator, start, times, **wrong)
    with pytest.raises(TypeError, match="`y0` must have"):
        tf.contrib.integrate.odeint(oscillator, [1, 0], times)


@pytest.mark.parametrize(("method", "order"), [("rk4", 4), ("midpoint", 2)])
def test_fixed_steps_have_their_order(session, method, order):
    times = [0.0, 0.4, 1.0]
    start = tf.constant(2.0, tf.float64)
    errors = []
    for dt in (0.1, 0.05):
        solution = tf.contrib.integrate.odeint_fixed(lambda y, t: -y, start, times, dt=dt, method=method)
        errors.append(np.abs(session.run(solution) - 2 * np.exp(np.negative(times))).max())
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.2
    np.testing.assert_allclose(session.run(tf.gradients(solution[-1], start)[0]), np.exp(-1), rtol=1e-3)
    with pytest.raises(ValueError, match="incompatible lengths"):
        tf.contrib.integrate.odeint_fixed(lambda y, t: -y, start, times, dt=[0.1, 0.1, 0.1])


def test_images_are_warped_by_fields(session):
    image = RANDOM.uniform(size=(2, 6, 7, 3))
    flow = RANDOM.normal(size=(2, 6, 7, 2)) * 2
    rows, columns = np.meshgrid(np.arange(6), np.arange(7), indexing="ij")
    expected = np.empty_like(image)
    for b in range(2):
        for c in range(3):
            places = [rows - flow[b, ..., 0], columns - flow[b, ..., 1]]
            expected[b, ..., c] = scipy.ndimage.map_coordinates(image[b, ..., c], places, order=1, mode="nearest")
    warped = tf.contrib.image.dense_image_warp(tf.constant(image), tf.constant(flow))
    np.testing.assert_allclose(session.run(warped), expected, atol=1e-12)
    small = tf.contrib.image.dense_image_warp(tf.zeros([1, 1, 3, 1]), tf.zeros([1, 1, 3, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="height must be at least 2"):
        session.run(small)


@pytest.mark.parametrize(("order", "kernel"), [(1, "linear"), (2, "thin_plate_spline"), (3, "cubic")])
def test_splines_go_through_their_points(session, order, kernel):
    points, values, queries = (RANDOM.uniform(size=shape) for shape in ((1, 8, 2), (1, 8, 3), (1, 5, 2)))
    found = session.run(tf.contrib.image.interpolate_spline(points, values, queries, order))
    expected = scipy.interpolate.RBFInterpolator(points[0], values[0], kernel=kernel, degree=1)(queries[0])
    np.testing.assert_allclose(found[0], expected, atol=1e-4)
    at_points = session.run(tf.contrib.image.interpolate_spline(points, values, points, order))
    np.testing.assert_allclose(at_points, values, atol=1e-4)


def test_points_of_an_image_are_moved_and_its_edge_stays(session):
    image = RANDOM.uniform(size=(1, 8, 8, 1))
    source, dest = np.array([[[3.0, 3.0], [4.0, 5.0]]]), np.array([[[4.0, 4.0], [4.0, 5.0]]])
    moved, flow = session.run(tf.contrib.image.sparse_image_warp(image, source, dest, num_boundary_points=2))
    assert moved[0, 4, 4, 0] == pytest.approx(image[0, 3, 3, 0])
    assert moved[0, 4, 5, 0] == pytest.approx(image[0, 4, 5, 0])
    np.testing.assert_allclose(flow[0, [0, 0, 7, 7], [0, 7, 0, 7]], 0, atol=1e-6)


def test_colours_turn_in_yiq(session):
    image = RANDOM.uniform(0.3, 0.6, size=(2, 3, 4, 3)).astype("f")
    to_yiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
    y, i, q = np.moveaxis(image @ to_yiq.T, -1, 0)
    turn, colour = np.exp(0.7j), 1.2 * 0.9
    mixed = (i + 1j * q) * turn * colour
    expected = np.stack([0.9 * y, mixed.real, mixed.imag], -1) @ np.linalg.inv(to_yiq).T
    np.testing.assert_allclose(session.run(colours.adjust_hsv_in_yiq(image, 0.7, 1.2, 0.9)), expected, atol=2e-3)
    whole = session.run(colours.random_hsv_in_yiq((image * 255).astype("u1"), 0.2, 0.9, 1.1, 0.9, 1.1, seed=3))
    assert whole.dtype == np.uint8
    with pytest.raises(ValueError, match="saturation from 2 to 1"):
        colours.random_hsv_in_yiq(image, 0, 2, 1)


def test_stateless_numbers_have_their_first_names(session):
    for old, new in (
        ("stateless_random_uniform", "stateless_uniform"),
        ("stateless_random_normal", "stateless_normal"),
        ("stateless_truncated_normal", "stateless_truncated_normal"),
    ):
        pair = [getattr(tf.contrib.stateless, old)([4], seed=[1, 2]), getattr(tf.random, new)([4], seed=[1, 2])]
        np.testing.assert_array_equal(*session.run(pair))
