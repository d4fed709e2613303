"""Models of ``tf.keras`` that say in ``call`` what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER


@pytest.mark.parametrize("at_once", [False, True])
def test_a_step_tells_training_whatever_the_default_of_call_says(at_once):
    class Dropping(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.drop = tf.keras.layers.Dropout(0.5)
            self.dense = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")

        def call(self, inputs, training=False):
            return self.dense(self.drop(inputs, training=training))

    x, y = np.ones((10, 10), np.float32), np.full((10, 1), 10.0, np.float32)
    with EAGER.as_default() if at_once else tf.Graph().as_default():
        model = Dropping()
        np.testing.assert_allclose(model.predict(x), y)
        model.compile("sgd", "mse")
        assert model.train_on_batch(x, y) > 0.1
        assert Dropping().call(tf.constant(x)).shape.as_list() == [10, 1]


def test_models_of_ones_own_train_on_tensors_and_placeholders_of_a_program():
    class Two(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = tf.keras.layers.Dense(2), tf.keras.layers.Dense(3)

        def call(self, inputs):
            return [self.first(inputs[0]), self.second(inputs[1])]

    with tf.Graph().as_default():
        model = Two()
        model.compile("sgd", "mse")
        x = tf.ones([10, 5])
        history = model.fit([x, x], [tf.zeros([10, 2]), tf.zeros([10, 3])], steps_per_epoch=2, verbose=0).history
        assert sorted(history) == ["loss", "output_1_loss", "output_2_loss"]
        model = Two()
        model._set_inputs([tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None, 5])])
        model.compile("sgd", "mse")
        x = np.ones((4, 5))
        assert np.isfinite(model.train_on_batch({"input_1": x, "input_2": x}, [x[:, :2], x[:, :3]])).all()


@pytest.mark.parametrize("at_once", [False, True])
def test_validation_on_a_dataset_begins_anew_and_is_logged(at_once, tmp_path):
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    with EAGER.as_default() if at_once else tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="zeros")])
        model.compile(tf.keras.optimizers.SGD(0.0), "mse")
        dataset = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(3).repeat()
        board = tf.keras.callbacks.TensorBoard(str(tmp_path))
        history = model.fit(
            x, x[:, :1], epochs=3, validation_data=dataset, validation_steps=2, callbacks=[board], verbose=0
        ).history
    expected = np.mean(x[:6, 0] ** 2)
    np.testing.assert_allclose(history["val_loss"], [expected] * 3, rtol=1e-5)
    (path,) = tmp_path.iterdir()
    written = [v.simple_value for e in tf.train.summary_iterator(str(path)) for v in e.summary.value if "val" in v.tag]
    np.testing.assert_allclose(written, [expected] * 3, rtol=1e-5)


class Minimal(tf.keras.layers.AbstractRNNCell):
    """A cell of one's own: the input plus half of the state."""

    def __init__(self, units, **kwargs):
        self.units = units
        super().__init__(**kwargs)

    @property
    def state_size(self):
        return self.units

    @property
    def output_size(self):
        return self.units

    def call(self, inputs, states):
        output = inputs + states[0] / 2.0
        return output, [output]


def test_a_cell_of_ones_own():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([[[1.0, 2.0], [4.0, 8.0]]])
        cells = [Minimal(2), Minimal(2)]
        last = session.run([tf.keras.layers.RNN(cells[0])(x), tf.keras.layers.RNN(cells)(x)])
        assert [value.tolist() for value in last] == [[[4.5, 9.0]], [[5.0, 10.0]]]
        assert session.run(cells[0].get_initial_state(batch_size=3, dtype=tf.float32)).tolist() == [[0.0, 0.0]] * 3
        with pytest.raises(NotImplementedError, match="Abstract method"):
            _ = tf.keras.layers.AbstractRNNCell().state_size
        with pytest.raises(NotImplementedError, match=r"def output_size\(self\)"):
            _ = tf.keras.layers.AbstractRNNCell().output_size
        with pytest.raises(NotImplementedError, match=r"def call\(self, inputs, states\)"):
            tf.keras.layers.AbstractRNNCell().call(x, [x])
