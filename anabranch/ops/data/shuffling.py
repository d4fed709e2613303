"""Shuffling: TensorFlow's own order for its seeds.

A buffer of ``buffer_size`` elements is kept full; each element that goes out is drawn from it, and the first of those
inside takes its place. Draws are the 32-bit words of a Philox stream, modulo the number of those that may go out. If
the input is repeated by the shuffle itself, the elements of one pass go out before those of the next (a *slice* of the
buffer for each pass), though the buffer holds both.

Unless the order is to stay the same for each pass, a pass draws its two seeds from a stream of its own, which belongs
to the iterator's place in the pipeline and begins anew when the iterator is initialised.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Context, Element, Iterator, RowIterator, Rows, number, stage
from anabranch.ops.data.random_words import RandomWords
from anabranch.ops.data.selection import OverRows, repeated


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

    def items(self, count: int, into: list[Any]) -> None:
        """Append the input's next items, also those before one that fails."""
        self.inputs[0].gather(count, into)

    def _fill(self) -> None:
        """Fill the buffer from the input, and from its further passes."""
        size, count = self.dataset.buffer_size, self.dataset.count
        current = self.slices[-1]
        while self.held < size and not self.over:
            items: list[Any] = []
            try:
                self.items(size - self.held, items)
            finally:
                for item in items:
                    place = current[1] % size
                    if place == len(self.buffer):
                        self.buffer.append(item)
                    else:
                        self.buffer[place] = item
                    current[1] += 1
                self.held += len(items)
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
        """Append the next ``count`` items, or as many as there are: also those before a failure of the input."""
        count += len(drawn)
        size, slices = self.dataset.buffer_size, self.slices
        while len(drawn) < count:
            if not self.over and (len(self.buffer) < size or self.held < size - 1):
                self._fill()
            if not self.held and self.over:
                break
            while len(slices) > 1 and slices[0][0] == slices[0][1]:
                slices.pop(0)
            missing, span = count - len(drawn), slices[0][1] - slices[0][0]
            if self.over:
                drawn += self._drain(min(missing, span))
            elif self.held == size:
                drawn += self._drain(1)
            else:  # one item goes in before each that goes out
                items: list[Any] = []
                try:
                    self.items(missing if len(slices) == 1 else min(missing, span), items)
                finally:
                    drawn += self._exchange(items) if items else ()
                if not items:
                    self._fill()
        return drawn

    def _drain(self, count: int) -> list[Any]:
        """Draw ``count`` items of the first pass in the buffer."""
        buffer, first = self.buffer, self.slices[0]
        drawn = []
        for place, hole in self._places(first, count, first[1] - first[0] - np.arange(count)):
            drawn.append(buffer[place])
            buffer[place] = buffer[hole]
        self.held -= count
        first[0] += count
        return drawn

    def _exchange(self, items: list[Any]) -> list[Any]:
        """Put in each item and draw one of the first pass in the buffer, which has room for one."""
        size, buffer, first, last = self.dataset.buffer_size, self.buffer, self.slices[0], self.slices[-1]
        count = len(items)
        spans = size if first is last else first[1] - first[0] - np.arange(count)
        drawn = []
        end = last[1]
        for item, (place, hole) in zip(items, self._places(first, count, spans), strict=True):
            buffer[end % size] = item
            end += 1
            drawn.append(buffer[place])
            buffer[place] = buffer[hole]
        first[0] += count
        last[1] = end
        return drawn

    def _places(self, first: list[int], count: int, spans: Any) -> Iterable[tuple[int, int]]:
        """For each draw its place in the buffer, and the place of the first item, which moves there."""
        size = self.dataset.buffer_size
        starts = first[0] + np.arange(count)
        return zip(((starts + self._words.take(count) % spans) % size).tolist(), (starts % size).tolist(), strict=True)

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

    def items(self, count: int, into: list[Any]) -> None:
        source: Any = self.inputs[0]
        rows: Rows = source.rows(count)
        into += rows if isinstance(rows, range) else rows.tolist()

    def rows(self, count: int) -> Rows:
        return np.array(self.draw(count, []), np.int64)


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
