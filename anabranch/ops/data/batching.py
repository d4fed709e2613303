"""Stages that put several elements into one (batch, padded, sparse), and the one that takes batches apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Int, List, String
from anabranch.core.values import shapes
from anabranch.ops.data.elements.stacks import Element, stacked, unstacked
from anabranch.ops.data.mapping import ARGUMENTS, FUNCTION, Calling, ManyAtOnce
from anabranch.ops.data.parallel import ParallelCalls
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, MOST_ROWS, Dataset, Iterator, batches_of, number, stage


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
@stage(
    "ParallelBatchDataset",
    "input_dataset: variant, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
    {"parallel_copy": Bool(False), **ELEMENTS, "deterministic": String("default"), **METADATA},
)
class Batch(Dataset):
    """Elements that hold ``batch_size`` of the input's, stacked; the last one may have fewer, or is dropped."""

    iterator = _Batches
    free = Dataset.free | {"num_parallel_calls", "deterministic", "parallel_copy"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.batch_size = number(ctx, operands["batch_size"], "batch_size", 1)
        self.drop_remainder = bool(operands.get("drop_remainder", False))

    def cardinality(self) -> int:
        return batches_of(self.inputs[0].cardinality(), self.batch_size, self.drop_remainder)


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
                    "Attempted to pad to a smaller size than the input element.\n"
                    + errors.message(
                        f"an element of shape {shapes.show(part.shape)}",
                        f"elements that fit {shapes.show(sizes)}",
                        "padded_shapes with None where sizes change",
                    ),
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
        for size in (size for sizes in self.padded_shapes for size in sizes):
            ctx.check(size >= -1, errors.InvalidArgumentError, f"A size of a padded shape must be >= -1, but is {size}")
        self.padding_values = operands["padding_values"]

    def cardinality(self) -> int:
        return batches_of(self.inputs[0].cardinality(), self.batch_size, self.drop_remainder)


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
        return tuple([unstacked(part, self.row - 1) for part in self.batch])


@stage("UnbatchDataset", "input_dataset: variant")
@stage("ExperimentalUnbatchDataset", "input_dataset: variant", ELEMENTS)
class Unbatch(Dataset):
    """The rows of the input's elements, one after the other."""

    iterator = _Unbatched


# ------------------------------------------------------------------------------------------------------ sparse batches
class _SparseBatches(Iterator):
    fields = ("over",)

    def start(self) -> None:
        self.over = False

    def next(self) -> Element | None:
        elements = [] if self.over else self.inputs[0].gather(self.dataset.batch_size)
        if not elements:
            self.over = True
            return None
        parts = [element[0] for element in elements]
        for part in parts:
            self._check(part)
        sizes = [
            max(part.shape[i] for part in parts) if size < 0 else size for i, size in enumerate(self.dataset.row_shape)
        ]
        indices = [
            np.column_stack([np.full(part.size, row), *map(np.ravel, np.indices(part.shape))])
            for row, part in enumerate(parts)
        ]
        tensor = np.empty(3, object)
        tensor[0] = np.concatenate(indices).astype(np.int64)
        tensor[1] = np.concatenate([part.ravel() for part in parts])
        tensor[2] = np.array([len(parts), *sizes], np.int64)
        return (tensor,)

    def _check(self, part: np.ndarray) -> None:
        row_shape = self.dataset.row_shape
        told = shapes.show(part.shape), shapes.show(tuple(None if size < 0 else size for size in row_shape))
        if part.ndim != len(row_shape):
            raise errors.InvalidArgumentError(
                None,
                self.dataset.op,
                f"Input element had shape ({told[0]}) that is incompatible with the row shape ({told[1]}).",
            )
        if any(own > size >= 0 for own, size in zip(part.shape, row_shape, strict=True)):
            raise errors.DataLossError(
                None,
                self.dataset.op,
                f"Input element had shape {told[0]} that is larger than the row shape ({told[1]}).",
            )


_SPARSE = "input_dataset: variant, batch_size: int64, row_shape: int64"


@stage("DenseToSparseBatchDataset", _SPARSE, ELEMENTS, ranks={"row_shape": 1})
@stage("ExperimentalDenseToSparseBatchDataset", _SPARSE, ELEMENTS, ranks={"row_shape": 1})
class DenseToSparseBatch(Dataset):
    """Sparse tensors that hold ``batch_size`` elements as rows, which need not have one shape.

    A size of -1 in ``row_shape`` is the largest of the batch; elements may be smaller than the others.
    """

    iterator = _SparseBatches

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.batch_size = number(ctx, operands["batch_size"], "Batch size", 1)
        ctx.check(np.ndim(operands["row_shape"]) == 1, errors.InvalidArgumentError, "row_shape must be a vector")
        ctx.check(
            len(self.inputs[0].types) == 1,
            errors.InvalidArgumentError,
            "DenseToSparseDataset only supports inputs with a single component.",
        )
        self.row_shape = [int(size) for size in operands["row_shape"]]


# ---------------------------------------------------------------------------------------------------- batches of a map
class _MappedBatches(ManyAtOnce):
    fields = ("taken", "over")

    def start(self) -> None:
        super().start()
        self.over = False
        dataset = self.dataset
        self._calls = ParallelCalls(self._call, self.pull, dataset, self.context, dataset.batch_size + dataset.calls)

    @property
    def under_way(self) -> bool:
        return bool(self._calls.pending)

    def save(self) -> dict[str, Any]:
        outcomes = self._calls.outcomes()
        return {**super().save(), "outcomes": outcomes}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._calls.go_to(state["outcomes"])

    def close(self) -> None:
        self._calls.close()
        super().close()

    def next(self) -> Element | None:
        """The next batch. If a call fails, so does its batch, and the one after it comes next."""
        size = self.dataset.batch_size
        rows = self.pull_rows(size) if not self.over and size <= MOST_ROWS else None
        if rows is not None:
            self.over = len(rows[0][0]) < size
            return None if self.over and self.dataset.drop_remainder else tuple(rows[1])
        elements: list[Element] = []
        failure: errors.OpError | None = None
        for left in range(0 if self.over else size, 0, -1):
            self._calls.wanted = left
            outcome = self._calls.next()
            if outcome is None:
                break
            if isinstance(outcome, errors.OutOfRangeError):
                if not self.dataset.keeps_count:
                    break
                failure = failure or errors.InvalidArgumentError(
                    None, self.dataset.op, f"Function invocation produced OutOfRangeError: {outcome.message}"
                )
            elif isinstance(outcome, errors.OpError):
                failure = failure or outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                elements.append(outcome)
        if failure is not None:
            raise failure
        self.over = len(elements) < size
        if not elements or (self.over and self.dataset.drop_remainder):
            return None
        for parts in zip(*elements, strict=True):
            self._check(parts)
        return tuple(stacked(elements, self.dataset) or ())

    def _check(self, parts: Any) -> None:
        for part in parts:
            if part.shape != parts[0].shape:
                raise errors.InvalidArgumentError(
                    None,
                    self.dataset.op,
                    "Cannot add tensor to the batch: number of elements does not match. Shapes are: [tensor]: "
                    f"{shapes.show(part.shape)}, [batch]: {shapes.show(parts[0].shape)}",
                )


_MAP_BATCH = f"{ARGUMENTS}, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool"
_MAP_BATCH_ATTRS = {**FUNCTION, **ELEMENTS, "preserve_cardinality": Bool(False)}


@stage("MapAndBatchDataset", _MAP_BATCH, {**_MAP_BATCH_ATTRS, **METADATA}, ranks={"num_parallel_calls": 0})
@stage("ExperimentalMapAndBatchDataset", _MAP_BATCH, _MAP_BATCH_ATTRS, ranks={"num_parallel_calls": 0})
class MapAndBatch(Calling):
    """Batches of what ``f`` gives for each element of the input, in order, whatever the number of calls at a time."""

    iterator = _MappedBatches
    free = Calling.free | {"num_parallel_calls"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.batch_size = number(ctx, operands["batch_size"], "batch_size", 1)
        self.drop_remainder = bool(operands["drop_remainder"])
        self.keeps_count = bool(attrs["preserve_cardinality"])
        self.calls = number(ctx, operands["num_parallel_calls"], "num_parallel_calls")
        ctx.check(
            self.calls > 0 or self.calls == -1,
            errors.InvalidArgumentError,
            "num_parallel_calls must be greater than zero.",
        )

    def cardinality(self) -> int:
        return batches_of(self.inputs[0].cardinality(), self.batch_size, self.drop_remainder)
