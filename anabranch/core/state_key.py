"""Names of values inside one step: a tensor, or a version of a variable."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.core.operation import Operation, Tensor


class StateKey(NamedTuple):
    """A version inside one step: ``segment`` has written ``index`` times to the variable whose handle ``maker`` makes."""

    maker: Operation
    segment: int
    index: int  # type: ignore[assignment]  # hides tuple.index


ValueKey = Tensor | StateKey
