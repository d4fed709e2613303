"""Connectionist temporal classification: the loss and its gradient by the forward-backward recursions (Graves, 2012).

Policy. Labels stand between blanks in a row of ``2 * U + 1`` places; one step of a recursion moves all places of all
sequences at once, so that a loss is a scan over time in both tiers. ``U`` is the longest label sequence; a compiled
program, which does not know it, holds the recursion for a few sizes and runs the one that fits. The gradient is
computed with the loss, as TensorFlow computes it; there is no second one.

A program computes in logarithms. The host, where each call of NumPy costs more than what it computes, has probabilities
in float64 that are scaled now and then, and both directions in one recursion: the backward one is the forward one of
the sequence turned round. What is smaller than all floats beside the likeliest place is lost there. It is negligible
wherever the paths through the places that are left weigh enough at each time step, which is looked at afterwards; if
they do not, or anything is not a number, logarithms decide here, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import shapes

_FLAGS = {
    "preprocess_collapse_repeated": Bool(False),
    "ctc_merge_repeated": Bool(True),
    "ignore_longer_outputs_than_inputs": Bool(False),
}
_SMALLEST, _STEP = 32, 4
"""Sizes of the recursions that a compiled program holds: 32, 128, 512, ... labels."""
_SCALED_EVERY = 8
"""Time steps after which probabilities are scaled: they grow threefold at most in each."""
_NEGLIGIBLE, _LEAST_WEIGHT = 1e-200, 1e-150
"""What is lost beside the likeliest place (processors are slow with numbers that are close to the smallest float), and
what the paths must weigh at each time step for that not to matter.
"""


def check_inputs(c: Any) -> tuple[int | None, int | None, int | None]:
    """Shape rules: ``[time, batch, classes]`` of ``inputs`` with ``sequence_length`` ``[batch]``."""
    inputs = c.with_rank("inputs", 3)
    lengths = c.with_rank("sequence_length", 1)
    return inputs[0], shapes.merge_dim(inputs[1], lengths[0]), inputs[2]


def check_lengths(ctx: Any, lengths: Any, time: int, batch: int) -> None:
    """Checks of kernels: a length for each sequence, none above the number of time steps."""
    ctx.check(
        lengths.shape == (batch,),
        errors.InvalidArgumentError,
        f"len(sequence_length) != batch_size.  len(sequence_length):  {lengths.size} batch_size: {batch}",
    )
    if lengths.shape == (batch,) and batch:
        ctx.check(
            (lengths <= time).all(),
            errors.InvalidArgumentError,
            f"sequence_length({{0}}) <= {time}; the longest is {{1}}",
            ctx.xp.argmax(lengths > time),
            ctx.xp.max(lengths),
        )


# -------------------------------------------------------------------------------------------------------------- labels
def _dense_labels(ctx: Any, indices: Any, values: Any, batch: int, width: int) -> tuple[Any, Any]:
    """Labels ``[batch, width]`` with -1 where there is none, and how many there are by row."""
    xp = ctx.xp
    rows, columns = indices[:, 0], indices[:, 1]
    inside = (rows >= 0) & (rows < batch) & (columns >= 0) & (columns < width)
    if ctx.host:
        dense = np.full((batch, width), -1, np.int32)
        dense[rows[inside], columns[inside]] = values[inside]
        count = np.bincount(rows[inside], minlength=batch)
        return dense, count.astype(np.int32)
    row = xp.where(inside, rows, batch)
    dense = xp.full((batch, width), -1, np.int32).at[row, columns].set(values, mode="drop")
    return dense, xp.zeros((batch,), np.int32).at[row].add(1, mode="drop")


def _packed(ctx: Any, labels: Any, keep: Any) -> tuple[Any, Any]:
    """The labels to keep, moved to the front of their row, and their number."""
    xp = ctx.xp
    order = xp.argsort(~keep, axis=1, stable=True)
    moved = xp.take_along_axis(labels, order, 1)
    return moved, xp.sum(keep, axis=1, dtype=np.int32)


def _check_labels(ctx: Any, labels: Any, count: Any, blank: int, classes: int) -> None:
    xp = ctx.xp
    if not labels.size:
        return
    there = xp.arange(labels.shape[1]) < count[:, None]
    ctx.check(
        ~xp.any(there & (labels < 0)),
        errors.InvalidArgumentError,
        "All labels must be nonnegative integers, batch: {0} labels: the lowest is {1}",
        xp.argmin(xp.min(xp.where(there, labels, 0), axis=1)),
        xp.min(xp.where(there, labels, 0)),
    )
    if blank == classes - 1:
        null = there & (labels >= blank)
        after = xp.cumsum(null.astype(np.int32), axis=1) > 0
        ctx.check(
            ~xp.any(after & there & ~null),
            errors.InvalidArgumentError,
            "Saw a non-null label (index >= num_classes - 1) following a null label\n"
            + errors.message(
                f"a label of {blank} or more, which is not a label, before others",
                f"labels 0 to {blank - 1}",
                "num_classes one larger",
            ),
        )


# ---------------------------------------------------------------------------------------------------------- recursions
def _logaddexp(xp: Any, *terms: Any) -> Any:
    """``log(sum(exp(terms)))``; of nothing but -inf it is -inf."""
    top = terms[0]
    for term in terms[1:]:
        top = xp.maximum(top, term)
    safe = xp.where(xp.isfinite(top), top, 0)
    total = xp.exp(terms[0] - safe)
    for term in terms[1:]:
        total = total + xp.exp(term - safe)
    return xp.where(xp.isfinite(top), xp.log(total) + safe, top)


def _shifted(xp: Any, x: Any, by: int) -> Any:
    """Places moved right (left if ``by`` is negative), with -inf where nothing comes from."""
    count = abs(by)
    if x.shape[1] <= count:
        return xp.full(x.shape, -np.inf, x.dtype)
    gap = xp.full((x.shape[0], count), -np.inf, x.dtype)
    return xp.concatenate([gap, x[:, :-count]] if by > 0 else [x[:, count:], gap], axis=1)


def _scan(ctx: Any, step: Any, start: Any, count: int, reverse: bool = False) -> Any:
    """``start`` carried through ``step(t, carry)``, and what each step gave, ``[count, ...]``."""
    xp = ctx.xp
    order = np.arange(count)[::-1] if reverse else np.arange(count)
    if not ctx.host:

        def body(carry: Any, t: Any) -> Any:
            new = step(t, carry)
            return new, new

        return ctx.lax.scan(body, start, xp.arange(count), reverse=reverse)[1]
    rows_of_time = np.empty((count, *start.shape), start.dtype)
    for t in order:
        start = step(t, start)
        rows_of_time[t] = start
    return rows_of_time


class _Places(NamedTuple):
    """The places between and on labels, ``[batch, 2 * U + 1]``: ``2 u + 1`` is label ``u``, even ones are blanks."""

    path: Any
    """The class of each."""
    used: Any
    """Whether the sequence has it."""
    skips: Any
    """Whether it is reached from the last place but one."""
    stays: Any
    """Whether a path may stay in it."""


def _places(xp: Any, labels: Any, count: Any, blank: int, classes: int, merge: bool) -> _Places:
    batch, width = labels.shape
    places = 2 * width + 1
    spread = xp.repeat(labels, 2, axis=1)
    odd = np.arange(places) % 2 == 1
    path = xp.where(odd, xp.concatenate([spread, xp.full((batch, 1), blank, labels.dtype)], axis=1), blank)
    path = xp.clip(path, 0, classes - 1)
    used = xp.arange(places) < 2 * count[:, None] + 1
    before = xp.concatenate([xp.full((batch, min(2, places)), -1, path.dtype), path[:, :-2]], axis=1)
    # A path may leave out the blank between two labels unless these are equal: it would read as one label.
    skips = odd & (path != before if merge else xp.ones(path.shape, bool)) & (np.arange(places) >= 2)
    stays = xp.ones(path.shape, bool) if merge else ~odd & xp.ones(path.shape, bool)
    return _Places(path, used, skips, stays)


def _log_softmax(xp: Any, logits: Any) -> Any:
    top = xp.max(logits, axis=2, keepdims=True)
    return logits - (top + xp.log(xp.sum(xp.exp(logits - top), axis=2, keepdims=True)))


def _scaled_forward_backward(
    logits: np.ndarray, labels: np.ndarray, count: np.ndarray, lengths: np.ndarray, blank: int, merge: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Loss and gradient in scaled probabilities; None if these may not be precise."""
    time, batch, classes = logits.shape
    log_y = _log_softmax(np, logits)
    path, used, skips, stays = _places(np, labels, count, blank, classes, merge)
    places = path.shape[1]
    # Equal labels in a row need a blank between them.
    needed = count + (used & ~skips)[:, 3::2].sum(1)
    possible = needed <= lengths
    t, rows, columns = np.arange(time), np.arange(batch), np.arange(places)
    inside = t[:, None] < lengths
    cells = (t[:, None] * batch + rows)[:, :, None] * classes + path
    emitted = log_y.ravel()[cells].astype(np.float64)
    emitted[:, ~used] = -np.inf
    highest = emitted.max(axis=2)
    emitted -= highest[:, :, None]
    np.exp(emitted, out=emitted)
    # Turned round, a row has its unused places first.
    turned = np.maximum(lengths - 1 - t[:, None], 0)
    both = np.empty((time, 2 * batch, places))
    both[:, :batch] = emitted
    both[:, batch:] = emitted[turned, rows][:, :, ::-1]
    skipped = np.zeros_like(skips)
    skipped[:, 2:] = skips[:, :1:-1]
    skips = np.concatenate([skips, skipped]).astype(np.float64)
    first = np.concatenate([np.zeros(batch, int), places - 1 - 2 * count])[:, None]
    leaving = None if merge else np.concatenate([stays, stays]).astype(np.float64)
    reached = np.zeros((time, 2 * batch, places + 2))
    """The probability of each place, with what was emitted there; two places without before the first."""
    before = np.empty((time, 2 * batch, places))
    """The same without what was emitted there."""
    logs = np.zeros((time, batch))
    before[0] = (columns >= first) & (columns < first + 2)
    np.multiply(before[0], both[0], out=reached[0, :, 2:])
    for step in range(1, time):
        last, new = reached[step - 1], before[step]
        np.multiply(last[:, :-2], skips, out=new)
        np.add(new, last[:, 1:-1], out=new)
        np.add(new, last[:, 2:] if leaving is None else last[:, 2:] * leaving, out=new)
        np.multiply(new, both[step], out=reached[step, :, 2:])
        if step % _SCALED_EVERY == 0:
            scale = reached[step].max(axis=1)
            scale[scale <= 0] = 1
            reached[step] /= scale[:, None]
            np.putmask(reached[step], reached[step] < _NEGLIGIBLE, 0)
            logs[step] = np.log(scale[:batch])
    joint = reached[:, :batch, 2:] * before[turned, batch + rows][:, :, ::-1]
    weight = joint.sum(axis=2)
    counts = inside & possible
    if not (weight[counts] > _LEAST_WEIGHT).all():
        return None
    ends = np.maximum(lengths - 1, 0)
    logs += highest
    total = np.log(weight[ends, rows]) + np.where(inside, logs, 0).sum(0)
    joint *= np.where(counts, 1 / np.where(counts, weight, 1), 0)[:, :, None]
    gradient = np.exp(log_y, order="C")
    np.subtract.at(gradient.reshape(-1), cells.ravel(), joint.astype(logits.dtype).ravel())
    gradient[~inside] = 0
    return np.where(possible, -total, np.inf).astype(logits.dtype), gradient


