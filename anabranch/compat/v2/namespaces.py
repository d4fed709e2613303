"""Where a name of version 2 is looked up: its own meaning if it has one, that of the top otherwise."""

from __future__ import annotations

import builtins
import importlib
import types
from collections.abc import Callable
from typing import Any, TypeVar

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api

T = TypeVar("T")

# What version 2 has dropped; `tf.compat.v1` has it.
_DROPPED = """
    GraphKeys InteractiveSession Session VariableScope add_to_collection app arg_max arg_min assign assign_add
    assign_sub colors contrib count_up_to create_partitioned_variables disable_eager_execution div
    enable_eager_execution fixed_size_partitioner flags get_collection get_collection_ref get_default_graph
    get_default_session get_local_variable get_variable get_variable_scope global_variables
    global_variables_initializer initialize_all_variables initialize_variables layers local_variables
    local_variables_initializer logging manip model_variables multinomial placeholder placeholder_with_default
    random_normal random_uniform report_uninitialized_variables reset_default_graph set_random_seed sparse_placeholder
    tables_initializer to_double to_float to_int32 to_int64 trainable_variables truncated_normal user_ops
    variable_scope variables_initializer
"""
DROPPED = frozenset(_DROPPED.split())
ROOT = "tf.compat.v2"
# Namespaces that are those of Keras in version 2.
_OF_KERAS = frozenset(["losses", "metrics", "optimizers"])

published, published_names = api.module_attributes("compat.v2")
_own: dict[str, dict[str, Any]] = {"": {}}
_modules: dict[str, types.ModuleType] = {}
_shown: list[tuple[dict[str, Any], str]] = []
"""Names that were asked for and are attributes of their namespaces since: a program asks at each call."""


class _Namespace(types.ModuleType):
    """A namespace of version 2: its own names, then those of version 1."""

    def __init__(self, path: str) -> None:
        super().__init__(f"anabranch.compat.v2.{path}", f"Names of {ROOT}.{path}.")
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return show(self.__dict__, name, find(self._path, name))

    def __dir__(self) -> list[str]:
        return sorted({*_below(self._path), *_first_names(self._path)})


def _below(path: str) -> set[str]:
    """Names that version 2 itself has in a namespace."""
    start = f"{path}." if path else ""
    spaces = {space[len(start) :].partition(".")[0] for space in _own if space.startswith(start) and space != path}
    return {*_own.get(path, {}), *spaces} - {""}


def _first(path: str) -> Any:
    """Version 1's namespace of that name; None if it has none."""
    if path.startswith("__"):
        return None
    try:
        return importlib.import_module(f"anabranch.{path}" if path else "anabranch")
    except ModuleNotFoundError:
        return None


def _first_names(path: str) -> list[str]:
    first = _first(path)
    return [] if first is None else dir(first)


def version_2(*names: str) -> Callable[[T], T]:
    """Decorator: gives an object names of version 2."""

    def put(item: T) -> T:
        for name in names:
            path, _, last = name.rpartition(".")
            _own.setdefault(path, {})[last] = item
        for names_of, seen in _shown:
            names_of.pop(seen, None)
        _shown.clear()
        return item

    return put


def show(names: dict[str, Any], name: str, item: Any) -> Any:
    """Make an object that was looked up an attribute of its namespace, whose names these are; the object.

    Names of Python's own are looked up each time: the module's code means Python's by them.
    """
    if not hasattr(builtins, name):
        names[name] = item
        _shown.append((names, name))
    return item


def find(path: str, name: str) -> Any:
    """The object of that name in a namespace of version 2; AttributeError if there is none."""
    own = _own.get(path, {})
    if name in own:
        return own[name]
    full = f"{path}.{name}" if path else name
    if name in _below(path):
        if full not in _modules:
            _modules[full] = _Namespace(full)
        return _modules[full]
    if not path:
        if name in DROPPED:
            raise AttributeError(
                f"module 'anabranch.compat.v2' has no attribute {name!r}\n"
                + errors.message(f"{ROOT}.{name}", "a name of TensorFlow 2", f"tf.compat.v1.{name}"),
                name=name,
            )
        if name in _OF_KERAS:
            return getattr(importlib.import_module("anabranch.keras"), name)
        try:
            return published(name)
        except AttributeError:
            return getattr(tf, name)
    if name.startswith("__"):
        raise AttributeError(name)
    first = _first(path)
    if first is None:
        raise AttributeError(
            f"module 'anabranch.compat.v2.{path}' has no attribute {name!r}\n"
            + errors.message(f"{ROOT}.{full}", f"one of {sorted(_below(path))}", "see docs/keras.md for what is there"),
            name=name,
        )
    return getattr(first, name)


def listing() -> list[str]:
    """Names of version 2 at the top."""
    return sorted(({*dir(tf), *published_names(), *_below("")} - DROPPED) - {""})
