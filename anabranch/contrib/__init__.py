"""``tf.contrib``: libraries that load when they are named, one module or package of this folder for each.

A library publishes its names as everything does, ``@public("contrib.training.HParams")``, and ends with
``__getattr__, __dir__ = api.module_attributes("contrib.training")``. Names that a library outside this folder
publishes
under ``contrib.`` (the cells of ``anabranch.rnn`` as ``contrib.rnn.LSTMCell``) are found without a module here. Nothing
of this folder loads before a program says ``tf.contrib.<library>`` or ``from anabranch.contrib import <library>``.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import absent, api

_find, _listing = api.module_attributes("contrib")
_modules = frozenset(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name in _modules:
        return importlib.import_module(f"{__name__}.{name}")
    try:
        return _find(name)
    except AttributeError:
        instead = absent.instead(f"contrib.{name}")
        if instead is None:
            raise
        raise AttributeError(
            errors.message(
                f"tf.contrib.{name}, a library of TensorFlow 1.x that is not here",
                f"one of {', '.join(__dir__())}",
                instead,
            ),
            name=name,
        ) from None


def __dir__() -> list[str]:
    return sorted({*_modules, *_listing()})
