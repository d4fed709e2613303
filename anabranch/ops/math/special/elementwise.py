"""Special functions: the error function and its kin, gamma and its kin, zeta, Bessel functions.

Those that programs use in initialisers have host kernels (the C library's, element by element); the rest runs through
XLA in both tiers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public_op
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.math.special import hurwitz_zeta, incomplete_beta, incomplete_gamma
from anabranch.ops.math.unary import unary_function
from anabranch.ops.shared import numerics
from anabranch.ops.shared.broadcast_gradients import (
    add,
    div,
    mul,
    neg,
    reciprocal,
    reduce_broadcast,
    reduce_to_shape_of,
    square,
    sub,
    zeros_like,
)
from anabranch.ops.shared.numerics import FLOATS, widened


def _special(
    type_name: str,
    doc: str,
    signature: str,
    types: str,
    compiled: Callable[..., Any],
    gradient: Any,
    host: Callable[..., Any] | None = None,
    shape: Callable[..., Any] = inference.elementwise,
) -> None:
    compiled = widened(compiled)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        return compiled(ctx, *inputs)

    host_kernel = None
    if host is not None:
        function = widened(lambda ctx, *values: host(*values))

        def host_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
            return function(ctx, *inputs)

    define(
        type_name,
        doc,
        signature=signature,
        attrs={"T": Type(types)},
        effect=PURE,
        shape=shape,
        kernel=uses_lax(kernel),
        host_kernel=host_kernel,
        gradient=gradient,
    )


def _lax(name: str) -> Callable[..., Any]:
    """The function of that name of XLA, on operands broadcast against each other."""

    def function(ctx: Any, *values: Any) -> Any:
        if len(values) > 1:
            values = tuple(ctx.xp.broadcast_arrays(*values))
        return getattr(ctx.lax, name)(*values)

    return function


def _one_shape(c: Any) -> shapes.RawShape:
    """Shape rule: inputs that are not scalars have one shape."""
    result: shapes.RawShape = None
    for raw in c.shapes:
        if raw != ():
            result = shapes.merge(result, raw)
    return () if all(raw == () for raw in c.shapes) else result


def _betainc(ctx: Any, *values: Any) -> Any:
    arrays = [(name, tuple(value.shape)) for name, value in zip("abx", values, strict=True) if value.shape]
    for (first, own), (second, other) in itertools.pairwise(arrays):
        given = f"Shapes of {first} and {second} are inconsistent: {shapes.show(own)} vs. {shapes.show(other)}"
        ctx.check(own == other, errors.InvalidArgumentError, given)
    dtype = values[0].dtype
    a, b, x = (value.astype(np.float64) for value in ctx.xp.broadcast_arrays(*values))
    normal, integral = incomplete_beta.near_normal(ctx, a, b, x)
    gamma, small, point = incomplete_beta.near_gamma(ctx, a, b, x)
    limit = ctx.xp.where(a < b, _igamma(ctx, small, point), _igammac(ctx, small, point))
    elsewhere = ~(normal | gamma)
    one = ctx.xp.ones_like(a)
    fraction = ctx.lax.betainc(*(ctx.xp.where(elsewhere, value, one) for value in (a, b, x)))
    value = ctx.xp.where(normal, integral, ctx.xp.where(gamma, limit, fraction))
    return _defined(ctx, (a > 0) & (b > 0) & (x >= 0) & (x <= 1), value).astype(dtype)


def _defined(ctx: Any, where: Any, value: Any) -> Any:
    """The value where a function is defined, NaN elsewhere."""
    return ctx.xp.where(where, value, ctx.xp.full_like(value, np.nan))


def _is_whole(ctx: Any, x: Any) -> Any:
    return x == ctx.xp.floor(x)


def _incomplete_gamma(ctx: Any, name: str, a: Any, x: Any) -> Any:
    """One of the two functions of XLA, and the expansion of both where it takes no good values."""
    a, x = ctx.xp.broadcast_arrays(a, x)
    large, lower, upper = incomplete_gamma.tails(ctx, a, x)
    one = ctx.xp.ones_like(a)
    value = getattr(ctx.lax, name)(ctx.xp.where(large, one, a), ctx.xp.where(large, one, x))
    value = ctx.xp.clip(value, 0, 1)  # one of them is 1 less the other, with the series' rounding
    return _defined(ctx, (a > 0) & (x >= 0), ctx.xp.where(large, lower if name == "igamma" else upper, value))


def _igamma(ctx: Any, a: Any, x: Any) -> Any:
    value = _incomplete_gamma(ctx, "igamma", a, x)
    return ctx.xp.where(x == 0, ctx.xp.zeros_like(value), value)


def _igammac(ctx: Any, a: Any, x: Any) -> Any:
    small, value = incomplete_gamma.upper_of_small(ctx, *ctx.xp.broadcast_arrays(a, x))
    return ctx.xp.where(small, value, _incomplete_gamma(ctx, "igammac", a, x))


def _igamma_grad_a(ctx: Any, a: Any, x: Any) -> Any:
    a, x = ctx.xp.broadcast_arrays(a, x)
    large, slope = incomplete_gamma.slope(ctx, a, x)
    one = ctx.xp.ones_like(a)
    value = ctx.lax.igamma_grad_a(ctx.xp.where(large, one, a), ctx.xp.where(large, one, x))
    return ctx.xp.where(x == 0, ctx.xp.zeros_like(value), ctx.xp.where(large, slope, value))


def _zeta(ctx: Any, x: Any, q: Any) -> Any:
    x, q = ctx.xp.broadcast_arrays(x, q)
    value = ctx.lax.zeta(x, q)
    far = (
        (q > 1e3) & (q < np.inf) & (x > 1) & (x < np.inf)
    )  # where a power is below the dtype's range before the sum is
    one = ctx.xp.ones_like(q)
    s, base = ctx.xp.where(far, x, 2 * one), ctx.xp.where(far, q, one)
    value = ctx.xp.where(far, ctx.xp.exp(ctx.xp.log(hurwitz_zeta.scaled(ctx, s, base)) - s * ctx.xp.log(base)), value)
    # Of exponents that are too large for XLA's sum only the first term is left.
    value = ctx.xp.where((value != value) & (x > 1) & (q > 0), ctx.xp.power(q, -x), value)
    negative = (q < 0) & ~_is_whole(ctx, q) & (x > 1) & _is_whole(ctx, x)
    reflected = hurwitz_zeta.of_negative(ctx, ctx.xp.where(negative, x, 2 * one), ctx.xp.where(negative, q, -0.5 * one))
    value = ctx.xp.where(negative, reflected, value)
    value = ctx.xp.where((q <= 0) & _is_whole(ctx, q), ctx.xp.full_like(value, np.inf), value)
    return _defined(ctx, (x >= 1) & (q == q), value)


def _polygamma(ctx: Any, a: Any, x: Any) -> Any:
    xp = ctx.xp
    a, x = xp.broadcast_arrays(a, x)
    derivative = (a >= 1) & _is_whole(ctx, a) & xp.isfinite(a)
    one = xp.ones_like(a)
    value = ctx.lax.polygamma(xp.where(derivative, 0 * one, a), x)
    s = xp.where(derivative, a + 1, 2 * one)
    positive = xp.where((x > 0) & xp.isfinite(x), x, one)
    log_gamma, log_power = ctx.lax.lgamma(s), s * xp.log(positive)
    near = (log_gamma < 50) & (abs(log_power) < 50)  # where both factors are in the range of float32
    factors = xp.exp(xp.where(near, log_gamma, 0 * one)) * xp.power(xp.where(near, positive, one), -s)
    scaled = hurwitz_zeta.scaled(ctx, s, positive)
    slope = xp.where(near, factors * scaled, xp.exp(log_gamma - log_power + xp.log(scaled)))
    slope = xp.where(x == np.inf, 0 * one, slope)
    sums = _zeta(ctx, s, xp.where(x > 0, -0.5 * one, x))
    slope = xp.where(x > 0, slope, xp.sign(sums) * xp.exp(log_gamma + xp.log(abs(sums))))
    odd = xp.floor(s / 2) * 2 != s
    value = xp.where(derivative, xp.where(odd, -slope, slope), value)
    pole = derivative & (x <= 0) & _is_whole(ctx, x)
    infinite = xp.full_like(value, np.inf)
    return xp.where(pole, xp.where(odd, -infinite, infinite), value)


# ---------------------------------------------------------------------------------------------------- error functions
def _erf_slope(factor: float) -> Callable[..., Any]:
    def gradient(op: Any, grad: Any) -> Any:
        return mul(mul(factor, build("Exp", neg(square(op.inputs[0])))), grad)

    return gradient


def _erfinv_gradient(op, grad):
    return mul(mul(math.sqrt(math.pi) / 2, build("Exp", square(op.outputs[0]))), grad)


def _ndtri_gradient(op, grad):
    return mul(mul(math.sqrt(2 * math.pi), build("Exp", mul(square(op.outputs[0]), 0.5))), grad)


def _erfinv(xp, x):
    inverse = numerics.inverse_normal(xp, x * 0.5, (1.0 - xp.abs(x)) * 0.5) * math.sqrt(0.5)
    return xp.where(xp.abs(x) <= 1, inverse, xp.full_like(x, np.nan))


def _ndtri(xp, p):
    inverse = numerics.inverse_normal(xp, p - 0.5, xp.minimum(p, 1.0 - p))
    return xp.where((p >= 0) & (p <= 1), inverse, xp.full_like(p, np.nan))


_UNARY = "x: T -> y: T"
_special(
    "Erf", "The error function.", _UNARY, FLOATS, _lax("erf"), _erf_slope(2 / math.sqrt(math.pi)), numerics.host_erf
)
_special(
    "Erfc",
    "`1 - erf(x)`, exact for large `x`.",
    _UNARY,
    FLOATS,
    _lax("erfc"),
    _erf_slope(-2 / math.sqrt(math.pi)),
    numerics.host_erfc,
)
_special(
    "Erfinv",
    "Inverse of the error function; nan outside [-1, 1].",
    _UNARY,
    FLOATS,
    lambda ctx, x: _erfinv(ctx.xp, x),
    _erfinv_gradient,
    lambda x: _erfinv(np, x),
)
_special(
    "Ndtri",
    "Quantile of the standard normal distribution; nan outside [0, 1].",
    _UNARY,
    FLOATS,
    lambda ctx, p: _ndtri(ctx.xp, p),
    _ndtri_gradient,
    lambda p: _ndtri(np, p),
)


# -------------------------------------------------------------------------------------------------------------- gamma
def _digamma(ctx, x):
    pole = (x <= 0) & (x == ctx.xp.floor(x))
    return ctx.xp.where(pole, ctx.xp.full_like(x, np.inf), ctx.lax.digamma(x))


def _igamma_slopes(op: Any) -> tuple[Any, Any]:
    a, x = op.inputs
    log = sub(sub(mul(sub(a, 1.0), build("Log", x)), x), build("Lgamma", a))
    return build("IgammaGradA", a, x), build("Exp", log)


def _no_second_gradient(op, grad):
    raise LookupError(
        errors.message(
            "the gradient of IgammaGradA: a second derivative of igamma by its first argument",
            "a first derivative, or one by the second argument",
            "tf.stop_gradient around the first argument",
        )
    )


def _igamma_gradient(op, grad):
    by_a, by_x = _igamma_slopes(op)
    return reduce_broadcast(*op.inputs, mul(by_a, grad), mul(by_x, grad))


def _igammac_gradient(op, grad):
    by_a, by_x = _igamma_slopes(op)
    return reduce_broadcast(*op.inputs, neg(mul(by_a, grad)), neg(mul(by_x, grad)))


def _betainc_gradient(op, grad):
    a, b, x = op.inputs
    log_beta = sub(add(build("Lgamma", a), build("Lgamma", b)), build("Lgamma", add(a, b)))
    log = add(build("Xlog1py", sub(b, 1.0), neg(x)), build("Xlogy", sub(a, 1.0), x))
    return [None, None, reduce_to_shape_of(mul(build("Exp", sub(log, log_beta)), grad), x)]


def _zeta_gradient(op, grad):
    x, q = op.inputs
    slope = mul(neg(x), build("Zeta", add(x, 1.0), q))
    return reduce_broadcast(x, q, None, mul(slope, grad))


def _polygamma_gradient(op, grad):
    a, x = op.inputs
    return reduce_broadcast(a, x, None, mul(build("Polygamma", add(a, 1.0), x), grad))


_special(
    "Lgamma",
    "Logarithm of `|gamma(x)|`; infinite at 0 and the negative integers.",
    _UNARY,
    FLOATS,
    _lax("lgamma"),
    lambda op, grad: mul(grad, build("Digamma", op.inputs[0])),
    numerics.host_lgamma,
)
_special(
    "Digamma",
    "Derivative of `lgamma`; inf at 0, the negative integers and -inf.",
    _UNARY,
    FLOATS,
    _digamma,
    lambda op, grad: mul(grad, build("Polygamma", 1.0, op.inputs[0])),
    numerics.host_digamma,
)
_special(
    "Igamma",
    "Lower regularised incomplete gamma function `P(a, x)`; 0 for `x = 0`, nan unless `a > 0` and `x >= 0`.",
    "a: T, x: T -> z: T",
    FLOATS,
    _igamma,
    _igamma_gradient,
)
_special(
    "Igammac",
    "Upper regularised incomplete gamma function `Q(a, x)`; nan unless `a > 0` and `x >= 0`.",
    "a: T, x: T -> z: T",
    FLOATS,
    _igammac,
    _igammac_gradient,
)
_special(
    "IgammaGradA",
    "Derivative of `igamma(a, x)` with respect to `a`.",
    "a: T, x: T -> z: T",
    "float double",
    _igamma_grad_a,
    _no_second_gradient,
)
_special(
    "Betainc",
    "Regularised incomplete beta function `I_x(a, b)`; nan unless `a > 0`, `b > 0` and `0 <= x <= 1`.",
    "a: T, b: T, x: T -> z: T",
    "float double",
    _betainc,
    _betainc_gradient,
    shape=_one_shape,
)
_special(
    "Zeta",
    "Hurwitz zeta function: the sum of `(q + n) ** -x`; nan for `x < 1`, infinite at 0 and the negative integers.",
    "x: T, q: T -> z: T",
    "float double",
    _zeta,
    _zeta_gradient,
)
_special(
    "Polygamma",
    "Derivative of order `a` of digamma.",
    "a: T, x: T -> z: T",
    "float double",
    _polygamma,
    _polygamma_gradient,
)


# ------------------------------------------------------------------------------------------------------------- Bessel
def _i0e_gradient(op, grad):
    x, y = op.inputs[0], op.outputs[0]
    return mul(grad, sub(build("BesselI1e", x), mul(build("Sign", x), y)))


def _i1e_gradient(op, grad):
    x, y = op.inputs[0], op.outputs[0]
    tiny = build("Less", build("Abs", x), float(np.finfo(np.float32).eps))
    safe = build("Select", tiny, build("OnesLike", x), x)
    slope = sub(build("BesselI0e", safe), mul(y, add(build("Sign", safe), reciprocal(safe))))
    return mul(grad, build("Select", tiny, add(zeros_like(x), 0.5), slope))


_special(
    "BesselI0e",
    "`exp(-|x|) * I0(x)`, the scaled modified Bessel function of order 0.",
    _UNARY,
    FLOATS,
    _lax("bessel_i0e"),
    _i0e_gradient,
)
_special(
    "BesselI1e",
    "`exp(-|x|) * I1(x)`, the scaled modified Bessel function of order 1.",
    _UNARY,
    FLOATS,
    _lax("bessel_i1e"),
    _i1e_gradient,
)
_special(
    "BesselI0",
    "`I0(x)`, the modified Bessel function of order 0.",
    _UNARY,
    FLOATS,
    lambda ctx, x: ctx.lax.bessel_i0e(x) * ctx.xp.exp(ctx.xp.abs(x)),
    lambda op, grad: mul(grad, build("BesselI1", op.inputs[0])),
)


def _i1_gradient(op, grad):
    x, y = op.inputs[0], op.outputs[0]
    zero = build("Equal", x, 0.0)
    safe = build("Select", zero, build("OnesLike", x), x)
    slope = sub(build("BesselI0", x), div(y, safe))
    return mul(grad, build("Select", zero, add(zeros_like(x), 0.5), slope))


_special(
    "BesselI1",
    "`I1(x)`, the modified Bessel function of order 1.",
    _UNARY,
    FLOATS,
    lambda ctx, x: ctx.lax.bessel_i1e(x) * ctx.xp.exp(ctx.xp.abs(x)),
    _i1_gradient,
)


# ------------------------------------------------------------------------------------------------------------- public
for _type, _names in {
    "Erf": "erf math.erf",
    "Erfc": "erfc math.erfc",
    "Erfinv": "math.erfinv",
    "Ndtri": "math.ndtri",
    "Lgamma": "lgamma math.lgamma",
    "Digamma": "digamma math.digamma",
    "BesselI0e": "math.bessel_i0e",
    "BesselI1e": "math.bessel_i1e",
    "BesselI0": "math.bessel_i0",
    "BesselI1": "math.bessel_i1",
}.items():
    unary_function(_type, *_names.split())
for _type in ("Igamma", "Igammac", "Zeta", "Polygamma", "Betainc"):
    public_op(_type, _type.lower(), f"math.{_type.lower()}")
