"""Convolutions and poolings of the interpreter by oneDNN: primitives, called from Python on NumPy arrays.

Policy. NumPy's form of a convolution copies windows and multiplies them on one thread, in two to five times the CPU
time of oneDNN's; its maxima and averages over windows are a pass over the images for each entry of a window, in three
to ten times the time. So an interpreted step asks the library first, through its kernels' context, wherever the work
is worth the time that it takes to make its primitives, 1 ms and 0.3 ms (`LEAST_FLOPS`, `LEAST_ENTRIES`); sizes alone
decide, so that a step has the same bits each time. Work is not cut in pieces, as there are no threads of XLA's to take
them; what is large takes oneDNN's own. In a child that was forked after the library was used here NumPy computes: the
threads of the parent's OpenMP are gone there.
"""

from __future__ import annotations

import functools
import logging
import math
import os
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract import hooks
from anabranch.core.values import spare_arrays
from anabranch.xla.onednn import choice, library, pooling, primitives
from anabranch.xla.onednn.convolutions import Geometry
from anabranch.xla.onednn.primitives import FILTER, INPUT

LEAST_FLOPS = 1e5
"""What is smaller saves a tenth of a millisecond at a call."""
LEAST_ENTRIES = 1 << 13
"""Entries of windows below which a pooling is NumPy's."""
_ALIGNED = 64
_LOWEST = np.finfo(np.float32).min
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
    if a.dtype != np.float32 or b.dtype != np.float32:
        return None
    call = _call(kind, a.shape, b.shape, tuple(axes), groups, channels_first)
    if call is None or not _is_ours():
        return None
    result = spare_arrays.empty(call.result, np.float32)
    _run(call.run, [np.ascontiguousarray(a), np.ascontiguousarray(b), result], call.scratch)
    return result


def _is_ours() -> bool:
    """Whether this process may call the library: no other one, whose child it is, has done so."""
    global _used_in
    process = os.getpid()
    if _used_in and _used_in != process:
        return False
    _used_in = process
    return True


def _run(call: primitives.Caller, arrays: list[np.ndarray], scratch: int) -> None:
    """Call it on these arrays, and scratch space behind them."""
    own = spare_arrays.empty((scratch + _ALIGNED,), np.uint8)
    places = [array.ctypes.data for array in (*arrays, own)]
    places[-1] += -places[-1] % _ALIGNED
    call(_stream(), places)


def pool(kind: str, shape: tuple[int, ...], axes: Any, *operands: np.ndarray) -> np.ndarray | None:
    """A pooling of images ``[batch, *size, channels]`` of ``shape``, or a gradient; None where NumPy is to compute it.

    A ``kind`` of :mod:`~anabranch.xla.onednn.pooling`, of which the operands are: ``maximum`` and ``average`` images,
    ``average gradient`` the gradient of the result, ``maximum gradient`` both. Windows without a number above the
    lowest, which differ between kinds of images, are left to NumPy.
    """
    result = (shape[0], *[axis.out for axis in axes], shape[-1])
    if any(array.dtype != np.float32 for array in operands) or 0 in shape or 0 in result or len(shape) > 5:
        return None
    if math.prod(result) * math.prod([axis.window for axis in axes]) < LEAST_ENTRIES:
        return None
    backward = kind in (pooling.MAXIMUM_GRADIENT, pooling.AVERAGE_GRADIENT)
    if operands[-1].shape != (result if backward else shape) or operands[0].shape not in (shape, result):
        return None
    call = _pooling(kind, shape, tuple(axes))
    if call is None or not _is_ours():
        return None
    made = spare_arrays.empty(shape if backward else result, np.float32)
    arrays = [np.ascontiguousarray(array) for array in operands]
    maxima = made
    if kind == pooling.MAXIMUM_GRADIENT:
        maxima = spare_arrays.empty(result, np.float32)
        arrays.append(maxima)
    _run(call.run, [*arrays, made], call.space)
    if kind in (pooling.MAXIMUM, pooling.MAXIMUM_GRADIENT) and not maxima.min() > _LOWEST:
        return None
    return made


@functools.lru_cache(1024)
def _pooling(kind: str, shape: tuple[int, ...], axes: tuple[Any, ...]) -> pooling.Pooling | None:
    if any(axis.dilation != 1 for axis in axes) or isinstance(library.found(), str):
        return None
    made = pooling.made(kind, shape, axes)
    if isinstance(made, str):
        _log.debug("NumPy computes a pooling (%s of %s): %s", kind, shape, made)
        return None
    return made


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
hooks.fill("pool_on_host", pool)
