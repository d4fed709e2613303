"""``tf.contrib.data``: what became ``tf.data.experimental`` (:mod:`anabranch.data`), under its names of before."""

from __future__ import annotations

from anabranch.core.contract.api import module_attributes

__getattr__, __dir__ = module_attributes("contrib.data")
