"""Gamma, Poisson and binomial numbers that are functions of a seed: ``shape`` is that of the result, which ends with
the shape of the parameters.

Binomial numbers. With ``count * p`` below 10 the gaps between successes are drawn, as geometric numbers, until they
exceed the count; else transformed rejection (Hormann, 1993), like the Poisson numbers of large rates. A probability
above one half counts the failures.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.random.distributions import RESERVED, Stream, kept, uniform_pairs
from anabranch.ops.random.rejection import gamma, gamma_gradient, poisson, until_accepted
from anabranch.ops.random.stateless import check_seed, stream_of
from anabranch.ops.random.streams import DRAWN, checked_dims, shape_of

_FEW = 10.0
"""Expected successes below which the gaps between them are drawn."""
_TAILS = np.array(
    [math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + k + 1 - 0.5 * math.log(2 * math.pi) for k in range(10)]
)
"""What Stirling's formula for ``log(k!)`` leaves out, for the numbers below 10."""


def _tail(xp: Any, k: Any) -> Any:
    """The same for any number that is not negative, by the series from 10 on."""
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return xp.where(k <= 9, xp.asarray(_TAILS)[xp.clip(k, 0, 9).astype(np.int32)], series)


def _transformed(xp: Any, u: Any, v: Any, count: Any, p: Any) -> tuple[Any, Any]:
    """The number of a pair of uniform ones, and whether it is accepted."""
    deviation = xp.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    r = p / (1 - p)
    middle = xp.floor((count + 1) * p)
    u = u - 0.5
    shifted = 0.5 - xp.abs(u)
    k = xp.floor((2 * a / shifted + b) * u + (count * p + 0.5))
    inside = (shifted >= 0.07) & (v <= 0.92 - 4.2 / b)
    possible = (k >= 0) & (k <= count)
    k_or_0 = xp.where(possible, k, 0.0)
    bound = (
        (middle + 0.5) * xp.log((middle + 1) / (r * (count - middle + 1)))
        + (count + 1) * xp.log((count - middle + 1) / (count - k_or_0 + 1))
        + (k_or_0 + 0.5) * xp.log(r * (count - k_or_0 + 1) / (k_or_0 + 1))
        + _tail(xp, middle)
        + _tail(xp, count - middle)
        - _tail(xp, k_or_0)
        - _tail(xp, count - k_or_0)
    )
    level = xp.log(v * ((2.83 + 5.1 / b) * deviation) / (a / (shifted * shifted) + b))
    return k, inside | (possible & (level <= bound))


def binomial(ctx: Any, stream: Stream, samples: int, counts: Any, probabilities: Any) -> Any:
    """``[len(counts), samples]`` numbers of successes in ``counts`` trials of such probabilities, float64.

    NaN for a parameter that is NaN, 0 for a count or probability that is not positive.
    """
    xp = ctx.xp
    count = xp.repeat(counts.astype(np.float64), samples)
    given = xp.repeat(probabilities.astype(np.float64), samples)
    number = count.shape[0]
    start = xp.arange(number, dtype=np.uint64) * np.uint64(RESERVED)
    turned = given > 0.5
    p = xp.where(turned, 1 - given, given)

    def attempt(fixed: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, Any]:
        start, count, p, few = fixed
        used, gone, successes = state
        v, u = kept(ctx, stream, *uniform_pairs(ctx, stream, start + used))
        done = gone > count
        for uniform in (u, v):
            gone = xp.where(done, gone, gone + xp.ceil(xp.log(uniform) / xp.log1p(-p)))
            over = gone > count
            successes = xp.where(over, successes, successes + 1)
            done = over
        value, accepted = _transformed(xp, u, v, xp.where(few, 100.0, count), xp.where(few, 0.5, p))
        state = (used + np.uint64(1), gone, successes)
        return state, xp.where(few, successes, value), xp.where(few, done, accepted)

    drawn = (count > 0) & (count < np.inf) & (p > 0) & (given < 1)
    state = (xp.zeros((number,), np.uint64), xp.zeros((number,), np.float64), xp.zeros((number,), np.float64))
    fixed = (start, count, xp.where(drawn, p, 0.5), count * p < _FEW)
    results = until_accepted(ctx, attempt, fixed, state, drawn)
    results = xp.where(turned & drawn, count - results, results)
    results = xp.where((given >= 1) & (count > 0), count, results)
    return xp.where(xp.isnan(count) | xp.isnan(given), np.nan, results).reshape(-1, samples)


def _shape(c: Any) -> Any:
    check_seed(c)
    return shape_of(c)


def _laid_out(ctx: Any, dims: tuple[int, ...], parameters: tuple[Any, ...], op: str) -> tuple[int, tuple[Any, ...]]:
    """How many numbers are drawn for each parameter, and the parameters ``[n]``."""
    inner = np.broadcast_shapes(*[parameter.shape for parameter in parameters])
    fits = dims[len(dims) - len(inner) :] == inner and len(inner) <= len(dims)
    ctx.check(
        fits,
        errors.InvalidArgumentError,
        f"Shape passed in must end with broadcasted shape: {op} of shape {list(dims)} for parameters of shape "
        f"{list(inner)}",
    )
    count = math.prod(dims[: len(dims) - len(inner)]) if fits else 0
    return count, tuple([ctx.xp.broadcast_to(parameter, inner).reshape(-1) for parameter in parameters])


