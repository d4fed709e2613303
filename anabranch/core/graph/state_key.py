"""Names of values inside one step: a tensor, or a version of a variable."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.core.graph.operation import Operation, Tensor


class StateKey(NamedTuple):
    """Variable ``maker`` within a step: its version after ``index`` writes of ``segment``.

    In the segment ``FED`` it is the value that the step's feeds give to who reads the variable inside a body.
    """

    maker: Operation
    segment: int
    index: int  # type: ignore[assignment]  # hides tuple.index


FED = -1

ValueKey = Tensor | StateKey
