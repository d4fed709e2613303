"""``tf.keras``: Keras 3 itself, on Anabranch.

``import anabranch.keras`` makes ``import keras`` mean Keras on Anabranch in this process; ``docs/keras.md`` is the
guide, :mod:`anabranch.keras.loader` says how it works. Names are Keras' own and, beside them, the
older ones that Keras has for ``tf.keras``. :mod:`anabranch.keras.backend` adds what programs of version 1 use.
"""

from __future__ import annotations

import importlib
from typing import Any

from anabranch.keras import loader

loader.install()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "backend":
        return importlib.import_module(f"{__name__}.backend")
    return loader.find("", name)


def __dir__() -> list[str]:
    return sorted({*loader.listing(""), "backend"})
