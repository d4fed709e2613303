"""Layers against NumPy float64, and their names against TensorFlow 1."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import anabranch as tf

RNG = np.random.RandomState(0)


def run(make, x, dtype=tf.float64):
    """Output of a layer on ``x``, with float64 variables that start at random; values of variables by name."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        with tf.variable_scope("", initializer=tf.random_uniform_initializer(-1, 1)):
            y = make(tf.constant(x, dtype))
        variables = tf.global_variables()
        with tf.Session(config=tf.SessionOptions(precision="highest")) as session:
            session.run(tf.global_variables_initializer())
            before = session.run(variables)
            value = session.run(y)
        assert y.shape.as_list() == list(value.shape)
        return value, {v.op.name: value for v, value in zip(variables, before, strict=True)}


def windows(x, sizes, strides, padding, rates=None, fill=0.0):
    """``[batch, *places, *window, channels]`` of ``x`` with channels last."""
    n = len(sizes)
    rates = rates or [1] * n
    pads = [(0, 0)]
    places = []
    for size, window, step, rate in zip(x.shape[1:-1], sizes, strides, rates, strict=True):
        reach = (window - 1) * rate + 1
        count = -(-size // step) if padding == "same" else -(-(size - reach + 1) // step)
        total = max((count - 1) * step + reach - size, 0) if padding == "same" else 0
        pads.append((total // 2, total - total // 2))
        places.append(count)
    x = np.pad(x, [*pads, (0, 0)], constant_values=fill)
    out = np.empty([x.shape[0], *places, *sizes, x.shape[-1]])
    for place in np.ndindex(*places):
        for tap in np.ndindex(*sizes):
            at = tuple(p * s + t * r for p, s, t, r in zip(place, strides, tap, rates, strict=True))
            out[(slice(None), *place, *tap)] = x[(slice(None), *at)]
    return out


def convolved(x, kernel, strides, padding, rates=None):
    n = kernel.ndim - 2
    return np.tensordot(windows(x, kernel.shape[:n], strides, padding, rates), kernel, n + 1)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 1, 3, 4)])
def test_dense(shape):
    x = RNG.randn(*shape)
    value, v = run(lambda t: tf.layers.dense(t, 5, activation=tf.tanh, bias_initializer=None), x)
    assert list(v) == ["dense/kernel", "dense/bias"]
    np.testing.assert_allclose(value, np.tanh(x @ v["dense/kernel"] + v["dense/bias"]), rtol=1e-12)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize(
    ("name", "sizes", "kernel", "strides", "rates"),
    [
        ("conv1d", (9,), (3,), (2,), (1,)),
        ("conv1d", (9,), (3,), (1,), (2,)),
        ("conv2d", (7, 8), (3, 2), (2, 3), (1, 1)),
        ("conv2d", (7, 8), (3, 2), (1, 1), (2, 3)),
        ("conv3d", (4, 5, 6), (2, 3, 2), (1, 2, 1), (1, 1, 1)),
    ],
)
def test_convolutions(name, sizes, kernel, strides, rates, padding, data_format):
    x = RNG.randn(2, *sizes, 3)
    last = [0, *range(2, x.ndim), 1]
    given = x if data_format == "channels_last" else np.moveaxis(x, -1, 1)
    function = getattr(tf.layers, name)
    value, v = run(
        lambda t: function(
            t, 4, kernel, strides, padding, data_format=data_format, dilation_rate=rates, bias_initializer=None
        ),
        given,
    )
    assert list(v) == [f"{name}/kernel", f"{name}/bias"]
    value = value if data_format == "channels_last" else value.transpose(last)
    expected = convolved(x, v[f"{name}/kernel"], strides, padding, rates) + v[f"{name}/bias"]
    np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_transposed_convolution_is_the_gradient(padding, data_format):
    """<conv(y), x> = <y, transposed(x)>."""
    x = RNG.randn(2, 4, 5, 3)
    given = x if data_format == "channels_last" else np.moveaxis(x, -1, 1)
    value, v = run(
        lambda t: tf.layers.conv2d_transpose(t, 4, 3, 2, padding, data_format=data_format, use_bias=False), given
    )
    assert list(v) == ["conv2d_transpose/kernel"]
    value = value if data_format == "channels_last" else np.moveaxis(value, 1, -1)
    assert value.shape == ((2, 8, 10, 4) if padding == "same" else (2, 9, 11, 4))
    y = RNG.randn(*value.shape)
    forward = convolved(y, v["conv2d_transpose/kernel"], (2, 2), padding)
    np.testing.assert_allclose((forward * x).sum(), (y * value).sum(), rtol=1e-11)


