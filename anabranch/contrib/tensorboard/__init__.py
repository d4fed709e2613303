"""``tf.contrib.tensorboard``: settings of TensorBoard's plugins."""

from anabranch.contrib.tensorboard import projector
from anabranch.core.contract import api

__all__ = ["projector"]
__getattr__, __dir__ = api.module_attributes("contrib.tensorboard")
