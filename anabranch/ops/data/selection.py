"""Stages that say which elements come, and how often: repeat, take, skip, shard, concatenate, zip, choices, errors.

Each has a form for tables (see :mod:`anabranch.ops.data.pipeline`) where it only chooses rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Int
from anabranch.ops.data.elements.stacks import Element, Rows, all_rows, joined, joined_columns
from anabranch.ops.data.pipeline import (
    ELEMENTS,
    INFINITE,
    METADATA,
    UNKNOWN,
    Context,
    Dataset,
    Iterator,
    RowIterator,
    number,
    stage,
)

_log = logging.getLogger("anabranch")


class OverRows(Dataset):
    """A stage that has a form for tables: its iterator over elements, and the one over rows."""

    over_rows: type[RowIterator]

    def __init__(self, ctx: Any, attrs: dict[str, Any], operands: dict[str, Any]) -> None:
        super().__init__(ctx, attrs, operands)
        self.table = self.inputs[0].table

    def iterate(self, context: Context) -> Iterator:
        """An iterator over rows if there is a table."""
        return (self.iterator if self.table is None else self.over_rows)(self, context)


# --------------------------------------------------------------------------------------------------------------- repeat
class _Repeated(Iterator):
    fields = ("passes", "fresh")

    def start(self) -> None:
        self.passes = 0
        """Passes that are over."""
        self.fresh = True
        """Whether the current pass has given nothing yet."""

    @property
    def _over(self) -> bool:
        return 0 <= self.dataset.count <= self.passes

    def _begin_again(self) -> None:
        self.inputs[0].close()
        self.inputs[0] = self.dataset.inputs[0].iterate(self.context.inner(0))
        self.fresh = True

    def _end_pass(self) -> bool:
        """Go to the next pass; whether there is one. Endless repetition of nothing ends."""
        self.passes += 1
        if self._over or (self.dataset.count < 0 and self.fresh):
            self.passes = max(self.passes, 0) if self._over else self.passes
            return False
        self._begin_again()
        return True

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        parts: list[Sequence[Any]] = []
        last: list[Element] = []
        missing = count
        try:
            while missing and not self._over:
                part = self.inputs[0].take(missing, last)
                if part is not None:
                    self.fresh = False
                    parts.append(part)
                    missing -= len(part[0])
                    last.clear()
                if missing and not self._end_pass():
                    break
        except errors.OpError:
            self.fresh &= not last
            if before is not None:
                before += [*all_rows(parts), *last]
            raise
        return joined_columns(parts, self.dataset)

    def next(self) -> Element | None:
        while not self._over:
            element = self.inputs[0].next()
            if element is not None:
                self.fresh = False
                return element
            if not self._end_pass():
                break
        return None


class _RepeatedRows(RowIterator, _Repeated):
    def rows(self, count: int) -> Rows:
        parts: list[Rows] = []
        missing = count
        while missing and not self._over:
            source: Any = self.inputs[0]
            part = source.rows(missing)
            missing -= len(part)
            if len(part):
                self.fresh = False
                parts.append(part)
            if missing and not self._end_pass():
                break
        return joined(parts)


def repeated(count: int, times: int) -> int:
    """How many elements ``count`` of them make in ``times`` passes, without end if that is negative."""
    if not count or not times:
        return 0
    return INFINITE if times < 0 else count if count < 0 else count * times


@stage("RepeatDataset", "input_dataset: variant, count: int64")
class Repeat(OverRows):
    """All elements of the input ``count`` times over; without end if it is negative."""

    iterator = _Repeated
    over_rows = _RepeatedRows

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.count = number(ctx, operands["count"], "count")

    def cardinality(self) -> int:
        return repeated(self.inputs[0].cardinality(), self.count)


# ----------------------------------------------------------------------------------------------------------------- take
class _Taken(Iterator):
    fields = ("given",)

    def start(self) -> None:
        self.given = 0
        self._let_go = False
        """Whether the input, of which more is never asked for, has been closed: a generator ends there."""

    def _left(self, count: int) -> int:
        most = self.dataset.count
        if most < 0:
            return count
        if self.given >= most and not self._let_go:
            self._let_go = True
            self.inputs[0].close()
        return min(count, most - self.given)

    def restore(self, state: dict[str, Any]) -> None:
        self._let_go = False
        super().restore(state)

    def next(self) -> Element | None:
        if not self._left(1):
            return None
        element = self.inputs[0].next()
        self.given += element is not None
        return element

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        last: list[Element] = []
        try:
            batch = self.inputs[0].take(self._left(count), last) if self._left(count) else None
        except errors.OpError:
            self.given += len(last)
            if before is not None:
                before += last
            raise
        self.given += len(batch[0]) if batch is not None else 0
        return batch

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        there = len(elements)
        try:
            self.inputs[0].gather(self._left(count), elements)
        finally:
            self.given += len(elements) - there
        return elements


class _TakenRows(RowIterator, _Taken):
    def rows(self, count: int) -> Rows:
        source: Any = self.inputs[0]
        rows: Rows = source.rows(self._left(count))
        self.given += len(rows)
        return rows


@stage("TakeDataset", "input_dataset: variant, count: int64")
class Take(OverRows):
    """The first ``count`` elements of the input; all if it is negative."""

    iterator = _Taken
    over_rows = _TakenRows

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.count = number(ctx, operands["count"], "count")

    def cardinality(self) -> int:
        count = self.inputs[0].cardinality()
        return count if self.count < 0 or count == UNKNOWN else self.count if count < 0 else min(count, self.count)


# ----------------------------------------------------------------------------------------------------------------- skip
class _Skipped(Iterator):
    fields = ("skipped",)

    def start(self) -> None:
        self.skipped = 0
        """How many elements have been; what fails is not one."""

    def _over(self) -> bool:
        """Skip what is to be skipped; whether nothing follows."""
        count = self.dataset.count
        if count < 0:
            return True
        while self.skipped < count:
            if self.inputs[0].next() is None:
                self.skipped = count
            self.skipped += 1
        return False

    def next(self) -> Element | None:
        return None if self._over() else self.inputs[0].next()

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        return None if self._over() else self.inputs[0].take(count, before)

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        return elements if self._over() else self.inputs[0].gather(count, elements)


class _SkippedRows(RowIterator):
    fields = ("skipped",)

    def start(self) -> None:
        self.skipped = False

    def rows(self, count: int) -> Rows:
        source: Any = self.inputs[0]
        if self.dataset.count < 0:
            return range(0)
        if not self.skipped:
            self.skipped = True
            source.rows(self.dataset.count)
        rows: Rows = source.rows(count)
        return rows


@stage("SkipDataset", "input_dataset: variant, count: int64")
class Skip(OverRows):
    """What follows the first ``count`` elements of the input; nothing if it is negative."""

    iterator = _Skipped
    over_rows = _SkippedRows

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.count = number(ctx, operands["count"], "count")

    def cardinality(self) -> int:
        count = self.inputs[0].cardinality()
        return 0 if self.count < 0 else count if count < 0 else max(0, count - self.count)


# ---------------------------------------------------------------------------------------------------------------- shard
class _Shard(Iterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0

    def next(self) -> Element | None:
        while (element := self.inputs[0].next()) is not None:
            self.position += 1
            if (self.position - 1) % self.dataset.count == self.dataset.index:
                return element
        return None


class _ShardRows(RowIterator, _Shard):
    def rows(self, count: int) -> Rows:
        source: Any = self.inputs[0]
        shards, index = self.dataset.count, self.dataset.index
        parts: list[Any] = []
        missing = count
        while missing:
            first = (index - self.position) % shards
            rows = source.rows(first + 1 + (missing - 1) * shards)
            self.position += len(rows)
            own = np.asarray(rows, np.int64)[first::shards]
            if not len(own):
                break
            parts.append(own)
            missing -= len(own)
        return joined(parts)


@stage(
    "ShardDataset",
    "input_dataset: variant, num_shards: int64, index: int64",
    {"require_non_empty": Bool(False), **ELEMENTS, **METADATA},
)
class Shard(OverRows):
    """Each ``num_shards``-th element of the input, from number ``index`` on."""

    iterator = _Shard
    over_rows = _ShardRows

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.count = number(ctx, operands["num_shards"], "num_shards", 1)
        self.index = number(ctx, operands["index"], "index")
        ctx.check(
            0 <= self.index < self.count,
            errors.InvalidArgumentError,
            f"Index must be between 0 and {self.count - 1} but got {self.index}",
        )

    @classmethod
    def of(cls, dataset: Dataset, count: int, index: int) -> Shard:
        """Each ``count``-th element of a dataset, without an op of its own."""
        shard = cls.__new__(cls)
        shard.op, shard.types, shard.shapes = dataset.op, dataset.types, dataset.shapes
        shard.inputs, shard.table = (dataset,), dataset.table
        shard.count, shard.index = count, index
        return shard

    def cardinality(self) -> int:
        count = self.inputs[0].cardinality()
        return count if count < 0 else len(range(self.index, count, self.count))


# --------------------------------------------------------------------------------------------------- several inputs
class _Concatenated(Iterator):
    fields = ("current",)

    def start(self) -> None:
        self.current = 0

    def next(self) -> Element | None:
        while self.current < len(self.inputs):
            element = self.inputs[self.current].next()
            if element is not None:
                return element
            self.current += 1
        return None


@stage("ConcatenateDataset", "input_dataset: variant, another_dataset: variant")
class Concatenate(Dataset):
    """The elements of the first input, then those of the second."""

    iterator = _Concatenated

    def cardinality(self) -> int:
        counts = [item.cardinality() for item in self.inputs]
        return INFINITE if INFINITE in counts else UNKNOWN if UNKNOWN in counts else sum(counts)


class _Zipped(Iterator):
    fields = ("over",)

    def start(self) -> None:
        self.over = False

    def next(self) -> Element | None:
        element: list[Any] = []
        for item in self.inputs:
            part = None if self.over else item.next()
            if part is None:
                if not self.over:
                    self.over = True
                    self.close()  # those that have more give it to nobody
                return None
            element += part
        return tuple(element)


@stage("ZipDataset", "input_datasets: N * variant", {**ELEMENTS, "N": Int(minimum=1), **METADATA})
class Zip(Dataset):
    """Elements with the components of one element of each input, as long as all inputs have one."""

    iterator = _Zipped

    def cardinality(self) -> int:
        counts = [item.cardinality() for item in self.inputs]
        return UNKNOWN if UNKNOWN in counts else min([count for count in counts if count >= 0], default=INFINITE)


class _Directed(Iterator):
    fields = ("ended",)

    def start(self) -> None:
        self.ended: list[int] = []
        """Which of the inputs have nothing more."""

    def next(self) -> Element | None:
        selector, *sources = self.inputs
        while len(self.ended) < len(sources):
            choice = selector.next()
            if choice is None:
                return None
            selected = int(choice[0])
            if not 0 <= selected < len(sources):
                raise errors.InvalidArgumentError(
                    None, self.dataset.op, f"Selector index out of range: {selected} >= {len(sources)}"
                )
            if selected in self.ended:
                continue
            element = sources[selected].next()
            if element is not None:
                return element
            self.ended = [*range(len(sources))] if self.dataset.stops else [*self.ended, selected]
        return None


_DIRECTED = "selector_input_dataset: variant, data_input_datasets: N * variant"


@stage(
    "DirectedInterleaveDataset",
    _DIRECTED,
    {**ELEMENTS, "N": Int(minimum=1), "stop_on_empty_dataset": Bool(False)},
)
@stage("ExperimentalDirectedInterleaveDataset", _DIRECTED, {**ELEMENTS, "N": Int(minimum=1)})
class DirectedInterleave(Dataset):
    """An element of one of the data inputs for each number that the selector gives; those that have ended are left out.

    It ends with the selector, or when all data inputs have; with ``stop_on_empty_dataset``, when one has that is asked.
    """

    iterator = _Directed

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.stops = bool(attrs.get("stop_on_empty_dataset", False))


# --------------------------------------------------------------------------------------------------- without errors
class _WithoutErrors(Iterator):
    def next(self) -> Element | None:
        pipeline = self.context.pipeline
        while True:
            try:
                return self.inputs[0].next()
            except errors.OpError as problem:
                pipeline.current_token.raise_if_cancelled(self.dataset.op)
                pipeline.token.raise_if_cancelled(self.dataset.op)
                if self.dataset.logs:
                    _log.warning("Error raised with error message %s", problem)


@stage("ExperimentalIgnoreErrorsDataset", "input_dataset: variant", {**ELEMENTS, "log_warning": Bool(False)})
@stage("IgnoreErrorsDataset", "input_dataset: variant", {**ELEMENTS, "log_warning": Bool(False)})
class WithoutErrors(Dataset):
    """The elements of the input that can be made; those whose making fails are left out, and each of these alone."""

    iterator = _WithoutErrors

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.logs = bool(attrs["log_warning"])
