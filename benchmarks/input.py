"""Measure what reading input costs: lines, parsed examples, tables; here and in TensorFlow's `tf.data`.

    python benchmarks/input.py [--peer PYTHON_WITH_TENSORFLOW] [--rounds 3]

Prints microseconds of CPU time per element (median of rounds, the two taking turns), each round in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

BATCH = 256
LINES, EXAMPLES, ROWS, COLUMNS = 200_000, 10_000, 10_000, 40


def write_files(tf, folder):
    """Make the files, if they are not there."""
    draw = random.Random(0)
    names = {kind: os.path.join(folder, kind) for kind in ("lines", "examples", "table")}
    if not os.path.exists(names["lines"]):
        with open(names["lines"], "w") as file:
            file.writelines(f"the quick brown fox {draw.randrange(10**6)} jumps\n" for _ in range(LINES))
        with open(names["table"], "w") as file:
            for _ in range(ROWS):
                file.write(",".join(f"{draw.random():.4f}" for _ in range(COLUMNS)) + "\n")
        with tf.io.TFRecordWriter(names["examples"]) as writer:
            for i in range(EXAMPLES):
                example = tf.train.Example()
                for k in range(5):
                    example.features.feature[f"f{k}"].float_list.value.extend([draw.random()] * 4)
                    example.features.feature[f"i{k}"].int64_list.value.append(i + k)
                writer.write(example.SerializeToString())
    return names


def measured(tf, folder):
    """Microseconds of CPU time per element of each row."""
    names = write_files(tf, folder)
    features = {f"f{k}": tf.io.FixedLenFeature([4], tf.float32) for k in range(5)}
    features.update({f"i{k}": tf.io.FixedLenFeature([], tf.int64) for k in range(5)})
    rows = {
        "lines": (lambda: tf.data.TextLineDataset(names["lines"]).batch(BATCH), LINES),
        "examples": (
            lambda: (
                tf.data.TFRecordDataset(names["examples"])
                .batch(BATCH)
                .map(lambda batch: tf.io.parse_example(batch, features))
            ),
            EXAMPLES,
        ),
        "table": (
            lambda: tf.data.experimental.CsvDataset(names["table"], [tf.float32] * COLUMNS).batch(BATCH),
            ROWS,
        ),
    }
    results = {}
    for name, (make, count) in rows.items():
        with tf.Graph().as_default(), tf.Session() as session:
            iterator = make().make_initializable_iterator()
            element = iterator.get_next()
            spent = []
            for _ in range(3):
                session.run(iterator.initializer)
                start = time.process_time()
                while True:
                    try:
                        session.run(element)
                    except tf.errors.OutOfRangeError:
                        break
                spent.append(time.process_time() - start)
        results[name] = min(spent) / count * 1e6
    return results


def main():
    """Take turns with the peer, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="a Python that has TensorFlow")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help="measure one library in this process: anabranch or tensorflow")
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.measure:
        if options.measure == "anabranch":
            import anabranch as tf
        else:
            import tensorflow

            tf = tensorflow.compat.v1
            tf.disable_eager_execution()
        print(json.dumps(measured(tf, options.folder)))
        return
    pythons = {"anabranch": sys.executable}
    if options.peer:
        pythons["tensorflow"] = options.peer
    found: dict = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, python in pythons.items():
                command = [python, __file__, "--measure", name, "--folder", folder]
                found[name].append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    for row in ("lines", "examples", "table"):
        medians = {name: statistics.median(result[row] for result in results) for name, results in found.items()}
        print(f"{row:10}" + "".join(f"  {name} {value:8.2f} us" for name, value in medians.items()))


if __name__ == "__main__":
    main()
