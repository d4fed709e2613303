"""Models that TensorFlow and Keras saved, and what TensorFlow computes (tools/golden/graphs/saved_models.py)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.core.protos import saved_model_pb2

MODELS = Path(__file__).parents[1] / "golden" / "saved_models"


@pytest.fixture
def altered(tmp_path: Path) -> Callable[..., str]:
    """Copies a model, hands its description to a function that may change it, and returns the copy's path."""

    def copy(name: str, change: Callable[[Any], None] = lambda model: None) -> str:
        folder = tmp_path / name
        shutil.copytree(MODELS / name, folder)
        path = folder / "saved_model.pb"
        model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        change(model)
        path.write_bytes(model.SerializeToString())
        return str(folder)

    return copy
