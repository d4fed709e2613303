"""Numbers on a grid: fake quantisation with its gradients, quantisation to whole numbers and back.

Policy. Formulas are TensorFlow's, in float32, rounded as it rounds. The range of a fake quantisation is moved so that 0
lies on the grid; gradients pass where the input lies within that range, and what lies outside moves the bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, Float, Int, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes

_F = np.float32
WHOLE = "qint8 quint8 qint32 qint16 quint16"
_MODES = "MIN_COMBINED MIN_FIRST SCALED"
_FLOATS = "bfloat16 half float double"
GRID = NotDifferentiable("whole numbers have no gradient")
_SECOND = NotDifferentiable("TensorFlow has no second derivative of fake quantisation")
_FAKE = {"num_bits": Int(8), "narrow_range": Bool(False)}
_ARGS = {"min": Float(-6.0), "max": Float(6.0), **_FAKE}


# ---------------------------------------------------------------------------------------------------- fake quantisation
def _nudged(xp: Any, low: Any, high: Any, attrs: Any) -> tuple[Any, Any, Any]:
    """The range moved so that 0 is on the grid, and the step of the grid."""
    least, most = _F(1 if attrs["narrow_range"] else 0), _F((1 << attrs["num_bits"]) - 1)
    low, high = xp.asarray(low).astype(_F), xp.asarray(high).astype(_F)
    step = (high - low) / (most - least)
    zero = least - low / step
    # Half away from 0; what is not above 0 is clipped anyway.
    zero = xp.where(zero < least, least, xp.where(zero > most, most, xp.floor(zero + _F(0.5))))
    return (least - zero) * step, (most - zero) * step, step


def _fake(ctx: Any, x: Any, low: Any, high: Any, attrs: Any) -> Any:
    xp = ctx.xp
    down, up, step = _nudged(xp, low, high, attrs)
    inverse = _F(1) / step
    zero = xp.floor(-down * inverse + _F(0.5))
    clamped = xp.minimum(xp.maximum(x, down), up)
    level = (xp.floor((clamped - down) * inverse - zero + _F(0.5))) * step
    empty = (xp.asarray(low) == 0) & (xp.asarray(high) == 0)
    return xp.where(empty, _F(0), level).astype(_F)


def _passed(ctx: Any, x: Any, low: Any, high: Any, attrs: Any) -> tuple[Any, Any, Any]:
    """Where the input lies within, below and above the range."""
    xp = ctx.xp
    down, up, _ = _nudged(xp, low, high, attrs)
    empty = (xp.asarray(low) == 0) & (xp.asarray(high) == 0)
    inside = (x >= down) & (x <= up)
    return empty | inside, ~empty & (x < down), ~empty & (x > up)


def _check_bits(c: Any) -> None:
    if not 2 <= c.attrs["num_bits"] <= 16:
        raise ValueError(
            "num_bits must be between 2 and 16, inclusive\n"
            + errors.message(f"num_bits={c.attrs['num_bits']}", "a number of bits from 2 to 16", "num_bits=8")
        )


def _check_range(c: Any) -> None:
    _check_bits(c)
    if not c.attrs["min"] < c.attrs["max"]:
        raise ValueError(
            f"min has to be smaller than max, was: {c.attrs['min']} >= {c.attrs['max']}\n"
            + errors.message(f"min={c.attrs['min']}, max={c.attrs['max']}", "min < max", "min=-6.0, max=6.0")
        )


def _bounds(c: Any, per_channel: bool) -> None:
    _check_bits(c)
    for name in ("min", "max"):
        raw = c.with_rank(name, 1 if per_channel else 0)
        if per_channel:
            inputs = c.with_rank_at_least("inputs", 1)
            if inputs is not None:
                shapes.merge_dim(raw[0], inputs[-1])


def _filled(c: Any, per_channel: bool) -> list[Any]:
    _bounds(c, per_channel)
    whole = shapes.merge(c.shape("gradients"), c.shape("inputs"))
    size = () if not per_channel else (c.with_rank("min", 1)[0],)
    return [whole, size, size]


class FakeQuantWithMinMaxArgs(Op):
    """``inputs`` rounded to one of ``2 ** num_bits`` numbers from ``min`` to ``max``."""

    signature = "inputs: float -> outputs: float"
    attrs = dict(_ARGS)
    effect = PURE
    elementwise = True

    def shape(c):
        _check_range(c)
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        return _fake(ctx, inputs[0], _F(attrs["min"]), _F(attrs["max"]), attrs)

    def gradient(op, grad):
        options = {key: op.get_attr(key) for key in _ARGS}
        return [build("FakeQuantWithMinMaxArgsGradient", grad, op.inputs[0], **options)]


class FakeQuantWithMinMaxArgsGradient(Op):
    """The gradient of FakeQuantWithMinMaxArgs: what came in where the input lies within the range."""

    signature = "gradients: float, inputs: float -> backprops: float"
    attrs = dict(_ARGS)
    effect = PURE
    elementwise = True
    gradient = _SECOND

    def shape(c):
        _check_range(c)
        return shapes.merge(*c.shapes)

    def kernel(ctx, inputs, attrs):
        grad, x = inputs
        inside, _, _ = _passed(ctx, x, _F(attrs["min"]), _F(attrs["max"]), attrs)
        return ctx.xp.where(inside, grad, _F(0))


class FakeQuantWithMinMaxVars(Op):
    """FakeQuantWithMinMaxArgs with scalar tensors as bounds."""

    signature = "inputs: float, min: float, max: float -> outputs: float"
    attrs = dict(_FAKE)
    effect = PURE
    elementwise = True

    def shape(c):
        _bounds(c, False)
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        return _fake(ctx, *inputs, attrs)

    def gradient(op, grad):
        options = {key: op.get_attr(key) for key in _FAKE}
        return list(build("FakeQuantWithMinMaxVarsGradient", grad, *op.inputs, **options))


class FakeQuantWithMinMaxVarsGradient(Op):
    """The gradients of FakeQuantWithMinMaxVars by its input and its bounds."""

    signature = (
        "gradients: float, inputs: float, min: float, max: float "
        "-> backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float"
    )
    attrs = dict(_FAKE)
    effect = PURE
    gradient = _SECOND

    def shape(c):
        return _filled(c, False)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        grad, x, low, high = inputs
        parts = [xp.where(where, grad, _F(0)) for where in _passed(ctx, x, low, high, attrs)]
        return parts[0], xp.sum(parts[1], dtype=_F), xp.sum(parts[2], dtype=_F)


class FakeQuantWithMinMaxVarsPerChannel(Op):
    """FakeQuantWithMinMaxArgs with bounds for each place in the last dimension, ``[channels]``."""

    signature = "inputs: float, min: float, max: float -> outputs: float"
    attrs = dict(_FAKE)
    effect = PURE
    elementwise = True

    def shape(c):
        _bounds(c, True)
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        return _fake(ctx, *inputs, attrs)

    def gradient(op, grad):
        options = {key: op.get_attr(key) for key in _FAKE}
        return list(build("FakeQuantWithMinMaxVarsPerChannelGradient", grad, *op.inputs, **options))


class FakeQuantWithMinMaxVarsPerChannelGradient(Op):
    """The gradients of FakeQuantWithMinMaxVarsPerChannel by its input and its bounds."""

    signature = (
        "gradients: float, inputs: float, min: float, max: float "
        "-> backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float"
    )
    attrs = dict(_FAKE)
    effect = PURE
    gradient = _SECOND

    def shape(c):
        return _filled(c, True)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        grad, x, low, high = inputs
        parts = [xp.where(where, grad, _F(0)) for where in _passed(ctx, x, low, high, attrs)]
        axes = tuple(range(x.ndim - 1))
        return parts[0], xp.sum(parts[1], axis=axes, dtype=_F), xp.sum(parts[2], axis=axes, dtype=_F)


# -------------------------------------------------------------------------------------------------------- whole numbers
def limits(dtype: np.dtype) -> tuple[int, int]:
    """The least and the greatest whole number of a dtype."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def round_away(xp: Any, x: Any) -> Any:
    """To the nearest whole number, halves away from 0."""
    return xp.trunc(x + xp.copysign(xp.asarray(0.5, x.dtype), x))


