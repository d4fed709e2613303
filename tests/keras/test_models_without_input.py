"""Models of ``tf.keras`` that came without a shape of inputs: before they are built, and through files."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER

X, Y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)


@pytest.fixture(params=[False, True], ids=["graph", "eager"], autouse=True)
def where(request):
    with EAGER.as_default() if request.param else tf.Graph().as_default():
        with contextlib.nullcontext() if request.param else tf.Session():
            yield request.param


def layered():
    return tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])


class Own(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = layered()
        self.last = tf.keras.layers.Dense(1)

    def call(self, inputs):
        return self.last(self.inner(inputs))


@pytest.mark.parametrize("make", [layered, Own])
@pytest.mark.parametrize("what", ["weights", "trainable_weights", "non_trainable_weights", "variables"])
def test_weights_are_not_told_before_they_are_there(make, what):
    model = make()
    assert model.metrics_names == ["loss"]
    with pytest.raises(ValueError, match=r"Weights for model \w+ have not yet been created(.|\n)*Instead: model.build"):
        getattr(model, what)
    model.predict(X)
    assert len(getattr(model, what)) == (0 if what.startswith("non") else 4 if make is layered else 6)


def test_a_model_of_ones_own_without_a_build_has_those_that_are_there():
    class Plain(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs)

    assert Plain().weights == []
    with pytest.raises(ValueError, match=r"layer isn't built\. You can build it manually via: `plain_"):
        Plain().count_params()


@pytest.mark.parametrize("how", ["fit", "build"])
def test_the_shape_goes_through_files(tmp_path, how, caplog):
    model = layered()
    model.compile("sgd", "mse")
    if how == "fit":
        model.fit(X, Y, verbose=0)
    else:
        model.build((None, 3))
    assert model.get_config()["build_input_shape"] == (None, 3)
    path = str(tmp_path / "m.h5")
    model.save(path)
    other = tf.keras.models.load_model(path)
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-6)
    assert ("cannot reload their optimizer state" in caplog.text) == (how == "fit")
    assert other.fit(X, Y, verbose=0).epoch == [0]
    copy = tf.keras.models.model_from_json(model.to_json())
    assert [array.shape for array in copy.get_weights()] == [(3, 2), (2,), (2, 1), (1,)]


def test_a_sequence_that_holds_one_is_made(tmp_path):
    model = tf.keras.Sequential([layered()])
    assert len(model.layers) == 1
    predicted = model.predict(X)
    assert len(model.weights) == 4
    model.save(str(tmp_path / "m.h5"))
    np.testing.assert_allclose(tf.keras.models.load_model(str(tmp_path / "m.h5")).predict(X), predicted, rtol=1e-6)


def test_who_follows_a_prediction_sees_the_outputs():
    seen = []

    class Follow(tf.keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            seen.append((sorted(logs), logs["outputs"][0].shape))

    layered().predict(X, batch_size=3, callbacks=[Follow()])
    assert seen == [(["batch", "outputs", "size"], (3, 1)), (["batch", "outputs", "size"], (1, 1))]


def test_what_a_lambda_layer_has_not_is_not_written():
    config = tf.keras.layers.Lambda(abs).get_config()
    assert not [name for name in config if name.startswith("mask")]


def test_ops_between_layers_bear_the_names_of_ops(where):
    x = tf.keras.Input((3,))
    y = tf.keras.layers.Dense(2)(x)
    with tf.name_scope("inside"):
        z = tf.identity(y * 2.0, name="z")
    layer = tf.keras.Model(x, z).layers[-1]
    assert (layer.name, layer.output_shape) == ("tf_op_layer_z" if where else "tf_op_layer_inside/z", [(None, 2)])


def test_further_values_of_a_function_are_not_looked_at(where):
    if where:
        return
    x, y = tf.keras.Input((3,)), tf.keras.Input((3,))
    function = tf.keras.backend.function([x, y], [tf.keras.layers.add([x, y])])
    assert function([X, X, X])[0].tolist() == (2 * X).tolist()
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'input_2'"):
        function([X])
