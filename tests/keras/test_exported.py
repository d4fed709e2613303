"""Models as SavedModels that know their layers."""

import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

X = np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("eager", [False, True])
def test_a_model_comes_back_with_its_layers_and_serves(tmp_path, eager):
    path = tmp_path / "model"
    with mode.eager_mode() if eager else tf.Graph().as_default():
        layers = [tf.keras.layers.Dense(4, input_shape=(3,)), tf.keras.layers.BatchNormalization()]
        model = tf.keras.Sequential(layers)
        model.compile(tf.train.AdamOptimizer(0.1), "mse")
        model.train_on_batch(X, np.ones((4, 4)))
        tf.keras.experimental.export_saved_model(model, path)
        wanted = model.predict(X)
    for other in (False, True):
        with mode.eager_mode() if other else tf.Graph().as_default():
            again = tf.keras.experimental.load_from_saved_model(str(path))
            assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]
            np.testing.assert_array_equal(again.predict(X), wanted)
            np.testing.assert_array_equal(tf.keras.models.load_model(path).predict(X), wanted)
    with tf.Graph().as_default(), tf.saved_model.load(str(path)) as served:
        (result,) = served(X).values()
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_what_is_refused(tmp_path):
    class Own(tf.keras.Model):
        def call(self, x):
            return x

    with pytest.raises(NotImplementedError, match="Subclassed models can only be exported for serving"):
        tf.keras.experimental.export_saved_model(Own(), tmp_path / "own")
    with pytest.raises(tf.errors.NotFoundError, match=r"a SavedModel without assets/saved_model\.json"):
        tf.keras.experimental.load_from_saved_model(tmp_path)


def test_a_model_is_saved_with_what_it_serves(tmp_path):
    with mode.eager_mode():
        inputs = tf.keras.Input((3,), name="x")
        hidden = tf.keras.layers.Dropout(0.5)(tf.keras.layers.Dense(4)(inputs))
        model = tf.keras.Model(inputs, tf.keras.layers.BatchNormalization(name="y")(hidden))
        tf.saved_model.save(model, tmp_path / "model")
        loaded = tf.saved_model.load(tmp_path / "model")
        served = loaded.signatures["serving_default"](x=tf.constant(X))
        np.testing.assert_allclose(served["y"].numpy(), model.predict(X), rtol=1e-6)
        with pytest.raises(ValueError, match="input shapes have not been set"):
            tf.saved_model.save(tf.keras.Sequential([tf.keras.layers.Dense(1)]), tmp_path / "other")


def test_the_first_names_of_export(tmp_path):
    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="ones")])
        tf.contrib.saved_model.save_keras_model(model, str(tmp_path / "model"))
        loaded = tf.contrib.saved_model.load_keras_model(str(tmp_path / "model"))
        assert loaded.predict(np.ones((1, 2))).tolist() == [[2.0]]
    assert dir(tf.contrib.saved_model) == ["load_keras_model", "save_keras_model"]


def test_a_folder_of_tensorflow_is_loaded_and_trained_on():
    folder = Path(__file__).parents[1] / "golden" / "keras_saved_model"
    told = json.loads((folder / "told.json").read_text())
    x, y = np.linspace(0, 1, 24).reshape(6, 4).astype("f"), np.linspace(1, 0, 12).reshape(6, 2).astype("f")
    with tf.Graph().as_default():
        model = tf.keras.models.load_model(str(folder))
        np.testing.assert_allclose(model.predict(x), told["predict"], rtol=1e-5)
        np.testing.assert_allclose(model.evaluate(x, y, verbose=0), told["evaluate"], rtol=1e-5)
        history = model.fit(x, y, batch_size=3, epochs=1, shuffle=False, verbose=0).history
        np.testing.assert_allclose(history["loss"], [told["loss"]], rtol=1e-5)
    with tf.Graph().as_default():
        model = tf.keras.models.load_model(str(folder), compile=False)
        np.testing.assert_allclose(model.predict(x), told["predict"], rtol=1e-5)
        assert model.optimizer is None


def test_a_model_that_is_saved_as_a_folder_goes_on_where_it_was(tmp_path):
    x, y = np.linspace(0, 1, 24).reshape(6, 4).astype("f"), np.ones((6, 2), "f")

    def trained(model):
        return model.fit(x, y, batch_size=3, epochs=1, shuffle=False, verbose=0).history["loss"]

    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))])
        model.compile(tf.keras.optimizers.Adam(0.1), "mse")
        trained(model)
        model.save(str(tmp_path / "model"), save_format="tf")
        model.save(str(tmp_path / "bare"), save_format="tf", include_optimizer=False)
        wanted = trained(model)
    with tf.Graph().as_default():
        np.testing.assert_allclose(trained(tf.keras.models.load_model(str(tmp_path / "model"))), wanted, rtol=1e-5)
        assert tf.keras.models.load_model(str(tmp_path / "bare")).optimizer is None
