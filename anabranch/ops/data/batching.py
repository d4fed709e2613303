"""Stages that put several elements into one: batch, padded batch; and the one that takes batches apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Int, List
from anabranch.core.values import shapes
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Dataset, Element, Iterator, number, stage


class _Batches(Iterator):
    fields = ("over",)

    def start(self) -> None:
        self.over = False

    def next(self) -> Element | None:
        size = self.dataset.batch_size
        batch = None if self.over else self.inputs[0].take(size)
        if batch is None or (self.dataset.drop_remainder and len(batch[0]) < size):
            self.over = True
            return None
        return tuple(batch)


@stage(
    "BatchDatasetV2",
    "input_dataset: variant, batch_size: int64, drop_remainder: bool",
    {"parallel_copy": Bool(False), **ELEMENTS, **METADATA},
)
@stage("BatchDataset", "input_dataset: variant, batch_size: int64")
class Batch(Dataset):
    """Elements that hold ``batch_size`` of the input's, stacked; the last one may have fewer, or is dropped."""

    iterator = _Batches

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.batch_size = number(ctx, operands["batch_size"], "batch_size", 1)
        self.drop_remainder = bool(operands.get("drop_remainder", False))


class _PaddedBatches(Iterator):
    fields = ("over",)

    def start(self) -> None:
        self.over = False

    def next(self) -> Element | None:
        size = self.dataset.batch_size
        elements = [] if self.over else self.inputs[0].gather(size)
        if not elements or (self.dataset.drop_remainder and len(elements) < size):
            self.over = True
            return None
        columns = zip(*elements, strict=True)
        pads = zip(columns, self.dataset.padded_shapes, self.dataset.padding_values, strict=True)
        return tuple([self._padded(i, parts, sizes, value) for i, (parts, sizes, value) in enumerate(pads)])

    def _padded(self, component: int, parts: Any, wanted: tuple[int, ...], value: Any) -> np.ndarray:
        rank = len(wanted)
        for part in parts:
            if part.ndim != rank:
                raise errors.InvalidArgumentError(
                    None,
                    self.dataset.op,
                    "All elements in a batch must have the same rank as the padded shape for component"
                    f"{component}: expected rank {rank} but got element with rank {part.ndim}",
                )
        largest = tuple(max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True))
        sizes = tuple(most if size < 0 else size for size, most in zip(wanted, largest, strict=True))
        for part in parts:
            if any(own > size for own, size in zip(part.shape, sizes, strict=True)):
                raise errors.DataLossError(
                    None,
                    self.dataset.op,
                    f"Attempted to pad to a smaller size than the input element: {shapes.show(part.shape)} to "
                    f"{shapes.show(sizes)}",
                )
        batch = np.empty((len(parts), *sizes), parts[0].dtype)
        if any(part.shape != sizes for part in parts):
            batch[...] = value
        for i, part in enumerate(parts):
            own: tuple[Any, ...] = (i, *map(slice, part.shape), ...)
            batch[own] = part
        return batch


_PADDED = {
    "Toutput_types": List("type", minimum=1),
    "output_shapes": List("shape", minimum=1),
    "N": Int(minimum=1),
    **METADATA,
}
_PADS = "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: [Toutput_types]"


@stage("PaddedBatchDatasetV2", f"{_PADS}, drop_remainder: bool", {"parallel_copy": Bool(False), **_PADDED})
@stage("PaddedBatchDataset", _PADS, _PADDED)
class PaddedBatch(Dataset):
    """Elements that hold ``batch_size`` of the input's, each filled up with a value to one shape, and stacked.

    A size of -1 in ``padded_shapes`` is that of the largest in the batch.
    """

    iterator = _PaddedBatches

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.batch_size = number(ctx, operands["batch_size"], "batch_size", 1)
        self.drop_remainder = bool(operands.get("drop_remainder", False))
        for sizes in operands["padded_shapes"]:
            ctx.check(np.ndim(sizes) == 1, errors.InvalidArgumentError, "All padded shapes must be vectors")
        for value in operands["padding_values"]:
            ctx.check(np.ndim(value) == 0, errors.InvalidArgumentError, "All padding values must be scalars")
        self.padded_shapes = tuple(tuple(int(size) for size in sizes) for sizes in operands["padded_shapes"])
        self.padding_values = operands["padding_values"]


class _Unbatched(Iterator):
    fields = ("batch", "row")

    def start(self) -> None:
        self.batch: Any = None
        self.row = 0

    def next(self) -> Element | None:
        while self.batch is None or self.row >= len(self.batch[0]):
            element = self.inputs[0].next()
            if element is None:
                return None
            sizes = {len(part) if part.ndim else -1 for part in element}
            if len(sizes) > 1 or -1 in sizes:
                raise errors.InvalidArgumentError(
                    None,
                    self.dataset.op,
                    f"Input element must have the same batch size in each component. Component 0 had size "
                    f"{len(element[0]) if element[0].ndim else 'none'} but others differ: "
                    f"{', '.join(shapes.show(part.shape) for part in element)}",
                )
            self.batch, self.row = list(element), 0
        self.row += 1
        return tuple([part[self.row - 1, ...] for part in self.batch])


@stage("UnbatchDataset", "input_dataset: variant")
class Unbatch(Dataset):
    """The rows of the input's elements, one after the other."""

    iterator = _Unbatched