def test_transposed_convolution_of_an_open_batch():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None, 5, 3])
        y = tf.layers.conv2d_transpose(x, 4, 3, 2, "same", activation="relu")
        z = tf.layers.Conv3DTranspose(2, 2, 2)(tf.placeholder(tf.float32, [None, 2, 3, 4, 1]))
        assert y.shape.as_list() == [None, None, 10, 4]
        assert z.shape.as_list() == [None, 4, 6, 8, 2]
        assert y.op.name == "conv2d_transpose/Relu"
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(y, {x: np.ones([2, 3, 5, 3])}).shape == (2, 6, 10, 4)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize(("name", "sizes"), [("separable_conv1d", (7,)), ("separable_conv2d", (7, 6))])
def test_separable(name, sizes, data_format):
    n = len(sizes)
    x = RNG.randn(2, *sizes, 3)
    given = x if data_format == "channels_last" else np.moveaxis(x, -1, 1)
    value, v = run(
        lambda t: getattr(tf.layers, name)(t, 5, 3, 2, "same", data_format=data_format, depth_multiplier=2), given
    )
    assert list(v) == [f"{name}/depthwise_kernel", f"{name}/pointwise_kernel", f"{name}/bias"]
    value = value if data_format == "channels_last" else np.moveaxis(value, 1, -1)
    found = windows(x, [3] * n, [2] * n, "same")
    letters = "xy"[:n]
    deep = np.einsum(f"b...{letters}c,{letters}cm->b...cm", found, v[f"{name}/depthwise_kernel"])
    deep = deep.reshape(*deep.shape[:-2], 6)
    expected = deep @ v[f"{name}/pointwise_kernel"].reshape(6, 5)
    np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_pooling(n, padding, data_format):
    x = RNG.randn(2, *[7, 6, 5][:n], 3)
    given = x if data_format == "channels_last" else np.moveaxis(x, -1, 1)
    axes = tuple(range(1 + n, 1 + 2 * n))
    for kind, reduce in (("max", np.nanmax), ("average", np.nanmean)):
        function = getattr(tf.layers, f"{kind}_pooling{n}d")
        dtype = tf.float32 if n == 3 else tf.float64  # the ops in three dimensions take no float64
        value, v = run(lambda t, function=function: function(t, 3, 2, padding, data_format), given, dtype)
        assert not v
        value = value if data_format == "channels_last" else np.moveaxis(value, 1, -1)
        expected = reduce(windows(x, [3] * n, [2] * n, padding, fill=np.nan), axes)
        np.testing.assert_allclose(value, expected, rtol=1e-4 if n == 3 else 1e-12, atol=1e-6)
        layer = getattr(tf.layers, f"{kind.title()}Pooling{n}D")(3, 2, padding, data_format)
        assert layer.compute_output_shape(x.shape if data_format == "channels_last" else given.shape).as_list() == list(
            value.shape if data_format == "channels_last" else np.moveaxis(value, -1, 1).shape
        )


