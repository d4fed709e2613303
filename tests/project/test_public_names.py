"""The public interface: names found on first use, namespaces as modules, importing for next to nothing."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys
import types

import pytest
from sources import ROOT

import anabranch as tf
from anabranch.core.contract import api, hooks


def fresh(program: str) -> str:
    """Output of a program in a new interpreter."""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip()


def test_importing_loads_no_family_and_no_runtime():
    loaded = fresh(
        "import sys, anabranch as tf\n"
        "tf.Graph(); tf.float32; tf.errors.OpError; tf.__version__; hasattr(tf, '__wrapped__')\n"
        "heavy = ('anabranch.ops.', 'anabranch.session', 'jax', 'google')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    assert loaded == "[]"


def test_first_use_loads_no_jax():
    assert fresh("import sys, anabranch as tf\ntf.constant(1.0); tf.Session; print('jax' in sys.modules)") == "False"


WAYS = {
    "from anabranch.errors import OpError as e; import anabranch as tf; print(e is tf.errors.OpError)": "True",
    "import anabranch.nn as nn; import anabranch as tf; print(nn is tf.nn, nn.relu is tf.nn.relu)": "True True",
    "from anabranch import nn, constant; print(nn.relu.__module__)": "anabranch.nn",
    "import anabranch.compat.v1 as tf, anabranch as a; print(tf is a, tf.compat.v1 is tf)": "True True",
    "from anabranch import *; print('all')": "all",
    "import anabranch.ops; from anabranch.core import graph; print(anabranch.constant(1).op.name)": "Const",
}


@pytest.mark.parametrize("program", WAYS)
def test_ways_to_a_name(program):
    assert fresh(program) == WAYS[program]


def test_every_name_resolves():
    dir(tf)
    for name, wanted in list(api.names().items()):
        found = tf
        for part in name.split("."):
            found = getattr(found, part)
        assert found is wanted, name
        parent, _, last = name.rpartition(".")
        assert last in dir(importlib.import_module(f"anabranch.{parent}" if parent else "anabranch")), name


def test_namespaces_are_modules():
    dir(tf)
    for name in {name.rpartition(".")[0] for name in api.names() if "." in name}:
        assert isinstance(importlib.import_module(f"anabranch.{name}"), types.ModuleType)


def test_packages_that_are_namespaces_find_all_their_names():
    """A package called as a namespace must hand unknown names to the table: `api.module_attributes`."""
    dir(tf)
    parts = {module.name for module in pkgutil.iter_modules(tf.__path__)}
    for name in sorted({name.partition(".")[0] for name in api.names() if "." in name} & parts):
        module = importlib.import_module(f"anabranch.{name}")
        missing = [item for item in api.namespace(name) if not hasattr(module, item)]
        assert not missing, (
            f"anabranch.{name} lacks {missing}: write __getattr__, __dir__ = api.module_attributes({name!r})"
        )


def test_unknown_names():
    for call, near in (
        (lambda: tf.Placeholder, "tf.placeholder"),
        (lambda: tf.errors.NotfoundError, "tf.errors.NotFoundError"),
        (lambda: tf.relu, "tf.nn.relu"),
        (lambda: tf.train.Adam, "tf.train.AdamOptimizer"),
    ):
        with pytest.raises(AttributeError, match=rf"(?s)has no attribute.*Given: .*Expected: .*{near}"):
            call()
    with pytest.raises(AttributeError, match=r"dir\(tf\) lists the names"):
        tf.qqqqqqqq
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from anabranch.errors import Nope")
    with pytest.raises(ModuleNotFoundError, match=r"anabranch\.nope"):
        importlib.import_module("anabranch.nope")
    assert not hasattr(tf, "__getstate_for_pickle__")


def test_names_pickle():
    for thing in (tf.Graph, tf.constant, tf.nn.relu, tf.errors.NotFoundError, tf.float32, tf.zeros_initializer):
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_every_slot_is_filled():
    dir(tf)
    assert hooks.unfilled() == []


def test_constants():
    assert tf.VERSION == tf.version.VERSION == "1.15.0"
    assert tf.float32_ref.base_dtype is tf.float32
    assert tf.half is tf.float16
    assert tf.GraphKeys.GLOBAL_VARIABLES == "variables"
    graph = tf.GraphDef()
    assert type(graph).__name__ == "GraphDef"
    assert tf.train.Example.__name__ == "Example"
