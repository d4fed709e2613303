"""What the interpreter computes some images, or some rows of channels, at a time is what a program computes at once."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.ops.nn import batch_norm, host_batch_norm
from anabranch.ops.nn.windows import host_depthwise, pooling_rules
from anabranch.testing.kernels import run_op


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of one image, and of few rows."""
    monkeypatch.setattr(pooling_rules, "BLOCK", 50)
    monkeypatch.setattr(host_depthwise, "BLOCK", 50)
    monkeypatch.setattr(host_batch_norm, "BLOCK", 50)
    monkeypatch.setattr(host_batch_norm, "WIDTH", 24)
    monkeypatch.setattr(batch_norm, "ROWS", 1)


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
