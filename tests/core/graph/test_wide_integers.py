"""Integers out of range as shapes, axes, sizes, indices and attributes: refused with TensorFlow 1.15's classes."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

WIDE = [2**63, 2**64, -(2**63) - 1, 10**30]


def x():
    return tf.zeros([2, 3])


def image():
    return tf.zeros([1, 4, 4, 1])


# What TensorFlow 1.15.5 raises for each of WIDE, in a list and next to a small integer (where there is no `scalar`).
OVERFLOW = {
    "reshape": lambda v: tf.reshape(x(), v),
    "zeros": tf.zeros,
    "ones": tf.ones,
    "fill": lambda v: tf.fill(v, 1.0),
    "tile": lambda v: tf.tile(x(), v),
    "broadcast_to": lambda v: tf.broadcast_to(x(), v),
    "expand_dims": lambda v: tf.expand_dims(x(), v),
    "reduce_sum": lambda v: tf.reduce_sum(x(), v),
    "reduce_any": lambda v: tf.reduce_any(x() > 0, v),
    "argmax": lambda v: tf.argmax(x(), v),
    "slice, size": lambda v: tf.slice(x(), [0, 0], v),
    "split": lambda v: tf.split(x(), 2, v),
    "transpose": lambda v: tf.transpose(x(), v),
    "pad": lambda v: tf.pad(x(), v),
    "reverse": lambda v: tf.reverse(x(), v),
    "scatter_nd": lambda v: tf.scatter_nd([[0]], [1.0], v),
    "SparseTensor": lambda v: tf.SparseTensor([[0]], [1.0], v),
    "resize": lambda v: tf.image.resize_bilinear(image(), v),
    "cumsum": lambda v: tf.cumsum(x(), v),
    "top_k": lambda v: tf.nn.top_k(x(), v),
    "unsorted_segment_sum": lambda v: tf.unsorted_segment_sum(tf.zeros([1, 2]), [0], v),
    "space_to_batch": lambda v: tf.space_to_batch_nd(image(), v, [[0, 0], [0, 0]]),
    "matrix_band_part": lambda v: tf.matrix_band_part(x(), v, 0),
    "random_crop": lambda v: tf.random_crop(x(), v),
    "multinomial": lambda v: tf.multinomial(x(), v),
    "int32": lambda v: tf.constant(v, tf.int32),
    "int64": lambda v: tf.constant(v, tf.int64),
    "uint8": lambda v: tf.constant(v, tf.uint8),
    "an operand": lambda v: tf.constant([1], tf.int32) + v,
}
TYPE = {
    "gather": lambda v: tf.gather(x(), v),
    "slice, begin": lambda v: tf.slice(x(), v, [1, 1]),
    "strided_slice": lambda v: tf.strided_slice(x(), v, [1]),
    "random_uniform": tf.random_uniform,
    "truncated_normal": tf.truncated_normal,
    "roll": lambda v: tf.roll(x(), v, 0),
    "segment_sum": lambda v: tf.segment_sum(tf.zeros([1, 2]), v),
    "embedding_lookup": lambda v: tf.nn.embedding_lookup(x(), v),
}
VALUE = {
    "placeholder": lambda v: tf.placeholder(tf.float32, v),
    "queue": lambda v: tf.FIFOQueue(3, tf.float32, shapes=[v]),
    "strides": lambda v: tf.nn.conv2d(image(), tf.zeros([1, 1, 1, 1]), [1, v[-1], v[-1], 1], "SAME"),
    "ksize": lambda v: tf.nn.max_pool(image(), [1, v[-1], v[-1], 1], [1, 1, 1, 1], "SAME"),
}


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize(
    ("error", "act"),
    [
        pytest.param(error, act, id=name)
        for error, acts in ((OverflowError, OVERFLOW), (TypeError, TYPE), (ValueError, VALUE))
        for name, act in acts.items()
    ],
)
def test_integers_of_more_than_64_bits_are_refused_like_in_tensorflow(error, act, wide):
    if act in (tf.zeros, tf.ones) and wide < 0:
        error = ValueError  # that it is negative comes first
    for value in ([wide], [2, wide]):
        with tf.Graph().as_default(), pytest.raises(error, match=rf"{wide}|-?\d{{19}}|has DataType (uint64|float32)"):
            act(value)


def test_integers_beyond_32_bits_are_no_attributes_of_windows():
    for stride in (2**31, 2**62):
        with tf.Graph().as_default():
            with pytest.raises(ValueError, match=f"Attr strides has value {stride} out of range for an int32"):
                tf.nn.conv2d(image(), tf.zeros([1, 1, 1, 1]), [1, stride, stride, 1], "SAME")
            with pytest.raises(ValueError, match=f"Attr ksize has value {stride} out of range for an int32"):
                tf.nn.max_pool(image(), [1, stride, stride, 1], [1, 1, 1, 1], "VALID")


def test_patterns_of_bits_and_unsigned_values_are_taken():
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.constant([2**63])).tolist() == [2**63]
        assert session.run(tf.constant([2**64 - 1], tf.uint64)).tolist() == [2**64 - 1]
        assert session.run(tf.constant([0xFFFFFFFF], tf.int32)).tolist() == [-1]
        assert session.run(tf.constant(np.array([2**64 - 1], np.uint64).view(np.int64))).tolist() == [-1]
        with pytest.raises(OverflowError, match=f"{2**63} for dtype tf.int64"):
            tf.constant([2**63], tf.int64)
