"""Elements on devices: what TensorFlow's ``copy_to_device`` and ``prefetch_to_device`` ask for.

Elements are made on the host, and the step that takes one moves it to the device of the operations that use it. So a
copy needs no stage: the transformations check the names of devices, and prefetch. ``MultiDeviceIterator`` deals
elements out to several devices in turn; TensorFlow keeps the class to itself, and programs for many devices import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import device as devices
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.public_scopes import device as device_scope
from anabranch.core.values import dtypes
from anabranch.data import structure
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


class MultiDeviceIterator(structure.OfElements):
    """A place in a dataset whose elements go to several devices in turn: element ``i`` to ``i`` modulo their number.

    Args:
        dataset: the dataset.
        devices: names of the devices, one or more.
        max_buffer_size: how many elements wait for a device while others take theirs.
        prefetch_buffer_size: the same; the larger one counts.
        source_device: the name of the device where elements are made, a CPU.
    """

    def __init__(
        self,
        dataset: Dataset,
        devices: Sequence[str],
        max_buffer_size: int = 1,
        prefetch_buffer_size: int = 1,
        source_device: str = "/cpu:0",
    ) -> None:
        if not current_builder().defers:
            raise RuntimeError(
                errors.message(
                    "an iterator for several devices, where ops run at once", "a graph", "for element in dataset: ..."
                )
            )
        self._spec = dataset._spec
        self._devices = list(devices)
        attrs = structure.attrs_of(self._spec)
        with device_scope(source_device):
            complete = dataset._with_options_applied()
            self._handle = build("MultiDeviceIterator", devices=self._devices, shared_name="", container="", **attrs)
            begun = build(
                "MultiDeviceIteratorInit",
                complete._variant_tensor,
                self._handle,
                max(max_buffer_size, prefetch_buffer_size),
            )
            # Of all elements that wait, those of the latest beginning are given out: its number is kept between steps.
            self._beginning = build("VarHandleOp", shape=[], dtype=dtypes.int64, shared_name=self._handle.op.name)
            self._initializer = build("AssignVariableOp", self._beginning, begun)

    @property
    def initializer(self) -> Operation:
        """The operation that sets it to the beginning."""
        return self._initializer

    def get_next(self, device: str | None = None) -> Any:
        """The next element of a device, a structure of tensors on it; a list of those of all devices if it is None."""
        if device is None:
            return [self._next(number) for number in range(len(self._devices))]
        return self._next(self._devices.index(device))

    def _next(self, number: int) -> Any:
        with device_scope(self._devices[number]):
            beginning = build("ReadVariableOp", self._beginning, dtype=dtypes.int64)
            attrs = structure.attrs_of(self._spec)
            components = build("MultiDeviceIteratorGetNextFromShard", self._handle, number, beginning, **attrs)
        return structure.from_tensors(self._spec, components if isinstance(components, list) else [components])
