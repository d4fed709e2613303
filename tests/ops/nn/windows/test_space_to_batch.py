"""`tf.nn.with_space_to_batch`: an operation with gaps is what TensorFlow's convolution with a dilation gives."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

X = np.random.default_rng(3).normal(size=(2, 7, 6, 1)).astype(np.float32)
FILTER = np.random.default_rng(4).normal(size=(3, 2, 1, 1)).astype(np.float32)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def convolve(part, count, padding):
    assert count == 2
    return tf.nn.conv2d(part, FILTER, [1, 1, 1, 1], padding)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rate", [[1, 1], [2, 2], [2, 3], [1, 2]])
def test_a_convolution_with_gaps(rate, padding, known) -> None:
    x = tf.constant(X) if known else tf.placeholder_with_default(X, [None, None, None, 1])
    found = tf.nn.with_space_to_batch(x, rate, padding, convolve, [3, 2])
    wanted = tf.nn.convolution(X, FILTER, padding, dilation_rate=rate)
    if known:
        assert found.shape == wanted.shape
    with tf.Session() as session:
        np.testing.assert_allclose(*session.run([found, wanted]), rtol=1e-5, atol=1e-6)


def test_dimensions_in_the_middle() -> None:
    def halves(part, count, padding):
        assert (count, padding) == (1, "VALID")
        return part[:, :, :-1]

    found = tf.nn.with_space_to_batch(tf.constant(X), [2], "VALID", halves, spatial_dims=[2])
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(found), X[:, :, :4])
    turned = tf.transpose(tf.constant(X), [0, 3, 1, 2])
    same = tf.nn.with_space_to_batch(turned, [2, 2], "VALID", lambda part, n, padding: part, data_format="NCHW")
    assert same.shape.as_list() == [2, 1, 7, 6]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(dilation_rate=[2, 2], padding="SAME"), "filter_shape must be specified for SAME padding"),
        (dict(dilation_rate=[2, 2], padding="X"), "Invalid padding method 'X'"),
        (dict(dilation_rate=[2], padding="VALID", spatial_dims=[4]), "input tensor must have rank 5 at least"),
        (dict(dilation_rate=[2, 2], padding="VALID", spatial_dims=[2, 1]), "montonically increasing sequence"),
        (dict(dilation_rate=[0, 2], padding="VALID"), "dilation_rate must be positive"),
        (dict(dilation_rate=2, padding="VALID"), "rate must be rank 1"),
    ],
)
def test_wrong_arguments(arguments, words) -> None:
    with pytest.raises(ValueError, match=words):
        tf.nn.with_space_to_batch(tf.constant(X), op=convolve, **arguments)
