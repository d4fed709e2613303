"""The cases in TensorFlow's graph mode, through compat.v1."""

import importlib

import tensorflow.compat.v1 as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl  # tf.nn.rnn_cell needs a package of its own

from peers import system

tf.disable_v2_behavior()
system.choose(tf, lambda session, fetch, feed: lambda: session.run(fetch, feed), rnn_cell_impl)
CASES = {
    **importlib.import_module("peers.graph_cases").CASES,
    **importlib.import_module("peers.loop_cases").CASES,
}
