"""Writes `tests/golden/version_two.json`: what functions of TensorFlow 2 give that differ from version 1's.

    python tools/golden/names/version_two.py

Runs under TensorFlow 2.21. Of each case of `version_two_cases.py`: the dtype and the numbers, to seven digits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from version_two_cases import CASES

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden" / "version_two.json"


def answer(tf, name):
    """The dtype and the value of a case."""
    value = np.asarray(CASES[name](tf))
    return {"dtype": str(value.dtype), "value": np.vectorize(lambda x: float(f"{float(x):.7g}"))(value).tolist()}


if __name__ == "__main__":
    import tensorflow

    lines = [f"{json.dumps(name)}: {json.dumps(answer(tensorflow, name))}" for name in CASES]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
