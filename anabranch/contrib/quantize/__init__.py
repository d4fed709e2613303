"""``tf.contrib.quantize``: graphs that compute as if their weights and activations had a few bits.

Ops that round to a range are put into a graph behind weights and activations of convolutions and matrix products, and
batch normalizations are folded into the weights first, as devices without floats need it (Jacob et al., 2017).
"""

from anabranch.contrib.quantize import folding, insertion, patterns, ranges, rewriting
from anabranch.core.contract import api

__all__ = ["folding", "insertion", "patterns", "ranges", "rewriting"]
__getattr__, __dir__ = api.module_attributes("contrib.quantize")
