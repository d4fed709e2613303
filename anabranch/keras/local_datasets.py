"""Sets of images that lie in Keras' folder of downloads, read without loading Keras 3 and its engine.

A set that is not there is left to Keras 3, which downloads it to that folder. ``KERAS_HOME`` names another folder than
``~/.keras``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.cli import idx
from anabranch.keras import loader


def load_mnist(path: str = "mnist.npz") -> Any:
    """MNIST's digits.

    Args:
        path: file in the folder of downloads, or an absolute path.

    Returns:
        ``(x_train, y_train), (x_test, y_test)``: images ``[n, 28, 28]`` and labels ``[n]`` of unsigned bytes.
    """
    file = _folder() / path
    if not file.is_file():
        return loader.find("datasets.mnist", "load_data")(path)
    with np.load(file) as arrays:
        return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])


def load_fashion_mnist() -> Any:
    """Fashion-MNIST's images of clothes.

    Returns:
        ``(x_train, y_train), (x_test, y_test)``: images ``[n, 28, 28]`` and labels ``[n]`` of unsigned bytes.
    """
    files = {part: _folder() / "fashion-mnist" / f"{name}.gz" for part, name in idx.FILES.items()}
    if not all(file.is_file() for file in files.values()):
        return loader.find("datasets.fashion_mnist", "load_data")()
    arrays = {part: idx.read_idx(file) for part, file in files.items()}
    return (arrays["train_images"], arrays["train_labels"]), (arrays["test_images"], arrays["test_labels"])


def _folder() -> Path:
    return Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "datasets"
