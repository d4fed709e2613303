"""``tf.keras`` in programs of version 1: layers on tensors of a graph, trained by its sessions."""

from __future__ import annotations

import os

import numpy as np
import pytest

import anabranch as tf

K, L = tf.keras.backend, tf.keras.layers
X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
Y = X @ np.float32([[1], [-2], [0.5], [3]])
QUIET = {"verbose": 0}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
    K.clear_session()


def dense(**arguments):
    return tf.keras.Sequential([L.Dense(1, input_shape=(4,), **arguments)])


def test_tensors_of_a_model():
    x = tf.keras.Input((4,))
    hidden = L.Dense(3, activation="relu")(x)
    model = tf.keras.Model(x, L.Dense(1)(hidden))
    assert (model.input is x, model.layers[1].output is hidden) == (True, True)
    assert [v.name for v in tf.global_variables()] == [
        "dense/kernel:0",
        "dense/bias:0",
        "dense_1/kernel:0",
        "dense_1/bias:0",
    ]
    gradient = tf.gradients(model.output, x)[0]
    values = K.function([x], [model.output, gradient, model.layers[1].output])([X])
    kernels = model.get_weights()
    before = X @ kernels[0] + kernels[1]
    np.testing.assert_allclose(values[2], np.maximum(before, 0), rtol=1e-5)
    np.testing.assert_allclose(values[1], (before > 0) * kernels[2].T @ kernels[0].T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(K.get_session().run(model.output, {x: X}), model.predict(X), rtol=1e-6)


def test_a_training_loop_of_ones_own():
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    model = dense()
    loss = tf.reduce_mean(tf.square(model(x) - y))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=model.trainable_weights)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss, {x: X, y: Y})
        for _ in range(100):
            session.run(step, {x: X, y: Y})
        assert session.run(loss, {x: X, y: Y}) < 0.01 * first
        assert K.get_session() is session
        np.testing.assert_allclose(model.predict(X), Y, atol=0.5)


def test_the_learning_phase():
    model = tf.keras.Sequential([L.Dropout(0.5, input_shape=(100,))])
    ones = np.ones((4, 100), np.float32)
    session = K.get_session()
    assert (session.run(model.output, {model.input: ones}) == 1).all()
    trained = session.run(model.output, {model.input: ones, K.learning_phase(): True})
    assert set(np.unique(trained)) == {0, 2}
    x = tf.placeholder(tf.float32, (None, 100))
    assert (session.run(model(x, training=True), {x: ones}) == 0).any()
    K.set_learning_phase(1)
    assert (session.run(L.Dropout(0.5)(x), {x: ones}) == 0).any()
    with pytest.raises(ValueError, match="Expected learning phase to be 0 or 1"):
        K.set_learning_phase(2)


def test_updates_and_losses_of_layers():
    model = tf.keras.Sequential([L.Dense(2, input_dim=4, kernel_regularizer="l2"), L.BatchNormalization(momentum=0.5)])
    assert (len(model.updates), len(model.losses)) == (2, 1)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []  # as in TensorFlow 1.15
    session = K.get_session()
    session.run(model.updates, {model.input: X, K.learning_phase(): True})
    moved = model.layers[1].get_weights()[2]
    np.testing.assert_allclose(moved, 0.5 * (X @ model.layers[0].get_weights()[0]).mean(0), rtol=1e-4, atol=1e-5)
    session.run(model.updates, {model.input: X})
    np.testing.assert_array_equal(model.layers[1].get_weights()[2], moved)
    kernel = model.layers[0].get_weights()[0]
    np.testing.assert_allclose(session.run(model.losses[0]), 0.01 * (kernel**2).sum(), rtol=1e-5)


def test_sessions_initialise_what_is_not():
    model = dense()
    with tf.Session() as session:
        session.run(model.weights[0].assign(np.ones((4, 1))))
        K.set_session(session)
        np.testing.assert_allclose(model.predict(X), X.sum(1, keepdims=True), rtol=1e-5)
    with tf.Session():
        assert not np.allclose(model.predict(X), X.sum(1, keepdims=True))
        K.set_value(model.weights[0], np.zeros((4, 1)))
        assert not model.predict(X).any()
    plain = tf.get_variable("plain", initializer=2.0)
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="plain"):
        session.run(plain)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", tf.train.AdamOptimizer], ids=["sgd", "adam", "tf.train"])
