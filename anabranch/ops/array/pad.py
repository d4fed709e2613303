"""Paddings: with zeros, with a value, by mirroring; and the gradient of mirroring."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.opdef import PURE, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import open_shapes, row_rules
from anabranch.ops.shared.array_rules import Index, dense, ints, known, refuse, require, shape_of


def _paddings_of(c: Any, least: int = 0) -> tuple[shapes.RawShape, list[tuple[int, int]] | None]:
    """The input's shape (its rank follows from the paddings if need be) and the paddings, if known."""
    raw, outer = c.shapes[0], c.with_rank("paddings", 2)
    columns = outer[1] in (2, None)
    if not columns or (raw is not None and outer[0] not in (len(raw), None)):
        refuse(
            c,
            f"paddings of shape {shapes.show(outer)} for a tensor of shape {shapes.show(raw)}",
            f"shape [{'rank' if raw is None else len(raw)},2]",
            "give (before, after) for each dimension",
            f"Shape must be rank {outer[0]} but is rank {len(raw or ())}"
            if columns
            else f"Dimension must be 2 but is {outer[1]}",
        )
    raw = shapes.of_rank(outer[0]) if raw is None else raw
    pairs = c.value("paddings")
    if pairs is None:
        return raw, None
    if (pairs < least).any():
        refuse(
            c,
            f"paddings {pairs.tolist()}",
            "numbers of 0 and more",
            "tf.slice the tensor to make it smaller",
            "Paddings must be non-negative",
        )
    return raw, [(int(a), int(b)) for a, b in pairs]


def _padded_shape(c: Any) -> shapes.RawShape:
    raw, pairs = _paddings_of(c)
    if raw is None or pairs is None:
        return None if raw is None else (None,) * len(raw)
    return tuple(
        [None if size is None else before + size + after for size, (before, after) in zip(raw, pairs, strict=True)]
    )


def _pairs(ctx: Any, x: Any, paddings: Any, word: str = "Paddings") -> list[tuple[int, int]]:
    flat, shape = ints(paddings), tuple(np.shape(paddings))
    require(ctx, len(shape) == 2 and shape[1] == 2, "paddings must be a matrix with 2 columns: {0}", shape)
    require(
        ctx,
        shape[0] == len(x.shape),
        "The first dimension of paddings must be the rank of inputs{0} {1}",
        shape,
        tuple(x.shape),
    )
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    for before, after in pairs:
        require(ctx, before >= 0 and after >= 0, f"{word} must be non-negative: {{0}} {{1}}", before, after)
    return pairs


def _padded(ctx: Any, x: Any, pairs: list[tuple[int, int]], value: Any) -> Any:
    if not ctx.host:
        return ctx.lax.pad(x, ctx.xp.asarray(value, x.dtype), [(before, after, 0) for before, after in pairs])
    shape = tuple([before + size + after for size, (before, after) in zip(x.shape, pairs, strict=True)])
    padded = np.full(shape, value, x.dtype)
    padded[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, pairs, strict=True))] = x
    return padded


def _cut(op: Any, grad: Any) -> Any:
    """What of `grad` lies where the input of the padding `op` was."""
    x, paddings = op.inputs[:2]
    pairs = known(paddings)
    if pairs is not None:
        begin: Any = np.array(pairs[:, 0], np.int32)
    else:
        rank = x._shape
        rows = build("Rank", x) if rank is None else np.int32(len(rank))
        size = build("Pack", [rows, np.int32(1)]) if rank is None else [int(rows), 1]
        begin = build("Reshape", build("Slice", paddings, [0, 0], size), [-1])
    dtype = "int32" if pairs is not None else paddings.dtype.base
    return build("Slice", dense(grad), begin, shape_of(x, dtype))


class Pad(Op):
    """`input` with `paddings[i, 0]` zeros before and `paddings[i, 1]` after it in dimension i."""

    signature = "input: T, paddings: Tpaddings -> output: T"
    attrs = {"T": Type(), "Tpaddings": Index()}
    effect = PURE
    moves = True
    any_size = open_shapes.pad
    by_rows = row_rules.pad
    compile_time = ("paddings",)
    shape = _padded_shape

    def kernel(ctx, inputs, attrs):
        x, paddings = inputs
        zero = b"" if x.dtype.kind == "O" else np.zeros((), x.dtype)
        return _padded(ctx, x, _pairs(ctx, x, paddings), zero)

    def gradient(op, grad):
        return [_cut(op, grad), None]


