"""The import hook, in this process and in processes of its own."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import pydoc
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch
from anabranch.compat import contrib_modules, hook, internals


@pytest.fixture
def tf() -> Iterator[Any]:
    """``tensorflow``, as the hook makes it, for one test."""
    replaced = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "tensorflow"}
    for name in replaced:
        del sys.modules[name]
    yield hook.install(replace=True)
    hook.uninstall()
    sys.modules.update(replaced)


def test_names_are_ours(tf: Any) -> None:
    assert tf.matmul is anabranch.matmul
    assert tf.nn.relu is anabranch.nn.relu
    assert tf.contrib.framework.arg_scope is anabranch.contrib.framework.arg_scope
    assert tf.__version__ == tf.VERSION == "1.15.0"
    assert tf.GIT_VERSION.endswith("-anabranch")
    assert "matmul" in dir(tf)


def test_one_module_whatever_its_name(tf: Any) -> None:
    import tensorflow.contrib.framework as imported
    from tensorflow.contrib import framework

    assert imported is framework is tf.contrib.framework
    assert importlib.import_module("tensorflow.compat.v1") is tf
    assert tf.compat.v1 is tf
    assert importlib.import_module("tensorflow.compat.v1.nn") is tf.nn
    assert imported.__name__ == "tensorflow.contrib.framework"


def test_star_imports(tf: Any) -> None:
    names: dict[str, Any] = {}
    exec("from tensorflow.python.ops.math_ops import *\nfrom tensorflow import *", names)
    assert names["matmul"] is anabranch.matmul
    assert "nn" in names


def test_star_imports_hide_nothing_of_python(tf: Any) -> None:
    """`random` of a program that says `from tensorflow.contrib import *` stays Python's."""
    names: dict[str, Any] = {"random": None}
    exec("from tensorflow.contrib import *", names)
    assert names["random"] is None
    assert names["slim"] is tf.contrib.slim
    for module in ("ops.array_ops", "framework.ops", "platform.flags"):
        names = {}
        exec(f"from tensorflow.python.{module} import *", names)
        assert not [name for name in names if not name.startswith("_") and hasattr(builtins, name)]
        assert not [name for name, value in names.items() if isinstance(value, types.ModuleType)]


@pytest.mark.parametrize(
    "place", ["python.keras", "python.keras._impl.keras", "contrib.keras.api.keras", "contrib.keras.python.keras"]
)
def test_keras_is_where_older_versions_have_it(tf: Any, place: str) -> None:
    names: dict[str, Any] = {}
    exec(f"from tensorflow.{place}.layers import *\nfrom tensorflow.{place} import backend as K", names)
    assert names["Dense"] is tf.keras.layers.Dense
    assert names["K"].relu is tf.keras.backend.relu
    for module, name, public in (
        ("preprocessing.image", "img_to_array", tf.keras.preprocessing.image.img_to_array),
        ("engine.topology", "Layer", tf.keras.layers.Layer),
        ("wrappers.scikit_learn", "KerasClassifier", tf.keras.wrappers.scikit_learn.KerasClassifier),
        ("applications.vgg16", "VGG16", tf.keras.applications.vgg16.VGG16),
    ):
        assert getattr(importlib.import_module(f"tensorflow.{place}.{module}"), name) is public


def test_names_where_version_1_13_has_them(tf: Any) -> None:
    assert importlib.import_module("tensorflow._api.v1") is tf
    assert importlib.import_module("tensorflow._api.v1.keras.layers") is tf.keras.layers


def test_functions_are_found_by_their_paths(tf: Any) -> None:
    assert pydoc.locate("tensorflow.identity") is anabranch.identity
    assert pydoc.locate("tensorflow.nn.relu") is anabranch.nn.relu
    assert pydoc.locate("tensorflow.contrib.rnn.LSTMCell") is anabranch.contrib.rnn.LSTMCell
    assert pydoc.locate("tensorflow.relu") is None  # libraries ask for a name under several paths
    with pytest.raises(ModuleNotFoundError, match="Instead: from tensorflow import identity") as refused:
        importlib.import_module("tensorflow.identity")
    assert refused.value.name == "tensorflow.identity"


@pytest.mark.parametrize("name", ["tensorflow.nothing", "tensorflow.contrib.nothing", "tensorflow.identity"])
def test_what_is_not_a_module_has_no_specification(tf: Any, name: str) -> None:
    assert importlib.util.find_spec(name) is None
    assert importlib.util.find_spec("tensorflow.python.ops.array_ops") is not None
    with pytest.raises(ModuleNotFoundError, match="Instead: "):
        importlib.import_module(name)


def test_the_dictionary_of_a_module_has_its_names(tf: Any) -> None:
    cells = [item for item in tf.contrib.rnn.__dict__.values() if isinstance(item, type)]
    assert anabranch.contrib.rnn.LSTMCell in cells
    assert vars(tf.train)["AdamOptimizer"] is anabranch.train.AdamOptimizer
    assert set(dir(anabranch.nn)) <= set(vars(tf.nn))
    assert tf.__dict__["nn"] is tf.nn
    tf.nn.__dict__["mine"] = 1
    assert tf.nn.mine == 1
    del tf.nn.mine
    assert "mine" not in vars(tf.nn)


