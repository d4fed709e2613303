"""Element-wise activations and their gradient ops.

Policy. Each activation has a gradient op of its own that takes the *output* where the derivative is a function of it
(relu, relu6, elu, selu), so that the input need not be kept. Not-a-number passes through; where a piece is flat, the
gradient is zero whatever flows in.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.opdef import DERIVED, PURE, Float, Op, Type, define
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.ops.shared import host_activations, host_choice, open_forms, unchecked
from anabranch.ops.shared.widening import constant, widen

_REALS = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
_FLOATS = "half bfloat16 float double"
_SELU_SCALE = 1.0507009873554805
_SELU_SCALE_ALPHA = 1.7580993408473766


def _zeros(tensor: Any) -> Any:
    return build("ZerosLike", tensor)


def _in_passes(kernel: Any) -> Any:
    """A kernel of arrays that makes several passes over its operands: on the host, block by block."""

    @functools.wraps(kernel)
    def in_blocks(ctx: Any, inputs: Any, attrs: Any) -> Any:
        if not ctx.host:
            return kernel(ctx, inputs, attrs)
        return host_activations.by_blocks(lambda *parts: kernel(ctx, parts, attrs), *inputs)

    return in_blocks


def _choose(ctx: Any, condition: Any, chosen: Any, other: Any) -> Any:
    return (host_choice.choose if ctx.host else ctx.xp.where)(condition, chosen, other)


class Relu(Op):
    """``max(features, 0)``, element by element."""

    signature = "features: T -> activations: T"
    attrs = {"T": Type(_REALS + " qint8")}
    effect = PURE
    any_size = open_forms.relu
    straight = unchecked.relu
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        return ctx.xp.maximum(x, 0)

    def gradient(op, grad):
        return [build("ReluGrad", grad, op.outputs[0])]


class ReluGrad(Op):
    """``gradients`` where ``features > 0`` (inputs or outputs of Relu), 0 elsewhere."""

    signature = "gradients: T, features: T -> backprops: T"
    attrs = {"T": Type(_REALS)}
    effect = PURE
    any_size = open_forms.relu_grad
    shape = inference.merged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        g, x = inputs
        if ctx.host:
            return host_choice.or_zero(x > 0, g)
        return ctx.xp.where(x > 0, g, constant(g, 0))

    def gradient(op, grad):
        return [build("ReluGrad", grad, op.inputs[1]), _zeros(op.inputs[1])]


class Relu6(Op):
    """``min(max(features, 0), 6)``, element by element."""

    signature = "features: T -> activations: T"
    attrs = {"T": Type(_REALS)}
    effect = PURE
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        return ctx.xp.minimum(ctx.xp.maximum(x, 0), 6)

    def gradient(op, grad):
        return [build("Relu6Grad", grad, op.outputs[0])]


class Relu6Grad(Op):
    """``gradients`` where ``0 < features < 6`` (inputs or outputs of Relu6), 0 elsewhere."""

    signature = "gradients: T, features: T -> backprops: T"
    attrs = {"T": Type(_REALS)}
    effect = PURE
    shape = inference.merged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        g, x = inputs
        if ctx.host:
            return host_choice.or_zero((x > 0) & (x < 6), g)
        return ctx.xp.where((x > 0) & (x < 6), g, constant(g, 0))

    def gradient(op, grad):
        return [build("Relu6Grad", grad, op.inputs[1]), _zeros(op.inputs[1])]


class LeakyRelu(Op):
    """``features`` where positive, ``alpha * features`` elsewhere."""

    signature = "features: T -> activations: T"
    attrs = {"alpha": Float(0.20000000298023224), "T": Type(_FLOATS, "float")}
    effect = PURE
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        alpha = constant(x, attrs["alpha"])
        if ctx.host and x.ndim and 0 < alpha <= 1:  # the larger one, to the bit
            bent = x * alpha
            return np.maximum(x, bent, out=bent)
        return _choose(ctx, x > 0, x, x * alpha)

    def gradient(op, grad):
        return [build("LeakyReluGrad", grad, op.inputs[0], alpha=op.get_attr("alpha"))]


class LeakyReluGrad(Op):
    """``gradients`` where ``features > 0``, ``alpha * gradients`` elsewhere."""

    signature = "gradients: T, features: T -> backprops: T"
    attrs = {"alpha": Float(0.20000000298023224), "T": Type(_FLOATS, "float")}
    effect = PURE
    shape = inference.merged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        g, x = inputs
        return _choose(ctx, x > 0, g, g * constant(g, attrs["alpha"]))

    def gradient(op, grad):
        x = op.inputs[1]
        return [build("LeakyReluGrad", grad, x, alpha=op.get_attr("alpha")), _zeros(x)]


def _where_negative(y: Any, grad: Any) -> Any:
    return build("Select", build("Less", y, 0.0), grad, _zeros(y))


class Elu(Op):
    """``features`` where not negative, ``exp(features) - 1`` elsewhere."""

    signature = "features: T -> activations: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.unchanged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        wide = widen(x)
        zero = constant(wide, 0)
        if ctx.host and x.ndim:  # the larger one, as exp(x) - 1 is at least x
            bent = np.minimum(wide, zero)
            np.expm1(bent, out=bent)
            return np.maximum(bent, wide, out=bent).astype(x.dtype, copy=False)
        negative = ctx.xp.expm1(ctx.xp.minimum(wide, zero))
        return _choose(ctx, wide < zero, negative, wide).astype(x.dtype)

    def gradient(op, grad):
        return [build("EluGrad", grad, op.outputs[0])]


class EluGrad(Op):
    """``gradients * (outputs + 1)`` where ``outputs < 0``, ``gradients`` elsewhere; ``outputs`` are Elu's."""

    signature = "gradients: T, outputs: T -> backprops: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.merged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        g, y = inputs
        if ctx.host and y.ndim and y.dtype.kind == "f":
            slope = np.fmin(y, constant(y, 0))  # 0 where y is NaN, which is not below 0
            slope += constant(y, 1)
            return np.multiply(g, slope, out=slope)
        return _choose(ctx, y < constant(y, 0), g * (y + constant(y, 1)), g)

    def gradient(op, grad):
        y = op.inputs[1]
        return [build("EluGrad", grad, y), _where_negative(y, build("Mul", grad, op.inputs[0]))]


