"""``tf.contrib.feature_column``: columns of sequences, and inputs of recurrent networks made of them."""

from anabranch.core.contract import api
from anabranch.feature_column import sequence

__all__ = ["sequence"]
__getattr__, __dir__ = api.module_attributes("contrib.feature_column")
