"""Joining tensors along a dimension and taking them apart: pack, unpack, concat, split."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, AtLeast, Int, NotDifferentiable, Op, Role, Type
from anabranch.core.contract.opdef import Shape as ShapeAttr
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.values import shapes
from anabranch.ops.shared import open_shapes, row_rules, size_forms, unchecked
from anabranch.ops.shared.array_rules import (
    Index,
    axis_in,
    dense,
    ints,
    kernel_axis,
    known,
    partial_vector,
    rank_of,
    refuse,
    require,
    shape_of,
)


class Pack(Op):
    """`N` tensors of one shape as one tensor with a new dimension of size `N` at `axis`."""

    signature = "values: N * T -> output: T"
    attrs = {"N": Int(minimum=1), "T": Type(), "axis": Int(0)}
    effect = PURE
    by_rows = row_rules.new_axis(of_first=False)
    straight = unchecked.pack
    any_size = open_shapes.pack
    of_sizes = size_forms.packed
    role = Role.JOIN
    moves = True

    def shape(c):
        merged: shapes.RawShape = None
        for raw in c.shapes:
            merged = shapes.merge(merged, raw)
        if merged is None:
            return None
        axis = axis_in(c, c.attrs["axis"], len(merged) + 1)
        return (*merged[:axis], c.attrs["N"], *merged[axis:])

    def value(c):
        if not all(raw in ((), None) for raw in c.shapes) or all(raw is None for raw in c.shapes):
            return None
        items = [c.scalar(i) for i in range(c.attrs["N"])]  # of unknown shape means a scalar beside one
        return partial_vector(items, c.dtype(0)) if c.dtype(0).is_integer else None

    def kernel(ctx, inputs, attrs):
        first = tuple(inputs[0].shape)
        for i, item in enumerate(inputs):
            require(
                ctx,
                tuple(item.shape) == first,
                "Shapes of all inputs must match: values[0].shape = {0} != values[{1}].shape = {2}",
                first,
                i,
                tuple(item.shape),
            )
        axis = kernel_axis(ctx, attrs["axis"], len(first) + 1)
        if len(inputs) == 1:
            return inputs[0].reshape((*first[:axis], 1, *first[axis:]))
        return ctx.xp.stack(inputs, axis=axis)

    def gradient(op, grad):
        parts = build("Unpack", dense(grad), num=op.get_attr("N"), axis=op.get_attr("axis"), name="unstack")
        return parts if isinstance(parts, list) else [parts]


class Unpack(Op):
    """The `num` tensors that lie along `axis` of `value`, without that dimension."""

    signature = "value: T -> output: num * T"
    attrs = {"num": Int(minimum=0), "T": Type(), "axis": Int(0)}
    effect = PURE
    by_rows = row_rules.new_axis(of_first=True)
    role = Role.SPLIT
    moves = True

    def shape(c):
        raw, num = c.shapes[0], c.attrs["num"]
        if raw is None:
            return [None] * num
        axis = axis_in(c, c.attrs["axis"], len(raw))
        if raw[axis] not in (None, num):
            refuse(
                c,
                f"num = {num} for dimension {axis} of a tensor of shape {shapes.show(raw)}",
                f"num = {raw[axis]}",
                "leave num out, or give the size of the dimension",
                f"Dimension must be {num} but is {raw[axis]}",
            )
        return [(*raw[:axis], *raw[axis + 1 :])] * num

    def value(c):
        element = c.partial(0)
        if not isinstance(element, tuple) or len(element) != c.attrs["num"]:
            return [None] * c.attrs["num"]
        return [None if item is None else np.array(item, c.dtype(0).np) for item in element]

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        num = attrs["num"]
        axis = kernel_axis(ctx, attrs["axis"], len(x.shape))
        require(
            ctx, x.shape[axis] == num, "Input shape axis {0} must equal {1}, got shape {2}", axis, num, tuple(x.shape)
        )
        before = (slice(None),) * axis
        return [x[(*before, i, ...)] for i in range(num)]

    def gradient(op, *grads):
        return [build("Pack", [dense(grad) for grad in grads], axis=op.get_attr("axis"), name="stack")]


# -------------------------------------------------------------------------------------------------------------- concat
def _concat_shape(c: Any, values: range, axis: int | None) -> shapes.RawShape:
    given = [c.shapes[i] for i in values]
    ranks = [len(raw) for raw in given if raw is not None]
    if not ranks:
        return None
    rank = ranks[0]
    if rank == 0:
        refuse(
            c,
            "scalars",
            "tensors of rank 1 or more",
            "tf.stack(values)",
            "Can't concatenate scalars (use tf.stack instead)",
        )
    if axis is None:
        if any(other != rank for other in ranks):
            refuse(c, f"ranks {ranks}", "tensors of one rank", "tf.expand_dims or tf.reshape some of them")
        return (None,) * rank
    least = axis + 1 if axis >= 0 else -axis
    axis = axis_in(c, axis, rank, lead=f"Shape must be at least rank {least} but is rank {rank}")
    total: int | None = 0
    merged: shapes.RawShape = None
    for raw in given:
        if raw is None:
            total = None
            continue
        if len(raw) != rank:
            refuse(
                c,
                f"tensors of shapes {', '.join(shapes.show(item) for item in given)}",
                "tensors of one rank",
                "tf.expand_dims or tf.reshape some of them",
                f"Shape must be rank {rank} but is rank {len(raw)}",
            )
        total = None if total is None or raw[axis] is None else total + raw[axis]
        try:
            merged = shapes.merge(merged, (*raw[:axis], None, *raw[axis + 1 :]))
        except ValueError:
            assert merged is not None
            ours, theirs = ((*one[:axis], *one[axis + 1 :]) for one in (merged, raw))
            at, (first, second) = next(
                (at, pair)
                for at, pair in enumerate(zip(ours, theirs, strict=True))
                if None not in pair and len({*pair}) > 1
            )
            refuse(
                c,
                f"tensors of shapes {', '.join(shapes.show(item) for item in given)}, axis {axis}",
                "dimensions that are equal everywhere but on the axis",
                "another axis, or tf.slice the larger ones",
                f"Dimension {at} in both shapes must be equal, but are {first} and {second}. "
                f"Shapes are {shapes.show(ours)} and {shapes.show(theirs)}.",
            )
    assert merged is not None
    return (*merged[:axis], total, *merged[axis + 1 :])


def _concat_value(c: Any, values: range) -> Any:
    joined: list[Any] = []
    for i in values:
        if c.shapes[i] is None or len(c.shapes[i]) != 1 or not c.dtype(i).is_integer:
            return None
        vector = c.vector(i)
        if vector is None:
            return None
        joined += vector
    return partial_vector(joined, c.dtype(values.start))


def _concatenated(ctx: Any, values: Any, axis: Any) -> Any:
    require(
        ctx,
        np.ndim(axis) == 0,
        "Concat dim tensor should be a scalar integer: axis tensor should be a scalar integer, but got shape {0}",
        tuple(np.shape(axis)),
    )
    first = tuple(values[0].shape)
    outside = "ConcatOp : Expected concatenating dimensions in the range [{1}, {2}), but got {0}"
    axis = kernel_axis(ctx, ints(axis)[0], len(first), text=outside)
    for i, item in enumerate(values):
        shape = tuple(item.shape)
        require(
            ctx,
            len(shape) == len(first),
            "ConcatOp : Ranks of all input tensors should match: shape[0] = {0} vs. shape[{1}] = {2}",
            first,
            i,
            shape,
        )
        fits = shape[:axis] == first[:axis] and shape[axis + 1 :] == first[axis + 1 :]
        require(
            ctx,
            fits,
            "ConcatOp : Dimensions of inputs should match: shape[0] = {0} vs. shape[{1}] = {2}",
            first,
            i,
            shape,
        )
    return ctx.xp.concatenate(values, axis=axis)


def _concat_gradients(values: Any, axis_tensor: Any, grad: Any) -> list[Any]:
    """What of `grad` belongs to each of `values`, concatenated along `axis_tensor`."""
    axis = known(axis_tensor)
    if isinstance(grad, IndexedSlices):
        if axis is None or values[0]._shape is None:
            grad = dense(grad)
        else:
            return _sparse_concat_gradients(values, int(axis) % len(values[0]._shape), grad)
    if axis is not None and values[0]._shape is not None:
        dim = int(axis) % len(values[0]._shape)
        if all(shapes.is_static(value._shape) for value in values):
            gradients, start = [], 0
            for value in values:
                begin = np.zeros(len(value._shape), np.int32)
                begin[dim] = start
                start += value._shape[dim]
                gradients.append(build("Slice", grad, begin, np.array(value._shape, np.int32)))
            return gradients
        place: Any = np.int32(dim)
    else:
        place = build("FloorMod", build("Cast", axis_tensor, DstT="int32"), rank_of(values[0]))
    sizes = [shape_of(value) for value in values]
    offsets = build("ConcatOffset", place, sizes)
    return [build("Slice", grad, begin, size) for begin, size in zip(offsets, sizes, strict=True)]


def _sparse_concat_gradients(values: Any, dim: int, grad: IndexedSlices) -> list[Any]:
    index_type = grad.indices.dtype.base
    gradients = []
    if dim > 0:  # every input has all the rows, each its own columns
        start: Any = np.int32(0)
        for value in values:
            shape = shape_of(value)
            rank = len(value._shape)
            width = build("Slice", shape, [dim], [1])
            begin = build("ConcatV2", [[0] * dim, build("Reshape", start, [1]), [0] * (rank - dim - 1)], 0)
            rows = build("ConcatV2", [[-1], build("Slice", shape, [1], [-1])], 0)
            gradients.append(IndexedSlices(build("Slice", grad.values, begin, rows), grad.indices, shape))
            start = build("Add", start, build("Reshape", width, []))
        return gradients
    start = build("Cast", np.int32(0), DstT=index_type)
    for value in values:
        shape = shape_of(value)
        rows = build("Cast", build("Reshape", build("Slice", shape, [0], [1]), []), DstT=index_type)
        end = build("Add", start, rows)
        inside = build("LogicalAnd", build("GreaterEqual", grad.indices, start), build("Less", grad.indices, end))
        chosen = build("Squeeze", build("Where", inside), squeeze_dims=[1])
        indices = build("Sub", build("GatherV2", grad.indices, chosen, 0), start)
        gradients.append(IndexedSlices(build("GatherV2", grad.values, chosen, 0), indices, shape))
        start = end
    return gradients


class ConcatV2(Op):
    """`N` tensors joined along the dimension `axis`."""

    signature = "values: N * T, axis: Tidx -> output: T"
    attrs = {"N": Int(minimum=2), "T": Type(), "Tidx": Index()}
    effect = PURE
    by_rows = row_rules.concat
    straight = unchecked.concat
    any_size = open_shapes.concat
    of_sizes = size_forms.joined
    role = Role.JOIN
    moves = True
    compile_time = ("axis",)

    def shape(c):
        c.with_rank("axis", 0)
        return _concat_shape(c, range(c.attrs["N"]), c.scalar("axis"))

    def value(c):
        return _concat_value(c, range(c.attrs["N"]))

    def kernel(ctx, inputs, attrs):
        return _concatenated(ctx, inputs[:-1], inputs[-1])

    def gradient(op, grad):
        values = list(op.inputs)
        return [*_concat_gradients(values[:-1], values[-1], grad), None]


class Concat(Op):
    """`N` tensors joined along the dimension `concat_dim`."""

    signature = "concat_dim: int32, values: N * T -> output: T"
    attrs = {"N": Int(minimum=2), "T": Type()}
    effect = PURE
    role = Role.JOIN
    moves = True
    compile_time = ("concat_dim",)

    def shape(c):
        c.with_rank("concat_dim", 0)
        return _concat_shape(c, range(1, c.attrs["N"] + 1), c.scalar("concat_dim"))

    def value(c):
        return _concat_value(c, range(1, c.attrs["N"] + 1))

    def kernel(ctx, inputs, attrs):
        return _concatenated(ctx, inputs[1:], inputs[0])

    def gradient(op, grad):
        values = list(op.inputs)
        return [None, *_concat_gradients(values[1:], values[0], grad)]


def _sizes_match(dim: int, vectors: list[Any]) -> bool:
    """Whether shapes, as far as they are known, can be joined along ``dim``."""
    rank = len(vectors[0])
    if not -rank <= dim < rank:
        return False
    known = [vector for vector in vectors if vector is not None]
    return all(
        len(vector) == rank
        and all(
            i == dim % rank or a is None or b is None or a == b
            for i, (a, b) in enumerate(zip(vectors[0], vector, strict=True))
        )
        for vector in known
    )


class ConcatOffset(Op):
    """Where in a concatenation along `concat_dim` each of the tensors of these shapes begins."""

    signature = "concat_dim: int32, shape: N * shape_type -> offset: N * shape_type"
    attrs = {"N": Int(minimum=2), "shape_type": Index()}
    effect = PURE
    of_sizes = size_forms.offsets
    gradient = NotDifferentiable("positions are integers")

    def shape(c):
        merged: shapes.RawShape = (None,)
        for raw in c.shapes[1:]:
            merged = shapes.merge(merged, raw)
        return [merged] * c.attrs["N"]

    def value(c):
        count = c.attrs["N"]
        dim = c.scalar("concat_dim")
        vectors = [c.vector(i) for i in range(1, count + 1)]
        if dim is None or vectors[0] is None or not _sizes_match(dim, vectors):
            return [None] * count  # what does not fit together is the kernel's to refuse
        offsets, start = [], 0
        for vector in vectors:
            if start is None:
                offsets.append(None)
                continue
            offset = np.zeros(len(vectors[0]), c.dtype(1).np)
            offset[dim] = start
            offsets.append(offset)
            start = None if vector is None or vector[dim] is None else start + vector[dim]
        return offsets

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        dim, *given = inputs
        rank = given[0].shape[0]
        for i, shape in enumerate(given):
            require(
                ctx,
                shape.ndim == 1 and shape.shape[0] == rank,
                f"input {i} should contain {rank} elements, but has shape {shapes.show(shape.shape)}",
            )
        inside = (dim >= -rank) & (dim < rank)
        ctx.check(inside, errors.InvalidArgumentError, f"Concat dim is out of range: {{0}} vs. {rank}", dim)
        here = np.arange(rank, dtype=np.int32) == xp.where(dim < 0, dim + np.int32(rank), dim)
        for i, shape in enumerate(given[1:], 1):
            ctx.check(
                xp.all(here | (shape == given[0])),
                errors.InvalidArgumentError,
                f"All dimensions except {{0}} must match. Input {i} has shape {{1}} and doesn't match input 0 with "
                "shape {2}.",
                dim,
                shape,
                given[0],
                summarize=10,
            )
        offsets = []
        start = xp.zeros_like(given[0])
        for shape in given:
            offsets.append(start)
            start = start + xp.where(here, shape, xp.zeros_like(shape))
        return offsets


# --------------------------------------------------------------------------------------------------------------- split
class Split(Op):
    """`value` cut along `split_dim` into `num_split` equal parts."""

    signature = "split_dim: int32, value: T -> output: num_split * T"
    attrs = {"num_split": Int(minimum=1), "T": Type()}
    effect = PURE
    by_rows = row_rules.split
    straight = unchecked.split
    any_size = open_shapes.split
    role = Role.SPLIT
    moves = True
    compile_time = ("split_dim",)

    def shape(c):
        raw, num, dim = c.shapes[1], c.attrs["num_split"], c.scalar("split_dim")
        if raw is None or dim is None:
            return [None if raw is None else (None,) * len(raw)] * num
        dim = axis_in(c, dim, len(raw), "split_dim", _dimension_words(dim, len(raw)))
        size = raw[dim]
        if size is not None and size % num:
            refuse(
                c,
                f"dimension {dim} of a tensor of shape {shapes.show(raw)} to be cut into {num} equal parts",
                f"a multiple of {num}",
                "give the sizes of the parts as num_or_size_splits=[...]",
                f"Dimension size must be evenly divisible by {num} but is {size}: Number of ways to split should "
                "evenly divide the split dimension",
            )
        return [(*raw[:dim], None if size is None else size // num, *raw[dim + 1 :])] * num

    def kernel(ctx, inputs, attrs):
        dim, x = inputs
        num = attrs["num_split"]
        require(ctx, np.ndim(dim) == 0, "split_dim must be a scalar but has rank {0}", np.ndim(dim))
        dim = kernel_axis(ctx, ints(dim)[0], len(x.shape), text=_SPLIT_DIM)
        size = x.shape[dim]
        require(
            ctx,
            size % num == 0,
            "Number of ways to split should evenly divide the split dimension, but got split_dim {0} (size = {1}) "
            "and num_split {2}",
            dim,
            size,
            num,
        )
        return _parts(x, dim, [size // num] * num)

    def gradient(op, *grads):
        return [None, _joined(grads, op.inputs[0])]


def _dimension_words(dim: int, rank: int) -> str:
    """TensorFlow's words for a dimension that is not there; it names the dimension in place of the operand."""
    return f"Dimension size, given by scalar input {dim} must be in range [-{rank}, {rank})"


