"""Writes `tests/golden/metrics.json`: what TensorFlow's streaming metrics say of unusual data, and of none.

    python tools/golden/training/metrics.py

Runs under TensorFlow 1.15. Data: none at all, NaN or values outside of [0, 1] among the predictions, one class only,
weights of zero. Of each metric: the value before any update, the update's result, the value after it, and the static
shapes of both; the name of the error's class where TensorFlow raises.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from metrics_cases import KINDS, metrics_of

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden" / "metrics.json"


def shown(number):
    """A number with six digits; NaN as text."""
    return "nan" if np.isnan(number) else round(float(number), 6)


def answers(tf):
    """(kind of data, metric) -> answers; NaN as text, since JSON has none."""
    found = {}
    for kind in KINDS:
        for name in metrics_of(tf, "usual"):
            entry = {}
            for step in ("before", "update", "after"):
                with tf.Graph().as_default():
                    try:
                        value, update = metrics_of(tf, kind)[name]()
                        entry["shapes"] = [value.shape.as_list(), update.shape.as_list()]
                        with tf.Session() as session:
                            session.run(tf.local_variables_initializer())
                            if step == "after":
                                session.run(update)
                            answer = session.run(update if step == "update" else value)
                        entry[step] = np.vectorize(shown, otypes=[object])(answer).tolist()
                    except Exception as problem:
                        entry[step] = type(problem).__name__
            found[f"{kind} {name}"] = entry
    return found


if __name__ == "__main__":
    import tensorflow

    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in answers(tensorflow).items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
