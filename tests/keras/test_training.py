"""Keras' models are trained, used, written and read."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

pytestmark = pytest.mark.usefixtures("eager")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 4)).astype(np.float32)
Y = X @ np.float32([[1], [-2], [0.5], [3]])
QUIET = {"verbose": 0}


def dense(keras):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


@pytest.mark.parametrize("eagerly", [False, True], ids=["function", "eager"])
def test_fit_evaluate_predict(keras, eagerly):
    model = dense(keras)
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], run_eagerly=eagerly)
    history = model.fit(X, Y, epochs=20, batch_size=8, **QUIET).history
    assert history["loss"][-1] < 0.01 * history["loss"][0]
    predicted = model.predict(X, **QUIET)
    np.testing.assert_allclose(predicted, X @ model.layers[0].kernel.numpy() + model.layers[0].bias.numpy(), atol=1e-5)
    loss, mae = model.evaluate(X, Y, **QUIET)
    np.testing.assert_allclose([loss, mae], [((predicted - Y) ** 2).mean(), abs(predicted - Y).mean()], rtol=1e-3)


def test_a_batch_and_jit_compile(keras):
    model = dense(keras)
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=True)
    kernel = model.layers[0].kernel.numpy()
    loss = model.train_on_batch(X, Y)
    error = X @ kernel - Y
    np.testing.assert_allclose(loss, (error**2).mean(), rtol=1e-5)
    np.testing.assert_allclose(
        model.layers[0].kernel.numpy(), kernel - 0.1 * 2 * X.T @ error / 32, rtol=1e-4, atol=1e-6
    )


def test_several_steps_in_one_call(keras):
    random = np.random.RandomState(0)
    x, y = random.normal(size=(14, 4)).astype(np.float32), random.normal(size=(14, 1)).astype(np.float32)
    losses = []
    for steps in (1, 3):
        model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse", steps_per_execution=steps)
        losses.append(model.fit(x, y, batch_size=2, epochs=2, shuffle=False, verbose=0).history["loss"])
    assert losses[0][1] < losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_a_training_step_of_ones_own(keras):
    class Mine(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                error = tf.reduce_mean(tf.square(self(x, training=True) - y))
            self.optimizer.apply(tape.gradient(error, self.trainable_weights), self.trainable_weights)
            return {"error": error}

    keras.utils.set_random_seed(0)
    model = Mine()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    errors = model.fit(X, Y, epochs=20, **QUIET).history["error"]
    assert errors[-1] < 0.1 * errors[0]


def test_datasets_and_generators(keras):
    model = dense(keras)
    model.compile("sgd", "mse")
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    assert np.isfinite(model.fit(dataset, shuffle=False, **QUIET).history["loss"][0])
    with pytest.warns(UserWarning, match="ran out of data"):
        model.fit(((X[:8], Y[:8]) for _ in range(3)), shuffle=False, **QUIET)
    assert int(model.optimizer.iterations.numpy()) == 7


def test_mixed_precision(keras):
    half = keras.layers.Dense(8, dtype="mixed_float16")
    model = keras.Sequential([keras.Input((4,)), half, keras.layers.Dense(1, dtype="float32")])
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "mse")
    assert np.isfinite(model.fit(X, Y, **QUIET).history["loss"][0])
    assert (half.compute_dtype, half(X).dtype) == ("float16", tf.float16)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables
def test_layers_and_files(keras, tmp_path):
    layers = keras.layers
    images = RNG.normal(size=(8, 8, 8, 3)).astype(np.float32)
    words = RNG.integers(0, 10, (8, 5))
    models = [
        (
            [keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.MaxPooling2D()]
            + [layers.Flatten(), layers.Dropout(0.3), layers.Dense(3, "softmax")],
            images,
        ),
        (
            [keras.Input((5,)), layers.Embedding(10, 4, mask_zero=True), layers.LSTM(6, return_sequences=True)]
            + [layers.Bidirectional(layers.GRU(4)), layers.Dense(3, "softmax")],
            words,
        ),
    ]
    for parts, x in models:
        model = keras.Sequential(parts)
        model.compile("adam", "sparse_categorical_crossentropy")
        assert np.isfinite(model.fit(x, np.arange(8) % 3, **QUIET).history["loss"][0])
        expected = model.predict(x, **QUIET)
        for name in ("model.keras", "model.h5"):
            model.save(tmp_path / name)
            again = keras.saving.load_model(tmp_path / name)
            np.testing.assert_array_equal(again.predict(x, **QUIET), expected)


def test_orders_of_training_and_validation_are_those_of_tensorflow():
    random = np.random.RandomState(3)
    x = random.normal(size=(50, 4)).astype(np.float32)
    y = x[:, :1] ** 2
    weights = [random.normal(size=(4, 1)).astype(np.float32), np.zeros(1, np.float32)]
    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
        model.compile("sgd", "mse")
        model.set_weights(weights)
        np.random.seed(1)
        history = model.fit(x, y, epochs=3, batch_size=8, validation_data=(x[:20], y[:20]), verbose=0).history
        split = model.fit(x, y, epochs=3, batch_size=8, validation_split=0.4, verbose=0).history
    # What TensorFlow 1.15.5 gives.
    np.testing.assert_allclose(history["loss"], [4.8237865, 4.3689824, 4.0132617], rtol=1e-5)
    np.testing.assert_allclose(split["loss"], [3.6606156, 3.2448383, 2.9876904], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "arguments", "rates"),
    [
        ("CosineDecay", (10, 0.2), [0.1, 0.083511, 0.036489, 0.02]),
        ("CosineDecayRestarts", (5,), [0.1, 0.034549, 0.090451, 0.020611]),
        ("LinearCosineDecay", (10,), [0.1001, 0.055672, 0.006283, 0.0001]),
        ("NoisyLinearCosineDecay", (10, 0.0), [0.1001, 0.055672, 0.006283, 0.0001]),
    ],
)
def test_cosine_schedules(eager, name, arguments, rates):
    """Rates of TensorFlow 1.15.5."""
    schedule = getattr(tf.keras.experimental, name)(0.1, *arguments)
    again = type(schedule).from_config(schedule.get_config())
    assert [float(again(step)) for step in (0, 3, 7, 12)] == pytest.approx(rates, abs=1e-6)
