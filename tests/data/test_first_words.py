"""First words of what datasets and layers refuse, and its classes: TensorFlow 1.15.5's."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Dataset.range(5).batch(0), "Batch size must be greater than zero."),
        (lambda: Dataset.range(5).batch(-1), "Batch size must be greater than zero."),
        (
            lambda: Dataset.range(5).interleave(Dataset.from_tensors, cycle_length=0),
            "cycle_length must be greater than zero.",
        ),
        (lambda: tf.data.FixedLengthRecordDataset(["/none"], 0), "`record_bytes` must be > 0"),
    ],
)
def test_sizes_that_are_not_positive(make, words):
    element = make().make_one_shot_iterator().get_next()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="^" + words + "\nGiven: "):
        session.run(element)


def test_padding():
    rows = Dataset.range(1, 5).map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))
    element = rows.padded_batch(4, [2]).make_one_shot_iterator().get_next()
    words = "^Attempted to pad to a smaller size than the input element.\nGiven: an element of shape .3.\n"
    with tf.Session() as session, pytest.raises(tf.errors.DataLossError, match=words):
        session.run(element)
    with pytest.raises(ValueError, match=r"^The padded shape \(\?,\) is not compatible with the .* shape \(\)\."):
        Dataset.range(5).padded_batch(2, [None])


def test_a_scalar_has_no_slices():
    with pytest.raises(ValueError, match="insufficient rank for batching"):
        Dataset.from_tensor_slices(1)


@pytest.mark.parametrize("value", [2.5, (2.5, 2), np.float64(1.5)])
def test_parts_of_a_window_are_refused(value):
    x = tf.zeros([1, 4, 4, 2])
    words = "argument must be a tuple of 2 integers. Received: "
    for make in (
        lambda: tf.layers.max_pooling2d(x, value, 1),
        lambda: tf.layers.average_pooling2d(x, 2, value),
        lambda: tf.layers.conv2d(x, 3, value),
        lambda: tf.layers.conv2d(x, 3, 2, strides=value),
    ):
        with pytest.raises(ValueError, match=words):
            make()