def _parts(x: Any, dim: int, sizes: Any) -> list[Any]:
    before = (slice(None),) * dim
    parts, start = [], 0
    for size in sizes:
        parts.append(x[(*before, slice(start, start + size))])
        start += size
    return parts


def _joined(grads: Any, axis: Any) -> Any:
    grads = [dense(grad) for grad in grads]
    return build("ConcatV2", grads, axis, name="concat") if len(grads) > 1 else grads[0]


_SPLIT_DIM = "-input rank({1}) <= split_dim < input rank ({2}), but got {0}"


def _split_sizes(sizes: list[int], whole: int) -> list[int] | None:
    """Sizes of the parts with -1 replaced by what is left; None if they do not add up to `whole`."""
    fixed = sum(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes) or fixed > whole:
        return None
    if -1 not in sizes:
        return sizes if fixed == whole else None
    return [whole - fixed if size == -1 else size for size in sizes]


class SplitV(Op):
    """`value` cut along `split_dim` into parts of `size_splits` (one of them may be -1: what is left)."""

    signature = "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T"
    attrs = {"num_split": Int(minimum=1), "T": Type(), "Tlen": Type("int8 int32 int64", "int64")}
    effect = PURE
    ranks = {"value": AtLeast(1), "size_splits": 1}
    moves = True
    compile_time = ("size_splits", "split_dim")

    def shape(c):
        raw, num, dim = c.shapes[0], c.attrs["num_split"], c.scalar("split_dim")
        sizes = c.vector("size_splits")
        if sizes is not None and len(sizes) != num:
            refuse(c, f"{len(sizes)} sizes for num_split = {num}", f"{num} sizes", "give one size per part")
        if raw is None or dim is None:
            return [None if raw is None else (None,) * len(raw)] * num
        dim = axis_in(c, dim, len(raw), "split_dim", _dimension_words(dim, len(raw)))
        sizes = list(sizes) if sizes is not None else [None] * num
        if None not in sizes and raw[dim] is not None:
            part_sizes = _split_sizes(sizes, raw[dim])  # type: ignore[arg-type]
            if part_sizes is None:
                refuse(
                    c,
                    f"sizes {sizes} for dimension {dim} of a tensor of shape {shapes.show(raw)}",
                    f"sizes that add up to {raw[dim]}, at most one of them -1",
                    "correct the sizes",
                    "size_splits can only have one -1"
                    if sizes.count(-1) > 1
                    else "Sum of output sizes must match the size of the original Tensor along the split dimension or "
                    "the sum of the positive sizes must be less if it contains a -1",
                )
            sizes = part_sizes
        return [(*raw[:dim], None if size in (None, -1) else size, *raw[dim + 1 :]) for size in sizes]

    def kernel(ctx, inputs, attrs):
        x, sizes, dim = inputs
        require(ctx, np.size(dim) == 1, "split_dim_tensor must have exactly one element.")
        dim = kernel_axis(ctx, ints(dim)[0], len(x.shape), text=_SPLIT_DIM)
        sizes = list(ints(sizes))
        require(ctx, sizes.count(-1) < 2, "There can only be one -1 in the input.")
        require(ctx, len(sizes) == attrs["num_split"], "{0} sizes for {1} outputs", len(sizes), attrs["num_split"])
        part_sizes = _split_sizes(sizes, x.shape[dim])
        require(
            ctx,
            part_sizes is not None,
            "Determined shape must either match input shape along split_dim exactly if fully specified, or be less "
            "than the size of the input along split_dim if not fully specified.  Got: {0} of sizes {1} for size {2}",
            sum(size for size in sizes if size != -1),
            tuple(sizes),
            x.shape[dim],
        )
        return _parts(x, dim, part_sizes)

    def gradient(op, *grads):
        return [_joined(grads, op.inputs[2]), None, None]


