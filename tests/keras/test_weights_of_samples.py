"""Weights of samples and of classes in `fit`, for one output and for several; the losses are TensorFlow 1.15.5's."""

import numpy as np
import pytest

import anabranch as tf

SIX = np.linspace(0, 1, 6)
CLASSES = {0: 1.0, 1: 2.0, 2: 1.0, 3: 4.0}


def _weighted(model):
    random = np.random.RandomState(3)
    model.set_weights([random.uniform(-0.3, 0.3, w.shape).astype(w.dtype) for w in model.get_weights()])
    return model


def _data():
    random = np.random.RandomState(7)
    return [random.rand(6, size).astype("f") for size in (3, 3, 4, 1)]


def _several(**weights):
    """The losses of an epoch of a model with two outputs."""
    with tf.Graph().as_default():
        a, b = tf.keras.Input((3,)), tf.keras.Input((3,))
        outputs = [tf.keras.layers.Dense(4, name="d")(a), tf.keras.layers.Dense(1, name="e")(b)]
        model = _weighted(tf.keras.Model([a, b], outputs))
        model.compile("sgd", "mse")
        p, q, r, s = _data()
        history = model.fit([p, q], [r, s], batch_size=3, shuffle=False, verbose=0, **weights).history
    return [round(history[key][0], 4) for key in ("d_loss", "e_loss", "loss")]


def _one(**weights):
    """The loss of an epoch of a classifier."""
    with tf.Graph().as_default():
        model = _weighted(tf.keras.Sequential([tf.keras.layers.Dense(3, activation="softmax", input_shape=(3,))]))
        model.compile("sgd", "sparse_categorical_crossentropy")
        y = np.array([0, 1, 2, 0, 1, 1])
        history = model.fit(_data()[0], y, batch_size=3, shuffle=False, verbose=0, **weights).history
    return round(history["loss"][0], 4)


@pytest.mark.parametrize(
    ("weights", "losses"),
    [
        ({"sample_weight": [SIX, SIX]}, [0.1644, 0.2067, 0.3711]),
        ({"sample_weight": [SIX, None]}, [0.1644, 0.7125, 0.8769]),
        ({"sample_weight": {"d": SIX}}, [0.1644, 0.7125, 0.8769]),
        ({"class_weight": {"d": CLASSES}}, [0.6584, 0.7125, 1.371]),
        ({"class_weight": [CLASSES, None]}, [0.6584, 0.7125, 1.371]),
    ],
)
def test_of_each_output(weights, losses):
    assert _several(**weights) == losses


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        (
            {"sample_weight": SIX},
            TypeError,
            "multiple outputs, so `sample_weight` should be either a list",
        ),
        (
            {"sample_weight": [SIX]},
            ValueError,
            "`sample_weight` was a list of 1 elements, but the model has 2",
        ),
        ({"sample_weight": {"z": SIX}}, ValueError, r"Unknown entries in sample_weight dictionary: \['z'\]"),
        ({"class_weight": CLASSES}, ValueError, r"Unknown entries in class_weight dictionary: \[0, 1, 2, 3\]"),
        ({"class_weight": 3}, TypeError, "multiple outputs, so `class_weight` should be either a list"),
        ({"sample_weight": [np.ones((6, 2)), SIX]}, ValueError, r"Found a sample_weight array with shape \(6, 2\)"),
        ({"sample_weight": [SIX[:3], SIX]}, ValueError, "sample_weight cannot be broadcast"),
    ],
)
def test_what_several_outputs_refuse(weights, error, words):
    with pytest.raises(error, match=words):
        _several(**weights)


def test_of_one_output():
    assert _one(sample_weight=[SIX]) == _one(sample_weight=SIX) == 0.5686
    assert _one(class_weight={0: 1, 1: 2, 2: 3}, sample_weight=SIX) == 1.0984
    assert _one(class_weight="auto") == _one()
    with pytest.raises(ValueError, match=r"The classes \{1, 2\} exist in the data"):
        _one(class_weight={0: 1.0})


def test_dot_refuses_what_it_cannot_multiply():
    dot = tf.keras.layers.Dot
    with pytest.raises(TypeError, match="Invalid type for `axes`"):
        dot("x")
    with pytest.raises(ValueError, match="should contain two elements"):
        dot([1, 2, 3])
    with tf.Graph().as_default():
        x = tf.keras.Input((4,))
        for inputs in ([x, x, x], x):
            with pytest.raises(ValueError, match="should be called on a list of 2 inputs"):
                dot(1)(inputs)


def test_clones_on_variables():
    with tf.Graph().as_default():
        x = tf.keras.Input((4,))
        model = tf.keras.Model(x, tf.keras.layers.Dense(2)(x))
        clone = tf.keras.models.clone_model(model, tf.keras.backend.variable(np.ones((10, 4))))
        clone.compile("sgd", "mse")
        assert clone.output_shape == (10, 2)
        assert np.isfinite(clone.train_on_batch(None, np.ones((10, 2))))
