"""``tf.contrib.optimizer_v2``: optimizers whose numbers and variables come to their methods in a state."""

from anabranch.contrib.optimizer_v2 import optimizer_v2, rules
from anabranch.core.contract import api

__all__ = ["optimizer_v2", "rules"]
__getattr__, __dir__ = api.module_attributes("contrib.optimizer_v2")
