"""Writes `tests/golden/contrib.json`: what TensorFlow 1.15.5 makes of the cases of `cases.py`, `further_cases.py`,
`optimizer_cases.py` and `column_cases.py`.

python tools/golden/contrib/write.py        # in an environment with TensorFlow 1.15
python tools/golden/contrib/write.py NAME   # only cases of which names begin like this

With TensorFlow 1.8.0 it writes `tests/golden/contrib_older.json`, of the cases of `older_cases.py`.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parent))
import cases
import column_cases
import further_cases  # enters its cases among those of `cases`
import older_cases
import optimizer_cases

assert further_cases.case is cases.case is optimizer_cases.case is column_cases.case
GOLDEN = Path(__file__).resolve().parents[3] / "tests/golden"


def rounded(value):
    """Floats of six digits, as JSON writes them shortest."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    older = tf.VERSION.startswith("1.8.")
    file = GOLDEN / ("contrib_older.json" if older else "contrib.json")
    results = json.loads(file.read_text()) if sys.argv[1:] else {}
    for name, function in (older_cases if older else cases).CASES.items():
        if name.startswith(tuple(sys.argv[1:]) or ""):
            results[name] = rounded(cases.run(tf, function))
    text = json.dumps(results, sort_keys=True, separators=(",", ":"))
    file.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    print(len(results), "cases", len(text), "bytes")
