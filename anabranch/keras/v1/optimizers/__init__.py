"""``tf.keras.optimizers`` of version 1: base, rules, learning rates over time, and optimizers by name."""

from anabranch.keras.v1.optimizers import rules
from anabranch.keras.v1.optimizers.base import Optimizer, registry
from anabranch.keras.v1.optimizers.identifiers import TFOptimizer, deserialize, get, serialize
from anabranch.keras.v1.optimizers.loss_scales import LossScaleOptimizer

__all__ = ["LossScaleOptimizer", "Optimizer", "TFOptimizer", "deserialize", "get", "registry", "rules", "serialize"]
