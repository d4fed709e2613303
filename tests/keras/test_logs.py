"""What `fit` prints and tells callbacks; as TensorFlow 1.15.5 does."""

import re

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

L = tf.keras.layers
X = np.arange(20, dtype=np.float32).reshape(20, 1) / 20


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield
    tf.keras.backend.clear_session()


def model(**arguments):
    made = tf.keras.Sequential([L.Dense(1, input_shape=(1,), kernel_initializer="ones")])
    made.compile(tf.keras.optimizers.SGD(0.0), "mse", **arguments)
    return made


def printed(capsys):
    return re.sub(r"\d+(us|ms|s)\b", "#", capsys.readouterr().out)


def test_a_bar_counts_in_columns(capsys):
    model().fit(X, X, batch_size=8, verbose=1, shuffle=False)
    lines = printed(capsys).splitlines()
    assert lines[0] == "Train on 20 samples"
    text = "\r".join(lines[1:])
    assert "\r 8/20 [===========>..................] - ETA: # - loss: 0.0000e+00" in f"\r{text}"
    assert "20/20 [==============================] - # #/sample - loss: 0.0000e+00" in text


def test_a_bar_of_unknown_length(capsys):
    bar = tf.keras.utils.Progbar(None, unit_name="batch", interval=0)
    bar.update(3, [("loss", 1.0)])
    assert printed(capsys).strip("\r\n ") == "3/Unknown - # #/batch - loss: 1.0000"


def test_the_time_that_is_left(capsys):
    bar = tf.keras.utils.Progbar(10, interval=0)
    bar._start -= 1000
    bar.update(1)
    assert re.search(r"ETA: 2:30:\d\d", capsys.readouterr().out)
    bar.update(8)
    assert re.search(r"ETA: 4:1\d", capsys.readouterr().out)
    bar.update(10)
    assert " 100s/step" in capsys.readouterr().out


def test_steps_of_a_dataset_are_counted_before(capsys):
    data = tf.data.Dataset.from_tensor_slices((X, X)).batch(5)
    model().fit(data, validation_data=data.take(2), verbose=2)
    assert printed(capsys).startswith("Train on 4 steps, validate on 2 steps\n4/4 - # - loss: ")


def test_steps_where_ops_run_at_once(capsys):
    with mode.eager_mode():
        data = tf.data.Dataset.from_tensor_slices((X, X)).batch(5)
        model().fit(data, verbose=2)
        assert printed(capsys).startswith("4/4")
        model().fit(data, steps_per_epoch=4, validation_data=data, validation_steps=2, verbose=2)
        assert printed(capsys).startswith("Train for 4 steps, validate for 2 steps\n4/4")


def test_validation_tells_callbacks_that_it_begins_and_ends():
    told = []

    class Told(tf.keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            told.append("begin")

        def on_test_batch_end(self, batch, logs=None):
            told.append(batch)

        def on_test_end(self, logs=None):
            told.append("end")

    model().fit(X, X, validation_data=(X, X), batch_size=10, epochs=2, verbose=0, callbacks=[Told()])
    assert told == ["begin", 0, 1, "end"] * 2


@pytest.mark.parametrize("where", ["graph", "eager"])
def test_a_sequence_is_told_the_end_of_each_epoch(where):
    class Batches(tf.keras.utils.Sequence):
        ends = 0

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return X[i : i + 2], X[i : i + 2]

        def on_epoch_end(self):
            self.ends += 1

    with mode.eager_mode() if where == "eager" else tf.Graph().as_default():
        batches = Batches()
        model().fit_generator(batches, epochs=2, verbose=0)
        assert batches.ends == 2
        model().fit_generator(batches, steps_per_epoch=2, epochs=3, verbose=0)
        assert batches.ends == 4


def test_what_is_refused():
    with pytest.raises(ValueError, match="No targets provided for"):
        model().fit(X, verbose=0)
    with pytest.raises(ValueError, match="must contain 2 items"):
        model().fit(X, X, validation_data=(X,), verbose=0)
    data = tf.data.Dataset.from_tensor_slices((X, X)).batch(5)
    with pytest.raises(ValueError, match="`sample_weight` argument is not supported"):
        model().fit(data, sample_weight=np.ones(20), verbose=0)
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        L.LSTM(3)(tf.keras.Input((3,)))
    with pytest.raises(ValueError, match=r"`momentum` must be between \[0, 1\]"):
        tf.keras.optimizers.SGD(0.1, momentum=2.0)


def test_a_layer_that_was_called_twice_gives_its_first_output():
    layer = L.Dense(3)
    first = layer(tf.keras.Input((4,)))
    layer(tf.keras.Input((4,)))
    assert layer.output is first


def test_a_model_of_ones_own_has_no_input():
    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.out = L.Dense(1)

        def call(self, x):
            return self.out(x)

    own = Own()
    own.compile("sgd", "mse")
    own.fit(X, X, verbose=0)
    with pytest.raises(AttributeError, match="has never been called"):
        own.input
    lines = []
    own.summary(print_fn=lines.append)
    assert "multiple" in "\n".join(lines)
    other = Own()
    other.build((None, 2))
    assert [v.name for v in other.weights] == ["dense_1/kernel:0", "dense_1/bias:0"]


def test_slots_of_ftrl_stand_by_weight():
    made = tf.keras.Sequential([L.Dense(1, input_shape=(1,))])
    made.compile("ftrl", "mse")
    made.fit(X, X, verbose=0)
    ends = [v.name.split("/")[-2:] for v in made.optimizer.weights[1:]]
    assert [f"{a}/{b}" for a, b in ends] == [
        f"{weight}/{slot}:0" for weight in ("kernel", "bias") for slot in ("accumulator", "linear")
    ]
    assert tf.keras.metrics.AUC(num_thresholds=3).get_config()["thresholds"] == [0.5]
