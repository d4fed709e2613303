"""Whole numbers of one range as those of another: what graphs do with the sums of quantised products.

Policy. Sums in 32 bits become bytes by TensorFlow's fixed-point arithmetic, to the last bit; other pairs of types by
way of the numbers that are stood for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Op, Type
from anabranch.ops.array import reshape
from anabranch.ops.math.quantize import GRID, WHOLE, limits, round_away

_F = np.float32
_SHIFT = 16


def _float_bounds(xp: Any, low: Any, high: Any, kind: np.dtype) -> tuple[Any, Any]:
    """What one step of whole numbers stands for, in float64, and where their least one lies."""
    steps = 2.0 ** (8 * kind.itemsize)
    low, high = xp.asarray(low).astype(np.float64), xp.asarray(high).astype(np.float64)
    step = (high - low) * (steps / (steps - 1.0)) / steps
    return step, round_away(xp, low / step) * step


def _values(xp: Any, x: Any, low: Any, high: Any) -> Any:
    """What whole numbers stand for (mode MIN_FIRST), in float64."""
    step, start = _float_bounds(xp, low, high, x.dtype)
    return start + (x.astype(np.float64) - limits(x.dtype)[0]) * step


def _requantized(xp: Any, x: Any, low: Any, high: Any, new_low: Any, new_high: Any, kind: np.dtype) -> Any:
    if x.dtype == np.int32 and kind == np.uint8:
        low, high, new_low, new_high = (xp.asarray(item).astype(np.float64) for item in (low, high, new_low, new_high))
        span = new_high - new_low
        ratio = xp.where(span == 0, 0.0, 255.0 * (1 << _SHIFT) / xp.where(span == 0, 1.0, span))
        scale = ((high - low) * ratio).astype(np.int64)
        offset = ((low + high) / 2 * ratio).astype(np.int64) - round_away(xp, new_low * ratio).astype(np.int64)
        value = ((x.astype(np.int64) * scale) >> 32) + offset + (1 << (_SHIFT - 1))
        return xp.clip(value >> _SHIFT, 0, 255).astype(kind)
    step, _ = _float_bounds(xp, new_low, new_high, kind)
    least, most = limits(kind)
    levels = round_away(xp, _values(xp, x, low, high) / step)
    levels = levels - round_away(xp, xp.asarray(new_low).astype(np.float64) / step) + least
    return xp.clip(levels, least, most).astype(kind)


def _used_range(ctx: Any, x: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The range that the numbers in ``x`` use, with 0 in it."""
    xp = ctx.xp
    if not x.size:
        return xp.asarray(_F(0)), xp.asarray(_F(0))
    ends = _values(xp, xp.stack([xp.min(x), xp.max(x)]), low, high)
    return xp.minimum(_F(0), ends[0].astype(_F)), ends[1].astype(_F)


def _scalars(c: Any, *names: str) -> None:
    for name in names:
        c.with_rank(name, 0)


class RequantizationRange(Op):
    """The range that the whole numbers of ``input`` use of ``input_min`` to ``input_max``."""

    signature = "input: Tinput, input_min: float, input_max: float -> output_min: float, output_max: float"
    attrs = {"Tinput": Type(WHOLE)}
    effect = PURE
    gradient = GRID

    def shape(c):
        _scalars(c, "input_min", "input_max")
        return [(), ()]

    def kernel(ctx, inputs, attrs):
        return _used_range(ctx, *inputs)


class Requantize(Op):
    """Whole numbers of one range as those of another."""

    signature = (
        "input: Tinput, input_min: float, input_max: float, requested_output_min: float, requested_output_max: float "
        "-> output: out_type, output_min: float, output_max: float"
    )
    attrs = {"Tinput": Type(WHOLE), "out_type": Type(WHOLE)}
    effect = PURE
    gradient = GRID

    def shape(c):
        _scalars(c, "input_min", "input_max", "requested_output_min", "requested_output_max")
        return [c.shapes[0], (), ()]

    def kernel(ctx, inputs, attrs):
        x, low, high, new_low, new_high = inputs
        ctx.check(new_low <= 0, errors.InvalidArgumentError, "requested_output_min must be <= 0, but got {0}", new_low)
        ctx.check(
            new_high >= new_low,
            errors.InvalidArgumentError,
            "requested_output_max must be >= requested_output_min, but got {0} and {1}",
            new_high,
            new_low,
        )
        return _requantized(ctx.xp, x, low, high, new_low, new_high, attrs["out_type"].np), new_low, new_high


class QuantizeDownAndShrinkRange(Op):
    """Whole numbers as those of a smaller type, of the range that they use."""

    signature = (
        "input: Tinput, input_min: float, input_max: float -> output: out_type, output_min: float, output_max: float"
    )
    attrs = {"Tinput": Type(WHOLE), "out_type": Type(WHOLE)}
    effect = PURE
    gradient = GRID

    def shape(c):
        _scalars(c, "input_min", "input_max")
        return [c.shapes[0], (), ()]

    def kernel(ctx, inputs, attrs):
        x, low, high = inputs
        new_low, new_high = _used_range(ctx, x, low, high)
        new_high = ctx.xp.maximum(new_high, new_low + _F(1e-6))
        return _requantized(ctx.xp, x, low, high, new_low, new_high, attrs["out_type"].np), new_low, new_high


class QuantizedReshape(Op):
    """Whole numbers in another shape; their range as it is."""

    signature = (
        "tensor: T, shape: Tshape, input_min: float, input_max: float "
        "-> output: T, output_min: float, output_max: float"
    )
    attrs = {"T": Type(), "Tshape": Type("int32 int64", "int32")}
    effect = PURE
    ranks = {"shape": 1}
    compile_time = ("shape",)
    gradient = GRID

    def shape(c):
        dims = c.vector("shape")
        if dims is None:
            return [None, (), ()]
        return [reshape.reshaped(c, c.shapes[0], dims), (), ()]

    def kernel(ctx, inputs, attrs):
        x, dims, low, high = inputs
        wanted = tuple(int(dim) for dim in np.asarray(dims))
        return x.reshape(reshape.run_time_shape(ctx, x.shape, wanted)), low, high
