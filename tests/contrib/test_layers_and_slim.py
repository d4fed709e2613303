"""``tf.contrib.layers`` and ``tf.contrib.slim``: values against NumPy, names as in checkpoints of TensorFlow 1."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

slim = tf.contrib.slim
X = np.random.RandomState(0).randn(2, 8, 8, 3).astype(np.float32)


def started(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def test_names_scopes_and_collections():
    with tf.Graph().as_default():
        params = {"is_training": True, "scale": True}
        with slim.arg_scope(
            [slim.conv2d],
            normalizer_fn=slim.batch_norm,
            normalizer_params=params,
            weights_regularizer=slim.l2_regularizer(0.1),
            outputs_collections="ends",
        ):
            net = slim.repeat(tf.constant(X), 2, slim.conv2d, 4, 3, scope="conv1")
            net = slim.conv2d(net, 5, [1, 1])
        net = slim.max_pool2d(net, 2, scope="pool")
        net = slim.fully_connected(slim.dropout(slim.flatten(net), 0.5), 7, activation_fn=None)
        net = tf.contrib.layers.layer_norm(net)
        assert net.shape.as_list() == [2, 7]
        norms = ("gamma", "beta", "moving_mean", "moving_variance")
        layers = ("conv1/conv1_1", "conv1/conv1_2", "Conv")
        expected = [f"{layer}/{name}" for layer in layers for name in ("weights", *(f"BatchNorm/{n}" for n in norms))]
        expected += [f"fully_connected/{n}" for n in ("weights", "biases")] + ["LayerNorm/beta", "LayerNorm/gamma"]
        assert [v.op.name for v in tf.global_variables()] == expected
        assert [v.op.name for v in slim.get_model_variables()] == expected
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 6
        assert len(tf.losses.get_regularization_losses()) == 3
        assert list(slim.utils.convert_collection_to_dict("ends")) == list(layers)
        assert started(net)[0].shape == (2, 7)
        with pytest.raises(ValueError, match="already exists"):
            slim.fully_connected(net, 7, scope="fully_connected")
        slim.fully_connected(tf.ones([1, 80]), 7, scope="fully_connected", reuse=True)


def test_values():
    with tf.Graph().as_default():
        x = tf.constant(X[:, 0, :, 0])
        dense = tf.contrib.layers.fully_connected(x, 4, biases_initializer=tf.ones_initializer())
        norm = tf.contrib.layers.layer_norm(x)
        batch = tf.contrib.layers.batch_norm(x, decay=0.9, updates_collections=None)
        w, d, n, b = started(tf.global_variables()[0], dense, norm, batch)
        rows = X[:, 0, :, 0]
        np.testing.assert_allclose(d, np.maximum(rows @ w + 1, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(n, (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True), rtol=1e-3)
        np.testing.assert_allclose(b, (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-3), rtol=1e-3, atol=1e-5)
        assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.Graph().as_default():
        y = tf.contrib.layers.batch_norm(tf.constant(rows), decay=0.9, updates_collections=None)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(y)
            np.testing.assert_allclose(session.run(tf.global_variables()[1]), 0.1 * rows.mean(0), rtol=1e-4)


def test_a_layers_regularizer_comes_on_top_of_its_scopes():
    """As in TensorFlow 1.15.5, with its names: a layer's own does not take the place of the scope's."""
    layers = tf.contrib.layers
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("net", regularizer=layers.l2_regularizer(0.5), initializer=tf.ones_initializer()):
            ones = tf.ones_initializer()
            own = layers.l1_regularizer(0.25)
            layers.fully_connected(tf.ones([2, 3]), 4, weights_initializer=ones, weights_regularizer=own)
            layers.conv2d(tf.ones([1, 4, 4, 1]), 2, 3, biases_initializer=ones, biases_regularizer=own)
        with tf.variable_scope("cut", partitioner=tf.fixed_size_partitioner(2)):
            layers.fully_connected(tf.ones([2, 4]), 4, weights_regularizer=own)
        losses = tf.losses.get_regularization_losses()
        assert [loss.name for loss in losses] == [
            "net/fully_connected/weights/Regularizer/l2_regularizer:0",
            "net/fully_connected/kernel/Regularizer/l1_regularizer:0",
            "net/fully_connected/biases/Regularizer/l2_regularizer:0",
            "net/Conv/weights/Regularizer/l2_regularizer:0",
            "net/Conv/biases/Regularizer/l2_regularizer:0",
            "net/Conv/bias/Regularizer/l1_regularizer:0",
            "cut/fully_connected/kernel/Regularizer/l1_regularizer:0",
            "cut/fully_connected/kernel/Regularizer_1/l1_regularizer:0",
        ]
        session.run(tf.global_variables_initializer())
        assert session.run([*losses[:3], *losses[4:6]]) == [3.0, 3.0, 0.0, 0.5, 0.5]


def test_regularizers_and_initializers():
    layers = tf.contrib.layers
    w = tf.constant([1.0, -2.0])
    both = layers.l1_l2_regularizer(0.5, 0.1)
    found = tf.Session().run([layers.l1_regularizer(0.5)(w), layers.l2_regularizer(0.1)(w), both(w)])
    np.testing.assert_allclose(found, [1.5, 0.25, 1.75], rtol=1e-6)
    assert layers.l2_regularizer(0.0)(w) is None
    with pytest.raises(ValueError, match="an integer or less than 0"):
        layers.l2_regularizer(1)
    shape = [3, 3, 50, 80]
    draws = [
        layers.xavier_initializer(seed=1)(shape),
        layers.xavier_initializer(False, seed=1)(shape),
        layers.variance_scaling_initializer(seed=1)(shape),
        layers.variance_scaling_initializer(1.0, "FAN_OUT", True, 1)(shape),
    ]
    variances = [value.var() for value in tf.Session().run(draws)]
    np.testing.assert_allclose(variances, [2 / 1170, 2 / 1170, 2 / 450, 1 / 720], rtol=0.03)


def test_less_common_layers():
    layers = tf.contrib.layers
    with tf.Graph().as_default():
        x = tf.constant(X)
        up = slim.conv2d_transpose(x, 4, 3, 2, normalizer_fn=slim.batch_norm)
        deep = slim.separable_conv2d(up, 5, 3, 1, stride=2, weights_regularizer=slim.l2_regularizer(0.1))
        only = slim.separable_conv2d(x, None, 3, 2, activation_fn=None, biases_initializer=tf.ones_initializer())
        norm = layers.instance_norm(x)
        biased = layers.bias_add(x, initializer=tf.constant_initializer([1, 2, 3]))
        codes = slim.one_hot_encoding([2, 0], 3)
        assert [t.shape.as_list() for t in (up, deep, only)] == [[2, 16, 16, 4], [2, 8, 8, 5], [2, 8, 8, 6]]
        names = [v.op.name for v in slim.get_model_variables()]
        assert [n for n in names if "BatchNorm" not in n] == [
            "Conv2d_transpose/weights",
            "SeparableConv2d/depthwise_weights",
            "SeparableConv2d/pointwise_weights",
            "SeparableConv2d/biases",
            "SeparableConv2d_1/depthwise_weights",
            "SeparableConv2d_1/biases",
            "InstanceNorm/beta",
            "InstanceNorm/gamma",
            "BiasAdd/biases",
        ]
        assert len(tf.losses.get_regularization_losses()) == 2
        kernel = tf.global_variables("SeparableConv2d_1")[0]
        values = started(norm, biased, codes, only, kernel, up, deep)
        mean, variance = X.mean((1, 2), keepdims=True), X.var((1, 2), keepdims=True)
        np.testing.assert_allclose(values[0], (X - mean) / np.sqrt(variance + 1e-6), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(values[1], X + [1, 2, 3], rtol=1e-6)
        np.testing.assert_array_equal(values[2], np.eye(3)[[2, 0]])
        patch = np.einsum("xyc,xycm->cm", X[0, 2:5, 3:6], values[4]).ravel() + 1
        np.testing.assert_allclose(values[3][0, 3, 4], patch, rtol=1e-4, atol=1e-5)


def test_names_of_modules():
    layers = tf.contrib.layers
    assert layers.python.layers.batch_norm is layers.batch_norm
    assert layers.python.layers.utils.collect_named_outputs is slim.utils.collect_named_outputs
    assert layers.python.layers.initializers.xavier_initializer is slim.initializers.xavier_initializer


def test_utilities_of_layers() -> None:
    utils = tf.contrib.layers.utils
    with tf.Graph().as_default():
        unknown = tf.placeholder(tf.bool, [])
        assert utils.smart_cond(tf.constant(True), fn1=lambda: 1, fn2=lambda: 2) == 1
        assert utils.smart_cond(0, lambda: 1, lambda: 2) == 2
        either = utils.smart_cond(unknown, lambda: tf.constant(1), lambda: tf.constant(2))
        assert tf.Session().run(either, {unknown: False}) == 2
        assert utils.constant_value(tf.constant(3.0)) == 3
        assert utils.constant_value(unknown) is None
        with pytest.raises(ValueError, match="cannot be None"):
            utils.constant_value(None)
        with pytest.raises(ValueError, match="It has the wrong type"):
            utils.constant_value(tf.constant(3.0), tf.int32)
        x = tf.ones([2, 3, 4], name="x")
        assert utils.get_tensor_aliases(x) == ["x"]
        utils.append_tensor_alias(x, "y/")
        assert utils.gather_tensors_aliases([x, x]) == ["y", "y"]
        assert (utils.last_dimension(x.shape), utils.channel_dimension(x.shape, "NCW")) == (4, 3)
        with pytest.raises(ValueError, match="rank of shape must be at least 5"):
            utils.last_dimension(x.shape, 5)
    assert utils.two_element_tuple(3) == (3, 3)
    assert utils.two_element_tuple(tf.TensorShape([4, 5])) == (4, 5)
    with pytest.raises(ValueError, match="Must be a list of 2 positive integers"):
        utils.two_element_tuple([1, 2, 3])


def test_embeddings_and_what_they_refuse() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.constant([[1, 0, 2], [2, 2, 0], [0, 0, 0]])
        once = layers.embed_sequence(ids, 5, 3, unique=True, scope="words")
        again = layers.embed_sequence(ids, scope="words", reuse=True)
        bag = layers.bow_encoder(ids, 5, 3, scope="bag")
        dense = layers.bow_encoder(ids, 5, 3, sparse_lookup=False, scope="bag", reuse=True)
        assert [v.op.name for v in tf.global_variables()] == ["words/embeddings", "bag/embeddings"]
        session.run(tf.global_variables_initializer())
        words, bags, *found = session.run([*tf.global_variables(), once, again, bag, dense])
        rows = np.array([[1, 0, 2], [2, 2, 0], [0, 0, 0]])
        np.testing.assert_array_equal(found[0], words[rows])
        np.testing.assert_array_equal(found[1], words[rows])
        np.testing.assert_allclose(found[2], [bags[[1, 2]].mean(0), bags[2], bags[0]], rtol=1e-5)  # of nothing: id 0
        np.testing.assert_allclose(found[3], bags[rows].mean(1), rtol=1e-5)
        with pytest.raises(ValueError, match="Must specify vocab size and embedding dimension"):
            layers.embed_sequence(ids)
        with pytest.raises(TypeError, match="expected to be dense"):
            layers.bow_encoder(tf.SparseTensor([[0, 0]], [1], [1, 1]), 5, 3, sparse_lookup=False)


def test_what_layers_refuse() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default():
        x = tf.zeros([2, 4, 4, 3])
        for make, told in (
            (lambda: layers.conv1d(x, 2, 3), "Convolution expects input with rank 3, got 4"),
            (lambda: layers.conv2d(x, 2, 3, data_format="NWC"), "Invalid data_format: NWC"),
            (
                lambda: layers.conv2d(tf.placeholder(tf.float32, [2, 4, 4, None]), 2, 3),
                "should be defined. Found `None`",
            ),
            (lambda: layers.maxout(x, 2), "is not a multiple of num_units"),
            (lambda: layers.group_norm(x, 2), "Invalid groups 2 for 3 channels"),
            (lambda: layers.group_norm(x, 3, reduction_axes=[-1]), "mutually exclusive"),
            (lambda: layers.unit_norm(x, 4), "smaller than it"),
            (lambda: layers.batch_norm(tf.placeholder(tf.float32)), "undefined rank"),
            (lambda: layers.optimize_loss(tf.reduce_sum(x), None, 0.1, "Newton"), "Optimizer name should be one of"),
            (lambda: layers.optimize_loss(tf.reduce_sum(x), None, -1.0, "SGD"), "Invalid learning_rate"),
            (lambda: layers.optimize_loss(tf.reduce_sum(x), None, 0.1, "SGD", summaries=["l"]), "Summaries should be"),
        ):
            with pytest.raises(ValueError, match=told):
                make()
        with pytest.raises(NotImplementedError, match="renorm or adjustment"):
            layers.batch_norm(x, renorm=True, updates_collections=None)


def test_reversible_blocks_go_back() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default(), tf.Session() as session:
        halves = tf.constant(X[:, 0, :, 0]), tf.constant(X[:, 1, :, 1])
        block = layers.RevBlock(
            lambda x: layers.fully_connected(x, 8), lambda x: layers.fully_connected(x, 8, activation_fn=tf.tanh), 3
        )
        back = block.backward(*block.forward(*halves))
        session.run(tf.global_variables_initializer())
        for found, expected in zip(session.run(back), session.run(halves), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_generalized_divisive_normalization(rank, inverse):
    sizes = [2, 5, 3, 2][: rank - 1] + [4]
    x = np.random.RandomState(rank).randn(*sizes).astype(np.float32)
    beta, gamma = np.linspace(0.5, 2, 4, dtype=np.float32), np.random.RandomState(1).rand(4, 4).astype(np.float32)
    root = np.sqrt(beta**2 + (x**2) @ gamma**2)
    expected = x * root if inverse else x / root
    with tf.Graph().as_default(), tf.Session() as session:
        last = tf.contrib.layers.gdn(tf.constant(x), inverse, name="g")
        first = tf.contrib.layers.gdn(
            tf.constant(np.moveaxis(x, -1, 1)), inverse, data_format="channels_first", name="g", reuse=True
        )
        variables = tf.trainable_variables()
        assert [v.op.name for v in variables] == ["g/reparam_beta", "g/reparam_gamma"]
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(last), x * (1 + 0.1 * x**2) ** (0.5 if inverse else -0.5), rtol=1e-4)
        for variable, value in zip(variables, (beta, gamma), strict=True):
            variable.load(value, session)
        np.testing.assert_allclose(session.run(last), expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(session.run(first), np.moveaxis(expected, -1, 1), rtol=1e-4, atol=1e-6)


def test_divisive_normalization_below_its_bound_learns_upwards_alone():
    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.contrib.layers.gdn(tf.ones([1, 1, 2]), name="g")
        beta, gamma = tf.trainable_variables()
        up, down = tf.gradients(-y, [beta, gamma]), tf.gradients(y, [beta, gamma])
        session.run(tf.global_variables_initializer())
        beta.load(np.array([-1, 1], np.float32), session)
        gamma.load(np.zeros([2, 2], np.float32), session)
        down_beta, down_gamma = session.run(down)
        assert down_beta[0] < -1e5
        np.testing.assert_allclose(down_beta[1], -1, rtol=1e-4)
        assert down_gamma[0, 0] < 0
        up_beta, up_gamma = session.run(up)
        assert up_beta[0] == 0
        assert not up_gamma.any()


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ([1, 2, 3], {"data_format": "NHWC"}, "Unsupported `data_format`"),
        ([1, 2, None], {}, "channel dimension"),
        ([1, 2], {}, "min_ndim"),
        ([1, 1, 1, 1, 1, 2], {}, "max_ndim"),
    ],
)
def test_what_divisive_normalization_refuses(shape, options, said):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=said):
        tf.contrib.layers.gdn(tf.placeholder(tf.float32, shape), **options)
