"""``tf.contrib.periodic_resample``: the elements of a tensor along other axes."""

from anabranch.contrib.periodic_resample import resampling
from anabranch.core.contract import api

__all__ = ["resampling"]
__getattr__, __dir__ = api.module_attributes("contrib.periodic_resample")
