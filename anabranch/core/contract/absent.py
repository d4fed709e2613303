"""Whole libraries of TensorFlow that are not here, and what does their work: advice of errors that name them."""

from __future__ import annotations

# A name, or the beginning of names, below `tf.`.
INSTEAD = {
    "estimator": "a training loop with tf.train.MonitoredTrainingSession",
    "tpu": "plain optimizers and a session: XLA compiles for the device at hand",
    "lite": "the GraphDef of tf.graph_util.convert_variables_to_constants",
    "optimizers": "tf.train, or tf.keras.optimizers",
    "load_op_library": "tf.Op for an op of your own, or tf.py_func: ops in C++ cannot be loaded",
    "load_library": "tf.Op for an op of your own, or tf.py_func: ops in C++ cannot be loaded",
    "contrib.boosted_trees": "scikit-learn or XGBoost",
    "contrib.cloud": "fsspec, and local files for the program",
    "contrib.estimator": "a training loop with tf.train.MonitoredTrainingSession",
    "contrib.factorization": "scikit-learn",
    "contrib.learn": "a training loop with tf.train.MonitoredTrainingSession",
    "contrib.tensor_forest.client": "tf.contrib.tensor_forest.RandomForestGraphs in a session",
    "contrib.tensorrt": "the session, which XLA compiles",
    "contrib.timeseries": "statsmodels",
    "contrib.tpu": "plain optimizers and a session: XLA compiles for the device at hand",
    "contrib.xla": "nothing: every step is compiled by XLA",
    "python.estimator": "tf.train.MonitoredTrainingSession",
    "python.tpu": "plain optimizers and a session",
}


def instead(name: str) -> str | None:
    """What to write instead of a name (without ``tf.``) of a library that is not here; None for all others."""
    parts = name.split(".")
    beginnings = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((INSTEAD[beginning] for beginning in beginnings if beginning in INSTEAD), None)
