"""``tf.contrib.training``: hyperparameters, helpers of training loops, buckets, samples and sequences by queues."""

from anabranch.contrib.training import (
    balancing,
    bucketing,
    evaluation,
    hparam,
    resampling,
    sampling,
    sequence_batches,
    training,
)
from anabranch.core.contract import api

__all__ = [
    "balancing",
    "bucketing",
    "evaluation",
    "hparam",
    "resampling",
    "sampling",
    "sequence_batches",
    "training",
]
__getattr__, __dir__ = api.module_attributes("contrib.training")
