"""Shuffling: TensorFlow's own order for its seeds.

A buffer of ``buffer_size`` elements is kept full; each element that goes out is drawn from it, and the first of those
inside takes its place. Draws are the 32-bit words of a Philox stream, modulo the number of those that may go out. If
the input is repeated by the shuffle itself, the elements of one pass go out before those of the next (a *slice* of the
buffer for each pass), though the buffer holds both.

Unless the order is to stay the same for each pass, a pass draws its two seeds from a stream of its own, which belongs
to the iterator's place in the pipeline and begins anew when the iterator is initialised.

Rows of a table are numbers, and their buffer is an array: many draws are made together, without a loop. Each draw takes
an item out of one place, and the first item of the buffer moves there. So what a draw gives is what its place held
before all draws, or what the last draw from that place moved there; and what moves is what the first place held, or
what an earlier draw moved there, which is found by following such draws back. More rows are drawn than are asked for:
those that are ready are part of the place.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool
from anabranch.ops.data.elements.stacks import Element, Rows
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Context, Iterator, RowIterator, number, stage
from anabranch.ops.data.random_words import RandomWords
from anabranch.ops.data.selection import OverRows, repeated

DRAWN_TOGETHER = 4096
"""Rows of a table that are drawn together, if fewer are asked for and the buffer holds as many."""
WORTH_TOGETHER = 64
"""Places of a buffer from which on draws made together take less time than draws in turn."""


class _Shuffled(Iterator):
    """The buffer of items (elements, or rows of a table) from which they are drawn."""

    fields = ("buffer", "held", "slices", "epoch", "over", "seeds")

    def start(self) -> None:
        self.buffer: list[Any] = []
        self.held = 0
        """How many items the buffer holds."""
        self.slices: list[list[int]] = [[0, 0]]
        """Of each pass in the buffer, the numbers of its first item and of the one behind its last."""
        self.epoch = 0
        self.over = False
        """Whether the input has nothing more."""
        self.seeds = list(self.dataset.seeds_of_pass(self.context))
        self._words = RandomWords(*self.seeds)

    def read(self, count: int, use: Callable[[Any], None]) -> None:
        """Hand over the input's next items, if there are any, also those before one that fails."""
        items: list[Any] = []
        try:
            self.inputs[0].gather(count, items)
        finally:
            if items:
                use(items)

    def give(self, items: Any, drawn: list[Any]) -> None:
        """Add items to those that have been drawn."""
        drawn += items

    @property
    def used(self) -> int:
        """How many places of the buffer have had an item."""
        return len(self.buffer)

    def _put(self, items: Any, place: int) -> None:
        """Put items into the buffer from a place on, behind its end from the beginning."""
        size, buffer = self.dataset.buffer_size, self.buffer
        for item in items:
            if place == len(buffer):
                buffer.append(item)
            else:
                buffer[place] = item
            place = (place + 1) % size

    def _fill(self) -> None:
        """Fill the buffer from the input, and from its further passes."""
        size, count = self.dataset.buffer_size, self.dataset.count
        current = self.slices[-1]

        def put(items: Any) -> None:
            self._put(items, current[1] % size)
            current[1] += len(items)
            self.held += len(items)

        while self.held < size and not self.over:
            self.read(size - self.held, put)
            if self.held < size:
                self.epoch += 1
                empty = current[0] == current[1] == 0
                self.over = 0 <= count <= self.epoch or (count < 0 and empty and not self.held)
                if not self.over:
                    current = [current[1], current[1]]
                    self.slices.append(current)
                    self.inputs[0].close()
                    self.inputs[0] = self.dataset.inputs[0].iterate(self.context.inner(0))

    def draw(self, count: int, drawn: list[Any]) -> list[Any]:
        """Add the next ``count`` items, or as many as there are: also those before a failure of the input."""
        size, slices = self.dataset.buffer_size, self.slices

        def exchange(items: Any) -> None:
            nonlocal count
            count -= len(items)
            self.give(self._exchange(items), drawn)

        while count > 0:
            if not self.over and (self.used < size or self.held < size - 1):
                self._fill()
            if not self.held and self.over:
                break
            while len(slices) > 1 and slices[0][0] == slices[0][1]:
                slices.pop(0)
            span = slices[0][1] - slices[0][0]
            if self.over or self.held == size:
                items = self._drain(min(count, span) if self.over else 1)
                count -= len(items)
                self.give(items, drawn)
            else:  # one item goes in before each that goes out
                before = count
                self.read(count if len(slices) == 1 else min(count, span), exchange)
                if count == before:
                    self._fill()
        return drawn

    def _drain(self, count: int) -> Any:
        """Draw ``count`` items of the first pass in the buffer."""
        first = self.slices[0]
        offsets = self._words.take(count) % (first[1] - first[0] - np.arange(count))
        drawn = self._drawn(first[0], offsets, None)
        self.held -= count
        first[0] += count
        return drawn

    def _exchange(self, items: Any) -> Any:
        """Put in each item and draw one of the first pass in the buffer, which has room for one."""
        first, last = self.slices[0], self.slices[-1]
        count = len(items)
        spans = self.dataset.buffer_size if first is last else first[1] - first[0] - np.arange(count)
        drawn = self._drawn(first[0], self._words.take(count) % spans, items)
        first[0] += count
        last[1] += count
        return drawn

    def _drawn(self, first: int, offsets: np.ndarray, items: Any) -> Any:
        """Draw an item for each of ``offsets``, which count from the first one in the buffer, number ``first``.

        The first item moves to where one was drawn from, so that the next draw counts from the one behind it. Before
        each draw one of ``items``, if there are any, is put in front of the first, where the buffer has room for it.
        """
        size, buffer = self.dataset.buffer_size, self.buffer
        starts = first + np.arange(len(offsets))
        drawn = []
        for i, (place, hole) in enumerate(
            zip(((starts + offsets) % size).tolist(), (starts % size).tolist(), strict=True)
        ):
            if items is not None:
                buffer[hole - 1] = items[i]
            drawn.append(buffer[place])
            buffer[place] = buffer[hole]
        return drawn

    def next(self) -> Element | None:
        drawn = self.draw(1, [])
        return drawn[0] if drawn else None

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        return self.draw(count, [] if into is None else into)

    def save(self) -> dict[str, Any]:
        return {**super().save(), "words": self._words.drawn}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._words = RandomWords(*self.seeds)
        self._words.go_to(state["words"])


