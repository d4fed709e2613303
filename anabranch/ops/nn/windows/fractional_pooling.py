"""Pooling by windows whose sizes alternate at random, so that an image shrinks by a ratio that is not whole.

Policy. Rows and columns are cut into regions by the sequences of Graham, *Fractional max-pooling* (2014), made from the
words of a Philox stream in TensorFlow's order: one seed gives TensorFlow's regions. As there, a seed counts only with
``deterministic``, and the stream then starts anew in each run; without it each run takes other regions. The gradient of
a maximum goes to its first largest entry in row-major order. With ``overlapping``, neighbours share the rows and
columns at their boundaries.

An output's window is a rectangle of rows and columns. The forward ops fold over the few places that a window may have,
first along rows, then along columns, and take each output's own entry at that place: the work follows the input's size,
and no window is made in memory. The gradient ops get their regions as operands, of any size: there each input looks
for the windows that it is in, at most two along each axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, RANDOM, Bool, Cost, Int, List, NotDifferentiable, Op, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.nn.windows import pooling_rules
from anabranch.ops.random import philox
from anabranch.ops.random.streams import shuffled_order

_TYPES = "float double int32 int64"
_SECOND = NotDifferentiable("TensorFlow has no second derivative of fractional pooling")


# ------------------------------------------------------------------------------------------------------------- regions
def _out_size(size: int, ratio: float) -> int:
    return math.floor(np.float32(size) / np.float32(ratio))


def _stream(ctx: Any, attrs: Any) -> Any:
    """The stream of one run: of the seeds with ``deterministic``, the op's own otherwise."""
    if not (attrs["seed"] or attrs["seed2"]):
        return ctx.philox  # which stays where it is with `deterministic`, as nothing is consumed
    halves = [number & 0xFFFFFFFF for seed in (attrs["seed"], attrs["seed2"]) for number in (seed, seed >> 32)]
    words = [np.uint32(number) for number in halves]
    return words[:2], [np.uint32(0), np.uint32(0), *words[2:]]


