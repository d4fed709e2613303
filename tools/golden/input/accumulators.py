"""Writes `tests/golden/accumulators.json`: what TensorFlow 1's accumulators give (`accumulator_cases.py`).

    python tools/golden/input/accumulators.py

It runs with the Python of a TensorFlow 1.15.
"""

import json
import os

import accumulator_cases
import tensorflow as tf

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests/golden/accumulators.json")

if __name__ == "__main__":
    with open(GOLDEN, "w") as file:
        file.write(json.dumps(accumulator_cases.everything(tf)) + "\n")
