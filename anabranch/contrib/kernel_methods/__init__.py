"""``tf.contrib.kernel_methods``: features that stand for a kernel, and a loss of linear classifiers on them."""

from anabranch.contrib.kernel_methods import features
from anabranch.core.contract import api

__all__ = ["features"]
__getattr__, __dir__ = api.module_attributes("contrib.kernel_methods")
