"""Losses that replicas share: values as TensorFlow 1.15.5 gives them."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def value(tensor):
    with tf.Session() as session:
        return session.run(tensor)


VECTOR, MATRIX = np.float32([1, 2, 3, 6]), np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("loss", "weights", "batch", "wanted"),
    [
        (VECTOR, None, None, np.float32(3.0)),
        (VECTOR, [1, 0, 1, 1.0], None, np.float32(2.5)),
        (VECTOR, None, 8, np.float32(1.5)),
        (VECTOR, [[1.0], [0], [1], [2]], None, np.float32(4.0)),
        (MATRIX, None, None, np.float32(7.5)),
        (MATRIX, [1.0, 2.0], None, np.float32(13.5)),
        (MATRIX, None, 3, np.float32(5.0)),
        (VECTOR.astype(np.float64), [1, 2, 3, 4], None, np.float64(9.5)),
        (np.int32([1, 2, 3]), None, None, np.float64(2.0)),
        (VECTOR.astype(np.float16), None, None, np.float16(3.0)),
    ],
)
def test_the_average_over_all_examples(loss, weights, batch, wanted) -> None:
    found = value(tf.nn.compute_average_loss(tf.constant(loss), weights, batch))
    assert found == wanted
    assert found.dtype == wanted.dtype


def test_regularization_is_added_once() -> None:
    assert value(tf.nn.scale_regularization_loss(tf.constant(VECTOR))) == 12.0
    assert value(tf.nn.scale_regularization_loss([tf.constant(1.0), tf.constant(2.0)])) == 3.0


def test_each_replica_has_its_share() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    loss = tf.constant(VECTOR)
    with strategy.scope():
        share = strategy.experimental_run_v2(lambda: tf.nn.compute_average_loss(loss))
        assert value(share) == 3.0
        with pytest.raises(RuntimeError, match="You are calling `compute_average_loss` in cross replica context"):
            tf.nn.compute_average_loss(loss)
        with pytest.raises(RuntimeError, match="You are calling `scale_regularization_loss` in cross replica context"):
            tf.nn.scale_regularization_loss(loss)


def test_a_scalar_has_no_examples() -> None:
    with pytest.raises(ValueError, match="Expected a tensor with at least rank 1"):
        tf.nn.compute_average_loss(tf.constant(2.0))
