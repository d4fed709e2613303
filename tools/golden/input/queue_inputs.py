"""Writes `tests/golden/queue_inputs.json`: what TensorFlow 1's queues of inputs give (`queue_input_cases.py`).

    python tools/golden/input/queue_inputs.py

It runs with the Python of a TensorFlow 1.15; the queues of later versions make other graphs.
"""

import json
import os
import tempfile

import queue_input_cases
import tensorflow as tf

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests/golden/queue_inputs.json")


def main():
    """Writes the file."""
    given = {}
    for case in queue_input_cases.CASES:
        with tempfile.TemporaryDirectory() as folder:
            given[case] = queue_input_cases.run(tf, case, folder)
    lines = [f"{json.dumps(case)}: {json.dumps(values)}" for case, values in given.items()]
    with open(GOLDEN, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
