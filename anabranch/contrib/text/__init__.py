"""``tf.contrib.text``: pairs of near words (skip-grams), as word2vec learns from them (Mikolov et al., 2013)."""

from anabranch.contrib.text import skip_grams
from anabranch.core.contract import api

__all__ = ["skip_grams"]
__getattr__, __dir__ = api.module_attributes("contrib.text")
