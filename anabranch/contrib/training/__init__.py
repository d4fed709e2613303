"""``tf.contrib.training``: hyperparameters, helpers of training loops, buckets and samples by queues."""

from anabranch.contrib.training import balancing, bucketing, evaluation, hparam, resampling, sampling, training
from anabranch.core.contract import api

__all__ = ["balancing", "bucketing", "evaluation", "hparam", "resampling", "sampling", "training"]
__getattr__, __dir__ = api.module_attributes("contrib.training")
