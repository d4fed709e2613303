"""The metrics and the data of `tests/golden/metrics.json`, for any module with TensorFlow's names."""

from __future__ import annotations

NAN = float("nan")
# Labels and predictions as floats, and as classes 0 and 1.
DATA = {
    "none": ([], [], [], []),
    "nan": ([0, 1, 1], [0.2, NAN, 0.7], [0, 1, 1], [1, 1, 0]),
    "outside": ([0, 1, 1], [-0.2, 1.5, 0.7], [0, 1, 1], [1, 1, 0]),
    "usual": ([0, 1, 1, 0], [0.2, 0.9, 0.7, 0.6], [0, 1, 1, 0], [1, 1, 0, 0]),
    "positive": ([1, 1], [0.2, 0.9], [1, 1], [1, 1]),
    "negative": ([0, 0], [0.2, 0.9], [0, 0], [1, 1]),
    "weightless": ([0, 1, 1, 0], [0.2, 0.9, 0.7, 0.6], [0, 1, 1, 0], [1, 1, 0, 0]),
}
KINDS = list(DATA)


def metrics_of(tf, kind):
    """Name -> function that makes the metric's value and update in the current graph."""
    reals, scores, labels, classes = DATA[kind]
    reals, scores = tf.constant(reals, tf.float32), tf.constant(scores, tf.float32)
    labels, classes = tf.constant(labels, tf.int64), tf.constant(classes, tf.int64)
    weights = {"weights": tf.zeros([4])} if kind == "weightless" else {}
    column = {"weights": tf.zeros([4, 1])} if weights else {}
    pairs, pairs_of_labels = tf.stack([scores, 1 - scores], 1), tf.stack([reals, 1 - reals], 1)
    m, at = tf.metrics, [0.3, 0.6]
    return {
        "accuracy": lambda: m.accuracy(labels, classes, **weights),
        "auc": lambda: m.auc(reals, scores, **weights),
        "auc_pr": lambda: m.auc(reals, scores, curve="PR", summation_method="careful_interpolation", **weights),
        "average_precision_at_k": lambda: m.average_precision_at_k(labels[:, None], pairs, 1, **weights),
        "false_negatives": lambda: m.false_negatives(labels, classes, **weights),
        "mean": lambda: m.mean(scores, **weights),
        "mean_absolute_error": lambda: m.mean_absolute_error(reals, scores, **weights),
        "mean_cosine_distance": lambda: m.mean_cosine_distance(pairs_of_labels, pairs, 1, **column),
        "mean_iou": lambda: m.mean_iou(labels, classes, 3, **weights),
        "mean_per_class_accuracy": lambda: m.mean_per_class_accuracy(labels, classes, 3, **weights),
        "mean_relative_error": lambda: m.mean_relative_error(reals, scores, scores, **weights),
        "mean_tensor": lambda: m.mean_tensor(scores, **weights),
        "percentage_below": lambda: m.percentage_below(scores, 0.5, **weights),
        "precision": lambda: m.precision(labels, classes, **weights),
        "precision_at_k": lambda: m.precision_at_k(labels[:, None], pairs, 1, **weights),
        "precision_at_thresholds": lambda: m.precision_at_thresholds(labels, scores, at, **weights),
        "recall": lambda: m.recall(labels, classes, **weights),
        "recall_at_k": lambda: m.recall_at_k(labels[:, None], pairs, 1, **weights),
        "recall_at_thresholds": lambda: m.recall_at_thresholds(labels, scores, at, **weights),
        "root_mean_squared_error": lambda: m.root_mean_squared_error(reals, scores, **weights),
        "sensitivity_at_specificity": lambda: m.sensitivity_at_specificity(labels, scores, 0.5, **weights),
        "specificity_at_sensitivity": lambda: m.specificity_at_sensitivity(labels, scores, 0.5, **weights),
        "true_positives_at_thresholds": lambda: m.true_positives_at_thresholds(labels, scores, at, **weights),
    }
