"""Activations of whole numbers, of which TensorFlow has no kernel, against those of the floats that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("largest", [0.5, 5.0, 20.0])
def test_relu_with_an_upper_end(tier, largest):
    low, high = np.float32(-8), np.float32(9)
    numbers = np.arange(256, dtype=np.uint8)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        features = tf.bitcast(tf.constant(numbers), tf.quint8)
        out, least, most = tf.build_op(
            "QuantizedReluX",
            features=features,
            max_value=largest,
            min_features=low,
            max_features=high,
            out_type=tf.quint8,
        )
        activations, least, most = session.run([tf.bitcast(out, tf.uint8), least, most])
    step = (high - low) / 255
    values = low + numbers * step
    np.testing.assert_allclose(least + activations * (most - least) / 255, np.clip(values, 0, largest), atol=step)
    assert (least, most) == (low, high)
