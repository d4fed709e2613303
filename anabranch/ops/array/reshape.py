"""Shapes as tensors, and ops that only give a tensor another shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, Op, Role, Type, pass_gradient
from anabranch.core.contract.opdef import Shape as ShapeAttr
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import open_shapes, row_rules, size_forms, unchecked
from anabranch.ops.shared.array_rules import Index, dense, ints, refuse, require, shape_of

_INTEGERS = NotDifferentiable("a shape is made of integers")


class Shape(Op):
    """The shape of `input`, a vector `[rank]`."""

    signature = "input: T -> output: out_type"
    attrs = {"T": Type(), "out_type": Index()}
    effect = PURE
    role = Role.SHAPE
    shape_only = True
    of_sizes = size_forms.shape
    gradient = _INTEGERS

    def shape(c):
        raw = c.shapes[0]
        return (None if raw is None else len(raw),)

    def value(c):
        raw = c.shapes[0]
        return None if raw is None else raw if None in raw else np.array(raw, c.attrs["out_type"].np)

    def kernel(ctx, inputs, attrs):
        return shapes.as_array(inputs[0].shape, attrs["out_type"].np)


class ShapeN(Op):
    """The shapes of `N` tensors, each a vector."""

    signature = "input: N * T -> output: N * out_type"
    attrs = {"N": Int(minimum=1), "T": Type(), "out_type": Index()}
    effect = PURE
    role = Role.SHAPE
    shape_only = True
    gradient = _INTEGERS

    def shape(c):
        return [(None if raw is None else len(raw),) for raw in c.shapes]

    def value(c):
        return [
            None if raw is None else raw if None in raw else np.array(raw, c.attrs["out_type"].np) for raw in c.shapes
        ]

    def kernel(ctx, inputs, attrs):
        return [shapes.as_array(item.shape, attrs["out_type"].np) for item in inputs]


class Size(Op):
    """The number of elements of `input`, a scalar."""

    signature = "input: T -> output: out_type"
    attrs = {"T": Type(), "out_type": Index()}
    effect = PURE
    shape_only = True
    of_sizes = size_forms.count
    gradient = _INTEGERS
    shape = inference.scalar

    def value(c):
        raw = c.shapes[0]
        if raw is not None and (None not in raw or 0 in raw):
            return np.array(0 if 0 in raw else math.prod(raw), c.attrs["out_type"].np)
        return None

    def kernel(ctx, inputs, attrs):
        return shapes.as_array(math.prod(inputs[0].shape), attrs["out_type"].np)


class Rank(Op):
    """The number of dimensions of `input`, a scalar."""

    signature = "input: T -> output: int32"
    attrs = {"T": Type()}
    effect = PURE
    shape_only = True
    gradient = _INTEGERS
    shape = inference.scalar

    def value(c):
        raw = c.shapes[0]
        return None if raw is None else np.array(len(raw), np.int32)

    def kernel(ctx, inputs, attrs):
        return np.array(len(inputs[0].shape), np.int32)


def _shape_gradient(count: int) -> Any:
    """Gradient of an op that only gives its first of `count` inputs another shape."""

    def gradient(op, grad):
        return [build("Reshape", dense(grad), shape_of(op.inputs[0]))] + [None] * (count - 1)

    return gradient


# ------------------------------------------------------------------------------------------------------------ reshape
class Reshape(Op):
    """The elements of `tensor` in row-major order, in `shape`, of which one dimension may be -1 (whatever is left)."""

    signature = "tensor: T, shape: Tshape -> output: T"
    attrs = {"T": Type(), "Tshape": Index()}
    effect = PURE
    by_rows = row_rules.reshape
    straight = unchecked.reshape
    any_size = open_shapes.reshape
    of_sizes = size_forms.same
    moves = True
    compile_time = ("shape",)
    gradient = _shape_gradient(2)

    def shape(c):
        if c.shapes[1] is not None and len(c.shapes[1]) > 1:
            refuse(
                c,
                f"a shape of rank {len(c.shapes[1])}",
                "a vector",
                "give one size per dimension",
                f"Shape must be rank 1 but is rank {len(c.shapes[1])}",
            )
        wanted = c.vector("shape")
        if wanted is None:
            return None
        return reshaped(c, c.shapes[0], wanted)

    def value(c):
        known_value = c.partial(0)
        if isinstance(known_value, tuple):
            wanted = c.vector("shape")
            if wanted is not None and len(wanted) == 1:
                return known_value
        return None

    def kernel(ctx, inputs, attrs):
        x, shape = inputs
        require(ctx, np.ndim(shape) < 2, "sizes input must be 1-D, not {0}", tuple(np.shape(shape)))
        return ctx.xp.reshape(x, run_time_shape(ctx, x.shape, ints(np.reshape(shape, -1))))  # a scalar is one size


def reshaped(c: Any, given: shapes.RawShape, wanted: list[int | None]) -> shapes.RawShape:
    """The shape that a tensor has in the shape ``wanted``, as far as is known; ValueError if it does not fit."""
    for item in wanted:
        if item is not None and item < -1:
            refuse(
                c,
                f"size {item} in the shape {wanted}",
                "sizes of 0 and more, and -1 at most once",
                "correct that size",
                f"Size must be non-negative, not {item}",
            )
    open_places = [i for i, item in enumerate(wanted) if item == -1]
    if len(open_places) > 1:
        refuse(
            c,
            f"the shape {wanted}",
            "-1 at most once",
            "give all sizes but one",
            f"Only one input size may be -1, not both {open_places[0]} and {open_places[1]}",
        )
    size = shapes.num_elements(given)
    unknown = [i for i, item in enumerate(wanted) if item is None or item == -1]
    fixed = math.prod(item for item in wanted if item is not None and item != -1)
    result: list[int | None] = [None if item is None or item == -1 else item for item in wanted]
    if size is None:
        return tuple(result)
    if not unknown:
        if fixed != size:
            refuse(
                c,
                f"a tensor of {size} elements, shape {shapes.show(given)}, for the shape {shapes.show(tuple(result))}",
                "as many elements in the new shape as in the old one",
                "correct a size, or write -1 in one place to have it computed",
                f"Cannot reshape a tensor with {size} elements to shape {shapes.show(tuple(result))} "
                f"({fixed} elements)",
            )
    elif len(unknown) == 1:
        if fixed and size % fixed == 0:
            result[unknown[0]] = size // fixed
        elif fixed or size:
            refuse(
                c,
                f"a tensor of {size} elements, shape {shapes.show(given)}, for the shape {shapes.show(tuple(result))}",
                f"a multiple of {fixed} elements",
                "correct a size",
                f"Dimension size must be evenly divisible by {fixed} but is {size}"
                if fixed
                else f"Cannot reshape a tensor with {size} elements to shape {shapes.show(tuple(result))} (0 elements)",
            )
    return tuple(result)


def run_time_shape(ctx: Any, given: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The shape ``wanted`` with -1 replaced by what is left; a check that it fits."""
    size = math.prod(given)
    open_places = [i for i, item in enumerate(wanted) if item == -1]
    require(
        ctx, len(open_places) < 2, "Only one input size may be -1, not both {0} and {1}", *(open_places + [0, 0])[:2]
    )
    for i, item in enumerate(wanted):
        require(ctx, item >= -1, "Size {0} must be non-negative, not {1}", i, item)
    fixed = math.prod(item for item in wanted if item != -1)
    if not open_places:
        require(
            ctx,
            fixed == size,
            "Input to reshape is a tensor with {0} values, but the requested shape has {1}",
            size,
            fixed,
        )
        return wanted
    if fixed == 0:  # as TensorFlow has it: zeros on both sides are left out, and what is left is divided, rounded down
        require(
            ctx,
            size == 0,
            "Input to reshape is a tensor with {0} values, but the requested shape has 0",
            size,
        )
        fixed = math.prod(item for item in wanted if item > 0)
        size = math.prod(item for item in given if item > 0)
        return tuple([size // fixed if item == -1 else item for item in wanted])
    require(
        ctx,
        size % fixed == 0,
        "Input to reshape is a tensor with {0} values, but the requested shape requires a multiple of {1}",
        size,
        fixed,
    )
    return tuple([size // fixed if item == -1 else item for item in wanted])


class ExpandDims(Op):
    """`input` with a dimension of size 1 put in at `dim` (negative: counted from the end of the result)."""

    signature = "input: T, dim: Tdim -> output: T"
    attrs = {"T": Type(), "Tdim": Index()}
    effect = PURE
    any_size = open_shapes.expand_dims
    of_sizes = size_forms.same
    straight = unchecked.new_axis
    by_rows = row_rules.axes_behind(1)
    moves = True
    compile_time = ("dim",)
    gradient = _shape_gradient(2)

    def shape(c):
        raw, dim = c.shapes[0], c.scalar("dim")
        if raw is None:
            return None
        if dim is None:
            return (None,) * (len(raw) + 1)
        if not -len(raw) - 1 <= dim <= len(raw):
            refuse(
                c,
                f"dim = {dim} for a tensor of shape {shapes.show(raw)}",
                f"dim in [{-len(raw) - 1}, {len(raw)}]",
                "choose where the new dimension goes",
                f"dim {dim} not in the interval [{-len(raw) - 1}, {len(raw)}].",
            )
        dim = dim + len(raw) + 1 if dim < 0 else dim
        return (*raw[:dim], 1, *raw[dim:])

    def kernel(ctx, inputs, attrs):
        x, dim = inputs
        rank = len(x.shape)
        require(ctx, np.size(dim) == 1, "'dim' input must be a tensor with a single value")
        dim = ints(dim)[0]
        require(
            ctx,
            -rank - 1 <= dim <= rank,
            "Tried to expand dim index {0} for tensor with {1} dimensions.",
            dim,
            rank,
        )
        return ctx.xp.expand_dims(x, dim)


class Squeeze(Op):
    """`input` without its dimensions of size 1: those in `squeeze_dims`, or all of them if that is empty."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(), "squeeze_dims": List("int", (), minimum=0)}
    effect = PURE
    any_size = open_shapes.squeeze
    by_rows = row_rules.squeeze
    moves = True
    gradient = _shape_gradient(1)

    def shape(c):
        raw, dims = c.shapes[0], c.attrs["squeeze_dims"]
        if raw is None:
            return None
        if not dims:
            return None if None in raw else tuple([size for size in raw if size != 1])
        chosen = set()
        for dim in dims:
            if not -len(raw) <= dim < len(raw):
                refuse(
                    c,
                    f"dimension {dim} of a tensor of shape {shapes.show(raw)}",
                    f"dimensions in [{-len(raw)}, {len(raw)})",
                    "choose dimensions that the tensor has",
                    f"squeeze_dims[0] not in [{-len(raw)},{len(raw)}).",
                )
            dim %= len(raw)
            if raw[dim] not in (1, None):
                refuse(
                    c,
                    f"dimension {dim} of a tensor of shape {shapes.show(raw)}",
                    "a dimension of size 1",
                    "tf.reshape, or squeeze another dimension",
                    f"Can not squeeze dim[{dim}], expected a dimension of 1, got {raw[dim]}",
                )
            chosen.add(dim)
        return tuple([size for i, size in enumerate(raw) if i not in chosen])

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        rank = len(x.shape)
        dims = attrs["squeeze_dims"]
        for dim in dims:
            require(
                ctx, -rank <= dim < rank, "Tried to squeeze dim index {0} for tensor with {1} dimensions.", dim, rank
            )
            require(
                ctx,
                x.shape[dim] == 1,
                "Can not squeeze dim[{0}], expected a dimension of 1, got {1}: Tried to explicitly squeeze dimension "
                "{0} but dimension was not 1: {1}",
                dim % rank,
                x.shape[dim],
            )
        chosen = {dim % rank for dim in dims} if dims else {i for i, size in enumerate(x.shape) if size == 1}
        return ctx.xp.reshape(x, tuple([size for i, size in enumerate(x.shape) if i not in chosen]))


class EnsureShape(Op):
    """`input`, unchanged; the step fails unless its shape fits `shape`, which is the result's static shape."""

    signature = "input: T -> output: T"
    attrs = {"shape": ShapeAttr(), "T": Type()}
    effect = PURE
    passes = "input"

    def shape(c):
        return shapes.merge(c.attrs["shape"], c.shapes[0])

    def value(c):
        return c.partial(0)

    def checks(ctx, inputs, attrs):
        (x,) = inputs
        require(
            ctx,
            shapes.is_compatible(tuple(x.shape), attrs["shape"]),
            "Shape of tensor {0} is not compatible with expected shape {1}.",
            f"{getattr(ctx.op, 'name', '')} {shapes.show(tuple(x.shape))}",
            shapes.show(attrs["shape"]),
        )

    def kernel(ctx, inputs, attrs):
        return inputs[0]

    def gradient(op, grad):
        return [build("Reshape", grad, shape_of(op.inputs[0]))]


class GuaranteeConst(Op):
    """`input`, unchanged; a promise that it has the same value in every step."""

    signature = "input: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    gradient = pass_gradient
    passes = "input"
    shape = inference.unchanged

    def value(c):
        return c.partial(0)

    def kernel(ctx, inputs, attrs):
        if attrs["T"] == dtypes.resource:
            raise errors.InvalidArgumentError(
                None,
                ctx.op,
                "Input tensor cannot be a resource variable handle.\n"
                + errors.message(
                    "the handle of a variable", "a value that stays as it is", "tf.guarantee_const(variable)"
                ),
            )
        return inputs[0]


class DeepCopy(Op):
    """A copy of `x` that shares no memory with it."""

    signature = "x: T -> y: T"
    attrs = {"T": Type()}
    effect = PURE
    role = Role.COPY
    gradient = pass_gradient
    passes = "x"
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        return ctx.xp.array(inputs[0])


guarantee_const = public_op("GuaranteeConst", "guarantee_const")