class _ShuffledRows(RowIterator, _Shuffled):
    """The same over rows of a table, whose items are numbers."""

    def start(self) -> None:
        super().start()
        self._ready: np.ndarray = np.empty(0, np.int64)
        """Rows that were drawn and not asked for yet, in order."""
        self._hold([])

    def read(self, count: int, use: Callable[[Any], None]) -> None:
        source: Any = self.inputs[0]
        rows: Rows = source.rows(count)
        if len(rows):
            use(np.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows)

    def give(self, items: Any, drawn: list[Any]) -> None:
        drawn.append(items)

    def rows(self, count: int) -> Rows:
        ready = self._ready
        if len(ready) < count:
            together = max(count - len(ready), min(DRAWN_TOGETHER, self.dataset.buffer_size))
            ready = np.concatenate(self.draw(together, [ready]))
        self._ready = ready[count:]
        return ready[:count]

    def _hold(self, rows: Sequence[int] | np.ndarray, room: int = 0) -> None:
        """Have a buffer that holds rows, with room for as many in all."""
        self._used = len(rows)
        buffer = np.zeros(max(room, len(rows)), np.int64)
        buffer[: len(rows)] = rows
        self.buffer: Any = buffer
        self._marks = np.empty_like(buffer)
        """For each place, which draw was made from it; only what the draws of this moment have written is looked at."""

    @property
    def used(self) -> int:
        return self._used

    def _put(self, items: Any, place: int) -> None:
        size, used = self.dataset.buffer_size, self._used
        fresh = min(len(items), size - place)
        if place + fresh > len(self.buffer):
            self._hold(self.buffer[:used], min(size, max(place + fresh, 2 * used)))
        self._used = max(used, place + fresh)
        self.buffer[place : place + fresh] = items[:fresh]
        self.buffer[: len(items) - fresh] = items[fresh:]

    def _drawn(self, first: int, offsets: np.ndarray, items: Any) -> Any:
        size, count = self.dataset.buffer_size, len(offsets)
        if size < WORTH_TOGETHER:
            return np.array(super()._drawn(first, offsets, items), np.int64)
        if count > size:  # draws that are made together go round the buffer at most once
            return np.concatenate(
                [
                    self._drawn(first + at, offsets[at : at + size], None if items is None else items[at : at + size])
                    for at in range(0, count, size)
                ]
            )
        buffer, numbers = self.buffer, np.arange(count)
        holes = (first + numbers) % size
        ahead = numbers + offsets  # the number of the place counted from the first hole, which does not wrap
        places = (first + ahead) % size
        if items is not None:  # it may be the last hole that the first one goes into
            buffer[holes[0] - 1] = items[0]
        held = buffer[holes]
        if items is not None:
            buffer[holes[:-1]] = items[1:]
        drawn = buffer[places]
        from_holes = (ahead < count).nonzero()[0]
        drawn[from_holes] = held[ahead[from_holes]]
        moving = held[self._origins(from_holes[offsets[from_holes] > 0], ahead, numbers)]
        earlier, later = self._repeated(places, ahead, numbers)
        drawn[later] = moving[earlier]
        stays = ahead >= count
        stays[earlier] = False
        buffer[places[stays]] = moving[stays]
        return drawn

    @staticmethod
    def _origins(moves: np.ndarray, ahead: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The hole from which each hole's item has come when it moves on: ``moves`` are the draws from later holes."""
        origins = np.full_like(numbers, -1)
        np.maximum.at(origins, ahead[moves], moves)  # the last draw from a hole counts
        origins = np.where(origins < 0, numbers, origins)
        while True:
            further = origins[origins]
            if (further == origins).all():
                return origins
            origins = further

    def _repeated(self, places: np.ndarray, ahead: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of draws from one place, of which the second is the next one behind the first."""
        marks = self._marks
        marks[places] = numbers
        shared = marks[places] != numbers
        marks[places[shared]] = -1
        shared |= marks[places] < 0
        draws = shared.nonzero()[0]
        draws = draws[np.argsort(ahead[draws], kind="stable")]
        alike = ahead[draws[1:]] == ahead[draws[:-1]]
        return draws[:-1][alike], draws[1:][alike]

    def save(self) -> dict[str, Any]:
        return {**super().save(), "buffer": self.buffer[: self._used].tolist(), "ready": self._ready.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._hold(state["buffer"])
        self._ready = np.array(state.get("ready", ()), np.int64)  # places of earlier versions have none


class Shuffling(OverRows):
    """What shuffles have in common."""

    iterator = _Shuffled
    over_rows = _ShuffledRows
    count = 1
    """How many passes over the input; without end if it is negative."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.buffer_size = number(ctx, operands["buffer_size"], "buffer_size")
        ctx.check(self.buffer_size > 0, errors.InvalidArgumentError, "buffer_size must be greater than zero.")
        seed, seed2 = number(ctx, operands["seed"], "seed"), number(ctx, operands["seed2"], "seed2")
        if not seed and not seed2:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self.seeds = seed, seed2
        self.reshuffles = bool(attrs["reshuffle_each_iteration"])

    def cardinality(self) -> int:
        return repeated(self.inputs[0].cardinality(), self.count)

    def seeds_of_pass(self, context: Context) -> Sequence[int]:
        """The two seeds of a pass that begins."""
        stream = context.pipeline.stream(context.place, self.seeds)
        if not self.reshuffles:
            return stream.seed, stream.seed2
        return stream.take(2).tolist()  # type: ignore[no-any-return]


_OPERANDS = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64"


@stage("ShuffleDataset", _OPERANDS, {"reshuffle_each_iteration": Bool(True), **ELEMENTS, **METADATA})
class Shuffle(Shuffling):
    """The input's elements in random order, drawn from a buffer of ``buffer_size``."""


@stage(
    "ShuffleAndRepeatDataset",
    f"{_OPERANDS}, count: int64",
    {**ELEMENTS, "reshuffle_each_iteration": Bool(True), **METADATA},
)
class ShuffleAndRepeat(Shuffling):
    """The input ``count`` times over, each pass in random order; the buffer takes from the next before one has ended.

    All passes draw from one stream. A negative ``count`` means without end.
    """

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.count = number(ctx, operands["count"], "count")
        ctx.check(self.count != 0, errors.InvalidArgumentError, "count must be greater than zero or equal to -1.")
        self.reshuffles = False