class Selu(Op):
    """Scaled exponential linear unit: ``scale * x`` where not negative, ``scale * alpha * (exp(x) - 1)`` elsewhere.

    The constants make zero mean and unit variance a fixed point: Klambauer et al., Self-Normalizing Neural Networks,
    2017.
    """

    signature = "features: T -> activations: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.unchanged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        wide = widen(x)
        zero = constant(wide, 0)
        if ctx.host and x.ndim:  # one of the two terms is 0
            bent = np.minimum(wide, zero)
            np.expm1(bent, out=bent)
            bent *= constant(wide, _SELU_SCALE_ALPHA)
            straight = np.maximum(wide, zero)
            straight *= constant(wide, _SELU_SCALE)
            return np.add(bent, straight, out=bent).astype(x.dtype, copy=False)
        negative = constant(wide, _SELU_SCALE_ALPHA) * ctx.xp.expm1(ctx.xp.minimum(wide, zero))
        return _choose(ctx, wide < zero, negative, constant(wide, _SELU_SCALE) * wide).astype(x.dtype)

    def gradient(op, grad):
        return [build("SeluGrad", grad, op.outputs[0])]


class SeluGrad(Op):
    """``gradients * (outputs + scale * alpha)`` where ``outputs < 0``, ``gradients * scale`` elsewhere."""

    signature = "gradients: T, outputs: T -> backprops: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.merged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        g, y = inputs
        negative = g * (y + constant(y, _SELU_SCALE_ALPHA))
        return _choose(ctx, y < constant(y, 0), negative, g * constant(g, _SELU_SCALE))

    def gradient(op, grad):
        y = op.inputs[1]
        return [build("SeluGrad", grad, y), _where_negative(y, build("Mul", grad, op.inputs[0]))]


class Softplus(Op):
    """``log(1 + exp(features))``, without overflow."""

    signature = "features: T -> activations: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.unchanged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        wide = widen(x)
        xp = ctx.xp
        return (xp.maximum(wide, constant(wide, 0)) + xp.log1p(xp.exp(-xp.abs(wide)))).astype(x.dtype)

    def gradient(op, grad):
        return [build("SoftplusGrad", grad, op.inputs[0])]


class SoftplusGrad(Op):
    """``gradients / (1 + exp(-features))``."""

    signature = "gradients: T, features: T -> backprops: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.merged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        g, x = inputs
        wide = widen(x)
        return (widen(g) / (constant(wide, 1) + ctx.xp.exp(-wide))).astype(g.dtype)

    def gradient(op, grad):
        dy, x = op.inputs
        spread = build("Add", build("Add", build("Exp", build("Neg", x)), 2.0), build("Exp", x))
        return [build("SoftplusGrad", grad, x), build("RealDiv", build("Mul", grad, dy), spread)]


