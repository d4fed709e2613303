"""``tf.contrib.recurrent``: loops of a cell over time, with gradients that a program may write itself."""

from anabranch.contrib.recurrent import sequences
from anabranch.core.contract import api

__all__ = ["sequences"]
__getattr__, __dir__ = api.module_attributes("contrib.recurrent")
