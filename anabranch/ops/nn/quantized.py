"""Networks of whole numbers: products, sums, poolings and activations of numbers on a grid, each with its range.

Policy. A tensor of whole numbers stands for the reals of a range that travels beside it, as two scalars. Results are
TensorFlow's to the last bit. Products are summed without rounding (in float64, which holds whole numbers below 2**53)
and wrap around to 32 bits; the 32-bit range of a product follows from those of its factors. Where numbers move to
another range, formulas are those of TensorFlow's reference kernels, in float32 or float64 as there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.api import public_op
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, Bool, Cost, Int, List, Op, String, Type, define
from anabranch.core.values import dtypes, shapes
from anabranch.ops.math.quantize import GRID, WHOLE, limits, round_away
from anabranch.ops.nn.windows import conv2d, convolution_rules, pooling_rules

_F = np.float32
_CONVOLVED = convolution_rules.conv_shape(4)


# -------------------------------------------------------------------------------------------------------------- ranges
def _steps(kind: np.dtype) -> float:
    return 2.0 ** (8 * kind.itemsize)


def _zero_level(xp: Any, low: Any, high: Any, kind: np.dtype, value: float = 0.0) -> Any:
    """The whole number that stands for ``value``, int64; it may lie outside the dtype."""
    steps = _steps(kind)
    low, high = xp.asarray(low).astype(_F), xp.asarray(high).astype(_F)
    wide = (high - low).astype(np.float64) * (steps / (steps - 1.0))
    scale = steps / xp.where(wide == 0, 1.0, wide)
    level = round_away(xp, value * scale) - round_away(xp, low.astype(np.float64) * scale) + limits(kind)[0]
    return xp.where(wide == 0, 0.0, level).astype(np.int64)


def _one_level(xp: Any, low: Any, high: Any, kind: np.dtype) -> Any:
    """What one step of the grid stands for, float32."""
    least, most = limits(kind)
    return (xp.asarray(high).astype(_F) - xp.asarray(low).astype(_F)) / _F(float(most) - float(least))


def _product_range(xp: Any, first: tuple[Any, ...], second: tuple[Any, ...], kind: np.dtype) -> tuple[Any, Any]:
    """The range of a product, each factor as ``(low, high, dtype)``."""
    step = _one_level(xp, *first) * _one_level(xp, *second)
    least, most = limits(kind)
    return step * _F(least), step * _F(most)


def _sum_range(xp: Any, first: tuple[Any, Any], second: tuple[Any, Any], spare: int) -> tuple[Any, Any]:
    """The range of a sum, with ``spare`` bits to spare."""
    ends = [xp.asarray(end).astype(_F) for end in (first[1], -first[0], second[1], -second[0])]
    most = xp.maximum(xp.maximum(ends[0], ends[1]), xp.maximum(ends[2], ends[3])) * _F(1 << spare)
    return -most, most


def _reals(xp: Any, x: Any, low: Any, high: Any) -> Any:
    """What whole numbers stand for, computed in float32."""
    low, high = xp.asarray(low).astype(_F), xp.asarray(high).astype(_F)
    step = (high - low) / _F(_steps(x.dtype) - 1.0)
    start = xp.where(low == high, low, round_away(xp, low / xp.where(step == 0, _F(1), step)) * step)
    return (start - _F(limits(x.dtype)[0]) * step) + x.astype(_F) * step


def _levels(xp: Any, reals: Any, low: Any, high: Any, kind: np.dtype) -> Any:
    """The whole numbers of a range that are nearest to reals, computed in float32."""
    low, high = xp.asarray(low).astype(_F), xp.asarray(high).astype(_F)
    same = low == high
    scale = xp.where(same, _F(0), _F(_steps(kind) - 1.0) / xp.where(same, _F(1), high - low))
    least, most = limits(kind)
    levels = round_away(xp, reals * scale) - (round_away(xp, low * scale) - _F(least))
    top = np.nextafter(_F(most), _F(0)) if float(_F(most)) > most else _F(most)
    return xp.clip(levels, _F(least), top).astype(kind)


def _moved(xp: Any, x: Any, old: tuple[Any, Any], new: tuple[Any, Any], kind: np.dtype) -> Any:
    """Whole numbers of one range as those of another, computed in float64 by way of float32 reals."""
    low, high = (xp.asarray(end).astype(_F) for end in old)
    steps = _steps(x.dtype)
    step = (high - low).astype(np.float64) * (steps / (steps - 1.0)) / steps
    short = step.astype(_F).astype(np.float64)
    start = round_away(xp, low.astype(np.float64) / xp.where(short == 0, 1.0, short)) * short
    reals = (start + (x.astype(np.float64) - limits(x.dtype)[0]) * step).astype(_F).astype(np.float64)
    low, high = (xp.asarray(end).astype(_F) for end in new)
    steps = _steps(kind)
    wide = (high - low).astype(np.float64) * (steps / (steps - 1.0))
    scale = steps / xp.where(wide == 0, 1.0, wide)
    least, most = limits(kind)
    levels = round_away(xp, reals * scale) - round_away(xp, low.astype(np.float64) * scale) + least
    return xp.where(wide == 0, 0, xp.clip(levels, least, most)).astype(kind)


def _stepped(xp: Any, x: Any, old: tuple[Any, Any], new: tuple[Any, Any], kind: np.dtype) -> Any:
    """Like :func:`_moved`, with whole steps: from where 0 and 1 go to follows where all numbers go."""
    start, second = (_moved(xp, np.asarray(k, x.dtype), old, new, kind).astype(np.int64) for k in (0, 1))
    least, most = limits(kind)
    return xp.clip(start + x.astype(np.int64) * (second - start), least, most).astype(kind)


def _scalars(c: Any) -> None:
    for spec in c.definition.inputs:
        if spec.name.startswith(("min_", "max_")):
            c.with_rank(spec.name, 0)


def _kernel_of(ctx: Any, name: str) -> Any:
    definition = opdef.lookup(name)
    return definition.host_kernel if ctx.host and definition.host_kernel is not None else definition.kernel


def _wrapped(xp: Any, whole: Any) -> Any:
    """Whole float64 numbers modulo 2**32, as int32."""
    return whole.astype(np.int64).astype(np.int32)


# ------------------------------------------------------------------------------------------------------------ products
def _convolved(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, f, low_x, high_x, low_f, high_f = inputs
    xp = ctx.xp
    zero_x, zero_f = _zero_level(xp, low_x, high_x, x.dtype), _zero_level(xp, low_f, high_f, f.dtype)
    plain = {key: attr.default for key, attr in conv2d.Conv2D.definition.attrs.items()}
    options = {**plain, "T": dtypes.float64, **{key: attrs[key] for key in ("strides", "padding", "dilations")}}
    centred = [(item.astype(np.int64) - zero).astype(np.float64) for item, zero in ((x, zero_x), (f, zero_f))]
    total = _wrapped(xp, _kernel_of(ctx, "Conv2D")(ctx, centred, options))
    bounds = _product_range(xp, (low_x, high_x, x.dtype), (low_f, high_f, f.dtype), np.dtype(np.int32))
    return total, *bounds


class QuantizedConv2D(Op):
    """Conv2D of whole numbers: ``[batch, height, width, in]`` with ``[height, width, in, out]``, summed in 32 bits."""

    signature = (
        "input: Tinput, filter: Tfilter, min_input: float, max_input: float, min_filter: float, max_filter: float "
        "-> output: out_type, min_output: float, max_output: float"
    )
    attrs = {
        "Tinput": Type(WHOLE),
        "Tfilter": Type(WHOLE),
        "out_type": Type(WHOLE, "qint32"),
        "strides": List("int"),
        "padding": String(allowed="SAME VALID"),
        "dilations": List("int", (1, 1, 1, 1)),
    }
    effect = PURE
    cost = Cost.HEAVY
    gradient = GRID

    def shape(c):
        _scalars(c)
        _check_sums(c, "out_type")
        return [_CONVOLVED(c), (), ()]

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _convolved(ctx, inputs, attrs)

    def host_kernel(ctx, inputs, attrs):
        return _convolved(ctx, inputs, attrs)


def _check_sums(c: Any, attr: str) -> None:
    if c.attrs[attr] is not dtypes.qint32:
        raise NotImplementedError(
            errors.message(
                f"{attr}={c.attrs[attr].name} of op type {c.definition.type_name!r}",
                "qint32, as in TensorFlow's own kernels",
                f"{attr}=tf.qint32, then the op Requantize",
            )
        )


class QuantizedMatMul(Op):
    """Matrix product of whole numbers, ``[n, k]`` and ``[k, m]``, summed in 32 bits."""

    signature = (
        "a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float "
        "-> out: Toutput, min_out: float, max_out: float"
    )
    attrs = {
        "T1": Type(WHOLE),
        "T2": Type(WHOLE),
        "Toutput": Type(WHOLE, "qint32"),
        "transpose_a": Bool(False),
        "transpose_b": Bool(False),
        "Tactivation": Type(WHOLE, "quint8"),
    }
    effect = PURE
    cost = Cost.HEAVY
    gradient = GRID

    def shape(c):
        _scalars(c)
        _check_sums(c, "Toutput")
        a, b = (shapes.with_rank(c.shape(name), 2)[:: -1 if c.attrs[f"transpose_{name}"] else 1] for name in ("a", "b"))
        shapes.merge_dim(a[1], b[0])
        return [(a[0], b[1]), (), ()]

    def kernel(ctx, inputs, attrs):
        a, b, low_a, high_a, low_b, high_b = inputs
        xp = ctx.xp
        left = (a.astype(np.int64) - _zero_level(xp, low_a, high_a, a.dtype)).astype(np.float64)
        right = (b.astype(np.int64) - _zero_level(xp, low_b, high_b, b.dtype)).astype(np.float64)
        left = left.T if attrs["transpose_a"] else left
        right = right.T if attrs["transpose_b"] else right
        total = _wrapped(xp, xp.matmul(left, right))
        bounds = _product_range(xp, (low_a, high_a, a.dtype), (low_b, high_b, b.dtype), np.dtype(np.int32))
        return total, *bounds


_PAIR = "x: T1, y: T2, min_x: float, max_x: float, min_y: float, max_y: float -> z: Toutput, min_z: float, max_z: float"
_PAIR_ATTRS = {"T1": Type(WHOLE), "T2": Type(WHOLE), "Toutput": Type(WHOLE, "qint32")}


def _pair_shape(c: Any) -> Any:
    _scalars(c)
    _check_sums(c, "Toutput")
    return [shapes.broadcast(c.shape("x"), c.shape("y")), (), ()]


class QuantizedMul(Op):
    """Product of whole numbers, element by element, with broadcasting."""

    signature = _PAIR
    attrs = dict(_PAIR_ATTRS)
    effect = PURE
    gradient = GRID
    shape = _pair_shape

    def kernel(ctx, inputs, attrs):
        x, y, low_x, high_x, low_y, high_y = inputs
        xp = ctx.xp
        left = x.astype(np.int64) - _zero_level(xp, low_x, high_x, x.dtype)
        right = y.astype(np.int64) - _zero_level(xp, low_y, high_y, y.dtype)
        bounds = _product_range(xp, (low_x, high_x, x.dtype), (low_y, high_y, y.dtype), np.dtype(np.int32))
        return (left * right).astype(np.int32), *bounds


class QuantizedAdd(Op):
    """Sum of whole numbers, element by element, with broadcasting, in a range with room for both."""

    signature = _PAIR
    attrs = dict(_PAIR_ATTRS)
    effect = PURE
    gradient = GRID
    shape = _pair_shape

    def kernel(ctx, inputs, attrs):
        x, y, low_x, high_x, low_y, high_y = inputs
        xp, kind = ctx.xp, np.dtype(np.int32)
        bounds = _sum_range(xp, (low_x, high_x), (low_y, high_y), 14)
        total = _stepped(xp, x, (low_x, high_x), bounds, kind) + _stepped(xp, y, (low_y, high_y), bounds, kind)
        return total, *bounds


class QuantizedBiasAdd(Op):
    """Whole numbers ``[..., channels]`` plus a bias ``[channels]`` of another range."""

    signature = (
        "input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, max_bias: float "
        "-> output: out_type, min_out: float, max_out: float"
    )
    attrs = {"T1": Type(WHOLE), "T2": Type(WHOLE), "out_type": Type(WHOLE)}
    effect = PURE
    gradient = GRID

    def shape(c):
        _scalars(c)
        _check_sums(c, "out_type")
        dims, bias = c.with_rank_at_least("input", 1), c.with_rank("bias", 1)
        return [dims[:-1] + (shapes.merge_dim(dims[-1], bias[0]),) if dims is not None else None, (), ()]

    def kernel(ctx, inputs, attrs):
        x, bias, low_x, high_x, low_b, high_b = inputs
        xp, kind = ctx.xp, attrs["out_type"].np
        bounds = _sum_range(xp, (low_x, high_x), (low_b, high_b), 17)
        parts = [
            _levels(xp, _reals(xp, item, low, high), *bounds, kind)
            for item, low, high in ((x, low_x, high_x), (bias, low_b, high_b))
        ]
        return parts[0] + parts[1], *bounds


# -------------------------------------------------------------------------------------------------- poolings and others
_WINDOW = {"T": Type(WHOLE), "ksize": List("int"), "strides": List("int"), "padding": String(allowed="SAME VALID")}


def _define_pool(name: str, doc: str, forward: Any) -> None:
    def shape(c: Any) -> Any:
        _scalars(c)
        return [pooling_rules.pooled_shape(c, c.shapes[0], 4), (), ()]

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, low, high = inputs
        images, axes, undo = pooling_rules.arranged(ctx, {**attrs, "data_format": "NHWC"}, x)
        return undo(forward(ctx, images[0], axes)), low, high

    define(
        name,
        doc,
        signature="input: T, min_input: float, max_input: float -> output: T, min_output: float, max_output: float",
        attrs=_WINDOW,
        effect=PURE,
        shape=shape,
        kernel=kernel,
        gradient=GRID,
    )


def _whole_average(ctx: Any, x: Any, axes: Any) -> Any:
    """The average of each window, without its fraction."""
    mean = pooling_rules.average_forward(ctx, x.astype(np.float64), axes)
    near = ctx.xp.round(mean)
    whole = ctx.xp.where(ctx.xp.abs(mean - near) < 1e-9, near, ctx.xp.trunc(mean))
    return whole.astype(x.dtype)


_define_pool(
    "QuantizedMaxPool",
    "The maximum of each window of ``[batch, height, width, channels]``, of whole numbers; the range stays.",
    pooling_rules.max_forward,
)
_define_pool(
    "QuantizedAvgPool",
    "The average of each window of ``[batch, height, width, channels]``, rounded towards 0; the range stays.",
    _whole_average,
)


def _define_relu(name: str, doc: str, top: str | None) -> None:
    bounded = "max_value: float, " if top == "max_value" else ""

    def shape(c: Any) -> Any:
        _scalars(c)
        if c.attrs["out_type"] is not c.attrs["Tinput"]:
            raise NotImplementedError(
                errors.message(
                    f"out_type={c.attrs['out_type'].name} for an input of {c.attrs['Tinput'].name}",
                    "the type of the input, as in TensorFlow's own kernels",
                    "the op Requantize",
                )
            )
        return [c.shapes[0], (), ()]

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, *most, low, high = inputs
        xp, kind = ctx.xp, x.dtype
        least = _clamped(xp, _zero_level(xp, low, high, kind), kind)
        out = xp.maximum(x, least)
        if top is not None:
            value = xp.asarray(most[0]).astype(np.float64) if most else float(top)
            out = xp.minimum(out, _clamped(xp, _zero_level(xp, low, high, kind, value), kind))
        return out, low, high

    define(
        name,
        doc,
        signature=f"features: Tinput, {bounded}min_features: float, max_features: float "
        "-> activations: out_type, min_activations: float, max_activations: float",
        attrs={"Tinput": Type(WHOLE), "out_type": Type(WHOLE, "quint8")},
        effect=PURE,
        shape=shape,
        kernel=kernel,
        gradient=GRID,
    )


def _clamped(xp: Any, level: Any, kind: np.dtype) -> Any:
    return xp.clip(level, *limits(kind)).astype(kind)


_define_relu("QuantizedRelu", "The greater one of a number and 0, of whole numbers; the range stays.", None)
_define_relu("QuantizedRelu6", "Numbers cut at 0 and 6, of whole numbers; the range stays.", "6")
_define_relu("QuantizedReluX", "Numbers cut at 0 and ``max_value``, of whole numbers; the range stays.", "max_value")


class QuantizedConcat(Op):
    """Tensors of whole numbers joined along ``concat_dim``, moved to one range that holds all of theirs."""

    signature = (
        "concat_dim: int32, values: N * T, input_mins: N * float, input_maxes: N * float "
        "-> output: T, output_min: float, output_max: float"
    )
    attrs = {"N": Int(minimum=2), "T": Type()}
    effect = PURE
    compile_time = ("concat_dim",)
    gradient = GRID

    def shape(c):
        if not c.attrs["T"].is_quantized:
            raise TypeError(errors.message(f"values of {c.attrs['T'].name}", "whole numbers with a range", "tf.concat"))
        count = c.attrs["N"]
        parts = c.shapes[1 : 1 + count]
        axis = c.scalar("concat_dim")
        known = [part for part in parts if part is not None]
        if not known or axis is None:
            return [None if not known else (None,) * len(known[0]), (), ()]
        rank = len(known[0])
        axis = axis + rank if axis < 0 else axis
        total = None
        for part in parts:
            dims = shapes.with_rank(part, rank)
            total = shapes.merge(total, (*dims[:axis], *dims[axis + 1 :]))
        sizes = [None if part is None else part[axis] for part in parts]
        joined = None if None in sizes else sum(sizes)
        return [(*total[:axis], joined, *total[axis:]), (), ()]

    def kernel(ctx, inputs, attrs):
        xp, count, kind = ctx.xp, attrs["N"], attrs["T"].np
        axis = int(np.asarray(inputs[0]))
        values, lows, highs = (inputs[1 + k * count : 1 + (k + 1) * count] for k in range(3))
        low = xp.minimum(_F(0), xp.min(xp.stack([xp.asarray(item).astype(_F) for item in lows])))
        high = xp.max(xp.stack([xp.asarray(item).astype(_F) for item in highs]))
        if limits(kind)[0] < 0:
            high = xp.maximum(xp.abs(low), xp.abs(high))
            low = -high
        moved = [
            xp.where((start == low) & (stop == high), x, _levels(xp, _reals(xp, x, start, stop), low, high, kind))
            for x, start, stop in zip(values, lows, highs, strict=True)
        ]
        return xp.concatenate(moved, axis=axis), low, high


public_op(
    "QuantizedConv2D",
    "nn.quantized_conv2d",
    arguments="input filter min_input max_input min_filter max_filter strides padding out_type dilations",
)
public_op("QuantizedMaxPool", "nn.quantized_max_pool", arguments="input min_input max_input ksize strides padding")
public_op("QuantizedAvgPool", "nn.quantized_avg_pool", arguments="input min_input max_input ksize strides padding")
public_op("QuantizedReluX", "nn.quantized_relu_x", arguments="features max_value min_features max_features out_type")
public_op(
    "QuantizedConcat",
    "quantized_concat",
    "quantization.quantized_concat",
    arguments="concat_dim values input_mins input_maxes",
)
