"""What a plan is arranged into: segments, and in them ops on the host and programs."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.xla import program as programs


@dataclasses.dataclass
class HostItem:
    """One op on the host."""

    op: Operation
    sources: tuple[ValueKey | None, ...]
    writes: tuple[StateKey, ...]
    wave: ClassVar[int] = -1
    short: Any = None
    """What runs it with the least of frames, False if nothing does; see ``host_ops.short_form``."""
    rows_in_place: tuple[int, ...] | None = None
    """Operands that it may write rows of where they are, once that is known; see ``interpreter/rows_in_place.py``."""
    lends: tuple[bool, ...] | None = None
    """Which variables its bodies only look at, once that is known; see ``interpreter/lent_variables.py``."""
    row_update: Any = None
    """What writes rows with the least of frames, False if nothing does; see ``host_ops``."""


@dataclasses.dataclass(eq=False)
class ProgramItem:
    """A group of ops as one XLA program. ``static`` are the inputs whose values are part of the program's key."""

    short: ClassVar[None] = None
    program: programs.Program
    static: tuple[int, ...]
    outputs: tuple[ValueKey, ...]
    writes: tuple[StateKey, ...]
    """Versions that the program makes and that others need."""
    settled: bool = False
    """Whether the shapes of all inputs follow from the plan and the state's layout, so that one executable serves."""
    refused: str = ""
    """Why its ops were interpreted when it ran last, if they were: what tracing met."""
    bug: Any = None
    """The :class:`~anabranch.core.contract.faults.KernelBug` that tracing has met, if it was interpreted for that."""
    bounds: tuple[int, ...] = ()
    """Inputs of whose values a bound is part of the program's key."""
    cached: Any = None
    wave: int = -1
    """Programs of one wave, on several devices, are dispatched before any of them is waited for."""
    goes_last: bool = False
    """Whether it is called only when the checks of the others of its wave have passed."""
    must_not_fail: bool = False
    """Whether others of its wave own buffers: it has no checks, as far as is known."""


@dataclasses.dataclass
class Segment:
    """Everything between two channel ops: atomic."""

    index: int
    ops: list[Operation]
    base_reads: list[Operation]
    """Makers of the variables whose committed version the segment needs."""
    written: dict[Operation, StateKey]
    """Maker -> the version to commit."""
    calls_python: bool
    random_ops: list[Operation]
    channel: Operation | None
    carried: tuple[StateKey, ...] = ()
    """Committed versions whose values its channel op, or later segments, see."""
    items: list[Any] = dataclasses.field(default_factory=list)
    waves: Any = None
    """Items, and the same in waves; ``executor._waves``."""
    stretches: Any = None
    """Items that were seen interpreted, and the same with stretches in their place; ``interpreter/stretches.py``."""
    in_turn: bool = False
    """Whether its interpreted ops run in the order of their effects, since a step has failed in another one."""
