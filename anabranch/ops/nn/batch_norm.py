"""Batch normalisation as one op, and its gradients of first and second order.

Policy. Statistics are float32 whatever the dtype of ``x``, taken in one pass over the data: sums of ``x - k`` and of
its square, where ``k`` is one row of the data itself, which keeps the difference of large numbers out. The reserve
outputs carry the batch's mean and biased variance on every platform. ``batch_variance`` is the unbiased one, as
moving averages want it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import DERIVED, PURE, Bool, Float, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.nn import host_batch_norm
from anabranch.ops.nn.bias_and_response import channel_axis
from anabranch.ops.shared.widening import widen

_EPSILON = 9.999999747378752e-05
ROWS = 1 << 12
"""Elements from which on the host joins rows of channels."""
_FORMATS = "NHWC NCHW"
_FORMATS_3 = "NHWC NCHW NDHWC NCDHW"


def _attrs(types: dict[str, Any], formats: str, forward: bool) -> dict[str, Any]:
    factor = {"exponential_avg_factor": Float(1.0)} if forward else {}
    return (
        types
        | {"epsilon": Float(_EPSILON)}
        | factor
        | {
            "data_format": String("NHWC", formats),
            "is_training": Bool(True),
        }
    )


def _layout(x: Any, attrs: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Dimensions summed over, the shape in which a vector per channel broadcasts, and how many numbers it has."""
    axis = channel_axis(attrs["data_format"], x.ndim)
    others = tuple(i for i in range(x.ndim) if i != axis)
    return others, tuple(-1 if i == axis else 1 for i in range(x.ndim)), math.prod(x.shape[i] for i in others)


def _by_rows(ctx: Any, wide: Any, spread: tuple[int, ...]) -> bool:
    """Whether the host's ways for channels that come last take the array."""
    return ctx.host and spread[-1] == -1 and wide.size >= ROWS and wide.flags.c_contiguous


def _moments(ctx: Any, wide: Any, others: tuple[int, ...], spread: tuple[int, ...], count: int) -> tuple[Any, Any]:
    """Mean and biased variance per channel."""
    xp = ctx.xp
    if count == 0:
        nothing = xp.full((wide.shape[spread.index(-1)],), np.nan, wide.dtype)
        return nothing, nothing
    if _by_rows(ctx, wide, spread):
        return host_batch_norm.moments(wide)
    if ctx.host:
        mean = xp.mean(wide, axis=others, dtype=wide.dtype)
        centred = wide - mean.reshape(spread)
        return mean, xp.mean(centred * centred, axis=others, dtype=wide.dtype)
    pivot = wide[tuple(slice(None) if d == -1 else slice(0, 1) for d in spread)]
    shifted = wide - pivot
    scale = wide.dtype.type(1.0 / count)
    first = xp.sum(shifted, axis=others) * scale
    second = xp.sum(shifted * shifted, axis=others) * scale
    return first + pivot.reshape(-1), xp.maximum(second - first * first, wide.dtype.type(0))


def _normalize(ctx: Any, inputs: Any, attrs: dict[str, Any]) -> list[Any]:
    x, scale, offset, old_mean, old_variance = inputs
    xp = ctx.xp
    wide = widen(x)
    others, spread, count = _layout(x, attrs)
    stored = scale.dtype
    scale, offset, old_mean, old_variance = (widen(value) for value in (scale, offset, old_mean, old_variance))
    if attrs["is_training"]:
        mean, variance = _moments(ctx, wide, others, spread, count)
        unbiased = variance * variance.dtype.type(count / max(count - 1, 1))
        factor = attrs.get("exponential_avg_factor", 1.0)
        new_mean, new_variance = mean, unbiased
        if factor != 1.0:
            one = mean.dtype.type
            new_mean = one(1 - factor) * old_mean + one(factor) * mean
            new_variance = one(1 - factor) * old_variance + one(factor) * unbiased
    else:
        mean, variance = new_mean, new_variance = old_mean, old_variance
    slope = scale / xp.sqrt(variance + variance.dtype.type(attrs["epsilon"]))
    if _by_rows(ctx, wide, spread):
        y = host_batch_norm.normalized(wide, mean, slope, offset)
    else:
        y = (wide - mean.reshape(spread)) * slope.reshape(spread) + offset.reshape(spread)
    return [y if y.dtype == x.dtype else y.astype(x.dtype)] + [
        v.astype(stored) for v in (new_mean, new_variance, mean, variance)
    ]


