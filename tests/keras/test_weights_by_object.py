"""Weights that are saved by object: TensorFlow 1.15's files, models whose layers come later, layers in lists and dicts.

`tests/golden/keras_weights` is written by `tools/golden/keras/write_weights.py`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/golden/keras_weights"
_spec = importlib.util.spec_from_file_location("blocks_model", ROOT / "tools/golden/keras/blocks_model.py")
assert _spec is not None
assert _spec.loader is not None
blocks_model = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(blocks_model)
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(6, 2)
Y = X[:, :1] * 2.0
both = pytest.mark.parametrize("at_once", [False, True], ids=["graph", "at once"])


@pytest.fixture(autouse=True)
def _mode(request: pytest.FixtureRequest) -> Iterator[None]:
    at_once = request.node.callspec.params.get("at_once") if hasattr(request.node, "callspec") else False
    if at_once:
        with EAGER.as_default():
            yield
        tf.reset_default_graph()
        return
    with tf.Graph().as_default():
        yield


def blocks():
    """The model of the golden file."""
    return blocks_model.blocks(tf)


@both
def test_what_tensorflow_saved_is_given_to_layers_and_slots_as_they_come(at_once):
    model = blocks()
    model.compile(tf.keras.optimizers.Adam(0.05), "mse")
    status = model.load_weights(str(FOLDER / "weights"))
    np.testing.assert_allclose(model.predict(X).ravel(), EXPECTED["predicted"], rtol=1e-5, atol=1e-6)
    model.train_on_batch(X, Y)
    status.assert_consumed()
    np.testing.assert_allclose(model.predict(X).ravel(), EXPECTED["after another step"], rtol=1e-4, atol=1e-5)


@both
def test_what_is_saved_has_tensorflows_keys(at_once, tmp_path):
    model = blocks()
    model.compile(tf.keras.optimizers.Adam(0.05), "mse")
    model.train_on_batch(X, Y)
    path = str(tmp_path / "weights")
    model.save_weights(path)
    assert sorted(name for name, _ in tf.train.list_variables(path)) == EXPECTED["keys"]
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert 'model_checkpoint_path: "weights"' in (tmp_path / "checkpoint").read_text()


@both
def test_layers_without_weights_may_be_added_and_optimizers_need_not_have_trained(at_once, tmp_path):
    def dense(with_dropout):
        layers = [tf.keras.layers.Dense(3, input_shape=(2,)), tf.keras.layers.Dense(1)]
        if with_dropout:
            layers.insert(1, tf.keras.layers.Dropout(0.5))
        return tf.keras.Sequential(layers)

    model, other = dense(False), dense(True)
    model.compile("adam", "mse")
    path = str(tmp_path / "weights")
    model.save_weights(path)
    assert [name for name, _ in tf.train.list_variables(path) if "layer-" in name] == []
    other.load_weights(path)
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-6)


@both
def test_layers_that_come_to_lists_and_dicts_are_trained(at_once):
    class Inner(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self._parts = {}
            self._parts["b"] = tf.keras.layers.Dense(2, kernel_regularizer="l2")
            self._parts["a"] = tf.keras.layers.Dense(2)
            self.sizes = [2, 3]

        def call(self, x):
            return self._parts["a"](self._parts["b"](x))

    class Outer(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.inners = []
            self.inners.append(Inner())
            self.nested = [[tf.keras.layers.Dense(1)]]

        def call(self, x):
            return self.nested[0][0](self.inners[0](x))

    model = Outer()
    model.compile("sgd", "mse")
    model.train_on_batch(X, Y)
    assert (len(model.layers), len(model.trainable_variables), len(model.losses)) == (2, 6, 1)
    assert [v.shape.as_list() for v in model.inners[0].trainable_weights] == [[2, 2], [2], [2, 2], [2]]
    assert model.inners[0].sizes == [2, 3]
    before = model.get_weights()
    model.train_on_batch(X, Y)
    assert all((old != new).any() for old, new in zip(before, model.get_weights(), strict=True))
    model.trainable = False
    assert model.trainable_variables == []


def test_files_of_the_other_layout_need_no_suffix_and_others_are_refused(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
    path = str(tmp_path / "weights")
    model.save_weights(path, save_format="h5")
    before = model.get_weights()
    model.set_weights([array * 0 for array in before])
    model.load_weights(path)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        model.load_weights(str(tmp_path / "nothing"))
    with pytest.raises(NotImplementedError, match="got by_name=True to load_weights"):
        model.load_weights(str(FOLDER / "weights"), by_name=True)


def test_nothing_in_common_is_said(tmp_path):
    v = tf.Variable(1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        path = tf.train.Checkpoint(other=v).write(str(tmp_path / "other"), session=session)
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
    with pytest.raises(AssertionError, match="Nothing except the root object matched"):
        model.load_weights(path)


DENSE = tf.keras.layers.Dense


def _keys(model: object, folder: Path) -> list[str]:
    """Names of a checkpoint of an object, without the ends that all have."""
    checkpoint = tf.train.Checkpoint(model=model)
    if not tf.executing_eagerly():
        tf.keras.backend.get_session().run(tf.global_variables_initializer())
        path = checkpoint.write(str(folder / "m"), session=tf.keras.backend.get_session())
    else:
        path = checkpoint.write(str(folder / "m"))
    end = "/.ATTRIBUTES/VARIABLE_VALUE"
    return [name[: -len(end)] for name, _ in tf.train.list_variables(path) if name.endswith(end)]


def _dense(*places: str) -> list[str]:
    return [f"model/{place}/{name}" for place in places for name in ("bias", "kernel")]


@both
def test_sequential_models_that_come_without_an_input(at_once, tmp_path):
    """Names are TensorFlow 1.15's: layers by their numbers, whether called, built or trained."""
    x, y = np.ones((4, 1), np.float32), np.ones((4, 3), np.float32)
    called = tf.keras.Sequential([DENSE(2), tf.keras.layers.ReLU(), DENSE(3)])
    called(tf.constant(x))
    assert _keys(called, tmp_path) == _dense("layer-0", "layer-2")
    built = tf.keras.Sequential([DENSE(2), tf.keras.layers.ReLU(), DENSE(3)])
    built.build((None, 1))
    assert list(built._trackable_children()) == [
        *("layer-0", "layer-1", "layer-2", "layer_with_weights-0", "layer_with_weights-1")
    ]
    fitted = tf.keras.Sequential([DENSE(2), tf.keras.layers.ReLU(), DENSE(3)])
    fitted.compile(tf.train.GradientDescentOptimizer(0.1), "mse")
    fitted.fit(x, y, verbose=0)
    assert _keys(fitted, tmp_path) == _dense("layer-0", "layer-2")
    nested = tf.keras.Sequential([tf.keras.Sequential([DENSE(2)]), DENSE(3)])
    nested.pop()
    nested.add(DENSE(4))
    nested(tf.constant(x))
    assert _keys(nested, tmp_path) == _dense("layer-0/layer-0", "layer-1")
    given = tf.keras.Sequential([DENSE(2, input_shape=(1,)), tf.keras.layers.ReLU(), DENSE(3)])
    assert _keys(given, tmp_path) == _dense("layer_with_weights-0", "layer_with_weights-1")


