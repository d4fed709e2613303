"""``tf.losses``: losses with weights, collected as they are made."""

from anabranch.core.contract import api
from anabranch.losses import collected, formulas, weighted

__all__ = ["collected", "formulas", "weighted"]
__getattr__, __dir__ = api.module_attributes("losses")
