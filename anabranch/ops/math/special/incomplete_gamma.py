"""The regularised incomplete gamma functions where both arguments are large.

Series and continued fractions take the logarithm of their first factor from terms as large as ``a log x``, which
cancel: in float32 the fourth digit is lost at ``a = 1000``, all of them at 1e7, and beyond it results leave [0, 1] or
are NaN. So for ``a`` above :data:`LARGE` the uniform expansion of Temme is used (DLMF 8.12), whose factor depends on
``x - a`` alone::

    Q(a, x) = erfc(eta sqrt(a / 2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) * sum_k c_k(eta) a^-k
    eta^2 / 2 = mu - log(1 + mu),  mu = (x - a) / a,  eta of the sign of mu

It is taken for ``|mu| < NEAR``, with ``c_k`` as series in ``eta``, computed once in exact fractions. Farther away, and
for ``a`` above :data:`HUGE`, both functions are 0 and 1 within float64's range.

For small ``a`` and ``x`` the lower function is nearly 1, and 1 less it has no digits of the upper one, which is then
taken from its own series: of ``1 - x^a / gamma(a + 1)`` and of the powers of ``x`` beyond (:func:`upper_of_small`).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

LARGE = 200.0
HUGE = 1e5
NEAR = 0.3
_TERMS = 24  # powers of eta, which is at most 0.36
_ORDERS = 5  # powers of 1 / a

Series = list[Fraction]


def _product(first: Series, second: Series) -> Series:
    result = [Fraction(0)] * len(first)
    for i, one in enumerate(first):
        for j, other in enumerate(second[: len(first) - i]):
            result[i + j] += one * other
    return result


def _inverse(series: Series) -> Series:
    """The coefficients of ``1 / series``, whose first one is not 0."""
    result: Series = []
    for n in range(len(series)):
        rest = sum((series[k] * result[n - k] for k in range(1, n + 1)), Fraction(0))
        result.append((Fraction(int(n == 0)) - rest) / series[0])
    return result


def _mu_over_eta(size: int) -> Series:
    """The coefficients of ``mu / eta`` in ``eta``.

    From ``d mu / d eta = eta (1 + mu) / mu``: with ``mu = sum m_n eta^n``, ``mu mu' = eta + eta mu``.
    """
    m = [Fraction(0), Fraction(1)]
    for n in range(2, size + 1):
        # The coefficient of eta^n of mu mu' is (n + 1) / 2 times that of eta^(n + 1) of mu^2.
        inner = sum((m[k] * m[n + 1 - k] for k in range(2, n)), Fraction(0))
        m.append(m[n - 1] / (n + 1) - inner / 2)
    return m[1 : size + 1]


def _stirling(count: int) -> Series:
    """The coefficients of Stirling's series of the gamma function (DLMF 5.11.5)."""
    a = [Fraction(1)]
    for k in range(1, 2 * count + 1):
        rest = sum((a[j] * a[k - j] / (j + 1) for j in range(1, k)), Fraction(0))
        a.append((a[k - 1] / k - rest) / (1 + Fraction(1, k + 1)))
    factor = Fraction(1)
    result = []
    for k in range(count):
        result.append(factor * a[2 * k])
        factor *= Fraction(2 * k + 1)
    return result


@functools.cache
def coefficients() -> tuple[tuple[float, ...], ...]:
    """For each power of ``1 / a`` the coefficients of ``c_k`` in powers of ``eta``."""
    size = _TERMS + 2 * _ORDERS + 3
    eta_over_mu = _inverse(_mu_over_eta(size))
    one_over_mu = eta_over_mu[1:]  # without its pole 1 / eta
    orders = [one_over_mu]
    for k, g in enumerate(_stirling(_ORDERS)[1:], 1):
        slope = [n * coefficient for n, coefficient in enumerate(orders[-1])][1:]
        sign = (-1) ** k
        # The poles at eta = 0 of both terms cancel.
        orders.append([slope[n + 1] + sign * g * one_over_mu[n] for n in range(len(slope) - 1)])
    return tuple(tuple(float(one) for one in series[:_TERMS]) for series in orders)


def _polynomial(values: Any, numbers: tuple[float, ...]) -> Any:
    result = values * 0 + numbers[-1]
    for number in reversed(numbers[:-1]):
        result = result * values + number
    return result


