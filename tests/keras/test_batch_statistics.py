"""Batch normalisation of ``tf.keras``: its extensions, and what frozen layers do; numbers are those of TensorFlow 1.15.

`tests/golden/keras_batch_statistics.json` is written by `tools/golden/keras/write_batch_statistics.py`.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/keras_batch_statistics.json").read_text())
_spec = importlib.util.spec_from_file_location("statistics_cases", ROOT / "tools/golden/keras/batch_statistics.py")
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def compare(given, expected):
    assert sorted(given) == sorted(expected)
    for name, values in expected.items():
        assert len(given[name]) == len(values)
        for one, other in zip(given[name], values, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("layers", ["keras", "layers"])
def test_extensions_where_ops_run_at_once(layers):
    with mode.eager_mode():
        kind = tf.keras.layers.BatchNormalization if layers == "keras" else tf.layers.BatchNormalization
        compare(cases.extensions(tf, kind), GOLDEN["extensions"])


def test_extensions_in_a_graph():
    with tf.Graph().as_default():
        compare(cases.training(tf), GOLDEN["training"])


@pytest.mark.parametrize("eager", [False, True])
def test_a_model_is_frozen_as_it_was_compiled(eager):
    with mode.eager_mode() if eager else tf.Graph().as_default():
        compare(cases.adversarial(tf), GOLDEN["adversarial"])


def test_a_layer_of_a_model_is_called_where_ops_run_at_once():
    with mode.eager_mode():
        layers = [tf.keras.layers.BatchNormalization(input_shape=(3,)), tf.keras.layers.Dropout(0.5)]
        model = tf.keras.Sequential(layers)
        np.testing.assert_allclose(model(tf.ones([2, 3])).numpy(), 1.0, rtol=1e-3)
        np.testing.assert_allclose(model(tf.ones([2, 3]), training=True).numpy(), 0.0, atol=1e-6)


def test_options_go_through_a_config():
    layer = tf.keras.layers.BatchNormalization(renorm=True, renorm_clipping={"rmax": 3.0}, renorm_momentum=0.5)
    again = tf.keras.layers.BatchNormalization.from_config(layer.get_config())
    assert (again.renorm, again.renorm_clipping, again.renorm_momentum) == (True, {"rmax": 3.0}, 0.5)
    assert "renorm" not in tf.keras.layers.BatchNormalization().get_config()
    assert tf.keras.layers.BatchNormalization(virtual_batch_size=2).get_config()["virtual_batch_size"] == 2


def test_options_that_are_refused():
    make = tf.keras.layers.BatchNormalization
    with pytest.raises(ValueError, match=r"contains keys not in"):
        make(renorm=True, renorm_clipping={"max": 1.0})
    with pytest.raises(ValueError, match="virtual_batch_size must be a positive integer"):
        make(virtual_batch_size=0)
    with pytest.raises(TypeError, match="axis must be int or list"):
        make(axis="last")
