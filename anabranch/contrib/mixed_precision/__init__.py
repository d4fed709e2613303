"""``tf.contrib.mixed_precision``: losses that are scaled, so that gradients of 16 bits do not vanish."""

from anabranch.contrib.mixed_precision import loss_scaling
from anabranch.core.contract import api

__all__ = ["loss_scaling"]
__getattr__, __dir__ = api.module_attributes("contrib.mixed_precision")
