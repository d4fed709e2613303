"""``tf.contrib.training``: hyperparameters and helpers of training loops."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.training")
