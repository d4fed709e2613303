"""Models of ``tf.keras`` against TensorFlow 1.15: names, outputs, gradients, training, and a file that it saved.

`tests/golden/keras.json` is written by `tools/golden/keras/write.py`.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np

import anabranch as tf

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/keras.json").read_text())
_spec = importlib.util.spec_from_file_location("keras_cases", ROOT / "tools/golden/keras/cases.py")
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def compare(given, expected, where=""):
    """The same structure, with numbers that are near."""
    if isinstance(expected, dict):
        assert sorted(given) == sorted(expected), where
        for name in expected:
            compare(given[name], expected[name], f"{where} {name}")
    elif isinstance(expected, list):
        assert len(given) == len(expected), where
        for one, other in zip(given, expected, strict=True):
            compare(one, other, where)
    elif isinstance(expected, float):
        np.testing.assert_allclose(given, expected, rtol=2e-4, atol=2e-4, err_msg=where)
    else:
        assert given == expected, where


def test_layers():
    compare(cases.run_layers(tf), GOLDEN["layers"])


def test_optimizers():
    compare(cases.run_optimizers(tf), GOLDEN["optimizers"])


def test_training():
    compare(cases.run_training(tf), GOLDEN["training"])


def test_a_model_that_tensorflow_saved():
    words = np.arange(12).reshape(3, 4) % 6
    with tf.Graph().as_default():
        model = tf.keras.models.load_model(str(ROOT / "tests/golden/keras_model.h5"))
        expected = GOLDEN["saved"]
        compare(cases.summary(model.predict(words)), expected["predicted"])
        compare(float(model.train_on_batch(words, np.eye(3))[0]), expected["next loss"])
