"""``tf.contrib.signal``: the older names of ``tf.signal``'s frames, windows and short-time transforms."""

from __future__ import annotations

from anabranch.core.contract import api

__getattr__, __dir__ = api.module_attributes("contrib.signal")
