"""Training of models in a graph with a seed, beside TensorFlow 1.15.5."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def afterwards():
    """The default graph is the program's own here, as a cleared session makes it; the next test gets another."""
    yield
    tf.keras.backend.clear_session()
    tf.reset_default_graph()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("images", [1.301758, 1.218259]), ("words", [0.327975, 0.310987]), ("steps", [1.160893, 1.092039])],
)
def test_training_with_seeds_repeats_tensorflows(name, expected):
    """Losses of TensorFlow 1.15.5 from a cleared session: initial weights, order of samples and dropout are its own."""
    layers = tf.keras.layers
    random = np.random.RandomState(0)
    images, steps = random.rand(32, 8, 8, 1).astype("f"), random.rand(32, 5, 4).astype("f")
    words = random.randint(1, 20, (32, 6))
    words[:, 4:] *= random.randint(0, 2, (32, 2))
    classes, targets = random.randint(0, 3, 32), random.rand(32, 1).astype("f")
    tf.keras.backend.clear_session()
    assert [op.name for op in tf.get_default_graph().get_operations()][-1] == "keras_learning_phase"
    tf.set_random_seed(1)
    np.random.seed(1)
    if name == "images":
        parts = [layers.Conv2D(4, 3, activation="relu", input_shape=(8, 8, 1)), layers.MaxPooling2D(), layers.Flatten()]
        parts += [layers.Dense(8, activation="relu"), layers.Dropout(0.3), layers.Dense(3, activation="softmax")]
        data, optimizer, loss = (images, classes), "adam", "sparse_categorical_crossentropy"
    elif name == "words":
        parts = [layers.Embedding(20, 4, mask_zero=True), layers.Bidirectional(layers.LSTM(3, dropout=0.2))]
        parts += [layers.Dense(1)]
        data, optimizer, loss = (words, targets), "rmsprop", "mse"
    else:
        parts = [layers.TimeDistributed(layers.Dense(3), input_shape=(5, 4)), layers.SpatialDropout1D(0.2)]
        parts += [layers.Flatten(), layers.Dense(1)]
        data, optimizer, loss = (steps, targets), "adam", "mse"
    model = tf.keras.Sequential(parts)
    model.compile(optimizer, loss)
    history = model.fit(*data, epochs=2, batch_size=8, verbose=0).history
    np.testing.assert_allclose(history["loss"], expected, rtol=1e-4)
