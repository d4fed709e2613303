"""Loading Keras 3 so that it runs on Anabranch.

Keras chooses its engine by ``KERAS_BACKEND``. For ``anabranch`` its backend for TensorFlow is loaded, from the Keras
that is installed and unchanged, with Anabranch standing where it imports ``tensorflow``: the names and argument lists
of TensorFlow 2 (:mod:`anabranch.compat.v2`), whatever ``tensorflow`` means in the rest of the program. So Keras is the
real one, ``keras.backend.backend()`` says ``tensorflow``, and none of its code is copied.

With ``KERAS_BACKEND=anabranch`` in the environment the program is one of version 2: ops run when they are applied,
and shapes and equality are version 2's (``tf.enable_v2_behavior()``). A line that the wheel adds to ``site-packages``
installs the finder in such a process. Otherwise only Keras' own modules have version 2's meaning, whatever the
program does.

A finder in front of the others loads ``keras`` and what is below it by the ordinary loader, with one difference: the
modules' ``import`` statements are answered here.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.compat import behaviour, hook
from anabranch.core import errors
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import version_two
from anabranch.data.dataset import Dataset
from anabranch.ragged.ragged_tensor import RaggedTensor
from anabranch.xla import engine

KERAS = "keras"
NAME = "anabranch"
_TENSORFLOW = "tensorflow"
_JAX = "jax"
_ANSWERED = (_TENSORFLOW, _JAX)
_VARIABLE = "KERAS_BACKEND"
_CONFIG = f"{KERAS}.src.backend.config"
_UTILITIES = f"{KERAS}.src.utils.module_utils"
_BACKEND = f"{KERAS}.src.backend.{_TENSORFLOW}"


def tensorflow() -> types.ModuleType:
    """What Keras gets for ``import tensorflow``."""
    return importlib.import_module("anabranch.compat.v2")


class _Internals(types.ModuleType):
    """One of TensorFlow's internal modules, which no other import of the program sees."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{_TENSORFLOW}.{path}")
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        item = hook.resolve_value(self._path, name)
        if item is hook.INTERNAL:
            item = _Internals(f"{self._path}.{name}")
        elif isinstance(item, hook.Elsewhere):
            item = _Internals(item.path)
        self.__dict__[name] = item
        return item


def _module(path: list[str]) -> Any:
    """The module that ``tensorflow`` and these names below it mean to Keras."""
    if path[:1] in (["python"], ["core"], ["compiler"]):
        return _Internals(".".join(path))
    module: Any = tensorflow()
    for part in path:
        module = getattr(module, part)
    return module


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> Any:
    if level or not name.startswith(_ANSWERED):  # Keras imports at each call of many a function
        return builtins.__import__(name, globals, locals, fromlist, level)
    root = name.partition(".")[0]
    if root != _TENSORFLOW:
        if root == _JAX:
            engine.jax()  # imported by the library, not by the program: devices start as our own import has them start
        return builtins.__import__(name, globals, locals, fromlist, level)
    # `import tensorflow.compat.v2 as tf` asks for the attributes one by one.
    return _module(name.split(".")[1:] if fromlist else [])


def _is_dataset(x: Any) -> bool:
    return isinstance(x, Dataset)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor | SparseTensor)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, SparseTensor)


def _is_ragged(x: Any) -> bool:
    return isinstance(x, RaggedTensor)


# Keras knows these objects by the names of TensorFlow's classes and modules; ours have others.
_ANSWERS: dict[str, dict[str, Any]] = {
    f"{KERAS}.src.trainers.data_adapters": {"is_tf_dataset": _is_dataset},
    f"{KERAS}.src.utils.dataset_utils": {"is_tf_dataset": _is_dataset},
    f"{KERAS}.src.trainers.data_adapters.data_adapter_utils": {
        "is_tensorflow_tensor": _is_tensor,
        "is_tensorflow_sparse": _is_sparse,
    },
    f"{KERAS}.src.utils.tf_utils": {"is_ragged_tensor": _is_ragged},
}

_builtins = {**vars(builtins), "__import__": _import}
version_two.add_library(_builtins)


