"""``tf.contrib.input_pipeline``: the elements of a list, one for each step, round and round."""

from anabranch.contrib.input_pipeline import turns
from anabranch.core.contract import api

__all__ = ["turns"]
__getattr__, __dir__ = api.module_attributes("contrib.input_pipeline")
