"""`tf.contrib.eager.metrics` where ops run at once and in graphs; TensorFlow 1.15 gives these numbers."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

metrics = tf.contrib.eager.metrics
ACCURACIES: list[tuple[Any, Any, Any, float, float]] = [
    (metrics.Accuracy, [0, 1, 2, 3], [0, 0, 2, 0], 0.5, 2 / 3),
    (metrics.CategoricalAccuracy, [[0, 1], [1, 0], [0, 1], [1, 0]], [[0.1, 0.9], [0.2, 0.8]] * 2, 0.5, 2 / 3),
    (lambda: metrics.BinaryAccuracy(0.5), [1, 0, 1, 1], [0.7, 0.6, 0.4, 0.9], 0.5, 2 / 3),
    (metrics.SparseAccuracy, [0, 2, 1, 1], [[9.0, 1, 0], [1, 0, 2], [9, 1, 0], [0, 9, 1]], 0.75, 2 / 3),
]
"""Metric, labels, predictions, the result, and that without the second example."""


@pytest.mark.parametrize(("make", "labels", "predictions", "plain", "weighted"), ACCURACIES)
def test_accuracies(make: Any, labels: Any, predictions: Any, plain: float, weighted: float) -> None:
    labels, predictions = tf.constant(labels), tf.constant(predictions)
    metric = make()
    metric(labels, predictions)
    assert float(metric.result()) == pytest.approx(plain)
    metric.init_variables()
    metric(labels, predictions, weights=tf.constant([1.0, 0.0, 1.0, 1.0]))
    assert float(metric.result()) == pytest.approx(weighted)


def test_a_mean_adds_up_and_begins_anew() -> None:
    mean = metrics.Mean(name="hi")
    mean([1, 10, 100])
    mean(1000)
    mean([10000.0, 100000.0])
    assert float(mean.result()) == 111111.0 / 6
    assert [v.name for v in mean.variables] == ["hi/numer:0", "hi/denom:0"]
    mean.init_variables()
    mean(7)
    assert (float(mean.result()), float(mean.value()())) == (7.0, 7.0)
    with pytest.raises(RuntimeError, match="except in build"):
        mean.add_variable("late", [])


def test_metrics_of_several_runs_are_joined() -> None:
    parts = [metrics.Mean(), metrics.Mean()]
    for part, values in zip(parts, ([1.0, 2.0], [3.0, 6.0]), strict=True):
        part(values)
    parts[0].aggregate(parts[1:])
    assert float(parts[0].result()) == 3.0
    with pytest.raises(TypeError, match="same type"):
        parts[0].aggregate([metrics.Accuracy()])


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of labels and predictions are unequal"):
        metrics.Accuracy()(tf.constant([1, 2]), tf.constant([1]))


def test_in_a_graph_a_call_is_an_update() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32)
        mean = metrics.Mean()
        update, result = mean(fed), mean.result(write_summary=False)
        session.run(mean.init_variables())
        for value in ([1.0, 10.0], [100.0]):
            session.run(update, {fed: value})
        assert session.run(result) == session.run(mean.value()) == 37.0
        assert tf.global_variables() == []
        assert [v.name for v in tf.local_variables()] == ["Mean/numer:0", "Mean/denom:0"]
        with pytest.raises(ValueError, match="Mean/numer already exists"):
            metrics.Mean()(1.0)


def test_a_result_writes_a_summary(tmp_path: Path) -> None:
    tf.train.get_or_create_global_step()
    mean = metrics.Mean(name="loss")
    mean([1, 10, 100])
    writer = tf.contrib.summary.create_file_writer(str(tmp_path))
    with writer.as_default(), tf.contrib.summary.always_record_summaries():
        mean.result()
        mean.result(write_summary=False)
    writer.flush()
    (path,) = glob.glob(f"{tmp_path}/*")
    values = [value for event in tf.train.summary_iterator(path) for value in event.summary.value]
    assert [(value.tag, value.simple_value) for value in values] == [("loss", 37.0)]


def test_metrics_are_saved_with_a_model(tmp_path: Path) -> None:
    mean = metrics.Mean()
    mean([1.0, 3.0])
    path = tf.train.Checkpoint(mean=mean).save(str(tmp_path / "metric"))
    other = metrics.Mean()
    tf.train.Checkpoint(mean=other).restore(path)
    other([8.0])
    assert float(other.result()) == 4.0
    np.testing.assert_array_equal(
        [name for name, _ in tf.train.list_variables(path)][1:3],
        ["mean/denom/.ATTRIBUTES/VARIABLE_VALUE", "mean/numer/.ATTRIBUTES/VARIABLE_VALUE"],
    )