class ParallelConcat(Op):
    """`N` tensors whose first dimension is 1, joined along it; `shape` is the shape of the result."""

    signature = "values: N * T -> output: T"
    attrs = {"N": Int(minimum=1), "T": Type(), "shape": ShapeAttr()}
    effect = PURE
    moves = True
    gradient = NotDifferentiable("use tf.stack where a gradient shall flow")

    def shape(c):
        wanted = c.attrs["shape"]
        if not shapes.is_static(wanted) or not wanted or wanted[0] != c.attrs["N"]:
            refuse(
                c,
                f"shape {shapes.show(wanted)} for {c.attrs['N']} tensors",
                "a known shape whose first dimension is their number",
                "tf.stack(values)",
                "All input shapes must be fully defined.",
            )
        merged: shapes.RawShape = (1, *wanted[1:])
        for raw in c.shapes:
            merged = shapes.merge(merged, raw)
        return wanted

    def kernel(ctx, inputs, attrs):
        for item in inputs:
            require(
                ctx,
                tuple(item.shape) == (1, *attrs["shape"][1:]),
                "a part of shape {0} for a result of shape {1}",
                shapes.show(tuple(item.shape)),
                shapes.show(attrs["shape"]),
            )
        return ctx.xp.concatenate(inputs, axis=0)
