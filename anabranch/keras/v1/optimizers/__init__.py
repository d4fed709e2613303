"""``tf.keras.optimizers`` of version 1: base, rules, learning rates over time, and optimizers by name."""

from anabranch.keras.v1.optimizers import rules
from anabranch.keras.v1.optimizers.base import Optimizer, registry
from anabranch.keras.v1.optimizers.identifiers import TFOptimizer, deserialize, get, serialize

__all__ = ["Optimizer", "TFOptimizer", "deserialize", "get", "registry", "rules", "serialize"]
