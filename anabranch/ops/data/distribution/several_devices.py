"""An iterator whose elements go to several devices in turn: element ``i`` to device ``i`` modulo their number.

Whoever asks for a device's next element takes elements of the dataset for the others on the way; these wait for their
own, up to ``max_buffer_size`` of each. A device that runs ahead of another that asks for nothing waits for it, as in
TensorFlow. An initialisation begins a new *incarnation*; elements of an older one are not given out.
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from anabranch.core import conditions, errors
from anabranch.core.contract import inference
from anabranch.core.contract.kernels import of_kind
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, Op, String, channel
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.iterators import IteratorResource, element_shapes, handle_of, named
from anabranch.ops.data.pipeline import ELEMENTS, number
from anabranch.ops.data.resources.shared_state import Deleter, nameless

_NO_GRADIENT = NotDifferentiable("an iterator hands values from one step to the next")
KIND = "multi_device_iterator"


class MultiDeviceIteratorResource:
    """The object behind the handle."""

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        self.iterator = IteratorResource(name, attrs)
        self.devices = [str(device) for device in attrs["devices"]]
        self.incarnation = 0
        self._changed = conditions.Condition()
        self._limit = 1
        self._waiting: list[collections.deque[Element]] = []
        self._turn = 0
        self._asking = False
        """Whether somebody asks the dataset."""
        self._over = False

    def begin(self, ctx: Any, dataset: Any, limit: int) -> int:
        """Set it to the beginning of a dataset; the number of the new incarnation."""
        self.iterator.make(ctx, dataset)
        with self._changed:
            self.incarnation += 1
            self._limit = max(1, limit)
            self._waiting = [collections.deque() for _ in self.devices]
            self._turn = 0
            self._over = False
            self._changed.notify_all()
            return self.incarnation

    def next(self, ctx: Any, shard: int, incarnation: int) -> Element | None:
        """The next element of a device; None at the end."""
        ctx.check(
            0 <= shard < len(self.devices),
            errors.InvalidArgumentError,
            f"Shard number {shard} must be from 0 to {len(self.devices) - 1}",
        )
        while True:
            with self._changed:
                if incarnation != self.incarnation:
                    raise errors.InvalidArgumentError(
                        None,
                        ctx.op,
                        errors.message(
                            f"incarnation {incarnation} of the iterator",
                            f"the newest, {self.incarnation}",
                            "the incarnation that the last initialisation gave",
                        ),
                    )
                ctx.cancellation.wait_for(self._changed, lambda: self._may_go_on(shard, incarnation), ctx.op)
                if self._waiting[shard]:
                    element = self._waiting[shard].popleft()
                    self._changed.notify_all()
                    return element
                if self._over:
                    return None
                if incarnation != self.incarnation:
                    continue
                self._asking = True
            self._ask(ctx, incarnation)

    def _may_go_on(self, shard: int, incarnation: int) -> bool:
        """Whether a device has its element, or may ask for it: nobody else does, and whose turn it is has room."""
        if self._waiting[shard] or self._over or incarnation != self.incarnation:
            return True
        return not self._asking and len(self._waiting[self._turn]) < self._limit

    def _ask(self, ctx: Any, incarnation: int) -> None:
        element: Element | None = None
        given = False
        try:
            element = self.iterator.next(ctx)
            given = True
        finally:
            with self._changed:
                self._asking = False
                if given and incarnation == self.incarnation:
                    if element is None:
                        self._over = True
                    else:
                        self._waiting[self._turn].append(element)
                        self._turn = (self._turn + 1) % len(self.devices)
                self._changed.notify_all()

    def shutdown(self) -> None:
        """Cancel what it does."""
        self.iterator.shutdown()

    def finish(self) -> None:
        """Wait until its threads have ended, and let go of what they used."""
        self.iterator.finish()


def _of(ctx: Any, handle: Any) -> MultiDeviceIteratorResource:
    resource: MultiDeviceIteratorResource = of_kind(
        ctx, ctx.resource(handle), MultiDeviceIteratorResource, "an iterator of several devices"
    )
    return resource


_DEVICES = {"devices": List("string", minimum=1)}


class MultiDeviceIterator(Op):
    """An iterator whose elements go to several devices in turn."""

    signature = "-> handle: resource"
    attrs = {**_DEVICES, "shared_name": String(), "container": String(), **ELEMENTS}
    effect = PURE
    makes = KIND
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def create(attrs, name):
        return MultiDeviceIteratorResource(attrs["shared_name"] or name, attrs)


class AnonymousMultiDeviceIterator(Op):
    """An iterator whose elements go to several devices in turn; made when the op runs, it lives until it is deleted."""

    signature = "-> handle: resource, deleter: variant"
    attrs = {**_DEVICES, **ELEMENTS}
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        return [(), ()]

    def host_kernel(ctx, inputs, attrs):
        handle = nameless(ctx, KIND, MultiDeviceIteratorResource(ctx.op.name, attrs))
        return [handle, Deleter(handle)]


class AnonymousMultiDeviceIteratorV3(Op):
    """An iterator whose elements go to several devices in turn; made when the op runs, it ends with the session."""

    signature = "-> handle: resource"
    attrs = {**_DEVICES, **ELEMENTS}
    effect = channel()
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return [nameless(ctx, KIND, MultiDeviceIteratorResource(ctx.op.name, attrs))]


class DeleteMultiDeviceIterator(Op):
    """Delete an iterator of several devices, and those of the devices."""

    signature = "multi_device_iterator: resource, iterators: N * resource, deleter: variant ->"
    attrs = {"N": Int(minimum=0)}
    effect = channel("multi_device_iterator")
    shape = inference.no_outputs
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        for handle in inputs[:-1]:
            ctx.release(handle, ignore_missing=True)


class MultiDeviceIteratorInit(Op):
    """Set an iterator of several devices to the beginning of a dataset; the number of its incarnation."""

    signature = "dataset: variant, multi_device_iterator: resource, max_buffer_size: int64 -> incarnation_id: int64"
    effect = channel("multi_device_iterator")
    may_block = True
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        limit = number(ctx, inputs[2], "max_buffer_size")
        return np.array(_of(ctx, inputs[1]).begin(ctx, inputs[0], limit), np.int64)


class MultiDeviceIteratorGetNextFromShard(Op):
    """The components of the next element of a device; OutOfRangeError at the end."""

    signature = "multi_device_iterator: resource, shard_num: int32, incarnation_id: int64 -> components: [output_types]"
    attrs = ELEMENTS
    effect = channel("multi_device_iterator")
    may_block = True
    shape = element_shapes
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        shard, incarnation = number(ctx, inputs[1], "shard_num"), number(ctx, inputs[2], "incarnation_id")
        element = _of(ctx, inputs[0]).next(ctx, shard, incarnation)
        if element is None:
            raise errors.OutOfRangeError(None, ctx.op, "End of sequence")
        return element


class MultiDeviceIteratorToStringHandle(Op):
    """A string that names an iterator of several devices."""

    signature = "multi_device_iterator: resource -> string_handle: string"
    effect = channel("multi_device_iterator")
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        _of(ctx, inputs[0])
        return named(inputs[0])


class MultiDeviceIteratorFromStringHandle(Op):
    """The handle of the iterator of several devices that a string names."""

    signature = "string_handle: string -> multi_device_iterator: resource"
    attrs = {"output_types": List("type", (), minimum=0), "output_shapes": List("shape", (), minimum=0)}
    effect = PURE
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        handle = handle_of(ctx, inputs[0])
        _of(ctx, handle)
        return [handle]
