"""What code takes from the step that it runs in: streams to draw from, and word that the step ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.core.graph.operation import Operation
from anabranch.ops.shared.unchecked import Changed
from anabranch.xla import lowering

MOST_BLOCKS = 1 << 28
"""Draws that reserve more may not fit into memory, which the interpreter looks at."""


class TooLong(Exception):
    """A loop inside straight code has run so long that it is better compiled: the executor is to run what holds it."""


class Turn:
    """What a run of straight code takes from its step: streams, which move as it draws, and word that the step ends.

    Args:
        stream: the random stream of an op.
        token: is looked at by loops inside.
    """

    __slots__ = ("_moved", "_stream", "inner_cost", "token")

    def __init__(self, stream: Callable[[Operation], Any], token: Any = None) -> None:
        self._stream = stream
        self.token = token
        self._moved: list[tuple[Any, int]] = []
        self.inner_cost = 0.0
        """What conditionals and loops inside have cost so far, in modelled microseconds."""

    @property
    def place(self) -> int:
        """Where a run stands that may be taken back to here."""
        return len(self._moved)

    def take(self, op: Operation, blocks: int) -> Any:
        """The key and counter of the first of so many blocks of an op's stream, which moves behind them."""
        counter = self._stream(op)
        words = counter.words()
        counter.position += blocks
        self._moved.append((counter, blocks))
        return words

    def take_place(self, op: Operation, blocks: int) -> tuple[int, int]:
        """The same as integers: the key, and the place of the first block."""
        counter = self._stream(op)
        place = counter.position
        counter.position = place + blocks
        self._moved.append((counter, blocks))
        return counter.key, place

    def place_before(self, op: Operation, blocks: int) -> tuple[int, int]:
        """The key of a stream, and its place ``blocks`` ago."""
        counter = self._stream(op)
        return counter.key, counter.position - blocks

    def back_to(self, place: int) -> None:
        """Move the streams back to where they stood: what was drawn since is drawn anew."""
        while len(self._moved) > place:
            counter, blocks = self._moved.pop()
            counter.position -= blocks

    @contextlib.contextmanager
    def looking_back(self, count: int) -> Iterator[Callable[[int], None]]:
        """A block in which others draw anew what single ones of ``count`` rows have drawn; gives what goes to a row."""
        ends = [counter.position for counter, _ in self._moved]

        def go_to(row: int) -> None:
            for (counter, blocks), end in zip(self._moved, ends, strict=True):
                counter.position = end - blocks + blocks // count * row

        try:
            yield go_to
        finally:
            for (counter, _), end in zip(self._moved, ends, strict=True):
                counter.position = end

    def keep(self) -> None:
        """What was drawn stays drawn."""
        self._moved.clear()


def blocks_of(op: Operation, operands: Sequence[Any]) -> int:
    """How many blocks of its stream a run of an op reserves."""
    blocks = _reserved(op, operands)
    if blocks > MOST_BLOCKS:
        raise Changed
    return blocks


def _reserved(op: Operation, operands: Sequence[Any]) -> int:
    consumes = op.definition.consumes
    assert consumes is not None
    return int(consumes(lowering.TraceShapes(op, operands)))


def fixed_draws(plan: Any, random_ops: Sequence[Operation]) -> dict[Operation, int]:
    """The blocks that each of these ops of a plan reserves in each run.

    Empty if that is not certain of all, or if one reserves more than code of the interpreter does.
    """
    blocks: dict[Operation, int] = {}
    for op in random_ops:
        operands = [plan.constants.get(source) for source in plan.sources(op)]
        if any(value is None for value in operands):
            return {}
        blocks[op] = _reserved(op, operands)
        if blocks[op] > MOST_BLOCKS:
            return {}
    return blocks


def short_draw(
    op: Operation, operands: Sequence[Any], known: Sequence[bool], drawn: Any, turn: Turn
) -> Callable[..., Any] | None:
    """What an op draws as a function of a turn and its operands, if that has a short form with its kernel's bits.

    ``drawn`` is what the kernel gave for these operands just now.
    """
    make = op.definition.straight
    draw = make(operands, known, op._attrs) if make is not None else None
    if draw is None:
        return None
    blocks = blocks_of(op, operands)
    again = draw(*turn.place_before(op, blocks))
    if again.shape != drawn.shape or again.dtype != drawn.dtype or again.tobytes() != drawn.tobytes():
        return None
    return lambda turn, *_: draw(*turn.take_place(op, blocks))
