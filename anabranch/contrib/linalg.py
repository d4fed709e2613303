"""``tf.contrib.linalg``: linear operators, under the names that they had before they came to ``tf.linalg``."""

from __future__ import annotations

import anabranch as tf
from anabranch.core.contract import api

for _name in dir(tf.linalg):
    if _name.startswith("LinearOperator"):
        api.publish_as(f"contrib.linalg.{_name}", getattr(tf.linalg, _name))

__getattr__, __dir__ = api.module_attributes("contrib.linalg")
