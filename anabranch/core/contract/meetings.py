"""What members of a collective have in common: an op that gives what several ops together compute.

Policy. TensorFlow's collective ops (``CollectiveReduce``, ``NcclAllReduce``, ...) have one input each and find the
others in a step by a key. To whoever plans a step, a member is therefore the op that computes the result from the
inputs of all; each member's block says how (:attr:`anabranch.core.contract.opdef.OpDefinition.meets`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Meeting(NamedTuple):
    """What one member knows of its meeting."""

    key: tuple[Any, ...]
    """By which the members of one graph find each other."""
    size: int
    """How many members there are."""
    operand: int | None
    """Which of its inputs the member brings; None for one that only takes."""
    how: str
    """What becomes of the values: ``sum``, ``prod``, ``min``, ``max``, ``concat``, or the ``first``."""
    combine: Callable[[Sequence[Any]], Any]
    """Builds that, from the values of members of one graph, in their order."""
    finish: Callable[[Any], Any] | None = None
    """Builds what the member gives from what has become of all values; None if it is that."""
    vectors: Callable[[Any], Sequence[Any]] | None = None
    """Gives the vectors that a value joins, or the value itself: tasks can bring them without joining them first."""
