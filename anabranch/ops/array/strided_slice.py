"""Slices: `Slice`, and `StridedSlice` with its five masks, gradient and assignment.

Where only the *positions* of a slice depend on data, and its size does not (`x[i]`, `tf.slice(x, [i, 0], [1, n])`),
XLA need not know them: `traced` says so, and the kernel takes a dynamic slice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.contract.kernels import KernelContext
from anabranch.core.contract.opdef import PURE, SELECT, Int, NotDifferentiable, Op, Role, Type, write
from anabranch.core.errors import InvalidArgumentError
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.array.slice_regions import (
    MASKS,
    BadSlice,
    Region,
    put,
    region,
    resolve,
    simple_index,
    sliced_shape,
    take,
)
from anabranch.ops.shared import open_shapes, row_rules, size_forms, unchecked
from anabranch.ops.shared.array_rules import dense, ints, refuse, require, shape_of


def _specification(c: Any, operands: tuple[str, str, str] = ("begin", "end", "strides")) -> tuple[Any, Any, Any] | None:
    vectors = [c.vector(name) for name in operands]
    lengths = {len(vector) for vector in vectors if vector is not None}
    for name in operands:
        raw = c.shape(name)
        if raw is not None and len(raw) != 1:
            refuse(c, f"{name} of shape {shapes.show(raw)}", "a vector", "give one number per dimension")
    if len(lengths) > 1:
        refuse(
            c,
            f"begin, end and strides of {' and '.join(str(n) for n in sorted(lengths))} elements",
            "vectors of one length",
            "give the same number of each",
        )
    if not lengths:
        return None
    (length,) = lengths
    if length >= 32:
        refuse(c, f"a slice with {length} specifications", "fewer than 32", "slice in two steps")
    begin, end, strides = ([None] * length if vector is None else vector for vector in vectors)
    return begin, end, strides


def _slice_refused(c: Any, problem: BadSlice, raw: Any) -> None:
    refuse(
        c,
        f"a slice of a tensor of shape {shapes.show(raw)}: {problem}",
        "indices within the dimensions that the tensor has, strides other than 0, one ellipsis",
        "correct the slice, for example x[0, 1:3, ..., ::-1]",
        str(problem),
    )


def _strided_shape(c: Any, raw: shapes.RawShape) -> shapes.RawShape:
    """Shape of the slice that the operands begin, end and strides of `c` take from a tensor of shape `raw`."""
    spec = _specification(c)
    if raw is None or spec is None:
        return None
    try:
        return sliced_shape(raw, resolve(len(raw), *spec, c.attrs))
    except BadSlice as problem:
        _slice_refused(c, problem, raw)
    return None


def _positions_may_be_traced(c: Any, raw: shapes.RawShape) -> bool:
    """Whether all that is unknown of begin and end are indices whose dimension goes away."""
    spec = _specification(c)
    if raw is None or spec is None or None in spec[2]:
        return False
    try:
        entries = resolve(len(raw), *spec, c.attrs).entries
    except BadSlice:
        return False
    return all(
        entry.shrink
        or entry.spec < 0
        or ((entry.begin is not None or entry.begin_masked) and (entry.end is not None or entry.end_masked))
        for entry in entries
    )


def _traced(c: Any) -> tuple[str, ...]:
    return ("begin", "end") if _positions_may_be_traced(c, c.shapes[0]) else ()


# ----------------------------------------------------------------------------------------------------------------- ops
_SLICE_ATTRS = {
    "T": Type(),
    "Index": Type("int32 int64"),
    "begin_mask": Int(0),
    "end_mask": Int(0),
    "ellipsis_mask": Int(0),
    "new_axis_mask": Int(0),
    "shrink_axis_mask": Int(0),
}
_SPEC = ("begin", "end", "strides")


def _masks(op: Any) -> dict[str, int]:
    return {name: op.get_attr(name) for name in MASKS}


def _always_there(operands: Any, known: Any, attrs: Any) -> Any:
    """The short form of a slice that is the same at each call."""
    x, *spec = operands
    if not all(known[1:]) or not isinstance(x, np.ndarray):
        return None
    index = simple_index(x.shape, spec, attrs)
    return None if index is None else lambda x, *_: x[index]


class StridedSlice(Op):
    """`input[begin:end:strides]` with the masks of the module's docstring."""

    signature = "input: T, begin: Index, end: Index, strides: Index -> output: T"
    attrs = {**_SLICE_ATTRS, "Index": Type("int16 int32 int64")}
    effect = PURE
    any_size = open_shapes.strided
    of_sizes = size_forms.subscript
    straight = _always_there
    by_rows = row_rules.strided_slice
    role = Role.SUBSCRIPT
    moves = True
    compile_time = _SPEC
    traced = _traced

    def shape(c):
        return _strided_shape(c, c.shapes[0])

    def value(c):
        array = c.partial(0)
        spec = [c.value(name) for name in _SPEC]
        if not isinstance(array, tuple) or any(item is None for item in spec):
            return None
        resolved = resolve(1, *[ints(item) for item in spec], c.attrs)
        (entry,) = resolved.entries
        if entry.shrink:
            if len(resolved.layout) or not -len(array) <= entry.begin < len(array):
                return None
            item = array[entry.begin]
            return None if item is None else np.array(item, c.dtype(0).np)
        return array[entry.as_slice()] if resolved.layout == [0] else None

    def kernel(ctx, inputs, attrs):
        x, *spec = inputs
        index = simple_index(x.shape, spec, attrs) if ctx.host else None
        return take(ctx, x, region(ctx, x.shape, spec, attrs)) if index is None else x[index]

    def gradient(op, grad):
        x, begin, end, strides = op.inputs
        gradient_of_input = build(
            "StridedSliceGrad",
            shape_of(x, begin.dtype.base if begin.dtype.base.name != "int16" else "int32"),
            begin,
            end,
            strides,
            dense(grad),
            **_masks(op),
        )
        return [gradient_of_input, None, None, None]


