"""Variables, variable scopes and initializers make the operations that TensorFlow makes, under its names."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "variables.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "golden_variables", ROOT / "tools" / "golden" / "training" / "variables.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


def plain(value):
    """``value`` as JSON would give it back."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", GOLDEN)
def test_same_operations(name):
    wanted = GOLDEN[name]
    found = plain(recorder.run(wanted["source"], tf, np))
    assert found["out"] == wanted["out"]
    assert found["nodes"] == wanted["nodes"]


def test_recorded_programs_are_those_of_the_tool():
    assert {name: row["source"] for name, row in GOLDEN.items()} == recorder.CASES