def _by_axis(xp: Any, value: Any, axis: int, rank: int) -> Any:
    """Bounds along an axis, ready to meet a tensor of that rank; scalars if the axis is -1."""
    if axis < 0:
        return xp.reshape(value, ())
    return xp.reshape(value, [-1 if i == axis else 1 for i in range(rank)])


def _check_bounds(c: Any) -> Any:
    axis = c.attrs["axis"]
    raw = c.with_rank_at_least(0, axis + 1)
    size = raw[axis] if axis >= 0 and raw is not None else None
    for name in ("min_range", "max_range"):
        if axis < 0:
            raw = c.shape(name)
            if raw is not None and len(raw) > 1:
                c.with_rank(name, 0)
        else:
            size = shapes.merge_dim(size, c.with_rank(name, 1)[0])
    return () if axis < 0 else (size,)


def _quantized(ctx: Any, inputs: Any, attrs: Any) -> Any:
    xp = ctx.xp
    x, given_low, given_high = inputs
    kind = attrs["T"].np
    least, most = limits(kind)
    signed = least < 0
    ctx.check(
        xp.all(xp.asarray(given_low) <= xp.asarray(given_high)),
        errors.InvalidArgumentError,
        "Maximum of the range must be at least the minimum",
    )
    low = xp.minimum(_F(0), given_low)
    epsilon = xp.maximum(_F(1), xp.maximum(xp.abs(given_low), xp.abs(given_high))) * _F(attrs["ensure_minimum_range"])
    high = xp.maximum(_F(0), xp.maximum(given_high, low + epsilon))
    axis = attrs["axis"]

    def spread(value: Any) -> Any:
        return _by_axis(xp, value, axis, x.ndim)

    if attrs["mode"] == "MIN_FIRST":
        steps = 2.0 ** (8 * kind.itemsize)
        wide_low, wide_high = (spread(item).astype(np.float64) for item in (low, high))
        scale = steps / ((wide_high - wide_low) * (steps / (steps - 1.0)))
        if kind.itemsize < 4:
            levels = round_away(xp, x.astype(np.float64) * scale) - round_away(xp, wide_low * scale) + least
            levels = xp.clip(levels, least, most)
        else:  # all in float32, whose largest number of the range is 127 below the end
            narrow = scale.astype(_F)
            levels = round_away(xp, x * narrow) - (round_away(xp, wide_low.astype(_F) * narrow) - _F(least))
            levels = xp.clip(levels, _F(least), np.nextafter(_F(most), _F(0)))
    elif attrs["mode"] == "MIN_COMBINED":
        scale = (_F(float(most) - float(least)) / (high - low)).astype(_F)
        clamped = xp.maximum(xp.minimum(x, spread(high)), spread(low))
        shifted = (clamped - spread(low)) * spread(scale)
        if signed:
            levels = round_away(xp, shifted - _F((float(most) - float(least) + 1) / 2))
        else:
            levels = xp.floor(shifted + _F(0.5))
        levels = xp.clip(levels.astype(np.float64), least, most)
    else:
        bottom = _F(least + 1 if attrs["narrow_range"] else least)
        largest = np.finfo(_F).max
        from_low = xp.where(bottom * low > 0, bottom / xp.where(low == 0, _F(1), low), largest)
        from_high = xp.where(high > 0, _F(most) / xp.where(high == 0, _F(1), high), largest)
        scale = xp.minimum(from_low, from_high)
        low, high = bottom / scale, _F(most) / scale
        clamped = xp.maximum(xp.minimum(x, spread(high)), spread(low)) * spread(scale)
        even = attrs["round_mode"] == "HALF_TO_EVEN"
        levels = xp.clip((xp.round(clamped) if even else round_away(xp, clamped)).astype(np.float64), least, most)
    shape = () if axis < 0 else (-1,)
    bounds = [xp.reshape(item, shape).astype(_F) for item in (low, high)]
    return (levels.astype(kind), *bounds)


