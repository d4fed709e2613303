"""``tf.contrib.losses``: losses with predictions before labels, as version 1.0 had them, and losses of embeddings."""

from anabranch.contrib.losses import functions, metric_learning
from anabranch.core.contract import api

__all__ = ["functions", "metric_learning"]
__getattr__, __dir__ = api.module_attributes("contrib.losses")
