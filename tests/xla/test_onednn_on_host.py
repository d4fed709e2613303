"""Convolutions and poolings of interpreted steps by oneDNN: values, operands that do not fit, forks, NumPy's share."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import kernels
from anabranch.ops.nn.windows import geometry, host_convolution, pooling_rules
from anabranch.testing.kernels import run_op
from anabranch.xla.onednn import host_calls, library
from anabranch.xla.onednn.primitives import FILTER, FORWARD, INPUT

assert tf.Op  # loads all op families

_WHY_NOT = library.found()
pytestmark = pytest.mark.skipif(isinstance(_WHY_NOT, str), reason=f"oneDNN is not there: {_WHY_NOT}")


@pytest.fixture(autouse=True)
def whatever_the_size(monkeypatch):
    monkeypatch.setattr(host_calls, "LEAST_FLOPS", 0)
    monkeypatch.setattr(host_calls, "LEAST_ENTRIES", 0)
    host_calls._call.cache_clear()
    yield
    host_calls._call.cache_clear()


def sampled(random):
    """A geometry, and images, filter and output, channels last."""
    axes = []
    for _ in range(random.integers(1, 4)):
        window, stride, dilation = (int(random.integers(1, most)) for most in (5, 4, 3))
        size = int(random.integers((window - 1) * dilation + 1, 14))
        padding = str(random.choice(["SAME", "VALID"]))
        axes.append(geometry.axis(size, window, stride, dilation, padding))
    groups = int(random.choice([1, 1, 2, 4]))
    inputs, outputs = (groups * int(random.integers(1, 6)) for _ in range(2))
    batch = int(random.integers(1, 5))
    shapes = (
        (batch, *(a.size for a in axes), inputs),
        (*(a.window for a in axes), inputs // groups, outputs),
        (batch, *(a.out for a in axes), outputs),
    )
    return tuple(axes), groups, [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def reference(kind, x, f, g, axes):
    x, f, g = (value.astype(np.float64) for value in (x, f, g))
    if kind == FORWARD:
        return host_convolution.forward(x, f, axes)
    if kind == INPUT:
        return host_convolution.input_gradient(g, f, axes, x.shape[-1])
    return host_convolution.filter_gradient(x, g, axes, f.shape[-2])


@pytest.mark.parametrize("seed", range(12))
def test_values_are_those_of_numpy_in_double_precision(seed):
    random = np.random.default_rng(seed)
    axes, groups, (x, f, g) = sampled(random)
    first = bool(seed % 2)
    found = 0
    for kind in (FORWARD, INPUT, FILTER):
        operands = {FORWARD: (x, f), INPUT: (g, f), FILTER: (x, g)}[kind]
        if first:  # as a transposition leaves them, not as memory has them
            images = [0] if kind != FILTER else [0, 1]
            operands = [np.moveaxis(a, -1, 1) if i in images else a for i, a in enumerate(operands)]
        made = host_calls.convolve(kind, *operands, axes, groups, first)
        if made is None:  # of odd input gradients it has none but a slow one
            assert kind == INPUT
            continue
        found += 1
        again = host_calls.convolve(kind, *operands, axes, groups, first)
        np.testing.assert_array_equal(made, again)
        made = np.moveaxis(made, 1, -1) if first and kind != FILTER else made
        expected = reference(kind, x, f, g, axes)
        assert made.shape == expected.shape
        assert np.abs(made - expected).max() <= 3e-6 * max(np.abs(expected).max(), 1e-30)
    assert found >= 2


@pytest.mark.parametrize("op", ["Conv2DBackpropInput", "Conv2DBackpropFilter"])
def test_operands_that_do_not_fit_are_never_read(op):
    x, f, g = np.ones((2, 8, 8, 4), "f"), np.ones((3, 3, 4, 8), "f"), np.ones((2, 5, 8, 8), "f")
    axes = (geometry.axis(8, 3, 1, 1, "SAME"),) * 2
    assert host_calls.convolve(INPUT, g, f, axes, 1, False) is None
    assert host_calls.convolve(FILTER, x, g, axes, 1, False) is None
    assert host_calls.convolve(FORWARD, x[:, :7], f, axes, 1, False) is None
    assert host_calls.convolve(FORWARD, x[..., :3], f, axes, 1, False) is None
    assert host_calls.convolve(FORWARD, x, f[:2], axes, 1, False) is None
    with tf.Graph().as_default():
        sizes = tf.placeholder(tf.int32, [4])
        images, filters, grad = (tf.placeholder(tf.float32, [None] * 4) for _ in range(3))
        if op == "Conv2DBackpropInput":
            result = tf.nn.conv2d_backprop_input(sizes, filters, grad, [1, 1, 1, 1], "SAME")
            feeds = {sizes: x.shape, filters: f, grad: g}
        else:
            result = tf.nn.conv2d_backprop_filter(images, sizes, grad, [1, 1, 1, 1], "SAME")
            feeds = {images: x, sizes: f.shape, grad: g}
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            with pytest.raises(errors.InvalidArgumentError, match="out_backprop"):
                session.run(result, feeds)


def test_kernels_of_the_interpreter_ask_for_it(monkeypatch):
    asked = []
    monkeypatch.setattr(host_calls.primitives, "described", lambda work: asked.append(work.kind) or "a test")
    x, f = np.ones((1, 6, 6, 2), "f"), np.ones((3, 3, 2, 4), "f")
    for tier in ("host", "host"):
        run_op("Conv2D", x, f, tier=tier, strides=[1, 1, 1, 1], padding="SAME")
    assert asked == [FORWARD]  # and remember the answer
    monkeypatch.setattr(host_calls, "LEAST_FLOPS", 1e9)
    host_calls._call.cache_clear()
    run_op("Conv2D", x, f, tier="host", strides=[1, 1, 1, 1], padding="SAME")
    assert asked == [FORWARD]


def test_what_is_forgotten_is_destroyed_and_made_again():
    x, f = np.ones((1, 6, 6, 2), "f"), np.ones((3, 3, 2, 4), "f")
    axes = (geometry.axis(6, 3, 1, 1, "SAME"),) * 2
    first = host_calls.convolve(FORWARD, x, f, axes, 1, False)
    host_calls._call.cache_clear()
    np.testing.assert_array_equal(host_calls.convolve(FORWARD, x, f, axes, 1, False), first)


class WithoutLibrary(kernels.HostContext):
    """A context whose poolings are NumPy's."""

    def pool(self, *_):
        return None


