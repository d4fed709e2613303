"""`kernel_methods`, losses of samples in `contrib.nn`, cells of `contrib.crf`: values of TensorFlow 1.15.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(4, 3).astype("f")
CLASSES = np.array([0, 2, 1, 2])
WEIGHTS, BIASES = RANDOM.randn(7, 3).astype("f"), RANDOM.randn(7).astype("f")
TRANSITIONS, POTENTIALS = RANDOM.randn(3, 3).astype("f"), RANDOM.randn(2, 5, 3).astype("f")
STATE = RANDOM.randn(2, 3).astype("f")
LABELS = np.array([[0], [2], [6], [3]])
KERNELS, NN, CRF = tf.contrib.kernel_methods, tf.contrib.nn, tf.contrib.crf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def value(fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches)


def test_features_of_a_kernel() -> None:
    mapper = KERNELS.RandomFourierFeatureMapper(3, 5, 2.0, 7, name="mine")
    assert (mapper.name, mapper.input_dim, mapper.output_dim) == ("mine", 3, 5)
    found = value(mapper.map(tf.constant(X)))
    np.testing.assert_allclose(found[0], [0.46138, 0.59653, -0.53689, 0.62777, 0.46167], atol=2e-5)
    many = value(KERNELS.RandomFourierFeatureMapper(3, 20000, 2.0).map(tf.constant(X)))
    distances = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_allclose(many @ many.T, np.exp(-distances / 8), atol=0.03)  # the kernel that they stand for
    with pytest.raises(KERNELS.InvalidShapeError, match="expected 3 input features, got 2 instead"):
        mapper.map(tf.zeros([4, 2]))
    with pytest.raises(KERNELS.InvalidShapeError, match="The shape of the tensor should be 2"):
        mapper.map(tf.zeros([3]))


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, 1.63358),
        ({"weights": 0.5}, 0.81679),
        ({"weights": np.float32([1, 0, 2, 1])}, 1.47253),
        ({"weights": np.float32([[1], [0], [2], [1]])}, 1.47253),
        ({"reduction": tf.losses.Reduction.NONE}, [0.21469, 4.21817, 2.10145, 0.0]),
    ],
)
@pytest.mark.parametrize("shape", [[4], [4, 1]])
def test_hinge_loss_of_several_classes(more, wanted, shape) -> None:
    loss = KERNELS.sparse_multiclass_hinge_loss(tf.constant(CLASSES.reshape(shape)), tf.constant(X), **more)
    np.testing.assert_allclose(value(loss), wanted, atol=2e-5)
    assert tf.losses.get_losses() == [loss]


def test_wrong_arguments_of_the_hinge_loss() -> None:
    labels, logits = tf.constant(CLASSES), tf.constant(X)
    for words, arguments in (
        ("logits should have rank 2", (labels, logits[0])),
        ("Invalid dtype for labels", (tf.to_float(labels), logits)),
        ("labels should have rank 1", (tf.reshape(labels, [4, 1, 1]), logits)),
        ("non-scalar weights should have rank 1", (labels, logits, tf.ones([1, 1, 1]))),
    ):
        with pytest.raises(ValueError, match=words):
            KERNELS.sparse_multiclass_hinge_loss(*arguments)
    loss = KERNELS.sparse_multiclass_hinge_loss(tf.placeholder_with_default(CLASSES + 1, [4]), logits)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x < y did not hold"):
        value(loss)


def sampled() -> tuple[Any, Any, Any]:
    expected = np.random.RandomState(3).rand(4, 1), np.random.RandomState(4).rand(4)
    return tf.constant([1, 2, 5, 4], tf.int64), *(tf.constant(array, tf.float32) for array in expected)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize(("hits", "wanted"), [(True, 2.37931), (False, 2.4925)])
def test_loss_among_a_sample(strategy, hits, wanted) -> None:
    weights = tf.constant(WEIGHTS) if strategy == "mod" else [tf.constant(WEIGHTS[:4]), tf.constant(WEIGHTS[4:])]
    given = weights, tf.constant(BIASES), tf.constant(LABELS), tf.constant(X)
    loss = NN.sampled_sparse_softmax_loss(*given, 4, 7, sampled(), hits, strategy)
    np.testing.assert_allclose(value(loss), [4.61357, wanted, 2.9536, 1.84182], atol=2e-5)


@pytest.mark.parametrize(
    ("kept", "temperature", "wanted"),
    [(2, 0.5, [4.58694, 2.35747, 2.87049, 1.45103]), (3, 2.0, [4.61219, 2.37931, 2.87787, 1.83936])],
)
def test_loss_among_the_likeliest_of_a_sample(kept, temperature, wanted) -> None:
    given = tf.constant(WEIGHTS), tf.constant(BIASES), tf.constant(LABELS), tf.constant(X)
    loss = NN.rank_sampled_softmax_loss(*given, 4, kept, 7, 1, sampled(), temperature, True, "mod")
    np.testing.assert_allclose(value(loss), wanted, atol=2e-5)
    drawn = NN.rank_sampled_softmax_loss(*given, 4, kept, 7, 1, None, temperature, True, "mod")
    assert np.isfinite(value(drawn)).all()
    for words, arguments in (
        ("num_resampled .4. must be less than num_sampled .4.", (4, 4, 7, 1, sampled(), 0.5, True, "mod")),
        ("num_sampled .9. cannot be greater than num_classes .7.", (9, 4, 7, 1, sampled(), 0.5, True, "mod")),
        ("unsupported partition_strategy .x.", (4, 2, 7, 1, sampled(), 0.5, True, "x")),
    ):
        with pytest.raises(ValueError, match=words):
            NN.rank_sampled_softmax_loss(*given, *arguments)


def test_cells_of_random_fields() -> None:
    more = {"sequence_length": [5, 3], "initial_state": tf.constant(STATE)}
    params = tf.constant(TRANSITIONS)
    _, alphas = tf.nn.dynamic_rnn(CRF.CrfForwardRnnCell(params), POTENTIALS, dtype=tf.float32, **more)
    np.testing.assert_allclose(value(alphas), [[4.39978, 2.58437, 1.12686], [4.53303, 3.59762, 3.95751]], atol=2e-5)
    before, best = tf.nn.dynamic_rnn(CRF.CrfDecodeForwardRnnCell(params), POTENTIALS, dtype=tf.int32, **more)
    found, scores = value([before, best])
    np.testing.assert_allclose(scores, [[2.82499, 0.24389, -0.93059], [3.95806, 2.98648, 3.71065]], atol=2e-5)
    assert found.dtype == np.int32
    assert found[0].tolist() == [[1, 2, 2], [1, 2, 1], [1, 2, 0], [1, 2, 1], [1, 0, 1]]
    assert found[1].tolist() == [[1, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    tags = np.random.RandomState(1).randint(0, 3, (2, 5, 3)).astype("i")
    back = CRF.CrfDecodeBackwardRnnCell(3)
    more["initial_state"] = tf.constant([[1], [2]])
    way, _ = tf.nn.dynamic_rnn(back, tf.constant(tags), dtype=tf.int32, **more)
    assert value(way)[..., 0].tolist() == [[0, 1, 1, 0, 1], [2, 2, 2, 0, 0]]
    assert (back.state_size, back.output_size) == (1, 1)