class QuantizeV2(Op):
    """``input`` as whole numbers of the range of ``T`` that stand for ``min_range`` to ``max_range``, and the range.

    The range is widened to hold 0 and to ``ensure_minimum_range``. With ``axis`` each place along it has its own range.
    """

    signature = "input: float, min_range: float, max_range: float -> output: T, output_min: float, output_max: float"
    attrs = {
        "T": Type(WHOLE),
        "mode": String("MIN_COMBINED", allowed=_MODES),
        "round_mode": String("HALF_AWAY_FROM_ZERO", allowed="HALF_AWAY_FROM_ZERO HALF_TO_EVEN"),
        "narrow_range": Bool(False),
        "axis": Int(-1),
        "ensure_minimum_range": Float(0.01),
    }
    effect = PURE
    gradient = GRID

    def shape(c):
        bounds = _check_bounds(c)
        mode = c.attrs["mode"]
        if c.attrs["round_mode"] == "HALF_TO_EVEN" and mode != "SCALED":
            raise ValueError(
                "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED'\n"
                + errors.message(
                    f"mode={mode!r} with HALF_TO_EVEN", "mode='SCALED'", "round_mode='HALF_AWAY_FROM_ZERO'"
                )
            )
        return [c.shapes[0], bounds, bounds]

    def kernel(ctx, inputs, attrs):
        return _quantized(ctx, inputs, attrs)


