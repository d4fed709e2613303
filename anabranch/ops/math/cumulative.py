"""Running sums and products along one dimension.

Policy. Two-byte floats accumulate in float32. XLA's own cumulative sum on CPUs costs three to seven times a plain
loop over the dimension with all the others as a vector, so that is what runs there when the others are wide enough; a
long vector is cut into pieces that become the width. Infinities and NaNs reach only elements after them, as in a
loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, Type, define
from anabranch.core.graph.build import build
from anabranch.ops.shared.array_rules import INDEX, NUMBERS, dense, kernel_axis, like, require
from anabranch.ops.shared.widening import widen

_WIDE = 8
"""Fewest elements beside the dimension for which the plain loop pays."""
_LONG = 4096
"""Length from which a vector is cut into pieces."""


def _scan_shape(c: Any) -> Any:
    return c.with_rank_at_least(0, 1)


def _flip(xp: Any, x: Any, reverse: bool) -> Any:
    return xp.flip(x, 0) if reverse else x


def _shifted(xp: Any, x: Any, first: Any) -> Any:
    """``x`` moved one place along dimension 0, with ``first`` in the place left free."""
    return xp.concatenate([xp.full((1,) + x.shape[1:], first, x.dtype), x[:-1]], axis=0)


def _cumulate(ctx: Any, x: Any, combine: str, exclusive: bool) -> Any:
    """The running sum or product of ``x`` along dimension 0 (no longer than needed, not empty)."""
    xp = ctx.xp
    first = x.dtype.type(0 if combine == "add" else 1)
    operation = xp.add if combine == "add" else xp.multiply
    if ctx.host:
        result = operation.accumulate(x, axis=0, dtype=x.dtype)
        return _shifted(xp, result, first) if exclusive else result
    length = x.shape[0]
    width = int(np.prod(x.shape[1:], dtype=np.int64))
    if ctx.platform == "cpu" and width >= _WIDE:

        def step(carry, item):
            total = operation(carry, item)
            return total, carry if exclusive else total

        return ctx.lax.scan(step, xp.full(x.shape[1:], first, x.dtype), x)[1]
    if ctx.platform == "cpu" and width == 1 and length >= _LONG:
        pieces = 1 << ((length.bit_length() + 1) // 2)
        run = -(-length // pieces)
        padded = xp.concatenate([xp.reshape(x, (-1,)), xp.full((pieces * run - length,), first, x.dtype)])
        columns = xp.reshape(padded, (pieces, run)).T
        inner = _cumulate(ctx, columns, combine, False)
        before = _cumulate(ctx, inner[-1], combine, True)
        inside = _shifted(xp, inner, first) if exclusive else inner
        return xp.reshape(xp.reshape(operation(inside, before).T, (-1,))[:length], x.shape)
    result = (xp.cumsum if combine == "add" else xp.cumprod)(x, axis=0, dtype=x.dtype)
    return _shifted(xp, result, first) if exclusive else result


def _scan_kernel(combine: str) -> Any:
    def kernel(ctx, inputs, attrs):
        x, axis = inputs
        return _along(ctx, x, axis, attrs, lambda first: _cumulate(ctx, first, combine, attrs["exclusive"]))

    return kernel


def _along(ctx: Any, x: Any, axis: int, attrs: Any, cumulate: Any) -> Any:
    """Run ``cumulate`` on ``x`` with ``axis`` brought to the front, in the direction and precision wanted."""
    require(ctx, np.ndim(axis) == 0, "ScanOp: axis must be a scalar, not {0}", tuple(np.shape(axis)))
    axis = kernel_axis(
        ctx,
        int(np.asarray(axis).reshape(-1)[0]),
        x.ndim,
        text="ScanOp: Expected scan axis in the range [{1}, {2}), but got {0}",
    )
    if 0 in x.shape:
        return x
    xp = ctx.xp
    first = _flip(xp, xp.moveaxis(widen(x), axis, 0), attrs["reverse"])
    result = _flip(xp, cumulate(first), attrs["reverse"])
    return xp.moveaxis(result, 0, axis).astype(x.dtype)


def _cumsum_gradient(op: Any, grad: Any) -> Any:
    return [
        build(
            "Cumsum",
            dense(grad),
            op.inputs[1],
            exclusive=op.get_attr("exclusive"),
            reverse=not op.get_attr("reverse"),
        ),
        None,
    ]


def _cumprod_gradient(op: Any, grad: Any) -> Any:
    """Each element takes part in all later products: their gradients, times the products, divided by the element.

    A zero gets the gradient 0, as TensorFlow has it, since a division by it says nothing.
    """
    x, axis = op.inputs
    options = {"exclusive": op.get_attr("exclusive")}
    if x.dtype.is_complex:
        x = build("Conj", x)
    product = build("Cumprod", x, axis, reverse=op.get_attr("reverse"), **options)
    total = build("Cumsum", build("Mul", product, dense(grad)), axis, reverse=not op.get_attr("reverse"), **options)
    return [build("DivNoNan", total, x), None]


def _log_add(xp: Any, a: Any, b: Any) -> Any:
    """``log(exp(a) + exp(b))``; -inf for two of -inf, without NaN."""
    high, low = xp.maximum(a, b), xp.minimum(a, b)
    shift = xp.where(high == low, high.dtype.type(0), low - high)
    return high + xp.log1p(xp.exp(shift))


def _logsumexp_kernel(ctx, inputs, attrs):
    x, axis = inputs
    xp = ctx.xp

    def cumulate(first):
        start = xp.full(first.shape[1:], attrs["T"].min, first.dtype)
        if not ctx.host:

            def step(carry, item):
                total = _log_add(xp, carry, item)
                return total, carry if attrs["exclusive"] else total

            return ctx.lax.scan(step, start, first)[1]
        results = np.empty_like(first)
        for i, item in enumerate(first):
            total = _log_add(xp, start, item)
            results[i] = start if attrs["exclusive"] else total
            start = total
        return results

    return _along(ctx, x, axis, attrs, cumulate)


def _logsumexp_gradient(op: Any, grad: Any) -> Any:
    """The weights are exp(x - y): taken to logarithms, with positive and negative gradients apart."""
    x, axis = op.inputs
    grad, y = dense(grad), op.outputs[0]
    options = {"exclusive": op.get_attr("exclusive"), "reverse": not op.get_attr("reverse")}
    lowest = like(x.dtype.base.min, grad)
    zero = like(0, grad)
    parts = []
    for sign in ("Greater", "Less"):
        magnitude = grad if sign == "Greater" else build("Neg", grad)
        logs = build("SelectV2", build(sign, grad, zero), build("Log", magnitude), lowest)
        running = build("CumulativeLogsumexp", build("Sub", logs, y), axis, **options)
        parts.append(build("Exp", build("Add", running, x)))
    return [build("Sub", parts[0], parts[1]), None]


for _name, _doc, _types, _kernel, _gradient in (
    ("Cumsum", "Running sum of `x` along `axis`", NUMBERS, _scan_kernel("add"), _cumsum_gradient),
    ("Cumprod", "Running product of `x` along `axis`", NUMBERS, _scan_kernel("multiply"), _cumprod_gradient),
    (
        "CumulativeLogsumexp",
        "Running `log(sum(exp(x)))` along `axis`",
        "bfloat16 half float double",
        _logsumexp_kernel,
        _logsumexp_gradient,
    ),
):
    define(
        _name,
        _doc + "; `exclusive` leaves each element itself out, `reverse` runs from the end.",
        signature="x: T, axis: Tidx -> out: T",
        attrs={
            "exclusive": Bool(False),
            "reverse": Bool(False),
            "T": Type(_types),
            "Tidx": Type(INDEX, "int32"),
        },
        effect=PURE,
        shape=_scan_shape,
        compile_time=("axis",),
        kernel=_kernel,
        gradient=_gradient,
    )


# -------------------------------------------------------------------------------------------------------------- public
@public("cumsum", "math.cumsum")
def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Running sum of ``x`` along ``axis``.

    Args:
        x: the tensor.
        axis: the dimension.
        exclusive: element i is the sum of those before i, and the first is 0.
        reverse: run from the end.
        name: name of the op.
    """
    return build("Cumsum", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@public("cumprod", "math.cumprod")
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Running product of ``x`` along ``axis``; see :func:`cumsum`."""
    return build("Cumprod", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@public("math.cumulative_logsumexp")
def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Running ``log(sum(exp(x)))`` along ``axis``; see :func:`cumsum`. Of no elements it is the lowest number of the
    dtype, as in TensorFlow, not minus infinity.
    """
    return build("CumulativeLogsumexp", x, axis, exclusive=exclusive, reverse=reverse, name=name)