def _forward_shape(c: Any, reserve: list[Any]) -> Any:
    data_format = c.attrs["data_format"]
    x = c.with_rank("x", len(data_format))
    axis = channel_axis(data_format, len(x))
    channels = x[axis]
    needs_old = not c.attrs["is_training"] or c.attrs["exponential_avg_factor"] != 1.0
    for name in ("scale", "offset") + (("mean", "variance") if needs_old else ()):
        given = c.with_rank(name, 1)[0]
        if channels is not None and given is not None and given != channels:
            raise ValueError(
                errors.message(
                    f"{name} of {given} entries for x of shape {shapes.show(x)}",
                    f"one per channel, of which dimension {axis} has {channels}",
                    f"check data_format={data_format!r}, or reshape {name}",
                )
            )
        channels = shapes.merge_dim(channels, given)
    return [x[:axis] + (channels,) + x[axis + 1 :]] + [(channels,)] * 4 + reserve


def _input_gradient(op: Any, version: str, grad: Any) -> list[Any]:
    if grad is None:
        return [None] * 5
    x, scale = op.inputs[0], op.inputs[1]
    training = op.get_attr("is_training")
    first, second = (op.outputs[3], op.outputs[4]) if training else (op.inputs[3], op.inputs[4])
    stored = scale.dtype.base
    extra = []
    if version:
        scale, first, second = (_cast(value, "float32") for value in (scale, first, second))
    if version == "V3":
        extra = [op.outputs[5]]
    gradients = build(
        "FusedBatchNormGrad" + version,
        grad,
        x,
        scale,
        first,
        second,
        *[_cast(value, "float32") for value in extra],
        epsilon=op.get_attr("epsilon"),
        data_format=op.get_attr("data_format"),
        is_training=training,
    )
    return [gradients[0], _cast(gradients[1], stored), _cast(gradients[2], stored), None, None]


def _cast(tensor: Any, dtype: Any) -> Any:
    return tensor if tensor.dtype.base == dtype else build("Cast", tensor, DstT=dtype)


class FusedBatchNorm(Op):
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset`` per channel; statistics of the batch, or those given.

    ``x`` is ``[batch, height, width, channels]`` or, in format NCHW, ``[batch, channels, height, width]``; the
    vectors are ``[channels]``. Ioffe and Szegedy, Batch Normalization, 2015.
    """

    signature = (
        "x: T, scale: T, offset: T, mean: T, variance: T -> "
        "y: T, batch_mean: T, batch_variance: T, reserve_space_1: T, reserve_space_2: T"
    )
    attrs = _attrs({"T": Type("float")}, _FORMATS, True)
    effect = PURE
    kernel = _normalize

    def shape(c):
        return _forward_shape(c, [])

    def gradient(op, grad, *_):
        return _input_gradient(op, "", grad)


class FusedBatchNormV2(Op):
    """Like :class:`FusedBatchNorm`, with ``x`` of two bytes beside float32 statistics if wanted."""

    signature = (
        "x: T, scale: U, offset: U, mean: U, variance: U -> "
        "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U"
    )
    attrs = _attrs({"T": Type("half bfloat16 float"), "U": Type("float")}, _FORMATS, True)
    effect = PURE
    kernel = _normalize

    def shape(c):
        return _forward_shape(c, [])

    def gradient(op, grad, *_):
        return _input_gradient(op, "V2", grad)


class FusedBatchNormV3(Op):
    """Like :class:`FusedBatchNormV2`, for images and volumes, with one more reserve output (an unused scalar)."""

    signature = (
        "x: T, scale: U, offset: U, mean: U, variance: U -> "
        "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U"
    )
    attrs = _attrs({"T": Type("half bfloat16 float"), "U": Type("bfloat16 float")}, _FORMATS_3, True)
    effect = PURE

    def shape(c):
        return _forward_shape(c, [()])

    def kernel(ctx, inputs, attrs):
        return _normalize(ctx, inputs, attrs) + [ctx.xp.zeros((), inputs[1].dtype)]

    def gradient(op, grad, *_):
        return _input_gradient(op, "V3", grad)


def _backward(ctx: Any, inputs: Any, attrs: dict[str, Any]) -> list[Any]:
    g, x, scale, mean, variance = inputs[:5]
    xp = ctx.xp
    wide, grad = widen(x), widen(g)
    others, spread, count = _layout(x, attrs)
    inverse = 1 / xp.sqrt(variance + variance.dtype.type(attrs["epsilon"]))
    reserved = xp.zeros(_reserved(attrs, scale.shape[0]), scale.dtype)
    if attrs["is_training"] and grad.dtype == wide.dtype and all(_by_rows(ctx, v, spread) for v in (wide, grad)):
        offset_grad, projected = host_batch_norm.sums(grad, wide, mean)
        share = variance.dtype.type(1.0 / count)
        slope = projected * inverse * inverse * share
        x_grad = host_batch_norm.input_gradient(grad, wide, mean, offset_grad * share, slope, scale * inverse)
        return [x_grad.astype(x.dtype, copy=False), projected * inverse, offset_grad, reserved, reserved]
    centred = wide - mean.reshape(spread)
    offset_grad = xp.sum(grad, axis=others)
    projected = xp.sum(grad * centred, axis=others)
    scale_grad = projected * inverse
    if attrs["is_training"]:
        share = variance.dtype.type(1.0 / count) if count else variance.dtype.type(np.nan)
        slope = (projected * inverse * inverse * share).reshape(spread)
        inner = grad - (offset_grad * share).reshape(spread) - centred * slope
    else:
        inner = grad
    x_grad = inner * (scale * inverse).reshape(spread)
    return [x_grad.astype(x.dtype), scale_grad, offset_grad, reserved, reserved]


def _reserved(attrs: dict[str, Any], channels: int | None) -> tuple[int | None, ...]:
    """The shape of the outputs that stand for nothing: TensorFlow's graphs say it, and are refused if they differ."""
    return (0,) if attrs["is_training"] else (channels,)


