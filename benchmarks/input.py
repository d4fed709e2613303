"""Measure what input costs: lines, examples, tables, rows in memory, functions; here and in TensorFlow's `tf.data`.

    python benchmarks/input.py [--peer PYTHON_WITH_TENSORFLOW] [--torch PYTHON_WITH_PYTORCH] [--grain PYTHON_WITH_GRAIN]
        [--rounds 3] [--only ROW,ROW]

Prints microseconds of CPU time per element (median of rounds, all taking turns), each round in a fresh process; what
PyTorch's DataLoader (without workers, and with two) and Grain take for the rows that they have is measured by
`benchmarks/input_loaders.py`.
Rows `mapped` (``map(x * 2 + 1).batch(128)``), `shuffled` (50,000 x 784 floats, shuffled, batches of 128; beside it the
same rows gathered by hand) and `words` (lines, split, counted, in buckets by length, padded) read what is in memory.
`images` are JPEG of 500 x 375: decoded, cropped at random, flipped, resized to 224, normalised, batches of 32; elements
of `generated` come from a Python generator, those of `python` go through a Python function.
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

import numpy as np

BATCH = 256
LINES, EXAMPLES, ROWS, COLUMNS = 200_000, 10_000, 10_000, 40
NUMBERS, IMAGES, PIXELS, WORDS, SMALL = 50_000, 50_000, 784, 10_000, 128
PICTURES, CALLS = 96, 5_000
NAMES = "lines", "examples", "table", "mapped", "shuffled", "by hand", "words", "images", "generated", "python"


def write_files(tf, folder):
    """Make the files, if they are not there."""
    draw = random.Random(0)
    names = {kind: os.path.join(folder, kind) for kind in ("lines", "examples", "table", "images")}
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
        waves = np.sin(np.linspace(0, 40, 375 * 500 * 3)).reshape(375, 500, 3)
        noise = np.random.default_rng(0)
        picture = tf.placeholder(tf.uint8, [375, 500, 3])
        packed = tf.image.encode_jpeg(picture, quality=90)
        with tf.Session() as session, tf.io.TFRecordWriter(names["images"]) as writer:
            for _ in range(PICTURES):
                pixels = 128 + 90 * waves + noise.normal(0, 8, waves.shape)
                writer.write(session.run(packed, {picture: pixels.clip(0, 255).astype(np.uint8)}))
    return names


def measured(tf, folder, only):
    """Microseconds of CPU time per element of each row, or of those in ``only``."""
    names = write_files(tf, folder)
    features = {f"f{k}": tf.io.FixedLenFeature([4], tf.float32) for k in range(5)}
    features.update({f"i{k}": tf.io.FixedLenFeature([], tf.int64) for k in range(5)})
    floats = np.arange(NUMBERS, dtype=np.float32)
    images = np.random.default_rng(0).random((IMAGES, PIXELS), np.float32)
    given = {}

    def fed(array):
        tensor = tf.compat.v1.placeholder(array.dtype, array.shape)
        given[tensor] = array
        return tf.data.Dataset.from_tensor_slices(tensor)

    def words():
        dataset = tf.data.TextLineDataset(names["lines"]).take(WORDS)
        dataset = dataset.map(lambda line: tf.string_split([line]).values)
        bucket = tf.data.experimental.bucket_by_sequence_length(tf.size, [4, 5, 6], [64] * 4)
        return dataset.map(lambda parts: tf.strings.to_hash_bucket_fast(parts, 1000)).apply(bucket)

    def image(packed):
        pixels = tf.image.random_flip_left_right(
            tf.random_crop(tf.image.decode_jpeg(packed, channels=3), [300, 400, 3])
        )
        return tf.image.resize_images(pixels, [224, 224]) / 127.5 - 1.0

    def elements():
        for i in range(CALLS):
            yield np.full(16, i, np.float32)

    def scaled(x):
        return np.float32(x * 2 + 1)

    def python():
        return tf.data.Dataset.range(CALLS).map(lambda x: tf.py_func(scaled, [x], tf.float32)).batch(SMALL)

    rows = {
        "images": (
            lambda: tf.data.TFRecordDataset(names["images"]).map(image, num_parallel_calls=2).batch(32),
            PICTURES,
        ),
        "generated": (lambda: tf.data.Dataset.from_generator(elements, tf.float32, [16]).batch(SMALL), CALLS),
        "python": (python, CALLS),
        "mapped": (lambda: fed(floats).map(lambda x: x * 2 + 1).batch(SMALL), NUMBERS),
        "shuffled": (lambda: fed(images).shuffle(10_000).batch(SMALL), IMAGES),
        "words": (words, WORDS),
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
    order = np.random.default_rng(0).permutation(IMAGES)
    start = time.process_time()
    for i in range(0, IMAGES, SMALL):
        images[order[i : i + SMALL]].copy()
    results = {"by hand": (time.process_time() - start) / IMAGES * 1e6}
    for name, (make, count) in rows.items():
        if only and name not in only:
            continue
        given.clear()
        with tf.Graph().as_default(), tf.Session() as session:
            iterator = make().make_initializable_iterator()
            element = iterator.get_next()
            spent = []
            for _ in range(3):
                session.run(iterator.initializer, given)
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
    parser.add_argument("--torch", help="a Python that has PyTorch")
    parser.add_argument("--grain", help="a Python that has Grain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help="measure one library in this process: anabranch or tensorflow")
    parser.add_argument("--folder")
    parser.add_argument("--only", default="", help="names of rows with commas between; all if empty")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    if options.measure:
        if options.measure == "anabranch":
            import anabranch as tf
        else:
            import tensorflow

            tf = tensorflow.compat.v1
            tf.disable_eager_execution()
        print(json.dumps(measured(tf, options.folder, only)))
        return
    with tempfile.TemporaryDirectory() as folder:
        commands = {"anabranch": [sys.executable, __file__, "--measure", "anabranch"]}
        if options.peer:
            commands["tensorflow"] = [options.peer, __file__, "--measure", "tensorflow"]
        loaders = os.path.join(os.path.dirname(os.path.abspath(__file__)), "input_loaders.py")
        if options.torch:
            commands["torch"] = [options.torch, loaders, "torch"]
            commands["torch, 2 workers"] = [options.torch, loaders, "torch", "--workers", "2"]
        if options.grain:
            commands["grain"] = [options.grain, loaders, "grain"]
        results: dict = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                process = subprocess.run(
                    [*command, "--folder", folder, "--only", options.only], capture_output=True, check=True
                )
                results[name].append(json.loads(process.stdout))
    for row in only or NAMES:
        measured_by = {name: [result[row] for result in rounds if row in result] for name, rounds in results.items()}
        medians = {name: statistics.median(values) for name, values in measured_by.items() if values}
        print(f"{row:10}" + "".join(f"  {name} {value:8.2f} us" for name, value in medians.items()))


if __name__ == "__main__":
    main()
