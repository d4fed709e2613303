"""Bias, local response normalisation, and the small public functions of neural networks.

Policy. A bias is added along the channel dimension that ``data_format`` names; its gradient is a sum over all others.
Formats are those of TensorFlow: ``NHWC`` for channels last in any rank, ``NCHW`` for channels in dimension 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import DERIVED, PURE, Float, Int, Op, String, Type
from anabranch.core.graph import convert, random_seed
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import shapes
from anabranch.ops.shared import host_blas, open_forms, unchecked
from anabranch.ops.shared.widening import constant, is_half, widen

_NUMBERS = (
    "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16 complex128 "
    "half uint32 uint64"
)


def channel_axis(data_format: str, rank: int) -> int:
    """The dimension that ``data_format`` (``N...C`` or ``NC...``) counts channels in."""
    return 1 if data_format.startswith("NC") else rank - 1


def _along_channel(vector: Any, axis: int, rank: int) -> Any:
    """A vector reshaped to broadcast along ``axis`` of ``rank`` dimensions."""
    return vector if axis == rank - 1 else vector.reshape((-1,) + (1,) * (rank - 1 - axis))


def _bias_shape(c: Any) -> Any:
    value = c.with_rank_at_least("value", 2)
    bias = c.with_rank("bias", 1)
    if value is None:
        return None
    axis = channel_axis(c.attrs.get("data_format", "NHWC"), len(value))
    if value[axis] is not None and bias[0] is not None and value[axis] != bias[0]:
        raise ValueError(
            errors.message(
                f"value of shape {shapes.show(value)}, bias of shape {shapes.show(bias)}",
                f"one bias per channel: dimension {axis} of the value",
                f"a bias of shape [{value[axis]}]"
                + ("" if axis == 1 else ", or data_format='NCHW' for channels in dimension 1"),
            )
        )
    channels = shapes.merge_dim(value[axis], bias[0])
    return value[:axis] + (channels,) + value[axis + 1 :]


def _bias_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    value, bias = inputs
    axis = channel_axis(attrs.get("data_format", "NHWC"), value.ndim)
    if value.shape[axis] != bias.shape[0]:
        ctx.check(
            False,
            errors.InvalidArgumentError,
            errors.message(
                f"bias of shape {shapes.show(bias.shape)} for a value of shape {shapes.show(value.shape)}",
                f"one bias per channel, dimension {axis}",
                "another data_format=, or a bias of the size of that dimension",
            ),
        )
        return value
    return value + _along_channel(bias, axis, value.ndim)


class BiasAdd(Op):
    """``value`` plus ``bias``, one number per channel."""

    signature = "value: T, bias: T -> output: T"
    attrs = {"T": Type(_NUMBERS), "data_format": String("NHWC", "NHWC NCHW")}
    effect = PURE
    straight = unchecked.bias_add
    any_size = open_forms.bias_add
    shape = _bias_shape
    kernel = _bias_kernel

    def gradient(op, grad):
        return [grad, build("BiasAddGrad", grad, data_format=op.get_attr("data_format"))]


class BiasAddV1(Op):
    """``value`` plus ``bias``, one number per entry of the last dimension."""

    signature = "value: T, bias: T -> output: T"
    attrs = {"T": Type(_NUMBERS)}
    effect = PURE
    shape = _bias_shape
    kernel = _bias_kernel

    def gradient(op, grad):
        return [grad, build("BiasAddGrad", grad)]


class BiasAddGrad(Op):
    """The sum of ``out_backprop`` over all dimensions but the channels: the gradient of a bias."""

    signature = "out_backprop: T -> output: T"
    attrs = {"T": Type(_NUMBERS), "data_format": String("NHWC", "NHWC NCHW")}
    effect = PURE
    straight = unchecked.bias_add_grad
    any_size = open_forms.bias_add_grad

    def factors(attrs):
        return (0,) if attrs["data_format"] != "NCHW" else None

    def shape(c):
        value = c.with_rank_at_least(0, 2)
        return (None,) if value is None else (value[channel_axis(c.attrs["data_format"], len(value))],)

    def kernel(ctx, inputs, attrs):
        (g,) = inputs
        axis = channel_axis(attrs["data_format"], g.ndim)
        others = tuple(i for i in range(g.ndim) if i != axis)
        return ctx.xp.sum(widen(g), axis=others, dtype=None if is_half(g.dtype) else g.dtype).astype(g.dtype)

    def gradient(op, grad):
        source = op.inputs[0]
        rank = source.shape.ndims
        if op.get_attr("data_format") == b"NCHW" and rank is None:
            ones = build("Fill", build("Pack", [build("Sub", build("Rank", source), 2)]), 1)
            grad = build("Reshape", grad, build("ConcatV2", [[1, -1], ones], 0))
        elif rank is not None and channel_axis(op.get_attr("data_format").decode(), rank) not in (-1, rank - 1):
            grad = build("Reshape", grad, [1, -1] + [1] * (rank - 2))
        return [build("BroadcastTo", grad, build("Shape", source))]


PRODUCT_CHANNELS = 32
"""Channels for each one of a sum up to which NumPy is quicker with the product of a band matrix than with slices."""


def _channel_sums(ctx: Any, x: Any, radius: int) -> Any:
    """For each channel, the sum of ``x`` over the channels at most ``radius`` away."""
    xp, channels = ctx.xp, x.shape[-1]
    radius = min(radius, max(channels - 1, 0))
    by_product = radius > 8 or (ctx.host and channels <= PRODUCT_CHANNELS * (2 * radius + 1))
    if not by_product:
        padded = xp.pad(x, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
        total = padded[..., 0:channels]
        for offset in range(1, 2 * radius + 1):
            total = total + padded[..., offset : offset + channels]
        return total
    index = xp.arange(channels)
    band = xp.abs(index[:, None] - index[None, :]) <= radius
    rows, band = x.reshape(-1, channels), band.astype(x.dtype)
    return (host_blas.product if ctx.host else xp.matmul)(rows, band).reshape(x.shape)


def _inverse_power(xp: Any, base: Any, beta: float) -> Any:
    """``base ** -beta``; by roots for the exponents in use, which cost a tenth of a general power."""
    one = constant(base, 1)
    if beta == 0.5:
        return one / xp.sqrt(base)
    if beta == 0.75:
        return one / xp.sqrt(base * xp.sqrt(base))
    if beta == 1.0:
        return one / base
    return xp.power(base, constant(base, -beta))


def _lrn_shape(c: Any) -> Any:
    return c.with_rank(0, 4)


_LRN_ATTRS = {
    "depth_radius": Int(5),
    "bias": Float(1.0),
    "alpha": Float(1.0),
    "beta": Float(0.5),
    "T": Type("half bfloat16 float", "float"),
}


class LRN(Op):
    """``input / (bias + alpha * s) ** beta`` for ``[batch, height, width, channels]``; ``s`` sums near squares.

    Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.
    """

    signature = "input: T -> output: T"
    attrs = _LRN_ATTRS
    effect = PURE
    shape = _lrn_shape

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        wide = widen(x)
        sums = _channel_sums(ctx, wide * wide, attrs["depth_radius"])
        base = constant(wide, attrs["bias"]) + constant(wide, attrs["alpha"]) * sums
        return (wide * _inverse_power(ctx.xp, base, attrs["beta"])).astype(x.dtype)

    def gradient(op, grad):
        return [
            build(
                "LRNGrad",
                grad,
                op.inputs[0],
                op.outputs[0],
                **{key: op.get_attr(key) for key in _LRN_ATTRS if key != "T"},
            )
        ]


class LRNGrad(Op):
    """The gradient of LRN with respect to its input, from the gradient of its output, its input and its output."""

    signature = "input_grads: T, input_image: T, output_image: T -> output: T"
    attrs = _LRN_ATTRS
    effect = PURE

    def shape(c):
        return shapes.with_rank(c.same_shape(0, 1, 2), 4)

    gradient = DERIVED

    def kernel(ctx, inputs, attrs):
        g, x, y = (widen(value) for value in inputs)
        xp = ctx.xp
        alpha, beta = constant(x, attrs["alpha"]), constant(x, attrs["beta"])
        base = constant(x, attrs["bias"]) + alpha * _channel_sums(ctx, x * x, attrs["depth_radius"])
        spread = _channel_sums(ctx, g * y / base, attrs["depth_radius"])
        result = g * _inverse_power(xp, base, attrs["beta"]) - constant(x, 2) * alpha * beta * x * spread
        return result.astype(inputs[1].dtype)


@public("nn.bias_add")
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Any:
    """``value`` plus ``bias`` along the channel dimension.

    Args:
        value: ``[batch, ..., channels]``, or ``[batch, channels, ...]`` with ``data_format="NCHW"``.
        bias: ``[channels]``, of the dtype of ``value``.
        data_format: ``"N...C"`` or ``"NHWC"`` (default), ``"NC..."`` or ``"NCHW"``.
        name: name of the op.
    """
    if data_format is not None and not (
        data_format.startswith("NC") or (data_format.startswith("N") and data_format.endswith("C"))
    ):
        raise ValueError(
            "data_format must be of the form `N...C` or `NC...`\n"
            + errors.message(
                f"data_format={data_format!r}", "channels last or in dimension 1", "data_format='NHWC' or 'NCHW'"
            )
        )
    stored = "NCHW" if data_format is not None and data_format.startswith("NC") else "NHWC"
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        value = convert.convert_to_tensor(value, name="input")
        bias = convert.convert_to_tensor(bias, value.dtype.base if not hasattr(bias, "dtype") else None, name="bias")
        return build("BiasAdd", value, bias, data_format=stored, name=scope)


@public("nn.xw_plus_b")
def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """``matmul(x, weights) + biases`` for ``[batch, inputs]``, ``[inputs, outputs]`` and ``[outputs]``."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return build("BiasAdd", build("MatMul", x, weights), biases, name=scope)