def _backward_shape(c: Any) -> Any:
    data_format = c.attrs["data_format"]
    x = shapes.with_rank(c.same_shape("y_backprop", "x"), len(data_format))
    axis = channel_axis(data_format, len(x))
    channels = shapes.merge_dim(x[axis], c.with_rank("scale", 1)[0])
    return [x[:axis] + (channels,) + x[axis + 1 :], (channels,), (channels,)] + [_reserved(c.attrs, channels)] * 2


def _mul(*factors: Any) -> Any:
    result = factors[0]
    for factor in factors[1:]:
        result = build("Mul", result, factor)
    return result


def _total(terms: list[Any]) -> Any:
    terms = [term for term in terms if term is not None]
    result = terms[0] if terms else None
    for term in terms[1:]:
        result = build("Add", result, term)
    return result


def _second_order(op: Any, on_x: Any, on_scale: Any, on_offset: Any) -> list[Any]:
    """Gradients of (x_backprop, scale_backprop, offset_backprop) with respect to (y_backprop, x, scale).

    With ``h = (x - mean) * r``, ``r = 1 / sqrt(variance + epsilon)`` and ``B(a) = a - mean(a) - h * mean(a * h)``,
    x_backprop is ``scale * r * B(g)``. B is its own adjoint, ``dh`` pulls back as ``r * B``, and ``dr`` as ``-r**2 *
    h / count``.
    """
    g, x, scale = op.inputs[:3]
    data_format, training = op.get_attr("data_format").decode(), op.get_attr("is_training")
    rank = len(data_format)
    axis = channel_axis(data_format, rank)
    others = [i for i in range(rank) if i != axis]
    narrow = x.dtype.base
    g, x = _cast(g, "float32"), _cast(x, "float32")
    on_x = None if on_x is None else _cast(on_x, "float32")

    def row(vector: Any) -> Any:
        return vector if axis == rank - 1 else build("Reshape", vector, [1, -1] + [1] * (rank - 2))

    def mean(tensor: Any) -> Any:
        return build("Mean", tensor, others, keep_dims=True)

    def total(tensor: Any) -> Any:
        return build("Sum", tensor, others)

    average, variance = op.inputs[3], op.inputs[4]
    r = row(build("Rsqrt", build("Add", variance, op.get_attr("epsilon"))))
    h = _mul(build("Sub", x, row(average)), r)
    slope = row(scale)
    on_scale = None if on_scale is None else row(on_scale)
    on_offset = None if on_offset is None else row(on_offset)

    # B of the docstring; with given statistics the mean does not depend on x, and B is the identity.
    def projection(a: Any) -> Any:
        return build("Sub", build("Sub", a, mean(a)), _mul(h, mean(_mul(a, h)))) if training else a

    spread = None if on_offset is None else build("Add", on_offset, build("ZerosLike", g))
    to_g = _total(
        [
            None if on_x is None else _mul(projection(on_x), slope, r),
            None if on_scale is None else _mul(on_scale, h),
            spread,
        ]
    )
    to_scale = None if on_x is None else total(_mul(on_x, projection(g), r))
    pulled = [] if on_scale is None else [_mul(on_scale, g)]
    if training and on_x is not None:
        crossed = build("Add", _mul(on_x, mean(_mul(g, h))), _mul(g, mean(_mul(on_x, h))))
        pulled.append(build("Neg", _mul(crossed, slope, r)))
    to_x = None
    if pulled:
        to_x = _mul(projection(_total(pulled)), r)
    if training and on_x is not None:
        share = mean(_mul(on_x, projection(g)))
        to_x = build("Sub", to_x, _mul(share, slope, r, r, h))
    return [
        None if to_g is None else _cast(to_g, narrow),
        None if to_x is None else _cast(to_x, narrow),
        to_scale,
        None,
        None,
    ]


