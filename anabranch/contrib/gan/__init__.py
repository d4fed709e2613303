"""``tf.contrib.gan``: generative adversarial networks (Goodfellow et al., 2014) in four steps.

A model is made of a generator and a discriminator, then its losses, then its training ops; a loop of sessions runs
them. Each step is a named tuple, so that a program may make one of its own and go on from there.
"""

from anabranch.contrib.gan import features, formulas, model_losses, models, pictures, scores, training, virtual_batches
from anabranch.core.contract import api

__all__ = [
    "features",
    "formulas",
    "model_losses",
    "models",
    "pictures",
    "scores",
    "training",
    "virtual_batches",
]
__getattr__, __dir__ = api.module_attributes("contrib.gan")
