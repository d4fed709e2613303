"""Writes `tests/golden/file_datasets.json`: elements, dtypes and static shapes of `file_dataset_cases.py`.

    python tools/golden/input/file_datasets.py

Run it with TensorFlow 1.15. A pipeline that fails ends with the name of the error's class; sparse tensors and so on as
in `datasets.py`.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from golden.input.datasets import parts, plain, told
from golden.input.file_dataset_cases import CASES, write_files

GOLDEN = Path(__file__).parents[3] / "tests/golden/file_datasets.json"


def outcome(tf, text, path):
    """The elements of a pipeline, what is known of it statically, and the class of the error that ends it."""
    names = {"tf": tf, "np": np, "D": tf.data.Dataset, "X": tf.data.experimental, "F": path}
    with tf.Graph().as_default(), tf.Session() as session:
        found, problem = [], None
        dataset = eval(text, names)
        iterator = dataset.make_initializable_iterator()
        following = iterator.get_next()
        try:
            session.run(iterator.initializer)
            while True:
                found.append([plain(part) for part in parts(session.run(following))])
        except tf.errors.OutOfRangeError:
            pass
        except tf.errors.OpError as error:
            problem = type(error).__name__
        return {"elements": found, "static": told(dataset), "error": problem}


def main():
    """Writes the file."""
    import tensorflow

    tf = tensorflow.compat.v1
    with tempfile.TemporaryDirectory() as folder:
        path = write_files(tf, folder)
        lines = [f"{json.dumps(name)}: {json.dumps(outcome(tf, text, path))}" for name, text in CASES.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
