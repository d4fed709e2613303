"""``tf.contrib.opt``: optimizers beyond those of tf.train."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.opt")
