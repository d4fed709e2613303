"""Which convolutions oneDNN computes, and on how many threads: one table, from measurements.

Policy. A call has a price that ``jax.lax`` does not have: 3 µs from the handler in C, 44 from Python's, besides the
reorder of the filter. Above that oneDNN is faster in every class that was measured but these, which stay with XLA: the
input gradient of a strided 1x1 convolution, a product whose results are spread; that of a depthwise one with windows of
3x3, which fuses with what is around it; and large 3x3 convolutions of many channels, where Winograd's products need a
quarter to a third less time (``ops/nn/windows/xla_winograd.py``, of which the op asks first).

Threads of a filter gradient add up their parts behind a barrier at which they wait in a loop, whatever OpenMP is told:
on a busy machine that has cost up to seven times the CPU time of the work. So it runs on one thread, unless it is large
enough for the wait not to count. ``benchmarks/ops.py`` measures both sides.
"""

from __future__ import annotations

from anabranch.xla.onednn.primitives import FILTER, INPUT, Work

LEAST_FLOPS = 5e4
"""What goes to oneDNN with the handler in C."""
LEAST_FLOPS_FROM_PYTHON = 1e7
"""The same with the handler in Python."""
FLOPS_OF_A_THREAD = 1e6
"""What a second thread must have to do."""
FLOPS_OF_A_WAITING_THREAD = 1e9
"""The same in a filter gradient."""


def pays(work: Work, native: bool) -> bool:
    """Whether a convolution goes to oneDNN."""
    if work.flops < (LEAST_FLOPS if native else LEAST_FLOPS_FROM_PYTHON):
        return False
    if work.kind != INPUT:
        return True
    pointwise, depthwise = max(work.window) == 1, work.groups == work.channels
    return not ((pointwise and max(work.strides) > 1) or (depthwise and max(work.window) <= 3))


def threads(work: Work, most: int) -> int:
    """How many threads share it."""
    least = FLOPS_OF_A_WAITING_THREAD if work.kind == FILTER else FLOPS_OF_A_THREAD
    return max(1, min(most, int(work.flops // least)))
