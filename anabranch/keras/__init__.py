"""``tf.keras``: Keras 3 itself, on Anabranch.

``import anabranch.keras`` makes ``import keras`` mean Keras on Anabranch in this process; ``docs/keras.md`` is the
guide, :mod:`anabranch.keras.loader` says how it works.
"""

from __future__ import annotations

from typing import Any

from anabranch.keras import loader

loader.install()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(loader.keras(), name)


def __dir__() -> list[str]:
    return dir(loader.keras())
