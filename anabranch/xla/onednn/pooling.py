"""Maxima and averages over windows, and their gradients: what oneDNN is to run for those of the interpreter.

Policy. Images lie in memory as they do here, channels last, and nothing is reordered. The gradient of maxima is two
primitives: one that notes of each window where its first maximum is, and one that adds the gradients up at these
places. Averages leave the padding out. In XLA's programs a pooling is a loop together with what is around it, which is
as quick, so only the interpreter asks.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.xla.onednn import primitives
from anabranch.xla.onednn.library import Library, Status
from anabranch.xla.onednn.primitives import Argument, Caller, Step

MAXIMUM, MAXIMUM_GRADIENT, AVERAGE, AVERAGE_GRADIENT = "maximum", "maximum gradient", "average", "average gradient"

# Numbers of oneDNN's C interface (dnnl_types.h), the same in all of version 3.
_OF_MAXIMA, _WITHOUT_PADDING = 0x1FF, 0x3FF
_INFERENCE = 96
ELEMENTS_OF_A_THREAD = 1 << 19
"""Elements of images that a second thread of oneDNN's must have."""


class Pooling(NamedTuple):
    """A pooling that can be called, on buffers: its operands, the result, its own space.

    The gradient of maxima takes the images, the gradient of the maxima, and room for the maxima before its result.
    """

    run: Caller
    space: int
    """Bytes of the last buffer, which is for where the maxima are."""


class _Describer:
    """The making of primitives for one pooling."""

    def __init__(self, library: Library, shape: Sequence[int], axes: Sequence[Any], maxima: bool) -> None:
        batch, *sizes, channels = shape
        order = (0, *range(2, len(shape)), 1)

        def images(sizes: Sequence[int]) -> Any:
            dims = (batch, channels, *sizes)
            steps = primitives.steps_of(dims, order)
            return primitives.strided(library, primitives.DTYPES["float32"], dims, steps)

        behind = [max(0, (a.out - 1) * a.stride + a.window - a.size - a.before) for a in axes]
        self.library = library
        self.method = _OF_MAXIMA if maxima else _WITHOUT_PADDING
        self.images, self.pooled = images(sizes), images([a.out for a in axes])
        self.geometry = [
            primitives.dims_of(values)
            for values in (
                [a.stride for a in axes],
                [a.window for a in axes],
                [0] * len(axes),
                [a.before for a in axes],
                behind,
            )
        ]

    def forward(self, aim: int) -> Any:
        """The descriptor of the pooling itself."""
        made, library = ctypes.c_void_p(), self.library
        library.call(
            "pooling_forward_primitive_desc_create",
            ctypes.byref(made),
            library.engine,
            aim,
            self.method,
            self.images,
            self.pooled,
            *self.geometry,
            primitives.attributes(library),
        )
        return made

    def backward(self, forward: Any) -> Any:
        """The descriptor of the gradient of ``forward``."""
        made, library = ctypes.c_void_p(), self.library
        library.call(
            "pooling_backward_primitive_desc_create",
            ctypes.byref(made),
            library.engine,
            self.method,
            self.images,
            self.pooled,
            *self.geometry,
            forward,
            primitives.attributes(library),
        )
        return made

    def size(self, layout: Any) -> int:
        """Bytes of an array."""
        return int(self.library.c.dnnl_memory_desc_get_size(layout))

    def steps(self, kind: str) -> tuple[list[Step], int]:
        """What is run, and how many bytes the last buffer has."""
        if kind in (MAXIMUM, AVERAGE):
            forward = self.forward(_INFERENCE)
            scratch = primitives.layout_of(self.library, forward, "scratch")
            arguments = (
                Argument("source", self.images, 0),
                Argument("output", self.pooled, 1),
                Argument("scratch", scratch, 2),
            )
            return [Step(forward, arguments)], self.size(scratch)
        forward = self.forward(primitives.TRAINING)
        backward = self.backward(forward)
        scratch = primitives.layout_of(self.library, backward, "scratch")
        if kind == AVERAGE_GRADIENT:
            arguments = (
                Argument("output gradient", self.pooled, 0),
                Argument("source gradient", self.images, 1),
                Argument("scratch", scratch, 2),
            )
            return [Step(backward, arguments)], self.size(scratch)
        before = primitives.layout_of(self.library, forward, "scratch")
        places = primitives.layout_of(self.library, forward, "workspace")
        at = -(-self.size(places) // 64) * 64
        first = (
            Argument("source", self.images, 0),
            Argument("output", self.pooled, 2),
            Argument("workspace", places, 4),
            Argument("scratch", before, 4, at),
        )
        second = (
            Argument("output gradient", self.pooled, 1),
            Argument("source gradient", self.images, 3),
            Argument("workspace", places, 4),
            Argument("scratch", scratch, 4, at),
        )
        return [Step(forward, first), Step(backward, second, 1)], at + max(self.size(before), self.size(scratch))


@functools.lru_cache(1024)
def made(kind: str, shape: tuple[int, ...], axes: tuple[Any, ...]) -> Pooling | str:
    """A pooling of images ``[batch, *size, channels]``, or why oneDNN has nothing good for it."""
    library = primitives.usable()
    threads = max(1, min(library.threads, math.prod(shape) // ELEMENTS_OF_A_THREAD))
    library.use_threads(threads)
    try:
        steps, space = _Describer(library, shape, axes, kind in (MAXIMUM, MAXIMUM_GRADIENT)).steps(kind)
        names = [primitives.implementation_of(library, step.descriptor) for step in steps]
        if any("ref" in name.split(":") for name in names):
            return f"oneDNN has only its reference implementation ({', '.join(names)})"
        return Pooling(Caller(primitives.program_of(library, steps, threads)), space)
    except Status as reason:
        return str(reason)
    finally:
        library.use_threads(library.threads)
