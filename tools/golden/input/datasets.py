"""Writes `tests/golden/datasets.json` and `dataset_nests.json`: elements, dtypes and static shapes of pipelines.

Those of `dataset_cases.py`, and of `dataset_nest_cases.py`; of what is refused, the class of the error.

    python tools/golden/input/datasets.py

Run it with TensorFlow 1.15. An element is a list of its parts from left to right, each a list of dtype, shape and
values; a sparse tensor is its indices, values and dense shape.
"""

import collections
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from golden.input.dataset_cases import AGAIN, CASES
from golden.input.dataset_nest_cases import NESTED

FOLDER = Path(__file__).parents[3] / "tests/golden"
Pair = collections.namedtuple("Pair", "left right")


def parts(element):
    """The arrays of an element of a step's result, from left to right."""
    if isinstance(element, dict):
        return [part for key in sorted(element) for part in parts(element[key])]
    if isinstance(element, tuple):  # also the values of a sparse tensor
        return [part for item in element for part in parts(item)]
    return [np.asarray(element)]


def plain(array):
    """An array as JSON has it."""
    values = [v.decode() if isinstance(v, bytes) else v for v in array.ravel().tolist()]
    return [str(array.dtype), list(array.shape), values]


def told(dataset):
    """Dtypes and static shapes as text."""
    return [str(dataset.output_types), str(dataset.output_shapes)]


def elements(tf, text, passes):
    """The elements of a pipeline, and what is known of it statically."""
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = eval(text, {"tf": tf, "np": np, "D": tf.data.Dataset, "P": Pair})
        iterator = dataset.make_initializable_iterator()
        following = iterator.get_next()
        found = []
        for _ in range(passes):
            session.run(iterator.initializer)
            while True:
                try:
                    found.append([plain(part) for part in parts(session.run(following))])
                except tf.errors.OutOfRangeError:
                    break
        return {"elements": found, "static": told(dataset)}


def elements_or_error(tf, text):
    """The same of a pipeline that may be refused, or fail: then the class of the error."""
    try:
        return elements(tf, text, 1)
    except Exception as problem:
        return {"raises": type(problem).__name__}


def main():
    """Writes the files."""
    import tensorflow as tf
    from tensorflow import contrib  # for the names in `tf.contrib.data`

    tf.compat.v1.contrib = contrib
    lines = []
    for name, text in CASES.items():
        found = elements(tf.compat.v1, text, 2 if name in AGAIN else 1)
        lines.append(f"{json.dumps(name)}: {json.dumps(found)}")
    _write("datasets.json", lines)
    outcomes = {name: elements_or_error(tf.compat.v1, text) for name, text in NESTED.items()}
    refused = [name for name, outcome in outcomes.items() if outcome.get("raises") == "AttributeError"]
    print("TensorFlow trips over its own classes, and nothing is noted:", refused)
    lines = [f"{json.dumps(name)}: {json.dumps(outcomes[name])}" for name in NESTED if name not in refused]
    _write("dataset_nests.json", lines)


def _write(name, lines):
    (FOLDER / name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
