"""Writes `tests/golden/readers.json`: what TensorFlow 1's readers give (`reader_cases.py`).

    python tools/golden/input/readers.py

It runs with the Python of a TensorFlow 1.15; nothing else does what these readers do.
"""

import json
import os
import tempfile

import reader_cases
import tensorflow as tf

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests/golden/readers.json")


def main():
    """Writes the file."""
    given = {}
    for case in reader_cases.CASES:
        with tempfile.TemporaryDirectory() as folder:
            given[case] = reader_cases.run(tf, case, folder)
    lines = [f"{json.dumps(case)}: {json.dumps(values)}" for case, values in given.items()]
    with open(GOLDEN, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