@pytest.mark.parametrize(
    ("module", "name", "ours"),
    [
        ("python.framework.ops", "Tensor", "Tensor"),
        ("python.framework.ops", "RegisterGradient", "RegisterGradient"),
        ("python.framework.dtypes", "float32", "float32"),
        ("python.framework.tensor_shape", "TensorShape", "TensorShape"),
        ("python.framework.tensor_util", "constant_value", "contrib.util.constant_value"),
        ("python.framework.errors", "OutOfRangeError", "errors.OutOfRangeError"),
        ("python.framework.test_util", "TestCase", "test.TestCase"),
        ("python.ops.math_ops", "floor", "floor"),
        ("python.ops.nn_ops", "relu", "nn.relu"),
        ("python.ops.init_ops", "zeros_initializer", "zeros_initializer"),
        ("python.ops.variable_scope", "get_variable", "get_variable"),
        ("python.training.optimizer", "Optimizer", "train.Optimizer"),
        ("python.training.moving_averages", "ExponentialMovingAverage", "train.ExponentialMovingAverage"),
        ("python.platform.gfile", "Open", "gfile.Open"),
        ("python.platform.tf_logging", "info", "logging.info"),
        ("python.platform.app", "run", "app.run"),
        ("python.util.nest", "flatten", "nest.flatten"),
        ("python.util.compat", "as_bytes", "compat.as_bytes"),
        ("python.client.session", "Session", "Session"),
        ("contrib.all_reduce.python.all_reduce", "build_nccl_all_reduce", "contrib.all_reduce.build_nccl_all_reduce"),
        ("contrib.nccl.python.ops.nccl_ops", "all_sum", "contrib.nccl.all_sum"),
        ("python.ops.nccl_ops", "all_sum", "contrib.nccl.all_sum"),
        ("contrib.framework.python.ops", "arg_scope", "contrib.framework.arg_scope"),
        ("contrib.framework.python.ops.arg_scope", "arg_scope", "contrib.framework.arg_scope"),
        ("contrib.framework.python.ops.variables", "model_variable", "contrib.framework.model_variable"),
        ("contrib.distributions.python.ops.independent", "Independent", "contrib.distributions.Independent"),
        ("contrib.distributions.python.ops.bijectors.affine", "Affine", "contrib.distributions.bijectors.Affine"),
        ("contrib.signal.python.ops.window_ops", "hann_window", "contrib.signal.hann_window"),
        ("contrib.graph_editor.transform", "copy", "contrib.graph_editor.copy"),
        ("contrib.layers.python.layers.summaries", "summarize_tensor", "contrib.layers.summarize_tensor"),
        ("contrib.lookup.lookup_ops", "HashTable", "contrib.lookup.HashTable"),
        ("core.framework.graph_pb2", "GraphDef", "GraphDef"),
        ("core.protobuf.config_pb2", "ConfigProto", "ConfigProto"),
    ],
)
def test_internal_modules(tf: Any, module: str, name: str, ours: str) -> None:
    wanted: Any = anabranch
    for part in ours.split("."):
        wanted = getattr(wanted, part)
    assert getattr(importlib.import_module(f"tensorflow.{module}"), name) is wanted


def test_modules_that_internal_modules_import_are_theirs(tf: Any) -> None:
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import variables

    assert variables.dtypes is dtypes  # and not the module that ours imports
    with pytest.raises(AttributeError, match="has no attribute 'errors_of_nobody'"):
        _ = variables.errors_of_nobody


def test_modules_of_contrib_are_attributes_of_their_folders(tf: Any) -> None:
    from tensorflow.contrib.distributions.python.ops import bijectors, independent
    from tensorflow.contrib.framework.python.ops import arg_scope
    from tensorflow.contrib.rnn.python.ops import core_rnn_cell

    assert independent.__name__ == "tensorflow.contrib.distributions.python.ops.independent"
    assert bijectors.affine.Affine is anabranch.contrib.distributions.bijectors.Affine
    assert arg_scope is anabranch.contrib.framework.arg_scope
    assert core_rnn_cell.LSTMCell is anabranch.nn.rnn_cell.LSTMCell


def test_modules_of_contrib_are_of_libraries_that_are_here(tf: Any) -> None:
    assert {path.split(".")[1] for path in contrib_modules.MODULES} <= set(dir(anabranch.contrib))
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tensorflow\.contrib\.rnn\.python\.ops\.rnn_sell'"):
        importlib.import_module("tensorflow.contrib.rnn.python.ops.rnn_sell")


def test_every_internal_module_has_its_places(tf: Any) -> None:
    """No row of the table names a module or table that does not exist."""
    for module, places in internals.MODULES.items():
        for place in places.split():
            if place.startswith("="):
                assert place in internals._TABLES, module
                with pytest.raises(AttributeError, match="no_such_name"):
                    internals.special(place, "no_such_name")
            elif place.startswith("@"):
                importlib.import_module(f"anabranch.{place[1:]}")


