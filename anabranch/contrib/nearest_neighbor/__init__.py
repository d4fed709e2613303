"""``tf.contrib.nearest_neighbor``: which buckets of hash tables by hyperplanes to look into for near points."""

from anabranch.contrib.nearest_neighbor import probes
from anabranch.core.contract import api

__all__ = ["probes"]
__getattr__, __dir__ = api.module_attributes("contrib.nearest_neighbor")
