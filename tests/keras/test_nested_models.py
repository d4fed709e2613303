"""Models in models, models whose first batch tells their shape, and what programs of TensorFlow 1.8 import of Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import internals, keras_testing
from anabranch.eager import mode

K = tf.keras


@pytest.fixture(params=["graph", "eager"])
def both(request: pytest.FixtureRequest) -> Any:
    """A program that builds graphs, and one whose ops run at once."""
    with tf.Graph().as_default() if request.param == "graph" else mode.eager_mode():
        if request.param == "eager":
            K.backend.clear_session()
        yield request.param


def test_a_model_of_one_output_in_a_list_gives_a_tensor(both: str) -> None:
    x = K.Input((2,))
    model = K.Model(inputs=[x], outputs=[K.layers.Dense(3)(x)])
    y = model(K.Input((2,)))
    assert y.shape.as_list() == [None, 3]


def test_losses_of_a_model_in_a_model_are_those_of_the_outer_call(both: str) -> None:
    x, z = K.Input((2,)), K.Input((2,))
    dense = K.layers.Dense(2, kernel_initializer="ones", use_bias=False, activity_regularizer=tf.reduce_sum)
    inner = K.Model([x], [dense(x)])
    outer = K.Model([z], [inner(z)])
    outer.compile("sgd", loss=None)
    assert outer.evaluate(np.ones((1, 2)), verbose=0) == 4.0


def test_training_a_model_moves_the_averages_of_models_in_it(both: str) -> None:
    x, y, z = (K.Input((4,)) for _ in range(3))
    hidden = K.layers.Dense(4, kernel_initializer="ones")(x)
    generator = K.Model([x], [K.layers.BatchNormalization(momentum=0.5)(hidden)])
    judge = K.Model(y, K.layers.Dense(1)(y))
    judge.trainable = False
    whole = K.Model(z, judge(generator(z)))
    whole.compile("sgd", "mse")
    assert len(whole.trainable_weights) == 4
    inputs = np.random.RandomState(0).rand(8, 4).astype("float32")
    for _ in range(3):
        whole.train_on_batch(inputs, np.ones((8, 1)))
    # What TensorFlow 1.15.5 gives, in both modes.
    np.testing.assert_allclose(generator.layers[-1].get_weights()[2], [2.0204] * 4, atol=3e-4)


def test_a_sequence_learns_its_shape_from_the_first_batch(both: str) -> None:
    model = K.models.Sequential([K.layers.Dense(5), K.layers.Dense(2)])
    model.compile("sgd", "mse")
    assert not model.built
    model.fit(np.ones((5, 3)), np.ones((5, 2)), verbose=0)
    assert [x.shape.as_list() for x in (*model.inputs, *model.outputs)] == [[None, 3], [None, 2]]
    assert (len(model.weights), model.input_names, model.output_names) == (4, ["input_1"], ["output_1"])


def test_a_stateful_layer_takes_the_size_of_the_batch_from_the_layer_before(both: str) -> None:
    embedding = K.layers.Embedding(4, 3, mask_zero=True, batch_input_shape=(2, 5))
    model = K.Sequential([embedding, K.layers.LSTM(4, stateful=True)])
    words = np.ones((2, 5))
    first, second = model.predict(words), model.predict(words)
    assert (first != second).all()
    model.reset_states()
    np.testing.assert_allclose(model.predict(words), first, rtol=1e-6)


def test_layers_of_tf_layers_are_initialised_with_the_model() -> None:
    with tf.Graph().as_default(), tf.Session():
        x = K.Input((10,))
        hidden = tf.layers.BatchNormalization()(tf.layers.Dense(3)(x))
        model = K.Model(x, K.layers.Dense(2)(hidden))
        assert model.predict(np.ones((4, 10))).shape == (4, 2)


def test_a_variable_has_the_losses_of_its_call() -> None:
    with tf.Graph().as_default():
        layer = K.layers.LSTM(4, activity_regularizer="l1")
        x = K.backend.variable(np.ones((2, 3, 2)))
        layer(x)
        assert len(layer.get_losses_for(x)) == 1


@pytest.mark.parametrize("kind", ["ZeroPadding1D", "Cropping1D", "ZeroPadding2D", "Cropping2D", "ZeroPadding3D"])
def test_sizes_that_are_none_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="None"):
        getattr(K.layers, kind)(None)


def test_a_named_function_is_written_like_a_lambda() -> None:
    def shape(shapes: Any) -> Any:
        return shapes

    layer = K.layers.Lambda(lambda x: x + 1, output_shape=shape)
    assert layer.get_config()["output_shape_type"] == "lambda"


def test_optimizers_of_models_without_weights_count_steps() -> None:
    with tf.Graph().as_default():
        x = K.Input((3,))
        model = K.Model(x, K.layers.Dropout(0.5)(x))
        model.compile("rmsprop", "mse")
        model.train_on_batch(np.ones((2, 3)), np.ones((2, 3)))
        assert K.backend.get_value(model.optimizer.iterations) == 1


def test_modules_of_keras_before_tensorflow_1_9() -> None:
    assert internals.places("python.keras._impl") == ["top"]
    for name in ("layers", "backend", "engine.training", "testing_utils"):
        old, new = f"python.keras._impl.keras.{name}", f"python.keras.{name}"
        assert internals.places(old) is not None
        assert internals.places(old) == internals.places(new)
    with tf.Graph().as_default(), tf.Session():
        output = keras_testing.layer_test(K.layers.Dense, kwargs={"units": 3}, input_shape=(3, 2))
        assert output.shape == (3, 3)
        with pytest.raises(AssertionError, match="not float64"):
            keras_testing.layer_test(K.layers.Dense, {"units": 3}, (3, 2), expected_output_dtype="float64")
    (x, y), (x_test, _) = keras_testing.get_test_data(6, 2, (3,), 2, random_seed=1)
    assert (x.shape, y.shape, x_test.shape) == ((6, 3), (6,), (2, 3))


def _classifier(hidden: int) -> Any:
    model = K.Sequential([K.layers.Dense(hidden, "relu", input_shape=(3,)), K.layers.Dense(2, "softmax")])
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    return model


def test_estimators_of_scikit_learn(both: str) -> None:
    (x, labels), _ = keras_testing.get_test_data(12, 0, (3,), 2, random_seed=2)
    words = np.array(["no", "yes"])[labels]
    wrappers = K.wrappers.scikit_learn
    classifier = wrappers.KerasClassifier(_classifier, hidden=4, epochs=2, verbose=0)
    classifier.fit(x, words, batch_size=4)
    assert set(classifier.predict(x)) <= {"no", "yes"}
    np.testing.assert_allclose(classifier.predict_proba(x).sum(1), np.ones(12), rtol=1e-5)
    right = float(np.mean(classifier.predict(x) == words))
    assert classifier.score(x, words) == pytest.approx(right)
    assert classifier.get_params()["hidden"] == 4
    assert classifier.set_params(hidden=5).get_params()["hidden"] == 5
    with pytest.raises(ValueError, match="widht is not a legal parameter"):
        wrappers.KerasClassifier(_classifier, widht=4)

    class Regressor(wrappers.KerasRegressor):  # type: ignore[misc, name-defined]
        def __call__(self, hidden: int) -> Any:
            model = K.Sequential([K.layers.Dense(hidden, input_shape=(3,)), K.layers.Dense(1)])
            model.compile("sgd", "mse")
            return model

    regressor = Regressor(hidden=4, verbose=0)
    regressor.fit(x, labels.astype("float32"))
    predicted = regressor.predict(x)
    assert predicted.shape == (12,)
    assert regressor.score(x, labels) == pytest.approx(-np.mean((predicted - labels) ** 2), rel=1e-4)


def test_configs_count_the_call_that_a_network_begins_with():
    # As in TensorFlow 1.15.5, whose files with nested networks are read, and which reads ours.
    with tf.Graph().as_default():
        dense = tf.keras.layers.Dense
        inner = tf.keras.Sequential([dense(4, input_shape=(4,))], name="inner")
        place = tf.keras.Input((4,))
        other = tf.keras.Model(place, dense(4)(place), name="other")
        bare = tf.keras.Sequential([dense(4)], name="bare")
        x = tf.keras.Input((4,))
        model = tf.keras.Model(x, [bare(tf.keras.layers.add([other(inner(x)), inner(x)])), inner(other(x))])
        config = model.get_config()
        calls = {layer["name"]: layer["inbound_nodes"] for layer in config["layers"]}
        assert [call[:3] for call in calls["add"][0]] == [["other", 1, 0], ["inner", 2, 0]]
        assert calls["bare"][0][0][:3] == ["add", 0, 0]
        assert [place[1] for place in config["output_layers"]] == [0, 3]
        again = tf.keras.Model.from_config(config)
        again.set_weights(model.get_weights())
        rows = np.arange(8.0).reshape(2, 4)
        for given, wanted in zip(again.predict(rows), model.predict(rows), strict=True):
            np.testing.assert_allclose(given, wanted, rtol=1e-6)


def test_variables_of_metrics_have_no_scope():
    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
        model.compile("sgd", "mse", ["mae", tf.keras.metrics.AUC()])
        names = [[variable.name for variable in metric.variables] for metric in model.metrics]
        assert names[0] == ["total:0", "count:0"]
        assert names[1] == ["true_positives:0", "true_negatives:0", "false_positives:0", "false_negatives:0"]


def test_updates_of_a_network_in_a_wrapper_are_those_of_the_wrappers_call():
    with tf.Graph().as_default():
        inner = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,)), tf.keras.layers.BatchNormalization()])
        model = tf.keras.Sequential(
            [tf.keras.layers.TimeDistributed(inner, input_shape=(4, 3)), tf.keras.layers.LSTM(1)]
        )
        assert len(model.updates) == 2
        model.compile("sgd", "mse")
        before = inner.get_weights()[-2]
        model.fit(np.arange(24.0).reshape(2, 4, 3), np.zeros((2, 1)), verbose=0)
        assert (inner.get_weights()[-2] != before).all()


def _functional():
    inputs = tf.keras.Input((4,))
    x = K.layers.BatchNormalization()(K.layers.Dense(3, kernel_initializer="ones", kernel_regularizer="l2")(inputs))
    return tf.keras.Model(inputs, K.layers.Dense(2, kernel_initializer="ones")(x))


def _sequential():
    first = K.layers.Dense(3, input_shape=(4,), kernel_initializer="ones", activity_regularizer="l2")
    return tf.keras.Sequential([first, K.layers.BatchNormalization(), K.layers.Dense(2, kernel_initializer="ones")])


class Wrapped(K.layers.Layer):
    def __init__(self, make, **kwargs):
        super().__init__(**kwargs)
        self.net = make()

    def call(self, inputs):
        return self.net(inputs)

    def compute_output_shape(self, shape):
        return (shape[0], 2)


class Whole(tf.keras.Model):
    def __init__(self, net):
        super().__init__()
        self.first = K.layers.Dense(4, kernel_initializer="ones")
        self.normal = K.layers.BatchNormalization()
        self.net = net

    def call(self, inputs):
        return self.net(self.normal(self.first(inputs)))


# The losses of two epochs and the mean absolute error and loss of `evaluate` in TensorFlow 1.15.5.
@pytest.mark.parametrize(
    ("make", "loss", "evaluated"),
    [(_functional, [8.605, 6.934], [336.6, 14.02]), (_sequential, [8.962, 7.282], [328.3, 13.78])],
)
@pytest.mark.parametrize("in_layer", [False, True])
def test_a_network_with_an_input_of_its_own_trains_inside_of_a_model_of_ones_own(make, loss, evaluated, in_layer):
    random = np.random.RandomState(0)
    x, y = random.randn(12, 5).astype(np.float32), random.randn(12, 2).astype(np.float32)
    with tf.Graph().as_default():
        model = Whole(Wrapped(make) if in_layer else make())
        model.compile(tf.train.RMSPropOptimizer(0.01), "mse", metrics=["mae"])
        history = model.fit(x, y, epochs=2, batch_size=5, shuffle=False, verbose=0).history
        np.testing.assert_allclose(history["loss"], loss, rtol=1e-3)
        np.testing.assert_allclose(history["mean_absolute_error"], [2.466, 2.204], rtol=1e-3)
        np.testing.assert_allclose(model.evaluate(x, y, verbose=0), evaluated, rtol=1e-3)


def test_what_layers_add_and_keep_inside_of_a_model_of_ones_own():
    class Adds(K.layers.Layer):
        def call(self, inputs):
            self.add_metric(tf.reduce_mean(inputs), name="mean", aggregation="mean")
            self.add_loss(tf.reduce_mean(inputs), inputs=True)
            return inputs

    class Keeps(tf.keras.Model):
        def __init__(self):
            super().__init__()
            lstm = K.layers.LSTM(2, stateful=True, batch_input_shape=(4, 3, 1), kernel_initializer="ones")
            self.net = tf.keras.Sequential([lstm, Adds()])

        def call(self, inputs):
            return self.net(inputs)

    with tf.Graph().as_default():
        model = Keeps()
        model.compile("sgd", "mse")
        x, y = np.ones((8, 3, 1), np.float32), np.zeros((8, 2), np.float32)
        history = model.fit(x, y, epochs=1, batch_size=4, shuffle=False, verbose=0).history
        assert sorted(history) == ["loss", "mean"]
        first, second = np.split(model.predict(x, batch_size=4), 2)
        assert not np.allclose(first, second)  # the second batch begins where the first has ended


class Attends(K.layers.Layer):
    """A cell that is told the same constant in each step."""

    def __init__(self, units, **kwargs):
        self.units = self.state_size = units
        super().__init__(**kwargs)

    def build(self, input_shape):
        inputs, constant = input_shape
        self.kernel = self.add_weight("kernel", (int(inputs[-1]), self.units), initializer="ones")
        self.fixed = self.add_weight("fixed", (int(constant[-1]), self.units), initializer="ones")
        self.built = True

    def call(self, inputs, states, constants):
        b = K.backend
        output = 0.5 * states[0] + b.dot(inputs, self.kernel) + b.dot(constants[0], self.fixed)
        return output, [output]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def _attended(x, constant, state=0.0):
    for step in range(x.shape[1]):
        state = 0.5 * state + x[:, step].sum(-1, keepdims=True) + constant.sum(-1, keepdims=True)
    return np.repeat(state, 2, axis=1)


def test_cells_with_constants():
    random = np.random.RandomState(0)
    x, constant, first = random.randn(3, 4, 5), random.randn(3, 2), np.ones((3, 2))
    with tf.Graph().as_default():
        a, c, s = K.Input((None, 5)), K.Input((2,)), K.Input((2,))
        layer = K.layers.RNN(Attends(2))
        found = K.Model([a, c], layer(a, constants=c)).predict([x, constant])
        np.testing.assert_allclose(found, _attended(x, constant), rtol=1e-4)
        with K.utils.CustomObjectScope({"Attends": Attends}):
            again = K.layers.RNN.from_config(layer.get_config())
        found = K.Model([a, c], again([a, c])).predict([x, constant])
        np.testing.assert_allclose(found, _attended(x, constant), rtol=1e-4)
        with_state = K.layers.RNN(Attends(2))(a, initial_state=s, constants=c)
        found = K.Model([a, s, c], with_state).predict([x, first, constant])
        np.testing.assert_allclose(found, _attended(x, constant, np.ones((3, 1))), rtol=1e-4)
        both = K.layers.Bidirectional(K.layers.RNN(Attends(2)))(a, constants=c)
        found = K.Model([a, c], both).predict([x, constant])
        expected = np.concatenate([_attended(x, constant), _attended(x[:, ::-1], constant)], axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        stacked = K.layers.RNN([K.layers.SimpleRNNCell(5), Attends(2)])(a, constants=c)
        assert K.Model([a, c], stacked).predict([x, constant]).shape == (3, 2)
        with pytest.raises(ValueError, match="does not support constants"):
            K.layers.SimpleRNN(2)(a, constants=c)


# The values are those of TensorFlow 1.15.5.
def test_outputs_without_a_loss_have_no_metrics():
    random = np.random.RandomState(0)
    x, y = random.randn(10, 3).astype(np.float32), random.randn(10, 4).astype(np.float32)

    def outputs(loss, metrics):
        a = K.Input((3,))
        first = K.layers.Dense(4, name="d1", kernel_initializer="ones")(a)
        second = K.layers.Dense(4, name="d2", kernel_initializer="ones")(first)
        model = K.Model(a, [first, second])
        if loss is None:
            model.add_loss(tf.reduce_mean(first + second))
        model.compile("rmsprop", loss, metrics=metrics)
        return model

    with tf.Graph().as_default():
        model = outputs({"d2": "mse"}, ["mae"])
        np.testing.assert_allclose(model.train_on_batch(x, y), [81.28, 81.28, 8.191], rtol=1e-3)
        assert model.metrics_names == ["loss", "d2_loss", "d2_mean_absolute_error"]
        history = model.fit(x, [y], verbose=0, validation_data=(x, [y])).history
        assert sorted(history)[:3] == ["d2_loss", "d2_mean_absolute_error", "loss"]
        model = outputs({"d2": "mse"}, {"d1": "mae", "d2": ["mse", "mae"]})
        np.testing.assert_allclose(model.train_on_batch(x, y), [81.28, 81.28, 81.28, 8.191], rtol=1e-3)
        model = outputs(None, ["mae"])
        assert model.metrics_names == ["loss"]
        assert sorted(model.fit(x, None, verbose=0).history) == ["loss"]


def test_variables_and_placeholders_as_data():
    b = K.backend
    with tf.Graph().as_default():
        a = K.Input((3,))
        model = K.Model(a, K.layers.Dense(4, kernel_initializer="ones")(a))
        model.compile(tf.train.GradientDescentOptimizer(0.01), "mse", metrics=["mae"])
        ones, zeros = b.ones((10, 3)), b.zeros((10, 4))
        history = model.fit(ones, zeros, epochs=1, steps_per_epoch=2, verbose=0).history
        np.testing.assert_allclose(history["loss"], [8.822], rtol=1e-3)
        np.testing.assert_allclose(model.evaluate(ones, zeros, steps=2, verbose=0), [8.301, 2.881], rtol=1e-3)
        assert model.predict(ones, steps=2).shape == (20, 4)
        with pytest.raises(ValueError, match="cannot use `validation_split`"):
            model.fit(ones, zeros, validation_split=0.2, steps_per_epoch=2, verbose=0)
        target = b.placeholder((10, 4))
        model.compile("sgd", "mse", target_tensors=[target])
        value = model.predict(np.ones((10, 3)))[0, 0]
        np.testing.assert_allclose(model.train_on_batch(np.ones((10, 3)), np.zeros((10, 4))), value**2, rtol=1e-4)
