"""Stages whose function makes a dataset of each element: flat_map, and interleave in its forms.

A parallel interleave lets each dataset in its cycle make elements ahead, on a thread of its own
(:class:`~anabranch.ops.data.buffering.Ahead`), if its functions draw nothing and have no effect. Threads begin where
elements take long. Where a function calls Python, which may wait for something else, they begin with the first element,
and with them the datasets that are in the cycle, or come into it next, as in TensorFlow. The order is that of
``interleave`` all the same.

A sloppy one passes over datasets whose next element is still being made, and waits only if all are; the next turn is
then that of the dataset behind the one that gave the element. Elements that nobody makes ahead are never passed over.

In a session that is to repeat (``deterministic=True``) Python is called in the order of the elements, and nothing is
passed over.
"""

from __future__ import annotations

import collections
from typing import Any

from anabranch.core import conditions, errors
from anabranch.core.contract.opdef import Bool, String
from anabranch.ops.data.buffering import Ahead
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.mapping import ARGUMENTS, FUNCTION, Calling
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Context, Dataset, Iterator, number, stage
from anabranch.ops.data.windows import Held


def inner_dataset(op: Any, value: Any) -> Dataset:
    """The dataset that a stage's function returned."""
    if not isinstance(value, Dataset):
        raise errors.InvalidArgumentError(
            None, op, f"The function must return a dataset, but returned {type(value).__name__}"
        )
    return value


class _Nested(Iterator):
    """An iterator over datasets that a function makes of the input's elements."""

    def start(self) -> None:
        self._call = self.dataset.function.prepare(self.context)

    def open(self, element: Element, number: int) -> Iterator:
        """The dataset that the function makes of an element, from its beginning; ``number`` tells its place.

        What outlives a pass (the seeds of a shuffle) belongs to a place, as in TensorFlow: of a flat map each dataset
        has its own, of an interleave each slot of the cycle.
        """
        (inner,) = self._call(element)
        return self.begin(inner_dataset(self.dataset.op, inner), Context.inner(self.context, number))

    def begin(self, inner: Dataset, context: Context) -> Iterator:
        """An iterator over a dataset that the function has made."""
        return inner.iterate(context)

    def open_next(self, number: int) -> tuple[Element, Iterator] | None:
        """The next element of the input and the dataset made of it; None at the input's end."""
        element = self.inputs[0].next()
        return None if element is None else (element, self.open(element, number))


class _Flattened(_Nested):
    fields = ("opened",)

    def start(self) -> None:
        super().start()
        self.opened = 0
        """How many elements of the input have become datasets."""
        self.current: tuple[Element, Iterator] | None = None

    def next(self) -> Element | None:
        while True:
            if self.current is None:
                self.current = self.open_next(self.opened)
                if self.current is None:
                    return None
                self.opened += 1
            element = self.current[1].next()
            if element is not None:
                return element
            self.current[1].close()
            self.current = None

    def save(self) -> dict[str, Any]:
        current = None if self.current is None else {"element": self.current[0], "place": self.current[1].save()}
        return {**super().save(), "current": current}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if self.current is not None:
            self.current[1].close()
        self.current = None
        if state["current"] is not None:
            element = state["current"]["element"]
            self.current = element, self.open(element, self.opened - 1)
            self.current[1].restore(state["current"]["place"])

    def close(self) -> None:
        super().close()
        if self.current is not None:
            self.current[1].close()


@stage("FlatMapDataset", ARGUMENTS, {**FUNCTION, **ELEMENTS, **METADATA})
class FlatMap(Calling):
    """The elements of the datasets that ``f`` makes of the input's elements, one dataset after the other."""

    iterator = _Flattened


Slot = tuple[Element, Iterator]
"""An open dataset and the element that it was made of, which is empty if making it failed."""


