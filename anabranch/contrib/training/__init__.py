"""``tf.contrib.training``: hyperparameters and helpers of training loops."""

from anabranch.contrib.training import balancing, evaluation, hparam, training
from anabranch.core.contract import api

__all__ = ["balancing", "evaluation", "hparam", "training"]
__getattr__, __dir__ = api.module_attributes("contrib.training")
