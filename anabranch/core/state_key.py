"""Names of values inside one step: a tensor, or a version of a variable."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.core.operation import Operation, Tensor


class StateKey(NamedTuple):
    """A version inside one step: ``index`` writes of ``segment`` have happened to the variable that ``maker`` makes the handle of."""

    maker: Operation
    segment: int
    index: int


ValueKey = Tensor | StateKey
