"""Writes `tests/golden/contrib.json`: what TensorFlow 1.15.5 makes of the cases of `cases.py`.

python tools/golden/contrib/write.py        # in an environment with TensorFlow 1.15
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parent))
import cases

GOLDEN = Path(__file__).parents[3] / "tests/golden/contrib.json"


def rounded(value):
    """Floats of six digits, as JSON writes them shortest."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    results = {}
    for name, function in cases.CASES.items():
        results[name] = rounded(cases.run(tf, function))
    text = json.dumps(results, sort_keys=True, separators=(",", ":"))
    GOLDEN.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    print(len(results), "cases", len(text), "bytes")
