"""Normal numbers of given means and deviations, between given bounds.

Policy. A number is the normal quantile of a uniform probability between those of its bounds, computed in float64 in the
lower tail: an interval above the mean is mirrored. So each number takes one draw, however narrow the interval is or
however far out it lies. Beyond 30 deviations, where probabilities leave float64, a number follows the tail's leading
term (Marsaglia, 1964, without its last rejection, which there would refuse one number in 900). TensorFlow rejects
numbers instead, hence its numbers for a seed are others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, RANDOM, Int, Op, Type
from anabranch.core.values import shapes
from anabranch.ops.random import distributions, philox
from anabranch.ops.random.stateless import check_seed, stream_of
from anabranch.ops.random.streams import DRAWN, checked_dims, dims_of, shape_of
from anabranch.ops.shared import numerics

_FAR = 30.0
_WIDEST = 1e15
"""Bounds in deviations are cut here: no number is drawn beyond, and squares stay finite."""


def _below(ctx: Any, x: Any) -> Any:
    """The probability below ``x``, float64."""
    scaled = x * -math.sqrt(0.5)
    return 0.5 * (numerics.host_erfc(scaled) if ctx.host else ctx.lax.erfc(scaled))


def _drawn(ctx: Any, stream: Any, parameters: list[Any], dims: tuple[int, ...], dtype: np.dtype) -> Any:
    """Numbers of shape ``dims`` for parameters ``means, deviations, lower and upper bounds`` that broadcast to it."""
    xp = ctx.xp
    count = math.prod(dims)
    mean, deviation, low, high = (xp.asarray(item).astype(np.float64) for item in parameters)
    good = (deviation > 0) & (low < high) & (xp.isfinite(low) | xp.isfinite(high))
    ctx.check(
        xp.all(good) if count else True,
        errors.InvalidArgumentError,
        "Invalid parameters: deviations must be above 0, minvals below maxvals, and one bound finite",
    )
    if count == 0:
        return xp.zeros(dims, dtype)
    width = xp.where(deviation > 0, deviation, 1.0)
    first = xp.clip((low - mean) / width, -_WIDEST, _WIDEST)
    last = xp.clip((high - mean) / width, -_WIDEST, _WIDEST)
    mirrored = first > 0
    first, last = xp.where(mirrored, -last, first), xp.where(mirrored, -first, last)
    drawn = philox.float64(xp, *philox.pairs(ctx, stream, count), philox.reinterpret(ctx)).reshape(dims)
    start, stop = _below(ctx, first), _below(ctx, last)
    probability = start + drawn * (stop - start)
    near = numerics.inverse_normal(xp, probability - 0.5, xp.minimum(probability, 1.0 - probability))
    square = last * last
    far = -xp.sqrt(square - 2 * xp.log1p(drawn * xp.expm1((square - first * first) / 2)))
    x = xp.clip(xp.where(last < -_FAR, far, near), first, last)
    values = mean + width * xp.where(mirrored, -x, x)
    return xp.clip(values, low, high).astype(dtype)


def _by_rows(ctx: Any, parameters: list[Any], dims: tuple[int, ...]) -> list[Any]:
    """Parameters of the first dimension, as what broadcasts against ``dims``."""
    rows = []
    for name, value in zip(("means", "stdevs", "minvals", "maxvals"), parameters, strict=True):
        fits = value.ndim == 0 or (value.ndim == 1 and value.shape[0] in (1, dims[0]))
        ctx.check(
            fits,
            errors.InvalidArgumentError,
            f"Input {name} should have length 1 or shape[0], got shape: {shapes.show(value.shape)}",
        )
        value = value if fits else value.reshape(-1)[:1]
        rows.append(value if value.ndim == 0 else value.reshape((-1,) + (1,) * (len(dims) - 1)))
    return rows


class ParameterizedTruncatedNormal(Op):
    """Normal numbers between bounds, of shape ``shape``; parameters are scalars, or one number for each row."""

    signature = "shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type("half bfloat16 float double"), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    gradient = DRAWN

    def shape(c):
        for name in ("means", "stdevs", "minvals", "maxvals"):
            given = c.shape(name)
            if given is not None and len(given) > 1:
                raise ValueError(
                    errors.message(
                        f"{name} of shape {shapes.show(given)}", "a scalar or a vector", "tf.reshape(x, [-1])"
                    )
                )
        return shape_of(c)

    def consumes(c):
        return math.prod(dims_of(c.value("shape"))) * distributions.RESERVED

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _rows_drawn(ctx, inputs, attrs)

    def host_kernel(ctx, inputs, attrs):
        return _rows_drawn(ctx, inputs, attrs)


def _rows_drawn(ctx: Any, inputs: Any, attrs: Any) -> Any:
    dims = checked_dims(ctx, inputs[0])
    ctx.check(len(dims) > 0, errors.InvalidArgumentError, "Shape must have at least one dimension")
    if not dims:
        return ctx.xp.zeros((), attrs["dtype"].np)
    return _drawn(ctx, ctx.philox, _by_rows(ctx, inputs[1:], dims), dims, attrs["dtype"].np)


class StatelessParameterizedTruncatedNormal(Op):
    """Normal numbers between bounds, of shape ``shape``, which the parameters broadcast to; a function of ``seed``."""

    signature = "shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, maxvals: dtype -> output: dtype"
    attrs = {
        "S": Type("int32 int64"),
        "Tseed": Type("int32 int64", default="int64"),
        "dtype": Type("half float double"),
    }
    effect = PURE
    compile_time = ("shape",)
    gradient = DRAWN

    def shape(c):
        check_seed(c)
        dims = shape_of(c)
        for name in ("means", "stddevs", "minvals", "maxvals"):
            if dims is not None and c.shape(name) is not None:
                shapes.broadcast(c.shape(name), dims)
        return dims

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _seeded(ctx, inputs, attrs)

    def host_kernel(ctx, inputs, attrs):
        return _seeded(ctx, inputs, attrs)


def _seeded(ctx: Any, inputs: Any, attrs: Any) -> Any:
    shape, seed, *parameters = inputs
    dims = checked_dims(ctx, shape)
    try:
        fits = np.broadcast_shapes(*(value.shape for value in parameters), dims) == dims
    except ValueError:
        fits = False
    ctx.check(
        fits,
        errors.InvalidArgumentError,
        f"Shape passed in must end with broadcasted shape: {[list(value.shape) for value in parameters]} for "
        f"{list(dims)}",
    )
    if not fits:
        return ctx.xp.zeros(dims, attrs["dtype"].np)
    return _drawn(ctx, stream_of(ctx, seed), parameters, dims, attrs["dtype"].np)