def _forward_backward(ctx: Any, logits: Any, labels: Any, count: Any, lengths: Any, blank: int, merge: bool) -> Any:
    """Loss ``[batch]`` and gradient like ``logits``."""
    if ctx.host:
        scaled = _scaled_forward_backward(logits, labels, count, lengths, blank, merge)
        if scaled is not None:
            return scaled
    xp = ctx.xp
    time, batch, classes = logits.shape
    kind = logits.dtype
    log_y = _log_softmax(xp, logits)
    path, used, skips, stays = _places(xp, labels, count, blank, classes, merge)
    places = path.shape[1]
    nothing = xp.asarray(-np.inf, kind)
    emitted = xp.take_along_axis(log_y, xp.broadcast_to(path, (time, batch, places)), axis=2)
    emitted = xp.where(used, emitted, nothing)
    running = lengths[:, None]

    def forward(t: Any, alpha: Any) -> Any:
        first = xp.where(np.arange(places) < 2, xp.asarray(0, kind), nothing)
        moved = _logaddexp(
            xp,
            xp.where(stays, alpha, nothing),
            _shifted(xp, alpha, 1),
            xp.where(skips, _shifted(xp, alpha, 2), nothing),
        )
        return emitted[t] + xp.where(t == 0, first, moved)

    def backward(t: Any, beta: Any) -> Any:
        """The logarithm of what is still to come after ``t``."""
        last = xp.where((xp.arange(places) >= 2 * count[:, None] - 1) & used, xp.asarray(0, kind), nothing)
        following = beta + emitted[xp.minimum(t + 1, time - 1)]
        moved = _logaddexp(
            xp,
            xp.where(stays, following, nothing),
            _shifted(xp, following, -1),
            _shifted(xp, xp.where(skips, following, nothing), -2),
        )
        return xp.where(t < running - 1, moved, xp.where(t == running - 1, last, nothing))

    start = xp.full((batch, places), -np.inf, kind)
    joined = _scan(ctx, forward, start, time) + _scan(ctx, backward, start, time, reverse=True)
    total = _logaddexp(xp, *[joined[0][:, i : i + 1] for i in range(min(2, places))])[:, 0]
    # No path gives labels that are longer than their time; the loss is infinite, and the gradient that of the softmax,
    # not NaN.
    possible = total > -np.inf
    share = xp.exp(joined - xp.where(possible, total, 0)[:, None])
    if ctx.host:
        taken = np.zeros((time, batch, classes), kind)
        rows = np.broadcast_to(np.arange(batch)[:, None], path.shape)
        place: Any = (slice(None), rows, path)
        np.add.at(taken, place, share)
    else:
        rows = xp.broadcast_to(xp.arange(batch)[:, None], path.shape)
        taken = xp.zeros((time, batch, classes), kind).at[:, rows, path].add(share)
    # What the softmax gives less the share of the paths that go through a class at that time.
    gradient = xp.exp(log_y) - xp.where(possible[:, None], taken, 0)
    inside = xp.arange(time)[:, None] < lengths
    return -total, xp.where(inside[:, :, None], gradient, xp.asarray(0, kind))


