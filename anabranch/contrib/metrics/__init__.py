"""``tf.contrib.metrics``: metrics over many batches under their first names, predictions before labels."""

from anabranch.contrib.metrics import comparing, ranking, statistics, streaming
from anabranch.core.contract import api

__all__ = ["comparing", "ranking", "statistics", "streaming"]
__getattr__, __dir__ = api.module_attributes("contrib.metrics")
