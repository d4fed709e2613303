"""The regularised incomplete beta function where an argument is large.

XLA's continued fraction takes the logarithm of its first factor from terms as large as ``n log n``, ``n = a + b``,
which cancel, and stops before it converges near the mean: in float32 the third digit is lost at ``n = 1000``; in
float64 the sixth at 1e6, and beyond 1e8 results leave [0, 1]. So float32 is computed in float64, and

- where both arguments are above :data:`LARGE`, the density of the beta distribution is integrated by Gauss and
  Legendre's rule from ``x`` to where it no longer counts, on the side of the mean on which ``x`` is. With
  ``t = m (1 + r)``, ``1 - t = (1 - m) (1 + s)`` around the mean ``m = a / n`` the terms of first order cancel exactly::

      density = exp(a (log(1 + r) - r) + b (log(1 + s) - s)) sqrt(a b / (2 pi n)) / (t (1 - t)) exp(D(n) - D(a) - D(b))

  with Stirling's corrections ``D(z) = 1 / 12 z - 1 / 360 z^3 + ...``;
- where ``b`` is huge and ``a`` is not large, the function is that of the gamma distribution to which the beta one
  tends, ``P(a, -(b + (a - 1) / 2) log(1 - x))`` up to ``a^3 / 24 b^2`` of its size; with the arguments and the ends of
  the interval exchanged where ``a`` is the huge one.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

LARGE = 100.0
HUGE = 1e6
_NODES = 32
_DECAY = 74.0  # twice the logarithm of what the density falls by over the interval


@functools.cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _log_beyond_first_order(xp: Any, z: Any) -> Any:
    """``log(1 + z) - z``, by its series where the two cancel."""
    series = 0 * z
    for power in range(10, 1, -1):
        series = series * z + (-1.0) ** (power + 1) / power
    return xp.where(abs(z) < 0.01, series * z * z, xp.log1p(z) - z)


def _stirling(z: Any) -> Any:
    return (1 / 12 - (1 / 360 - 1 / (1260 * z * z)) / (z * z)) / z


def near_normal(ctx: Any, a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Where both arguments are large, and the function there; all arrays have one shape and are float64."""
    xp = ctx.xp
    large = xp.isfinite(a) & xp.isfinite(b) & (xp.minimum(a, b) > LARGE) & (x > 0) & (x < 1)
    a, b = xp.where(large, a, xp.full_like(a, LARGE)), xp.where(large, b, xp.full_like(b, LARGE))
    x = xp.where(large, x, xp.full_like(x, 0.5))
    n = a + b
    mean, rest = a / n, b / n
    distance = xp.where(x < 0.5, x - mean, rest - (1 - x))  # what is exact of x and 1 - x
    deviation = xp.sqrt(mean * (rest / n))
    lower = distance <= 0
    steps = abs(distance) / deviation
    length = xp.minimum((xp.sqrt(steps * steps + _DECAY) - steps) * deviation, xp.where(lower, x, 1 - x))
    nodes, weights = _rule()
    t = distance[..., None] + xp.where(lower, -length, length)[..., None] * nodes
    # Rounding may lead beyond an end of the interval, where the logarithms are not defined.
    r, s = xp.maximum(t / mean[..., None], -1.0), xp.maximum(-t / rest[..., None], -1.0)
    power = a[..., None] * _log_beyond_first_order(xp, r) + b[..., None] * _log_beyond_first_order(xp, s)
    places = xp.maximum((1 + r) * (1 + s), np.finfo(np.float64).tiny)  # at the ends, where the density is 0
    total = xp.sum(weights * xp.exp(power) / places, -1)
    corrections = xp.exp(_stirling(n) - _stirling(a) - _stirling(b))
    tail = total * corrections * (length / deviation) / math.sqrt(2 * math.pi)
    return large, xp.where(lower, tail, 1 - tail)


def near_gamma(ctx: Any, a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """Where one argument is huge and the other is not large, and there the arguments of the gamma functions.

    The function is ``igamma`` of them if ``a`` is the smaller one, and ``igammac`` otherwise.
    """
    xp = ctx.xp
    small, other = xp.minimum(a, b), xp.maximum(a, b)
    huge = other > xp.maximum(HUGE, 6.5e3 * small * xp.sqrt(abs(small)))  # where the first term's error is below 1e-9
    where = xp.isfinite(other) & huge & (small <= LARGE) & (small > 0) & (x >= 0) & (x <= 1)
    small, other = xp.where(where, small, xp.ones_like(a)), xp.where(where, other, xp.ones_like(a))
    y = xp.where(where, xp.where(a < b, x, 1 - x), xp.full_like(x, 0.5))
    return where, small, -(other + (small - 1) / 2) * xp.log1p(-y)
