"""Metrics of unusual data, and of none, against TensorFlow's answers."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "metrics.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "metrics_cases", ROOT / "tools" / "golden" / "training" / "metrics_cases.py"
)
cases = importlib.util.module_from_spec(_spec)
sys.modules["metrics_cases"] = cases
_spec.loader.exec_module(cases)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def close(answer, expected):
    expected = np.vectorize(float, otypes=[float])(expected)
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-6)
    assert np.shape(answer) == expected.shape


@pytest.mark.parametrize("kind", cases.KINDS)
@pytest.mark.parametrize("name", sorted(cases.metrics_of(tf, "usual")))
def test_metric(kind, name):
    expected = GOLDEN[f"{kind} {name}"]
    make = cases.metrics_of(tf, kind)[name]
    if expected["update"] == "InvalidArgumentError":
        # TensorFlow 1.15 looks at constants while it builds, 1.8 when the update runs.
        def update_once():
            _, update = make()
            with tf.Session() as session:
                session.run(tf.local_variables_initializer())
                session.run(update)

        with pytest.raises(tf.errors.InvalidArgumentError, match=r"predictions must be in \[0, 1\]"):
            update_once()
        return
    value, update = make()
    assert [value.shape.as_list(), update.shape.as_list()] == expected["shapes"]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        close(session.run(value), expected["before"])
        close(session.run(update), expected["update"])
        close(session.run(value), expected["after"])


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.1])
def test_predictions_outside_of_their_range_change_nothing(bad):
    scores = tf.placeholder(tf.float32, [2])
    value, update = tf.metrics.auc([0.0, 1.0], scores)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(update, {scores: [0.2, 0.9]})
        before = session.run(value)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"predictions must be in \[0, 1\]"):
            session.run(update, {scores: [0.2, bad]})
        assert session.run(value) == before == pytest.approx(1.0, abs=1e-3)


def test_precision_at_k_of_a_sparse_value():
    labels = tf.SparseTensorValue([[0, 0], [1, 0]], np.array([1, 0], np.int64), [2, 1])
    _, update = tf.metrics.precision_at_k(labels, tf.constant([[0.1, 0.9], [0.1, 0.9]]), 1)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update) == 0.5
