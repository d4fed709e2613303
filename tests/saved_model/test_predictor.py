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
    with pytest.raises(ValueError, match="input_names and output_names must both be specified"):
        make(MODELS / "many", input_names={"a": "b"})
    with pytest.raises(ValueError, match="You must specify one of signature_def_key OR signature_def"):
        make(MODELS / "many", "words", input_names={"a": "b"}, output_names={"a": "b"})
    with pytest.raises(ValueError, match="Cannot specify both signature_def_key and signature_def"):
        make(MODELS / "many", "words", tf.saved_model.build_signature_def())
    with pytest.raises(RuntimeError, match="could not be found in SavedModel"):
        make(MODELS / "version_1", tags="none, of, these")


def test_tensors_by_a_signature_by_names_and_in_a_graph() -> None:
    """The tensors are those of a signature that the caller made, or that it names, or of a graph that it gave."""
    make, path = tf.contrib.predictor.from_saved_model, MODELS / "version_1"
    usual = make(path)
    x = np.ones([1, 3])
    expected = usual({"x": x})["y"]
    name = usual.fetch_tensors["y"].name
    names = {"given": "x:0"}, {"taken": name}
    infos = [
        {key: tf.saved_model.build_tensor_info(usual.graph.get_tensor_by_name(tensor)) for key, tensor in one.items()}
        for one in names
    ]
    signature = tf.saved_model.build_signature_def(*infos)
    graph = tf.Graph()
    for predict in (
        make(path, input_names=names[0], output_names=names[1]),
        make(path, signature_def=signature),
        make(path, signature_def=signature, graph=graph),
    ):
        np.testing.assert_array_equal(predict({"given": x})["taken"], expected)
    assert predict.graph is graph
    inside = make(path, graph=tf.Graph())
    np.testing.assert_array_equal(inside({"x": x})["y"], expected)
    assert "fetch_tensors" in repr(inside)
    with pytest.raises(ValueError, match=r"Got signature_def_key 'none'. Available signatures are"):
        make(path, "none", graph=tf.Graph())


def test_a_predictor_of_ones_own() -> None:
    class Twice(tf.contrib.predictor.Predictor):
        def __init__(self) -> None:
            self._graph = tf.Graph()
            with self._graph.as_default():
                self._session = tf.Session()
                x = tf.placeholder_with_default([1.0], [None])
                self._feed_tensors, self._fetch_tensors = {"x": x}, {"y": x * 2}

    assert Twice()({"x": [3.0]})["y"].tolist() == [6]
    assert Twice()({})["y"].tolist() == [2]
    with pytest.raises(ValueError, match="Got unexpected keys in input_dict"):
        Twice()({"z": 1})