def pooled_images(random, special):
    """Images of whole numbers, so that maxima are equal to each other, axes to pool them along, and a gradient."""
    axes = []
    for _ in range(random.integers(1, 4)):
        size, window, stride = (int(random.integers(1, most)) for most in (12, 5, 4))
        padding = "SAME" if window > size else str(random.choice(["SAME", "VALID"]))
        axes.append(geometry.axis(size, window, stride, 1, padding))
    shape = (int(random.integers(1, 4)), *(a.size for a in axes), int(random.choice([1, 3, 8, 16, 17])))
    x = np.round(2 * random.standard_normal(shape)).astype(np.float32)
    x[random.random(shape) < 0.3] = special
    out = (shape[0], *(a.out for a in axes), shape[-1])
    return x, random.standard_normal(out).astype(np.float32), tuple(axes)


@pytest.mark.parametrize("special", [0.0, np.nan, -np.inf, np.inf])
def test_poolings_are_numpys(special):
    random = np.random.default_rng(17)
    ours, numpys = kernels.HostContext(), WithoutLibrary()
    taken = 0
    for _ in range(60):
        x, g, axes = pooled_images(random, special)
        for floor in (None, np.finfo(np.float32).min):
            maxima = [pooling_rules.max_forward(ctx, x, axes, floor) for ctx in (ours, numpys)]
            np.testing.assert_array_equal(*maxima)
        slopes = [pooling_rules.max_gradient(ctx, x, g, axes) for ctx in (ours, numpys)]
        np.testing.assert_allclose(*slopes, atol=1e-5)
        with np.errstate(invalid="ignore"):
            means = [pooling_rules.average_forward(ctx, x, axes) for ctx in (ours, numpys)]
        np.testing.assert_allclose(*means, rtol=1e-5, atol=1e-6)
        slopes = [pooling_rules.average_gradient(ctx, g, axes, x.shape) for ctx in (ours, numpys)]
        np.testing.assert_allclose(*slopes, atol=1e-5)
        taken += ours.pool("maximum", x.shape, axes, x) is not None
    assert taken >= 20, "the library has taken hardly any of them"


def test_poolings_that_are_left_to_numpy(monkeypatch):
    axes = (geometry.axis(6, 2, 2, 1, "VALID"),) * 2
    x, g = np.ones((2, 6, 6, 4), "f"), np.ones((2, 3, 3, 4), "f")
    assert host_calls.pool("maximum gradient", x.shape, axes, x, g) is not None
    assert host_calls.pool("maximum", x.shape, axes, x.astype(np.float64)) is None
    assert host_calls.pool("maximum gradient", x.shape, axes, x, g[:1]) is None
    assert host_calls.pool("maximum gradient", x.shape, axes, x[:1], g) is None
    assert host_calls.pool("average gradient", x.shape, axes, g[..., :2]) is None
    assert host_calls.pool("maximum", x.shape, axes, np.full_like(x, np.nan)) is None
    monkeypatch.setattr(host_calls, "LEAST_ENTRIES", 1 << 20)
    assert host_calls.pool("maximum", x.shape, axes, x) is None


FORKS = """
    import os
    import numpy as np
    import anabranch as tf
    from anabranch.xla.onednn import host_calls
    x = tf.ones([8, 32, 32, 16])
    y = tf.reduce_sum(tf.nn.conv2d(x, tf.ones([3, 3, 16, 32]), [1, 1, 1, 1], "SAME"))
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        before = session.run(y)
        assert host_calls._used_in == os.getpid()
        child = os.fork()
        after = session.run(y)
        assert host_calls._used_in == (os.getpid() if child else os.getppid())
        assert after == before, (after, before)
        if not child:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.multiprocess
def test_a_forked_child_computes_without_it():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKS)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_training_step_agrees_with_the_compiled_one():
    random = np.random.default_rng(0)
    images = random.standard_normal((4, 12, 12, 3)).astype(np.float32)
    losses = {}
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            x = tf.placeholder(tf.float32, [None, 12, 12, 3])
            first, second = (tf.get_variable(n, s) for n, s in (("a", [3, 3, 3, 8]), ("b", [4, 4, 5, 8])))
            h = tf.nn.relu(tf.nn.conv2d(x, first, [1, 2, 2, 1], "SAME"))
            y = tf.nn.conv2d_transpose(h, second, [4, 12, 12, 5], [1, 2, 2, 1], "SAME")
            loss = tf.reduce_mean(tf.square(y - 1.0))
            train = tf.train.AdamOptimizer(0.01).minimize(loss)
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                session.run(tf.global_variables_initializer())
                losses[tier] = [session.run([loss, train], {x: images})[0] for _ in range(6)]
    np.testing.assert_allclose(losses["interpreted"], losses["compiled"], rtol=2e-5)
