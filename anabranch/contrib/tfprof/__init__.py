"""``tf.contrib.tfprof``: profiles of models under the names of TensorFlow's first versions."""

from anabranch.contrib.tfprof import model_analyzer

__all__ = ["model_analyzer"]
