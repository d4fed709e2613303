"""Crops of many boxes beside float64 NumPy, and what lies outside of images."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from tests.ops.image import rows_crop

TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])


def crops_and_gradients(image, boxes, index, size, weights, tier) -> list[np.ndarray]:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        pictures, corners = tf.placeholder(tf.float32, image.shape), tf.placeholder(tf.float32, boxes.shape)
        crops = tf.image.crop_and_resize(pictures, corners, index, size)
        gradients = tf.gradients(crops, [pictures, corners], tf.constant(weights))
        return session.run([crops, *gradients], {pictures: image, corners: boxes})


@TIERS
@pytest.mark.parametrize(("channels", "size"), [(1, (3, 2)), (48, (14, 13))], ids=str)
def test_boxes_of_several_blocks(tier: str, channels: int, size: tuple[int, int]) -> None:
    random = np.random.RandomState(0)
    image = random.randn(2, 7, 6, channels).astype(np.float32)
    low = random.rand(9, 2) * 1.2 - 0.2
    boxes = np.hstack([low, low + random.randn(9, 2) * 0.3]).astype(np.float32)
    index = random.randint(0, 2, 9)
    weights = random.randn(9, *size, channels).astype(np.float32)
    crops, by_image, by_boxes = crops_and_gradients(image, boxes, index, size, weights, tier)
    exact = image.astype(np.float64), boxes.astype(np.float64), weights.astype(np.float64)
    np.testing.assert_allclose(crops, rows_crop.crop(exact[0], exact[1], index, size), rtol=1e-4, atol=1e-4)
    wanted = rows_crop.by_image(exact[2], exact[1], index, image.shape)
    np.testing.assert_allclose(by_image, wanted, rtol=1e-3, atol=1e-3)
    wanted = rows_crop.by_boxes(exact[2], exact[0], exact[1], index)
    np.testing.assert_allclose(by_boxes, wanted, rtol=1e-3, atol=2e-2)


@TIERS
def test_what_lies_outside_reads_no_pixel(tier: str) -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    image[0, 0, 0, 0] = np.inf
    boxes = np.array([[0.5, 0.5, 1.5, 1.5]], np.float32)
    weights = np.ones((1, 3, 3, 1), np.float32)
    weights[0, 2, 2, 0] = np.nan
    crops, by_image, by_boxes = crops_and_gradients(image, boxes, [0], (3, 3), weights, tier)
    assert np.isfinite(crops).all()
    np.testing.assert_allclose(np.sum(by_image), 4)
    assert np.isfinite(by_boxes).all()


@TIERS
def test_infinite_pixels_and_gradients(tier: str) -> None:
    image = np.zeros((1, 3, 3, 1), np.float32)
    image[0, 1, 1, 0] = np.inf
    boxes = np.array([[0, 0, 1, 1]], np.float32)
    weights = np.ones((1, 3, 3, 1), np.float32)
    weights[0, 2, 0, 0] = np.inf
    crops, by_image, _ = crops_and_gradients(image, boxes, [0], (3, 3), weights, tier)
    assert np.isnan(crops[0, 1, 1, 0])  # a pixel plus the part 0 of infinity minus infinity, as in TensorFlow
    assert np.isfinite(np.delete(crops.reshape(-1), 4)).all()
    assert np.isnan(by_image[0, 2, 0, 0])  # infinity to the pixel and 0 times infinity, from corners that are one pixel
