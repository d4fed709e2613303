"""Metrics at a point of a curve, in the ties and at the ends where the choice of the point shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

R = np.random.RandomState(5)
LABELS = R.randint(0, 2, 20)
DRAWN = R.rand(20).astype(np.float32)
GOOD = (DRAWN * np.float32(0.3) + np.float32(0.7) * LABELS).astype(np.float32)
WRONG = (1 - LABELS).astype(np.float32)
WEIGHTS = R.rand(20).astype(np.float32)
TARGETS = (0.0, 0.2, 0.5, 0.9, 1.0)

# of TensorFlow 1.15.5 after two updates: for each of the predictions without and with weights, at each target
PRECISION_AT_RECALL = [
    [1.0, 0.33333, 0.41667, 0.45, 0.45],
    [1.0, 0.44047, 0.58338, 0.54526, 0.52197],
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [1.0, 0.45, 0.45, 0.45, 0.45],
    [1.0, 0.52197, 0.52197, 0.52197, 0.52197],
]
RECALL_AT_PRECISION = [
    [0.0, 0.11111, 0.11111, 0.0, 0.0],
    [0.0, 0.1954, 0.41676, 0.0, 0.0],
    [0.0, 1.0, 1.0, 1.0, 1.0],
    [0.0, 1.0, 1.0, 1.0, 0.0],
    [0.0, 1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 1.0, 0.0, 0.0],
]
SPECIFICITY_AT_SENSITIVITY = [
    [1.0, 0.63636, 0.36364, 0.09091, 0.0],
    [1.0, 0.74817, 0.55138, 0.09337, 0.0],
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.0],
]


def strict(labels: Any, predictions: Any, target: float, weights: Any) -> Any:
    return tf.contrib.metrics.recall_at_precision(labels, predictions, target, weights=weights, strict_mode=True)


def precision(labels: Any, predictions: Any, target: float, weights: Any) -> Any:
    return tf.contrib.metrics.precision_at_recall(labels, predictions, target, weights=weights)


def specificity(labels: Any, predictions: Any, target: float, weights: Any) -> Any:
    return tf.metrics.specificity_at_sensitivity(labels, predictions, target, weights=weights)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [(precision, PRECISION_AT_RECALL), (strict, RECALL_AT_PRECISION), (specificity, SPECIFICITY_AT_SENSITIVITY)],
)
def test_values_of_tensorflow(metric: Any, expected: list[list[float]]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        pairs = [
            [metric(LABELS, predictions, target, weights) for target in TARGETS]
            for predictions in (DRAWN, GOOD, WRONG)
            for weights in (None, WEIGHTS)
        ]
        session.run(tf.local_variables_initializer())
        for _ in range(2):
            updated = session.run([[update for _, update in row] for row in pairs])
        values = session.run([[value for value, _ in row] for row in pairs])
    np.testing.assert_allclose(values, expected, atol=2e-5)
    np.testing.assert_allclose(updated, expected, atol=2e-5)


def test_what_is_joined_needs_a_rank_and_an_axis_of_it() -> None:
    joined = tf.contrib.metrics.streaming_concat
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="must have known statically known rank"):
            joined(tf.placeholder(tf.float32))
        for axis in (-3, 2):
            with pytest.raises(ValueError, match=r"not in \[0, 2\)"):
                joined(tf.zeros([2, 3]), axis=axis)
