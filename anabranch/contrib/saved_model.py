"""``tf.contrib.saved_model``: Keras models as SavedModels, under the names that they had first."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {"save_keras_model": "export_saved_model", "load_keras_model": "load_from_saved_model"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(importlib.import_module("anabranch.keras").experimental, _NAMES[name])


def __dir__() -> list[str]:
    return sorted(_NAMES)
