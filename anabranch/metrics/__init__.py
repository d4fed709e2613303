"""``tf.metrics``: metrics over many batches; each gives its value and the operation that takes a batch in."""

from anabranch.core import api
from anabranch.metrics import classes, counts, means

__all__ = ["classes", "counts", "means"]
__getattr__, __dir__ = api.module_attributes("metrics")
