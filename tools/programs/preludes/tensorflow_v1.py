"""TensorFlow 2: `import tensorflow` means its interface of version 1. For comparisons only."""

import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
sys.modules["tensorflow"] = tf
