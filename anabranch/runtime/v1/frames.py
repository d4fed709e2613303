"""What a step of a version 1 graph holds while it runs: tokens, frames and their iterations, values of variables."""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.core.graph.operation import Operation
from anabranch.runtime.state.slots import Slot

Reach = dict[Operation, int]
"""Maker of a variable -> how many writes of it have been seen."""
NOTHING_WRITTEN: Reach = {}


class Ref(NamedTuple):
    """The value of a reference to a variable."""

    maker: Operation


class Token(NamedTuple):
    """What travels along an edge."""

    value: Any
    dead: bool
    reach: Reach


def merged_reach(one: Reach, other: Reach) -> Reach:
    """Which writes have been seen by either."""
    if one is other or not other:
        return one
    if not one:
        return other
    union = dict(one)
    for maker, count in other.items():
        if union.get(maker, 0) < count:
            union[maker] = count
    return union


class Iteration:
    """What has come, op by op, in one iteration of a frame."""

    __slots__ = ("before", "children", "index", "slots")

    def __init__(self, index: int) -> None:
        self.index = index
        self.before = NOTHING_WRITTEN
        """Writes of earlier iterations, of all frames around."""
        self.slots: dict[Operation, WaitingOp] = {}
        self.children: dict[Any, Frame] = {}


class WaitingOp:
    """An op that waits: its operands, how many are missing, whether one is dead."""

    __slots__ = ("dead", "done", "live", "missing", "operands", "pending", "queued", "reach")

    def __init__(self, count: int, pending: int) -> None:
        self.operands: list[Any] = [None] * count
        self.pending = pending
        self.dead = False
        self.live = -1
        self.missing = 0
        """Merges: inputs that may still bring something."""
        self.queued = False
        self.done = False
        self.reach = NOTHING_WRITTEN


class Frame:
    """One run of a loop (or the graph outside all loops)."""

    __slots__ = ("busy", "constants", "entered", "iterations", "key", "left", "parent", "part", "wrote")

    def __init__(self, part: Any, parent: tuple[Frame, Iteration] | None, key: tuple[int, ...]) -> None:
        self.part = part
        self.parent = parent
        self.key = key
        self.iterations: dict[int, Iteration] = {0: Iteration(0)}
        self.constants: list[tuple[Operation, Token]] = []
        self.entered = 0
        self.busy = 0
        """Ops that can run in it, and frames inside that are not done."""
        self.left: set[Operation] = set()
        """Exits that gave a value."""
        self.wrote: Reach = NOTHING_WRITTEN


class VariableInFrame:
    """The versions of a variable in one step, from number ``first`` on."""

    __slots__ = ("first", "read", "slot", "values")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.first = 0
        self.values: list[Any] = [slot.version]
        self.read = False
