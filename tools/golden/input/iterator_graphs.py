"""Writes `tests/golden/iterators/`: MetaGraphs of `iterator_graph_cases.py`, and what their steps give.

    python tools/golden/input/iterator_graphs.py

Run it with TensorFlow 1.15. A step's result is a list with dtype, shape and values of each fetched tensor, or the class
of an error.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from golden.input.iterator_graph_cases import CASES

FOLDER = Path(__file__).parents[3] / "tests/golden/iterators"


def plain(array):
    """An array as JSON has it; an operation's None."""
    if array is None:
        return None
    array = np.asarray(array)
    values = [v.decode("latin-1") if isinstance(v, bytes) else v for v in array.ravel().tolist()]
    return [str(array.dtype), list(array.shape), values]


def results(tf, graph, steps):
    """What the steps give in a session of a graph."""
    found, last = [], {}
    with tf.Session(graph=graph) as session:
        for fetches, feeds in steps:
            given = {
                name: last[value[1:]] if isinstance(value, str) and value.startswith("@") else value
                for name, value in feeds.items()
            }
            try:
                values = session.run(list(fetches), given)
            except tf.errors.OpError as problem:
                found.append(type(problem).__name__)
                continue
            step = {name: values[i] for i, name in enumerate(fetches)}
            last.update(step)
            # handles of iterators differ from program to program
            found.append([None if name in ("first:0", "second:0") else plain(step[name]) for name in fetches])
    return found


def main():
    """Writes the files."""
    import tensorflow as tensorflow
    from tensorflow import contrib

    tf = tensorflow.compat.v1
    tf.contrib = contrib
    FOLDER.mkdir(exist_ok=True)
    noted = {}
    for case in CASES:
        with tf.Graph().as_default() as graph:
            steps = case(tf)
            meta = tf.train.export_meta_graph(clear_devices=True)
            meta.meta_info_def.ClearField("stripped_op_list")
            (FOLDER / f"{case.__name__}.meta").write_bytes(meta.SerializeToString())
            noted[case.__name__] = {"steps": steps, "results": results(tf, graph, steps)}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in noted.items()]
    (FOLDER / "results.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
