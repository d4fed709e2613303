"""Batch renormalisation and parts of batches against TensorFlow (`tools/golden/training/batch_normalization.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden.training import batch_normalization as recorded

import anabranch as tf

CASES = json.loads((Path(__file__).parents[1] / "golden" / "batch_normalization.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: ",".join(case["arguments"]))
def test_steps_and_variables(case) -> None:
    results, variables = recorded.run(tf, case["arguments"])
    expected_results, expected_variables = case["expected"]
    np.testing.assert_allclose(results, expected_results, atol=2e-6)
    assert sorted(variables) == sorted(expected_variables)
    for name, value in expected_variables.items():
        np.testing.assert_allclose(variables[name], value, atol=1e-6)


def test_a_known_mode_needs_no_choice() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([[1.0], [3.0], [10.0], [14.0]])
        trained = tf.layers.batch_normalization(x, training=True, virtual_batch_size=2, epsilon=0.0)
        plain = tf.layers.batch_normalization(x, training=False, virtual_batch_size=2, renorm=True, epsilon=0.0)
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(trained), [[-1], [-1], [1], [1]], rtol=1e-6)
        assert session.run(plain).tolist() == [[1], [3], [10], [14]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"virtual_batch_size": 0}, "virtual_batch_size must be a positive integer"),
        ({"virtual_batch_size": 2, "axis": 0}, "axis cannot include 0"),
        ({"virtual_batch_size": 2, "adjustment": lambda shape: (1.0, 0.0)}, "adjustment cannot be specified"),
        ({"renorm": True, "renorm_clipping": {"max": 1.0}}, "contains keys not in"),
    ],
)
def test_refusals(arguments, words) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        tf.layers.batch_normalization(tf.zeros([4, 3]), **arguments)
