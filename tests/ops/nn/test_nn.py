"""Public functions of neural networks: spellings, names, values, refusals."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode
from anabranch.testing.kernels import TIERS, run_op

Sparse = collections.namedtuple("Sparse", "indices values dense_shape")
IMAGES = np.random.default_rng(0).standard_normal((2, 6, 5, 3)).astype(np.float32)
FILTER = np.random.default_rng(1).standard_normal((3, 3, 3, 4)).astype(np.float32)
LOGITS = np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
ROWS3 = np.random.default_rng(3).standard_normal((2, 3, 5)).astype(np.float32)
TABLE = np.random.default_rng(4).standard_normal((7, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(*tensors, feed=None):
    with tf.Session() as session:
        found = session.run(list(tensors), feed)
    return found[0] if len(found) == 1 else found


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def softmax(x, axis=-1):
    found = np.exp(x - x.max(axis, keepdims=True))
    return found / found.sum(axis, keepdims=True)


# ------------------------------------------------------------------------------------------------------- spellings
def test_strides_have_every_spelling():
    """One number, one per spatial dimension, or one per dimension."""
    shapes = {
        tf.nn.conv2d(IMAGES, FILTER, strides=strides, padding="SAME").shape
        for strides in (2, [2], [2, 2], (1, 2, 2, 1), np.array([2, 2]))
    }
    assert [shape.as_list() for shape in shapes] == [[2, 3, 3, 4]]
    with pytest.raises(ValueError, match="strides should be of length 1, 2 or 4 but was 3"):
        tf.nn.conv2d(IMAGES, FILTER, strides=[1, 2, 2], padding="SAME")


def test_explicit_padding_of_a_convolution_pads():
    pairs = [[0, 0], [1, 2], [0, 3], [0, 0]]
    padded = tf.nn.conv2d(tf.constant(np.pad(IMAGES, pairs)), filters=FILTER, strides=1, padding="VALID")
    found, expected = run(tf.nn.conv2d(IMAGES, FILTER, 1, pairs), padded)
    close(found, expected)


def test_formats_agree():
    first = IMAGES.transpose(0, 3, 1, 2)
    pairs = [
        (tf.nn.conv2d(IMAGES, FILTER, 1, "SAME"), tf.nn.conv2d(first, FILTER, 1, "SAME", data_format="NCHW")),
        (tf.nn.max_pool(IMAGES, 2, 2, "SAME"), tf.nn.max_pool(first, 2, 2, "SAME", data_format="NCHW")),
        (tf.nn.avg_pool(IMAGES, 2, 1, "SAME"), tf.nn.avg_pool(first, 2, 1, "SAME", data_format="NCHW")),
        (tf.nn.bias_add(IMAGES, [1.0, 2, 3]), tf.nn.bias_add(first, [1.0, 2, 3], data_format="NCHW")),
        (
            tf.nn.fused_batch_norm(IMAGES, [1.0, 2, 3], [0.0, 1, 2])[0],
            tf.nn.fused_batch_norm(first, [1.0, 2, 3], [0.0, 1, 2], data_format="NCHW")[0],
        ),
        (
            tf.nn.depthwise_conv2d(IMAGES, FILTER, [1, 1, 1, 1], "SAME"),
            tf.nn.depthwise_conv2d(first, FILTER, [1, 1, 1, 1], "SAME", data_format="NCHW"),
        ),
    ]
    found = run(*[tensor for pair in pairs for tensor in pair])
    for last, other in zip(found[::2], found[1::2], strict=True):
        close(other.transpose(0, 2, 3, 1), last)


def test_one_dimension_is_two_of_height_one():
    x, f = IMAGES[:, 0], FILTER[0]
    found = run(
        tf.nn.conv1d(x, f, 2, "SAME"),
        tf.nn.conv1d(x.transpose(0, 2, 1), f, 2, "SAME", data_format="NCW"),
        tf.nn.convolution(x, f, "SAME", strides=[2]),
        tf.nn.conv2d(x[:, None], f[None], [1, 1, 2, 1], "SAME"),
        tf.nn.max_pool1d(x, 2, 2, "SAME"),
        tf.nn.pool(x, [2], "MAX", "SAME", strides=[2]),
    )
    close(found[0], found[3][:, 0])
    close(found[1].transpose(0, 2, 1), found[0])
    close(found[2], found[0])
    close(found[4], found[5])


def test_transposed_convolutions_are_input_gradients():
    y = tf.nn.conv2d(tf.constant(IMAGES), FILTER, [1, 2, 2, 1], "SAME")
    (expected,) = tf.gradients(y, [y.op.inputs[0]], [tf.ones_like(y)])
    value = tf.ones_like(y)
    shape = tf.shape(tf.constant(IMAGES))
    found = tf.nn.conv2d_transpose(value, FILTER, shape, [1, 2, 2, 1])
    assert found.shape.as_list() == [2, 6, 5, 3]
    close(*run(found, expected))
    with pytest.raises(ValueError, match=r"input channels does not match filter's input channels, 3 != 4"):
        tf.nn.conv2d_transpose(IMAGES, FILTER, [2, 6, 5, 3], [1, 1, 1, 1])


def test_transposed_convolution_of_a_batch_that_is_not_known():
    x = tf.placeholder(tf.float32, [None, 4, 4, 4])
    batch = tf.shape(x)[0]
    found = tf.nn.conv2d_transpose(x, FILTER, tf.stack([batch, 8, 8, 3]), [1, 2, 2, 1])
    assert found.shape.as_list() == [None, 8, 8, 3]
    assert run(found, feed={x: np.ones((5, 4, 4, 4))}).shape == (5, 8, 8, 3)


def test_separable_and_dilated():
    point = np.ones((1, 1, 12, 2), np.float32)
    wide = np.zeros((5, 5, 3, 4), np.float32)
    wide[::2, ::2] = FILTER
    found = run(
        tf.nn.separable_conv2d(IMAGES, FILTER, point, [1, 1, 1, 1], "SAME"),
        tf.reduce_sum(tf.nn.depthwise_conv2d(IMAGES, FILTER, [1, 1, 1, 1], "SAME"), 3),
        tf.nn.atrous_conv2d(IMAGES, FILTER, 2, "SAME"),
        tf.nn.conv2d(IMAGES, wide, 1, "SAME"),
        tf.nn.depthwise_conv2d(IMAGES, FILTER, [1, 1, 1, 1], "SAME", rate=[2, 2]),
        tf.nn.depthwise_conv2d(IMAGES, wide, [1, 1, 1, 1], "SAME"),
    )
    close(found[0][..., 0], found[1], 1e-4)
    close(found[2], found[3])
    close(found[4], found[5])


def test_a_dilated_pooling_looks_at_every_second_entry():
    found = run(tf.nn.pool(IMAGES, [2, 2], "MAX", "VALID", dilation_rate=[2, 3]))
    expected = np.maximum.reduce([IMAGES[:, i : 4 + i, j : 2 + j] for i in (0, 2) for j in (0, 3)])
    close(found, expected)
    first = run(tf.nn.pool(IMAGES.transpose(0, 3, 1, 2), [2, 2], "MAX", "VALID", [2, 3], data_format="NCHW"))
    close(first, expected.transpose(0, 3, 1, 2))
    unknown = tf.placeholder(tf.float32, [None, None, None, None])
    with tf.Session() as session:
        close(session.run(tf.nn.pool(unknown, [2, 2], "MAX", "VALID", [2, 3]), {unknown: IMAGES}), expected)
    padded = np.pad(IMAGES, [[0, 0], [1, 1], [1, 2], [0, 0]])  # with zeros, as TensorFlow does
    height, width = IMAGES.shape[1:3]
    same = np.maximum.reduce([padded[:, i : height + i, j : width + j] for i in (0, 2) for j in (0, 3)])
    close(run(tf.nn.pool(IMAGES, [2, 2], "MAX", "SAME", dilation_rate=[2, 3])), same)
    with pytest.raises(ValueError, match="strides > 1 not supported in conjunction with dilation_rate > 1"):
        tf.nn.pool(IMAGES, [2, 2], "MAX", "VALID", dilation_rate=[2, 2], strides=[2, 2])


# ------------------------------------------------------------------------------------------------------------ losses
def test_the_class_dimension_may_be_any():
    labels = softmax(ROWS3, 1)
    found = run(
        tf.nn.softmax(ROWS3, axis=1),
        tf.nn.log_softmax(ROWS3, dim=0),
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=ROWS3, dim=1),
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=ROWS3, axis=1),
    )
    close(found[0], softmax(ROWS3, 1))
    close(found[1], np.log(softmax(ROWS3, 0)))
    close(found[2], -(labels * np.log(softmax(ROWS3, 1))).sum(1))
    close(found[3], found[2])


def test_shapes_that_are_not_known():
    logits = tf.placeholder(tf.float32)
    labels = tf.placeholder(tf.int32)
    dense = tf.placeholder(tf.float32)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.nn.softmax_cross_entropy_with_logits(labels=dense, logits=logits)
    numbers = np.array([[0, 4, 1], [2, 2, 3]])
    feed = {logits: ROWS3, labels: numbers, dense: np.eye(5)[numbers]}
    found = run(sparse, loss, feed=feed)
    expected = -np.log(np.take_along_axis(softmax(ROWS3), numbers[..., None], -1))[..., 0]
    close(found[0], expected)
    close(found[1], expected)


def test_no_gradient_flows_into_the_labels_of_the_old_form():
    labels, logits = tf.constant(softmax(LOGITS)), tf.constant(LOGITS)
    old = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    new = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    assert tf.gradients(old, labels) == [None]
    assert tf.gradients(new, labels)[0] is not None


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("label", [-1, 5])
def test_a_label_without_a_class_is_refused(tier, label):
    text = rf"label value of {label} which is outside the valid range of \[0, 5\)\.  Label values: \[0 {label} 1 2\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run_op("SparseSoftmaxCrossEntropyWithLogits", LOGITS, np.array([0, label, 1, 2]), tier=tier)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    ("known", "of_logits"),
    [([4, 16], [None, 4, 7]), ([4, None], [16, 4, 7]), ([None, None], [None, None, 7]), (None, [None, None, 7])],
)
def test_rows_of_labels_in_another_order_are_refused_by_the_step(known, of_logits, tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        labels, logits = tf.placeholder(tf.int32, known), tf.placeholder(tf.float32, of_logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x == y did not hold element-wise"):
            session.run(loss, {labels: np.zeros((4, 16)), logits: np.zeros((16, 4, 7))})
        if known in ([None, None], None):
            fine = session.run(loss, {labels: np.zeros((2, 3)), logits: np.zeros((2, 3, 7))})
            np.testing.assert_allclose(fine, np.full((2, 3), np.log(7)), rtol=1e-6)


def test_losses_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"Shape mismatch: The shape of labels \(received \(4, 16\)\) should equal"):
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=np.zeros((4, 16), np.int32), logits=tf.zeros([16, 4, 7]))
    with pytest.raises(ValueError, match=r"Only call `softmax_cross_entropy_with_logits` with named arguments"):
        tf.nn.softmax_cross_entropy_with_logits(LOGITS, LOGITS)
    with pytest.raises(ValueError, match=r"Both labels and logits must be provided\."):
        tf.nn.sigmoid_cross_entropy_with_logits(logits=LOGITS)
    with pytest.raises(
        ValueError, match=r"Rank of labels \(received 2\) should equal rank of logits minus 1 \(received 2\)"
    ):
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[1], [2], [3], [4]], logits=LOGITS)
    with pytest.raises(ValueError, match=r"logits and labels must have the same shape \(\(4, 5\) vs \(5,\)\)"):
        tf.nn.sigmoid_cross_entropy_with_logits(labels=LOGITS[0], logits=LOGITS)
    with pytest.raises(TypeError, match="logits of dtype int32"):
        tf.nn.softmax_cross_entropy_with_logits(labels=LOGITS, logits=tf.constant([[1, 2]]))
    with pytest.raises(ValueError, match="Cannot specify both 'dim' and 'axis'"):
        tf.nn.softmax(LOGITS, axis=1, dim=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="axis 2 for Softmax of a tensor of shape"):
        tf.nn.softmax(LOGITS, axis=2)


def test_losses_of_logits_are_those_of_probabilities():
    z = softmax(LOGITS)
    p = 1 / (1 + np.exp(-LOGITS.astype(np.float64)))
    found = run(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=LOGITS),
        tf.nn.weighted_cross_entropy_with_logits(z, LOGITS, 3.0),
        tf.nn.log_poisson_loss(z * 5, LOGITS),
        tf.nn.log_poisson_loss(z * 5, LOGITS, compute_full_loss=True),
    )
    close(found[0], -z * np.log(p) - (1 - z) * np.log(1 - p))
    close(found[1], -3 * z * np.log(p) - (1 - z) * np.log(1 - p))
    close(found[2], np.exp(LOGITS) - z * 5 * LOGITS)
    t = z.astype(np.float64) * 5
    close(found[3], found[2] + np.where(t <= 1, 0, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t)), 1e-4)


def test_halves_are_summed_in_float32():
    logits = tf.constant(np.zeros((1, 4096)), tf.float16)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[7], logits=logits)
    assert loss.dtype == tf.float16
    close(run(loss), [np.log(4096)], 1e-3)


# ------------------------------------------------------------------------------------------------- moments, norms
def test_moments():
    weights = np.abs(IMAGES[..., :1])
    found = run(
        *tf.nn.moments(IMAGES, [0, 1]),
        *tf.nn.moments(IMAGES, axes=[1], keep_dims=True),
        *tf.nn.moments(tf.constant(IMAGES, tf.float16), 0),
        *tf.nn.weighted_moments(IMAGES, [0, 1, 2], weights),
        *tf.nn.normalize_moments(*tf.nn.sufficient_statistics(IMAGES, [0, 2], shift=0.3)),
    )
    close(found[0], IMAGES.mean((0, 1)))
    close(found[1], IMAGES.var((0, 1)))
    close(found[3], IMAGES.var(1, keepdims=True))
    assert found[4].dtype == np.float16
    mean = (IMAGES * weights).sum((0, 1, 2)) / weights.sum()
    close(found[6], mean)
    close(found[7], (weights * (IMAGES - mean) ** 2).sum((0, 1, 2)) / weights.sum())
    close(found[8], IMAGES.mean((0, 2)))
    close(found[9], IMAGES.var((0, 2)))
    with pytest.raises(ValueError, match="Cannot specify both 'keep_dims' and 'keepdims'"):
        tf.nn.moments(IMAGES, [0], keep_dims=True, keepdims=True)


def test_batch_normalization_and_its_statistics():
    scale, offset = np.float32([1, 2, 3]), np.float32([0, 1, 2])
    mean, variance = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))
    fused = tf.nn.fused_batch_norm(IMAGES, scale, offset)
    again = tf.nn.fused_batch_norm(IMAGES, scale, offset, mean, variance, is_training=False)
    plain = tf.nn.batch_normalization(IMAGES, mean, variance, offset, scale, 0.001)
    found = run(*fused, again[0], plain)
    close(found[0], found[4], 1e-4)
    close(found[3], found[4], 1e-4)
    close(found[1], mean)
    close(found[2], variance * 60 / 59)
    assert plain.name == "batchnorm/add_1:0"
    with pytest.raises(ValueError, match="Both 'mean' and 'variance' must be None when is_training is True"):
        tf.nn.fused_batch_norm(IMAGES, scale, offset, mean, variance)
    with pytest.raises(ValueError, match="Both 'mean' and 'variance' must be a 1D tensor when is_training is False"):
        tf.nn.fused_batch_norm(IMAGES, scale, offset, is_training=False)


def test_statistics_far_from_zero():
    """A mean a million times the deviation does not drown the variance."""
    x = (IMAGES * 0.01 + 1000).astype(np.float32)
    for tier in TIERS:
        none = np.zeros(0, np.float32)
        found = run_op("FusedBatchNorm", x, np.ones(3, "f"), np.zeros(3, "f"), none, none, tier=tier)
        np.testing.assert_allclose(found[4], x.astype(np.float64).var((0, 1, 2)), rtol=5e-2)


def test_l2_normalize():
    found = run(tf.nn.l2_normalize(LOGITS, 1), tf.nn.l2_normalize(LOGITS), tf.nn.l2_normalize(LOGITS * 0, dim=0))
    close(found[0], LOGITS / np.linalg.norm(LOGITS, axis=1, keepdims=True))
    close(np.linalg.norm(found[1]), 1)
    close(found[2], LOGITS * 0)


# ------------------------------------------------------------------------------------------------------------- dropout
def test_dropout_keeps_the_expected_sum():
    x = tf.ones([200, 100])
    kept = tf.nn.dropout(x, 0.8, seed=1)
    rows = tf.nn.dropout(x, rate=0.5, noise_shape=[200, 1], seed=2)
    found, shared = run(kept, rows)
    assert set(np.unique(found)) == {0.0, np.float32(1.25)}
    assert abs(found.mean() - 1) < 0.02
    assert set(np.unique(shared.sum(1))) == {0.0, 200.0}
    assert kept.name == "dropout/mul_1:0"
    assert kept.shape.as_list() == [200, 100]


def test_dropout_of_sizes_that_are_not_known():
    x = tf.placeholder(tf.float32, [None, 3, 2])
    keep = tf.placeholder_with_default(np.float32(0.5), [])
    y = tf.nn.dropout(x, keep, noise_shape=[None, 1, 2], seed=3)
    g = tf.gradients(y, x)[0]
    ones = np.ones((50, 3, 2))
    found, slope = run(y, g, feed={x: ones})
    assert (found == found[:, :1]).all()
    assert set(np.unique(found)) == {0.0, 2.0}
    np.testing.assert_array_equal(slope, found)
    np.testing.assert_array_equal(run(y, feed={x: ones, keep: 1.0}), ones)


def test_dropout_without_chance_adds_nothing(graph):
    x = tf.constant(LOGITS)
    assert tf.nn.dropout(x, 1.0) is x
    assert len(graph.get_operations()) == 1
    assert tf.nn.dropout(x, rate=tf.constant(0.0)) is x
    for keep in (0, 1.5, -1):
        with pytest.raises(ValueError, match=r"keep_prob must be a scalar tensor or a float in the range \(0, 1\]"):
            tf.nn.dropout(x, keep)
    with pytest.raises(ValueError, match="Exactly one of `keep_prob` and `rate` must be provided"):
        tf.nn.dropout(x)
    with pytest.raises(ValueError, match=r"x has to be a floating point tensor .* Got a int32 tensor"):
        tf.nn.dropout([1, 2], 0.5)


# --------------------------------------------------------------------------------------------------------- embeddings
@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_table_in_parts_is_the_table(strategy, parts):
    ids = np.array([[0, 6, 3], [5, 5, 1]])
    if strategy == "mod":
        tables = [TABLE[i::parts] for i in range(parts)]
    else:
        tables = np.array_split(TABLE, parts)
    placed = [tf.constant(table) for table in tables]
    found = tf.nn.embedding_lookup(placed, ids, partition_strategy=strategy)
    gradients = tf.gradients(found, placed)
    values = run(found, *[tf.convert_to_tensor(g) for g in gradients])
    np.testing.assert_array_equal(values[0], TABLE[ids])
    counts = np.bincount(ids.ravel(), minlength=7).astype(np.float32)
    shares = [counts[i::parts] for i in range(parts)] if strategy == "mod" else np.array_split(counts, parts)
    for value, share in zip(values[1:], shares, strict=True):
        np.testing.assert_array_equal(value, np.repeat(share[:, None], 3, 1))


def test_a_lookup_is_checked_and_sparse():
    table = tf.constant(TABLE)
    found = tf.nn.embedding_lookup(table, tf.placeholder_with_default([1, 7], [2]))
    assert isinstance(tf.gradients(found, table)[0], tf.IndexedSlices)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 7 is not in \[0, 7\)"):
        run(found)
    with pytest.raises(ValueError, match="Need at least one param"):
        tf.nn.embedding_lookup([], [1])
    with pytest.raises(ValueError, match="Unrecognized partition strategy: none"):
        tf.nn.embedding_lookup([TABLE, TABLE], [1], partition_strategy="none")


def test_long_rows_are_shortened():
    found = run(tf.nn.embedding_lookup(TABLE, [[0, 1], [2, 3]], max_norm=0.5))
    norms = np.linalg.norm(TABLE[:4], axis=1)
    close(found.reshape(4, 3), TABLE[:4] * np.minimum(1, 0.5 / norms)[:, None])


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_combinations_of_embeddings(combiner, weighted):
    indices = tf.constant([[0, 0], [0, 1], [1, 0], [2, 0], [2, 2]], tf.int64)
    ids, weights = np.array([1, 3, 0, 6, 1]), np.float32([1, 3, 0.5, 2, 2])
    sparse = [Sparse(indices, tf.constant(values), tf.constant([3, 3], tf.int64)) for values in (ids, weights)]
    found = run(tf.nn.embedding_lookup_sparse(TABLE, sparse[0], sparse[1] if weighted else None, combiner=combiner))
    w = weights if weighted else np.ones(5)
    for row, span in enumerate((slice(0, 2), slice(2, 3), slice(3, 5))):
        total = (TABLE[ids[span]] * w[span, None]).sum(0)
        by = {"sum": 1, "mean": w[span].sum(), "sqrtn": np.sqrt((w[span] ** 2).sum())}[combiner]
        close(found[row], total / by)


@pytest.mark.parametrize("alpha", [0.2, 0.01, 1.0, 0.0, 1.5, -0.5])
def test_a_bent_line_is_the_same_to_the_bit_by_whichever_form(alpha):
    tiny = np.finfo(np.float32).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny, 1.5, -1.5, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = np.where(x > 0, x, x * np.float32(alpha))
    found = run_op("LeakyRelu", x, tier="host", alpha=alpha)
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


# ----------------------------------------------------------------------------------------------------------- small ones
def test_small_functions():
    found = run(
        tf.nn.crelu(LOGITS),
        tf.nn.leaky_relu([1, -2]),
        tf.nn.zero_fraction([0, 1, 0, 2]),
        tf.nn.xw_plus_b(LOGITS, LOGITS.T, [1.0, 2, 3, 4]),
        tf.nn.relu_layer(LOGITS, LOGITS.T, [1.0, 2, 3, 4]),
        tf.nn.swish(LOGITS),
        tf.nn.in_top_k(LOGITS, [0, 1, 2, 3], 2),
    )
    close(found[0], np.maximum(np.concatenate([LOGITS, -LOGITS], 1), 0))
    close(found[1], [1, -0.4])
    close(found[2], 0.5)
    close(found[3], LOGITS @ LOGITS.T + [1, 2, 3, 4])
    close(found[4], np.maximum(found[3], 0))
    close(found[5], LOGITS / (1 + np.exp(-LOGITS)))
    np.testing.assert_array_equal(found[6], [(row > row[i]).sum() < 2 for i, row in enumerate(LOGITS)])


def test_top_k_of_rows():
    values, indices = tf.nn.top_k(LOGITS, k=2)
    found = run(values, indices)
    order = np.argsort(-LOGITS, 1)[:, :2]
    np.testing.assert_array_equal(found[1], order)
    np.testing.assert_array_equal(found[0], np.take_along_axis(LOGITS, order, 1))
    with pytest.raises(ValueError, match="input must have last dimension >= k = 6 but is 5"):
        tf.nn.top_k(LOGITS, 6)
    fed = tf.placeholder(tf.int32, [])
    with pytest.raises(tf.errors.OpError, match=r"k = 6 for rows of 5 entries|Had 5, needed 6"):
        run(tf.nn.top_k(LOGITS, fed)[0], feed={fed: 6})
    np.testing.assert_array_equal(run(tf.nn.top_k(LOGITS, fed)[1], feed={fed: 2}), order)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: tf.nn.conv2d(IMAGES, FILTER[:, :, :2], 1, "SAME"),
            r"Depth of input \(3\) is not a multiple of .* filter \(2\)",
        ),
        (
            lambda: tf.nn.conv2d(IMAGES, np.ones((7, 7, 3, 1), "f"), 1, "VALID"),
            "Negative dimension size caused by subtracting 7 from 6",
        ),
        (lambda: tf.nn.conv2d(IMAGES, FILTER, [2, 1, 1, 1], "SAME"), "1 for batch and channels"),
        (lambda: tf.nn.conv2d(IMAGES, FILTER, 1, "FULL"), "padding='FULL'"),
        (
            lambda: tf.nn.conv2d(IMAGES, FILTER, 1, "EXPLICIT"),
            '"EXPLICIT" is not a valid value for the padding parameter',
        ),
        (lambda: tf.nn.conv2d(IMAGES[0], FILTER, 1, "SAME"), "rank 4"),
        (lambda: tf.nn.conv2d(IMAGES, FILTER, 1, "SAME", data_format="CHWN"), "data_format must be 'NHWC' or 'NCHW'"),
        (lambda: tf.nn.conv2d(IMAGES, FILTER, 1, "SAME", filters=FILTER), "Cannot specify both 'filter' and 'filters'"),
        (lambda: tf.nn.max_pool(IMAGES, [2, 2, 2, 2], 1, "SAME"), "exactly one of pooling across depth"),
        (lambda: tf.nn.max_pool(IMAGES, [1, 1, 1, 2], 1, "SAME"), "depth window to equal the depth stride"),
        (
            lambda: tf.nn.max_pool(IMAGES, [1, 1, 1, 99], [1, 1, 1, 99], "SAME"),
            "depth window to evenly divide the input depth",
        ),
        (
            lambda: tf.nn.max_pool(IMAGES, [1, 2, 1, 1], [1, 2, 1, 1], "SAME", data_format="NCHW"),
            "for data_format='NHWC' only",
        ),
        (lambda: tf.nn.max_pool(IMAGES, 7, 1, "VALID"), "Negative dimension size caused by subtracting 7 from"),
        (
            lambda: tf.nn.conv2d(IMAGES, np.ones((7, 3, 3, 1), "f"), [1, 2, 2, 1], "VALID"),
            r"subtracting 7 from 6 for 'Conv2D.*' \(op: 'Conv2D'\)",
        ),
        (lambda: tf.nn.avg_pool(IMAGES, 6, 1, "VALID"), "Negative dimension size caused by subtracting 6 from 5"),
        (
            lambda: tf.nn.depthwise_conv2d(IMAGES, np.ones((6, 6, 3, 1), "f"), [1, 1, 1, 1], "VALID"),
            "Negative dimension size caused by subtracting 6 from 5",
        ),
        (lambda: tf.nn.bias_add(IMAGES, [1.0, 2.0]), "one bias per channel"),
        (lambda: tf.nn.bias_add(IMAGES, [1.0, 2, 3], data_format="HWC"), "data_format must be of the form"),
        (lambda: tf.nn.depthwise_conv2d(IMAGES, FILTER[:, :, :2], [1, 1, 1, 1], "SAME"), "an input of 3 channels"),
        (lambda: tf.nn.fused_batch_norm(IMAGES, [1.0, 2.0], [1.0, 2.0]), "one per channel"),
        (lambda: tf.nn.lrn(IMAGES[0]), "rank 4"),
    ],
)
def test_what_does_not_fit_is_refused_when_built(make, text):
    with pytest.raises((ValueError, NotImplementedError), match=text) as caught:
        make()
    assert "Expected: " in str(caught.value)
    assert "Instead: " in str(caught.value)


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_a_step_takes_a_window_one_larger_than_what_is_fed_for_one_without_positions(tier):
    """As TensorFlow 1.15.5 does: only a graph refuses what does not fit by less than a stride."""
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [None, None, None, 3])
        weights = tf.ones([3, 3, 3, 1])
        y = tf.nn.conv2d(x, weights, [1, 1, 1, 1], "VALID")
        fetches = [y, tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "VALID"), tf.gradients(y, weights)[0]]
        convolved, pooled, gradient = session.run(fetches, {x: np.ones((1, 2, 2, 3))})
        assert convolved.shape == (1, 0, 0, 1)
        assert pooled.shape == (1, 0, 0, 3)
        np.testing.assert_array_equal(gradient, np.zeros((3, 3, 3, 1)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.nn.conv2d_transpose(tf.zeros([3, 5, 7, 2]), tf.ones([5, 5, 9, 2]), [3, 10, 10, 9], [1, 2, 2, 1]),
        lambda: tf.nn.conv2d_transpose(tf.zeros([3, 1, 1, 2]), tf.ones([5, 5, 9, 2]), [3, 10, 10, 9], [1, 2, 2, 1]),
        lambda: tf.nn.conv2d_backprop_filter(IMAGES, [3, 3, 3, 4], IMAGES, 1, "SAME"),
        lambda: tf.nn.conv3d_transpose(
            tf.zeros([3, 5, 7, 5, 2]), tf.ones([5, 5, 5, 9, 2]), [3, 9, 9, 9, 9], [1, 2, 2, 2, 1]
        ),
        lambda: tf.nn.depthwise_conv2d_native_backprop_input(
            [3, 9, 9, 2], tf.ones([3, 3, 2, 1]), tf.zeros([3, 3, 7, 2]), [1, 1, 1, 1], "SAME"
        ),
        lambda: tf.nn.depthwise_conv2d_native_backprop_filter(
            tf.zeros([3, 9, 9, 2]), [3, 3, 2, 1], tf.zeros([3, 3, 7, 2]), [1, 1, 1, 1], "SAME"
        ),
    ],
)
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_an_output_gradient_that_does_not_fit_is_refused_when_it_runs(make, tier):
    output = make()
    untaken = tf.cond(tf.placeholder_with_default(False, []), make, lambda: tf.zeros_like(output))
    with tf.Session(config=tf.SessionOptions(tier=tier)) as sess:
        assert not sess.run(untaken).any()
        with pytest.raises(tf.errors.InvalidArgumentError, match="out_backprop doesn't match computed"):
            sess.run(output)
    with mode.eager_mode(), pytest.raises(tf.errors.InvalidArgumentError, match="out_backprop doesn't match computed"):
        make()


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("depth", [1, 2])
def test_volumes_are_convolved_in_groups(tier, depth):
    random = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.constant(random.standard_normal((2, 4, 4, 5, 4)))
        kernel = tf.constant(random.standard_normal((2, 2, 3, depth, 8)))
        whole = tf.nn.conv3d(x, kernel, [1, 1, 2, 1, 1], "SAME")
        pairs = zip(tf.split(x, 4 // depth, -1), tf.split(kernel, 4 // depth, -1), strict=True)
        groups = tf.concat([tf.nn.conv3d(a, b, [1, 1, 2, 1, 1], "SAME") for a, b in pairs], -1)
        weights = random.standard_normal(whole.shape.as_list())
        results = [[y, *tf.gradients(y * weights, [x, kernel])] for y in (whole, groups)]
        for given, expected in zip(*session.run(results), strict=True):
            np.testing.assert_allclose(given, expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"Depth of input \(4\) is not a multiple of input depth of filter \(3\)"):
        tf.nn.conv3d(np.zeros((1, 2, 2, 2, 4)), np.zeros((1, 1, 1, 3, 8)), [1] * 5, "SAME")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("tier", TIERS)
def test_exponential_units_at_the_edges(tier, dtype):
    x = np.array([0.0, np.inf, -np.inf, np.nan, -1e-4, -60.0, 3.5, -2.0], dtype)
    wide = x.astype(np.float64)
    tolerance = 2e-3 if dtype is np.float16 else 1e-6
    bent = np.expm1(np.minimum(wide, 0))
    close(run_op("Elu", x, tier=tier), np.where(wide < 0, bent, wide), tolerance)
    scaled = np.where(wide < 0, 1.7580993408473766 * bent, 1.0507009873554805 * wide)
    close(run_op("Selu", x, tier=tier), scaled, tolerance)
    outputs, slopes = np.array([-1.0, -0.25, 0.0, 2.0, np.inf, np.nan], dtype), np.array([3, 4, 5, 6, 7, 8], dtype)
    close(run_op("EluGrad", slopes, outputs, tier=tier), np.array([0.0, 3, 5, 6, 7, 8]), tolerance)
