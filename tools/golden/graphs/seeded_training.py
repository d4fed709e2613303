"""Writes `tests/golden/seeded_training.json`: first losses of programs with a graph's seed.

    python tools/golden/graphs/seeded_training.py

Run it with TensorFlow 1.15.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[2]))
from golden.graphs.seeded_training_cases import PROGRAMS, first_values


def _main():
    """Write the file."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    rows = [f'"{name}": {json.dumps(first_values(tf, program))}' for name, program in PROGRAMS.items()]
    path = Path(__file__).parents[3] / "tests/golden/seeded_training.json"
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    _main()