def test_fit(optimizer):
    model = dense()
    model.compile(optimizer if isinstance(optimizer, str) else optimizer(0.05), "mse", metrics=["mae"])
    history = model.fit(X, Y, batch_size=5, epochs=3, validation_split=0.25, **QUIET)
    assert sorted(history.history) == ["loss", "mean_absolute_error", "val_loss", "val_mean_absolute_error"]
    assert history.history["loss"][2] < history.history["loss"][0]
    error = model.predict(X) - Y
    np.testing.assert_allclose(model.evaluate(X, Y, **QUIET), [(error**2).mean(), abs(error).mean()], rtol=1e-4)


def test_old_spellings():
    x = tf.keras.Input((4,))
    y = L.Dense(output_dim=3, init="zeros", W_regularizer="l2", bias=False)(x)
    model = tf.keras.Model(input=x, output=L.merge([y, y], mode="sum"))
    assert (model.output_shape, len(model.losses), len(model.weights)) == ((None, 3), 1, 1)
    conv = L.Convolution2D(2, 3, border_mode="same", subsample=2)
    assert (conv.padding, conv.strides) == ("same", (2, 2))
    assert L.Embedding(5, 2, weights=[np.ones((5, 2))], input_length=3).input_length == 3
    assert L.CuDNNLSTM(3).get_config()["units"] == 3
    model.compile(tf.keras.optimizers.SGD(lr=0.25, decay=0.5), "mse")
    model.fit(X, np.repeat(Y, 3, 1), nb_epoch=2, **QUIET)
    assert (K.get_value(model.optimizer.lr), K.get_value(model.optimizer.iterations)) == (0.25, 2)
    model.optimizer.lr = 0.5
    assert K.get_value(model.optimizer.learning_rate) == 0.5
    with pytest.raises(TypeError, match=r"Keyword argument not understood: unit(.|\n)*Instead: leave them out"):
        L.Dense(3, unit=4)


def test_generators_sequences_and_datasets():
    class Batches(tf.keras.utils.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return X[4 * i : 4 * i + 4], Y[4 * i : 4 * i + 4]

    model = dense(kernel_initializer="zeros")
    model.compile(tf.keras.optimizers.SGD(0.0), "mse")
    expected = (Y**2).mean()
    batches = Batches()
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    for source, steps in (
        (batches, None),
        ((batches[i % 3] for i in range(12)), 3),
        (dataset, None),
        (dataset.repeat(), 3),
    ):
        history = model.fit_generator(source, steps, 2, **QUIET).history
        np.testing.assert_allclose(history["loss"], [expected] * 2, rtol=1e-4)
        if source is batches:
            np.testing.assert_allclose(model.evaluate_generator(source), expected, rtol=1e-4)
            assert model.predict_generator(source).shape == (12, 1)
    with pytest.raises(ValueError, match="`steps_per_epoch=None` is only valid for a generator"):
        model.fit((batches[0] for _ in range(3)), **QUIET)


def test_layers_of_ones_own():
    class Scaled(L.Layer):
        def __init__(self, units, **kwargs):
            self.units = units
            super().__init__(**kwargs)

        def build(self, input_shape):
            self.kernel = self.add_weight("kernel", shape=(input_shape[1], self.units), initializer="ones")
            super().build(input_shape)

        def call(self, x):
            return K.dot(x, self.kernel)

        def compute_output_shape(self, input_shape):
            return (input_shape[0], self.units)

    x = tf.keras.Input((4,))
    y = tf.tanh(Scaled(2)(x)) * 2.0
    model = tf.keras.Model(x, L.Lambda(lambda t, by: t + by, arguments={"by": 1.0})(y))
    np.testing.assert_allclose(model.predict(X), np.tile(2 * np.tanh(X.sum(1, keepdims=True)) + 1, 2), rtol=1e-4)
    assert [type(layer).__name__ for layer in model.layers][1:4] == ["Scaled", "TensorFlowOpLayer", "TensorFlowOpLayer"]
    other = tf.placeholder(tf.float32, [None, 4])
    np.testing.assert_allclose(K.get_session().run(model(other), {other: X}), model.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="Graph disconnected"):
        tf.keras.Model(tf.keras.Input((4,)), y)


def test_a_model_of_ones_own():
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__(name="net")
            self.hidden = L.Dense(3, activation="relu")
            self.out = L.Dense(1)

        def call(self, x, training=None):
            return self.out(self.hidden(x))

    model = Net()
    model.compile(tf.train.AdamOptimizer(0.01), "mse")
    losses = model.fit(X, Y, epochs=3, **QUIET).history["loss"]
    assert losses[2] < losses[0]
    assert [v.name for v in model.weights][:2] == ["net/dense/kernel:0", "net/dense/bias:0"]


def test_callbacks(tmp_path):
    called = tf.keras.callbacks
    seen = []
    model = dense()
    model.compile(tf.keras.optimizers.SGD(lr=0.1), "mse")
    callbacks = [
        called.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        called.CSVLogger(str(tmp_path / "log.csv")),
        called.ModelCheckpoint(str(tmp_path / "w.{epoch:02d}-{val_loss:.1f}.hdf5"), save_weights_only=True),
        called.ModelCheckpoint(str(tmp_path / "best.h5"), save_best_only=True),
        called.EarlyStopping(monitor="loss", min_delta=1e9, patience=1),
        called.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(sorted(logs))),
        called.TensorBoard(str(tmp_path / "board")),
    ]
    history = model.fit(X, Y, epochs=9, validation_data=(X, Y), callbacks=callbacks, **QUIET)
    assert len(history.epoch) == 2
    assert seen == [["loss", "lr", "val_loss"]] * 2
    assert (tmp_path / "log.csv").read_text().splitlines()[0] == "epoch,loss,lr,val_loss"
    files = sorted(os.listdir(tmp_path))
    assert [name[:4] for name in files] == ["best", "boar", "log.", "w.01", "w.02"]
    values = model.get_weights()
    model.load_weights(str(tmp_path / files[3]))
    assert not np.array_equal(values[0], model.get_weights()[0])
    best = tf.keras.models.load_model(str(tmp_path / "best.h5"))
    np.testing.assert_allclose(best.predict(X), X @ values[0] + values[1], rtol=1e-5)
    path = next((tmp_path / "board").iterdir())
    tags = {value.tag for event in tf.train.summary_iterator(str(path)) for value in event.summary.value}
    assert tags == {"epoch_loss", "epoch_lr", "epoch_val_loss"}


