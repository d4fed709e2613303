"""Numerics that kernels of several families share: widening of narrow floats, functions without an array form in NumPy.

Everything here is written on an array namespace ``xp`` (NumPy or jax.numpy), so that both tiers compute the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import dtypes

FLOATS = "bfloat16 half float double"
COMPLEX = "complex64 complex128"
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
REALS = f"{FLOATS} {INTEGERS}"
NUMBERS = "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16"
NUMBERS += " complex128 half uint32 uint64"

Function = Callable[..., Any]
_NARROW = frozenset({dtypes.float16.np, dtypes.bfloat16.np})


def is_narrow(dtype: Any) -> bool:
    """Whether a NumPy dtype is ``half`` or ``bfloat16``, on which intermediate results lose too much."""
    return dtype in _NARROW


def is_floating(dtype: Any) -> bool:
    """Whether a NumPy dtype is a real floating type, the narrow ones of ml_dtypes included."""
    return dtype.kind == "f" or dtypes.as_dtype(dtype).is_floating


def widened(function: Function) -> Function:
    """``function(ctx, *arrays)`` computed in float32 for narrow floats and rounded once at the end."""

    @functools.wraps(function)
    def call(ctx: Any, *values: Any) -> Any:
        dtype = values[0].dtype
        if dtype not in _NARROW:
            return function(ctx, *values)
        return function(ctx, *[value.astype(np.float32) for value in values]).astype(dtype)

    return call


LARGE = 1 << 15
"""Elements from which on a function that NumPy lacks is SciPy's, whose import takes as long as a million in Python."""


def by_element(function: Callable[[float], float], large: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """NumPy form of a function on Python floats, host only; ``large`` takes `scipy.special` and a large array."""

    def call(x: Any) -> Any:
        wide = np.asarray(x).astype(np.float64, copy=False)
        if wide.size >= LARGE:
            return large(_special(), wide).astype(x.dtype, copy=False)
        results = np.fromiter(map(function, wide.ravel().tolist()), np.float64, wide.size)
        return results.reshape(wide.shape).astype(x.dtype)

    return call


@functools.cache
def _special() -> Any:
    from scipy import special

    return special


def make_complex(ctx: Any, real: Any, imag: Any) -> Any:
    """``real + i imag`` part by part, so that infinities and signed zeros stay where they are."""
    if ctx.lax is not None:
        return ctx.lax.complex(*ctx.xp.broadcast_arrays(real, imag))
    real, imag = np.broadcast_arrays(real, imag)
    out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    out.real, out.imag = real, imag
    return out


def _lgamma(x: float) -> float:
    if x <= 0.0 and (math.isinf(x) or x == math.floor(x)):
        return math.inf  # the poles, and the limit that C's lgamma gives at -inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _large_lgamma(special: Any, x: Any) -> Any:
    """SciPy's, which gives -inf at -inf and inf for subnormal numbers."""
    size = np.abs(x)
    near = size < 1e-300
    if near.any() or np.isinf(size).any():
        with np.errstate(divide="ignore"):
            return np.where(near, -np.log(size), np.where(np.isinf(size), np.inf, special.gammaln(x)))
    return special.gammaln(x)


_exact_erf = by_element(math.erf, lambda special, x: special.erf(x))
host_erfc = by_element(math.erfc, lambda special, x: special.erfc(x))
host_lgamma = by_element(_lgamma, _large_lgamma)

# erf(x) / x as a rational function of x^2, lowest power first, within 2.1e-8 of it (relative) up to `_ERF_END`, where
# the error function is 1 in float32: fitted by least squares, weighted anew until the error was level.
_ERF_END = 3.95
_ERF_ABOVE = (
    1.1283791437623458,
    0.19155090914186026,
    0.05287552304020274,
    0.0038081828641413212,
    0.00028468740854412333,
    2.0258950460942443e-06,
)
_ERF_BELOW = (
    1.0,
    0.5030902493163921,
    0.11455986714517785,
    0.015055138138568867,
    0.0011707291422051761,
    3.783164538970979e-05,
)
_ERF_BLOCK = 1 << 13


def host_erf(x: Any) -> Any:
    """The error function of a NumPy array, rounded from a formula that is good for float32; doubles are exact."""
    if x.dtype == np.float64:
        return _exact_erf(x)
    values = np.ascontiguousarray(x).reshape(-1)
    out = np.empty(values.size, x.dtype)
    for start in range(0, values.size, _ERF_BLOCK):  # what a block needs stays in the caches
        y = np.clip(values[start : start + _ERF_BLOCK].astype(np.float64), -_ERF_END, _ERF_END)
        t = y * y
        y *= _horner(t, _ERF_ABOVE)
        y /= _horner(t, _ERF_BELOW)
        out[start : start + _ERF_BLOCK] = y
    return out.reshape(np.shape(x))


def _horner(t: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    """A polynomial, lowest power first, in memory of its own."""
    total = t * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= t
    total += coefficients[0]
    return total


# B_2k / 2k for k = 1..7: the asymptotic series of digamma in 1/x^2.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def host_digamma(x: Any) -> Any:
    """Digamma of a NumPy array: reflection, then recurrence up to 10, then the asymptotic series; inf at the poles."""
    dtype = x.dtype
    x = np.asarray(x).astype(np.float64)
    pole = (x <= 0) & (x == np.floor(x))
    reflected = x < 0.5
    y = np.where(reflected, 1.0 - x, x)
    result = np.zeros_like(y)
    for _ in range(10):
        small = y < 10.0
        result = np.where(small, result - 1.0 / y, result)
        y = np.where(small, y + 1.0, y)
    inverse = 1.0 / (y * y)
    result += np.log(y) - 0.5 / y - inverse * polynomial(inverse, _DIGAMMA_SERIES[::-1])
    result = np.where(reflected, result - np.pi / np.tan(np.pi * (x - np.rint(x))), result)
    return np.where(pole, np.inf, result).astype(dtype)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's scheme, highest power first; coefficients are Python floats, so the dtype of ``x`` stays."""
    result = coefficients[0]
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


# Wichura (1988), Algorithm AS 241, PPND16: numerators and denominators for |q| <= 0.425, r <= 5 and r > 5.
_CENTRE = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852854561,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_TAIL = (
    (
        7.7454501427834140764e-4,
        2.27238449892691845833e-2,
        2.4178072517745061177e-1,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        1.51986665636164571966e-2,
        1.4810397642748007459e-1,
        6.8976733498510000455e-1,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_FAR_TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.2426609473880784386e-3,
        2.6532189526576123093e-2,
        2.9656057182850489123e-1,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        1.4875361290850614853e-2,
        1.3692988092273580531e-1,
        5.9983220655588793769e-1,
        1.0,
    ),
)


def inverse_normal(xp: Any, q: Any, tail: Any) -> Any:
    """The normal quantile of ``p`` from ``q = p - 0.5`` and ``tail = min(p, 1 - p)``; infinite where the tail is 0."""
    square = 0.180625 - q * q
    centre = q * polynomial(square, _CENTRE[0]) / polynomial(square, _CENTRE[1])
    r = xp.sqrt(-xp.log(tail))
    near = polynomial(r - 1.6, _TAIL[0]) / polynomial(r - 1.6, _TAIL[1])
    far = polynomial(r - 5.0, _FAR_TAIL[0]) / polynomial(r - 5.0, _FAR_TAIL[1])
    outer = xp.where(r <= 5.0, near, far)
    outer = xp.where(tail == 0, r, outer)
    outer = xp.where(q < 0, -outer, outer)
    return xp.where(xp.abs(q) <= 0.425, centre, outer)
