"""Labels of sparse tensors that are no classes, and names of counts."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


def test_labels_outside_of_the_classes_count_as_missed() -> None:
    labels = tf.SparseTensorValue(
        [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3]], np.array([2, 7, -1, 8, 1, 2, 5, 10]), [2, 4]
    )
    top = np.array([[9, 4, 6, 2, 0], [5, 7, 2, 9, 6]])
    with tf.Graph().as_default(), tf.Session() as session:
        value, update = tf.metrics.recall_at_top_k(labels, top, k=5)
        session.run(tf.local_variables_initializer())
        assert session.run(update) == session.run(value) == 3 / 8
        precision, update = tf.metrics.precision_at_top_k(labels, top, k=5)
        session.run(tf.local_variables_initializer())
        assert session.run(update) == session.run(precision) == 3 / 10


def test_counts_at_thresholds_have_the_names_of_counts() -> None:
    with tf.Graph().as_default():
        for kind in ("true_positives", "false_positives", "true_negatives", "false_negatives"):
            getattr(tf.metrics, f"{kind}_at_thresholds")([True], [0.5], [0.25, 0.75])
        assert [v.name for v in tf.local_variables()] == [
            f"{kind}/{kind}:0" for kind in ("true_positives", "false_positives", "true_negatives", "false_negatives")
        ]


def test_kappa_of_classes_that_are_out_of_range() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.placeholder(tf.int64, [4])
        value, update = tf.contrib.metrics.cohen_kappa(labels, tf.constant([1, 1, 1, 0]), 2)
        session.run(tf.local_variables_initializer())
        assert session.run(update, {labels: [1, 0, 1, 1]}).dtype == np.float64
        np.testing.assert_allclose(session.run(value), -1 / 3, rtol=1e-12)
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
            session.run(update, {labels: [1, 0, 2, 1]})
        np.testing.assert_allclose(session.run(value), -1 / 3, rtol=1e-12)
    with pytest.raises(ValueError, match="must be >= 2"):
        tf.contrib.metrics.cohen_kappa([0], [0], 1)