def test_files(tmp_path):
    model = tf.keras.Sequential([L.Embedding(5, 3, input_length=4), L.CuDNNGRU(2), L.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(), "mse")
    words = np.arange(8).reshape(2, 4) % 5
    model.train_on_batch(words, np.ones((2, 1)))
    predicted = model.predict(words)
    whole, weights, checkpoint = (str(tmp_path / name) for name in ("whole.h5", "weights.h5", "steps"))
    model.save(whole)
    model.save_weights(weights)
    model.save_weights(checkpoint)
    loaded = tf.keras.models.load_model(whole)
    np.testing.assert_allclose(loaded.predict(words), predicted, rtol=1e-6)
    for one in (model, loaded):
        one.train_on_batch(words, np.ones((2, 1)))
    np.testing.assert_allclose(loaded.predict(words), model.predict(words), rtol=1e-5)
    for path in (weights, checkpoint):
        model.load_weights(path)
        np.testing.assert_allclose(model.predict(words), predicted, rtol=1e-6)
        model.set_weights([np.zeros_like(array) for array in model.get_weights()])
    copy = tf.keras.models.model_from_json(model.to_json())
    assert copy.get_config() == model.get_config()
    with pytest.raises(ValueError, match="load a weight file containing 3 layers into a model with 1 layers"):
        dense().load_weights(weights)


def test_wrong_data():
    model = dense()
    with pytest.raises(RuntimeError, match="You must compile your model before training"):
        model.fit(X, Y, **QUIET)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"expected dense_input to have shape \(4,\) but got array with shape \(3,\)"):
        model.fit(X[:, :3], Y, **QUIET)
    with pytest.raises(ValueError, match="Found 12 input samples and 3 target samples"):
        model.fit(X, Y[:3], **QUIET)
    with pytest.raises(ValueError, match=r"Unknown optimizer: nothing\nGiven: optimizer 'nothing'"):
        model.compile("nothing", "mse")
    with pytest.raises(tf.errors.UnimplementedError, match=r"Given: tf\.keras\.estimator\.model_to_estimator"):
        tf.keras.estimator.model_to_estimator(model)
    with pytest.raises(AttributeError, match=r"Given: tf\.keras\.layers\.Dens\n"):
        _ = tf.keras.layers.Dens


def test_where_ops_run_at_once():
    from anabranch.eager.mode import EAGER

    with EAGER.as_default():
        x = tf.keras.Input((4,))
        model = tf.keras.Model(x, [L.Dense(1)(x), L.Lambda(tf.square)(x)])
        first, second = model(tf.constant(X))
        np.testing.assert_allclose(second.numpy(), X * X, rtol=1e-6)
        np.testing.assert_allclose(first.numpy(), X @ model.get_weights()[0], rtol=1e-5)
        small = dense()
        small.compile("sgd", "mse", metrics=["mae"])
        losses = small.fit(X, Y, epochs=3, batch_size=4, **QUIET).history["loss"]
        assert losses[2] < losses[0]
        mean = tf.keras.metrics.Mean()
        mean(3.0)
        assert mean(5.0).numpy() == 4


