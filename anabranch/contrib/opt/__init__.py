"""``tf.contrib.opt``: optimizers beyond those of tf.train."""

from anabranch.contrib.opt import external, optimizers
from anabranch.core.contract import api

__all__ = ["external", "optimizers"]
__getattr__, __dir__ = api.module_attributes("contrib.opt")
