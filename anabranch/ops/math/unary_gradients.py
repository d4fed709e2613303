"""The ops that gradients of some element-wise functions are made of: from what the function gave to its slope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.opdef import PURE, Type, define
from anabranch.core.graph.build import build
from anabranch.ops.shared import open_forms, unchecked
from anabranch.ops.shared.broadcast_gradients import conj, div, mul, neg, square, sub
from anabranch.ops.shared.numerics import COMPLEX, FLOATS, widened


def _conjugate(ctx: Any, y: Any) -> Any:
    return ctx.xp.conj(y) if y.dtype.kind == "c" else y


@widened
def _sigmoid_grad(ctx, y, dy):
    return dy * y * (1 - y)


@widened
def _tanh_grad(ctx, y, dy):
    return dy * (1 - y * y)


def _zero_stays(ctx: Any, dy: Any, gradient: Any) -> Any:
    """``gradient``, and 0 where ``dy`` is: a branch that was not taken sends 0 to where the slope is infinite."""
    if ctx.host and np.all(dy):
        return gradient
    return ctx.xp.where(dy == 0, ctx.xp.zeros_like(gradient), gradient)


@widened
def _sqrt_grad(ctx, y, dy):
    return _zero_stays(ctx, dy, 0.5 * dy / _conjugate(ctx, y))


@widened
def _rsqrt_grad(ctx, y, dy):
    y = _conjugate(ctx, y)
    return _zero_stays(ctx, dy, (-0.5 * dy * y) * (y * y))


@widened
def _reciprocal_grad(ctx, y, dy):
    y = _conjugate(ctx, y)
    return _zero_stays(ctx, dy, -dy * y * y)


def _second_sigmoid(op, grad):
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    scaled = mul(grad, dy)
    return [sub(scaled, mul(mul(2.0, scaled), y)), build("SigmoidGrad", y, grad)]


def _second_tanh(op, grad):
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return [mul(mul(mul(grad, -2.0), dy), y), build("TanhGrad", y, grad)]


def _second_sqrt(op, grad):
    scaled = div(grad, op.inputs[0])
    return [mul(neg(conj(scaled)), op.outputs[0]), mul(0.5, scaled)]


def _second_rsqrt(op, grad):
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return [mul(mul(mul(-1.5, conj(grad)), dy), square(y)), build("RsqrtGrad", y, grad)]


def _second_reciprocal(op, grad):
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return [mul(mul(mul(conj(grad), -2.0), dy), y), build("ReciprocalGrad", y, grad)]


def _gradient_op(
    type_name: str,
    doc: str,
    function: Callable[..., Any],
    gradient: Callable[..., Any],
    straight: Any = None,
    any_size: Any = None,
) -> None:
    define(
        type_name,
        doc,
        signature="y: T, dy: T -> z: T",
        attrs={"T": Type(f"{FLOATS} {COMPLEX}")},
        effect=PURE,
        shape=inference.merged,
        gradient=gradient,
        kernel=lambda ctx, inputs, attrs: function(ctx, inputs[0], inputs[1]),
        straight=straight,
        any_size=any_size,
    )


_gradient_op(
    "SigmoidGrad",
    "`dy * y * (1 - y)`, where `y = sigmoid(x)`.",
    _sigmoid_grad,
    _second_sigmoid,
    unchecked.sigmoid_grad,
    open_forms.sigmoid_grad,
)
_gradient_op(
    "TanhGrad",
    "`dy * (1 - y * y)`, where `y = tanh(x)`.",
    _tanh_grad,
    _second_tanh,
    unchecked.tanh_grad,
    open_forms.tanh_grad,
)
_gradient_op("SqrtGrad", "`dy * 0.5 / conj(y)`, where `y = sqrt(x)`; 0 where dy is.", _sqrt_grad, _second_sqrt)
_gradient_op(
    "RsqrtGrad", "`dy * -0.5 * conj(y) ** 3`, where `y = rsqrt(x)`; 0 where dy is.", _rsqrt_grad, _second_rsqrt
)
_gradient_op(
    "ReciprocalGrad", "`-dy * conj(y) ** 2`, where `y = 1 / x`; 0 where dy is.", _reciprocal_grad, _second_reciprocal
)
_gradient_op("InvGrad", "The old name of ReciprocalGrad.", _reciprocal_grad, _second_reciprocal)
