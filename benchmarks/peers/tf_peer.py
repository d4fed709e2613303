"""The cases in TensorFlow's graph mode, through compat.v1."""

import importlib

import tensorflow.compat.v1 as tf

from peers import system

tf.disable_v2_behavior()
system.choose(tf, lambda session, fetch, feed: lambda: session.run(fetch, feed))
CASES = {
    **importlib.import_module("peers.graph_cases").CASES,
    **importlib.import_module("peers.loop_cases").CASES,
}
