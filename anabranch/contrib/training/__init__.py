"""``tf.contrib.training``: hyperparameters and helpers of training loops."""

from anabranch.contrib.training import balancing, hparam
from anabranch.core import api

__all__ = ["balancing", "hparam"]
__getattr__, __dir__ = api.module_attributes("contrib.training")
