"""Another order of the same elements: transposes, reversals, rolls, permutations."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Cost, Int, NotDifferentiable, Op, Type
from anabranch.core.errors import InvalidArgumentError
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import open_places, row_rules, row_sums
from anabranch.ops.shared.array_rules import Index, axis_in, dense, ints, kernel_axis, known, refuse, require

_REVERSIBLE = (
    "uint8 int8 uint16 int16 int32 uint32 int64 uint64 bool bfloat16 half float double complex64 complex128 string"
)


# ---------------------------------------------------------------------------------------------------------- transposes
def _transposed_shape(c: Any) -> shapes.RawShape:
    c.with_rank("perm", 1)
    raw, perm = c.shapes[0], c.vector("perm")
    if perm is None:
        return None if raw is None else (None,) * len(raw)
    if raw is None:
        raw = (None,) * len(perm)
    outside = [p for p in perm if p is not None and not -len(raw) <= p < len(raw)]
    if len(perm) != len(raw) or outside:  # a dimension that is named twice is the kernel's to refuse
        refuse(
            c,
            f"perm {perm} for a tensor of shape {shapes.show(raw)}",
            f"a permutation of the dimensions 0 to {len(raw) - 1}",
            "name each dimension once",
            f"Dimension must be {len(raw)} but is {len(perm)}"
            if len(perm) != len(raw)
            else f"perm dim {outside[0]} is out of range of input rank {len(raw)}",
        )
    return tuple([None if p is None else raw[p] for p in perm])


def _transposed(ctx: Any, inputs: Any) -> Any:
    x, perm = inputs
    perm = ints(perm)
    rank = len(x.shape)
    require(
        ctx,
        len(perm) == rank,
        "transpose expects a vector of size {0}. But input(1) is a vector of size {1}",
        rank,
        len(perm),
    )
    for p in perm:
        require(ctx, -rank <= p < rank, "{0} is out of range [0 .. {1})", p, rank)
    perm = tuple([p % rank for p in perm])
    for i in range(rank):
        require(ctx, i in perm, "{0} is missing from {1}.", i, "{" + ",".join(map(str, perm)) + "}")
    return ctx.xp.transpose(x, perm)


def _inverse(perm: Any) -> Any:
    permutation = known(perm)
    if permutation is not None:
        return np.argsort(permutation % max(len(permutation), 1)).astype(permutation.dtype)
    count = build("Size", perm, out_type=perm.dtype.base)
    return build("InvertPermutation", build("FloorMod", perm, count))


class Transpose(Op):
    """`x` with its dimensions in the order `perm`: dimension i of the result is dimension `perm[i]` of `x`."""

    signature = "x: T, perm: Tperm -> y: T"
    attrs = {"T": Type(), "Tperm": Index()}
    effect = PURE
    by_rows = row_rules.transpose
    any_size = open_places.transpose
    moves = True
    compile_time = ("perm",)
    shape = _transposed_shape

    def kernel(ctx, inputs, attrs):
        return _transposed(ctx, inputs)

    def gradient(op, grad):
        return [build("Transpose", dense(grad), _inverse(op.inputs[1]), name="transpose"), None]


class ConjugateTranspose(Op):
    """The complex conjugate of `x` with its dimensions in the order `perm`."""

    signature = "x: T, perm: Tperm -> y: T"
    attrs = {"T": Type(), "Tperm": Index()}
    effect = PURE
    compile_time = ("perm",)
    shape = _transposed_shape

    def kernel(ctx, inputs, attrs):
        transposed = _transposed(ctx, inputs)
        return ctx.xp.conj(transposed) if attrs["T"].is_complex else transposed

    def gradient(op, grad):
        return [build("ConjugateTranspose", dense(grad), _inverse(op.inputs[1]), name="transpose"), None]


class InvertPermutation(Op):
    """The inverse of the permutation `x` of 0 to n - 1: `y[x[i]] = i`."""

    signature = "x: T -> y: T"
    attrs = {"T": Index()}
    effect = PURE
    gradient = NotDifferentiable("a permutation is made of integers")

    def shape(c):
        return c.with_rank(0, 1)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        (x,) = inputs
        size = x.shape[0]
        steps = np.arange(size, dtype=x.dtype)
        said = "{0} is not a permutation of 0 to n - 1"
        if ctx.host:
            ctx.check(row_sums.is_within(x, size), InvalidArgumentError, said, x, summarize=16)
            y = np.empty_like(x)
            y[x] = steps
            ctx.check(np.array_equal(y.take(x), steps), InvalidArgumentError, said, x, summarize=16)
            return y
        y = xp.zeros_like(x).at[x].set(steps, mode="drop")
        # Of places that are given twice one keeps its number only, and one outside has none.
        ok = xp.all((xp.take(y, x, mode="clip") == steps) & (x >= 0) & (x < size))
        ctx.check(ok, InvalidArgumentError, said, x, summarize=16)
        return y


# ----------------------------------------------------------------------------------------------------------- reversals
class Reverse(Op):
    """`tensor` backwards along each dimension for which `dims` is true."""

    signature = "tensor: T, dims: bool -> output: T"
    attrs = {
        "T": Type(
            "uint8 int8 uint16 int16 uint32 int32 uint64 int64 bool bfloat16 half float double complex64 complex128 "
            "string"
        )
    }
    effect = PURE
    moves = True
    compile_time = ("dims",)
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        x, dims = inputs
        require(
            ctx,
            np.shape(dims) == (len(x.shape),),
            "'dims' must have the same number of values as 'input' has dimensions. 'input' has {0}, 'dims' has {1}",
            len(x.shape),
            np.size(dims),
        )
        return ctx.xp.flip(x, tuple([i for i, back in enumerate(np.asarray(dims)) if back]))

    def gradient(op, grad):
        return [build("Reverse", dense(grad), op.inputs[1]), None]


class ReverseV2(Op):
    """`tensor` backwards along each dimension in `axis`."""

    signature = "tensor: T, axis: Tidx -> output: T"
    attrs = {"Tidx": Index(), "T": Type(_REVERSIBLE)}
    effect = PURE
    moves = True
    by_rows = row_rules.axes_behind()
    compile_time = ("axis",)

    def shape(c):
        c.with_rank("axis", 1)
        raw, axis = c.shapes[0], c.vector("axis")
        if raw is not None and axis is not None and None not in axis:
            rank = len(raw)
            axes = [
                axis_in(c, item, rank, lead=f"'axis'[{at}] = {item} is out of valid range [0, {rank - 1}")
                for at, item in enumerate(axis)
            ]
            twice = [item for at, item in enumerate(axes) if item in axes[:at]]
            if twice:
                refuse(
                    c,
                    f"axis {axis}",
                    "each dimension once",
                    "leave out the repetition",
                    f"axis {twice[0]} specified more than once.",
                )
        return raw

    def kernel(ctx, inputs, attrs):
        x, axis = inputs
        rank = len(x.shape)
        axes = [
            kernel_axis(ctx, item, rank, text=f"'axis'[{at}] = {{0}} is out of valid range [0, {rank - 1}")
            for at, item in enumerate(ints(axis))
        ]
        for at, item in enumerate(axes):
            require(ctx, item not in axes[:at], "axis {0} specified more than once.", item)
        return ctx.xp.flip(x, tuple(axes)) if axes else x

    def gradient(op, grad):
        return [build("ReverseV2", dense(grad), op.inputs[1]), None]


class ReverseSequence(Op):
    """`input` with the first `seq_lengths[b]` elements along `seq_dim` reversed in entry b of `batch_dim`."""

    signature = "input: T, seq_lengths: Tlen -> output: T"
    attrs = {"seq_dim": Int(), "batch_dim": Int(0), "T": Type(), "Tlen": Index("int64")}
    effect = PURE
    moves = True
    cost = Cost.INDEXED

    def shape(c):
        lengths = c.with_rank("seq_lengths", 1)
        raw = c.shapes[0]
        if raw is None:
            return None
        given, rank = c.attrs["batch_dim"], len(raw)
        batch = axis_in(c, given, rank, "batch_dim", f"batch_dim must be < input rank: {given} vs. {rank}")
        given = c.attrs["seq_dim"]
        axis_in(c, given, rank, "seq_dim", f"seq_dim must be < input rank: {given} vs. {rank}")
        size = shapes.merge_dim(raw[batch], lengths[0])
        return (*raw[:batch], size, *raw[batch + 1 :])

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        x, lengths = inputs
        rank = len(x.shape)
        batch = kernel_axis(ctx, attrs["batch_dim"], rank, text="Invalid batch_dim {0}: batch_dim must be < input rank")
        seq = kernel_axis(ctx, attrs["seq_dim"], rank, text="Invalid seq_dim {0}: seq_dim must be < input rank")
        require(ctx, batch != seq, "batch_dim == seq_dim == {0}", seq)
        require(
            ctx,
            tuple(lengths.shape) == (x.shape[batch],),
            "Length of seq_lengths != input.dims({0}), ({1} vs. {2}): len(seq_lens) != input.dims({0}), ({1} vs. {2})",
            batch,
            lengths.shape[0],
            x.shape[batch],
        )
        if 0 in x.shape:
            return x
        size = x.shape[seq]
        ctx.check(xp.all(lengths >= 0), InvalidArgumentError, "seq_lens({0}) < 0", xp.argmax(lengths < 0))
        ctx.check(
            xp.all(lengths <= size),
            InvalidArgumentError,
            "seq_lengths has {0} > input.dims({1}): seq_lens({2}) > input.dims({1})",
            xp.max(lengths),
            np.int32(seq),
            xp.argmax(lengths > size),
        )
        place = xp.arange(size, dtype=lengths.dtype)[None, :]
        turned = xp.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)
        if batch > seq:
            turned = xp.transpose(turned)
        turned = xp.reshape(turned, [size_ if i in (batch, seq) else 1 for i, size_ in enumerate(x.shape)])
        return xp.take_along_axis(x, xp.broadcast_to(turned, x.shape) if ctx.host else turned, axis=seq)

    def gradient(op, grad):
        reversed_back = build(
            "ReverseSequence",
            dense(grad),
            op.inputs[1],
            seq_dim=op.get_attr("seq_dim"),
            batch_dim=op.get_attr("batch_dim"),
        )
        return [reversed_back, None]


class Roll(Op):
    """`input` rotated by `shift[i]` places along dimension `axis[i]`; what leaves at the end comes in at the start."""

    signature = "input: T, shift: Tshift, axis: Taxis -> output: T"
    attrs = {"T": Type(), "Tshift": Type("int32 int64"), "Taxis": Type("int32 int64")}
    effect = PURE
    moves = True
    compile_time = ("axis",)

    def shape(c):
        for name in ("shift", "axis"):
            shapes.with_rank_at_most(c.shape(name), 1)
        shapes.merge(c.shape("shift"), c.shape("axis"))
        return c.with_rank_at_least(0, 1)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        x, shift, axis = inputs
        require(ctx, len(x.shape) >= 1, "input must be 1-D or higher")
        for name, item in (("shift", shift), ("axis", axis)):
            shape = tuple(np.shape(item))
            require(ctx, len(shape) <= 1, "{0} must be a scalar or a 1-D vector. Found: {1}", name, shape)
        require(ctx, np.shape(shift) == np.shape(axis), "shift and axis must have the same size")
        shift = xp.reshape(shift, (-1,))
        for i, item in enumerate(ints(axis)):
            dim = kernel_axis(ctx, item, len(x.shape), text="axis {0} is out of range")
            size = x.shape[dim]
            if size == 0:
                continue
            if ctx.host:
                x = np.roll(x, int(shift[i]) % size, dim)
            else:
                # Two copies side by side and one window, instead of a gather.
                start = (size - shift[i] % size) % size
                doubled = xp.concatenate([x, x], axis=dim)
                x = ctx.lax.dynamic_slice_in_dim(doubled, start, size, dim)
        return x

    def gradient(op, grad):
        return [build("Roll", dense(grad), build("Neg", op.inputs[1]), op.inputs[2]), None, None]


invert_permutation = public_op("InvertPermutation", "invert_permutation", "math.invert_permutation")
roll = public_op("Roll", "roll", "manip.roll", arguments="input shift axis")
