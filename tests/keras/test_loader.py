"""Keras from its own files, with Anabranch where it imports TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import version_two

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    """What a program of its own prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_keras_is_the_installed_one(keras):
    assert "site-packages" in keras.__file__
    assert keras.backend.backend() == "tensorflow"
    assert "tensorflow" not in sys.modules or sys.modules["tensorflow"].__name__ != "keras"


def test_ops_of_keras_run(keras, eager):
    x = keras.ops.reshape(keras.ops.arange(6, dtype="float32"), (2, 3))
    product = keras.ops.matmul(x, keras.ops.transpose(x))
    assert isinstance(product, tf.Tensor)
    assert product.numpy().tolist() == [[5, 14], [14, 50]]


def test_layers_of_keras_run(keras, eager):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    assert model.output_shape == (None, 1)
    first, second = model.layers
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    hidden = np.maximum(x @ first.kernel.numpy() + first.bias.numpy(), 0)
    expected = hidden @ second.kernel.numpy() + second.bias.numpy()
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-5)


def test_whose_meaning_holds(eager):
    x, y = tf.constant([1, 2]), tf.constant([1, 3])
    assert isinstance(x.shape[0], tf.Dimension)
    assert (x == y) is False
    library = {**vars(__import__("builtins"))}
    version_two.add_library(library)
    seen = {"__builtins__": library, "x": x, "y": y}
    exec("size, sizes, same, other = x.shape[0], list(x.shape), (x == y).numpy(), (x != y).numpy()", seen)
    assert (type(seen["size"]), seen["sizes"]) == (int, [2])
    assert seen["same"].tolist() == [True, False]
    assert seen["other"].tolist() == [False, True]


def test_version_2_everywhere():
    code = """
import anabranch as tf
tf.enable_v2_behavior()
x = tf.constant([1, 2])
assert tf.executing_eagerly() and x.shape[0] == 2 and type(x.shape[0]) is int
assert (x == [1, 3]).numpy().tolist() == [1, 0]
assert (tf.Variable([3]) == [3]).numpy().all() and x != None
tf.disable_v2_behavior()
assert not tf.executing_eagerly() and isinstance(tf.constant([1]).shape[0], tf.Dimension)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_program_of_version_1_with_the_behaviour_of_version_2_has_the_keras_of_version_1():
    code = """
import numpy as np
import anabranch as tf
tf.compat.v1.enable_v2_behavior()
seen = []
class Scale(tf.keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", shape=(shape[-1], 2), initializer="ones")
    def call(self, x):
        seen.append(type(x.shape[1]))
        return tf.matmul(x, self.w)
model = tf.keras.Sequential([tf.keras.layers.Dense(3, kernel_initializer="ones", input_shape=(2,)), Scale()])
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(np.ones((4, 2), np.float32), np.zeros(4, np.int32), epochs=1, verbose=0).history
assert sorted(history) == ["accuracy", "loss"], history
assert abs(history["loss"][0] - np.log(2)) < 1e-6 and set(seen) == {int}
mean = tf.keras.metrics.Mean()
mean(3.0)
assert mean.result().numpy() == 3
mean.reset_states()
assert (repr(tf.TensorShape([2, None])), str(tf.TensorShape([2, None]))) == ("TensorShape([2, None])", "(2, None)")
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_program_of_version_2_that_has_imported_keras_3_has_its_names(keras):
    code = "import anabranch as tf, anabranch.keras, keras; tf.enable_v2_behavior()"
    done = run(code + "; assert tf.keras.Sequential is keras.Sequential")
    assert done.returncode == 0, done.stderr


def test_the_line_in_site_packages(tmp_path):
    line = (ROOT / "anabranch/keras/start.pth").read_text()
    shown = "any('anabranch' in type(finder).__module__ for finder in sys.meta_path), 'jax' in sys.modules"
    code = f"import sys\n{line}\nprint({shown})"
    assert run(code, KERAS_BACKEND="anabranch").stdout.split() == ["True", "False"]
    assert "anabranch" not in run(f"import sys\n{line}\nprint(sorted(sys.modules))", KERAS_BACKEND="jax").stdout


@pytest.mark.parametrize(("before", "inline"), [("", "True"), ("import jax", "False")])
def test_that_keras_imports_jax_changes_no_dispatch(before, inline):
    code = f"""
{before}
import sys, anabranch.keras, keras
import anabranch as tf
from anabranch.xla import engine, startup
engine.devices("cpu")
print("jax" in sys.modules, startup.choices.dispatches_inline)
"""
    done = run(code, KERAS_BACKEND="anabranch", JAX_PLATFORMS="cpu")
    assert done.stdout.split() == ["True", inline], done.stderr


def test_another_backend_was_there_first():
    code = """
import sys, types
config = types.ModuleType("keras.src.backend.config")
config.backend = lambda: "torch"
config.__spec__ = types.SimpleNamespace(loader=None)
sys.modules["keras.src.backend.config"] = config
import anabranch.keras
"""
    done = run(code)
    with pytest.raises(RuntimeError, match=r"backend 'torch'\nExpected: (.|\n)*Instead: import anabranch.keras before"):
        raise RuntimeError(done.stderr)


def test_names_of_tf_keras(keras):
    assert tf.keras.layers.Dense is not keras.layers.Dense
    assert tf.keras.losses.MSE is tf.keras.losses.mean_squared_error
    assert {"layers", "backend", "Sequential"} <= set(dir(tf.keras))
    assert {"get_session", "mean", "learning_phase"} <= set(dir(tf.keras.backend))
    assert tf.contrib.keras.layers.Dense is tf.keras.layers.Dense
    code = """
import anabranch as tf, anabranch.keras, keras
assert tf.keras.layers.Dense is keras.layers.Dense, tf.keras.layers.Dense
"""
    done = run(code, KERAS_BACKEND="anabranch")
    assert done.returncode == 0, done.stderr


def test_sessions_of_the_backend():
    backend = tf.keras.backend
    with tf.Graph().as_default():
        v = backend.variable(2.0)
        session = backend.get_session()
        assert backend.get_session() is session
        assert backend.get_value(v) == 2
        backend.set_value(v, 5.0)
        assert backend.eval(v * 2.0) == 10
        with tf.Session() as other:
            assert backend.get_session() is other
            backend.set_session(other)
        assert backend.get_session() is other
    with tf.Graph().as_default():
        assert backend.get_session() is not other


def test_values_of_the_backend(eager):
    assert tf.keras.backend.eval(tf.constant([1, 2])).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="Given: a session where ops run at once"):
        tf.keras.backend.get_session()