class Softsign(Op):
    """``features / (1 + |features|)``."""

    signature = "features: T -> activations: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    shape = inference.unchanged

    @_in_passes
    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        return x / (1 + ctx.xp.abs(x))

    def gradient(op, grad):
        return [build("SoftsignGrad", grad, op.inputs[0])]


@_in_passes
def _softsign_grad_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    g, x = inputs
    base = 1 + ctx.xp.abs(x)
    return g / (base * base)


define(
    "SoftsignGrad",
    "``gradients / (1 + |features|)**2``.",
    signature="gradients: T, features: T -> backprops: T",
    attrs={"T": Type(_FLOATS)},
    effect=PURE,
    shape=inference.merged,
    kernel=_softsign_grad_kernel,
    gradient=DERIVED,
)

public_op("Relu", "nn.relu")
public_op("Elu", "nn.elu")
public_op("Selu", "nn.selu")
public_op("Softplus", "nn.softplus", "math.softplus")


@public("log_sigmoid", "math.log_sigmoid", "nn.log_sigmoid")
def log_sigmoid(x: Any, name: str | None = None) -> Any:
    """``log(1 / (1 + exp(-x)))``, exact for large ``|x|``."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        return build("Neg", build("Softplus", build("Neg", x)), name=scope)


public_op("Softsign", "nn.softsign", "math.softsign")


@public("nn.relu6")
def relu6(features: Any, name: str | None = None) -> Any:
    """``min(max(features, 0), 6)``, element by element."""
    with name_scope(name, "Relu6", [features]) as scope:
        return build("Relu6", features, name=scope)


@public("nn.leaky_relu")
def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Any:
    """``features`` where positive, ``alpha * features`` elsewhere; integers become float32.

    Args:
        features: tensor of any shape.
        alpha: slope for negative values; a number or a scalar tensor.
        name: name of the op.
    """
    with name_scope(name, "LeakyRelu", [features]) as scope:
        tensor = convert.convert_to_tensor(features, name="features")
        if tensor.dtype.base.is_integer:
            tensor = build("Cast", tensor, DstT="float32")
        if isinstance(alpha, (int, float)):
            return build("LeakyRelu", tensor, alpha=alpha, name=scope)
        return build("Maximum", build("Mul", alpha, tensor), tensor, name=scope)


@public("nn.crelu")
def crelu(features: Any, name: str | None = None, axis: int = -1) -> Any:
    """Relu of ``features`` and of ``-features``, concatenated along ``axis``, which doubles."""
    with name_scope(name, "CRelu", [features]) as scope:
        tensor = convert.convert_to_tensor(features, name="features")
        both = build("ConcatV2", [tensor, build("Neg", tensor)], axis, name=scope)
        return build("Relu", both)


@public("nn.swish")
def swish(features: Any, name: str | None = None) -> Any:
    """``features * sigmoid(features)``."""
    with name_scope(name, "swish", [features]) as scope:
        tensor = convert.convert_to_tensor(features, name="features")
        count_more(2)  # a function of its own
        return build("Mul", tensor, build("Sigmoid", tensor), name=scope)


@public("nn.silu")
def silu(features: Any, beta: Any = 1.0, name: str | None = None) -> Any:
    """``features * sigmoid(beta * features)``."""
    with name_scope(name, "silu", [features]) as scope:
        tensor = convert.convert_to_tensor(features, name="features")
        scaled = tensor if isinstance(beta, float) and beta == 1.0 else build("Mul", tensor, beta)
        return build("Mul", tensor, build("Sigmoid", scaled), name=scope)


@public("nn.gelu")
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """``features`` times the chance that a normal number is smaller.

    Args:
        features: a tensor of floats.
        approximate: take ``tanh`` in place of the error function.
        name: of the op.

    Source: D. Hendrycks, K. Gimpel, Gaussian Error Linear Units, 2016.
    """
    with name_scope(name, "gelu", [features]) as scope:
        x = convert.convert_to_tensor(features, name="features")
        if approximate:
            cube = build("Mul", build("Pow", x, 3.0), 0.044715)
            inner = build("Mul", build("AddV2", x, cube), math.sqrt(2 / math.pi))
            chance = build("Tanh", inner)
        else:
            chance = build("Erf", build("Mul", x, math.sqrt(0.5)))
        half = build("Mul", x, 0.5)
        return build("Mul", half, build("AddV2", chance, 1.0), name=scope)