def _loss(ctx: Any, inputs: Any, attrs: Any, blank_first: bool) -> Any:
    xp = ctx.xp
    logits, indices, values, lengths = inputs
    time, batch, classes = logits.shape
    check_lengths(ctx, lengths, time, batch)
    blank = 0 if blank_first else classes - 1
    if not (time and batch):
        return xp.zeros((batch,), logits.dtype), xp.zeros(logits.shape, logits.dtype)
    # More labels than time steps have no path; one place more tells of them.
    widest = min(len(values), time + 1)
    if ctx.host:
        widest = min(widest, int(indices[:, 1].max(initial=-1)) + 1)
    labels, count = _dense_labels(ctx, indices, values, batch, widest)
    number = xp.bincount(xp.clip(indices[:, 0], 0, batch - 1), length=batch) if not ctx.host else None
    if number is not None:
        count = xp.minimum(number.astype(np.int32), widest)
    ctx.check(
        xp.all(count > 0),
        errors.InvalidArgumentError,
        "Labels length is zero in batch {0}\n"
        + errors.message("a sequence without labels", "a label in each row", "leave the row out of the batch"),
        xp.argmin(count),
    )
    _check_labels(ctx, labels, count, blank, classes)
    there = xp.arange(labels.shape[1]) < count[:, None]
    keep = there if blank_first else there & (labels < blank)
    if attrs["preprocess_collapse_repeated"] and widest > 1:
        same = xp.concatenate([xp.zeros((batch, 1), bool), labels[:, 1:] == labels[:, :-1]], axis=1)
        keep = keep & ~same
    labels, count = _packed(ctx, labels, keep)
    merge = attrs["ctc_merge_repeated"]
    enough = count <= lengths
    if not attrs["ignore_longer_outputs_than_inputs"]:
        worst = xp.argmax(~enough)
        ctx.check(
            xp.all(enough),
            errors.InvalidArgumentError,
            "Not enough time for target transition sequence (required: {0}, available: {1}) in batch {2}. "
            "You can turn this error into a warning by using the flag ignore_longer_outputs_than_inputs",
            count[worst],
            lengths[worst],
            worst,
        )
    loss, gradient = _of_fitting_size(ctx, logits, labels, count, lengths, blank, merge)
    zero = loss.dtype.type(0)
    return xp.where(enough, loss, zero), xp.where(enough[None, :, None], gradient, zero)


