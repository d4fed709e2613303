"""Images of which little is known while the graph is built, and empty ones."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

X = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def test_turns_that_a_step_chooses() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        k = tf.placeholder(tf.int32, [])
        one, several = tf.image.rot90(X, k), tf.image.rot90(np.stack([X, X + 1]), k)
        assert one.shape.ndims == 3
        for turns in (-1, 0, 1, 2, 3, 5):
            assert np.array_equal(session.run(one, {k: turns}), np.rot90(X, turns))
            assert np.array_equal(session.run(several, {k: turns})[1], np.rot90(X + 1, turns))


@pytest.mark.parametrize(
    "function",
    [
        tf.image.flip_left_right,
        tf.image.flip_up_down,
        tf.image.random_flip_left_right,
        tf.image.transpose_image,
        tf.image.rot90,
        lambda image: tf.image.crop_to_bounding_box(image, 0, 0, 1, 1),
        lambda image: tf.image.pad_to_bounding_box(image, 0, 0, 9, 9),
        lambda image: tf.image.resize_image_with_crop_or_pad(image, 3, 3),
    ],
)
def test_what_is_of_unknown_rank_is_one_image(function) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.placeholder(tf.uint8)
        result = function(image)
        assert result.shape.ndims == 3
        assert session.run(result, {image: X}).ndim == 3
        with pytest.raises(ValueError, match=r"all dims of 'image.shape' must be > 0: \(2, 0, 3\)"):
            function(tf.placeholder(tf.uint8, [2, 0, 3]))


def test_empty_images_are_found_when_they_come() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.placeholder(tf.uint8, [None, None, None])
        for result in (
            tf.image.crop_to_bounding_box(image, 0, 0, 1, 1),
            tf.image.pad_to_bounding_box(image, 0, 0, 9, 9),
            tf.image.resize_image_with_crop_or_pad(image, 3, 3),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"all dims of \\+'image.shape\\+' must be > 0"):
                session.run(result, {image: np.zeros([0, 2, 1])})


def test_words_and_values() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        flat = tf.placeholder(tf.uint8, [None, None])
        with pytest.raises(ValueError, match="must be at least three-dimensional"):
            tf.image.flip_up_down(flat)
        with pytest.raises(ValueError, match="must be three-dimensional"):
            tf.image.random_flip_up_down(flat)
        with pytest.raises(ValueError, match="'size' must be a 1-D int32 Tensor"):
            tf.image.resize_images(X, [5.0, 4.0])
        size = tf.placeholder(tf.int32)
        assert session.run(tf.image.resize_images(X, size), {size: [1, 2]}).shape == (1, 2, 3)
        grey = tf.placeholder(tf.float32)
        assert session.run(tf.image.grayscale_to_rgb(grey), {grey: [[[1.0], [2.0]]]}).tolist() == [[[1] * 3, [2] * 3]]
        gamma = tf.placeholder(tf.float32, [])
        adjusted = tf.image.adjust_gamma(tf.constant([[0.25]]), gamma)
        assert session.run(adjusted, {gamma: 2.0}).tolist() == [[0.0625]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Gamma should be a non-negative real number"):
            session.run(adjusted, {gamma: -1.0})


@pytest.mark.parametrize("target", [(8, 8), (20, 10), (5, 40)])
def test_resizing_amid_zeros_of_an_image_whose_size_a_step_tells(target) -> None:
    image = np.random.default_rng(0).random((7, 13, 3), np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, [None, 13, 3])
        known, later = (tf.image.resize_image_with_pad(x, *target) for x in (image, fed))
        assert later.shape.as_list() == [*target, 3]
        np.testing.assert_array_equal(*session.run([known, later], {fed: image}))
