"""``tf.layers``: layers that hold their variables, and the functions that make and apply them in one go."""

from anabranch.core.contract import api
from anabranch.layers import base, common, convolution, core, deconvolution, normalization, pooling

__all__ = ["base", "common", "convolution", "core", "deconvolution", "normalization", "pooling"]
__getattr__, __dir__ = api.module_attributes("layers")
