"""``tf.layers``: layers that hold their variables, and the functions that make and apply them in one go."""

from anabranch.core import api
from anabranch.layers import base

__all__ = ["base"]
__getattr__, __dir__ = api.module_attributes("layers")
