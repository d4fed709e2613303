"""Convolutions of small images by small windows, with their gradients: all ways in which a window meets the borders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.nn.windows import geometry
from anabranch.session import SessionOptions
from anabranch.testing import kernels
from anabranch.testing.kernels import TIERS, run_op
from anabranch.xla import stored_programs

assert tf.Op  # loads all op families

WAYS = [
    (size, window, stride, "SAME")
    for size, window, stride in itertools.product((1, 2, 3, 4), (1, 2, 3, 4), (1, 2))
    if stride == 1 or size > 2
]
WAYS += [(size, window, 1, "VALID") for size, window in itertools.product((2, 3), (2, 3)) if window <= size]


def slid(x, f, axes):
    """The convolution in float64, place by place."""
    padded = np.pad(x, [(0, 0), *((a.before, max(a.after, 0)) for a in axes), (0, 0)])
    y = np.zeros((x.shape[0], *(a.out for a in axes), f.shape[-1]))
    for i, j in np.ndindex(axes[0].out, axes[1].out):
        top, left = i * axes[0].stride, j * axes[1].stride
        y[:, i, j] = np.tensordot(padded[:, top : top + f.shape[0], left : left + f.shape[1]], f, 3)
    return y


@pytest.mark.parametrize(
    ("way", "tier"), [(way, tier) for way in WAYS for tier in TIERS if tier == "host" or way[1] <= way[0]]
)
def test_gradients_are_what_the_convolution_says(way, tier):
    size, window, stride, padding = way
    draw = np.random.default_rng(size * 100 + window)
    x, f = draw.standard_normal((2, size, 3, 2)), draw.standard_normal((window, 2, 2, 3))
    attrs = {"strides": [1, stride, stride, 1], "padding": padding}
    axes = [geometry.axis(n, k, stride, 1, padding) for n, k in ((size, window), (3, 2))]
    y = slid(x, f, axes)
    np.testing.assert_allclose(run_op("Conv2D", x, f, tier=tier, **attrs), y, rtol=1e-9, atol=1e-9)
    g, dx, df = (draw.standard_normal(item.shape) for item in (y, x, f))
    of_x = run_op("Conv2DBackpropInput", np.int32(x.shape), f, g, tier=tier, **attrs)
    np.testing.assert_allclose((of_x * dx).sum(), (slid(dx, f, axes) * g).sum(), rtol=1e-9, atol=1e-9)
    of_f = run_op("Conv2DBackpropFilter", x, np.int32(f.shape), g, tier=tier, **attrs)
    np.testing.assert_allclose((of_f * df).sum(), (slid(x, df, axes) * g).sum(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_volumes_whose_windows_cover_them_but_for_the_padding(tier):
    x, f = np.arange(48.0).reshape(2, 3, 2, 2, 2), np.arange(12.0).reshape(3, 2, 1, 2, 1)
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        fed = tf.placeholder(tf.float64, x.shape)
        found = session.run(tf.nn.conv3d(fed, f, [1] * 5, "SAME"), {fed: x})
    padded = np.pad(x, [(0, 0), (1, 1), (0, 1), (0, 0), (0, 0)])
    wanted = np.zeros((2, 3, 2, 2, 1))
    for d, i, j in np.ndindex(3, 2, 2):
        wanted[:, d, i, j] = np.tensordot(padded[:, d : d + 3, i : i + 2, j : j + 1], f, 4)
    np.testing.assert_allclose(found, wanted)


def test_ops_run_by_themselves_have_what_a_stored_program_is_named_by():
    view = kernels._OpView("Conv2D", kernels.complete_attrs("Conv2D", [np.ones(1), np.ones(1)], {}))
    assert [one.type_name for one in stored_programs.definitions([view])] == ["Conv2D"]
