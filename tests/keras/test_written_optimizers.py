"""Optimizers that programs write for ``tf.keras`` of version 1; the numbers are TensorFlow 1.15.5's."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER

keras = tf.keras
LOSSES = [0.5243969, 0.5055532, 0.4975265]
SUMS = [-1.65799, -0.329538, 0.469567, -0.243775, 0.160319]


class Mine(keras.optimizers.Optimizer):
    """Momentum with a growing divisor, three slots, and rows of their own."""

    def __init__(self, learning_rate=0.1, beta=0.9, name="Mine", **kwargs):
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta", beta)

    def _create_slots(self, var_list):
        for var in var_list:
            self.add_slot(var, "m")
            self.add_slot(var, "n", initializer="ones")
            self.add_slot(var, "o", initializer=keras.initializers.Constant(0.5))

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype]["beta"] = tf.identity(self._get_hyper("beta", var_dtype))

    def _resource_apply_dense(self, grad, var, apply_state=None):
        key = var.device, var.dtype.base_dtype
        shared = (apply_state or {}).get(key) or self._fallback_apply_state(*key)
        m, n, o = (self.get_slot(var, name) for name in "mno")
        new_m = tf.assign(m, shared["beta"] * m + (1 - shared["beta"]) * grad, use_locking=self._use_locking)
        new_n = tf.assign(n, n + grad * grad)
        with tf.control_dependencies([new_m, new_n]):
            return tf.group(tf.assign_sub(var, shared["lr_t"] * new_m / (tf.sqrt(new_n) + o + 1e-3)), new_m, new_n)

    def _resource_apply_sparse(self, grad, var, indices):
        m = self._resource_scatter_add(self.get_slot(var, "m"), indices, grad)
        step = -self._decayed_lr(var.dtype.base_dtype) * tf.gather(m, indices)
        return self._resource_scatter_add(var, indices, step)

    def get_config(self):
        names = ("learning_rate", "beta")
        return {**super().get_config(), **{name: self._serialize_hyperparameter(name) for name in names}}


@pytest.mark.parametrize("eager", [False, True])
def test_an_optimizer_with_its_own_updates_of_rows_and_of_whole_weights(eager):
    x, y = np.random.RandomState(0).randint(0, 6, (32, 4)), np.sin(np.arange(32)).astype(np.float32)
    with EAGER.as_default() if eager else tf.Graph().as_default():
        model = keras.Sequential(
            [
                keras.layers.Embedding(6, 3, input_length=4),
                keras.layers.Flatten(),
                keras.layers.Dense(2, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.7)),
                keras.layers.Dense(1),
            ]
        )
        random = np.random.RandomState(1)
        model.set_weights([0.5 * random.randn(*weight.shape) for weight in model.get_weights()])
        optimizer = Mine(0.2, decay=0.1)
        model.compile(optimizer, "mse")
        history = model.fit(x, y, epochs=3, batch_size=8, verbose=0, shuffle=False)
        np.testing.assert_allclose(history.history["loss"], LOSSES, rtol=1e-4)
        np.testing.assert_allclose([weight.sum() for weight in model.get_weights()], SUMS, rtol=1e-3)
        assert len(optimizer.get_weights()) == 16
        config = optimizer.get_config()
        assert sorted(config) == ["beta", "learning_rate", "name"]
        np.testing.assert_allclose([config["beta"], config["learning_rate"]], [0.9, 0.2])
        optimizer.learning_rate = 0.01
        np.testing.assert_allclose(keras.backend.get_value(optimizer.lr), 0.01)


def test_an_update_that_is_not_written_is_refused():
    class Rows(keras.optimizers.Optimizer):
        def _resource_apply_dense(self, grad, var):
            return var.assign_sub(grad)

    with tf.Graph().as_default():
        table = tf.get_variable("table", [4, 2], use_resource=True)
        optimizer = Rows("rows")
        assert list(Rows(None, decay=0.5)._hyper) == []
        assert [Rows(None)._name for _ in range(2)] == ["rows_1", "rows_2"]
        with pytest.raises(NotImplementedError, match="Rows without _resource_apply_sparse"):
            optimizer.minimize(tf.reduce_sum(tf.gather(table, [1])), [table])


@pytest.mark.parametrize("fed", [True, False])
def test_targets_of_one_axis_become_a_column_as_tensors_too(fed):
    x, y = np.ones([5, 3], np.float32), np.arange(5) % 4
    with tf.Graph().as_default():
        model = keras.Sequential([keras.layers.Dense(4, "softmax", input_shape=(3,), kernel_initializer="ones")])
        model.compile("sgd", "sparse_categorical_crossentropy")
        loss = model.test_on_batch(x, y) if fed else model.evaluate(tf.constant(x), tf.constant(y), steps=1, verbose=0)
        np.testing.assert_allclose(loss, np.log(4), rtol=1e-5)


def test_adagrad_by_its_name_begins_at_zero():
    """So its first step is as long as the rate, whatever the gradient."""
    with tf.Graph().as_default(), tf.Session():
        model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(2,))])
        model.compile("adagrad", "mse")
        model.train_on_batch(np.array([[1.0, 3.0]]), np.ones((1, 1)))
        np.testing.assert_allclose(np.ravel(model.get_weights()[0]), [0.001, 0.001], rtol=1e-4)
        assert keras.optimizers.Adagrad().get_config()["initial_accumulator_value"] == 0.1
        again = keras.optimizers.Adagrad.from_config(keras.optimizers.Adagrad(0.5).get_config())
        assert again.get_config()["initial_accumulator_value"] == 0.1
