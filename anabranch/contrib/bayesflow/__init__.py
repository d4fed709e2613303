"""``tf.contrib.bayesflow``: expectations by sampling, and graphs whose nodes are random variables with gradients.

A stochastic tensor is the value of a distribution; :func:`surrogate_loss
<anabranch.contrib.bayesflow.surrogate_losses.surrogate_loss>` makes of losses that depend on such values one whose
gradient is an estimate of that of their expectation (Schulman et al., 2015).
"""

from anabranch.contrib.bayesflow import gradient_estimators, monte_carlo, stochastic_tensors, surrogate_losses
from anabranch.core.contract import api

__all__ = ["gradient_estimators", "monte_carlo", "stochastic_tensors", "surrogate_losses"]
__getattr__, __dir__ = api.module_attributes("contrib.bayesflow")