class StridedSliceGrad(Op):
    """Zeros of `shape` with `dy` in the region that StridedSlice takes with the same begin, end, strides and masks."""

    signature = "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> output: T"
    attrs = _SLICE_ATTRS
    effect = PURE
    any_size = open_shapes.strided_gradient
    ranks = {"begin": 1, "end": 1, "strides": 1}
    moves = True
    compile_time = ("shape", *_SPEC)

    def traced(c):
        wanted = c.vector("shape")
        if wanted is None or None in wanted:
            return ()
        return ("begin", "end") if _positions_may_be_traced(c, tuple(wanted)) else ()

    def shape(c):
        wanted = c.vector("shape")
        return None if wanted is None else tuple(wanted)

    def kernel(ctx, inputs, attrs):
        shape, begin, end, strides, dy = inputs
        shape = ints(shape)
        part = region(ctx, shape, (begin, end, strides), attrs)
        require(
            ctx,
            part.shape == tuple(dy.shape),
            "shape of dy was {0} instead of {1}",
            tuple(dy.shape),
            tuple(part.shape),
        )
        if ctx.host or part.dynamic or not shape or math.prod(part.sizes) == 0:
            return put(ctx, ctx.xp.zeros(shape, dy.dtype), part, dy)
        # A pad with gaps fuses with whatever reads it; an update of zeros does not.
        lax = ctx.lax
        dy = lax.reshape(dy, tuple(part.sizes))
        backwards = tuple([dim for dim, step in enumerate(part.strides) if step < 0])
        if backwards:
            dy = lax.rev(dy, backwards)
        padding = []
        for size, start, count, step in zip(shape, part.starts, part.sizes, part.strides, strict=True):
            low = start + (count - 1) * step if step < 0 else start
            padding.append((low, size - low - (count - 1) * abs(step) - 1, abs(step) - 1))
        return lax.pad(dy, ctx.xp.zeros((), dy.dtype), padding)

    def gradient(op, grad):
        _, begin, end, strides, _ = op.inputs
        return [None, None, None, None, build("StridedSlice", grad, begin, end, strides, **_masks(op))]


def _assigned_value(ctx: Any, part: Region, value: Any) -> Any:
    try:
        fits = np.broadcast_shapes(tuple(value.shape), part.shape) == part.shape
    except ValueError:
        fits = False
    require(
        ctx,
        fits,
        "a value of shape {0} does not fit the slice of shape {1} it is assigned to",
        shapes.show(tuple(value.shape)),
        shapes.show(part.shape),
    )
    return ctx.xp.broadcast_to(value, part.shape)


