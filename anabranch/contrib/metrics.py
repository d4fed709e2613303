"""``tf.contrib.metrics``: streaming metrics under their first names."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.metrics")
