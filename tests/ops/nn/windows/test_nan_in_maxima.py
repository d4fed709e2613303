"""Maxima of windows with NaN and infinities: what TensorFlow 1.15.5's kernels give, in both tiers."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.testing.kernels import TIERS, run_op

NAN, INF, LOW = np.nan, np.inf, np.float32(np.finfo(np.float32).min)
ROW = np.float32([NAN, NAN, NAN, 1, 1, NAN, -INF, -INF, -INF, NAN, NAN, -INF, INF, NAN])
PAIRS = {"ksize": [1, 1, 2, 1], "strides": [1, 1, 2, 1], "padding": "VALID"}
THREES = {"ksize": [1, 1, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}

assert tf.Op  # loads all op families
pytestmark = pytest.mark.parametrize("tier", TIERS)


def ran(tier, op, *inputs, **attrs):
    found = run_op(op, *inputs, tier=tier, **attrs)
    return [np.ravel(item) for item in found] if isinstance(found, (list, tuple)) else np.ravel(found)


def images(*rows):
    return np.stack([np.reshape(row, (1, -1, 1)) for row in rows])


def test_images_leave_nan_out(tier):
    np.testing.assert_array_equal(ran(tier, "MaxPool", images(ROW), **PAIRS), [LOW, 1, 1, LOW, LOW, LOW, INF])
    np.testing.assert_array_equal(
        ran(tier, "MaxPool", images(ROW), **THREES), [LOW, LOW, 1, 1, 1, 1, LOW, LOW, LOW, LOW, LOW, INF, INF, INF]
    )
    whole = {"ksize": [1, 1, 14, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    nothing = np.full_like(ROW, NAN)
    np.testing.assert_array_equal(ran(tier, "MaxPool", images(ROW, nothing), **whole), [INF, LOW])
    half = ran(tier, "MaxPool", images(ROW).astype(np.float16), **PAIRS)
    np.testing.assert_array_equal(half, np.float16([-65504, 1, 1, -65504, -65504, -65504, INF]))


def test_volumes_give_minus_infinity(tier):
    attrs = {"ksize": [1, 1, 1, 2, 1], "strides": [1, 1, 1, 2, 1], "padding": "VALID"}
    found = ran(tier, "MaxPool3D", images(ROW)[None], **attrs)
    np.testing.assert_array_equal(found, [-INF, 1, 1, -INF, -INF, -INF, INF])


def test_a_window_that_begins_with_nan_has_its_place(tier):
    maxima, places = ran(tier, "MaxPoolWithArgmax", images(ROW), **PAIRS)
    np.testing.assert_array_equal(maxima, [NAN, NAN, 1, -INF, -INF, NAN, INF])
    np.testing.assert_array_equal(places, [0, 2, 4, 6, 8, 10, 12])
    maxima, places = ran(tier, "MaxPoolWithArgmax", images(ROW), **THREES)
    np.testing.assert_array_equal(maxima, [NAN, NAN, NAN, NAN, 1, 1, NAN, -INF, -INF, -INF, NAN, NAN, INF, INF])
    np.testing.assert_array_equal(places, [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 12])


def test_channels_begin_with_nan(tier):
    attrs = {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"}
    found = ran(tier, "MaxPool", ROW.reshape(1, 1, 1, -1), **attrs)
    np.testing.assert_array_equal(found, [NAN, NAN, 1, -INF, -INF, NAN, INF])


@pytest.mark.parametrize("width", [14, 1])
def test_gradients_go_to_the_first_number(tier, width):
    """Or to the first entry, where there is none."""
    x = np.repeat(images(ROW), width, axis=3)
    grad = np.repeat(np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7, 1), width, axis=3)
    found = ran(tier, "MaxPoolGrad", x, grad, grad, **PAIRS).reshape(14, width)
    wanted = np.float32([1, 0, 0, 2, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0])
    np.testing.assert_array_equal(found, np.repeat(wanted[:, None], width, axis=1))
    numbers = np.repeat(np.arange(14, dtype=np.float32).reshape(1, 1, 14, 1), width, axis=3)
    second = ran(tier, "MaxPoolGradGrad", x, grad, numbers, **PAIRS).reshape(7, width)
    np.testing.assert_array_equal(second[:, 0], [0, 3, 4, 6, 8, 10, 12])
    whole = {"ksize": [1, 1, 14, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    for row, place in ((ROW, 12), (np.full_like(ROW, NAN), 0)):
        found = ran(tier, "MaxPoolGrad", images(row), *[np.float32(images([7.0]))] * 2, **whole)
        np.testing.assert_array_equal(found, 7 * np.eye(14, dtype=np.float32)[place])


def test_dilations_and_windows_of_random_sizes(tier):
    attrs = {"strides": [1, 1, 2, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
    found = ran(tier, "Dilation2D", images(ROW), np.zeros((1, 2, 1), np.float32), **attrs)
    np.testing.assert_array_equal(found, [LOW, 1, 1, LOW, LOW, LOW, INF])
    attrs = {"pooling_ratio": [1.0, 1.0, 2.0, 1.0], "deterministic": True, "seed": 1}
    pooled, rows, columns = run_op("FractionalMaxPool", images(ROW), tier=tier, **attrs)
    np.testing.assert_array_equal(np.ravel(pooled), [LOW, 1, 1, LOW, LOW, LOW, INF])
    grad = np.ones_like(pooled)
    back = ran(tier, "FractionalMaxPoolGrad", images(ROW), pooled, grad, rows, columns)
    np.testing.assert_array_equal(back, [1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])