def _assignment_checks(ctx, inputs, attrs):
    ref, begin, end, strides, value = inputs
    _assigned_value(ctx, region(ctx, ref.shape, (begin, end, strides), attrs), value)


def _assigned(ctx, inputs, attrs):
    ref, begin, end, strides, value = inputs
    part = region(_Unchecked(ctx), ref.shape, (begin, end, strides), attrs)
    return put(ctx, ref, part, ctx.xp.broadcast_to(value, part.shape))


class _Unchecked:
    """A kernel's context whose checks were made before, by the op's `checks`."""

    def __init__(self, ctx: KernelContext):
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def check(self, *args: Any, **kwargs: Any) -> None:
        return None


class StridedSliceAssign(Op):
    """Assign `value` to the strided slice of the variable `ref`."""

    signature = "ref: Ref(T), begin: Index, end: Index, strides: Index, value: T -> output_ref: Ref(T)"
    attrs = _SLICE_ATTRS
    effect = write("ref")
    predication = SELECT
    compile_time = _SPEC
    traced = _traced
    checks = _assignment_checks
    kernel = _assigned
    gradient = NotDifferentiable("an assignment")

    def shape(c):
        _strided_shape(c, c.shapes[0])
        return c.shapes[0]


class ResourceStridedSliceAssign(Op):
    """Assign `value` to the strided slice of the variable behind `ref`."""

    signature = "ref: resource, begin: Index, end: Index, strides: Index, value: T ->"
    attrs = _SLICE_ATTRS
    effect = write("ref")
    predication = SELECT
    compile_time = _SPEC
    traced = _traced
    checks = _assignment_checks
    kernel = _assigned
    gradient = NotDifferentiable("an assignment")

    def shape(c):
        handle = c.handle("ref")  # the slice is one of the variable's value, not of its scalar handle
        _strided_shape(c, None if handle is None else handle.shape)
        return []


class TensorStridedSliceUpdate(Op):
    """`input` with `value` in place of its strided slice."""

    signature = "input: T, begin: Index, end: Index, strides: Index, value: T -> output: T"
    attrs = _SLICE_ATTRS
    effect = PURE
    moves = True
    compile_time = _SPEC
    traced = _traced

    def shape(c):
        _strided_shape(c, c.shapes[0])
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        ref, begin, end, strides, value = inputs
        part = region(ctx, ref.shape, (begin, end, strides), attrs)
        return put(ctx, ref, part, _assigned_value(ctx, part, value))

    def gradient(op, grad):
        _, begin, end, strides, value = op.inputs
        spec = (begin, end, strides)
        zeros = build("ZerosLike", value)
        x_grad = build("TensorStridedSliceUpdate", grad, *spec, zeros, **_masks(op))
        value_grad = build("StridedSlice", grad, *spec, **_masks(op))
        if value._shape is None or value._shape != value_grad._shape:
            axes = build("BroadcastGradientArgs", build("Shape", value_grad), build("Shape", value))[1]
            value_grad = build("Reshape", build("Sum", value_grad, axes), shape_of(value))
        return [x_grad, None, None, None, value_grad]


def _outside(dim: int, whole: int | None, start: int | None, count: int | None) -> str:
    """What TensorFlow says of a slice that reaches beyond its tensor, as far as that is known."""
    if start is not None and start < 0:
        return f"Invalid value in tensor used for shape: {start}"
    if count is not None and count < -1:
        return f"Invalid value in tensor used for shape: {count}"
    if whole is None or start is None:
        return ""
    if start > whole:
        return f"Expected begin[{dim}] in [0, {whole}], but got {start}"
    return f"Expected size[{dim}] in [0, {whole - start}], but got {count}"


