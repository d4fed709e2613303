"""``tf.metrics``: metrics over many batches; each gives its value and the operation that takes a batch in."""

from anabranch.core.contract import api
from anabranch.metrics import at_k, classes, counts, curves, means

__all__ = ["at_k", "classes", "counts", "curves", "means"]
__getattr__, __dir__ = api.module_attributes("metrics")
