"""Optimizers, averages, decays and clipping make the operations that TensorFlow makes, and give its values."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "training.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "golden_training", ROOT / "tools" / "golden" / "training" / "training.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


def plain(value):
    """``value`` as JSON would give it back."""
    return json.loads(json.dumps(value))


def differences(wanted, found, place="out"):
    """Texts of where two JSON values differ; floats may differ in the last digits."""
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            text
            for i, (w, f) in enumerate(zip(wanted, found, strict=True))
            for text in differences(w, f, f"{place}[{i}]")
        ]
    if isinstance(wanted, float) and isinstance(found, float):
        same = math.isclose(wanted, found, rel_tol=2e-5, abs_tol=2e-6) or (math.isnan(wanted) and math.isnan(found))
    else:
        same = wanted == found and type(wanted) is type(found)
    return [] if same else [f"{place}: {found!r}, TensorFlow {wanted!r}"]


@pytest.mark.parametrize("name", GOLDEN)
def test_same_operations_and_values(name):
    wanted = GOLDEN[name]
    found = plain(recorder.run(wanted["source"], tf, np))
    told = differences(wanted["out"], found["out"])
    assert not told, "\n".join(told)
    assert found["nodes"] == wanted["nodes"]


@pytest.mark.parametrize("name", GOLDEN)
def test_same_values_when_compiled(name):
    wanted = GOLDEN[name]

    def session():
        return tf.Session(config=tf.SessionOptions(tier="compiled"))

    told = differences(wanted["out"], plain(recorder.run(wanted["source"], tf, np, session))["out"])
    assert not told, "\n".join(told)


def test_recorded_programs_are_those_of_the_tool():
    assert {name: row["source"] for name, row in GOLDEN.items()} == recorder.CASES
