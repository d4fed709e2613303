"""``tf.contrib.opt``: optimizers beyond those of tf.train."""

from anabranch.contrib.opt import averages, external, optimizers, preconditioned, wrappers
from anabranch.core.contract import api

__all__ = ["averages", "external", "optimizers", "preconditioned", "wrappers"]
__getattr__, __dir__ = api.module_attributes("contrib.opt")