class _Loader(importlib.machinery.SourceFileLoader):
    """Load a module of Keras from its file."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's code with imports that are answered here."""
        module.__dict__["__builtins__"] = _builtins
        if module.__name__ == _CONFIG:
            self._choose_backend(module)
        else:
            super().exec_module(module)
        for name, answer in _ANSWERS.get(module.__name__, {}).items():
            setattr(module, name, answer)
        if module.__name__ == _UTILITIES:
            lazy: Any = module
            for stand_in, meant in ((lazy.tensorflow, tensorflow()), (lazy.gfile, tensorflow().io.gfile)):
                stand_in.module = meant
                stand_in._available = True  # else it would look for an installed TensorFlow

    def _choose_backend(self, module: types.ModuleType) -> None:
        """Run the module that reads which backend is wanted; the program is one of version 2 if it is this one."""
        wanted = os.environ.get(_VARIABLE)
        if wanted == NAME:
            behaviour.enable_v2_behavior()
        os.environ[_VARIABLE] = _TENSORFLOW
        try:
            super().exec_module(module)
        finally:
            if wanted is None:
                del os.environ[_VARIABLE]
            else:
                os.environ[_VARIABLE] = wanted


class _Finder(importlib.abc.MetaPathFinder):
    """Find Keras where it is, and load it by :class:`_Loader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of Keras; None for any other."""
        if fullname.partition(".")[0] != KERAS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


_lock = threading.Lock()
_finder = _Finder()


def install() -> None:
    """Have ``import keras`` load Keras on Anabranch from now on.

    Raises:
        RuntimeError: Keras was imported before, for another engine.
    """
    with _lock:
        loaded = sys.modules.get(_CONFIG)
        if loaded is not None and not isinstance(getattr(loaded.__spec__, "loader", None), _Loader):
            raise RuntimeError(
                errors.message(
                    f"Keras, imported before with the backend {loaded.backend()!r}",
                    "a process in which Keras is not imported yet",
                    "import anabranch.keras before keras, or set KERAS_BACKEND=anabranch in the environment",
                )
            )
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def is_wanted() -> bool:
    """Whether the program has chosen Keras 3: by its environment, or as it has imported it."""
    return os.environ.get(_VARIABLE) == NAME or _CONFIG in sys.modules


def keras() -> types.ModuleType:
    """Keras on Anabranch.

    Raises:
        ImportError: Keras 3 is not installed.
        RuntimeError: it was imported before, for another engine.
    """
    install()
    try:
        return importlib.import_module(KERAS)
    except ModuleNotFoundError as problem:
        if problem.name != KERAS:
            raise
        raise ImportError(
            errors.message("a process without Keras", "Keras 3", "pip install 'anabranch[keras]'"), name=KERAS
        ) from problem


class _Namespace(types.ModuleType):
    """A namespace of ``tf.keras``."""

    def __init__(self, path: str) -> None:
        super().__init__(f"anabranch.keras.{path}", f"Names of tf.keras.{path}.")
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return find(self._path, name)

    def __dir__(self) -> list[str]:
        return listing(self._path)


def _homes(path: str) -> list[Any]:
    """Keras' modules for a namespace of ``tf.keras``: its own one, and that with TensorFlow 2's older names."""
    keras()
    homes = []
    for root in (KERAS, f"{KERAS}._tf_keras.{KERAS}"):
        module: Any = importlib.import_module(root)
        for part in filter(None, path.split(".")):
            module = getattr(module, part, None)
        if module is not None:
            homes.append(module)
    return homes


def find(path: str, name: str) -> Any:
    """The object of that name in a namespace of ``tf.keras``; AttributeError if there is none."""
    for home in _homes(path):
        item = getattr(home, name, None)
        if isinstance(item, types.ModuleType):
            return _namespaces.setdefault(full := f"{path}.{name}".strip("."), _Namespace(full))
        if item is not None:
            return item
    shown = f"tf.keras.{path}.{name}".replace("..", ".")
    raise AttributeError(
        f"module 'anabranch.keras' has no attribute {name!r}\n"
        + errors.message(shown, "a name of Keras 3", f"one of dir({shown.rpartition('.')[0]})"),
        name=name,
    )


def listing(path: str) -> list[str]:
    """Names in a namespace of ``tf.keras``."""
    return sorted({name for home in _homes(path) for name in dir(home) if not name.startswith("_")})


_namespaces: dict[str, _Namespace] = {}
