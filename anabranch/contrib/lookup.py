"""``tf.contrib.lookup``: tables from strings to numbers and back."""

from anabranch.core.contract import api

__getattr__, __dir__ = api.module_attributes("contrib.lookup")
