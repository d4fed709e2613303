"""Linear models, models with two optimizers, the order of weights, how many samples a step takes, and what is told.

Values are those that TensorFlow 1.15.5 gives for the same programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER

K = tf.keras.backend
L = tf.keras.layers


@pytest.fixture(autouse=True)
def _own_graph() -> Iterator[None]:
    K.clear_session()
    with tf.Graph().as_default():
        yield
    K.clear_session()


def _data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    x = random.randn(64, 5).astype(np.float32)
    return x, (x @ random.randn(5, 1) + 0.1 * random.randn(64, 1)).astype(np.float32)


def test_a_linear_model() -> None:
    x, y = _data()
    model = tf.keras.experimental.LinearModel(kernel_initializer="ones", bias_initializer="ones")
    model.compile("sgd", "mse", ["mae"])
    history = model.fit(x, y, epochs=5, batch_size=16, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [16.6033, 13.8295, 11.5263, 9.61266, 8.02184], rtol=1e-5)
    np.testing.assert_allclose(model.predict(x[:3])[:, 0], [3.1865, 0.558857, 1.9866], rtol=1e-5)
    assert [v.name for v in model.variables] == ["linear_model/dense/kernel:0", "linear_model/bias:0"]
    assert [w.shape for w in model.get_weights()] == [(5, 1), (1,)]
    again = tf.keras.experimental.LinearModel.from_config(model.get_config())
    assert again.units == 1
    with pytest.raises(ValueError, match="Expected 1 inputs, but got 2 inputs"):
        model.call([tf.constant(x), tf.constant(x)])


def test_a_linear_model_of_two_inputs() -> None:
    x, y = _data()
    model = tf.keras.experimental.LinearModel(activation="sigmoid", kernel_initializer="zeros")
    model.compile("adagrad", "binary_crossentropy")
    history = model.fit([x[:, :2], x[:, 2:]], y > 0, epochs=3, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [0.692838, 0.691637, 0.690831], rtol=1e-5)


def _wide_and_deep(**kwargs: Any) -> Any:
    deep = tf.keras.Sequential(
        [
            L.Dense(6, activation="relu", kernel_initializer="ones"),
            L.Dense(1, kernel_initializer=tf.keras.initializers.Constant(0.2)),
        ]
    )
    linear = tf.keras.experimental.LinearModel(kernel_initializer="zeros")
    return tf.keras.experimental.WideDeepModel(linear, deep, **kwargs)


def test_a_wide_and_deep_model_trains_each_part_by_its_own_optimizer() -> None:
    x, y = _data()
    model = _wide_and_deep()
    model.compile(["sgd", "adam"], "mse", ["mse"])
    history = model.fit([x, x], y, epochs=4, batch_size=16, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [7.35452, 6.92079, 6.51535, 6.13345], rtol=1e-5)
    found = model.predict([x[:4], x[:4]])[:, 0]
    np.testing.assert_allclose(found, [3.22538, -0.0244839, 1.3453, 0.431936], rtol=1e-4)
    assert [type(one).__name__ for one in model.optimizer] == ["SGD", "Adam"]
    assert sorted(model.get_config()) == ["activation", "dnn_model", "dtype", "linear_model", "name", "trainable"]


def test_a_wide_and_deep_model_where_ops_run_at_once() -> None:
    x, y = _data()
    with EAGER.as_default():
        model = _wide_and_deep()
        model.compile(["sgd", "adam"], "mse")
        history = model.fit([x, x], y, epochs=4, batch_size=16, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [7.35452, 6.92079, 6.51535, 6.13345], rtol=1e-5)


def test_one_optimizer_serves_both_parts() -> None:
    x, y = _data()
    linear = tf.keras.experimental.LinearModel(kernel_initializer="zeros")
    deep = tf.keras.Sequential([L.Dense(1, kernel_initializer="ones", input_shape=(5,))])
    model = tf.keras.experimental.WideDeepModel(linear, deep, activation="tanh")
    model.compile("rmsprop", "mae")
    history = model.fit(x, y, epochs=3, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [2.00264, 1.99967, 1.99756], rtol=1e-5)


def test_lists_of_optimizers_are_refused_where_they_do_not_fit() -> None:
    x, y = _data()
    plain = tf.keras.Sequential([L.Dense(1, input_shape=(5,))])
    with pytest.raises(ValueError, match="2 optimizers of sequential"):
        plain.compile(["sgd", "adam"], "mse")
    model = _wide_and_deep()
    model.compile(["sgd", "adam", "sgd"], "mse")
    with pytest.raises(ValueError, match="3 optimizers of wide_deep_model"):
        model.fit(x, y, verbose=0)


def test_weights_of_a_model_stand_behind_those_of_its_layers() -> None:
    class Block(L.Layer):
        def build(self, shape: Any) -> None:
            self.gain = self.add_weight("gain", (1,), trainable=False)
            self.scale = self.add_weight("scale", (1,))
            self.inner = L.Dense(1, name="inner")

        def call(self, x: Any) -> Any:
            return self.inner(x * self.scale * self.gain)

    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__(name="net")
            self.blocks = [Block(name="a"), Block(name="b")]
            self.last = L.Dense(1, name="last")

        def build(self, shape: Any) -> None:
            self.own = self.add_weight("own", (1,))
            self.built = True

        def call(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.last(x) + self.own

    net = Net()
    net(tf.zeros([2, 3]))

    def names(weights: Any) -> list[str]:
        return [weight.name.removeprefix("net/").removesuffix(":0") for weight in weights]

    trained = ["a/scale", "a/inner/kernel", "a/inner/bias", "b/scale", "b/inner/kernel", "b/inner/bias"]
    last = ["last/kernel", "last/bias"]
    assert names(net.weights) == [*trained, "a/gain", "b/gain", *last, "own"]
    assert names(net.trainable_weights) == [*trained, *last, "own"]
    assert names(net.non_trainable_weights) == ["a/gain", "b/gain"]


def test_an_input_says_how_many_samples_a_step_takes() -> None:
    x = L.Input(batch_shape=(4, 3, 2))
    model = tf.keras.Model(x, L.LSTM(1, stateful=True)(x))
    model.compile("sgd", "mse")
    data = np.ones((8, 3, 2), np.float32)
    assert len(model.fit(data, np.ones((8, 1)), verbose=0).history["loss"]) == 1
    assert model.predict(data).shape == (8, 1)
    with pytest.raises(ValueError, match="`batch_size` argument value 3 is incompatible with the specified batch size"):
        model.predict(data[:6], batch_size=3)


def test_targets_without_a_loss_are_refused() -> None:
    x = L.Input((3,))
    y = L.Dense(1)(x)
    model = tf.keras.Model(x, y)
    model.add_loss(tf.reduce_mean(y))
    model.compile("sgd")
    data = np.ones((4, 3), np.float32)
    assert len(model.fit(data, verbose=0).history["loss"]) == 1
    with pytest.raises(ValueError, match="expected no data, but got"):
        model.fit(data, np.ones((4, 1)), verbose=0)


def test_a_dataset_is_not_split() -> None:
    model = tf.keras.Sequential([L.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((np.ones((4, 3)), np.ones((4, 1)))).batch(2)
    with pytest.raises(ValueError, match="not supported when input `x` is a dataset or a dataset iterator"):
        model.fit(data, validation_split=0.5, verbose=0)


@pytest.mark.parametrize("option", ["lr", "decay", "clipnorm", "clipvalue"])
def test_options_of_optimizers_are_not_negative(option: str) -> None:
    with pytest.raises(ValueError, match=f"Expected {option} >= 0, received: -1.0"):
        tf.keras.optimizers.SGD(**{option: -1.0})


def test_values_between_epochs_are_written_at_the_number_of_the_batch(tmp_path: Any) -> None:
    model = tf.keras.Sequential([L.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    board = tf.keras.callbacks.TensorBoard(str(tmp_path), write_graph=False, update_freq=32)
    model.fit(np.ones((64, 3)), np.ones((64, 1)), batch_size=16, epochs=2, verbose=0, callbacks=[board])
    steps: dict[str, list[int]] = {}
    for path in sorted(tmp_path.glob("events*")):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
    assert steps == {"batch_loss": [1, 3, 5, 7], "epoch_loss": [64, 128]}
