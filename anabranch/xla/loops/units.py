"""What stands for many ops where a program repeats itself: blocks, sums over blocks, pieces of one tensor.

They are found by :mod:`anabranch.xla.loops.repeated_blocks` and computed by :mod:`anabranch.xla.loops.rolled_blocks`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey

PlaceInBlock = tuple[int, int]
"""Place of an op in its block, and which of its outputs."""


class Inner(NamedTuple):
    """An input that an op of the same block makes."""

    place: PlaceInBlock


class Carried(NamedTuple):
    """An input that the block before makes; the first block takes ``first``."""

    place: PlaceInBlock
    first: ValueKey


class Shared(NamedTuple):
    """An input that is the same for all blocks."""

    key: ValueKey


class Rows(NamedTuple):
    """An input that comes from outside, a value for each block."""

    keys: tuple[ValueKey, ...]


Source = Inner | Carried | Shared | Rows | None


@dataclasses.dataclass(eq=False)
class Roll:
    """Blocks that are computed by one loop."""

    blocks: list[list[Operation]]
    sources: list[list[Source]]
    """For each op of a block, where its inputs come from."""
    outside: dict[PlaceInBlock, list[int]]
    """What others than the next block take, and of which blocks."""

    @property
    def ops(self) -> Iterator[Operation]:
        for block in self.blocks:
            yield from block

    @property
    def saved(self) -> int:
        """How many ops of it are not traced."""
        return (len(self.blocks) - 1) * len(self.blocks[0])

    def key(self, place: PlaceInBlock, block: int) -> Tensor:
        """The tensor that is ``place`` in a block."""
        return self.blocks[block][place[0]]._outputs[place[1]]

    def needs(self) -> Iterator[ValueKey]:
        """What comes from outside."""
        for row in self.sources:
            for source in row:
                if isinstance(source, Carried):
                    yield source.first
                elif isinstance(source, Shared):
                    yield source.key
                elif isinstance(source, Rows):
                    yield from source.keys


@dataclasses.dataclass(eq=False)
class Sum:
    """The sum ``op`` of products ``a^T b`` (or, without ``left``, of the sums over all rows of ``right``)."""

    op: Operation
    terms: list[Operation]
    left: list[ValueKey]
    right: list[ValueKey]

    @property
    def ops(self) -> list[Operation]:
        """The terms and the sum."""
        return [*self.terms, self.op]

    def needs(self) -> Iterator[ValueKey]:
        """What comes from outside."""
        yield from self.left
        yield from self.right


@dataclasses.dataclass(eq=False)
class Pieces:
    """Slices ``ops`` of the tensor ``source``, of ``size`` along ``axis``, one behind the other from ``start``."""

    ops: list[Operation]
    source: ValueKey
    axis: int
    start: int
    size: int
    drops: bool = False
    """Whether they have no such dimension: each is one element along it."""

    def needs(self) -> Iterator[ValueKey]:
        """What comes from outside."""
        yield self.source


@dataclasses.dataclass(eq=False)
class FromShapes:
    """An op that gives what follows from the shapes of its inputs, which are known: it needs not wait for them."""

    op: Operation

    @property
    def ops(self) -> list[Operation]:
        """The op."""
        return [self.op]

    def needs(self) -> Iterator[ValueKey]:
        """Nothing comes from outside."""
        yield from ()


Unit = Operation | Roll | Sum | Pieces | FromShapes