def _blocks_of(out: int, pseudo_random: bool) -> int:
    """How many blocks of the stream a sequence of ``out`` regions takes."""
    return 1 if pseudo_random else -(-out // 4)


def _after(ctx: Any, stream: Any, count: int) -> Any:
    """The stream from ``count`` blocks on, where it has just been started: the lower half does not carry."""
    key, counter = stream
    low = ctx.xp.asarray(counter[0]).astype(np.uint32) + np.uint32(count)
    carry = (low < np.uint32(count)).astype(np.uint32)
    second = ctx.xp.asarray(counter[1]).astype(np.uint32) + carry
    third = ctx.xp.asarray(counter[2]).astype(np.uint32) + (carry & (second == 0)).astype(np.uint32)
    return key, [low, second, third, ctx.xp.asarray(counter[3]).astype(np.uint32)]


def _starts(ctx: Any, stream: Any, size: int, out: int, pseudo_random: bool) -> Any:
    """Where ``out`` regions of ``size`` rows begin, and where the last one ends: int64 ``[out + 1]``, from 0."""
    xp, least = ctx.xp, size // out
    if pseudo_random:
        ratio = size / out
        most = min((least + 2) / ratio - 1, (size + 1 - least) / ratio - (out - 1))
        first, second, _, _ = philox.blocks(ctx, stream, np.zeros(1, np.uint64))
        drawn = philox.float64(xp, first, second, philox.reinterpret(ctx))[0] * most
        inner = xp.ceil(ratio * (np.arange(1, out) + drawn)).astype(np.int64) - 1
        return xp.concatenate([np.zeros(1, np.int64), inner, np.full(1, size, np.int64)])
    sizes = np.full(out, least, np.int64)
    sizes[: size % out] += 1
    order = shuffled_order(ctx, philox.words(ctx, stream, out), out)
    return xp.concatenate([np.zeros(1, np.int64), xp.cumsum(xp.asarray(sizes)[order])])


def _sequences(ctx: Any, x: Any, attrs: Any) -> list[Any]:
    stream = _stream(ctx, attrs)
    sequences = []
    for axis in (1, 2):
        size = x.shape[axis]
        out = _out_size(size, attrs["pooling_ratio"][axis])
        sequences.append(_starts(ctx, stream, size, out, attrs["pseudo_random"]))
        stream = _after(ctx, stream, _blocks_of(out, attrs["pseudo_random"]))
    return sequences


def _ends(xp: Any, starts: Any, size: int, overlapping: bool) -> Any:
    """The last row of each region."""
    return xp.minimum(starts[1:], size - 1) if overlapping else starts[1:] - 1


# -------------------------------------------------------------------------------------------------------- forward ops
def _fold(ctx: Any, x: Any, starts: Any, overlapping: bool, axis: int, combine: Callable[..., Any], empty: Any) -> Any:
    """Each region's entries along ``axis``, combined in order."""
    xp, size = ctx.xp, x.shape[axis]
    out = starts.shape[0] - 1
    lengths = _ends(xp, starts, size, overlapping) - starts[:-1] + 1
    broadcast = tuple(out if k == axis else 1 for k in range(x.ndim))
    total = None
    for place in range(size // out + 1 + overlapping):
        entries = xp.take(x, xp.minimum(starts[:-1] + place, size - 1), axis=axis)
        if total is None:
            total = entries
        else:
            inside = xp.reshape(place < lengths, broadcast)
            total = combine(total, xp.where(inside, entries, empty))
    return total


def _greatest(ctx: Any, x: Any, rows: Any, columns: Any, overlapping: bool) -> Any:
    """The greatest numbers; NaN is none, and the lowest number stands where there is no other."""
    lowest = x.dtype.type(pooling_rules.lowest(x.dtype))
    if x.dtype.kind == "f":
        x = ctx.xp.where(x > lowest, x, lowest)
    each_row = _fold(ctx, x, rows, overlapping, 1, ctx.xp.maximum, lowest)
    return _fold(ctx, each_row, columns, overlapping, 2, ctx.xp.maximum, lowest)


def _average(ctx: Any, x: Any, rows: Any, columns: Any, overlapping: bool) -> Any:
    xp, zero = ctx.xp, x.dtype.type(0)
    total = _fold(ctx, _fold(ctx, x, rows, overlapping, 1, xp.add, zero), columns, overlapping, 2, xp.add, zero)
    heights = _ends(xp, rows, x.shape[1], overlapping) - rows[:-1] + 1
    widths = _ends(xp, columns, x.shape[2], overlapping) - columns[:-1] + 1
    number = (heights[:, None] * widths[None, :])[None, :, :, None].astype(x.dtype)
    if x.dtype.kind == "f":
        return total / number
    return xp.sign(total) * (xp.abs(total) // number)


def _check_ratios(c: Any) -> None:
    ratios = c.attrs["pooling_ratio"]
    if len(ratios) != 4 or any(ratio < 1 for ratio in ratios):
        raise ValueError(
            "pooling_ratio field must specify 4 dimensions\n"
            + errors.message(f"pooling_ratio={list(ratios)}", "four numbers of at least 1", "[1.0, 1.44, 1.73, 1.0]")
        )
    if ratios[0] != 1 or ratios[3] != 1:
        raise ValueError(
            "Fractional pooling is not yet supported on the batch nor channel dimension.\n"
            + errors.message(f"pooling_ratio={list(ratios)}", "1.0 for batch and channels", "[1.0, 1.44, 1.73, 1.0]")
        )
    if not c.attrs["deterministic"] and (c.attrs["seed"] or c.attrs["seed2"]):
        raise ValueError(
            "Both seed and seed2 should be 0 if deterministic is false.\n"
            + errors.message("a seed without deterministic", "a seed that counts", "deterministic=True")
        )


def _pooled_shape(c: Any) -> list[Any]:
    _check_ratios(c)
    dims = c.with_rank("value", 4)
    sizes = [
        None if dim is None else _out_size(dim, ratio)
        for dim, ratio in zip(dims or (None,) * 4, c.attrs["pooling_ratio"], strict=True)
    ]
    if 0 in sizes[1:3]:
        raise ValueError(
            errors.message(
                f"an input of shape {shapes.show(dims)} and pooling_ratio={list(c.attrs['pooling_ratio'])}",
                "an input that is at least as large as the ratio",
                "a smaller ratio",
            )
        )
    return [tuple(sizes), *[(None if size is None else size + 1,) for size in sizes[1:3]]]


def _consumed(c: Any) -> int:
    if c.attrs["deterministic"]:
        return 0
    dims, ratios = c.shape("value"), c.attrs["pooling_ratio"]
    return sum(_blocks_of(_out_size(dims[axis], ratios[axis]), c.attrs["pseudo_random"]) for axis in (1, 2))


def _define_forward(name: str, doc: str, pooled: Callable[..., Any], gradient: Callable[..., Any]) -> None:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        (x,) = inputs
        sizes = [_out_size(x.shape[axis], attrs["pooling_ratio"][axis]) for axis in (1, 2)]
        if 0 in sizes:
            ctx.check(
                False,
                errors.InvalidArgumentError,
                f"an input of shape {shapes.show(x.shape)} is smaller than pooling_ratio "
                f"{list(attrs['pooling_ratio'])}",
            )
            nothing = ctx.xp.zeros((x.shape[0], *sizes, x.shape[3]), x.dtype)
            return nothing, *[np.zeros(size + 1, np.int64) for size in sizes]
        rows, columns = _sequences(ctx, x, attrs)
        return pooled(ctx, x, rows, columns, attrs["overlapping"]), rows, columns

    define(
        name,
        doc,
        signature="value: T -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64",
        attrs={
            "pooling_ratio": List("float", minimum=4),
            "pseudo_random": Bool(False),
            "overlapping": Bool(False),
            "deterministic": Bool(False),
            "seed": Int(0),
            "seed2": Int(0),
            "T": Type(_TYPES),
        },
        effect=RANDOM,
        cost=Cost.HEAVY,
        shape=_pooled_shape,
        consumes=_consumed,
        kernel=kernel,
        gradient=gradient,
    )


def _max_gradient(op: Any, grad: Any, *_: Any) -> Any:
    pooled, rows, columns = op.outputs
    overlapping = op.get_attr("overlapping")
    return [build("FractionalMaxPoolGrad", op.inputs[0], pooled, grad, rows, columns, overlapping=overlapping)]


def _average_gradient(op: Any, grad: Any, *_: Any) -> Any:
    shape = build("Shape", op.inputs[0], out_type="int64")
    rows, columns = op.outputs[1:]
    return [build("FractionalAvgPoolGrad", shape, grad, rows, columns, overlapping=op.get_attr("overlapping"))]


_define_forward(
    "FractionalMaxPool",
    "The maximum of each of the windows that random regions make: ``[batch, height, width, channels]``; and where rows "
    "and columns of windows begin.",
    _greatest,
    _max_gradient,
)
_define_forward(
    "FractionalAvgPool",
    "The average of each of the windows that random regions make: ``[batch, height, width, channels]``; and where rows "
    "and columns of windows begin.",
    _average,
    _average_gradient,
)


# ------------------------------------------------------------------------------------------------------- gradient ops
def _windows_of(xp: Any, starts: Any, size: int, overlapping: bool) -> list[tuple[Any, Any]]:
    """For each place along an axis, the regions that it is in: numbers of regions, and whether they hold."""
    places = np.arange(size)
    own = xp.clip(xp.searchsorted(starts, places, side="right") - 1, 0, starts.shape[0] - 2)
    ends = _ends(xp, starts, size, overlapping)
    windows = [(own, (places >= starts[own]) & (places <= ends[own]))]
    if overlapping:
        before = xp.maximum(own - 1, 0)
        windows.append((before, (own > 0) & (places >= starts[before]) & (places <= ends[before])))
    return windows


def _each_window(xp: Any, rows: Any, columns: Any, height: int, width: int, overlapping: bool) -> Any:
    """All pairs of row and column regions that the places of an image are in, with a mask ``[height, width]``."""
    for row, row_holds in _windows_of(xp, rows, height, overlapping):
        for column, column_holds in _windows_of(xp, columns, width, overlapping):
            yield row[:, None], column[None, :], row_holds[:, None] & column_holds[None, :]


def _check_sequences(ctx: Any, out: tuple[int, ...], rows: Any, columns: Any) -> bool:
    fits = rows.shape == (out[1] + 1,) and columns.shape == (out[2] + 1,)
    ctx.check(
        fits,
        errors.InvalidArgumentError,
        f"sequences of shapes {shapes.show(rows.shape)} and {shapes.show(columns.shape)} for an output of shape "
        f"{list(out)}; "
        "expected one entry more than rows, and one more than columns",
    )
    return fits


class FractionalMaxPoolGrad(Op):
    """The gradient of FractionalMaxPool: ``out_backprop`` of each window at its first largest entry."""

    signature = (
        "orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64 "
        "-> output: T"
    )
    attrs = {"overlapping": Bool(False), "T": Type(_TYPES)}
    effect = PURE
    cost = Cost.HEAVY
    gradient = _SECOND

    def shape(c):
        shapes.merge(c.with_rank("orig_output", 4), c.with_rank("out_backprop", 4))
        return c.with_rank("orig_input", 4)

    @uses_lax
    def kernel(ctx, inputs, attrs):
        x, pooled, grad, rows, columns = inputs
        xp = ctx.xp
        batch, height, width, channels = x.shape
        if not _check_sequences(ctx, pooled.shape, rows, columns) or 0 in pooled.shape:
            return xp.zeros(x.shape, x.dtype)
        nowhere = np.int64(height * width)
        flat = np.arange(height * width, dtype=np.int64).reshape(1, height, width, 1)
        first = opening = xp.full(pooled.shape, nowhere)
        for row, column, holds in _each_window(xp, rows, columns, height, width, attrs["overlapping"]):
            greatest = pooled[:, row, column, :]
            inside = xp.where(holds[None, :, :, None], flat, nowhere)
            first = first.at[:, row, column, :].min(xp.where(x == greatest, inside, nowhere))
            opening = opening.at[:, row, column, :].min(inside)
        # A window without a number above the lowest one gives its gradient to its first entry.
        first = xp.where((first == nowhere) & (pooled == pooling_rules.lowest(pooled.dtype)), opening, first)
        ctx.check(
            xp.all(first < nowhere),
            errors.InvalidArgumentError,
            "orig_output is not what the pooling of orig_input gives: a window does not hold its maximum",
        )
        images = np.arange(batch)[:, None, None, None]
        spread = xp.zeros((batch, height * width, channels), x.dtype)
        spread = spread.at[images, first, np.arange(channels)].add(grad, mode="drop")
        return spread.reshape(x.shape)


class FractionalAvgPoolGrad(Op):
    """The gradient of FractionalAvgPool: ``out_backprop`` of each window, shared equally among its entries."""

    signature = (
        "orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64 "
        "-> output: T"
    )
    attrs = {"overlapping": Bool(False), "T": Type(_TYPES)}
    effect = PURE
    cost = Cost.HEAVY
    compile_time = ("orig_input_tensor_shape",)
    gradient = _SECOND

    def shape(c):
        c.with_rank("out_backprop", 4)
        return shapes.with_rank(None if (dims := c.vector("orig_input_tensor_shape")) is None else tuple(dims), 4)

    def kernel(ctx, inputs, attrs):
        dims, grad, rows, columns = inputs
        xp = ctx.xp
        batch, height, width, channels = (int(dim) for dim in np.asarray(dims))
        if not _check_sequences(ctx, grad.shape, rows, columns) or 0 in grad.shape:
            return xp.zeros((batch, height, width, channels), grad.dtype)
        overlapping = attrs["overlapping"]
        heights = _ends(xp, rows, height, overlapping) - rows[:-1] + 1
        widths = _ends(xp, columns, width, overlapping) - columns[:-1] + 1
        share = grad.astype(np.float64) / (heights[:, None] * widths[None, :])[None, :, :, None]
        total = xp.zeros((batch, height, width, channels), np.float64)
        for row, column, holds in _each_window(xp, rows, columns, height, width, overlapping):
            total = total + xp.where(holds[None, :, :, None], share[:, row, column, :], 0.0)
        return total.astype(grad.dtype)
