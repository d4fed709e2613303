"""`tf.keras` models over eight devices. Not collected by itself: `test_strategies.py` runs it where they are."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

keras = tf.keras
CPUS = [f"/cpu:{i}" for i in range(8)]


@pytest.fixture(autouse=True)
def _graph():
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def numbers(*shape, start=0.0):
    return (np.sin(np.arange(int(np.prod(shape))) * 1.7 + start) * 0.5).reshape(shape).astype(np.float32)


def strategy(count, kind=tf.distribute.MirroredStrategy):
    return kind(CPUS[:count]) if count > 1 else tf.distribute.OneDeviceStrategy(CPUS[0])


def mlp():
    layers = keras.layers
    penalty = keras.regularizers.l2(0.01)
    model = keras.Sequential([layers.Dense(8, "relu", input_shape=(5,), kernel_regularizer=penalty)])
    model.add(layers.Dense(3, "softmax"))
    return model


def recurrent():
    x = start = keras.Input((4,), dtype="int32")
    x = keras.layers.Embedding(10, 6, mask_zero=True)(x)
    x = keras.layers.LSTM(7)(x)
    return keras.Model(start, keras.layers.Dense(3, "softmax")(x))


def with_added():
    start = keras.Input((5,))
    hidden = keras.layers.Dense(4, "tanh")(start)
    model = keras.Model(start, keras.layers.Dense(3, "softmax")(hidden))
    model.add_loss(tf.reduce_mean(tf.square(hidden)))
    model.add_metric(tf.reduce_mean(hidden), "mean", "hidden")
    return model


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.last = keras.layers.Dense(6, "relu"), keras.layers.Dense(3, "softmax")
        self.drop = keras.layers.Dropout(0.0)

    def call(self, inputs, training=False):
        return self.last(self.drop(self.first(inputs), training=training))


def history(build, make_optimizer, count, rows, batch=16, kind=tf.distribute.MirroredStrategy, **arguments):
    """What training, evaluation and prediction give; the model starts with numbers that are the same everywhere."""
    keras.backend.clear_session()
    x = np.arange(rows * 4).reshape(rows, 4) * 7 % 10 if build is recurrent else numbers(rows, 5, start=2.0)
    y = np.arange(rows) % 3
    with strategy(count, kind).scope():
        model = build()
        model.compile(
            make_optimizer(), "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["mae"]
        )
    if build is Own:
        model.predict(x[:batch])
    model.set_weights([numbers(*value.shape, start=float(i)) for i, value in enumerate(model.get_weights())])
    fit = model.fit(
        x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0, validation_data=(x[:10], y[:10]), **arguments
    )
    parts = [np.ravel(values) for _, values in sorted(fit.history.items())]
    parts += [model.evaluate(x, y, batch_size=batch, verbose=0), model.predict(x, batch_size=batch).ravel()]
    parts += [model.train_on_batch(x[:9], y[:9]), *[value.ravel() for value in model.get_weights()]]
    return np.concatenate(parts)


OPTIMIZERS = {
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, decay=0.01),
    "adam": lambda: keras.optimizers.Adam(0.05),
    "tf.train": lambda: tf.train.AdagradOptimizer(0.1),
}


@pytest.mark.parametrize(
    ("build", "optimizer", "count", "rows"),
    [
        (mlp, "momentum", 2, 48),
        (mlp, "adam", 4, 40),
        (mlp, "tf.train", 3, 37),
        (recurrent, "adam", 2, 40),
        (with_added, "momentum", 8, 48),
        (Own, "adam", 2, 41),
    ],
)
def test_a_step_is_that_of_one_device(build, optimizer, count, rows):
    alone, together = (history(build, OPTIMIZERS[optimizer], n, rows) for n in (1, count))
    np.testing.assert_allclose(together, alone, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("build", [mlp, recurrent])
def test_weights_may_be_in_one_place(build):
    central = tf.distribute.experimental.CentralStorageStrategy
    alone, together = (history(build, OPTIMIZERS["adam"], n, 40, kind=central) for n in (1, 4))
    np.testing.assert_allclose(together, alone, rtol=2e-4, atol=2e-5)


def test_weights_of_samples_and_classes():
    weights = {"sample_weight": numbers(40) + 1.0}
    alone, together = (history(mlp, OPTIMIZERS["adam"], n, 40, **weights) for n in (1, 4))
    np.testing.assert_allclose(together, alone, rtol=2e-4, atol=2e-5)


def test_statistics_of_batches_are_those_of_each_replica():
    """Each has the mean and the variance of its rows; what is kept is the mean of both, as in TensorFlow."""
    with strategy(2).scope():
        model = keras.Sequential([keras.layers.BatchNormalization(momentum=0.5, input_shape=(1,))])
        model.compile("sgd", "mse")
    x = np.float32([[1.0], [3.0], [10.0], [20.0]])
    model.train_on_batch(x, x * 0)
    mean, variance = model.get_weights()[2:]
    np.testing.assert_allclose(mean, [0.5 * (2.0 + 15.0) / 2], rtol=1e-6)
    np.testing.assert_allclose(variance, [0.5 + 0.5 * (1.0 + 25.0) / 2], rtol=1e-6)


def test_rates_can_be_set_and_weights_saved(tmp_path):
    with strategy(2).scope():
        model = mlp()
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    keras.backend.set_value(model.optimizer.lr, 0.0)
    before = model.get_weights()
    model.fit(numbers(8, 5), np.arange(8) % 3, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    model.save_weights(str(tmp_path / "w.h5"))
    model.set_weights([value * 0 for value in before])
    model.load_weights(str(tmp_path / "w.h5"))
    np.testing.assert_array_equal(model.get_weights()[0], before[0])


def test_what_is_refused():
    outside = mlp()
    with strategy(2).scope():
        with pytest.raises(ValueError, match="was not created in the distribution strategy scope"):
            outside.compile("sgd", "sparse_categorical_crossentropy")
        model = keras.Sequential([keras.layers.LSTM(2, stateful=True, batch_input_shape=(4, 3, 2))])
        with pytest.raises(tf.errors.UnimplementedError, match="keeps its state"):
            model.compile("sgd", "mse")
        norm = keras.Sequential([keras.layers.BatchNormalization(input_shape=(1,))])
        norm.compile("sgd", "mse")
    with pytest.raises(ValueError, match="a batch of 1 rows on 2 replicas"):
        norm.train_on_batch(np.ones((1, 1)), np.ones((1, 1)))
