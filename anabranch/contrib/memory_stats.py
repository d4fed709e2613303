"""``tf.contrib.memory_stats``: how much memory the accelerator's allocator gives out."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public
from anabranch.core.graph.operation import Tensor

__getattr__, __dir__ = module_attributes("contrib.memory_stats")


def _statistic(key: str, name: str) -> Tensor:
    def read() -> Any:
        import jax

        stats = jax.devices()[0].memory_stats()
        if not stats or key not in stats:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"{name} on {jax.devices()[0].device_kind}, whose allocator keeps no statistics",
                    "an accelerator",
                    "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss for the process",
                ),
            )
        return np.int64(stats[key])

    statistic: Tensor = tf.py_func(read, [], tf.int64, name=name)
    statistic.set_shape([])
    return statistic


@public("contrib.memory_stats.BytesInUse")
def BytesInUse() -> Tensor:
    """Bytes in use, an int64 scalar."""
    return _statistic("bytes_in_use", "BytesInUse")


@public("contrib.memory_stats.MaxBytesInUse")
def MaxBytesInUse() -> Tensor:
    """The most bytes that were in use at one time, an int64 scalar."""
    return _statistic("peak_bytes_in_use", "MaxBytesInUse")


@public("contrib.memory_stats.BytesLimit")
def BytesLimit() -> Tensor:
    """Bytes that may be in use, an int64 scalar."""
    return _statistic("bytes_limit", "BytesLimit")