def test_names_that_programs_import():
    from anabranch.compat import hook

    for module, name, path in (
        ("python.keras.layers", "Dense", "layers"),
        ("python.keras.engine.training", "Model", "models"),
        ("python.keras.utils.np_utils", "to_categorical", "utils"),
        ("keras.backend", "get_session", "backend"),
    ):
        assert hook.resolve(module, name) is getattr(getattr(tf.keras, path), name)
    assert tf.contrib.keras.models.Sequential is tf.keras.Sequential


def test_histograms_for_tensorboard(tmp_path):
    """Each batch of validation has all summaries of the graph, under the names and steps of TensorFlow 1.15.5."""
    model = tf.keras.Sequential(
        [
            L.Dense(2, kernel_initializer=tf.keras.initializers.Constant(0.1), input_shape=(5,), name="first"),
            L.Dense(1, kernel_initializer=tf.keras.initializers.Constant(0.1), name="second"),
        ]
    )
    tf.summary.scalar("own", tf.reduce_sum(model.output))
    model.compile("sgd", "mse")
    x, y = np.arange(20.0).reshape(4, 5) / 20, np.ones((4, 1))
    board = tf.keras.callbacks.TensorBoard(
        str(tmp_path), histogram_freq=2, write_graph=False, write_grads=True, write_images=True
    )
    model.fit(
        x, y, batch_size=2, epochs=3, shuffle=False, validation_data=(x, y, np.ones(4)), callbacks=[board], **QUIET
    )
    found = {}
    for event in tf.train.summary_iterator(str(next(tmp_path.iterdir()))):
        for value in event.summary.value:
            shown = value.histo.sum if value.HasField("histo") else value.image.height or value.simple_value
            found.setdefault(value.tag.split("/image")[0], {})[event.step] = shown
    assert [sorted(found[tag]) for tag in ("first_out", "second/bias_0_grad", "own")] == [[0, 1, 2, 3]] * 3
    images = {"first/bias_0_1", "first/kernel_0_1", "second/kernel_0_1"}
    of_weights = {
        f"{layer}/{kind}_0{end}"
        for layer in ("first", "second")
        for kind in ("bias", "kernel")
        for end in ("", "_grad")
    }
    assert set(found) == {"epoch_loss", "epoch_val_loss", "first_out", "second_out", "own"} | images | of_weights
    weights = model.get_weights()
    both = sum(found["second_out"][step] for step in (2, 3))
    np.testing.assert_allclose(both, np.sum((x @ weights[0] + weights[1]) @ weights[2] + weights[3]), rtol=1e-5)
    assert found["own"] == pytest.approx(found["second_out"], rel=1e-5)


def test_a_layer_inside_of_a_layer_takes_a_weight_beside_tensors() -> None:
    class Projected(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight("w", [3, 2], initializer="ones")
            self.product = tf.keras.layers.Lambda(lambda pair: tf.matmul(pair[0], pair[1]))
            super().build(shape)

        def call(self, x):
            return self.product([x * 2, self.w])

    with tf.Graph().as_default():
        x = tf.keras.Input([3])
        model = tf.keras.Model(x, Projected()(x))
        assert model.count_params() == 6
        np.testing.assert_allclose(model.predict(np.ones((2, 3))), np.full((2, 2), 6.0))


def test_functions_take_tensors_and_defaults():
    a, b = K.placeholder((None, 2)), K.placeholder((2,))
    function = K.function([a, b, K.learning_phase()], [K.in_train_phase(a * b, a + b)])
    v = tf.constant([[1.0, 2.0], [3.0, 4.0]]) * 2.0
    np.testing.assert_array_equal(function([v, [1.0, 10.0], None])[0], [[3.0, 14.0], [7.0, 18.0]])
    np.testing.assert_array_equal(function([v, K.variable([1.0, 10.0]), True])[0], [[2.0, 40.0], [6.0, 80.0]])
    np.testing.assert_array_equal(function([np.ones((1, 2)), [1.0, 10.0], None])[0], [[2.0, 11.0]])


def test_a_sparse_matrix_is_a_sparse_variable():
    class Matrix:
        row, col, data, shape = np.array([0, 1, 1]), np.array([2, 0, 1]), np.float32([1, 2, 3]), (2, 3)

        def tocoo(self):
            return self

    sparse = K.variable(Matrix())
    assert K.is_sparse(sparse)
    assert K.int_shape(sparse) == (2, 3)
    np.testing.assert_array_equal(K.eval(sparse), [[0, 0, 1], [2, 3, 0]])
    np.testing.assert_array_equal(K.eval(K.dot(sparse, K.variable(np.ones((3, 2))))), [[1, 1], [5, 5]])