class Dequantize(Op):
    """The numbers that the whole numbers of QuantizeV2 stand for."""

    signature = "input: T, min_range: float, max_range: float -> output: dtype"
    attrs = {
        "T": Type(WHOLE),
        "mode": String("MIN_COMBINED", allowed=_MODES),
        "narrow_range": Bool(False),
        "axis": Int(-1),
        "dtype": Type("bfloat16 float", "float"),
    }
    effect = PURE
    gradient = GRID

    def shape(c):
        _check_bounds(c)
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        x, low, high = inputs
        kind = attrs["T"].np
        least, most = limits(kind)
        low, high = (_by_axis(xp, item, attrs["axis"], x.ndim) for item in (low, high))
        if attrs["mode"] == "MIN_COMBINED":
            half = _F((float(most) - float(least) + 1) / 2) if least < 0 else _F(0)
            scale = (high - low) / _F(float(most) - float(least))
            numbers = (x.astype(_F) + half) * scale + low
        elif attrs["mode"] == "MIN_FIRST":
            steps = 2.0 ** (8 * kind.itemsize)
            wide_low, wide_high = low.astype(np.float64), high.astype(np.float64)
            scale = (wide_high - wide_low) * (steps / (steps - 1.0)) / steps
            start = xp.where(wide_low == wide_high, wide_low, round_away(xp, wide_low / scale) * scale)
            numbers = xp.where(wide_low == wide_high, wide_low, start + (x.astype(np.float64) - least) * scale)
        else:
            bottom = _F(least + 1 if attrs["narrow_range"] else least)
            scale = high / _F(most)
            scale = scale if least == 0 else xp.maximum(low / bottom, scale)
            numbers = x.astype(_F) * scale
        return numbers.astype(_F).astype(attrs["dtype"].np)


