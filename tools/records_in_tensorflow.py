"""Check that TensorFlow reads what we write: records, examples, event files.

Run with the project's interpreter and name one that has TensorFlow:
`python tools/records_in_tensorflow.py /path/to/python/with/tensorflow`. What each side reads is compared.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

# Read by both sides: `tf` is one or the other.
READ = """
import glob, json, os, sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def read(tf, folder):
    found = {}
    for kind in ("", "ZLIB", "GZIP"):
        options = tf.python_io.TFRecordOptions(kind)
        records = tf.python_io.tf_record_iterator(os.path.join(folder, "records" + kind), options)
        found["records" + kind] = [record.decode("latin-1") for record in records]
    with tf.Graph().as_default(), tf.Session() as session:
        data = list(tf.python_io.tf_record_iterator(os.path.join(folder, "examples")))
        parsed = tf.parse_example(
            data,
            {
                "a": tf.FixedLenFeature([2], tf.float32),
                "b": tf.VarLenFeature(tf.int64),
                "c": tf.FixedLenFeature([], tf.string, "none"),
            },
        )
        values = session.run([parsed["a"], parsed["b"].values, parsed["c"]])
        found["examples"] = [str(value.tolist()) for value in values]
    (path,) = glob.glob(os.path.join(folder, "events", "*"))
    found["events"] = [
        [event.step, event.WhichOneof("what"), [str(value) for value in event.summary.value]]
        for event in tf.train.summary_iterator(path)
    ]
    (drawn,) = [event for event in tf.train.summary_iterator(path) if event.WhichOneof("what") == "graph_def"]
    found["graph"] = [[node.name, node.op, node.device] for node in tf.GraphDef.FromString(drawn.graph_def).node]
    return found
"""
IN_TENSORFLOW = """
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)
with open(os.path.join(sys.argv[1], "read.json"), "w") as file:
    json.dump(read(tf, sys.argv[1]), file)
"""


def write(tf: Any, folder: str) -> None:
    """Writes one of each kind of file."""
    for kind in ("", "ZLIB", "GZIP"):
        with tf.python_io.TFRecordWriter(os.path.join(folder, "records" + kind), kind) as writer:
            for record in (b"", b"one", bytes(range(256)) * 500):
                writer.write(record)
    with tf.python_io.TFRecordWriter(os.path.join(folder, "examples")) as writer:
        for i in range(3):
            example = tf.train.Example()
            example.features.feature["a"].float_list.value.extend([i, 0.5])
            example.features.feature["b"].int64_list.value.extend([-(2**60)] * i)
            if i:
                example.features.feature["c"].bytes_list.value.append(b"x" * i)
            writer.write(example.SerializeToString())
    with tf.Graph().as_default() as graph, tf.Session() as session:
        with tf.name_scope("scope"), tf.device("/cpu:0"):
            x = tf.placeholder(tf.float32, [4], name="x")
        tf.summary.scalar("mean", tf.reduce_mean(x))
        tf.summary.histogram("x", x)
        tf.summary.text("note", tf.constant("*text*"))
        merged = tf.summary.merge_all()
        with tf.summary.FileWriter(os.path.join(folder, "events"), graph) as writer:
            for step in range(3):
                writer.add_summary(session.run(merged, {x: [1.0, 2.0, 3.0, step]}), step)


def main(interpreter: str) -> int:
    """Writes, reads on both sides, compares; 0 if all is the same."""
    import anabranch as tf

    with tempfile.TemporaryDirectory() as folder:
        write(tf, folder)
        subprocess.run([interpreter, "-c", READ + IN_TENSORFLOW, folder], check=True, stderr=subprocess.DEVNULL)
        space: dict[str, Any] = {}
        exec(READ, space)
        ours = json.loads(json.dumps(space["read"](tf, folder)))
        with open(os.path.join(folder, "read.json"), encoding="utf-8") as file:
            theirs = json.load(file)
        files = sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, "*")))
    different = [key for key in ours if ours[key] != theirs.get(key)]
    for key in different:
        print(f"{key}: read here {ours[key]}\nin TensorFlow {theirs.get(key)}")
    print(f"{len(ours) - len(different)} of {len(ours)} kinds read the same ({', '.join(files)})")
    return len(different)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
