"""What the interpreter computes some images, rows or elements at a time is what a program computes at once."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.ops.nn import batch_norm, host_batch_norm
from anabranch.ops.nn.windows import host_depthwise, pooling_rules
from anabranch.ops.shared import host_activations
from anabranch.testing.kernels import run_op


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of one image, and of few rows."""
    monkeypatch.setattr(pooling_rules, "BLOCK", 50)
    monkeypatch.setattr(host_depthwise, "BLOCK", 50)
    monkeypatch.setattr(host_batch_norm, "BLOCK", 50)
    monkeypatch.setattr(host_batch_norm, "WIDTH", 24)
    monkeypatch.setattr(batch_norm, "ROWS", 1)
    monkeypatch.setattr(host_activations, "BLOCK", 50)
    monkeypatch.setattr(host_activations, "LARGE", 60)


def _images(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _agree(type_name, *inputs, rtol=2e-5, **attrs):
    here, there = (run_op(type_name, *inputs, tier=tier, **attrs) for tier in ("host", "xla"))
    for one, other in zip(*(x if isinstance(x, (list, tuple)) else [x] for x in (here, there)), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=2e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("window", "step"), [(2, 2), (3, 2), (3, 1), (2, 3), (6, 6)])
def test_gradients_of_maxima(window, step, padding):
    x = np.round(_images(5, 6, 7, 3) * 2)  # with equal entries: the first receives
    attrs = {"ksize": [1, window, window, 1], "strides": [1, step, step, 1], "padding": padding}
    y = run_op("MaxPool", x, **attrs)
    _agree("MaxPoolGrad", x, y, _images(*y.shape, seed=1), **attrs)
    _agree("MaxPoolGradGrad", x, y, _images(*x.shape, seed=2), **attrs)
    x[1, 2, 2] = np.nan
    x[2, 0, 0] = np.inf
    y = run_op("MaxPool", x, **attrs)
    _agree("MaxPoolGrad", x, y, _images(*y.shape, seed=1), **attrs)
    _agree("AvgPoolGrad", np.array(x.shape, np.int32), _images(*y.shape, seed=1), **attrs)


@pytest.mark.parametrize("lowest", [-4, 0])
@pytest.mark.parametrize("shape", [(3, 40, 1, 5), (1, 7, 9, 2), (2, 1, 6, 70)])
def test_gradients_of_the_maxima_of_whole_images(shape, lowest):
    x = np.maximum(np.round(_images(*shape) * 2), lowest)
    attrs = {"ksize": [1, *shape[1:3], 1], "strides": [1, 1, 2, 1], "padding": "VALID"}
    y = run_op("MaxPool", x, **attrs)
    assert y.shape[1:3] == (1, 1)
    g = _images(*y.shape, seed=1)
    _agree("MaxPoolGrad", x, y, g, **attrs)
    first = np.argmax(x.reshape(shape[0], -1, shape[-1]), 1)
    wanted = np.zeros((shape[0], shape[1] * shape[2], shape[-1]), np.float32)
    np.put_along_axis(wanted, first[:, None], g[:, 0], 1)
    np.testing.assert_array_equal(run_op("MaxPoolGrad", x, y, g, **attrs), wanted.reshape(shape))
    x[0, 0, -1, 0] = np.nan
    _agree("MaxPoolGrad", x, run_op("MaxPool", x, **attrs), g, **attrs)


@pytest.mark.parametrize("type_name", ["LeakyReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad", "Elu", "Softsign"])
def test_activations(type_name):
    x, g = _images(5, 7, 3), _images(5, 7, 3, seed=1)
    x[1, 2] = np.nan, np.inf, -np.inf
    _agree(type_name, *([g, x] if type_name.endswith("Grad") else [x]))
    _agree(type_name, *([g.T, x.T] if type_name.endswith("Grad") else [x.T]))


@pytest.mark.parametrize(("channels", "radius"), [(24, 4), (5, 3), (3, 5), (300, 2), (40, 9)])
def test_responses_near_a_channel(channels, radius):
    x, g = _images(2, 3, 4, channels), _images(2, 3, 4, channels, seed=1)
    attrs = {"depth_radius": radius, "alpha": 0.1, "beta": 0.75}
    _agree("LRN", x, **attrs)
    _agree("LRNGrad", g, x, run_op("LRN", x, **attrs), **attrs)


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(
    ("window", "step", "dilation", "padding"),
    [
        (3, 1, 1, "SAME"),
        (3, 2, 1, "SAME"),
        (2, 3, 1, "VALID"),
        (3, 1, 2, "SAME"),
        (1, 2, 1, "SAME"),
        (7, 1, 1, "VALID"),
    ],
)
def test_depthwise_convolutions(window, step, dilation, padding, multiplier):
    x, f = _images(5, 7, 9, 3), _images(window, 2, 3, multiplier, seed=1)
    attrs = {"strides": [1, step, step, 1], "padding": padding, "dilations": [1, dilation, dilation, 1]}
    _agree("DepthwiseConv2dNative", x, f, **attrs)
    g = _images(*run_op("DepthwiseConv2dNative", x, f, **attrs).shape, seed=2)
    _agree("DepthwiseConv2dNativeBackpropInput", np.array(x.shape, np.int32), f, g, **attrs)
    _agree("DepthwiseConv2dNativeBackpropFilter", x, np.array(f.shape, np.int32), g, **attrs)


@pytest.mark.parametrize("shape", [(4, 6, 6, 3), (3, 5, 5, 7), (1, 1, 1, 5), (2, 3, 1, 40)])
@pytest.mark.parametrize("is_training", [True, False])
def test_batch_norms(shape, is_training):
    x, g = _images(*shape) + 3, _images(*shape, seed=1)
    scale, offset, mean, variance = np.abs(_images(4, shape[-1], seed=2)) + 0.5
    found = run_op("FusedBatchNorm", x, scale, offset, mean, variance, is_training=is_training)
    wanted = run_op("FusedBatchNorm", x, scale, offset, mean, variance, is_training=is_training, tier="xla")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
    mean, variance = (found[3], found[4]) if is_training else (mean, variance)
    _agree("FusedBatchNormGrad", g, x, scale, mean, variance, is_training=is_training, rtol=2e-4)
