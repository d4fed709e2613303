"""Counts of integers and of numbers in bins of equal width.

Policy. Bins are found in double precision whatever the type of the numbers, as TensorFlow does it, so that both tiers
agree on every count. The number of bins is known when XLA compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.shared.array_rules import known, like, refuse, require

_COUNT = NotDifferentiable("a count is an integer, and TensorFlow gives weights no gradient")


class Bincount(Op):
    """How often each of `0 ... size - 1` occurs in `arr`, or the sum of its `weights`: `[size]`. Larger numbers are
    left out.

    `weights` has the shape of `arr`, or no elements, which stands for ones.
    """

    signature = "arr: int32, size: int32, weights: T -> bins: T"
    attrs = {"T": Type("int32 int64 float double")}
    effect = PURE
    compile_time = ("size",)
    gradient = _COUNT

    def shape(c):
        if c.shapes[1] not in (None, ()):
            c.with_rank(1, 0)
        size = c.scalar(1)
        if size is not None and size < 0:
            refuse(c, f"size = {size}", "0 or more", "count the bins", f"size ({size}) must be non-negative")
        return (None if size is None else int(size),)

    def kernel(ctx, inputs, attrs):
        values, size, weights = inputs
        xp = ctx.xp
        size = int(np.asarray(size).reshape(()))
        require(ctx, size >= 0, "size ({0}) must be non-negative", size)
        count = int(np.prod(values.shape, dtype=np.int64))
        given = int(np.prod(weights.shape, dtype=np.int64))
        require(ctx, given in (0, count), "Input indices and weights must have the same size.")
        out = xp.zeros((size,), weights.dtype)
        if count == 0:
            return out
        flat = xp.reshape(values, (-1,))
        ctx.check(xp.all(flat >= 0), errors.InvalidArgumentError, "Input arr must be non-negative!")
        amounts = xp.reshape(weights, (-1,)) if given else xp.ones((count,), weights.dtype)
        if ctx.host:
            used = flat < size
            np.add.at(out, flat[used], amounts[used])
            return out
        return out.at[xp.where(flat < 0, size, flat)].add(amounts, mode="drop")


class HistogramFixedWidth(Op):
    """How many `values` are in each of `nbins` bins of equal width from `value_range[0]` to `value_range[1]`:
    `[nbins]`.

    Values outside the range count in the first or last bin.
    """

    signature = "values: T, value_range: T, nbins: int32 -> out: dtype"
    attrs = {"T": Type("int32 int64 float double"), "dtype": Type("int32 int64", "int32")}
    effect = PURE
    compile_time = ("nbins",)
    gradient = _COUNT

    def shape(c):
        pair = c.with_rank(1, 1)
        if pair[0] not in (None, 2):
            refuse(c, f"value_range of {pair[0]} elements", "two, lowest and highest", "value_range=[low, high]")
        if c.shapes[2] not in (None, ()):
            c.with_rank(2, 0)
        bins = c.scalar(2)
        if bins is not None and bins <= 0:
            refuse(c, f"nbins = {bins}", "1 or more", "choose a number of bins", f"Requires nbins > 0: {bins}")
        return (None if bins is None else int(bins),)

    def kernel(ctx, inputs, attrs):
        values, limits, bins = inputs
        xp = ctx.xp
        bins = int(np.asarray(bins).reshape(()))
        require(ctx, bins > 0, "nbins should be a positive number, but got '{0}'", bins)
        require(ctx, limits.shape == (2,), "value_range should be a vector of two elements.")
        out = xp.zeros((bins,), attrs["dtype"].np)
        place = bin_of(ctx, values, limits, bins, np.int32)
        if place.size == 0:
            return out
        one = attrs["dtype"].np.type(1)
        if ctx.host:
            np.add.at(out, place.ravel(), one)
            return out
        return out.at[xp.reshape(place, (-1,))].add(one, mode="drop")


def bin_of(ctx: Any, values: Any, limits: Any, bins: int, dtype: Any) -> Any:
    """The bin of each value; checks the range and that no value is NaN."""
    xp = ctx.xp
    low, high = limits[0], limits[1]
    ctx.check(
        low < high,
        errors.InvalidArgumentError,
        "value_range should satisfy value_range[0] < value_range[1], but got '[{0}, {1}]'",
        low,
        high,
    )
    if values.dtype.kind == "f":
        text = "Histogram values must not contain NaN"
        ctx.check(~xp.any(xp.isnan(values)), errors.InvalidArgumentError, text)
    width = (high - low).astype(np.float64) / np.float64(bins)
    above = (xp.maximum(values, low) - low).astype(np.float64) / width
    return xp.minimum(xp.where(above >= 0, above, 0.0), bins - 1).astype(dtype)


# -------------------------------------------------------------------------------------------------------------- public
@public("bincount", "math.bincount")
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Any:
    """How often each number from 0 on occurs in ``arr``.

    Args:
        arr: ints of at least 0.
        weights: what each counts, instead of 1; of the shape of ``arr``.
        minlength: number of counts at least.
        maxlength: number of counts at most; larger numbers are left out.
        dtype: type of the counts if there are no weights.
        name: name of the scope.

    Returns:
        ``[max(arr) + 1]`` (within the two limits).
    """
    with name_scope(name, "bincount", [arr]):
        tensor = convert_to_tensor(arr, name="arr")
        if tensor.dtype.base != dtypes.int32:
            tensor = build("Cast", tensor, DstT=dtypes.int32)
        amounts = convert_to_tensor(np.zeros(0), dtypes.as_dtype(dtype)) if weights is None else weights
        if minlength is not None:
            minlength = convert_to_tensor(minlength, dtypes.int32, name="minlength")
        if maxlength is not None:
            maxlength = convert_to_tensor(maxlength, dtypes.int32, name="maxlength")
        least, most = (None if limit is None else known(limit) for limit in (minlength, maxlength))
        if least is not None and most is not None and least >= most:  # whatever the numbers are
            return build("Bincount", tensor, maxlength, amounts)
        flat = build("Reshape", tensor, [-1])
        filled = build("Cast", build("Greater", build("Size", flat), 0), DstT=dtypes.int32)
        size = build("Mul", filled, build("Add", build("Max", flat, 0), 1, name="add"), name="mul")
        if minlength is not None:
            size = build("Maximum", minlength, size)
        if maxlength is not None:
            size = build("Minimum", maxlength, size)
        return build("Bincount", tensor, size, amounts)


@public("histogram_fixed_width")
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Any:
    """How many ``values`` are in each of ``nbins`` bins of equal width over ``value_range``, a pair: ``[nbins]``.

    Values outside the range count in the first or last bin.
    """
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        values = convert_to_tensor(values, name="values")
        return build("HistogramFixedWidth", values, value_range, nbins, dtype=dtypes.as_dtype(dtype), name=scope)


@public("histogram_fixed_width_bins")
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Any:
    """The bin of each of ``values``, of the shape of ``values``; see :func:`histogram_fixed_width`."""
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert_to_tensor(values, name="values")
        limits = convert_to_tensor(value_range, values.dtype.base, name="value_range")
        bins = convert_to_tensor(nbins, dtypes.int32, name="nbins")
        low, high = (build("StridedSlice", limits, [i], [i + 1], [1], shrink_axis_mask=1) for i in (0, 1))
        scaled = build("RealDiv", build("Sub", values, low), build("Sub", high, low))
        nbins_float = build("Cast", bins, DstT=scaled.dtype.base)
        place = build("Floor", build("Mul", nbins_float, scaled))
        zero, last = like(0, scaled), build("Sub", nbins_float, like(1, scaled))
        clipped = build("Minimum", build("Maximum", place, zero), last)
        return build("Cast", clipped, DstT=dtypes.as_dtype(dtype))
