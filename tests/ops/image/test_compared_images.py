"""Similarity, colours and edges of images whose batches broadcast, or of which little is known before the step."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

R = np.random.RandomState(0)
A = R.rand(2, 1, 16, 16, 3).astype(np.float32)
B = R.rand(1, 3, 16, 16, 3).astype(np.float32)
GREY = R.rand(5, 5, 1).astype(np.float32)
COLOURS = R.rand(5, 5, 3).astype(np.float32)

# of TensorFlow 1.15.5, for A and B
SSIM = [[-0.00066, 0.04448, 0.01737], [-0.05498, -0.02417, 0.07001]]
MULTISCALE = [[0.0, 0.05667, 0.02228], [0.00794, 0.02217, 0.05354]]
PSNR = [[7.77429, 7.78556, 7.55688], [7.40834, 7.51686, 7.66794]]


def multiscale(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.image.ssim_multiscale(a, b, 1.0, power_factors=[0.5, 0.5], filter_size=5)


COMPARISONS = [
    (lambda a, b: tf.image.ssim(a, b, 1.0), SSIM),
    (multiscale, MULTISCALE),
    (lambda a, b: tf.image.psnr(a, b, 1.0), PSNR),
]


@pytest.mark.parametrize(("function", "expected"), COMPARISONS)
@pytest.mark.parametrize("known", ["all", "rank", "nothing"])
def test_batches_broadcast(function, expected, known) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        shape = {"rank": [None] * 5, "nothing": None}
        a, b = (
            tf.constant(one) if known == "all" else tf.placeholder_with_default(one, shape[known]) for one in (A, B)
        )
        np.testing.assert_allclose(session.run(function(a, b)), expected, atol=2e-5)
        # one image with a batch
        one, several = (tf.constant(A[0, 0]), tf.constant(B[0]))
        np.testing.assert_allclose(session.run(function(one, several)), expected[0], atol=2e-5)


@pytest.mark.parametrize("function", [function for function, _ in COMPARISONS])
def test_images_that_cannot_be_compared(function) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        hidden = tf.placeholder_with_default(B[..., :1], None)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[2 1 16 16 3\] \[1 3 16 16 1\]"):
            session.run(function(tf.placeholder_with_default(A, None), hidden))
        with pytest.raises(ValueError, match=r"Shapes \(16, 16, 3\) and \(16, 16, 1\) are incompatible"):
            function(tf.constant(A), tf.constant(B[..., :1]))
        with pytest.raises(ValueError, match=r"Two images are not compatible: \(2, 2, 16, 16, 3\) and"):
            function(tf.constant(np.tile(A, (1, 2, 1, 1, 1))), tf.constant(B))
        with pytest.raises(ValueError, match=r"Shape \(16, 3\) must have rank at least 3"):
            function(tf.constant(A[0, 0, 0]), tf.constant(B))


@pytest.mark.parametrize("shape", [None, [None, None, None], [5, 5, None]])
def test_channels_that_the_step_tells(shape) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        grey, colours = (tf.placeholder_with_default(one, shape) for one in (GREY, COLOURS))
        rgb, hsv, one = (
            tf.image.grayscale_to_rgb(grey),
            tf.image.rgb_to_hsv(colours),
            tf.image.rgb_to_grayscale(colours),
        )
        if shape is not None:
            assert rgb.shape.as_list() == hsv.shape.as_list() == [*shape[:2], 3]
            assert one.shape.as_list() == [*shape[:2], 1]
            assert tf.image.hsv_to_rgb(colours).shape.as_list() == [*shape[:2], 3]
        np.testing.assert_array_equal(session.run(rgb), np.tile(GREY, 3))
        np.testing.assert_allclose(session.run(one)[..., 0], COLOURS @ np.float32([0.2989, 0.587, 0.114]), rtol=1e-5)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="Last dimension of a grayscale image should be size 1"
        ):
            session.run(tf.image.grayscale_to_rgb(colours))
        with pytest.raises(tf.errors.InvalidArgumentError, match="RGB images have 3 channels"):
            session.run(tf.image.rgb_to_grayscale(grey))


def test_channels_that_are_known_to_be_wrong() -> None:
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="RGB images have 3 channels"):
            tf.image.rgb_to_grayscale(GREY)
        with pytest.raises(ValueError, match="Last dimension of a grayscale image should be size 1"):
            tf.image.grayscale_to_rgb(COLOURS)
        with pytest.raises(ValueError, match="A grayscale image must be at least two-dimensional"):
            tf.image.grayscale_to_rgb(GREY[0, 0])


@pytest.mark.parametrize("shape", [None, [None] * 4, [1, 5, 5, None], [1, 5, 5, 3]])
def test_edges_of_channels_that_the_step_tells(shape) -> None:
    padded = np.pad(COLOURS, [[1, 1], [1, 1], [0, 0]], mode="reflect")
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    expected = np.zeros((1, 5, 5, 3, 2))
    for k, kernel in enumerate((down, down.T)):
        for i in range(3):
            for j in range(3):
                expected[0, ..., k] += kernel[i, j] * padded[i : i + 5, j : j + 5]
    with tf.Graph().as_default(), tf.Session() as session:
        edges = tf.image.sobel_edges(tf.placeholder_with_default(COLOURS[None], shape))
        assert edges.shape.as_list()[4:] == [2] if shape else edges.shape.ndims is None
        np.testing.assert_allclose(session.run(edges), expected, atol=1e-5)


def test_an_image_of_unknown_rank_amid_a_border() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        hidden, known = tf.placeholder_with_default(COLOURS, None), tf.constant(COLOURS)
        result = tf.image.resize_image_with_pad(hidden, 7, 4)
        assert result.shape.as_list() == [7, 4, None]
        np.testing.assert_allclose(*session.run([result, tf.image.resize_image_with_pad(known, 7, 4)]), atol=1e-6)
        with pytest.raises(ValueError, match="target_height must be > 0"):
            tf.image.resize_image_with_pad(known, 0, 4)


@pytest.mark.parametrize("shape", [[3, 5], [1, 3, 5, 1, 1]])
def test_parts_and_borders_need_an_image_or_a_batch(shape) -> None:
    with tf.Graph().as_default():
        for function in (tf.image.crop_to_bounding_box, tf.image.pad_to_bounding_box):
            with pytest.raises(ValueError, match="'image' must have either 3 or 4 dimensions"):
                function(np.zeros(shape), 0, 0, 2, 2)
