"""``tf.contrib.opt``: optimizers beyond those of tf.train."""

from anabranch.contrib.opt import external, optimizers, wrappers
from anabranch.core.contract import api

__all__ = ["external", "optimizers", "wrappers"]
__getattr__, __dir__ = api.module_attributes("contrib.opt")
