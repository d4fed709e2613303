"""Input for replicas: elements of a dataset cut into parts, or one element for each."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.values import nest
from anabranch.distribute import values
from anabranch.distribute.values import PerReplica


@public("distribute.InputReplicationMode")
class InputReplicationMode(enum.Enum):
    """How input functions are called: once for each worker, which is the only mode."""

    PER_WORKER = "PER_WORKER"


@public("distribute.InputContext")
class InputContext:
    """What an input function is told.

    Args:
        num_input_pipelines: how many pipelines there are.
        input_pipeline_id: the number of this one.
        num_replicas_in_sync: how many replicas share a step.
    """

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1) -> None:
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """How many rows of a batch each replica gets.

        Raises:
            ValueError: the batch cannot be divided by the number of replicas.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync}\n"
                + errors.message(
                    f"{global_batch_size} rows for {self.num_replicas_in_sync} replicas",
                    "a multiple of the number of replicas",
                    f"global_batch_size={global_batch_size - global_batch_size % self.num_replicas_in_sync}",
                )
            )
        return global_batch_size // self.num_replicas_in_sync


class DistributedIterator:
    """An iterator that gives each replica its own values.

    Args:
        count: how many replicas.
        iterator: gives elements of a dataset; or a function that gives the values of a replica.
        split: whether each element is cut into parts; otherwise each replica has an element of its own.
        workers: how many workers share each element.
        worker: the number of this one.
    """

    def __init__(self, count: int, iterator: Any, split: bool, workers: int = 1, worker: int = 0) -> None:
        self._count, self._iterator, self._split = count, iterator, split
        self._workers, self._worker = workers, worker

    @property
    def initializer(self) -> Any:
        """The op that begins from the start."""
        return self._iterator.initializer

    def initialize(self) -> list[Any]:
        """The ops that begin from the start."""
        return [] if callable(self._iterator) else [self._iterator.initializer]

    @property
    def output_types(self) -> Any:
        """Dtypes of an element."""
        return self._iterator.output_types

    @property
    def output_shapes(self) -> Any:
        """Shapes of an element."""
        return self._iterator.output_shapes

    @property
    def output_classes(self) -> Any:
        """Classes of an element."""
        return self._iterator.output_classes

    def get_next(self, name: str | None = None) -> Any:
        """The next values of all replicas."""
        builder = current_builder()
        if callable(self._iterator):
            return values.regroup([self._iterator() for _ in range(self._count)])
        with builder.device("/cpu:0"):
            if self._split:
                element = self._iterator.get_next(name)
                return nest.map_structure(self._parts, element)
            elements: list[Any] = []
            for _ in range(self._count):
                before = nest.flatten(elements[-1])[:1] if elements else []
                with builder.control_dependencies(before):
                    elements.append(self._iterator.get_next(name))
            return values.regroup(elements)

    def _parts(self, batch: Any) -> Any:
        """The rows of a batch for each replica of this worker, in order; as evenly as possible."""
        count, first = self._count * self._workers, self._count * self._worker
        if count == 1:
            return batch
        size = batch.shape.as_list()[0] if batch.shape.ndims else None
        if batch.shape.ndims == 0:
            raise ValueError(
                errors.message(
                    "a dataset of scalars", "a dataset of batches, which replicas share", "dataset.batch(global_batch)"
                )
            )
        if size is not None and size % count == 0:
            return _own(build("Split", 0, batch, num_split=count)[first : first + self._count])
        rows = build("StridedSlice", build("Shape", batch), [0], [1], [1], shrink_axis_mask=1)
        each = build("FloorDiv", build("Add", rows, count - 1), count)
        parts = []
        for i in range(first, first + self._count):
            begin = build("Minimum", build("Mul", each, i), rows)
            end = build("Minimum", build("Mul", each, i + 1), rows)
            parts.append(build("StridedSlice", batch, build("Pack", [begin]), build("Pack", [end]), [1]))
        return _own(parts)


def _own(parts: Any) -> Any:
    return PerReplica(parts) if len(parts) > 1 else parts[0]


class DistributedDataset:
    """A dataset whose iterators give each replica its part of each element.

    Args:
        count: how many replicas.
        dataset: the dataset of global batches, or of batches of each replica.
        split: whether its elements are cut into parts.
        workers: how many workers share each element.
        worker: the number of this one.
    """

    def __init__(self, count: int, dataset: Any, split: bool, workers: int = 1, worker: int = 0) -> None:
        self._count, self._dataset, self._split = count, dataset, split
        self._share = workers, worker

    def make_initializable_iterator(self, shared_name: str | None = None) -> DistributedIterator:
        """An iterator with an ``initializer``."""
        return DistributedIterator(
            self._count, self._dataset.make_initializable_iterator(shared_name), self._split, *self._share
        )

    def make_one_shot_iterator(self) -> DistributedIterator:
        """An iterator that begins by itself."""
        return DistributedIterator(self._count, self._dataset.make_one_shot_iterator(), self._split, *self._share)

    @property
    def element_spec(self) -> Any:
        """What an element of the dataset is."""
        return self._dataset.element_spec


def of_function(
    count: int, function: Callable[[InputContext], Any], context: InputContext | None = None
) -> DistributedIterator:
    """The iterator of an input function: each replica has elements of its own."""
    given = function(context or InputContext(1, 0, count))
    if callable(given) and not hasattr(given, "make_initializable_iterator"):
        return DistributedIterator(count, given, False)
    return DistributedDataset(count, given, False).make_initializable_iterator()