def _of_fitting_size(ctx: Any, logits: Any, labels: Any, count: Any, lengths: Any, blank: int, merge: bool) -> Any:
    widest = labels.shape[1]

    def run(size: int) -> Any:
        return lambda: _forward_backward(ctx, logits, labels[:, :size], xp.minimum(count, size), lengths, blank, merge)

    xp = ctx.xp
    if ctx.host:
        return run(int(count.max(initial=0)))()
    sizes = [widest]
    size = _SMALLEST
    while size < widest:
        sizes.insert(-1, size)
        size *= _STEP
    if len(sizes) == 1:
        return run(widest)()
    which = xp.searchsorted(xp.asarray(sizes), xp.max(count))
    return ctx.lax.switch(which, [run(size) for size in sizes])


def _shapes(c: Any) -> list[Any]:
    time, batch, classes = check_inputs(c)
    indices, values = c.with_rank("labels_indices", 2), c.with_rank("labels_values", 1)
    shapes.merge_dim(indices[0], values[0])
    if indices[1] not in (None, 2):
        raise ValueError(
            errors.message(
                f"labels_indices of shape {shapes.show(indices)}",
                "indices of shape [number of labels, 2]",
                "tf.SparseTensor(indices, values, dense_shape)",
            )
        )
    return [(batch,), (time, batch, classes)]


