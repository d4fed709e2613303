"""``tf.distributions``: probability distributions whose parameters are tensors.

A distribution has a batch shape, that of its parameters broadcast, and an event shape, that of one outcome. Samples are
``[*sample_shape, *batch_shape, *event_shape]``; ``log_prob`` takes such values and gives
``[*sample_shape, *batch_shape]``.
"""

from anabranch.core.contract import api
from anabranch.distributions import base, bounded, counted, divergences, multivariate, unbounded

__all__ = ["base", "bounded", "counted", "divergences", "multivariate", "unbounded"]
__getattr__, __dir__ = api.module_attributes("distributions")