@both
def test_layers_that_are_added_after_restore(at_once, tmp_path):
    model = tf.keras.Sequential()
    checkpoint = tf.train.Checkpoint(model=model)
    last = DENSE(2)
    model.add(DENSE(3))
    model.add(last)
    model(tf.constant([[1.0]]))
    session = None if at_once else tf.keras.backend.get_session()
    checkpoint.restore(None).initialize_or_restore(session)
    _set(session, last.bias, [1.0, 2.0])
    path = checkpoint.save(str(tmp_path / "m"), session=session)
    _set(session, last.bias, [5.0, 6.0])
    checkpoint.restore(path).assert_consumed().run_restore_ops(session)
    assert tf.keras.backend.get_value(last.bias).tolist() == [1.0, 2.0]
    other = tf.keras.Sequential([DENSE(3)])
    status = tf.train.Checkpoint(model=other).restore(path)
    other.add(DENSE(2))
    other(tf.constant([[1.0]]))
    status.run_restore_ops(session)
    assert tf.keras.backend.get_value(other.layers[1].bias).tolist() == [1.0, 2.0]


def _set(session, variable, value):
    """Assign, in a step or now."""
    made = variable.assign(value)
    if session is not None:
        session.run(made.op)


@both
def test_objects_under_names_that_begin_with_an_underscore(at_once, tmp_path):
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self._counters = tf.train.Checkpoint(v=tf.Variable(1.0, use_resource=True))
            self._dense = DENSE(1)

        def call(self, x):
            return self._dense(x)

    model = Model()
    model(tf.ones([1, 1]))
    assert _keys(model, tmp_path) == ["model/_counters/v", *_dense("_dense")]
