"""``tf.contrib.stateless``: random numbers that are a function of a seed of two integers, under their first names."""

from __future__ import annotations

import anabranch as tf
from anabranch.core.contract import api

for _name in ("multinomial", "normal", "truncated_normal", "uniform"):
    _public = f"stateless_random_{_name}" if _name in ("normal", "uniform") else f"stateless_{_name}"
    api.publish_as(f"contrib.stateless.{_public}", getattr(tf.random, f"stateless_{_name}"))

__getattr__, __dir__ = api.module_attributes("contrib.stateless")
