"""How large values can be: what no machine can hold, what this one cannot, and the error that says so.

XLA ends the process when a shape's elements or bytes do not fit into 63 bits, and NumPy raises a ``ValueError`` that
names neither op nor shape. So sizes are asked about before either is: where a program is lowered
(:mod:`anabranch.xla.memory`) and where the interpreter has run an op or failed to.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import shapes

MOST_BYTES = 1 << 57
"""The largest address space that a processor has: a value as large exists nowhere. XLA adds the sizes of some values
in 63 bits, so that the bound for one of them is well below.
"""

Spec = tuple[Sequence[int], Any]
"""Shape and dtype of a value."""


def extent(shape: Sequence[int], dtype: Any) -> int:
    """Bytes of a value, dimensions of size 0 left out: XLA multiplies the others all the same."""
    return math.prod([size or 1 for size in shape]) * int(getattr(dtype, "itemsize", 1))


def byte_size(shape: Sequence[int], dtype: Any) -> int:
    """Bytes of a value."""
    return math.prod(shape) * int(getattr(dtype, "itemsize", 1))


@functools.cache
def host_memory() -> int:
    """Bytes of the machine's memory and of what it may swap to; ``MOST_BYTES`` where that is not known."""
    try:
        swap = 0
        if os.path.exists("/proc/meminfo"):
            with open("/proc/meminfo", encoding="ascii") as file:
                swap = sum(int(line.split()[1]) << 10 for line in file if line.startswith("SwapTotal:"))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return memory + swap if os.sysconf("SC_PHYS_PAGES") > 0 else MOST_BYTES
    except (AttributeError, OSError, ValueError):  # no such question on this platform
        return MOST_BYTES


def shown(specs: Iterable[Spec]) -> str:
    """Shapes, dtypes and sizes as text."""
    return ", ".join(
        f"{np.dtype(dtype).name} {shapes.show(tuple(shape))} ({in_units(byte_size(shape, dtype))})"
        for shape, dtype in specs
    )


def in_units(count: int) -> str:
    """Bytes as text for people."""
    for power, unit in ((60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):,.3g} {unit}"
    return f"{count} bytes"


def exhausted(op: Any, given: str, limit: int, instead: str = "") -> errors.ResourceExhaustedError:
    """The error for values that cannot be held: ``given`` says which, ``limit`` how many bytes there could be."""
    expected = (
        "values that can exist: less than 128 PiB each"
        if limit >= MOST_BYTES
        else f"values that fit into memory, of which the machine has {in_units(limit)}"
    )
    return errors.ResourceExhaustedError(
        None,
        op,
        errors.message(
            given,
            expected,
            instead or "check which dimensions are broadcast against each other; reduce before them, or work on slices",
        ),
    )
