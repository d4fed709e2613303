"""Resizing: the gradient is the transpose of the resize."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

FLAGS = ({}, {"align_corners": True}, {"half_pixel_centers": True})


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("kind", ["ResizeBilinear", "ResizeNearestNeighbor"])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_the_gradient_is_the_transpose(kind, flags, tier) -> None:
    random = np.random.RandomState(0)
    image = random.randn(2, 5, 4, 3).astype(np.float32)
    weights = random.randn(2, 7, 3, 3).astype(np.float32)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [2, 5, 4, 3])
        y = build(kind, x, [7, 3], **flags)
        grad = tf.gradients(y, x, tf.constant(weights))[0]
        assert grad.shape.as_list() == [2, 5, 4, 3]
        forward, back = session.run([y, grad], {x: image})
    # <w, R x> = <R' w, x>
    np.testing.assert_allclose(np.sum(forward * weights), np.sum(back * image), rtol=1e-4)


@pytest.mark.parametrize("size", [(40, 37), (9, 7), (19, 200), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"])
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_compiled_sums_and_gradients_are_those_of_the_host(kind, size, flags) -> None:
    random = np.random.RandomState(0)
    image, weights = random.randn(4, 19, 17, 3).astype(np.float32), random.randn(4, *size, 3).astype(np.float32)
    weights[1, 0, 0, 0] = np.inf
    results = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            x = tf.placeholder(tf.float32, image.shape)
            y = build(kind, x, size, **flags)
            sums = tf.reduce_sum(y), tf.reduce_sum(tf.square(y - 1), [1, 2, 3])
            results.append(session.run([*sums, tf.gradients(y, x, tf.constant(weights))[0]], {x: image}))
    for host, compiled in zip(*results, strict=True):
        where = np.isfinite(host)
        np.testing.assert_allclose(compiled[where], host[where], rtol=1e-4, atol=1e-4)


def test_whole_numbers_have_no_gradient() -> None:
    with tf.Graph().as_default():
        image = tf.placeholder(tf.uint8, [1, 4, 4, 1])
        size = tf.placeholder(tf.int32, [2])
        resized = build("ResizeBilinear", image, size)
        assert (resized.dtype, resized.shape.as_list()) == (tf.float32, [1, None, None, 1])
        assert tf.gradients(resized, image) == [None]


def test_size_of_the_image_is_not_known() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [1, None, None, 1])
        grad = tf.gradients(build("ResizeNearestNeighbor", x, [4, 4]), x)[0]
        assert session.run(grad, {x: np.zeros([1, 2, 2, 1])}).ravel().tolist() == [4.0] * 4
