"""What code takes from the step that it runs in: streams to draw from, and word that the step ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def back_to(self, place: int) -> None:
        """Move the streams back to where they stood: what was drawn since is drawn anew."""
        while len(self._moved) > place:
            counter, blocks = self._moved.pop()
            counter.position -= blocks

    def keep(self) -> None:
        """What was drawn stays drawn."""
        self._moved.clear()


def blocks_of(op: Operation, operands: Sequence[Any]) -> int:
    """How many blocks of its stream a run of an op reserves."""
    consumes = op.definition.consumes
    assert consumes is not None
    blocks = int(consumes(lowering.TraceShapes(op, operands)))
    if blocks > MOST_BLOCKS:
        raise Changed
    return blocks
