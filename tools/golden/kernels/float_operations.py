"""Operations on floats that TensorFlow counts for each type of operation: ``tests/golden/float_operations.json``.

Run it with TensorFlow 1.15.5 (Python 3.7): ``python tools/golden/kernels/float_operations.py``. The programs are those
of ``counted_programs.py``.
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
import counted_programs  # noqa: E402


def counted(build):
    """Counts by type of operation."""
    with tf.Graph().as_default() as graph:
        build()
        builder = tf.profiler.ProfileOptionBuilder(tf.profiler.ProfileOptionBuilder.float_operation())
        node = tf.profiler.profile(graph, cmd="op", options=builder.with_empty_output().build())
    counts = {}
    while node.children:
        node = node.children[0]
        counts[node.name] = int(node.float_ops)
    return counts


with open(os.path.join(ROOT, "tests", "golden", "float_operations.json"), "w") as file:
    programs = counted_programs.programs(tf)
    json.dump({name: counted(build) for name, build in programs.items()}, file, indent=1, sort_keys=True)
    file.write("\n")