@public("nn.relu_layer")
def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """``relu(matmul(x, weights) + biases)``."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return build("Relu", build("BiasAdd", build("MatMul", x, weights), biases), name=scope)


@public("nn.lrn", "nn.local_response_normalization")
def local_response_normalization(
    input: Any, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, name: str | None = None
) -> Any:
    """``input / (bias + alpha * s) ** beta`` where ``s`` sums the squares of channels at most ``depth_radius`` away.

    Args:
        input: ``[batch, height, width, channels]``.
        depth_radius: channels on each side.
        bias: offset that keeps the base away from 0.
        alpha: factor of the sum.
        beta: exponent.
        name: name of the op.
    """
    return build("LRN", input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


@public("nn.zero_fraction", "math.zero_fraction")
def zero_fraction(value: Any, name: str | None = None) -> Any:
    """The fraction of elements of ``value`` that are zero, a float32 scalar (NaN for an empty tensor)."""
    with name_scope(name, "zero_fraction", [value]):
        value = convert.convert_to_tensor(value, name="value")
        with random_seed.counted_as(26):  # two ways to count
            zero = convert.constant(0, value.dtype.base, name="zero")
            equal = build("Cast", build("Equal", value, zero), DstT="float32")
            return build("Mean", equal, build("Range", 0, build("Rank", value), 1), name="fraction")


def _noise_shape(x: Any, noise_shape: Any) -> Any:
    """A list where everything is known, else a tensor. None in ``noise_shape`` stands for the size of ``x`` there."""
    if noise_shape is None:
        known = x.shape.is_fully_defined() and x.shape.ndims  # a list without elements would be of floats
        return x.shape.as_list() if known else build("Shape", x)
    if hasattr(noise_shape, "graph"):
        return noise_shape
    try:
        wanted = shapes.as_raw(noise_shape)
    except (TypeError, ValueError):
        return noise_shape  # a list that holds tensors
    if wanted is not None and None in wanted and x.shape.ndims == len(wanted):
        sizes = build("Shape", x)
        wanted = [
            build("StridedSlice", sizes, [i], [i + 1], [1], shrink_axis_mask=1) if size is None else size
            for i, size in enumerate(w if w is not None else o for w, o in zip(wanted, x.shape.raw, strict=True))
        ]
        return build("Pack", wanted, axis=0) if any(not isinstance(size, int) for size in wanted) else wanted
    if wanted is None or None in wanted:
        raise ValueError(
            errors.message(
                f"noise_shape={noise_shape!r} for a tensor of shape {x.shape}",
                "one size per dimension of the tensor, None for the tensor's own",
                "noise_shape=[None, 1, channels], or tf.stack([...]) of entries of tf.shape(x)",
            )
        )
    return list(wanted)


@public("nn.dropout")
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """``x`` with elements set to 0 at random, the others scaled by ``1 / keep_prob``, which keeps the expected sum.

    Args:
        x: floats of any shape.
        keep_prob: probability that an element is kept, in (0, 1]; a number or a scalar tensor of the dtype of ``x``.
        noise_shape: shape of the random decisions, which broadcasts to that of ``x``; dimensions of size 1 share one
            decision.
        seed: seed of the op.
        name: name of the scope.
        rate: ``1 - keep_prob``, in place of it.

    Returns:
        A tensor of the shape of ``x``.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError(
            "Exactly one of `keep_prob` and `rate` must be provided.\n"
            + errors.message(
                f"tf.nn.dropout with {'neither' if rate is None else 'both'}",
                "one of keep_prob and rate",
                "tf.nn.dropout(x, keep_prob=0.5)",
            )
        )
    with name_scope(name, "dropout", [x]):
        x = convert.convert_to_tensor(x, name="x")
        counted = random_seed.OperationCount()
        noise = _noise_shape(x, noise_shape)
        counted.set(0)  # it is counted below
        counted = random_seed.OperationCount()
        dtype = x.dtype.base
        if not dtype.is_floating:
            raise ValueError(
                "x has to be a floating point tensor since it's going to be scaled. "
                f"Got a {dtype.name} tensor instead.\n"
                + errors.message(f"x of dtype {dtype.name}", "a tensor of floats", "tf.cast(x, tf.float32)")
            )
        given = rate if keep_prob is None else keep_prob
        if not hasattr(given, "graph") and (isinstance(given, (str, bytes)) or np.ndim(given) != 0):
            raise ValueError(
                errors.message(
                    f"{'rate' if keep_prob is None else 'keep_prob'} {given!r}",
                    "a number or a scalar tensor",
                    "one probability for all elements: tf.nn.dropout(x, keep_prob=0.5)",
                )
            )
        if keep_prob is None:
            if hasattr(rate, "graph") and constant_value(rate) == 0:
                return x
            keep_prob = build("Sub", 1, rate) if hasattr(rate, "graph") else 1 - rate
        if not hasattr(keep_prob, "graph"):
            try:
                number = float(keep_prob)
            except TypeError:
                raise ValueError(
                    f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob!r}\n"
                    + errors.message(f"keep_prob={keep_prob!r}", "a number", "tf.nn.dropout(x, keep_prob=0.5)")
                ) from None
            if not 0 < number <= 1:
                raise ValueError(
                    f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {number:g}\n"
                    + errors.message(
                        f"keep_prob {number:g}", "a probability in (0, 1]", "tf.nn.dropout(x, keep_prob=0.5)"
                    )
                )
            if number == 1:
                return x
            keep = convert.constant(number, dtype, name="keep_prob")
        else:
            keep = convert.convert_to_tensor(keep_prob, dtype, name="keep_prob")
            if keep.shape.ndims not in (0, None):
                raise ValueError(
                    errors.message(
                        f"keep_prob of shape {keep.shape}",
                        "a scalar, one probability for all elements",
                        "tf.nn.dropout(x, keep_prob=0.5)",
                    )
                )
        own = (2 if keep_prob is given else 0) if hasattr(given, "graph") else 1  # of the probability
        if keep_prob is given and not hasattr(given, "graph"):
            dropped = convert.constant(1 - number, dtype, name="rate")
        elif keep_prob is given:
            dropped = build("Sub", 1, keep)
        else:
            dropped = convert.convert_to_tensor(rate, dtype, name="rate")
        counted.set(own + 3)
        first, second = random_seed.get_seed(seed)
        uniform = build(
            "RandomUniform",
            noise,
            dtype=dtype,
            seed=first or 0,
            seed2=second or 0,
            name="random_uniform",
        )
        scaled = build("Mul", x, build("RealDiv", 1, keep, name="truediv"), name="mul")
        kept = build("GreaterEqual", uniform, dropped, name="GreaterEqual")
        result = build("Mul", scaled, build("Cast", kept, DstT=dtype, name="Cast"), name="mul_1")
        counted.set(own + 15)
        result.set_shape(x.shape)
        return result
