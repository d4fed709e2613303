"""Makes `tests/golden/forests.json`: what TensorFlow 1.15.5's forests say while they grow.

    PATH_TO_TENSORFLOW_1_15/bin/python tools/golden/contrib/forests.py tests/golden/forests.json

The examples have one feature, so that the features of candidates, which TensorFlow draws by the time, are known; one
thread takes the examples in their order.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.contrib.tensor_forest.python import tensor_forest
from tensorflow.python.ops import resources

BATCH, STEPS, SHOWN = 40, 12, 12
X = np.random.RandomState(0).uniform(size=[480, 1]).astype("f")
CLASSES = (X[:, 0] * 3).astype("i").astype("f")
WAVE = np.sin(6 * X).astype("f")
CASES = {
    "dense": ({}, X, CLASSES, None),
    "sparse": ({"model_name": "all_sparse"}, X, CLASSES, None),
    "less": ({"split_name": "less"}, np.round(X * 8) / 8, CLASSES, None),
    "weights": ({}, X, CLASSES, np.random.RandomState(2).uniform(0.2, 2, size=[BATCH]).astype("f")),
    "averages": ({"initialize_average_splits": True}, X, CLASSES, None),
    "half": ({"split_pruning_name": "half", "prune_every_samples": 10}, X, CLASSES, None),
    "hoeffding": ({"split_pruning_name": "hoeffding", "prune_every_samples": 10}, X, CLASSES, None),
    "collated": ({"collate_examples": True}, X, CLASSES, None),
    "paths": ({"inference_tree_paths": True}, X, CLASSES, None),
    "regression": ({"regression": True, "num_classes": 1}, X, WAVE[:, 0], None),
    "two_targets": ({"regression": True, "num_classes": 2}, X, np.concatenate([WAVE, WAVE**2], 1), None),
}


def grown(more, x, y, weights):
    """The size of a forest after each step, what it says, and how it is written."""
    chosen = {
        "num_classes": 3,
        "num_features": 1,
        "num_trees": 2,
        "max_nodes": 31,
        "split_after_samples": 30,
        "checkpoint_stats": True,
        "num_splits_to_consider": 5,
        **more,
    }
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)) as session:
        features = tf.placeholder(tf.float32, [None, 1])
        labels = tf.placeholder(tf.float32, [None, *y.shape[1:]])
        forest = tensor_forest.RandomForestGraphs(tensor_forest.ForestHParams(**chosen).fill())
        given = {} if weights is None else {"input_weights": tf.constant(weights)}
        train = forest.training_graph(features, labels, **given)
        loss = forest.training_loss(features, labels)
        said, paths, variance = forest.inference_graph(features)
        importances = forest.feature_importances()
        saved = [one.specs[0].tensor for one in tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)]
        session.run([tf.global_variables_initializer(), resources.initialize_resources(resources.shared_resources())])
        sizes = []
        for step in range(STEPS):
            rows = slice(step * BATCH % len(x), step * BATCH % len(x) + BATCH)
            session.run(train, {features: x[rows], labels: y[rows]})
            sizes.append(float(session.run(loss)))
        results = session.run([said, variance, importances], {features: x[:SHOWN]})
        return {
            "sizes": sizes,
            "said": [np.round(array.astype("d"), 6).tolist() for array in results],
            "paths": list(session.run(paths, {features: x[:3]}).shape),
            "messages": [base64.b64encode(message).decode() for message in session.run(saved)[:2]],
        }


if __name__ == "__main__":
    answers = {name: grown(*case) for name, case in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(answers, sort_keys=True) + "\n")
