"""Writes `tests/golden/seed_counts.json`: operations that public functions count as for the seeds behind them.

    python tools/golden/graphs/seed_counts.py

Run it with TensorFlow 1.15.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[2]))
from golden.graphs.seed_count_cases import cases, counted


def _main():
    """Write the file."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    found = {name: counted(tf, function) for name, function in cases(tf).items()}
    rows = [f'"{name}": {json.dumps(row)}' for name, row in found.items()]
    path = Path(__file__).parents[3] / "tests/golden/seed_counts.json"
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    _main()
