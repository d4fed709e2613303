"""``tf.layers``: layers that hold their variables, and the functions that make and apply them in one go."""

from anabranch.core.contract import api
from anabranch.layers import arguments, base, convolution, core, deconvolution, normalization, pooling

__all__ = ["arguments", "base", "convolution", "core", "deconvolution", "normalization", "pooling"]
__getattr__, __dir__ = api.module_attributes("layers")
