"""``tf.contrib.losses``: losses with predictions before labels, as version 1.0 had them, and losses of embeddings."""

from anabranch.contrib.losses import metric_learning, predictions_first
from anabranch.core.contract import api

__all__ = ["metric_learning", "predictions_first"]
__getattr__, __dir__ = api.module_attributes("contrib.losses")
