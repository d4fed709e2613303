"""``tf.contrib.framework``: argument scopes, variables by name, assertions."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.framework")
