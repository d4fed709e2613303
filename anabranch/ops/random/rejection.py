"""Gamma and Poisson numbers, by rejection: each element has a stretch of 256 blocks of the stream to itself.

All elements try at once, and those that were refused try again with their next words, until none is left. Everything is
computed in float64, so that both tiers refuse the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, RANDOM, Int, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes
from anabranch.ops.random.distributions import RESERVED, Stream, kept, normal_pairs, uniform_pairs
from anabranch.ops.random.streams import DRAWN, checked_dims, dims_of, shape_of
from anabranch.ops.shared import numerics
from anabranch.ops.shared.broadcast_gradients import reduce_to_shape_of


def _shape(parameter: str) -> Callable[[Any], Any]:
    def shape(c: Any) -> Any:
        dims, inner = shape_of(c), c.shape(parameter)
        return None if dims is None or inner is None else (*dims, *inner)

    return shape


def _consumes(parameter: str) -> Callable[[Any], int]:
    def consumes(c: Any) -> int:
        return math.prod(dims_of(c.value("shape"))) * math.prod(c.shape(parameter)) * RESERVED

    return consumes


def until_accepted(ctx: Any, attempt: Any, fixed: tuple[Any, ...], state: tuple[Any, ...], pending: Any) -> Any:
    """Repeat ``attempt(fixed, state) -> (state, values, accepted)`` for the elements that are pending.

    ``fixed`` and ``state`` are arrays ``[elements]``.
    """
    if ctx.host:
        values = np.zeros(pending.shape, np.float64)
        places = np.flatnonzero(pending)
        fixed, state = tuple(a[places] for a in fixed), tuple(a[places] for a in state)
        while places.size:
            state, candidate, accepted = attempt(fixed, state)
            values[places[accepted]] = candidate[accepted]
            places = places[~accepted]
            fixed, state = tuple(a[~accepted] for a in fixed), tuple(a[~accepted] for a in state)
        return values
    xp = ctx.xp

    def body(carry: Any) -> Any:
        before, values, waiting = carry
        after, candidate, accepted = attempt(fixed, before)
        return after, xp.where(waiting & accepted, candidate, values), waiting & ~accepted

    start = (state, xp.zeros(pending.shape, np.float64), pending)
    return ctx.lax.while_loop(lambda carry: xp.any(carry[2]), body, start)[1]


def _if_any(ctx: Any, wanted: Any, make: Callable[[], tuple[Any, ...]], others: tuple[Any, ...]) -> tuple[Any, ...]:
    """What ``make`` gives; ``others``, arrays alike, where nobody wants it."""
    if ctx.host:
        return make() if wanted.any() else others
    return ctx.lax.cond(ctx.xp.any(wanted), make, lambda: others)


class _Tape:
    """Two kinds of float64 numbers, normal and uniform, that elements take from their stretches a block at a time.

    As in TensorFlow each kind takes a block when it has no number left, and gives the block's second number first.
    """

    def __init__(self, ctx: Any, stream: Stream, start: Any, state: tuple[Any, ...]):
        self._ctx, self._stream, self._start = ctx, stream, start
        self._used, *kinds = state
        self._kinds = [kinds[:2], kinds[2:]]

    @staticmethod
    def empty(xp: Any, count: int) -> tuple[Any, ...]:
        """The state before: blocks used; of each kind, the number that is left over, and whether one is."""
        nothing, number = xp.zeros((count,), bool), xp.zeros((count,), np.float64)
        return xp.zeros((count,), np.uint64), number, nothing, number, nothing

    def state(self) -> tuple[Any, ...]:
        """What to go on with."""
        return (self._used, *self._kinds[0], *self._kinds[1])

    def _take(self, kind: int, wanted: Any, make: Any) -> Any:
        xp = self._ctx.xp
        number, left = self._kinds[kind]
        fresh = wanted & ~left

        def draw() -> tuple[Any, Any]:
            places = self._start + self._used
            if not self._ctx.host or fresh.all():
                return kept(self._ctx, self._stream, *make(self._ctx, self._stream, places))
            pair = np.zeros((2, len(places)))
            pair[:, fresh] = make(self._ctx, self._stream, places[fresh])
            return pair[0], pair[1]

        first, second = _if_any(self._ctx, fresh, draw, (number, number))
        self._used = self._used + fresh.astype(np.uint64)
        self._kinds[kind] = [xp.where(fresh, first, number), xp.where(wanted, fresh, left)]
        return xp.where(fresh, second, number)

    def normal(self, wanted: Any) -> Any:
        """A normal number for each element that is ``wanted``."""
        return self._take(0, wanted, normal_pairs)

    def uniform(self, wanted: Any) -> Any:
        """A uniform number for each element that is ``wanted``."""
        return self._take(1, wanted, uniform_pairs)


def gamma(ctx: Any, stream: Stream, count: int, alpha: Any) -> Any:
    """``[len(alpha), count]`` numbers of the gamma distributions with shapes ``alpha`` and rate 1, float64.

    By the method of Marsaglia and Tsang (2000); for ``alpha < 1`` a number for ``alpha + 1`` is scaled down.
    """
    xp = ctx.xp
    shapes = xp.repeat(alpha.astype(np.float64), count)
    number = shapes.shape[0]
    start = xp.arange(number, dtype=np.uint64) * np.uint64(RESERVED)
    small = shapes < 1
    d = shapes + xp.where(small, 2.0 / 3, -1.0 / 3)
    c = 1.0 / 3 / xp.sqrt(d)

    def attempt(fixed: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, Any]:
        start, d, c, small, inverse = fixed
        tape = _Tape(ctx, stream, start, state)
        x = tape.normal(xp.ones(d.shape, bool))
        v = 1 + c * x
        possible = ~(v <= 0)
        v = v * v * v
        u = tape.uniform(possible)
        square = x * x
        squeezed = u < 1 - 0.0331 * square * square
        below = xp.log(u) < 0.5 * square + d * (1 - v + xp.log(xp.where(possible, v, 1.0)))
        accepted = possible & (squeezed | below)
        power = xp.where(small, xp.power(tape.uniform(accepted & small), inverse), 1.0)
        return tape.state(), d * v * power, accepted

    one = shapes == 1
    fixed = (start, d, c, small, 1.0 / shapes)
    samples = until_accepted(ctx, attempt, fixed, _Tape.empty(xp, number), ~one)
    exponential = -xp.log1p(-_Tape(ctx, stream, start, _Tape.empty(xp, number)).uniform(one))
    return xp.where(one, exponential, samples).reshape(-1, count)


class RandomGamma(Op):
    """Numbers of gamma distributions of rate 1: ``shape + alpha.shape``, of shape parameter ``alpha``."""

    signature = "shape: S, alpha: T -> output: T"
    attrs = {"seed": Int(0), "seed2": Int(0), "S": Type("int32 int64"), "T": Type("half float double")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = _shape("alpha")
    consumes = _consumes("alpha")

    def kernel(ctx, inputs, attrs):
        shape, alpha = inputs
        dims = checked_dims(ctx, shape)
        count = math.prod(dims)
        if count == 0 or alpha.size == 0:
            return ctx.xp.zeros((*dims, *alpha.shape), alpha.dtype)
        samples = gamma(ctx, ctx.philox, count, alpha.reshape(-1))
        return samples.T.astype(alpha.dtype).reshape((*dims, *alpha.shape))

    def gradient(op, grad):
        return [None, gamma_gradient(op.inputs[1], op.outputs[0], grad)]


def gamma_gradient(alpha: Any, sample: Any, grad: Any) -> Any:
    """The gradient of ``alpha`` from that of the gamma numbers that were drawn for it."""
    kind, given = alpha.dtype.base, alpha
    if kind == dtypes.float16:
        alpha, sample = build("Cast", alpha, DstT="float"), build("Cast", sample, DstT="float")
    slope = build("RandomGammaGrad", alpha, sample)
    slope = slope if kind != dtypes.float16 else build("Cast", slope, DstT="half")
    return reduce_to_shape_of(build("Mul", grad, slope), given)


class RandomGammaGrad(Op):
    """Derivative of a gamma-distributed ``sample`` with respect to its ``alpha``, by implicit differentiation.

    Shapes broadcast (Figurnov et al., 2018).
    """

    signature = "alpha: T, sample: T -> output: T"
    attrs = {"T": Type("float double")}
    effect = PURE
    shape = inference.elementwise
    gradient = NotDifferentiable("TensorFlow defines no second derivative of gamma numbers")

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return ctx.lax.random_gamma_grad(*ctx.xp.broadcast_arrays(*inputs))


_SMALL_RATE = 10.0


def _knuth(xp: Any, uniforms: Any, rate: Any, product: Any, count: Any) -> tuple[Any, Any, Any]:
    """Multiply uniform numbers until the product falls below ``exp(-rate)`` (Knuth): product, count, who is done."""
    bound = xp.exp(-rate)
    done = product < 0  # nobody: products of uniform numbers are not negative
    for u in uniforms:
        product = xp.where(done, product, product * u)
        done = done | (product <= bound)
        count = xp.where(done, count, count + 1)
    return product, count, done


def _transformed(ctx: Any, u: Any, v: Any, rate: Any, highest: float) -> tuple[Any, Any]:
    """Transformed rejection (Hormann, 1993), for rates from 10 on: the number of a pair, and whether it is accepted."""
    xp = ctx.xp
    rate = xp.maximum(rate, _SMALL_RATE)
    lgamma = numerics.host_lgamma if ctx.host else ctx.lax.lgamma
    b = 0.931 + 2.53 * xp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    shifted = 0.5 - xp.abs(u)
    k = xp.floor((2 * a / shifted + b) * u + rate + 0.43)
    inside = (shifted >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    outside = (k < 0) | ((shifted < 0.013) & (v > shifted))
    s = xp.log(v * inverse_alpha / (a / (shifted * shifted) + b))
    t = -rate + k * xp.log(rate) - lgamma(xp.maximum(k, 0.0) + 1)
    return k, (k <= highest) & (inside | (~outside & (s <= t)))


def poisson(ctx: Any, stream: Stream, count: int, rates: Any, highest: float) -> Any:
    """``[len(rates), count]`` numbers of Poisson distributions, float64, none above ``highest``."""
    xp = ctx.xp
    wide = xp.repeat(rates.astype(np.float64), count)
    number = wide.shape[0]
    start = xp.arange(number, dtype=np.uint64) * np.uint64(RESERVED)

    def attempt(fixed: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, Any]:
        start, rate = fixed
        used, product, so_far = state
        v, u = kept(ctx, stream, *uniform_pairs(ctx, stream, start + used))
        few = rate < _SMALL_RATE
        # Nobody whose rate is large is counted, and nobody whose rate is small is transformed.
        product, so_far, counted = _if_any(
            ctx, few, lambda: _knuth(xp, (u, v), rate, product, so_far), (product, so_far, few)
        )
        value, accepted = _if_any(ctx, ~few, lambda: _transformed(ctx, u - 0.5, v, rate, highest), (product, few))
        state = (used + np.uint64(1), product, so_far)
        return state, xp.where(few, so_far, value), xp.where(few, counted, accepted)

    fine = (wide >= 0) & (wide < np.inf) & (wide <= highest)  # others would be refused for ever
    state = (xp.zeros((number,), np.uint64), xp.ones((number,), np.float64), xp.zeros((number,), np.float64))
    samples = until_accepted(ctx, attempt, (start, wide), state, fine)
    return xp.where(fine, samples, xp.where(wide > highest, np.inf, np.nan)).reshape(-1, count)


class RandomPoissonV2(Op):
    """Numbers of Poisson distributions of mean ``rate``: ``shape + rate.shape``.

    In a floating dtype a negative rate gives nan and an infinite one inf; integers refuse both.
    """

    signature = "shape: S, rate: R -> output: dtype"
    attrs = {
        "seed": Int(0),
        "seed2": Int(0),
        "S": Type("int32 int64"),
        "R": Type("half float double int32 int64", default="double"),
        "dtype": Type("half float double int32 int64", default="int64"),
    }
    effect = RANDOM
    compile_time = ("shape",)
    shape = _shape("rate")
    consumes = _consumes("rate")
    gradient = DRAWN

    def kernel(ctx, inputs, attrs):
        shape, rate = inputs
        dims = checked_dims(ctx, shape)
        dtype = attrs["dtype"].np
        count = math.prod(dims)
        if count == 0 or rate.size == 0:
            return ctx.xp.zeros((*dims, *rate.shape), dtype)
        highest = float(np.iinfo(dtype).max if dtype.kind == "i" else np.finfo(dtype).max)
        if dtype.kind == "i":
            wide = rate.astype(np.float64)
            ctx.check(
                ((wide >= 0) & (wide < highest)).all(),
                errors.InvalidArgumentError,
                f"Poisson rates for {attrs['dtype'].name} must be at least 0 and below {highest:.4g}, got {{0}}",
                rate,
                summarize=3,
            )
        samples = poisson(ctx, ctx.philox, count, rate.reshape(-1), highest)
        return samples.T.astype(dtype).reshape((*dims, *rate.shape))