def _gradient(op: Any, grad_loss: Any, grad_gradient: Any) -> list[Any]:
    own = build(
        "PreventGradient",
        op.outputs[1],
        message="Currently there is no way to take the second derivative of ctc_loss due to the fused implementation's "
        "interaction with tf.gradients()",
    )
    scale = build("ExpandDims", build("ExpandDims", grad_loss, 0), -1)
    return [build("Mul", scale, own), None, None, None]


class CTCLoss(Op):
    """The loss ``-log p(labels | inputs)`` ``[batch]``, and its gradient by the logits ``[time, batch, classes]``.

    The last class is the blank. More labels than a sequence has time steps are an error, or with
    ``ignore_longer_outputs_than_inputs`` neither have a loss nor a gradient. Labels that do not fit because equal ones
    need a blank between them have an infinite loss, whose gradient is that of no labels: the softmax.
    """

    signature = "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32 -> loss: T, gradient: T"
    attrs = {**_FLAGS, "T": Type("float double", "float")}
    effect = PURE
    shape = _shapes
    gradient = _gradient

    def kernel(ctx, inputs, attrs):
        return _loss(ctx, inputs, attrs, False)


class CTCLossV2(Op):
    """CTCLoss where the first class is the blank."""

    signature = (
        "inputs: float, labels_indices: int64, labels_values: int32, sequence_length: int32 "
        "-> loss: float, gradient: float"
    )
    attrs = dict(_FLAGS)
    effect = PURE
    shape = _shapes
    gradient = _gradient

    def kernel(ctx, inputs, attrs):
        return _loss(ctx, inputs, attrs, True)


@public("nn.ctc_loss")
def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """The loss of connectionist temporal classification.

    Args:
        labels: ``SparseTensor`` ``[batch, length]`` of int32 labels from 0 to ``classes - 2``.
        inputs: logits ``[time, batch, classes]``, the last class of which is the blank.
        sequence_length: int32 ``[batch]``.
        preprocess_collapse_repeated: whether equal labels in a row count once.
        ctc_merge_repeated: whether equal classes in a row of time steps stand for one label.
        ignore_longer_outputs_than_inputs: whether labels that do not fit into the time give an infinite loss and not
            an error.
        time_major: False for ``[batch, time, classes]``.
        logits: another name of ``inputs``.

    Returns:
        ``[batch]``. No second derivative.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(
            "Expected labels (first argument) to be a SparseTensor\n"
            + errors.message(f"labels of type {type(labels).__name__}", "a SparseTensor", "tf.SparseTensor(...)")
        )
    inputs = logits if inputs is None else inputs
    if inputs is None or sequence_length is None:
        raise ValueError(
            errors.message(
                "ctc_loss without logits or lengths",
                "logits and the length of each sequence",
                "ctc_loss(labels, inputs, sequence_length)",
            )
        )
    inputs = convert_to_tensor(inputs)
    if not time_major:
        inputs = build("Transpose", inputs, [1, 0, 2])
    outputs = build(
        "CTCLoss",
        inputs,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    return outputs.loss
