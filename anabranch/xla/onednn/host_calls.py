"""Convolutions of the interpreter by oneDNN: the primitives of XLA's programs, called from Python on NumPy arrays.

Policy. NumPy's form of a convolution copies windows and multiplies them on one thread, in two to five times the CPU
time of oneDNN's. So an interpreted step asks the library first, through its kernels' context, wherever a convolution
is worth the millisecond that it takes to make its primitives (`LEAST_FLOPS`); sizes alone decide, so that a step has
the same bits each time. Work is not cut in pieces, as there are no threads of XLA's to take them; what is large takes
oneDNN's own. In a child that was forked after the library was used here NumPy computes: the threads of the parent's
OpenMP are gone there.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract import hooks
from anabranch.core.values import spare_arrays
from anabranch.xla.onednn import choice, library, primitives
from anabranch.xla.onednn.convolutions import Geometry
from anabranch.xla.onednn.primitives import FILTER, INPUT

LEAST_FLOPS = 1e5
"""What is smaller saves a tenth of a millisecond at a call."""
_ALIGNED = 64
_log = logging.getLogger("anabranch")
_used_in = 0
"""The process that has called the library."""


class _Call(NamedTuple):
    """All that a convolution of given sizes needs besides its operands."""

    run: primitives.Caller
    result: tuple[int, ...]
    scratch: int


def convolve(kind: str, a: Any, b: Any, axes: Any, groups: int, channels_first: bool) -> np.ndarray | None:
    """The result as in :func:`~anabranch.xla.onednn.convolutions.convolve`; None where NumPy is to compute it."""
    global _used_in
    if a.dtype != np.float32 or b.dtype != np.float32:
        return None
    call = _call(kind, a.shape, b.shape, tuple(axes), groups, channels_first)
    if call is None:
        return None
    process = os.getpid()
    if _used_in and _used_in != process:
        return None
    _used_in = process
    result = spare_arrays.empty(call.result, np.float32)
    scratch = spare_arrays.empty((call.scratch + _ALIGNED,), np.uint8)
    operands = [np.ascontiguousarray(a), np.ascontiguousarray(b)]
    places = [array.ctypes.data for array in (*operands, result, scratch)]
    places[-1] += -places[-1] % _ALIGNED
    call.run(_stream(), places)
    return result


@functools.lru_cache(1024)
def _call(
    kind: str, a: tuple[int, ...], b: tuple[int, ...], axes: tuple[Any, ...], groups: int, channels_first: bool
) -> _Call | None:
    if 0 in a or 0 in b or any(0 in (axis.size, axis.out) for axis in axes):
        return None
    geometry = Geometry(axes, groups, channels_first)
    if not _agree(kind, geometry, a, b):  # NumPy's form says so; this one would read what is not there
        return None
    work = geometry.whole(kind, a, b, "float32")
    if work.flops < LEAST_FLOPS:
        return None
    onednn = library.found()
    if isinstance(onednn, str):
        return None
    work = work._replace(threads=choice.threads(work, onednn.threads))
    described = primitives.described(work)
    if isinstance(described, str):
        _log.debug("NumPy computes a convolution (%s): %s", work, described)
        return None
    program = primitives.generated(work, described.scratch)
    return _Call(primitives.Caller(program), geometry.result(kind, a, b), described.scratch)


def _agree(kind: str, geometry: Geometry, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether operands have the shapes that the windows and each other's say."""
    axes, at, groups = geometry.axes, geometry.channels_at, geometry.groups
    if len(a) != len(axes) + 2 or len(b) != len(axes) + 2:
        return False
    outputs = [axis.out for axis in axes]
    expected = geometry.images(a[0], outputs if kind == INPUT else [axis.size for axis in axes], a[at])
    if kind == FILTER:
        return a == expected and b == geometry.images(a[0], outputs, b[at]) and not (a[at] % groups or b[at] % groups)
    channels = b[-1] if kind == INPUT else b[-2] * groups
    windows = tuple(axis.window for axis in axes)
    return a == expected and a[at] == channels and b[:-2] == windows and not b[-1] % groups


_stream = functools.cache(primitives.new_stream)

hooks.fill("convolve_on_host", convolve)
