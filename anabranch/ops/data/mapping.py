"""Stages that call a function on each element: map and filter.

A function may have effects and read variables: it is called in the order of the elements, once for each, and sees what
is committed. One that only computes may be called once for many. Where it raises OutOfRangeError, the sequence ends,
or, if the number of elements is to be kept (``preserve_cardinality``), the step fails.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Func, List, String
from anabranch.ops.data.elements.stacks import Element, all_rows, joined_columns, rows_of, stacked
from anabranch.ops.data.parallel import ParallelCalls
from anabranch.ops.data.pipeline import (
    ELEMENTS,
    METADATA,
    MOST_ROWS,
    Dataset,
    Function,
    Iterator,
    computes_but_for_python,
    number,
    stage,
)

FUNCTION = {"f": Func(captures="other_arguments"), "Targuments": List("type", minimum=0)}
ARGUMENTS = "input_dataset: variant, other_arguments: [Targuments]"


class Calling(Dataset):
    """A stage that calls its function ``f``."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.function = Function(attrs.get("f") or attrs.get("predicate"), operands["other_arguments"])

    @functools.cached_property
    def effects_are_python(self) -> bool:
        """Whether its function has no effect but those of Python functions that it calls."""
        return computes_but_for_python(self.function.body)


# ------------------------------------------------------------------------------------------------------------------ map
class ManyAtOnce(Iterator):
    """An iterator whose function is called for many elements in one run where it can be (:meth:`Call.rows`).

    Where it cannot, the elements that were taken for it are called one by one: what is over is :attr:`taken`, and
    an error of the input comes behind those that were taken before it.
    """

    fields = ("taken",)

    def start(self) -> None:
        self.taken: list[Element | errors.OpError] = []
        """Elements of the input that the function has not been called for, or its error, the next one last."""
        self._runs = 0
        """How often the function was called for many elements."""
        self._call = self.dataset.function.prepare(self.context)

    @property
    def under_way(self) -> bool:
        """Whether elements of the input come before the next one that is pulled."""
        return False

    def pull(self) -> Element | None:
        """The input's next element."""
        item = self.taken.pop() if self.taken else self.inputs[0].next()
        if isinstance(item, errors.OpError):
            raise item
        return item

    def pull_rows(self, count: int) -> tuple[Sequence[Any], list[Any]] | None:
        """Up to ``count`` of the input's elements, stacked, and what the function gives for them, stacked.

        None if the function must be called for each: also at the end of the input.
        """
        if self.taken or self.under_way or not self._call.takes_rows(self.dataset.inputs[0]):
            return None
        before: list[Element] = []
        try:
            columns = self.inputs[0].take(min(count, MOST_ROWS), before)
        except errors.OpError as problem:
            self.taken = [*before[::-1]]
            if self.context.pipeline.current_token.cancelled:
                raise
            self.taken.insert(0, problem)
            return None
        if columns is None:
            return None
        results = self._call.rows(columns)
        if results is None:
            self.taken = [*rows_of(columns)[::-1]]
            return None
        self._runs += 1
        return columns, results

    def joined(self, parts: list[Sequence[Any]], rest: list[Element]) -> Sequence[Any] | None:
        """Stacked elements and single ones behind them, as one stack; None if there are none."""
        last = stacked(rest, self.dataset)
        return joined_columns(parts if last is None else [*parts, last], self.dataset)

    def form(self) -> str:
        if self._runs:
            return "once for many elements"
        reason = self._call.function.by_element
        if reason is None:
            large = self._call.takes_rows(self.dataset.inputs[0])
            reason = "nobody asks for many" if large else "elements of no certain shape, or large ones"
        return f"element by element: {reason}"


class _Mapped(ManyAtOnce):
    fields = ("taken", "over")

    def start(self) -> None:
        super().start()
        self.over = False
        self._calls = ParallelCalls(self._call, self.pull, self.dataset, self.context)

    @property
    def under_way(self) -> bool:
        return bool(self._calls.pending)

    def form(self) -> str:
        threads = self._calls.threads
        return super().form() if threads is None else f"{len(threads.threads)} threads"

    def save(self) -> dict[str, Any]:
        outcomes = self._calls.outcomes()  # they have been made: what is under way is no longer the input's
        return {**super().save(), "outcomes": outcomes}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._calls.go_to(state["outcomes"])

    def close(self) -> None:
        self._calls.close()
        super().close()

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        parts: list[Sequence[Any]] = []
        rest: list[Element] = []
        missing = 0 if self.over else count
        try:
            while missing and (rows := self.pull_rows(missing)) is not None:
                parts.append(rows[1])
                missing -= len(rows[0][0])
            self._one_by_one(missing, rest)
        except errors.OpError:
            if before is not None:
                before += [*all_rows(parts), *rest]
            raise
        return self.joined(parts, rest)

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        end = len(elements) + count
        while len(elements) < end and not self.over:
            rows = self.pull_rows(end - len(elements))
            if rows is None:
                return self._one_by_one(end - len(elements), elements)
            elements += rows_of(rows[1])
        return elements

    def _one_by_one(self, count: int, into: list[Element]) -> list[Element]:
        """Append ``count`` elements, or as many as there are."""
        try:
            for left in range(count, 0, -1):
                self._calls.wanted = left
                element = self.next()
                if element is None:
                    break
                into.append(element)
        finally:
            self._calls.wanted = 1
        return into

    def next(self) -> Element | None:
        outcome = None if self.over else self._calls.next()
        if isinstance(outcome, errors.OutOfRangeError):
            if self.dataset.keeps_count:
                raise errors.InvalidArgumentError(
                    None, self.dataset.op, f"Function invocation produced OutOfRangeError: {outcome.message}"
                ) from outcome
            self.over = True
            return None
        if isinstance(outcome, BaseException):
            raise outcome
        element: Element | None = outcome
        return element