@pytest.mark.parametrize(("shape", "axis"), [((6, 4), -1), ((5, 3, 4), 1), ((3, 4, 5, 2), [1, 3])])
@pytest.mark.parametrize("training", [True, False])
def test_batch_normalization(shape, axis, training):
    x = 2 + 3 * RNG.randn(*shape)
    kept = {"moving_mean_initializer": None, "moving_variance_initializer": tf.constant_initializer(1.5)}
    value, v = run(
        lambda t: tf.layers.batch_normalization(
            t, axis, 0.9, training=training, gamma_initializer=None, beta_initializer=None, **kept
        ),
        x,
    )
    names = [f"batch_normalization/{n}" for n in ("gamma", "beta", "moving_mean", "moving_variance")]
    assert list(v) == names
    own = [a % len(shape) for a in ([axis] if isinstance(axis, int) else axis)]
    spread = [s if i in own else 1 for i, s in enumerate(shape)]
    gamma, beta, mean, variance = (v[n].reshape(spread) for n in names)
    if training:
        others = tuple(i for i in range(len(shape)) if i not in own)
        mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    np.testing.assert_allclose(value, (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta, rtol=1e-10)


@pytest.mark.parametrize("axis", [1, 3])
def test_fused_batch_normalization(axis):
    """A step decides whether it trains; the averages move only then, the variance's towards the unbiased one."""
    x = (2 + 3 * RNG.randn(3, 4, 5, 4)).astype(np.float32)
    others = tuple(i for i in range(4) if i != axis)
    spread = [4 if i == axis else 1 for i in range(4)]
    mean, variance, count = x.mean(others), x.var(others), x.size / 4
    with tf.Graph().as_default():
        training = tf.placeholder_with_default(False, [])
        y = tf.layers.batch_normalization(tf.constant(x), axis, 0.9, training=training)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert len(updates) == 2
        assert [v.op.name for v in tf.trainable_variables()] == [
            "batch_normalization/gamma",
            "batch_normalization/beta",
        ]
        averages = tf.global_variables()[2:]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(updates)
            np.testing.assert_array_equal(session.run(averages), [np.zeros(4), np.ones(4)])
            np.testing.assert_allclose(session.run(y), x / np.sqrt(1.001), rtol=1e-5)
            trained = session.run(y, {training: True})
            expected = (x - mean.reshape(spread)) / np.sqrt(variance.reshape(spread) + 1e-3)
            np.testing.assert_allclose(trained, expected, rtol=1e-4, atol=1e-5)
            session.run(updates, {training: True})
            moved = session.run(averages)
            np.testing.assert_allclose(moved[0], 0.1 * mean, rtol=1e-5)
            np.testing.assert_allclose(moved[1], 0.9 + 0.1 * variance * count / (count - 1), rtol=1e-5)


def test_batch_normalization_trains():
    """Gradients by way of a step that decides whether it trains."""
    with tf.Graph().as_default():
        training = tf.placeholder(tf.bool, [])
        x = tf.constant(RNG.randn(8, 3).astype(np.float32))
        y = tf.layers.dense(tf.layers.batch_normalization(tf.layers.dense(x, 4), training=training), 1)
        loss = tf.reduce_mean(tf.square(y - 1))
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            first = session.run(loss, {training: True})
            for _ in range(20):
                session.run(step, {training: True})
            assert session.run(loss, {training: True}) < first / 2


def test_dropout():
    x = np.ones([200, 50])
    value, _ = run(lambda t: tf.layers.dropout(t, 0.25, seed=3, training=True), x)
    assert set(np.unique(value)) == {0.0, 1 / 0.75}
    assert abs((value == 0).mean() - 0.25) < 0.02
    rows, _ = run(lambda t: tf.layers.dropout(t, 0.5, noise_shape=[None, 1], seed=3, training=True), x)
    assert (rows == rows[:, :1]).all()
    np.testing.assert_array_equal(run(tf.layers.dropout, x)[0], x)
    with tf.Graph().as_default():
        training = tf.placeholder(tf.bool, [])
        y = tf.layers.Dropout(0.5)(tf.ones([100]), training=training)
        with tf.Session() as session:
            assert session.run(y, {training: False}).min() == 1
            assert session.run(y, {training: True}).min() == 0


def test_flatten():
    x = RNG.randn(2, 3, 4, 5)
    np.testing.assert_array_equal(run(tf.layers.flatten, x)[0], x.reshape(2, 60))
    first, _ = run(lambda t: tf.layers.flatten(t, data_format="channels_first"), x)
    np.testing.assert_array_equal(first, np.moveaxis(x, 1, -1).reshape(2, 60))
    assert run(tf.layers.flatten, np.ones(3))[0].shape == (3, 1)
    with tf.Graph().as_default():
        open_batch = tf.placeholder(tf.float32, [None, 3, 4])
        all_open = tf.placeholder(tf.float32, [None, None, 4])
        assert tf.layers.flatten(open_batch).shape.as_list() == [None, 12]
        y = tf.layers.flatten(all_open)
        assert y.shape.as_list() == [None, None]
        with tf.Session() as session:
            assert session.run(y, {all_open: np.ones([2, 5, 4])}).shape == (2, 20)


def test_names_and_reuse():
    """Names of TensorFlow 1.15 for the same program."""
    with tf.Graph().as_default():
        x = tf.ones([2, 8, 8, 3])
        a = tf.layers.conv2d(x, 4, 3)
        b = tf.layers.conv2d(a, 4, 3, activation=tf.nn.relu)
        with tf.variable_scope("block"):
            c = tf.layers.conv2d(b, 4, 1)
            d = tf.layers.conv2d(c, 4, 1, name="inner")
        with tf.variable_scope("block", reuse=True):
            tf.layers.conv2d(c, 4, 1, name="inner")
        tf.layers.conv2d(c, 4, 1, name="block/inner", reuse=True)
        pooled = [tf.layers.max_pooling2d(d, 2, 2, name="pool").op.name for _ in range(2)]
        flat = tf.layers.flatten(d)
        layer = tf.layers.Dense(5, name="fc")
        e, f = layer(flat), layer(flat)
        assert [t.op.name for t in (a, b, c, d, e, f, flat)] == [
            "conv2d/BiasAdd", "conv2d_1/Relu", "block/conv2d/BiasAdd", "block/inner/BiasAdd", "fc/BiasAdd",
            "fc/BiasAdd_1", "flatten/Reshape",
        ]  # fmt: skip
        assert pooled == ["pool/MaxPool", "pool_1/MaxPool"]
        assert [v.op.name for v in tf.global_variables()] == [
            f"{scope}/{name}"
            for scope in ("conv2d", "conv2d_1", "block/conv2d", "block/inner", "fc")
            for name in ("kernel", "bias")
        ]
        with pytest.raises(ValueError, match="block/inner/kernel already exists"):
            with tf.variable_scope("block", auxiliary_name_scope=False):
                tf.layers.conv2d(c, 4, 1, name="inner")


def test_regularizers_and_constraints():
    with tf.Graph().as_default():
        x = tf.ones([2, 3])
        clip = lambda w: tf.clip_by_value(w, 0, 1)  # noqa: E731
        layer = tf.layers.Dense(
            4,
            kernel_initializer="ones",
            kernel_regularizer=lambda w: 0.5 * tf.reduce_sum(w),
            activity_regularizer=tf.reduce_max,
            kernel_constraint=clip,
        )
        layer(x)
        layer(x)
        assert layer.kernel.constraint is clip
        found = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(found) == [6, 1.5, 1.5]  # what activities lose is divided by the batch's size


def test_bad_arguments():
    x = tf.ones([2, 8, 8, 3])
    with pytest.raises(ValueError, match="must be a tuple of 2 integers"):
        tf.layers.conv2d(x, 4, (3, 3, 3))
    with pytest.raises(ValueError, match='one of "valid", "same"'):
        tf.layers.max_pooling2d(x, 2, 2, padding="full")
    with pytest.raises(ValueError, match='must be one of "channels_first"'):
        tf.layers.conv2d(x, 4, 3, data_format="NHWC")
    with pytest.raises(ValueError, match="expected ndim=4, found ndim=2"):
        tf.layers.conv2d(tf.ones([2, 3]), 4, 3)
    with pytest.raises(ValueError, match="The last dimension of the inputs to `Dense` should be defined"):
        tf.layers.dense(tf.placeholder(tf.float32, [2, None]), 4)
    with pytest.raises(ValueError, match="Unknown activation function: rectify"):
        tf.layers.dense(tf.ones([2, 3]), 4, activation="rectify")
    with pytest.raises(TypeError, match="unexpected keyword argument 'stride'"):
        tf.layers.conv2d(x, 4, 3, stride=2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dense", "inputs units activation use_bias kernel_initializer bias_initializer kernel_regularizer "
         "bias_regularizer activity_regularizer kernel_constraint bias_constraint trainable name reuse"),
        ("conv2d", "inputs filters kernel_size strides padding data_format dilation_rate activation use_bias "
         "kernel_initializer bias_initializer kernel_regularizer bias_regularizer activity_regularizer "
         "kernel_constraint bias_constraint trainable name reuse"),
        ("conv2d_transpose", "inputs filters kernel_size strides padding data_format activation use_bias "
         "kernel_initializer bias_initializer kernel_regularizer bias_regularizer activity_regularizer "
         "kernel_constraint bias_constraint trainable name reuse"),
        ("separable_conv2d", "inputs filters kernel_size strides padding data_format dilation_rate depth_multiplier "
         "activation use_bias depthwise_initializer pointwise_initializer bias_initializer depthwise_regularizer "
         "pointwise_regularizer bias_regularizer activity_regularizer depthwise_constraint pointwise_constraint "
         "bias_constraint trainable name reuse"),
        ("dropout", "inputs rate noise_shape seed training name"),
        ("average_pooling3d", "inputs pool_size strides padding data_format name"),
    ],
)  # fmt: skip
def test_signatures(name, expected):
    assert list(inspect.signature(getattr(tf.layers, name)).parameters) == expected.split()


