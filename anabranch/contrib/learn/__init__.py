"""``tf.contrib.learn`` beside its estimators: the mapping of text to word numbers, and tables of numbers."""

from anabranch.contrib.learn import datasets, preprocessing
from anabranch.core.contract import api

__all__ = ["datasets", "preprocessing"]
__getattr__, __dir__ = api.module_attributes("contrib.learn")
