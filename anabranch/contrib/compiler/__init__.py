"""``tf.contrib.compiler``: scopes that asked for XLA, which compiles every step here."""

from anabranch.contrib.compiler import scopes
from anabranch.core.contract import api

__all__ = ["scopes"]
__getattr__, __dir__ = api.module_attributes("contrib.compiler")
