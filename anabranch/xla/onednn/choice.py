"""Which convolutions oneDNN computes, and on how many threads: one table, from measurements.

Policy. A call has a price that ``jax.lax`` does not have: 3 µs from the handler in C, 44 from Python's, besides the
reorder of the filter. Above that oneDNN is faster in every class that was measured but these, which stay with XLA: the
input gradient of a strided 1x1 convolution, a product whose results are spread, and large 3x3 convolutions of many
channels, where Winograd's products need a quarter to a third less time (``ops/nn/windows/xla_winograd.py``, of which
the op asks first).

Pieces. Work that is large enough is cut by images, and XLA's threads and the caller take one piece after another, each
computed by one thread (``native/``). Who calls waits for no thread to be woken: where no core is free it computes all
pieces itself. OpenMP's threads, which share a call in parts of fixed sizes, let it wait for the last of them to get a
core, at each call: on two cores at a load of 15 a step of many small convolutions took 1.5 times as long with two
threads as with one. How many pieces there are follows from sizes alone, so that results have the same bits on any
number of cores. A filter gradient adds its pieces' results up, so it has few, and one where a piece would be little
work for the size of the filter, or floats have two bytes.

oneDNN's own threads are left to what has one image and to the handler in Python. Those of a filter gradient wait in a
loop behind a barrier, whatever OpenMP is told: on a busy machine that has cost up to seven times the CPU time of the
work. So it takes one, unless it is large enough for the wait not to count. ``benchmarks/ops.py`` measures both sides.
"""

from __future__ import annotations

import math

from anabranch.xla.onednn.primitives import FILTER, INPUT, Work

LEAST_FLOPS = 5e4
"""What goes to oneDNN with the handler in C."""
LEAST_FLOPS_FROM_PYTHON = 1e7
"""The same with the handler in Python."""
EFFORT_OF_A_PIECE = 2e7
"""What a piece must have to do: some 0.2 ms."""
MOST_PIECES = 16
"""More than a few are no faster on as many cores as that: each repeats what oneDNN sets up."""
MOST_SUMS = 4
"""The same of a filter gradient."""
OUTPUTS_FOR_A_SUM = 256
"""For how many products an element of a filter gradient is added up once more."""
FLOPS_OF_A_THREAD = 1e7
"""What a second thread of oneDNN's must have to do."""
FLOPS_OF_A_WAITING_THREAD = 1e9
"""The same in a filter gradient."""


def pays(work: Work, native: bool) -> bool:
    """Whether a convolution goes to oneDNN."""
    if work.flops < (LEAST_FLOPS if native else LEAST_FLOPS_FROM_PYTHON):
        return False
    return not (work.kind == INPUT and max(work.window) == 1 and max(work.strides) > 1)


def effort(work: Work) -> float:
    """The time of one thread, in floating-point operations: what is computed, and what is read and written."""
    return work.flops + 16 * work.batch * sum(work.elements)


def pieces(work: Work) -> int:
    """In how many pieces it is cut."""
    most = min(work.batch, MOST_PIECES, int(effort(work) // EFFORT_OF_A_PIECE))
    if work.kind == FILTER:
        products = work.batch * math.prod(work.out)
        most = min(most, MOST_SUMS, products // OUTPUTS_FOR_A_SUM) if work.dtype == "float32" else 1
    return max(1, most)


def threads(work: Work, most: int) -> int:
    """How many of oneDNN's threads share what is not cut."""
    least = FLOPS_OF_A_WAITING_THREAD if work.kind == FILTER else FLOPS_OF_A_THREAD
    return max(1, min(most, int(work.flops // least)))