class StatelessRandomGammaV2(Op):
    """Numbers of gamma distributions of shape parameter ``alpha`` and rate 1, a function of ``seed``.

    ``shape`` is that of the result, and ends with that of ``alpha``.
    """

    signature = "shape: T, seed: Tseed, alpha: dtype -> output: dtype"
    attrs = {
        "dtype": Type("half float double"),
        "T": Type("int32 int64"),
        "Tseed": Type("int32 int64", default="int64"),
    }
    effect = PURE
    compile_time = ("shape",)
    shape = _shape

    def kernel(ctx, inputs, attrs):
        shape, seed, alpha = inputs
        dims = checked_dims(ctx, shape)
        count, (alpha,) = _laid_out(ctx, dims, (alpha,), "gamma numbers")
        if count == 0 or alpha.size == 0:
            return ctx.xp.zeros(dims, alpha.dtype)
        return gamma(ctx, stream_of(ctx, seed), count, alpha).T.astype(alpha.dtype).reshape(dims)

    def gradient(op, grad):
        return [None, None, gamma_gradient(op.inputs[2], op.outputs[0], grad)]


class StatelessRandomPoisson(Op):
    """Numbers of Poisson distributions of mean ``lam``, a function of ``seed``; ``shape`` ends with that of ``lam``."""

    signature = "shape: T, seed: Tseed, lam: Rtype -> output: dtype"
    attrs = {
        "Rtype": Type("half float double int32 int64"),
        "dtype": Type("half float double int32 int64"),
        "T": Type("int32 int64"),
        "Tseed": Type("int32 int64", default="int64"),
    }
    effect = PURE
    compile_time = ("shape",)
    shape = _shape
    gradient = DRAWN

    def kernel(ctx, inputs, attrs):
        shape, seed, rates = inputs
        dims, dtype = checked_dims(ctx, shape), attrs["dtype"].np
        count, (rates,) = _laid_out(ctx, dims, (rates,), "Poisson numbers")
        if count == 0 or rates.size == 0:
            return ctx.xp.zeros(dims, dtype)
        highest = float(np.iinfo(dtype).max if dtype.kind == "i" else np.finfo(dtype).max)
        return poisson(ctx, stream_of(ctx, seed), count, rates, highest).T.astype(dtype).reshape(dims)


class StatelessRandomBinomial(Op):
    """Numbers of successes in ``counts`` trials of probability ``probs``, a function of ``seed``.

    ``shape`` is that of the result, and ends with that to which ``counts`` and ``probs`` broadcast.
    """

    signature = "shape: S, seed: Tseed, counts: T, probs: T -> output: dtype"
    attrs = {
        "S": Type("int32 int64"),
        "Tseed": Type("int32 int64", default="int64"),
        "T": Type("half float double int32 int64", default="double"),
        "dtype": Type("half float double int32 int64", default="int64"),
    }
    effect = PURE
    compile_time = ("shape",)
    shape = _shape
    gradient = DRAWN

    def kernel(ctx, inputs, attrs):
        shape, seed, counts, probabilities = inputs
        dims, dtype = checked_dims(ctx, shape), attrs["dtype"].np
        number, (counts, probabilities) = _laid_out(ctx, dims, (counts, probabilities), "binomial numbers")
        if number == 0 or counts.size == 0:
            return ctx.xp.zeros(dims, dtype)
        return binomial(ctx, stream_of(ctx, seed), number, counts, probabilities).T.astype(dtype).reshape(dims)


# -------------------------------------------------------------------------------------------------------------- public
def _dims(shape: Any) -> Any:
    return convert_to_tensor(shape, dtypes.int32 if isinstance(shape, (list, tuple)) else None, "shape")


@public("random.stateless_gamma")
def stateless_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Any:
    """Numbers of gamma distributions, a function of ``seed``; differentiable in ``alpha`` and ``beta``.

    Args:
        shape: shape of the result, which ends with that to which ``alpha`` and ``beta`` broadcast.
        seed: two integers.
        alpha: shapes of the distributions, above 0.
        beta: their rates, 1 if None.
        dtype: float16, float32 or float64.
        name: name of the scope.
    """
    dtype = dtypes.as_dtype(dtype)
    with name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]):
        alpha = convert_to_tensor(alpha, dtype, "alpha")
        beta = convert_to_tensor(1 if beta is None else beta, dtype, "beta")
        everywhere = build("AddV2", alpha, build("ZerosLike", beta), name="add")
        assert dtype.np is not None
        drawn = build("StatelessRandomGammaV2", _dims(shape), seed, everywhere)
        return build("Maximum", float(np.finfo(dtype.np).tiny), build("RealDiv", drawn, beta))


@public("random.stateless_poisson")
def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: str | None = None) -> Any:
    """Numbers of Poisson distributions of mean ``lam``, a function of ``seed``.

    Args:
        shape: shape of the result, which ends with that of ``lam``.
        seed: two integers.
        lam: means, at least 0.
        dtype: float16, float32, float64, int32 or int64.
        name: name of the scope.
    """
    with name_scope(name, "stateless_random_poisson", [shape, seed, lam]):
        return build("StatelessRandomPoisson", _dims(shape), seed, lam, dtype=dtype)


@public("random.stateless_binomial")
def stateless_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32, name: str | None = None
) -> Any:
    """Numbers of successes in ``counts`` trials of probability ``probs``, a function of ``seed``.

    Args:
        shape: shape of the result, which ends with that to which ``counts`` and ``probs`` broadcast.
        seed: two integers.
        counts: numbers of trials.
        probs: probabilities of success, of the dtype of ``counts``.
        output_dtype: float16, float32, float64, int32 or int64.
        name: name of the scope.
    """
    with name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]):
        probs = convert_to_tensor(probs, name="probs")
        counts = convert_to_tensor(counts, dtype_hint=probs.dtype.base, name="counts")
        if counts.dtype.base != probs.dtype.base:
            counts = build("Cast", counts, DstT=probs.dtype.base)
        return build("StatelessRandomBinomial", _dims(shape), seed, counts, probs, dtype=output_dtype)
