"""Writes `tests/golden/seed_programs.json`: how far default seeds move in each line of programs.

    python tools/golden/graphs/seed_programs.py

Run it with TensorFlow 1.15.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[2]))
from golden.graphs.seed_program_cases import PROGRAMS, moves


def _main():
    """Write the file."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    rows = [f'"{name}": {json.dumps(moves(tf, program))}' for name, program in PROGRAMS.items()]
    path = Path(__file__).parents[3] / "tests/golden/seed_programs.json"
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    _main()