class Slice(Op):
    """`size` elements per dimension of `input`, from `begin` on; a size of -1 takes what is left."""

    signature = "input: T, begin: Index, size: Index -> output: T"
    attrs = {"T": Type(), "Index": Type("int32 int64")}
    effect = PURE
    any_size = open_shapes.window
    of_sizes = size_forms.part
    ranks = {"begin": 1, "size": 1}
    by_rows = row_rules.slices
    straight = unchecked.window
    role = Role.WINDOW
    moves = True
    compile_time = ("begin", "size")

    def traced(c):
        size = c.value("size")
        return ("begin",) if size is not None and (size >= 0).all() else ()

    def shape(c):
        c.with_rank("begin", 1)
        c.with_rank("size", 1)
        begin, size = c.vector("begin"), c.vector("size")
        raw = c.shapes[0]
        rank = (
            len(raw)
            if raw is not None
            else len(size)
            if size is not None
            else len(begin)
            if begin is not None
            else None
        )
        if rank is None:
            return None
        raw = raw if raw is not None else (None,) * rank
        begin = begin if begin is not None else [None] * rank
        size = size if size is not None else [None] * rank
        if not len(begin) == len(size) == rank:
            refuse(
                c,
                f"begin of {len(begin)} and size of {len(size)} elements for a tensor of shape {shapes.show(raw)}",
                f"{rank} of each",
                "give one begin and one size per dimension",
                f"Shape must be rank {len(begin)} but is rank {rank}",
            )
        out = []
        for dim, (whole, start, count) in enumerate(zip(raw, begin, size, strict=True)):
            if count == -1:
                count = None if whole is None or start is None else whole - start
            if (
                (start is not None and start < 0)
                or (count is not None and count < 0)
                or (None not in (whole, start, count) and start + count > whole)
            ):
                refuse(
                    c,
                    f"begin {start} and size {size[dim]} in dimension {dim} of a tensor of shape {shapes.show(raw)}",
                    "0 <= begin and begin + size <= the dimension",
                    "correct begin or size; a size of -1 takes what is left",
                    _outside(dim, whole, start, size[dim]),
                )
            out.append(count)
        return tuple(out)

    def value(c):
        array, begin, size = c.partial(0), c.value("begin"), c.value("size")
        if not isinstance(array, tuple) or begin is None or size is None:
            return None
        start, count = ints(begin)[0], ints(size)[0]
        return array[start:] if count == -1 else array[start : start + count]

    def kernel(ctx, inputs, attrs):
        x, begin, size = inputs
        vector = (len(x.shape),)
        require(
            ctx,
            tuple(np.shape(begin)) == tuple(np.shape(size)) == vector,
            "Expected begin and size arguments to be 1-D tensors of size {0}, but got shapes {1} and {2} instead.",
            len(x.shape),
            tuple(np.shape(begin)),
            tuple(np.shape(size)),
        )
        size = ints(size)
        if isinstance(begin, np.ndarray):
            begin = ints(begin)
            size = tuple(
                [whole - start if n == -1 else n for whole, start, n in zip(x.shape, begin, size, strict=True)]
            )
            for dim, (whole, start, count) in enumerate(zip(x.shape, begin, size, strict=True)):
                require(ctx, 0 <= start <= whole, "Expected begin[{0}] in [0, {1}], but got {2}", dim, whole, start)
                require(
                    ctx,
                    count >= 0 and start + count <= whole,
                    "Expected size[{0}] in [0, {1}], but got {2}",
                    dim,
                    whole - start,
                    count,
                )
            part = Region(list(begin), list(size), [1] * len(size), size, False)
            return take(ctx, x, part)
        ends = begin + np.asarray(size, begin.dtype)
        room = np.asarray(x.shape, begin.dtype)
        ctx.check(
            ctx.xp.all((begin >= 0) & (ends <= room)),
            InvalidArgumentError,
            "Expected begin in [0, shape - size], but got begin {0} for shape {1} and size {2}",
            begin,
            room,
            np.asarray(size, begin.dtype),
            summarize=-1,
        )
        return ctx.lax.dynamic_slice(x, [begin[i] for i in range(len(size))], size)

    def gradient(op, grad):
        x, begin, _ = op.inputs
        grad = dense(grad)
        shape, taken = shape_of(x, begin.dtype.base), shape_of(op.outputs[0], begin.dtype.base)
        after = build("Sub", build("Sub", shape, taken), begin)
        return [build("Pad", grad, build("Pack", [begin, after], axis=1)), None, None]