@pytest.mark.parametrize("name", ["conv1d", "separable_conv1d"])
@pytest.mark.parametrize(("stride", "rate"), [(1, 1), (2, 1), (1, 2)])
def test_causal_padding_is_zeros_before_the_first_place(name, stride, rate):
    x = RNG.randn(2, 7, 3)
    value, v = run(lambda t: getattr(tf.layers, name)(t, 4, 3, stride, "causal", dilation_rate=rate, use_bias=False), x)
    kernel = v[f"{name}/kernel"] if name == "conv1d" else None
    if kernel is None:
        depth, point = v[f"{name}/depthwise_kernel"], v[f"{name}/pointwise_kernel"]
        kernel = np.einsum("kcm,cmf->kcf", depth, point[0].reshape(3, 1, 4))
    before = np.pad(x, [(0, 0), (2 * rate, 0), (0, 0)])
    np.testing.assert_allclose(value, convolved(before, kernel, (stride,), "valid", (rate,)), rtol=1e-11, atol=1e-12)


def test_causal_padding_of_other_layers_is_refused():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6, 6, 3])
        for layer in (tf.layers.conv2d, tf.layers.separable_conv2d, tf.layers.conv2d_transpose):
            with pytest.raises(ValueError, match="Causal padding is only supported"):
                layer(x, 4, 3, padding="causal")
        with pytest.raises(ValueError, match="must be channels_last"):
            tf.layers.conv1d(x[:, 0], 4, 3, padding="causal", data_format="channels_first")


def test_pools_of_one_dimension_have_tensorflows_names_and_need_steps() -> None:
    with tf.Graph().as_default():
        x = tf.zeros([2, 6, 3])
        assert tf.layers.max_pooling1d(x, 2, 2).name == "max_pooling1d/Squeeze:0"
        assert tf.layers.average_pooling1d(x, 2, 2).name == "average_pooling1d/Squeeze:0"
        with pytest.raises(ValueError, match="Argument `strides` must not be None"):
            tf.layers.max_pooling1d(x, 2, None)
