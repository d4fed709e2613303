"""``tf.contrib.util``: tensors and protos."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.util")