class _Interleaved(_Nested):
    """A cycle of open datasets, each of which gives a block of elements at its turn."""

    fields = ("position", "in_block", "over", "calls_python")

    def start(self) -> None:
        super().start()
        self.cycle: list[Slot | None] = [None] * self.dataset.cycle_length
        self.staged: collections.deque[Slot] = collections.deque()
        """Datasets that have been opened and come into the cycle next."""
        self.position = 0
        self.in_block = 0
        self.over = False
        """Whether the input has ended."""
        self.calls_python = False
        """Whether a dataset calls Python on a thread of its own, so that all in the cycle are begun early."""
        self._repeats = self._call.function.repeats
        self._changed = conditions.Condition()
        """Notified when a dataset that makes elements ahead has made one."""

    def begin(self, inner: Dataset, context: Context) -> Iterator:
        ahead = self.dataset.ahead
        if not ahead or not (inner.alike_on_threads or (inner.python_apart and not self._repeats)):
            return inner.iterate(context)
        iterator = Ahead(inner, ahead, self._changed, begins_at_once=not inner.alike_on_threads).iterate(context)
        self.calls_python |= not inner.alike_on_threads
        return iterator

    def _failed(self, problem: errors.OpError | None = None) -> Slot:
        """What stands in the cycle for a dataset that could not be made: it fails once if that is to be told yet."""
        nothing: Any = Ahead(Held(self.dataset.op, (), (), []), 0, self._changed).iterate(self.context)
        if problem is not None:
            nothing.kept.append(problem)
        return (), nothing

    def _open_early(self, number: int) -> Slot | None:
        try:
            slot = self.open_next(number)
        except errors.OpError as problem:
            return self._failed(problem)
        self.over = slot is None
        return slot

    def _open_all(self) -> None:
        """Open what is to be in the cycle, from the slot on whose turn it is, and what comes into it next."""
        size = len(self.cycle)
        for slot in ((self.position + i) % size for i in range(size)):
            if self.cycle[slot] is None:
                self.cycle[slot] = self.staged.popleft() if self.staged else None
                if self.cycle[slot] is None and not self.over:
                    self.cycle[slot] = self._open_early(slot)
        while not self.over and len(self.staged) < self.dataset.staged:
            dataset = self._open_early(size + len(self.staged))
            if dataset is not None:
                self.staged.append(dataset)

    def _pass_over(self) -> None:
        """Give the turn to the next dataset whose element does not have to be waited for."""

        def ready() -> int | None:
            size = len(self.cycle)
            for i in range(size):
                slot = self.cycle[(self.position + i) % size]
                if (slot is None and not self.over) or (slot is not None and slot[1].gives_without_waiting):
                    return i
            return None

        if not any(self.cycle):
            return
        first = ready()
        if first is None:
            with self._changed:
                self.context.pipeline.current_token.wait_for(
                    self._changed, lambda: ready() is not None, self.dataset.op
                )
            first = ready()
        if first:
            self.position = (self.position + first) % len(self.cycle)
            self.in_block = 0

    def _count(self) -> None:
        self.in_block += 1
        if self.in_block == self.dataset.block_length:
            self._advance()

    def _advance(self) -> None:
        self.position = (self.position + 1) % len(self.cycle)
        self.in_block = 0

    def next(self) -> Element | None:
        idle = 0
        while not self.over or self.staged or idle < len(self.cycle):
            if self.calls_python:
                self._open_all()
            if self.dataset.sloppy and not self._repeats:
                self._pass_over()
            current = self.cycle[self.position]
            if current is not None:
                idle = 0
                try:
                    element = current[1].next()
                except errors.OpError:
                    if self.dataset.counts_failures:
                        self._count()
                    raise
                if element is not None:
                    self._count()
                    if self.calls_python:
                        self._open_all()
                    return element
                current[1].close()
                self.cycle[self.position] = None
                if self.calls_python:
                    self._open_all()
                self._advance()
            elif not self.over:
                try:
                    self.cycle[self.position] = self.open_next(self.position)
                except errors.OpError:
                    if self.dataset.counts_failures:
                        self.cycle[self.position] = self._failed()
                        self._count()
                    raise
                self.over = self.cycle[self.position] is None
            else:
                idle += 1
                self._advance()
        return None

    def save(self) -> dict[str, Any]:
        def place(slot: Slot | None) -> dict[str, Any] | None:
            return None if slot is None else {"element": slot[0], "place": slot[1].save()}

        return {**super().save(), "cycle": [*map(place, self.cycle)], "staged": [*map(place, self.staged)]}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore({"calls_python": False, **state})  # places of earlier versions do not have it
        self._close_all()

        def slot(saved: dict[str, Any] | None, number: int) -> Slot | None:
            if saved is None:
                return None
            slot = (saved["element"], self.open(saved["element"], number)) if saved["element"] else self._failed()
            slot[1].restore(saved["place"])
            return slot

        self.cycle = [slot(saved, i) for i, saved in enumerate(state["cycle"])]
        staged = [slot(saved, len(self.cycle) + i) for i, saved in enumerate(state.get("staged", ()))]
        self.staged = collections.deque(item for item in staged if item is not None)

    def _close_all(self) -> None:
        for slot in (*self.cycle, *self.staged):
            if slot is not None:
                slot[1].close()

    def close(self) -> None:
        super().close()
        self._close_all()


