"""``tf.contrib.learn``: what programs use of it beside its estimators, the mapping of text to word numbers."""

from anabranch.contrib.learn import preprocessing
from anabranch.core.contract import api

__all__ = ["preprocessing"]
__getattr__, __dir__ = api.module_attributes("contrib.learn")