class PadV2(Op):
    """`input` with `paddings[i, 0]` times `constant_values` before and `paddings[i, 1]` after it in dimension i."""

    signature = "input: T, paddings: Tpaddings, constant_values: T -> output: T"
    attrs = {"T": Type(), "Tpaddings": Index()}
    effect = PURE
    moves = True
    any_size = open_shapes.pad
    by_rows = row_rules.pad
    compile_time = ("paddings",)
    shape = _padded_shape

    def kernel(ctx, inputs, attrs):
        x, paddings, value = inputs
        require(ctx, len(value.shape) == 0, "constant_values must be a scalar. Found: {0}", list(value.shape))
        return _padded(ctx, x, _pairs(ctx, x, paddings), value)

    def gradient(op, grad):
        return [_cut(op, grad), None, None]


# -------------------------------------------------------------------------------------------------------------- mirror
def _offset(attrs: Any) -> int:
    """1 where the border itself is not repeated (REFLECT), 0 where it is (SYMMETRIC)."""
    return 1 if attrs["mode"] == "REFLECT" else 0


_MIRROR_ATTRS = {"T": Type(), "Tpaddings": Index(), "mode": String(allowed="REFLECT SYMMETRIC")}


class MirrorPad(Op):
    """`input` continued by its mirror image: without the border itself (`REFLECT`) or with it (`SYMMETRIC`)."""

    signature = "input: T, paddings: Tpaddings -> output: T"
    attrs = _MIRROR_ATTRS
    effect = PURE
    moves = True
    by_rows = row_rules.pad
    compile_time = ("paddings",)

    def shape(c):
        raw, pairs = _paddings_of(c)
        for i, size in enumerate(raw or ()):
            if size is not None and pairs is not None and max(pairs[i]) > max(size - _offset(c.attrs), 0):
                refuse(
                    c,
                    f"paddings {pairs[i]} for dimension {i} of a tensor of shape {shapes.show(raw)}",
                    f"at most {size - _offset(c.attrs)} with mode {c.attrs['mode']}",
                    "pad less, or mode='CONSTANT'",
                    f"paddings must be less than the dimension size: {pairs[i][0]}, {pairs[i][1]} not less than {size}"
                    if c.attrs["mode"] == "REFLECT"
                    else "paddings must be no greater than the dimension size: "
                    f"{pairs[i][0]}, {pairs[i][1]} greater than {size}",
                )
        return _padded_shape(c)

    def kernel(ctx, inputs, attrs):
        x, paddings = inputs
        pairs = _pairs(ctx, x, paddings, "paddings")
        reflects = attrs["mode"] == "REFLECT"
        for size, pair in zip(x.shape, pairs, strict=True):
            require(
                ctx,
                max(pair) <= max(size - _offset(attrs), 0),
                "paddings must be less than the dimension size: {0}, {1} not less than {2}"
                if reflects
                else "paddings must be no greater than the dimension size: {0}, {1} greater than {2}",
                *pair,
                size,
            )
        return ctx.xp.pad(x, pairs, mode=attrs["mode"].lower()) if any(map(any, pairs)) else x

    def gradient(op, grad):
        return [build("MirrorPadGrad", dense(grad), op.inputs[1], mode=op.get_attr("mode")), None]


class MirrorPadGrad(Op):
    """Gradient of `MirrorPad`: the mirror images in the borders of `input` are added to what they are images of."""

    signature = "input: T, paddings: Tpaddings -> output: T"
    attrs = _MIRROR_ATTRS
    effect = PURE
    compile_time = ("paddings",)

    def shape(c):
        raw, pairs = _paddings_of(c)
        if raw is None or pairs is None:
            return None if raw is None else (None,) * len(raw)
        for i, size in enumerate(raw):
            if size is not None and size < sum(pairs[i]):
                refuse(c, f"paddings {pairs[i]} of a dimension of {size}", "paddings within it", "correct paddings")
        return tuple([None if size is None else size - sum(pair) for size, pair in zip(raw, pairs, strict=True)])

    def kernel(ctx, inputs, attrs):
        x, paddings = inputs
        xp = ctx.xp
        offset = _offset(attrs)
        for dim, (before, after) in enumerate(_pairs(ctx, x, paddings)):
            if not before and not after:
                continue
            lead = (slice(None),) * dim
            size = x.shape[dim] - before - after
            require(
                ctx,
                max(before, after) <= size - offset,
                "paddings ({0}, {1}) of dimension {2} are greater than what is left of it, {3}",
                before,
                after,
                dim,
                size - offset,
            )
            y = x[(*lead, slice(before, before + size))]
            around = [(0, 0)] * len(x.shape)
            for count, source, place in (
                (before, slice(0, before), offset),
                (after, slice(before + size, None), size - offset - after),
            ):
                if count:
                    around[dim] = (place, size - place - count)
                    y = y + xp.pad(xp.flip(x[(*lead, source)], dim), around)
            x = y
        return x

    def gradient(op, grad):
        return [build("MirrorPad", dense(grad), op.inputs[1], mode=op.get_attr("mode")), None]