def _expansion(ctx: Any, a: Any, x: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Where the expansion holds and where the functions are 0 or 1; there ``a``, ``mu``, ``eta`` and ``eta sqrt(a/2)``.

    Elsewhere the last four have values that do no harm.
    """
    xp = ctx.xp
    large = xp.isfinite(a) & xp.isfinite(x) & (a > LARGE)
    mu = xp.where(large, x - a, 0 * xp.ones_like(a)) / xp.where(large, a, xp.ones_like(a))
    near = large & (abs(mu) < NEAR)
    far = large & (a > HUGE) & ~near
    mu = xp.where(near, mu, xp.zeros_like(mu))
    safe = xp.where(near, a, xp.full_like(a, LARGE))
    # 2 (mu - log(1 + mu)) / mu^2 = 1 - 2 mu / 3 + 2 mu^2 / 4 - ...
    eta = mu * xp.sqrt(_polynomial(mu, tuple(2 * (-1.0) ** n / (n + 2) for n in range(_TERMS + 6))))
    return near, far, safe, mu, eta, eta * xp.sqrt(safe / 2)


def _sum(a: Any, eta: Any, orders: tuple[tuple[float, ...], ...]) -> Any:
    """The sum of ``c_k(eta) a^-k``."""
    total = 0 * a
    for series in reversed(orders):
        total = total / a + _polynomial(eta, series)
    return total


def tails(ctx: Any, a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Where both arguments are large, and there the lower and the upper function of arrays of one shape."""
    xp = ctx.xp
    near, far, safe, _, eta, scaled = _expansion(ctx, a, x)
    rest = xp.exp(-scaled * scaled) / xp.sqrt(2 * math.pi * safe) * _sum(safe, eta, coefficients())
    beyond = xp.where(x > a, xp.ones_like(a), xp.zeros_like(a))
    lower = xp.where(far, beyond, ctx.lax.erfc(-scaled) / 2 - rest)
    upper = xp.where(far, 1 - beyond, ctx.lax.erfc(scaled) / 2 + rest)
    return near | far, lower, upper


def slope(ctx: Any, a: Any, x: Any) -> tuple[Any, Any]:
    """Where both arguments are large, and there the derivative of the lower function with respect to ``a``.

    With ``s = eta sqrt(a / 2)``, ``T`` for the sum and ``d eta / d a = -(mu / eta) / a``.
    """
    xp = ctx.xp
    near, far, safe, mu, eta, scaled = _expansion(ctx, a, x)
    orders = coefficients()
    ratio = xp.where(eta == 0, xp.ones_like(eta), mu / xp.where(eta == 0, xp.ones_like(eta), eta))
    by_a = -ratio / safe
    total = _sum(safe, eta, orders)
    by_eta = _sum(safe, eta, tuple(tuple(n * c for n, c in enumerate(series))[1:] for series in orders))
    by_power = _sum(safe, eta, tuple(tuple(-k * c for c in series) for k, series in enumerate(orders))) / safe
    scaled_by_a = xp.sqrt(safe / 2) * by_a + eta / xp.sqrt(8 * safe)
    inner = xp.sqrt(2 * safe) * scaled_by_a + (2 * scaled * scaled_by_a + 0.5 / safe) * total - by_eta * by_a - by_power
    value = xp.exp(-scaled * scaled) / xp.sqrt(2 * math.pi * safe) * inner
    return near | far, xp.where(far, xp.zeros_like(value), value)


def _zeta_of(k: int) -> float:
    """The sum of ``n^-k``, by Euler and Maclaurin's formula."""
    last = 40.0
    rest = last ** (1 - k) / (k - 1) + last**-k / 2 + k * last ** (-k - 1) / 12
    rest -= k * (k + 1) * (k + 2) * last ** (-k - 3) / 720
    return math.fsum([n**-k for n in range(1, int(last))] + [rest])


# log gamma(1 + a) = -g a + zeta(2) a^2 / 2 - zeta(3) a^3 / 3 + ...
_LOG_GAMMA = (0.0, -0.5772156649015329, *((-1.0) ** k / k * _zeta_of(k) for k in range(2, 30)))


def upper_of_small(ctx: Any, a: Any, x: Any) -> tuple[Any, Any]:
    """Where ``a < 1/4`` and ``x < 1.1``, and the upper function there, of arrays of one shape."""
    xp = ctx.xp
    small = (a > 0) & (a < 0.25) & (x > 0) & (x < 1.1)
    a, x = xp.where(small, a, xp.full_like(a, 0.1)), xp.where(small, x, xp.ones_like(x))
    log = a * xp.log(x) - _polynomial(a, _LOG_GAMMA)
    power, total = xp.ones_like(x), 0 * x
    for n in range(1, 20):
        power = power * (-x / n)
        total = total + power / (a + n)
    return small, -xp.expm1(log) - xp.exp(log) * a * total
