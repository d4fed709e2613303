"""``tf.contrib.resampler``: pixels of images at places between them, as spatial transformers take them (Jaderberg et
al., 2015).
"""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public


@public("contrib.resampler.resampler")
def resampler(data: Any, warp: Any, name: str = "resampler") -> Any:
    """Bilinear samples of images; beyond their edges there are zeros.

    Args:
        data: images ``[batch, height, width, channels]``.
        warp: places ``[batch, ..., 2]``, each the column and the row, in pixels from the top left one.
        name: of the operations.

    Returns:
        ``[batch, ..., channels]``; differentiable with respect to both.

    Raises:
        UnimplementedError: images that are not planes, or places that are not pairs.
        InvalidArgumentError: places without an axis of batches, or of another number of batches.

    >>> with tf.Session() as session:
    ...     print(session.run(tf.contrib.resampler.resampler([[[[0.0], [4.0]]]], [[[0.25, 0.0], [1.5, 0.0]]])).ravel())
    [1. 2.]
    """
    with tf.name_scope(name):
        data = tf.convert_to_tensor(data, name="data")
        warp = tf.convert_to_tensor(warp, name="warp")
        _check_shapes(data, warp)
        sizes = tf.shape(data)
        heights, widths = sizes[1], sizes[2]
        columns, rows = warp[..., 0], warp[..., 1]
        left, top = tf.floor(columns), tf.floor(rows)
        batch_shape = tf.concat([sizes[:1], tf.ones([tf.rank(columns) - 1], tf.int32)], 0)
        batch = tf.reshape(tf.range(sizes[0]), batch_shape) + tf.zeros_like(columns, tf.int32)
        total: Any = 0.0
        for down in (0, 1):
            for right in (0, 1):
                row, column = tf.cast(top, tf.int32) + down, tf.cast(left, tf.int32) + right
                inside = (row >= 0) & (row < heights) & (column >= 0) & (column < widths)
                places = [batch, tf.clip_by_value(row, 0, heights - 1), tf.clip_by_value(column, 0, widths - 1)]
                pixels = tf.gather_nd(data, tf.stack(places, -1))
                near_row = 1.0 - (rows - top) if down == 0 else rows - top
                near_column = 1.0 - (columns - left) if right == 0 else columns - left
                weights = tf.where(inside, near_row * near_column, tf.zeros_like(rows))
                total += tf.cast(weights, data.dtype)[..., None] * pixels
        return total


def _check_shapes(data: Any, warp: Any) -> None:
    """Refuse shapes that are known to be wrong, with TensorFlow's words."""
    for wrong, kind, text, expected in (
        (
            data.shape.ndims not in (None, 4),
            tf.errors.UnimplementedError,
            "Only bilinear interpolation is currently supported.",
            "images [batch, height, width, channels]",
        ),
        (
            warp.shape.ndims is not None and warp.shape.ndims < 2,
            tf.errors.InvalidArgumentError,
            "warp should be at least a matrix",
            "places [batch, ..., 2]",
        ),
        (
            bool(warp.shape.ndims) and warp.shape[-1].value not in (None, 2),
            tf.errors.UnimplementedError,
            "Only bilinear interpolation is supported, warping coordinates must be 2D",
            "pairs of a column and a row along the last axis",
        ),
        (
            bool(data.shape.ndims) and bool(warp.shape.ndims) and not data.shape[0].is_compatible_with(warp.shape[0]),
            tf.errors.InvalidArgumentError,
            "Batch size of data and warp tensor must be the same",
            "as many batches of places as of images",
        ),
    ):
        if wrong:
            given = f"images of shape {data.shape} and places of shape {warp.shape}"
            advice = "tf.contrib.resampler.resampler(tf.zeros([8, 32, 32, 3]), tf.zeros([8, 10, 2]))"
            raise kind(None, None, f"{text}\n" + errors.message(given, expected, advice))


__getattr__, __dir__ = api.module_attributes("contrib.resampler")
