"""Elements on devices: what TensorFlow's ``copy_to_device`` and ``prefetch_to_device`` ask for.

Elements are made on the host, and the step that takes one moves it to the device of the operations that use it. So a
copy needs no stage: the transformations check the names of devices, and prefetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import device as devices
from anabranch.core.contract.api import public
from anabranch.data.dataset import Dataset

Transformation = Callable[[Dataset], Dataset]


@public("data.experimental.copy_to_device", "contrib.data.copy_to_device")
def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Transformation:
    """The same elements: the step that takes one moves it to the device where it is used.

    Args:
        target_device: the name of the device where elements are used.
        source_device: the name of the device where they are made, a CPU.
    """
    for name in (target_device, source_device):
        devices.check_valid(devices.canonical_name(name))
    return lambda dataset: dataset.prefetch(0)


@public("data.experimental.prefetch_to_device", "contrib.data.prefetch_to_device")
def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """Elements made ahead; the step that takes one moves it to the device where it is used.

    Args:
        device: the name of the device where elements are used.
        buffer_size: how many are made ahead; it is chosen if None.
    """
    devices.check_valid(devices.canonical_name(device))
    return lambda dataset: dataset.prefetch(buffer_size)
