"""``tf.contrib.layers``: layers as functions that take defaults from argument scopes, regularizers, initializers."""

from anabranch.contrib.layers import functions, more, parts
from anabranch.core import api

__all__ = ["functions", "more", "parts"]
__getattr__, __dir__ = api.module_attributes("contrib.layers")
