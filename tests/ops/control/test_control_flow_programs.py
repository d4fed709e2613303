"""Programs with control flow give what TensorFlow gives: `tools/golden/graphs/control_flow_programs.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.graphs.control_flow_programs import PROGRAMS, results

import anabranch as tf

EXPECTED = json.loads((Path(__file__).parents[2] / "golden/control_flow_programs.json").read_text(encoding="utf-8"))


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        return bool(np.isclose(found, wanted, 2e-5, 1e-6))
    return bool(found == wanted)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_tensorflow(name: str, tier: str) -> None:
    found = results(tf, PROGRAMS[name], lambda: tf.Session(config=tf.SessionOptions(tier=tier)))
    assert same(found, EXPECTED[name]), (found, EXPECTED[name])
