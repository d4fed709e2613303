"""Trigonometric functions of float32 on CPU, where XLA calls a scalar function for each element: polynomials instead.

Arguments are reduced in float64, so that results near multiples of pi keep their digits; polynomials are relative
minimax fits made for these intervals, with errors below half a unit in the last place of float32. Small arrays keep
XLA's own functions: they compile faster. Sines and cosines of arrays that hold a number beyond 2**28 do, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.ops.shared.numerics import polynomial

SMALLEST = 1 << 13
"""Elements from which the polynomials are used."""
_REDUCIBLE = np.float32(2.0**28)
_PI_HIGH = float(np.float32(math.pi))  # 24 bits: times a factor below 2**27 it is exact
_PI_LOW = math.pi - _PI_HIGH
_PI_REST = 1.2246467991473532e-16  # pi less its float64

# sin(r) / r, atan(t) / t and asin(t) / t in powers of the square, highest first, without the leading 1.
_SIN = (
    -2.386822782843345e-08,
    2.752396433837752e-06,
    -0.00019840832690542842,
    0.008333330719501635,
    -0.16666666608797134,
)
_ATAN = (-0.06032460556209061, 0.10572580910881885, -0.1423996316196537, 0.19998210531356755, -0.33333307508219695)
_ASIN = (0.042647901421982555, 0.02385124895497802, 0.04555153667524141, 0.07494424149659416, 0.16666790395320605)


def applies(ctx: Any, x: Any) -> bool:
    """Whether the functions of this module are for the array ``x`` in this context."""
    return ctx.lax is not None and ctx.platform == "cpu" and x.dtype == np.float32 and x.size >= SMALLEST


def _odd(x: Any, coefficients: tuple[float, ...]) -> Any:
    square = x * x
    return x + x * (square * polynomial(square, coefficients))


def _reduced(xp: Any, x: Any, shift: float) -> tuple[Any, Any]:
    """``r`` in float64 within pi/2 of 0 and the int32 ``k`` with ``x = r + (k + shift) * pi``."""
    wide = x.astype(np.float64)
    k = xp.rint(wide * (1 / math.pi) - shift)
    multiple = k + shift
    return ((wide - multiple * _PI_HIGH) - multiple * _PI_LOW) - multiple * _PI_REST, k.astype(np.int32)


def _signed(xp: Any, k: Any, value: Any) -> Any:
    return xp.where(k & 1 == 1, -value, value)


def _fast_sin(xp: Any, x: Any) -> Any:
    r, k = _reduced(xp, x, 0.0)
    return _signed(xp, k, _odd(r.astype(np.float32), _SIN))


def _fast_cos(xp: Any, x: Any) -> Any:
    r, k = _reduced(xp, x, 0.5)
    return _signed(xp, k, -_odd(r.astype(np.float32), _SIN))


def _fast_tan(xp: Any, x: Any) -> Any:
    r, _ = _reduced(xp, x, 0.0)
    cosine = _odd((math.pi / 2 - xp.abs(r)).astype(np.float32), _SIN)
    return _odd(r.astype(np.float32), _SIN) / cosine


def sine_and_cosine(xp: Any, x: Any) -> tuple[Any, Any]:
    """Both of float32 angles from 0 to 2 pi: float32 is wide enough to reduce these."""
    high = np.float32(3.140625)  # 8 bits: times a small multiple of 1/2 it is exact
    low = np.float32(math.pi - float(high))

    def reduced(shift: float) -> tuple[Any, Any]:
        k = xp.rint(x * np.float32(1 / math.pi) - np.float32(shift))
        multiple = k + np.float32(shift)
        return (x - multiple * high) - multiple * low, k.astype(np.int32)

    (for_sine, k), (for_cosine, j) = reduced(0.0), reduced(0.5)
    return _signed(xp, k, _odd(for_sine, _SIN)), _signed(xp, j, -_odd(for_cosine, _SIN))


def _unless_huge(fast: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    def function(ctx: Any, x: Any) -> Any:
        xp = ctx.xp
        huge = (xp.abs(x) >= _REDUCIBLE).any()
        return ctx.lax.cond(huge, getattr(xp, name), lambda value: fast(xp, value), x)

    return function


sin = _unless_huge(_fast_sin, "sin")
cos = _unless_huge(_fast_cos, "cos")
tan = _unless_huge(_fast_tan, "tan")


def _atan_of_ratio(xp: Any, t: Any) -> Any:
    """Arc tangent for ``t`` in [0, 1]."""
    above = t > math.sqrt(2) - 1
    reduced = xp.where(above, (t - 1) / (t + 1), t)
    return _odd(reduced, _ATAN) + xp.where(above, np.float32(math.pi / 4), np.float32(0))


def atan(ctx: Any, x: Any) -> Any:
    """Arc tangent of a float32 array."""
    xp = ctx.xp
    size = xp.abs(x)
    inverted = size > 1
    angle = _atan_of_ratio(xp, xp.where(inverted, 1 / size, size))
    return xp.copysign(xp.where(inverted, np.float32(math.pi / 2) - angle, angle), x)


def atan2(ctx: Any, y: Any, x: Any) -> Any:
    """The angle of the points (x, y), float32 arrays, with C's signs at zeros and infinities."""
    xp = ctx.xp
    y, x = xp.broadcast_arrays(y, x)
    across, along = xp.abs(y), xp.abs(x)
    low, high = xp.minimum(across, along), xp.maximum(across, along)
    equal = low == high  # 0/0 and inf/inf among them
    ratio = xp.where(equal, xp.where(high == 0, np.float32(0), np.float32(1)), low / high)
    angle = _atan_of_ratio(xp, ratio)
    angle = xp.where(across > along, np.float32(math.pi / 2) - angle, angle)
    angle = xp.where(xp.signbit(x), np.float32(math.pi) - angle, angle)
    return xp.copysign(angle, y)


def _folded_asin(xp: Any, x: Any) -> tuple[Any, Any]:
    """Whether ``|x| > 1/2``, and the arc sine of ``|x|`` or else of ``sqrt((1 - |x|) / 2)``; nan beyond 1."""
    size = xp.abs(x)
    outer = size > 0.5
    return outer, _odd(xp.where(outer, xp.sqrt((1 - size) * 0.5), size), _ASIN)


def asin(ctx: Any, x: Any) -> Any:
    """Arc sine of a float32 array."""
    xp = ctx.xp
    outer, angle = _folded_asin(xp, x)
    return xp.copysign(xp.where(outer, np.float32(math.pi / 2) - 2 * angle, angle), x)


def acos(ctx: Any, x: Any) -> Any:
    """Arc cosine of a float32 array."""
    xp = ctx.xp
    outer, angle = _folded_asin(xp, x)
    beyond = xp.where(x > 0, 2 * angle, np.float32(math.pi) - 2 * angle)
    return xp.where(outer, beyond, np.float32(math.pi / 2) - xp.copysign(angle, x))
