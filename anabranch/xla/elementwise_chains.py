"""Long chains of element-wise ops in programs for CPUs, cut where more than one op takes what a link makes.

XLA's CPU backend fuses an element-wise op into each op that takes its result, which computes it again. Along a chain
whose links have several takers, such as the gradient of a memory that is handed on from step to step of an unrolled
network, each kernel then computes the chain from its beginning: code, and the time to compile it, grow with the square
of its length. Nothing is fused across a call that is not inlined, so such a call is put where a chain has become long.
Barriers would say it more plainly, but the backend removes them before it fuses.

A draw of a few numbers is kept, too: the brightness of an image is some hundred operations on integers, and fused into
the change of colours it ran for each channel of each pixel (96 x 96 pixels, three draws: 4.1 ms, 0.36 with calls).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.xla import engine

LONGEST = 8
"""Ops in a chain before a result with several takers is kept in memory."""

SMALL_DRAW = 1 << 10
"""Numbers of a draw that is kept in memory: fused, its rounds of Philox run again for each element that takes one."""


class Chains:
    """How long the chain of fused ops behind each value of a program is."""

    def __init__(self, platform: str):
        self._cuts = platform == "cpu"
        self._length: dict[Tensor, int] = {}

    def settled(self, op: Operation, values: Sequence[Any]) -> Sequence[Any]:
        """The results of ``op``, one for each output, behind a call where a chain is to end."""
        if self._cuts and op.definition.effect.kind == "random":
            return [apart(value) if hasattr(value, "aval") and value.size <= SMALL_DRAW else value for value in values]
        if not self._cuts or not (op.definition.elementwise or op.definition.moves):  # both are fused
            return values
        length = 1 + max([self._length.get(tensor, 0) for tensor in op._inputs], default=0)
        settled_values = []
        for output, value in zip(op._outputs, values, strict=True):
            kept = length < LONGEST or len(set(output.consumers())) < 2 or not hasattr(value, "aval")
            settled_values.append(value if kept else apart(value))
            self._length[output] = length if kept else 0
        return settled_values


@functools.cache
def _identity() -> Any:
    def settled(value: Any) -> Any:
        return value

    return engine.jax().jit(settled)


def apart(value: Any) -> Any:
    """``value`` behind a call that is not inlined, across which nothing is fused."""
    with engine.jax().experimental.xla_metadata.set_xla_metadata(inlineable="false"):
        return _identity()(value)
