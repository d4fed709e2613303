"""``tf.contrib.keras``: the namespaces of ``tf.keras`` that it had in TensorFlow 1.2 and 1.3."""

from __future__ import annotations

import importlib
from typing import Any

_NAMESPACES = (
    "activations",
    "applications",
    "backend",
    "callbacks",
    "constraints",
    "datasets",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "preprocessing",
    "regularizers",
    "utils",
)


def __getattr__(name: str) -> Any:
    if name not in _NAMESPACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(importlib.import_module("anabranch.keras"), name)


def __dir__() -> list[str]:
    return list(_NAMESPACES)
