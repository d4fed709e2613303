"""Libraries of `tf.contrib` against what TensorFlow 1.15.5 made of the same cases.

`tests/golden/contrib.json` is written by `tools/golden/contrib/write.py`: names and shapes of variables, and values.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/contrib.json").read_text(encoding="utf-8"))
_spec = importlib.util.spec_from_file_location("golden_contrib", ROOT / "tools/golden/contrib/cases.py")
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
sys.modules["golden_contrib"] = cases
_spec.loader.exec_module(cases)


def test_every_case_has_a_golden_result() -> None:
    assert set(cases.CASES) == set(GOLDEN)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_values_are_those_of_tensorflow(name: str) -> None:
    result = cases.run(tf, cases.CASES[name])
    assert result["variables"] == GOLDEN[name]["variables"]
    assert set(result["values"]) == set(GOLDEN[name]["values"])
    for key, wanted in GOLDEN[name]["values"].items():
        np.testing.assert_allclose(result["values"][key], wanted, rtol=2e-5, atol=2e-6, err_msg=key)
