"""Hue, saturation and value of images, changed in the colour space YIQ: one product with a matrix for each pixel."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors

_TO_YIQ = [[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]]
_FROM_YIQ = [[1.0, 0.95617069, 0.62143257], [1.0, -0.2726886, -0.64681324], [1.0, -1.103744, 1.70062309]]


def adjust_hsv_in_yiq(
    image: Any, delta_hue: Any = 0, scale_saturation: Any = 1, scale_value: Any = 1, name: str | None = None
) -> Any:
    """An image with another hue, saturation and value.

    Args:
        image: RGB, ``[..., 3]``; floating point, or integers of which the largest is full colour.
        delta_hue: radians by which hues turn.
        scale_saturation: factor of the saturation.
        scale_value: factor of the value.
        name: of the operations.
    """
    with tf.name_scope(name, "adjust_hsv_in_yiq", [image]):
        image = tf.convert_to_tensor(image, name="image")
        channels = image.get_shape()[-1:].as_list() if image.get_shape().ndims else [None]
        if channels != [None] and channels != [3]:
            raise ValueError(
                errors.message(f"an image of shape {image.get_shape()}", "three channels, the last dimension", "RGB")
            )
        rgb = tf.image.convert_image_dtype(image, tf.float32)
        turn, value = tf.cast(delta_hue, tf.float32), tf.cast(scale_value, tf.float32)
        colour = value * tf.cast(scale_saturation, tf.float32)
        zero, along, across = tf.zeros([]), colour * tf.cos(turn), colour * tf.sin(turn)
        change = tf.stack(
            [tf.stack([value, zero, zero]), tf.stack([zero, along, -across]), tf.stack([zero, across, along])]
        )
        matrix = tf.matmul(tf.matmul(tf.constant(_FROM_YIQ), change), tf.constant(_TO_YIQ))
        changed = tf.reshape(tf.matmul(tf.reshape(rgb, [-1, 3]), matrix, transpose_b=True), tf.shape(rgb))
        changed.set_shape(rgb.get_shape())
        return tf.image.convert_image_dtype(changed, image.dtype)


def random_hsv_in_yiq(
    image: Any,
    max_delta_hue: float = 0,
    lower_saturation: float = 1,
    upper_saturation: float = 1,
    lower_value: float = 1,
    upper_value: float = 1,
    seed: int | None = None,
) -> Any:
    """:func:`adjust_hsv_in_yiq` by amounts that are drawn.

    Args:
        image: RGB, ``[..., 3]``.
        max_delta_hue: the most radians by which hues turn, either way.
        lower_saturation: the least factor of the saturation.
        upper_saturation: the largest.
        lower_value: the least factor of the value.
        upper_value: the largest.
        seed: of the random ops.

    Raises:
        ValueError: a bound is negative, or above its upper one.
    """
    for name, least, most in (
        ("delta_hue", 0, max_delta_hue),
        ("saturation", lower_saturation, upper_saturation),
        ("value", lower_value, upper_value),
    ):
        if least < 0 or least > most:
            given = f"{name} from {least} to {most}"
            raise ValueError(errors.message(given, "bounds that are not negative, the lower one first", "0.5 and 1.5"))

    def drawn(least: float, most: float) -> Any:
        return least if least == most else tf.random_uniform([], least, most, seed=seed)

    return adjust_hsv_in_yiq(
        image,
        drawn(-max_delta_hue, max_delta_hue),
        drawn(lower_saturation, upper_saturation),
        drawn(lower_value, upper_value),
    )