# ------------------------------------------------------------------------------------------------- there and back again
def _there_and_back(ctx: Any, x: Any, low: Any, high: Any, bits: Any, attrs: Any) -> Any:
    xp = ctx.xp
    kind = x.dtype
    wide_kind = np.float64 if kind == np.float64 else _F
    axis = attrs.get("axis", -1)
    given = attrs["range_given"]
    if not given:
        axes = None if axis < 0 else tuple(i for i in range(x.ndim) if i != axis)
        low, high = (function(x, axis=axes) if x.size else xp.zeros((), kind) for function in (xp.min, xp.max))
    else:
        ctx.check(
            xp.all(low <= high), errors.InvalidArgumentError, "Invalid range: input_min must be at most input_max"
        )
    low, high = (_by_axis(xp, xp.asarray(item), axis, x.ndim).astype(wide_kind) for item in (low, high))
    bits = xp.asarray(bits).astype(wide_kind)
    if attrs["signed_input"]:
        least = -xp.exp2(bits - 1) + wide_kind(1 if attrs.get("narrow_range") else 0)
        most = xp.exp2(bits - 1) - 1
    else:
        least, most = xp.zeros_like(bits), xp.exp2(bits) - 1
    largest = np.finfo(wide_kind).max
    from_low = xp.where(least * low > 0, least / xp.where(low == 0, wide_kind(1), low), largest)
    from_high = xp.where(most * high > 0, most / xp.where(high == 0, wide_kind(1), high), largest)
    by_low = from_low < from_high
    scale = xp.minimum(from_low, from_high)
    safe = xp.where(least == 0, wide_kind(1), least)
    inverse = xp.where(by_low, low / safe, high / most)
    high = xp.where(by_low, most * inverse, high)
    low = xp.where(by_low, low, least * inverse)
    wide = x.astype(wide_kind)
    clamped = xp.minimum(xp.maximum(wide, low.astype(wide.dtype)), high.astype(wide.dtype)) if given else wide
    scaled = clamped * scale.astype(wide.dtype)
    rounded = xp.floor(scaled + 0.5) if attrs.get("round_mode") == "HALF_UP" else xp.round(scaled)
    return (rounded * inverse.astype(wide.dtype)).astype(kind)


def _check_there(c: Any) -> Any:
    axis = c.attrs.get("axis", -1)
    bits = c.attrs.get("num_bits")
    if bits is not None and not (1 if not c.attrs["signed_input"] else 2) <= bits < 63:
        raise ValueError(errors.message(f"num_bits={bits}", "a number of bits from 2 to 62", "num_bits=8"))
    raw = c.shapes[0]
    if raw is not None and not -1 <= axis < max(len(raw), 1):
        raise ValueError(
            "Axis must be at least -1, and smaller than the rank\n"
            + errors.message(f"axis={axis} of rank {len(raw)}", f"-1 to {len(raw) - 1}", "axis=-1")
        )
    return raw


class QuantizeAndDequantize(Op):
    """QuantizeAndDequantizeV2 with the range as attributes."""

    signature = "input: T -> output: T"
    attrs = {
        "signed_input": Bool(True),
        "num_bits": Int(8),
        "range_given": Bool(False),
        "input_min": Float(0.0),
        "input_max": Float(0.0),
        "T": Type(_FLOATS),
    }
    effect = PURE
    shape = _check_there

    def kernel(ctx, inputs, attrs):
        low, high = (np.asarray(attrs[key], inputs[0].dtype) for key in ("input_min", "input_max"))
        return _there_and_back(ctx, inputs[0], low, high, attrs["num_bits"], attrs)

    def gradient(op, grad):
        return [grad]


class QuantizeAndDequantizeV2(Op):
    """``input`` rounded to one of ``2 ** num_bits`` numbers of the range, that of the input if none is given."""

    signature = "input: T, input_min: T, input_max: T -> output: T"
    attrs = {
        "signed_input": Bool(True),
        "num_bits": Int(8),
        "range_given": Bool(False),
        "T": Type(_FLOATS),
        "round_mode": String("HALF_TO_EVEN", allowed="HALF_TO_EVEN HALF_UP"),
        "narrow_range": Bool(False),
        "axis": Int(-1),
    }
    effect = PURE
    shape = _check_there

    def kernel(ctx, inputs, attrs):
        x, low, high = inputs
        return _there_and_back(ctx, x, low, high, attrs["num_bits"], attrs)

    def gradient(op, grad):
        return [grad, None, None]


class QuantizeAndDequantizeV3(Op):
    """QuantizeAndDequantizeV2 with the number of bits as an operand."""

    signature = "input: T, input_min: T, input_max: T, num_bits: int32 -> output: T"
    attrs = {
        "signed_input": Bool(True),
        "range_given": Bool(True),
        "T": Type(_FLOATS),
        "narrow_range": Bool(False),
        "axis": Int(-1),
    }
    effect = PURE
    shape = _check_there

    def kernel(ctx, inputs, attrs):
        x, low, high, bits = inputs
        return _there_and_back(ctx, x, low, high, bits, attrs)

    def gradient(op, grad):
        return [grad, None, None, None]
