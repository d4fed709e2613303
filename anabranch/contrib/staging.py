"""``tf.contrib.staging``: areas that hold tensors between two steps (:mod:`anabranch.ops.queues.public_staging`)."""

from __future__ import annotations

from anabranch.core.contract.api import module_attributes

__getattr__, __dir__ = module_attributes("contrib.staging")
