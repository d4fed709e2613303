"""Convolutions as the CPU gets them from XLA: Winograd's products against direct ones in float64, and what decides."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract.kernels import HostContext
from anabranch.ops.nn.windows import (
    convolution_rules,
    geometry,
    host_convolution,
    pooling_rules,
    xla_convolution,
    xla_winograd,
)
from anabranch.testing.kernels import run_op
from anabranch.xla import engine, single_op
from anabranch.xla.kernel_context import TraceContext
from anabranch.xla.onednn import library

POLICY = {"float32": 4e-5, "bfloat16": 1e-2, "float16": 2e-3}
"""Largest error relative to the largest value."""

assert tf.Op  # loads all op families


@pytest.fixture(autouse=True)
def no_library(monkeypatch):
    """Whatever library there is, these are the forms without one."""
    monkeypatch.setattr(library, "found", lambda: "a test does without")
    single_op._programs.clear()
    yield
    single_op._programs.clear()


def axes_of(size, padding="SAME", window=3, stride=1, dilation=1):
    return [geometry.axis(size, window, stride, dilation, padding)] * 2


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def error(found, expected):
    assert found.shape == expected.shape
    return np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize(
    ("batch", "size", "padding", "channels", "features", "tile"),
    [
        (4, 16, "SAME", 64, 64, 4),
        (2, 19, "VALID", 32, 64, 4),
        (2, 14, "SAME", 40, 64, 4),
        (4, 6, "SAME", 128, 128, 2),
    ],
)
def test_winograd_is_within_the_policy(batch, size, padding, channels, features, tile):
    axes = axes_of(size, padding)
    context = TraceContext([], "cpu")
    chosen = xla_winograd.choose(context, batch, axes, channels, features, np.dtype(np.float32))
    assert chosen is not None
    assert chosen.tile == tile
    x, f = draw(batch, size, size, channels), draw(3, 3, channels, features)
    g = draw(batch, axes[0].out, axes[1].out, features)
    wide = [value.astype(np.float64) for value in (x, f, g)]
    attrs = {"strides": [1, 1, 1, 1], "padding": padding}
    found = run_op("Conv2D", x, f, tier="xla", **attrs)
    assert error(found, host_convolution.forward(wide[0], wide[1], axes)) < POLICY["float32"]
    sizes = np.array(f.shape, np.int32)
    found = run_op("Conv2DBackpropFilter", x, sizes, g, tier="xla", **attrs)
    assert error(found, host_convolution.filter_gradient(wide[0], wide[2], axes, channels)) < POLICY["float32"]
    found = run_op("Conv2DBackpropInput", np.array(x.shape, np.int32), f, g, tier="xla", **attrs)
    assert error(found, host_convolution.input_gradient(wide[2], wide[1], axes, channels)) < POLICY["float32"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_winograd_widens_halves(dtype):
    kind = tf.as_dtype(dtype).as_numpy_dtype
    x, f = draw(2, 16, 16, 64).astype(kind), draw(3, 3, 64, 64).astype(kind)
    found = run_op("Conv2D", x, f, tier="xla", strides=[1, 1, 1, 1], padding="SAME")
    assert found.dtype == kind
    assert (
        error(found, host_convolution.forward(x.astype(np.float64), f.astype(np.float64), axes_of(16))) < POLICY[dtype]
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"channels": 3}, "few channels"),
        ({"batch": 1, "size": 8}, "few tiles"),
        ({"window": 5}, "another window"),
        ({"stride": 2}, "a stride"),
        ({"dilation": 2}, "a dilation"),
        ({"dtype": "float64"}, "double precision"),
        ({"precision": "highest"}, "a precision asked for"),
    ],
)
def test_winograd_is_left_alone(change, why):
    given = {
        "batch": 8,
        "size": 16,
        "window": 3,
        "stride": 1,
        "dilation": 1,
        "channels": 64,
        "dtype": "float32",
    } | change
    context = TraceContext([], "cpu", given.get("precision"))
    axes = axes_of(given["size"], "SAME", given["window"], given["stride"], given["dilation"])
    dtype = np.dtype(given["dtype"])
    assert xla_winograd.choose(context, given["batch"], axes, given["channels"], 64, dtype) is None, why


@pytest.mark.parametrize(
    ("size", "window", "padding", "strides"),
    [
        ((9, 6), (3, 6), "VALID", (1, 1)),  # words by embedding
        ((6, 9), (6, 3), "VALID", (1, 2)),
        ((5, 4), (5, 4), "VALID", (1, 1)),  # last maps into a dense layer
        ((8, 6), (3, 6), "SAME", (1, 1)),  # as wide as the window, but padded
    ],
)
def test_a_dimension_that_one_window_covers(size, window, padding, strides):
    axes = [geometry.axis(s, w, step, 1, padding) for s, w, step in zip(size, window, strides, strict=True)]
    x, f = draw(3, *size, 2), draw(*window, 2, 5)
    g = draw(3, *(a.out for a in axes), 5)
    attrs = {"strides": [1, *strides, 1], "padding": padding}
    found = run_op("Conv2D", x, f, tier="xla", **attrs)
    assert error(found, host_convolution.forward(x, f, axes)) < 1e-6
    found = run_op("Conv2DBackpropFilter", x, np.array(f.shape, np.int32), g, tier="xla", **attrs)
    assert error(found, host_convolution.filter_gradient(x, g, axes, 2)) < 1e-6
    found = run_op("Conv2DBackpropInput", np.array(x.shape, np.int32), f, g, tier="xla", **attrs)
    assert error(found, host_convolution.input_gradient(g, f, axes, 2)) < 1e-6


@pytest.mark.parametrize(
    ("window", "dilation", "multiplier", "padding"), [(3, 1, 1, "SAME"), (3, 1, 2, "VALID"), (2, 2, 1, "SAME")]
)
def test_a_depthwise_filter_gradient_by_rows(monkeypatch, window, dilation, multiplier, padding):
    monkeypatch.setattr(xla_convolution, "_MIN_SUM_BY_ROWS", 0)
    axes = axes_of(9, padding, window, 1, dilation)
    x, g = draw(3, 9, 9, 4), draw(3, axes[0].out, axes[1].out, 4 * multiplier)
    sizes = np.array([window, window, 4, multiplier], np.int32)
    attrs = {"strides": [1, 1, 1, 1], "padding": padding, "dilations": [1, dilation, dilation, 1]}
    found = run_op("DepthwiseConv2dNativeBackpropFilter", x, sizes, g, tier="xla", **attrs)
    expected = host_convolution.filter_gradient(x.astype(np.float64), g.astype(np.float64), axes, 1)
    assert error(found, expected.reshape(sizes)) < 1e-6


@pytest.mark.parametrize(
    ("window", "stride", "multiplier", "padding"),
    [(3, 1, 2, "SAME"), (3, 2, 17, "VALID"), (2, 1, 3, "SAME"), (5, 1, 16, "SAME"), (4, 2, 20, "VALID")],
)
def test_a_depthwise_input_gradient_of_several_filters_a_channel(window, stride, multiplier, padding):
    axes = axes_of(9, padding, window, stride)
    f, g = draw(window, window, 3, multiplier), draw(2, axes[0].out, axes[1].out, 3 * multiplier)
    attrs = {"strides": [1, stride, stride, 1], "padding": padding}
    sizes = np.array([2, 9, 9, 3], np.int32)
    found = run_op("DepthwiseConv2dNativeBackpropInput", sizes, f, g, tier="xla", **attrs)
    grouped = f.reshape(window, window, 1, -1).astype(np.float64)
    assert error(found, host_convolution.input_gradient(g.astype(np.float64), grouped, axes, 3)) < 1e-6


class Accelerator(TraceContext):
    """A context of another platform: its lowering is the plain one, which the CPU can run, too."""

    def __init__(self):
        super().__init__([], "gpu")


@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (1, 2, 4), (3, 1, 1)])
def test_the_accelerators_form_agrees(stride, dilation, groups):
    x, f = draw(2, 7, 7, 4), draw(3, 3, 4 // groups, 8)
    axes = axes_of(7, "SAME", 3, stride, dilation)
    g = draw(2, axes[0].out, axes[1].out, 8)
    context = Accelerator()
    found = xla_convolution.forward(context, x, f, axes)
    assert error(np.asarray(found), host_convolution.forward(x, f, axes)) < 1e-5
    found = xla_convolution.input_gradient(context, g, f, axes, 4)
    assert error(np.asarray(found), host_convolution.input_gradient(g, f, axes, 4)) < 1e-5
    found = xla_convolution.filter_gradient(context, x, g, axes, 4 // groups)
    assert error(np.asarray(found), host_convolution.filter_gradient(x, g, axes, 4 // groups)) < 1e-5


def test_a_training_step_of_wide_convolutions_agrees_between_the_tiers():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 16, 16, 32])
        first, second = tf.constant(draw(3, 3, 32, 64)), tf.constant(draw(3, 3, 64, 64) / 20)
        h = tf.nn.relu(tf.nn.conv2d(x, first, [1, 1, 1, 1], "SAME") / 20)
        y = tf.nn.max_pool(tf.nn.conv2d(h, second, [1, 1, 1, 1], "SAME"), 2, 2, "VALID")
        wanted = [y, *tf.gradients(tf.reduce_mean(tf.sin(y)), [x, first, second])]
        feed = {x: draw(2, 16, 16, 32)}
        found = []
        for tier in ("interpreted", "compiled"):
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                found.append(session.run(wanted, feed))
    for one, other in zip(*found, strict=True):
        assert error(other, one) < 1e-3  # a maximum or a sign may change hands within the rounding


@pytest.mark.parametrize(("padding", "stride", "calls"), [("SAME", 1, 2), ("SAME", 3, 0), ("VALID", 1, 0)])
def test_places_of_maxima_are_computed_once_where_windows_overlap_the_padding(padding, stride, calls):
    jax = engine.jax()
    axes = axes_of(14, padding, stride=stride)
    x, g = draw(2, 14, 14, 3), draw(2, *[a.out for a in axes], 3)
    compiled = (
        jax.jit(lambda x, g: pooling_rules.max_gradient(TraceContext([], "cpu"), x, g, axes)).lower(x, g).compile()
    )
    assert compiled.as_text().count(" call(") == calls
    expected = pooling_rules.max_gradient(HostContext(), x, g, axes)
    np.testing.assert_allclose(compiled(x, g), expected, rtol=1e-6, atol=1e-6)


def test_large_windows_of_pools():
    x = np.random.default_rng(2).permutation(2 * 20 * 20 * 3).reshape(2, 20, 20, 3).astype(np.float32)
    for size, stride, padding in ((13, 1, "SAME"), (20, 1, "VALID"), (9, 4, "VALID")):
        attrs = {"ksize": [1, size, size, 1], "strides": [1, stride, stride, 1], "padding": padding}
        y = run_op("MaxPool", x, **attrs)
        g = draw(*y.shape)
        host, compiled = (run_op("MaxPoolGrad", x, y, g, tier=tier, **attrs) for tier in ("host", "xla"))
        np.testing.assert_allclose(host, compiled, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(host.sum((1, 2)), g.sum((1, 2)), rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(run_op("MaxPool", x, tier="xla", **attrs), y)


@pytest.mark.parametrize(
    ("size", "window", "stride", "padding", "channels", "features", "form"),
    [
        ((12, 40), (3, 31), 1, "VALID", 1, 8, "runs"),
        ((12, 40), (3, 31), 1, "VALID", 6, 8, "runs"),
        ((40, 9), (25, 2), 1, "VALID", 5, 8, "runs"),
        ((23, 23), (9, 9), 4, "VALID", 4, 32, "runs"),
        ((21, 30), (7, 8), 3, "SAME", 3, 32, "runs"),
        ((8, 13), (7, 12), 2, "VALID", 8, 16, "runs"),
        ((14, 11), (5, 5), 1, "SAME", 1, 32, "planes"),
        ((14, 13), (4, 4), 2, "SAME", 3, 32, "planes"),
        ((9, 10), (2, 3), 3, "VALID", 4, 32, "planes"),
        ((14, 11), (5, 5), 1, "SAME", 8, 8, None),
        ((14, 11), (5, 5), 1, "SAME", 3, 2, None),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_input_gradient_by_adding_shares(size, window, stride, padding, channels, features, form, dtype):
    axes = [geometry.axis(s, w, stride, 1, padding) for s, w in zip(size, window, strict=True)]
    forms = {"runs": xla_convolution.add_runs, "planes": xla_convolution.add_planes, None: None}
    assert xla_convolution.adding_form(axes, channels, features) is forms[form]
    dtype = tf.as_dtype(dtype).as_numpy_dtype
    f = draw(*window, channels, features).astype(dtype)
    g = draw(2, axes[0].out, axes[1].out, features).astype(dtype)
    attrs = {"strides": [1, stride, stride, 1], "padding": padding}
    gradient = run_op("Conv2DBackpropInput", np.array((2, *size, channels), np.int32), f, g, tier="xla", **attrs)
    assert gradient.dtype == dtype
    reference = host_convolution.input_gradient(g.astype(np.float64), f.astype(np.float64), axes, channels)
    assert error(gradient, reference) < POLICY[np.dtype(dtype).name]


def test_an_input_gradient_of_dilated_taps_by_adding_planes():
    axes = [geometry.axis(13, 3, 1, 2, "SAME")] * 2
    assert xla_convolution.adding_form(axes, 2, 16) is xla_convolution.add_planes
    f, g = draw(3, 3, 2, 16), draw(2, 13, 13, 16)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]}
    gradient = run_op("Conv2DBackpropInput", np.array((2, 13, 13, 2), np.int32), f, g, tier="xla", **attrs)
    reference = host_convolution.input_gradient(g.astype(np.float64), f.astype(np.float64), axes, 2)
    assert error(gradient, reference) < POLICY["float32"]


class WithLibrary(TraceContext):
    """A context that a library must not be asked in."""

    def convolve(self, *_):
        raise AssertionError("the library was asked")


@pytest.mark.parametrize(
    ("size", "window", "stride", "padding", "dilation", "channels", "features"),
    [
        ((40, 37), (3, 3), 1, "SAME", 1, 1, 8),
        ((33, 30), (5, 4), 2, "SAME", 1, 3, 16),
        ((30, 31), (3, 3), 1, "VALID", 2, 2, 16),
        ((12, 11, 13), (3, 3, 3), 1, "SAME", 1, 2, 8),
        ((12, 17, 15), (2, 3, 3), 2, "VALID", 1, 1, 16),
        ((200,), (9,), 1, "SAME", 1, 1, 64),
    ],
)
def test_an_input_gradient_of_few_channels_is_added_by_planes_whatever_library_there_is(
    size, window, stride, padding, dilation, channels, features
):
    axes = [geometry.axis(s, w, stride, dilation, padding) for s, w in zip(size, window, strict=True)]
    f, g = draw(*window, channels, features), draw(12, *(a.out for a in axes), features)
    made = []

    def gradient(f, g):
        ctx = WithLibrary(made, "cpu")
        found = convolution_rules.library(ctx, "input gradient", g, f, axes, channels, channels, "NHWC")
        assert found is None
        return xla_convolution.input_gradient(ctx, g, f, axes, channels)

    found = np.asarray(engine.jax().jit(gradient)(f, g))
    reference = host_convolution.input_gradient(g.astype(np.float64), f.astype(np.float64), axes, channels)
    assert error(found, reference) < POLICY["float32"]


@pytest.mark.parametrize(
    ("batch", "size", "window", "channels", "features"),
    [(1, 28, 3, 1, 8), (16, 40, 7, 2, 4), (64, 96, 3, 3, 32), (64, 28, 3, 5, 8), (64, 28, 1, 3, 64)],
)
def test_other_input_gradients_are_the_librarys(batch, size, window, channels, features):
    axes = axes_of(size, window=window)
    ctx = TraceContext([], "cpu")
    assert not xla_convolution.planes_beat_library(ctx, batch, axes, channels, features, np.dtype(np.float32))
