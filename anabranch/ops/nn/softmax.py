"""Softmax, its logarithm, and the two cross entropies, in closed form.

Policy. A cross entropy has two outputs, the loss per row and the gradient of the loss with respect to the logits,
because both come from one pass over the same exponentials; what a program does not use is removed by the compiler.
Two-byte floats are summed in float32. Labels that index classes are checked: nothing is clamped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import host_reductions, open_forms, row_rules, unchecked
from anabranch.ops.shared.widening import constant, widen

_FLOATS = "half bfloat16 float double"


def is_zero(grad: Any) -> bool:
    """Whether an incoming gradient is known to be zero, so that a second-order term can be left out."""
    if grad is None:
        return True
    if grad._is_zeros:
        return True
    maker = grad._maker
    while maker is not None and maker.type == "Identity":
        maker = maker.inputs[0]._maker
    if maker is not None and maker.type == "Fill":
        maker = maker.inputs[1]._maker
    if maker is None:
        return False  # a value that is there: to look whether all of it is zero may cost more than the term
    if maker.type in ("ZerosLike", "Zeros"):
        return True
    known = inference.partial_value(maker.outputs[0]) if maker.type == "Const" else None
    return known is not None and not np.any(known)


def _shifted(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """``x`` minus its row maximum, the exponentials and their row sums. Rows of -inf or with +inf give NaN."""
    if xp is np and x.size:
        shifted = x - host_reductions.greatest(x, keepdims=True)
        exponentials = np.exp(shifted)
        return shifted, exponentials, host_reductions.total(exponentials, keepdims=True)
    shifted = x - xp.max(x, axis=-1, keepdims=True, initial=-np.inf)
    exponentials = xp.exp(shifted)
    return shifted, exponentials, xp.sum(exponentials, axis=-1, keepdims=True)


def _at_least_vector(c: Any) -> Any:
    return c.with_rank_at_least(0, 1)


class Softmax(Op):
    """``exp(logits) / sum(exp(logits))`` over the last dimension of ``[..., classes]``."""

    signature = "logits: T -> softmax: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    by_rows = row_rules.last_axis
    straight = unchecked.softmax(False)
    any_size = open_forms.softmax
    shape = _at_least_vector

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        _, exponentials, total = _shifted(ctx.xp, widen(x))
        return (exponentials / total).astype(x.dtype)

    def gradient(op, grad):
        y = op.outputs[0]
        total = build("Sum", build("Mul", grad, y), [-1], keep_dims=True)
        return [build("Mul", build("Sub", grad, total), y)]


class LogSoftmax(Op):
    """``logits - log(sum(exp(logits)))`` over the last dimension of ``[..., classes]``."""

    signature = "logits: T -> logsoftmax: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    by_rows = row_rules.last_axis
    straight = unchecked.softmax(True)
    any_size = open_forms.log_softmax
    shape = _at_least_vector

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        shifted, _, total = _shifted(ctx.xp, widen(x))
        return (shifted - ctx.xp.log(total)).astype(x.dtype)

    def gradient(op, grad):
        total = build("Sum", grad, [-1], keep_dims=True)
        return [build("Sub", grad, build("Mul", total, build("Exp", op.outputs[0])))]


def _times_column(column: Any, matrix: Any) -> Any:
    return build("Mul", build("ExpandDims", column, -1), matrix)


def _second_order(grad_backprop: Any, logits: Any) -> Any:
    """The vector-Jacobian product of ``softmax(logits) - labels``: ``(g - sum(g * softmax)) * softmax``."""
    softmax = build("Softmax", logits)
    total = build("Sum", build("Mul", grad_backprop, softmax), [1], keep_dims=True)
    return build("Mul", build("Sub", grad_backprop, total), softmax)


class SoftmaxCrossEntropyWithLogits(Op):
    """Cross entropy of ``labels`` (rows sum to 1) and ``softmax(features)``: both ``[batch, classes]``, broadcast.

    Outputs the loss ``[batch]`` and its gradient with respect to the logits, ``softmax(features) - labels``.
    """

    signature = "features: T, labels: T -> loss: T, backprop: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    any_size = open_forms.cross_entropy

    def shape(c):
        both = shapes.broadcast(c.shapes[0], c.shapes[1])
        if both is None:
            return [(None,), (None, None)]
        if len(both) != 2:
            raise ValueError(
                f"Shape must be broadcasted with rank 2, but is rank {len(both)}\n"
                + errors.message(
                    f"logits of shape {shapes.show(c.shapes[0])} and labels of shape {shapes.show(c.shapes[1])}",
                    "matrices [batch, classes]",
                    "reshape them, or use tf.nn.softmax_cross_entropy_with_logits_v2, which takes any rank",
                )
            )
        return [both[:1], both]

    def kernel(ctx, inputs, attrs):
        x, labels = inputs
        xp = ctx.xp
        rows = np.broadcast_shapes(x.shape, labels.shape)
        ctx.check(
            len(rows) == 2,
            errors.InvalidArgumentError,
            "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional",
        )
        wide, wanted = widen(x), widen(labels)
        if x.shape[-1:] != rows[-1:]:  # one logit stands for all classes
            wide = xp.broadcast_to(wide, rows)
        shifted, exponentials, total = _shifted(xp, wide)
        # A label of 0 takes no part, even where the log probability is -inf.
        terms = xp.where(wanted == 0, constant(wide, 0), wanted * (xp.log(total) - shifted))
        loss = xp.sum(xp.broadcast_to(terms, rows), axis=-1)
        backprop = xp.broadcast_to(exponentials / total - wanted, rows)
        return loss.astype(x.dtype), backprop.astype(x.dtype)

    def gradient(op, grad_loss, grad_backprop):
        given, labels = op.inputs
        logits = _each_class(given, op.outputs[1])
        grad_logits = grad_labels = None
        if grad_loss is not None:
            grad_logits = _times_column(grad_loss, op.outputs[1])
            grad_labels = _times_column(grad_loss, build("Neg", build("LogSoftmax", logits)))
        if not is_zero(grad_backprop):
            more = _second_order(grad_backprop, logits)
            grad_logits = more if grad_logits is None else build("Add", grad_logits, more)
            less = build("Neg", grad_backprop)
            grad_labels = less if grad_labels is None else build("Add", grad_labels, less)
        return [_reduced(grad_logits, given), _reduced(grad_labels, labels)]


def _each_class(logits: Any, rows: Any) -> Any:
    """Logits with a column for each class, where one stands for all."""
    own, full = logits.shape.raw, rows.shape.raw
    if own is None or full is None or own[-1:] == full[-1:]:
        return logits
    return build("Add", logits, build("ZerosLike", rows))


def _padded(shape: Any) -> Any:
    return shape if shape is None or len(shape) >= 2 else (1,) * (2 - len(shape)) + tuple(shape)


def _reduced(grad: Any, tensor: Any) -> Any:
    """Sum ``grad`` over the rows or columns along which ``tensor`` was broadcast."""
    own, full = tensor.shape.raw, None if grad is None else grad.shape.raw
    if grad is None or own is None or full is None or own == full:
        return grad
    axes = [i for i, (d, e) in enumerate(zip(_padded(own), full, strict=True)) if d == 1 and e != 1]
    summed = build("Sum", grad, axes, keep_dims=True) if axes else grad
    return summed if len(own) == 2 else build("Reshape", summed, build("Shape", tensor))


class SparseSoftmaxCrossEntropyWithLogits(Op):
    """Cross entropy of ``softmax(features)``, ``[batch, classes]``, and the class that ``labels``, ``[batch]``, name.

    Outputs the loss ``[batch]`` and its gradient with respect to the logits. A label outside ``[0, classes)`` is an
    error.
    """

    signature = "features: T, labels: Tlabels -> loss: T, backprop: T"
    attrs = {"T": Type(_FLOATS), "Tlabels": Type("int32 int64", "int64")}
    effect = PURE
    any_size = open_forms.index_cross_entropy

    def shape(c):
        rows = c.with_rank("features", 2)
        labels = c.with_rank("labels", 1)
        batch = shapes.merge(rows[:1], labels)
        return [batch, batch + rows[1:]]

    def kernel(ctx, inputs, attrs):
        x, labels = inputs
        xp = ctx.xp
        batch, classes = x.shape
        if labels.shape != (batch,) or (batch and not classes):
            shown = shapes.show(tuple(labels.shape))
            lead = (
                f"labels must be 1-D, but got shape {shown}"
                if labels.ndim != 1
                else f"logits and labels must have the same first dimension, got logits shape "
                f"{shapes.show(tuple(x.shape))} and labels shape {shown}"
            )
            ctx.check(
                False,
                errors.InvalidArgumentError,
                f"{lead}\n"
                + errors.message(
                    f"logits of shape {shapes.show(x.shape)} and labels of shape {shapes.show(labels.shape)}",
                    "logits [batch, classes] with at least one class, labels [batch]",
                    "tf.reshape(labels, [-1]), one index per row of the logits",
                ),
            )
            return xp.zeros((batch,), x.dtype), xp.zeros(x.shape, x.dtype)
        if batch == 0:
            return xp.zeros((0,), x.dtype), xp.zeros(x.shape, x.dtype)
        wrong = (labels < 0) | (labels >= classes)
        ctx.check(
            ~xp.any(wrong),
            errors.InvalidArgumentError,
            f"Received a label value of {{0}} which is outside the valid range of [0, {classes}).  Label values: {{1}}",
            labels[xp.argmax(wrong)],
            labels,
            summarize=-1,
        )
        shifted, exponentials, total = _shifted(xp, widen(x))
        place = xp.where(wrong, labels.dtype.type(0), labels)[:, None]
        if xp is np:
            chosen_ones = shifted[np.arange(batch), place[:, 0]]
        else:
            chosen_ones = xp.take_along_axis(shifted, place, axis=1)[:, 0]
        loss = xp.log(total[:, 0]) - chosen_ones
        # For the matrix, a comparison with the class numbers fuses with the pass over the logits; a scatter would not.
        chosen = place == xp.arange(classes, dtype=labels.dtype)[None, :]
        backprop = exponentials / total - xp.where(chosen, constant(shifted, 1), constant(shifted, 0))
        return loss.astype(x.dtype), backprop.astype(x.dtype)

    def gradient(op, grad_loss, grad_backprop):
        logits = op.inputs[0]
        grad_logits = None if grad_loss is None else _times_column(grad_loss, op.outputs[1])
        if not is_zero(grad_backprop):
            more = _second_order(grad_backprop, logits)
            grad_logits = more if grad_logits is None else build("Add", grad_logits, more)
        return [grad_logits, None]


class L2Loss(Op):
    """``sum(t ** 2) / 2`` over all elements, a scalar."""

    signature = "t: T -> output: T"
    attrs = {"T": Type(_FLOATS)}
    effect = PURE
    any_size = open_forms.l2_loss
    shape = inference.scalar

    def kernel(ctx, inputs, attrs):
        (t,) = inputs
        wide = widen(t)
        return (ctx.xp.sum(wide * wide) * constant(wide, 0.5)).astype(t.dtype)

    def gradient(op, grad):
        return [build("Mul", op.inputs[0], grad)]


public_op("L2Loss", "nn.l2_loss")
