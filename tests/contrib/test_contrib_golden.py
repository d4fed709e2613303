"""Libraries of `tf.contrib` against what TensorFlow made of the same cases.

`tests/golden/contrib.json` (of 1.15.5) and `contrib_older.json` (of 1.8.0, with libraries that 1.15 no longer had) are
written by `tools/golden/contrib/write.py`: names and shapes of variables, and values.
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


def _cases(module: str) -> dict[str, Any]:
    """The cases of a module of `tools/golden/contrib`; they import each other by their names."""
    spec = importlib.util.spec_from_file_location(module, ROOT / f"tools/golden/contrib/{module}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[module] = loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return dict(getattr(loaded, "CASES", {}))


def _golden(name: str) -> dict[str, Any]:
    return dict(json.loads((ROOT / "tests/golden" / name).read_text(encoding="utf-8")))


_cases("cases")
for _more in ("further_cases", "optimizer_cases", "column_cases"):  # which enter their cases among those of `cases`
    _cases(_more)
CASES, OLDER_CASES = sys.modules["cases"].CASES, _cases("older_cases")
GOLDEN, OLDER = _golden("contrib.json"), _golden("contrib_older.json")
run = sys.modules["cases"].run


def test_every_case_has_a_golden_result() -> None:
    assert set(CASES) == set(GOLDEN)
    assert set(OLDER_CASES) == set(OLDER)


@pytest.mark.parametrize("name", sorted([*GOLDEN, *OLDER]))
def test_values_are_those_of_tensorflow(name: str) -> None:
    function, wanted = (CASES[name], GOLDEN[name]) if name in CASES else (OLDER_CASES[name], OLDER[name])
    result = run(tf, function)
    assert result["variables"] == wanted["variables"]
    assert set(result["values"]) == set(wanted["values"])
    # What is rounded to codes may fall to the next one; sums stand for large arrays there.
    tolerance = 5e-4 if name.startswith("quantize_") else 2e-5
    for key, value in wanted["values"].items():
        np.testing.assert_allclose(result["values"][key], value, rtol=tolerance, atol=2e-6, err_msg=key)