class _Interleaving(Calling):
    iterator = _Interleaved
    counts_failures = False
    """Whether what fails takes its place in the order, so that the next dataset has its turn."""
    ahead = 0
    """How many elements of each dataset in the cycle may be made, by threads, before they are asked for."""
    staged = 0
    """How many datasets may be opened before they come into the cycle."""
    sloppy = False
    """Whether datasets of which no element is ready may be passed over."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.cycle_length = number(ctx, operands["cycle_length"], "cycle_length", 1)
        self.block_length = number(ctx, operands["block_length"], "block_length", 1)
        self.sloppy = bool(operands.get("sloppy", attrs.get("sloppy", False))) or attrs.get("deterministic") in (
            "false",
            b"false",
        )


_CYCLE = f"{ARGUMENTS}, cycle_length: int64, block_length: int64"


@stage("InterleaveDataset", _CYCLE, {**FUNCTION, **ELEMENTS, **METADATA})
class Interleave(_Interleaving):
    """Blocks of elements of ``cycle_length`` datasets at a time, which ``f`` makes of the input's elements."""


_AHEAD = "buffer_output_elements: int64, prefetch_input_elements: int64"
_DETERMINISTIC = {
    "f": FUNCTION["f"],
    "deterministic": String("default"),
    "Targuments": FUNCTION["Targuments"],
    **ELEMENTS,
    **METADATA,
}


@stage("ParallelInterleaveDataset", f"{_CYCLE}, sloppy: bool, {_AHEAD}", {**FUNCTION, **ELEMENTS, **METADATA})
@stage("ExperimentalParallelInterleaveDataset", f"{_CYCLE}, sloppy: bool, {_AHEAD}", {**FUNCTION, **ELEMENTS})
@stage("LegacyParallelInterleaveDatasetV2", f"{_CYCLE}, {_AHEAD}", _DETERMINISTIC)
class LegacyParallelInterleave(_Interleaving):
    """Like ``InterleaveDataset``, in the same order unless it is sloppy; a failure takes its turn."""

    counts_failures = True
    free = _Interleaving.free | {"sloppy", "deterministic", "buffer_output_elements", "prefetch_input_elements"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        for name, least in (("buffer_output_elements", 1), ("prefetch_input_elements", 0)):
            value = number(ctx, operands[name], name)
            ctx.check(
                value >= least,
                errors.InvalidArgumentError,
                f"`{name}` must be {'> 0' if least else '>= 0'}, but is {value}",
            )
        self.ahead = int(operands["buffer_output_elements"])
        self.staged = int(operands["prefetch_input_elements"])


@stage(
    "ParallelInterleaveDatasetV2",
    f"{_CYCLE}, num_parallel_calls: int64",
    {**FUNCTION, **ELEMENTS, "sloppy": Bool(False), **METADATA},
)
@stage("ParallelInterleaveDatasetV3", f"{_CYCLE}, num_parallel_calls: int64", _DETERMINISTIC)
@stage("ParallelInterleaveDatasetV4", f"{_CYCLE}, {_AHEAD}, num_parallel_calls: int64", _DETERMINISTIC)
class ParallelInterleave(_Interleaving):
    """Like ``InterleaveDataset``, in the same order unless it is sloppy, whatever the number of calls at a time."""

    free = LegacyParallelInterleave.free | {"num_parallel_calls"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        calls = number(ctx, operands["num_parallel_calls"], "num_parallel_calls")
        self.ahead = 0 if calls == 1 else max(2, self.block_length)