class _Mapping(Calling):
    iterator = _Mapped
    keeps_number = True
    calls = 1
    """How many calls may be under way at a time; -1 leaves it to us."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.keeps_count = bool(attrs["preserve_cardinality"])


_MAP = {
    **FUNCTION,
    **ELEMENTS,
    "use_inter_op_parallelism": Bool(True),
    "preserve_cardinality": Bool(False),
    "force_synchronous": Bool(False),
}


@stage("ExperimentalMapDataset", ARGUMENTS, _MAP)
@stage("MapDataset", ARGUMENTS, {**_MAP, **METADATA})
class Map(_Mapping):
    """What ``f`` gives for each element of the input."""


@stage(
    "ParallelMapDatasetV2",
    f"{ARGUMENTS}, num_parallel_calls: int64",
    {
        **FUNCTION,
        **ELEMENTS,
        "use_inter_op_parallelism": Bool(True),
        "deterministic": String("default"),
        "preserve_cardinality": Bool(False),
        "use_unbounded_threadpool": Bool(False),
        **METADATA,
    },
)
@stage(
    "ParallelMapDataset",
    f"{ARGUMENTS}, num_parallel_calls: int32",
    {
        **FUNCTION,
        **ELEMENTS,
        "use_inter_op_parallelism": Bool(True),
        "sloppy": Bool(False),
        "preserve_cardinality": Bool(False),
        **METADATA,
    },
)
class ParallelMap(_Mapping):
    """What ``f`` gives for each element of the input, in order, whatever the number of calls at a time."""

    free = Calling.free | {"num_parallel_calls", "sloppy", "deterministic"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.calls = number(ctx, operands["num_parallel_calls"], "num_parallel_calls")
        ctx.check(
            self.calls > 0 or self.calls == -1,
            errors.InvalidArgumentError,
            "num_parallel_calls must be greater than zero.",
        )


# --------------------------------------------------------------------------------------------------------------- filter
class _Filtered(ManyAtOnce):
    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        parts: list[Sequence[Any]] = []
        rest: list[Element] = []
        missing = count
        try:
            while missing and (rows := self.pull_rows(missing)) is not None:
                columns, (wanted,) = rows
                if wanted.ndim > 1:
                    self.taken = [*rows_of(columns)[::-1]]
                    break
                if wanted.any():
                    parts.append(columns if wanted.all() else [column[wanted] for column in columns])
                    missing -= len(parts[-1][0])
            super().gather(missing, rest)
        except errors.OpError:
            if before is not None:
                before += [*all_rows(parts), *rest]
            raise
        return self.joined(parts, rest)

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        end = len(elements) + count
        while len(elements) < end and not self.taken and self._call.takes_rows(self.dataset.inputs[0]):
            columns = self.take(min(end - len(elements), MOST_ROWS), elements)
            if columns is None:
                return elements
            elements += rows_of(columns)
        return super().gather(end - len(elements), elements)

    def next(self) -> Element | None:
        while (element := self.pull()) is not None:
            (wanted,) = self._call(element)
            if np.ndim(wanted):
                raise errors.InvalidArgumentError(
                    None, self.dataset.op, "Filter predicate `f` must return a scalar bool."
                )
            if wanted:
                return element
        return None


@stage(
    "FilterDataset",
    ARGUMENTS,
    {"predicate": Func(captures="other_arguments"), "Targuments": List("type", minimum=0), **ELEMENTS, **METADATA},
)
class Filter(Calling):
    """The elements of the input for which ``predicate`` holds."""

    iterator = _Filtered


@stage(
    "ParallelFilterDataset",
    f"{ARGUMENTS}, num_parallel_calls: int64",
    {
        "predicate": Func(captures="other_arguments"),
        "deterministic": String("default"),
        "Targuments": List("type", minimum=0),
        **ELEMENTS,
        **METADATA,
    },
)
class ParallelFilter(Filter):
    """The elements of the input for which ``predicate`` holds, in order."""

    free = Filter.free | {"num_parallel_calls", "deterministic"}


class _FilteredByLast(Iterator):
    def next(self) -> Element | None:
        while (element := self.inputs[0].next()) is not None:
            if element[-1]:
                return element[:-1]
        return None


@stage("FilterByLastComponentDataset", "input_dataset: variant", ELEMENTS, output="output")
class FilterByLastComponent(Dataset):
    """The elements of the input whose last component holds, without it."""

    iterator = _FilteredByLast
