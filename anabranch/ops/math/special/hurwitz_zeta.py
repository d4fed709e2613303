"""Hurwitz' zeta function where XLA's sum fails: negative arguments, and derivatives of digamma of high order.

XLA adds nine terms and Euler and Maclaurin's remainder, which holds where the arguments of the remainder are positive.
For a negative ``q`` that is not whole the terms before 0 are those of two other values, up to their sign::

    zeta(s, q) = zeta(s, p) + (-1)^s (zeta(s, 1 - p) - zeta(s, 1 - q)),  p = q - floor(q)

A derivative of digamma is ``(-1)^s gamma(s) zeta(s, x)``, whose factors leave the range of a dtype long before their
product does. It is taken from ``zeta(s, x) x^s``, which does not.
"""

from __future__ import annotations

import math
from typing import Any

_TERMS = 9
# B_2j / (2j)!: the coefficients of Euler and Maclaurin's remainder.
_REMAINDER = tuple(
    number / math.factorial(2 * j)
    for j, number in enumerate(
        (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330), 1
    )
)


def of_negative(ctx: Any, s: Any, q: Any) -> Any:
    """``zeta(s, q)`` of a whole ``s`` and a negative ``q`` that is not whole."""
    xp, zeta = ctx.xp, ctx.lax.zeta
    part = q - xp.floor(q)
    sign = xp.where(xp.floor(s / 2) * 2 == s, xp.ones_like(s), -xp.ones_like(s))
    # In this order the first two, which are of one size, cancel before the small third one is added.
    return (zeta(s, part) + sign * zeta(s, 1 - part)) - sign * zeta(s, 1 - q)


def scaled(ctx: Any, s: Any, q: Any) -> Any:
    """``zeta(s, q) q^s`` of ``s > 1`` and ``q > 0``, which is at least 1."""
    xp = ctx.xp
    total = xp.ones_like(q)
    for k in range(1, _TERMS):
        total = total + xp.exp(-s * xp.log1p(k / q))
    base = q + _TERMS
    # The remainder's series diverges for s above some 6 base, where the factor before it is small.
    power = xp.minimum(s, 3 * base)
    term, series = power / base, 0 * q
    for j, coefficient in enumerate(_REMAINDER):
        series = series + coefficient * term
        term = term * ((power + (2 * j + 1)) / base) * ((power + (2 * j + 2)) / base)
    return total + xp.exp(-s * xp.log1p(_TERMS / q)) * (base / (s - 1) + 0.5 + series)
