"""`tf.contrib.predictor`: a SavedModel as a function of a dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

MODELS = Path(__file__).parents[1] / "golden" / "saved_models"


def test_a_predictor() -> None:
    predict = tf.contrib.predictor.from_saved_model(str(MODELS / "version_1"))
    assert predict.feed_tensors["x"].name == "x:0"
    assert list(predict.fetch_tensors) == ["y"]
    assert predict.graph is predict.session.graph
    one = predict({"x": np.ones([1, 3])})["y"]
    with tf.saved_model.load(MODELS / "version_1", ["serve"]) as model:
        np.testing.assert_array_equal(one, model(np.ones([1, 3]))["y"])
    twice = tf.contrib.predictor.from_saved_model(MODELS / "version_1", tags="serve, other")
    np.testing.assert_allclose(twice({"x": np.ones([1, 3])})["twice"], 2 * one, rtol=1e-6)
    words = tf.contrib.predictor.from_saved_model(MODELS / "version_1", signature_def_key="words")
    assert words({"word": ["c"]})["ids"].tolist() == [2]


def test_what_is_refused() -> None:
    make = tf.contrib.predictor.from_saved_model
    with pytest.raises(ValueError, match="Got signature_def_key 'none'"):
        make(MODELS / "many", "none")
    with pytest.raises(ValueError, match=r"Got unexpected keys in input_dict: \['q'\]"):
        make(MODELS / "many")({"q": 1})
    with pytest.raises(NotImplementedError, match=r"from_saved_model\(input_names"):
        make(MODELS / "many", input_names={"a": "b"})
