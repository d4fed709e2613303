"""Gradients of ops that broadcast: sum what came in back to the shape of the operand that was repeated.

The axes to sum over follow from the static shapes wherever these decide, so that most gradients hold one ``Sum``
and ``Reshape``, or nothing; otherwise ``BroadcastGradientArgs`` finds them when the step runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor

RawShape = tuple[int | None, ...] | None


def reduced_axes(shape: RawShape, other: RawShape) -> list[int] | None:
    """Axes of the broadcast of ``shape`` and ``other`` in which ``shape`` was repeated; None if it is not decided.

    An axis of extent 1 on both sides counts as not repeated: the sum over it would change nothing.
    """
    if shape is None or other is None:
        return [] if other == () else None
    rank = max(len(shape), len(other))
    own = (1,) * (rank - len(shape)) + shape
    beside = (1,) * (rank - len(other)) + other
    lead = rank - len(shape)
    axes = list(range(lead))
    for axis in range(lead, rank):
        extent, opposite = own[axis], beside[axis]
        if opposite == 1 or (extent is not None and extent != 1):
            continue
        if extent is None:
            return None
        axes.append(axis)
    return axes


def _sum_to(grad: Any, x: Any, axes: Sequence[int], lead: int) -> Any:
    """Sum ``grad`` over ``axes``, of which the first ``lead`` do not exist in ``x``.

    The result is a ``Reshape`` of a ``Sum`` also where the sum alone has the shape, as TensorFlow builds it: programs
    that walk a graph look for it.
    """
    if not axes:
        return grad
    summed = build("Sum", grad, np.array(axes, np.int32), keep_dims=lead == 0)
    shape = x._shape
    return build("Reshape", summed, np.array(shape, np.int32) if None not in shape else build("Shape", x))


def reduce_to_shape_of(grad: Any, x: Any, other: Any = None) -> Any:
    """``grad``, whose shape is that of ``x`` broadcast, summed to the shape of ``x``.

    ``other`` is the operand that ``x`` was broadcast against, if there is one: its static shape often decides what that
    of ``grad`` leaves open.
    """
    grad = convert_to_tensor(grad)
    if other is x:
        return grad
    shape: RawShape = x._shape
    for beside in (grad, other):
        axes = None if beside is None else reduced_axes(shape, beside._shape)
        if axes is not None:
            rank = len(shape or ())
            lead = max(len(beside._shape or ()) - rank, 0) if shape is not None else 0
            return _sum_to(grad, x, axes, lead)
    own = build("Shape", x)
    repeated = build("BroadcastGradientArgs", own, build("Shape", grad)).r0
    return build("Reshape", build("Sum", grad, repeated), own)


def reduce_broadcast(x: Any, y: Any, grad_x: Any, grad_y: Any) -> list[Any]:
    """Gradients of both operands of a broadcasting op, each summed to its operand's shape; None stays None."""
    return [
        None if grad_x is None else reduce_to_shape_of(grad_x, x, y),
        None if grad_y is None else reduce_to_shape_of(grad_y, y, x),
    ]


# ------------------------------------------------------------------------------------------- short forms for the rules
def add(x: Any, y: Any) -> Any:
    """``x + y``; a Python number takes the other's dtype, here and below."""
    return build("AddV2", x, y)


def sub(x: Any, y: Any) -> Any:
    """``x - y``."""
    return build("Sub", x, y)


def mul(x: Any, y: Any) -> Any:
    """``x * y``."""
    return build("Mul", x, y)


def div(x: Any, y: Any) -> Any:
    """``x / y`` of floating or complex tensors."""
    return build("RealDiv", x, y)


def neg(x: Any) -> Any:
    """``-x``."""
    return build("Neg", x)


def square(x: Any) -> Any:
    """``x * x``."""
    return build("Square", x)


def reciprocal(x: Any) -> Any:
    """``1 / x``."""
    return build("Reciprocal", x)


def conj(x: Any) -> Any:
    """The conjugate of a complex tensor; a real one as it is."""
    return build("Conj", x) if x.dtype.is_complex else x


def zeros_like(x: Any) -> Any:
    """Zeros of the shape of ``x``."""
    return build("ZerosLike", x)


def ones_like(x: Any) -> Any:
    """Ones of the shape of ``x``."""
    return build("OnesLike", x)