def test_gradient_functions_of_op_types_are_in_the_gradient_modules(tf: Any) -> None:
    from tensorflow.python.ops import math_grad, nn_grad
    from tensorflow.python.ops.array_grad import _TileGrad

    @tf.RegisterGradient("TwiceTile")
    def _twice_tile(op: Any, grad: Any) -> Any:
        return _TileGrad(op, 2.0 * grad)

    @tf.RegisterGradient("GuidedTanh")
    def _guided_tanh(op: Any, grad: Any) -> Any:
        return tf.maximum(math_grad._TanhGrad(op, grad), 0.0)

    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.constant([0.5, -1.0])
        with graph.gradient_override_map({"Tile": "TwiceTile", "Tanh": "GuidedTanh"}):
            y = tf.tile(tf.tanh(x), [3]) * tf.constant([1.0, -1.0] * 3)
        found = session.run(tf.gradients(y, x)[0])
    np.testing.assert_allclose(found, [6.0 * (1.0 - np.tanh(0.5) ** 2), 0.0], rtol=1e-6)
    assert nn_grad._Conv2DGrad is not None
    for name in ("_NoSuchGrad", "no_such_name"):
        assert not hasattr(math_grad, name)


def test_generated_functions_take_what_the_op_takes(tf: Any) -> None:
    from tensorflow.python.ops import gen_math_ops, gen_nn_ops

    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(gen_math_ops.mat_mul([[1.0]], [[2.0]], transpose_a=True)).tolist() == [[2.0]]
        x = tf.ones([1, 2, 2, 1])
        pooled = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
        back = gen_nn_ops._max_pool_grad(x, pooled, pooled, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
        assert session.run(back).sum() == 1.0
    with pytest.raises(AttributeError, match=r"tf\.python\.ops\.gen_math_ops\.no_such_op"):
        gen_math_ops.no_such_op


def test_devices(tf: Any) -> None:
    from tensorflow.python.client import device_lib

    assert "/device:CPU:0" in [device.name for device in device_lib.list_local_devices()]


def test_what_is_set_stays(tf: Any) -> None:
    tf.nn.own = 3
    assert importlib.import_module("tensorflow.nn").own == 3
    assert not hasattr(anabranch.nn, "own")


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        ("import tensorflow as tf; tf.optimizers", AttributeError, "TensorFlow 2, and 1.x's last versions"),
        ("import tensorflow as tf; tf.contrib.timeseries", AttributeError, "Instead: statsmodels"),
        ("import tensorflow as tf; tf.reduce_summ", AttributeError, r"Instead: one of tf\.reduce_sum"),
        ("import tensorflow as tf; tf.train.Adam", AttributeError, r"Instead: one of tf\.train\.AdamOpt"),
        ("import tensorflow as tf; tf.nn.nothing", AttributeError, "a name of the program's own, or misspelt"),
        ("import tensorflow.contrib.timeseries", ModuleNotFoundError, "contrib, gone since 2.0"),
        ("from tensorflow.contrib import timeseries", ModuleNotFoundError, "Instead: statsmodels"),
        ("from tensorflow.python.keras.nothing import x", ModuleNotFoundError, "TensorFlow's internals"),
        ("from tensorflow.python.ops import nothing_ops", ModuleNotFoundError, "internals, which are not public"),
    ],
)
def test_what_is_missing_says_what_to_write(tf: Any, statement: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        exec(statement, {})


def run(program: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder, **options
    )


def test_importing_the_module_installs_the_hook(tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()  # a folder that happens to have the name is no TensorFlow
    shown = run("import anabranch.compat.tensorflow\nimport tensorflow.nn as nn\nprint(nn.relu.__name__)", tmp_path)
    assert shown.stdout == "relu\n", shown.stderr


def test_a_real_tensorflow_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text("real = True\n")
    program = "from anabranch.compat import hook\nhook.install({})\nimport tensorflow as tf\nprint(tf.VERSION)"
    refused = run(program.format(""), tmp_path)
    assert "Given: TensorFlow, installed at" in refused.stderr
    assert "anabranch run --replace-tensorflow" in refused.stderr
    assert run(program.format("replace=True"), tmp_path).stdout == "1.15.0\n"
    late = run("import tensorflow\n" + program.format("replace=True"), tmp_path)
    assert "Expected: the hook before the first `import tensorflow`" in late.stderr


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    program = """
import sys
import numpy as np
before = set(sys.modules), list(sys.meta_path), dict(vars(np)), list(sys.path)
import anabranch.compat.tensorflow
import tensorflow
new = {name.split(".")[0] for name in set(sys.modules) - before[0]}
print("tensorflow" in new, new & {"keras", "torch", "tensorboard"}, [f for f in sys.meta_path if f not in before[1]])
print(vars(np) == before[2], sys.path == before[3])
"""
    shown = run(program, tmp_path)
    assert shown.stdout.splitlines()[0].startswith("True set() [<class 'anabranch.compat.hook.Finder'>"), shown.stderr
    assert shown.stdout.splitlines()[1] == "True True"
