"""``tf.contrib.slim``: layers under argument scopes, training and evaluation loops."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.slim")
