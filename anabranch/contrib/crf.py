"""``tf.contrib.crf``: linear-chain conditional random fields."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.crf")
