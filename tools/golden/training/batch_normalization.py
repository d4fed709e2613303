"""Record what TensorFlow 1.15's batch normalisation gives with `renorm` and `virtual_batch_size`.

Run with an interpreter that has TensorFlow 1.15:

    python tools/golden/training/batch_normalization.py > tests/golden/batch_normalization.json

For each set of arguments: results of three steps of training and one of evaluation, and the variables after them.
"""

import json
import sys

import numpy as np

CASES = [
    {"renorm": True, "renorm_clipping": {"rmax": 1.1, "rmin": 0.9, "dmax": 0.1}, "renorm_momentum": 0.8},
    {"renorm": True},
    {"virtual_batch_size": 4},
    {"virtual_batch_size": 2, "renorm": True},
    {"renorm": True, "axis": 0},
]


def steps():
    """The inputs of the three steps of training, ``[8, 3]``."""
    random = np.random.RandomState(3)
    return [random.rand(8, 3).astype(np.float32) * scale for scale in (1, 2, 3)]


def run(tf, arguments):
    """Results of all steps, and the variables by name."""
    graph = tf.Graph()
    with graph.as_default(), tf.Session(graph=graph) as session:
        x, training = tf.placeholder(tf.float32, [8, 3]), tf.placeholder(tf.bool, [])
        y = tf.layers.batch_normalization(
            x,
            training=training,
            momentum=0.9,
            gamma_initializer=tf.constant_initializer(2.0),
            beta_initializer=tf.constant_initializer(3.0),
            **arguments,
        )
        fetches = [y, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
        session.run(tf.global_variables_initializer())
        results = [session.run(fetches, {x: value, training: True})[0].tolist() for value in steps()]
        results.append(session.run(fetches, {x: steps()[0], training: False})[0].tolist())
        return results, {v.op.name: session.run(v).tolist() for v in tf.global_variables()}


if __name__ == "__main__":
    import tensorflow

    json.dump([{"arguments": case, "expected": run(tensorflow, case)} for case in CASES], sys.stdout)
