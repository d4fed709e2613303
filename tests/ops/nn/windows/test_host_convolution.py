"""The interpreted tier's input gradients, in each of their forms, against sums over the definition in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.nn.windows import geometry, host_convolution

assert tf.Op  # loads all op families


def by_definition(g, f, axes, groups):
    """Each entry of the output's gradient, times the window, added to the input that it came from."""
    per_group, each = f.shape[-2], f.shape[-1] // groups
    lengths = [axis.size + axis.before + max(axis.after, 0) for axis in axes]
    padded = np.zeros((g.shape[0], *lengths, per_group * groups))
    for place in itertools.product(*(range(axis.out) for axis in axes)):
        at = [
            slice(p * axis.stride, p * axis.stride + axis.extent, axis.dilation)
            for p, axis in zip(place, axes, strict=True)
        ]
        for i in range(groups):
            part = g[(slice(None), *place, slice(i * each, (i + 1) * each))]
            share = np.tensordot(part, f[..., i * each : (i + 1) * each], axes=([1], [f.ndim - 1]))
            padded[(slice(None), *at, slice(i * per_group, (i + 1) * per_group))] += share
    return padded[(slice(None), *(slice(axis.before, axis.before + axis.size) for axis in axes))]


@pytest.mark.parametrize(
    ("sizes", "windows", "padding", "stride", "dilation", "channels", "features", "groups"),
    [
        ((9, 16), (3, 16), "VALID", 1, 1, 1, 8, 1),  # words by embedding: one place along the width
        ((9, 16), (9, 16), "VALID", 1, 1, 3, 4, 1),
        ((16, 9), (16, 3), "VALID", 1, 1, 2, 4, 2),
        ((9, 16), (3, 13), "VALID", 1, 1, 1, 32, 1),  # few places, many entries: shares are added
        ((9, 16), (3, 3), "SAME", 1, 1, 8, 8, 1),  # the turned filter
        ((9, 16), (3, 13), "VALID", 1, 1, 2, 64, 2),
        ((12, 16), (3, 5), "VALID", 1, 3, 1, 48, 1),
        ((9, 16), (4, 4), "SAME", 2, 1, 3, 5, 1),
        ((5, 6, 40), (2, 2, 40), "VALID", 1, 1, 1, 6, 1),
        ((40,), (37,), "VALID", 1, 1, 2, 16, 1),
    ],
)
def test_input_gradients(sizes, windows, padding, stride, dilation, channels, features, groups):
    axes = [geometry.axis(s, w, stride, dilation, padding) for s, w in zip(sizes, windows, strict=True)]
    random = np.random.default_rng(0)
    f = random.normal(size=(*windows, channels // groups, features))
    g = random.normal(size=(3, *(axis.out for axis in axes), features))
    expected = by_definition(g, f, axes, groups)
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, 1e-5)):
        result = host_convolution.input_gradient(g.astype(dtype), f.astype(dtype), axes, channels)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol * 10)


@pytest.mark.parametrize(
    ("window", "dilation", "before", "after"), [(1, 1, 2, 1), (2, 1, 3, 0), (2, 2, 4, 5), (3, 1, 3, 3)]
)
def test_input_gradients_where_windows_see_nothing_but_padding(window, dilation, before, after):
    axes = [geometry.axis(6, window, 1, dilation, "EXPLICIT", (before, after)) for _ in range(2)]
    random = np.random.default_rng(0)
    f = random.normal(size=(window, window, 8, 8))
    g = random.normal(size=(3, *(axis.out for axis in axes), 8))
    result = host_convolution.input_gradient(g, f, axes, 8)
    np.testing.assert_allclose(result, by_definition(g, f, axes, 1), rtol=1e-12, atol=1e-11)


def test_the_form_follows_from_the_places_that_a_window_has():
    def axes(size, window, padding):
        return [geometry.axis(size, window, 1, 1, padding)] * 2

    assert host_convolution._turning_pays(axes(32, 3, "SAME"), 16, 16)
    assert not host_convolution._turning_pays(axes(20, 9, "VALID"), 256, 256)
    assert not host_convolution._turning_pays(axes(64, 60, "VALID"), 4, 64)
