"""Ops on a model's tensors as layers of it, in graphs and where ops run at once; values of TensorFlow 1.15.5."""

import json

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

K, L = tf.keras.backend, tf.keras.layers
X = np.float32([[1, -2, 3, 0.5], [0, 1, -1, 2]])


@pytest.fixture(params=["graph", "eager"], autouse=True)
def where(request):
    with mode.eager_mode() if request.param == "eager" else tf.Graph().as_default():
        yield request.param
    K.clear_session()


def ones(units, **arguments):
    return L.Dense(units, kernel_initializer="ones", **arguments)


def test_a_model_with_ops_between_layers():
    x = tf.keras.Input((4,))
    hidden = tf.nn.relu(x) * 2.0 + tf.reduce_mean(x, axis=1, keepdims=True)
    model = tf.keras.Model(x, ones(1)(tf.concat([hidden, x[:, :2]], axis=1)))
    expected = np.maximum(X, 0).sum(1) * 2 + X.sum(1) + X[:, :2].sum(1)
    np.testing.assert_allclose(model.predict(X)[:, 0], expected, rtol=1e-6)
    model.compile("sgd", "mse")
    assert model.fit(X, np.zeros((2, 1)), verbose=0).history["loss"][0] == pytest.approx((expected**2).mean())
    names = [layer.name for layer in model.layers]
    assert names[1:-1] == [f"tf_op_layer_{op}" for op in ("Relu", "mul", "Mean", "add", "strided_slice", "concat")]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.shape(x)[0],
        lambda x: tf.split(x, 2, axis=1)[1],
        lambda x: -x,
        lambda x: x > 0,
        lambda x: tf.where(x > 0, x, -x),
        lambda x: x @ tf.ones((4, 2)),
        lambda x: tf.gather(x, [0, 1], axis=1),
        lambda x: tf.stack([x, np.ones((2, 4), np.float32)]),
        lambda x: tf.clip_by_value(x, 0.0, 1.0),
        lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1],
    ],
)
def test_functions_of_symbolic_tensors(function):
    x = tf.keras.Input((4,))
    (found,) = K.function([x], [function(x)])([X])
    with tf.Graph().as_default(), tf.Session() as session:
        np.testing.assert_allclose(found, session.run(function(tf.constant(X))), rtol=1e-6)


def test_configs_and_files(tmp_path):
    x = tf.keras.Input((4,))
    model = tf.keras.Model(x, ones(1)(x * np.float32([1, 2, 3, 4]) + 1.0))
    assert model.predict(X)[:, 0].tolist() == [12.0, 11.0]
    model.save(str(tmp_path / "model.h5"))
    assert tf.keras.models.load_model(str(tmp_path / "model.h5")).predict(X)[:, 0].tolist() == [12.0, 11.0]
    assert tf.keras.models.clone_model(model).predict(X)[:, 0].tolist() == [12.0, 11.0]
    config = model.layers[1].get_config()
    assert (config["name"], config["node_def"]["op"]) == ("mul", "Mul")
    assert config["constants"][1].tolist() == [1, 2, 3, 4]


def test_a_config_of_tensorflow():
    node = {"name": "concat", "op": "ConcatV2", "input": ["add", "Sum", "concat/axis"]}
    node["attr"] = {"N": {"i": "2"}, "Tidx": {"type": "DT_INT32"}, "T": {"type": "DT_FLOAT"}}
    names = ("input_1", "input_2")
    layers = [
        {"name": name, "class_name": "InputLayer", "inbound_nodes": []}
        | {"config": {"batch_input_shape": [None, 2], "dtype": "float32", "sparse": False, "name": name}}
        for name in names
    ]
    config = {"name": "concat", "trainable": True, "dtype": None, "node_def": node, "constants": {"2": 1}}
    calls = [[[name, 0, 0, {}] for name in names]]
    layers.append(
        {"name": "tf_op_layer_concat", "class_name": "TensorFlowOpLayer", "config": config, "inbound_nodes": calls}
    )
    ends = {"input_layers": [[n, 0, 0] for n in names], "output_layers": [["tf_op_layer_concat", 0, 0]]}
    described = {"class_name": "Model", "config": {"name": "model", "layers": layers, **ends}}
    model = tf.keras.models.model_from_json(json.dumps(described))
    assert model.predict([[[1.0, 2.0]], [[3.0, 4.0]]]).tolist() == [[1, 2, 3, 4]]


def test_a_loop_between_layers_has_no_config():
    x = tf.keras.Input((4,))
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1]
    model = tf.keras.Model(x, y)
    with pytest.raises(NotImplementedError, match="a conditional or loop, between its layers"):
        model.to_json()


def test_losses_and_metrics_of_a_networks_tensors(tmp_path):
    x = tf.keras.Input((4,))
    hidden = ones(2, name="hidden")(x)
    model = tf.keras.Model(x, ones(1, name="out")(hidden))
    model.add_loss(tf.reduce_mean(hidden) * 0.1)
    model.add_metric(tf.reduce_max(hidden), name="highest", aggregation="mean")
    model.compile(tf.keras.optimizers.SGD(0.0), "mse")
    assert model.metrics_names == ["loss", "highest"]
    assert model.evaluate(X, 2 * X.sum(1), verbose=0) == pytest.approx([0.225, 2.5])
    history = model.fit(X, 2 * X.sum(1), batch_size=1, epochs=2, verbose=0, shuffle=False).history
    assert history == {"loss": pytest.approx([0.225] * 2), "highest": pytest.approx([2.25] * 2)}
    model.save(str(tmp_path / "model.h5"))
    again = tf.keras.models.load_model(str(tmp_path / "model.h5"))
    assert again.evaluate(X, 2 * X.sum(1), verbose=0) == pytest.approx([0.225, 2.5])


def test_layers_metrics_stand_before_the_models():
    class Watched(L.Layer):
        def call(self, x):
            self.add_metric(tf.reduce_mean(x), name="mean", aggregation="mean")
            return x

    x = tf.keras.Input((4,))
    model = tf.keras.Model(x, ones(1)(Watched()(x)))
    model.add_metric(tf.reduce_max(model.output), name="highest", aggregation="mean")
    model.compile("sgd", "mse")
    assert model.metrics_names == ["loss", "mean", "highest"]
    assert model.evaluate(X, X[:, :1], verbose=0)[1:] == pytest.approx([0.5625, 2.5])


def test_symbolic_tensors_have_no_value(where):
    if where == "graph":
        pytest.skip("where ops run at once")
    x = tf.keras.Input((4,))
    with pytest.raises(TypeError, match="in code that runs its ops at once"):
        tf.Variable(x)
    with pytest.raises(TypeError, match="as an argument of a function, where ops run at once"):
        tf.function(lambda value: value * 2.0)(x)
    model = tf.keras.Sequential([ones(1, input_shape=(4,))])
    with pytest.raises(NotImplementedError, match="added to a Sequential model where ops run at once"):
        model.add_loss(tf.reduce_mean(model.output))
    with pytest.raises(ValueError, match=r"K\.function of the input"):
        K.function([tf.constant(1.0)], [tf.constant(1.0)])
