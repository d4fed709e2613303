"""Stages that share a pipeline out to several workers, or replicas: by files where it reads some, else by elements.

A pipeline is shared by files where its names of files come in: a stage that reads several files keeps its own of them,
and before one whose function reads the file that an element names, each worker gets its own elements. What is shuffled
before is shared first, as workers that shuffle differently would miss some and see others twice.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Int
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of, functions_of
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.files import FileDataset
from anabranch.ops.data.mapping import Calling
from anabranch.ops.data.pipeline import ELEMENTS, STAGES, Dataset, Iterator, number, stage
from anabranch.ops.data.selection import Concatenate, Shard, Zip
from anabranch.ops.data.settings import Same
from anabranch.ops.data.shuffling import Shuffling

OFF, AUTO, FILE, DATA = -1, 0, 1, 2
"""What ``auto_shard_policy`` may be; 3, by hints, is not."""


def _reads_files(body: Body) -> bool:
    """Whether a function makes a dataset that reads files."""
    return any(
        issubclass(STAGES.get(op.type, Dataset), FileDataset)
        or any(_reads_files(use.body) for use in bodies_of(op))
        or any(_reads_files(use.body) for use in functions_of(op))
        for op in body.operations
    )


def _before_shuffles(dataset: Dataset, count: int, index: int) -> Dataset:
    """Each ``count``-th of a dataset's elements; of what is shuffled, each of what goes into the shuffle."""
    if isinstance(dataset, Shuffling):
        return _with_inputs(dataset, [_before_shuffles(dataset.inputs[0], count, index)])
    return Shard.of(dataset, count, index)


def _with_inputs(dataset: Dataset, inputs: list[Dataset]) -> Dataset:
    result = copy.copy(dataset)
    result.inputs = tuple(inputs)
    if result.table is not None:
        result.table = inputs[0].table
    return result


def by_files(dataset: Dataset, count: int, index: int) -> Dataset | None:
    """A dataset of which each of ``count`` workers reads its own files; None if it reads none, or too few."""
    if isinstance(dataset, FileDataset):
        if len(dataset.files) < count:
            return None
        result = copy.copy(dataset)
        result.files = dataset.files[index::count]
        return result
    if isinstance(dataset, Calling) and isinstance(dataset.function.body, Body) and _reads_files(dataset.function.body):
        names = dataset.inputs[0].cardinality()
        if 0 <= names < count:
            return None
        return _with_inputs(dataset, [_before_shuffles(dataset.inputs[0], count, index)])
    if len(dataset.inputs) > 1 and not isinstance(dataset, Zip | Concatenate):
        return None
    inputs = [by_files(item, count, index) for item in dataset.inputs]
    present = [item for item in inputs if item is not None]
    return _with_inputs(dataset, present) if inputs and len(present) == len(inputs) else None


_SHARED = "input_dataset: variant, num_workers: int64, index: int64"


@stage("AutoShardDataset", _SHARED, {"auto_shard_policy": Int(0), **ELEMENTS, "num_replicas": Int(0)})
@stage("ExperimentalAutoShardDataset", _SHARED, {"auto_shard_policy": Int(0), **ELEMENTS})
class AutoShard(Same):
    """The part of the input that one of several workers goes through: its own files, or each so-manieth element."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        count = number(ctx, operands["num_workers"], "num_workers", 1)
        index = number(ctx, operands["index"], "index")
        ctx.check(
            0 <= index < count,
            errors.InvalidArgumentError,
            f"index must be >= 0 and < {count}, currently {index}",
        )
        policy = attrs["auto_shard_policy"]
        ctx.check(
            policy in (OFF, AUTO, FILE, DATA),
            errors.UnimplementedError,
            errors.message(
                f"auto_shard_policy={policy}", "OFF, AUTO, FILE or DATA", "tf.data.experimental.AutoShardPolicy.DATA"
            ),
        )
        if policy == OFF or count == 1:
            return
        source = self.inputs[0]
        shared = by_files(source, count, index) if policy in (AUTO, FILE) else None
        ctx.check(
            shared is not None or policy != FILE,
            errors.InvalidArgumentError,
            "Could not apply FILE based sharding.\n"
            + errors.message(
                f"a pipeline that reads no files, or fewer than {count}",
                f"at least one file for each of {count} workers",
                "options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA",
            ),
        )
        self.inputs = (Shard.of(source, count, index) if shared is None else shared,)

    def cardinality(self) -> int:
        """That of the part."""
        return self.inputs[0].cardinality()


# ------------------------------------------------------------------------------------------------------ smaller batches
class _Rebatched(Iterator):
    fields = ("rest", "turn", "size", "over")

    def start(self) -> None:
        self.rest: list[Any] = []
        """Of each component the rows that have been taken and not given out."""
        self.turn = 0
        self.size = 0
        """Rows of the first of the input's elements."""
        self.over = False

    def next(self) -> Element | None:
        while not self.size or (len(self.rest[0]) < self._wanted() and not self.over):
            element = None if self.over else self.inputs[0].next()
            if element is None:
                self.over = True
                if not self.size:
                    return None
                break
            rows = {len(part) if part.ndim else -1 for part in element}
            if len(rows) > 1 or -1 in rows:
                raise errors.InvalidArgumentError(
                    None, self.dataset.op, "Input element must have the same batch size in each component."
                )
            self.size = self.size or max(1, *rows)
            before = self.rest or [part[:0] for part in element]
            self.rest = [np.concatenate(parts) for parts in zip(before, element, strict=True)]
        wanted = self._wanted()
        if not len(self.rest[0]) or (self.dataset.drop_remainder and len(self.rest[0]) < wanted):
            return None
        batch = tuple([part[:wanted] for part in self.rest])
        self.rest = [part[wanted:] for part in self.rest]
        self.turn += 1
        return batch

    def _wanted(self) -> int:
        sizes = self.dataset.sizes_of(self.size)
        wanted: int = sizes[self.turn % len(sizes)]
        return wanted


class _Rebatching(Dataset):
    iterator = _Rebatched
    drop_remainder = False

    def sizes_of(self, rows: int) -> list[int]:
        """The sizes of batches, in turn, where those of the input have ``rows`` rows."""
        raise NotImplementedError


_REPLICAS = "input_dataset: variant, num_replicas: int64"


@stage("RebatchDataset", _REPLICAS, {**ELEMENTS, "use_fallback": Bool(True)})
@stage("ExperimentalRebatchDataset", _REPLICAS, {**ELEMENTS, "use_fallback": Bool(True)})
class Rebatch(_Rebatching):
    """The rows of the input in batches for ``num_replicas`` replicas, which together are as large as the input's."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.replicas = number(ctx, operands["num_replicas"], "num_replicas", 1)
        self.drop_remainder = all(shape is not None and shape and shape[0] is not None for shape in self.shapes)

    def sizes_of(self, rows: int) -> list[int]:
        """One: an equal share of the rows."""
        return [-(-rows // self.replicas)]


@stage("RebatchDatasetV2", "input_dataset: variant, batch_sizes: int64, drop_remainder: bool", ELEMENTS)
class RebatchBySizes(_Rebatching):
    """The rows of the input in batches of ``batch_sizes``, in turn."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.sizes = [int(size) for size in np.ravel(operands["batch_sizes"])]
        ctx.check(
            bool(self.sizes) and min(self.sizes) > 0,
            errors.InvalidArgumentError,
            "`batch_sizes` must be positive numbers",
        )
        self.drop_remainder = bool(operands["drop_remainder"])

    def sizes_of(self, rows: int) -> list[int]:
        """Those that were given."""
        return self.sizes
