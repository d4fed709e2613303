"""Losses against NumPy float64: formulas, weights, reductions, collections."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

RNG = np.random.RandomState(0)
P = RNG.rand(4, 3) * 0.9 + 0.05
L = (RNG.rand(4, 3) > 0.5).astype(np.float64)
Z = RNG.randn(4, 3) * 2
W = np.array([[0.5, 0, 2], [1, 1, 0], [0, 0, 0], [3, 1, 1]])
R = tf.losses.Reduction


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def huber(labels, predictions, delta):
    error = np.abs(labels - predictions)
    return np.where(error <= delta, error**2 / 2, delta * error - delta**2 / 2)


LOSSES = {
    "absolute_difference": (L, P, {}, np.abs(P - L)),
    "mean_squared_error": (L, P, {}, (P - L) ** 2),
    "log_loss": (L, P, {"epsilon": 0.01}, -L * np.log(P + 0.01) - (1 - L) * np.log(1 - P + 0.01)),
    "huber_loss": (3 * L, P, {"delta": 0.7}, huber(3 * L, P, 0.7)),
    "hinge_loss": (L, Z, {}, np.maximum(0, 1 - (2 * L - 1) * Z)),
    "sigmoid_cross_entropy": (
        L,
        Z,
        {"label_smoothing": 0.2},
        -(0.8 * L + 0.1) * np.log(sigmoid(Z)) - (0.9 - 0.8 * L) * np.log(1 - sigmoid(Z)),
    ),
}


@pytest.mark.parametrize("reduction", R.all())
@pytest.mark.parametrize("name", LOSSES)
def test_formulas_weights_and_reductions(name, reduction):
    labels, predictions, more, each = LOSSES[name]
    function = getattr(tf.losses, name)
    for weights in (1.0, 2.5, 0.0, W, W[:, :1], W[:1]):
        with tf.Graph().as_default():
            loss = function(labels, tf.constant(predictions), weights=weights, reduction=reduction, **more)
            assert tf.losses.get_losses() == [loss]
            with tf.Session() as session:
                value = session.run(loss)
        spread = np.broadcast_to(weights, each.shape)
        total = (each * spread).sum()
        divisor = {
            R.SUM: 1.0,
            R.MEAN: spread.sum(),
            R.SUM_OVER_BATCH_SIZE: each.size,
            R.SUM_BY_NONZERO_WEIGHTS: (spread != 0).sum(),
        }.get(reduction)
        expected = each * spread if divisor is None else (total / divisor if divisor else 0.0)
        np.testing.assert_allclose(value, expected, rtol=2e-6)


@pytest.mark.parametrize("smoothing", [0, 0.3])
@pytest.mark.parametrize("weights", [1.0, np.array([1.0, 0, 2, 1]), np.array([[1.0], [0], [2], [1]])])
def test_softmax_cross_entropy(weights, smoothing):
    onehot = np.eye(3)[[0, 2, 1, 1]]
    smooth = onehot * (1 - smoothing) + smoothing / 3
    each = -(smooth * log_softmax(Z)).sum(-1)
    spread = np.broadcast_to(np.ravel(weights), 4)
    with tf.Graph().as_default():
        z = tf.constant(Z)
        loss = tf.losses.softmax_cross_entropy(onehot, z, weights, smoothing)
        gradient = tf.gradients(loss, z)[0]
        value, slope = tf.Session().run([loss, gradient])
    count = (spread != 0).sum()
    np.testing.assert_allclose(value, (each * spread).sum() / count, rtol=2e-6)
    expected = (np.exp(log_softmax(Z)) - smooth) * spread[:, None] / count
    np.testing.assert_allclose(slope, expected, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_sparse_softmax_cross_entropy(column, known):
    labels = np.array([0, 2, 1, 1])
    weights = np.array([1.0, 0, 2, 1])
    each = -log_softmax(Z)[range(4), labels]
    with tf.Graph().as_default():
        shape = None if not known else [4, 1] if column else [4]
        fed = tf.placeholder(tf.int32, shape)
        loss = tf.losses.sparse_softmax_cross_entropy(fed, tf.constant(Z), weights[:, None] if column else weights)
        value = tf.Session().run(loss, {fed: labels[:, None] if column else labels})
    np.testing.assert_allclose(value, (each * weights).sum() / 3, rtol=2e-6)


def test_cosine_distance():
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (P, Z))
    value = tf.Session().run(tf.losses.cosine_distance(a, tf.constant(b), axis=1, weights=W[:, :1]))
    each = 1 - (a * b).sum(1)
    np.testing.assert_allclose(value, (each * W[:, 0]).sum() / 3, rtol=1e-7)


@pytest.mark.parametrize("weights", [1.0, np.array([[1.0], [0], [2], [0.5]])])
def test_mean_pairwise_squared_error(weights):
    error = P - L
    each = np.array([np.mean([(e[i] - e[j]) ** 2 for i in range(3) for j in range(3) if i != j]) for e in error])
    value = tf.Session().run(tf.losses.mean_pairwise_squared_error(L, tf.constant(P), weights))
    np.testing.assert_allclose(value, (each * np.broadcast_to(np.ravel(weights), 4)).sum(), rtol=2e-6)


def test_mean_pairwise_squared_error_of_unknown_rank():
    labels, predictions, weights = (tf.placeholder(tf.float32) for _ in range(3))
    loss = tf.losses.mean_pairwise_squared_error(labels, predictions, weights)
    fed = {labels: L, predictions: P, weights: W[:, :1]}
    expected = tf.losses.mean_pairwise_squared_error(L, tf.constant(P), W[:, :1])
    with tf.Session() as session:
        np.testing.assert_allclose(*session.run([loss, expected], fed), rtol=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights can not be broadcast to values"):
            session.run(loss, {**fed, weights: W[:, 0]})


def test_collections():
    with tf.Graph().as_default():
        with tf.name_scope("a"):
            first = tf.losses.mean_squared_error([1.0], [3.0])
        second = tf.losses.absolute_difference([1.0], [4.0])
        tf.losses.hinge_loss([1.0], [4.0], loss_collection="others")
        tf.losses.mean_squared_error([1.0], [3.0], loss_collection=None)
        tf.losses.add_loss(tf.constant(10.0))
        assert (first.op.name, second.op.name) == ("a/mean_squared_error/value", "absolute_difference/value")
        assert tf.losses.get_losses() == [first, second, tf.get_collection("losses")[2]]
        assert tf.losses.get_losses("a/") == [first]
        assert len(tf.get_collection("others")) == 1
        none = tf.losses.get_regularization_loss()
        tf.get_variable("w", [2], regularizer=tf.reduce_sum, initializer=tf.ones_initializer())
        assert len(tf.losses.get_regularization_losses()) == 1
        totals = [tf.losses.get_total_loss(), tf.losses.get_total_loss(False), tf.losses.get_regularization_loss()]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run([none, *totals]) == [0, 19, 17, 2]


def test_weights_are_checked_when_they_run():
    with tf.Graph().as_default():
        weights = tf.placeholder(tf.float32)
        loss = tf.losses.mean_squared_error(L, tf.constant(P), weights)
        with tf.Session() as session:
            np.testing.assert_allclose(session.run(loss, {weights: 2.0}), 2 * ((P - L) ** 2).mean(), rtol=1e-6)
            np.testing.assert_allclose(
                session.run(loss, {weights: W[:, :1]}), ((P - L) ** 2 * W[:, :1]).sum() / 9, 1e-6
            )
            with pytest.raises(tf.errors.InvalidArgumentError, match="weights can not be broadcast"):
                session.run(loss, {weights: np.ones(3)})


def test_half_precision_is_summed_in_single():
    value = tf.Session().run(tf.losses.mean_squared_error(np.zeros(5000, np.float16), tf.ones([5000], tf.float16)))
    assert value.dtype == np.float32
    assert value == 1


def test_losses_of_any_dtype_are_in_single_precision():
    with tf.Graph().as_default():
        for dtype in (tf.float64, tf.float16, tf.int32):
            one, two = tf.constant([1, 2], dtype), tf.constant([1, 3], dtype)
            for name in ["absolute_difference", "hinge_loss", "huber_loss", "log_loss", "mean_squared_error"]:
                assert getattr(tf.losses, name)(one, two).dtype is tf.float32
        logits = tf.constant([[1.0, 2.0]], tf.float64)
        assert tf.losses.sigmoid_cross_entropy([[1, 0]], logits).dtype is tf.float64
        assert tf.losses.softmax_cross_entropy([[1, 0]], logits).dtype is tf.float64


def test_bad_arguments():
    with pytest.raises(ValueError, match="labels must not be None"):
        tf.losses.mean_squared_error(None, P)
    with pytest.raises(ValueError, match="are incompatible"):
        tf.losses.mean_squared_error(np.ones([4]), P)
    with pytest.raises(ValueError, match="weights can not be broadcast"):
        tf.losses.mean_squared_error(L, P, np.ones([3]))
    with pytest.raises(ValueError, match="Invalid ReductionKey average"):
        tf.losses.compute_weighted_loss(P, reduction="average")
    with pytest.raises(ValueError, match="You must specify 'axis'"):
        tf.losses.cosine_distance(L, P)
