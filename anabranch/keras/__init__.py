"""``tf.keras``: Keras as programs of TensorFlow 1.x know it, or Keras 3 itself, on Anabranch.

Names are those of :mod:`anabranch.keras.v1`: layers on tensors of a graph, or at once after
``tf.enable_eager_execution()`` or ``tf.enable_v2_behavior()``. With ``KERAS_BACKEND=anabranch``, and in programs of
version 2 that have imported Keras 3, they are Keras 3's. Either way ``import
anabranch.keras`` makes ``import keras`` mean Keras 3 on Anabranch in this process; ``docs/keras.md`` is the guide,
:mod:`anabranch.keras.loader` says how it works.
"""

from __future__ import annotations

import importlib
from typing import Any

from anabranch.core.values import version_two
from anabranch.keras import loader

loader.install()


def _names() -> Any:
    """What finds and lists names now."""
    if version_two.is_everywhere() and loader.is_wanted():
        return loader
    return importlib.import_module("anabranch.keras.v1.names")


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__version__":
        raise AttributeError(name)
    return _names().find("", name)


def __dir__() -> list[str]:
    return list(_names().listing(""))
