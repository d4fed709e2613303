"""``tf.contrib.framework``: argument scopes, variables by name, assertions."""

from anabranch.contrib.framework import deprecation, nest_paths, scopes, tensors, variables
from anabranch.core.contract import api

__all__ = ["deprecation", "nest_paths", "scopes", "tensors", "variables"]
__getattr__, __dir__ = api.module_attributes("contrib.framework")