class FusedBatchNormGrad(Op):
    """Gradients of :class:`FusedBatchNorm` with respect to ``x``, ``scale`` and ``offset``; two empty outputs.

    The reserve inputs are the batch's mean and biased variance (training), or those that were used (inference).
    """

    signature = (
        "y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T -> "
        "x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, reserve_space_4: T"
    )
    attrs = _attrs({"T": Type("float")}, _FORMATS, False)
    effect = PURE
    kernel = _backward
    shape = _backward_shape

    def gradient(op, on_x, on_scale, on_offset, *_):
        return _second_order(op, on_x, on_scale, on_offset)


class FusedBatchNormGradV2(Op):
    """Gradients of :class:`FusedBatchNormV2`; see :class:`FusedBatchNormGrad`."""

    signature = (
        "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U -> "
        "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_3: U, reserve_space_4: U"
    )
    attrs = _attrs({"T": Type("half bfloat16 float"), "U": Type("float")}, _FORMATS, False)
    effect = PURE
    kernel = _backward
    shape = _backward_shape

    def gradient(op, on_x, on_scale, on_offset, *_):
        return _second_order(op, on_x, on_scale, on_offset)


class FusedBatchNormGradV3(Op):
    """Gradients of :class:`FusedBatchNormV3`; see :class:`FusedBatchNormGrad`."""

    signature = (
        "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U -> "
        "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, reserve_space_5: U"
    )
    attrs = _attrs({"T": Type("half bfloat16 float"), "U": Type("float")}, _FORMATS_3, False)
    effect = PURE
    kernel = _backward
    shape = _backward_shape

    def gradient(op, on_x, on_scale, on_offset, *_):
        return _second_order(op, on_x, on_scale, on_offset) + [None]


class BatchNormWithGlobalNormalization(Op):
    """Batch normalisation of NHWC input with given statistics: the form before the fused one."""

    signature = "t: T, m: T, v: T, beta: T, gamma: T -> result: T"
    attrs = {
        "T": Type(
            "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16 "
            "complex128 half uint32 uint64"
        ),
        "variance_epsilon": Float(),
        "scale_after_normalization": Bool(),
    }
    effect = PURE
    elementwise = True
    gradient = DERIVED

    def shape(c):
        t = c.with_rank("t", 4)
        channels = t[3]
        for name in ("m", "v", "beta", "gamma"):
            channels = shapes.merge_dim(channels, c.with_rank(name, 1)[0])
        return t[:3] + (channels,)

    def kernel(ctx, inputs, attrs):
        t, m, v, beta, gamma = inputs
        inverse = 1 / ctx.xp.sqrt(widen(v) + widen(v).dtype.type(attrs["variance_epsilon"]))
        if attrs["scale_after_normalization"]:
            inverse = inverse * widen(gamma)
        return ((widen(t) - widen(m)) * inverse + widen(beta)).astype(t.dtype)


class BatchNormWithGlobalNormalizationGrad(Op):
    """The gradients of BatchNormWithGlobalNormalization: of ``t``, ``m``, ``v``, ``beta`` and ``gamma``."""

    signature = "t: T, m: T, v: T, gamma: T, backprop: T -> dx: T, dm: T, dv: T, db: T, dg: T"
    attrs = BatchNormWithGlobalNormalization.definition.attrs
    effect = PURE
    gradient = DERIVED

    def shape(c):
        t = shapes.merge(c.with_rank("t", 4), c.with_rank("backprop", 4))
        channels = t[3]
        for name in ("m", "v", "gamma"):
            channels = shapes.merge_dim(channels, c.with_rank(name, 1)[0])
        return [t[:3] + (channels,)] + [(channels,)] * 4

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        t, m, v, gamma, g = (widen(value) for value in inputs)
        inverse = 1 / xp.sqrt(v + v.dtype.type(attrs["variance_epsilon"]))
        scale = gamma if attrs["scale_after_normalization"] else xp.ones_like(gamma)
        total = xp.sum(g, axis=(0, 1, 2))
        along = xp.sum(g * (t - m), axis=(0, 1, 2))
        dg = along * inverse if attrs["scale_after_normalization"] else xp.zeros_like(along)
        half = v.dtype.type(-0.5)
        slopes = (g * (inverse * scale), -total * inverse * scale, half * along * inverse**3 * scale, total, dg)
        return tuple(value.astype(inputs[0].dtype) for value in slopes)
