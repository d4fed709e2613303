"""Functions that take rows of a tensor and whose gradients are tensors, as in TensorFlow: slices are for gathers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

X = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
MASK = np.array([True, False, True, True])
CASES: dict[str, tuple[Any, Any, Any]] = {
    "frames": (X[:, 0], lambda x: tf.signal.frame(x, 3, 1), [1, 2, 2, 1]),
    "frames of rows": (X, lambda x: tf.signal.frame(x, 3, 1, axis=0), [[1, 1], [2, 2], [2, 2], [1, 1]]),
    "a mask": (X, lambda x: tf.boolean_mask(x, MASK), [[1, 1], [0, 0], [1, 1], [1, 1]]),
    "repeated": (X, lambda x: tf.repeat(x, [1, 2, 0, 3], axis=0), [[1, 1], [2, 2], [0, 0], [3, 3]]),
    "repeated alike": (X, lambda x: tf.repeat(x, 2, axis=0), [[2, 2]] * 4),
    "flipped": (X[..., None], lambda x: tf.image.random_flip_up_down(x, seed=1), [[[1], [1]]] * 4),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", list(CASES))
def test_gradients_are_tensors(name: str, known: bool) -> None:
    value, function, wanted = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder_with_default(value, value.shape if known else [None] * value.ndim)
        (gradient,) = tf.gradients(function(x), x)
        assert isinstance(gradient, tf.Tensor)
        np.testing.assert_array_equal(session.run(gradient * 1.0), wanted)
