"""Reductions over dimensions: sums, products, extrema, logic, norms.

Policy. The dimensions are known when XLA compiles. Integers wrap in their own type, but a mean of integers sums in 64
bits and divides as C does (toward zero), as TensorFlow's does. Two-byte floats are summed in float32 and rounded
once. An extremum of nothing is the type's other end; NaN wins over numbers in `Max` and `Min`. Gradients bring the
incoming gradient to the shape of the input with the reduced dimensions kept as 1, then broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes, shapes
from anabranch.ops.math import xla_reductions
from anabranch.ops.shared import open_forms, row_rules, size_forms, unchecked
from anabranch.ops.shared.array_rules import INDEX, NUMBERS, dense, known, like, refuse, shape_of
from anabranch.ops.shared.widening import widen

ORDERED = (
    "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64 qint8 quint8 qint32 qint16 quint16"
)


# --------------------------------------------------------------------------------------------------------- shape rule
def reduced_shape(c: Any) -> Any:
    """Shape rule: input 0 without (or with 1 in place of) the dimensions that input 1 names."""
    shape, axes_shape = c.shapes[0], c.shapes[1]
    keep = c.attrs["keep_dims"]
    if axes_shape is not None and len(axes_shape) > 1:
        refuse(
            c,
            f"reduction_indices of shape {shapes.show(axes_shape)}",
            "a scalar or a vector",
            "give a flat list",
            f"Shape must be at most rank 1 but is rank {len(axes_shape)}",
        )
    if shape is None:
        return None
    axes = c.value(1)
    if axes is None:
        if keep:
            return (None,) * len(shape)
        count = 1 if axes_shape == () else axes_shape[0] if axes_shape is not None else None
        return None if count is None or count > len(shape) else (None,) * (len(shape) - count)
    rank = len(shape)
    gone = set()
    for axis in axes.ravel().tolist():
        if not -rank <= axis < rank:
            refuse(
                c,
                f"reduction dimension {axis} of a tensor of shape {shapes.show(shape)}",
                f"dimensions in [{-rank}, {rank})",
                "choose dimensions that the tensor has, or axis=None for all",
                f"Invalid reduction dimension {axis} for input with {rank} dimensions.",
            )
        gone.add(axis % rank)
    if keep:
        return tuple([1 if i in gone else item for i, item in enumerate(shape)])
    return tuple([item for i, item in enumerate(shape) if i not in gone])


# ------------------------------------------------------------------------------------------------------------- kernels
def kernel_axes(ctx: Any, axes: Any, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce, sorted and counted from the front; checks that they exist. One may be named twice."""
    dimensions: set[int] = set()
    for axis in np.asarray(axes).ravel().tolist():
        if not -rank <= axis < rank:
            ctx.check(
                False,
                errors.InvalidArgumentError,
                "Invalid reduction dimension ({0} for input with {1} dimension(s)",
                axis,
                rank,
            )
        else:
            dimensions.add(axis % rank)
    return tuple(sorted(dimensions))


def _kernel(reduce: Any) -> Any:
    """A kernel from ``reduce(ctx, x, axes, keep) -> array``, whose result is rounded to the input's type."""

    def kernel(ctx, inputs, attrs):
        x, axes = inputs
        result = reduce(ctx, x, kernel_axes(ctx, axes, x.ndim), attrs["keep_dims"])
        return ctx.xp.asarray(result, x.dtype) if ctx.host else result.astype(x.dtype)

    return kernel


def _sum(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    if not axes:  # a sum with 0 has no negative zeros
        return x
    wide = widen(x)
    return xla_reductions.reduce(ctx, "sum", wide, axes, keep, dtype=wide.dtype)


def _prod(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    wide = widen(x)
    return ctx.xp.prod(wide, axis=axes, keepdims=keep, dtype=wide.dtype)


def _mean(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    count = int(np.prod([x.shape[i] for i in axes], dtype=np.int64))
    if x.dtype.kind not in "iu":
        total = _sum(ctx, x, axes, keep)
        if count == 0 and x.dtype.kind == "c":
            return total  # where a real number is NaN, as in TensorFlow
        return total / total.dtype.type(count)
    wide = np.dtype(np.int64 if x.dtype.kind == "i" else np.uint64)
    total = ctx.xp.sum(x, axis=axes, keepdims=keep, dtype=wide)
    if count == 0:
        return total * wide.type(0)
    quotient = total // wide.type(count)
    # Floor division is one too low where the exact quotient is negative and not whole.
    return quotient + ((total < 0) & (quotient * wide.type(count) != total)) if wide.kind == "i" else quotient


def least(dtype: Any) -> Any:
    """The smallest value of a NumPy dtype as a scalar of it: -inf for floats."""
    return dtype.type(-np.inf) if dtype.kind not in "iu" else dtype.type(np.iinfo(dtype).min)


def greatest(dtype: Any) -> Any:
    """The largest value of a NumPy dtype as a scalar of it: inf for floats."""
    return dtype.type(np.inf) if dtype.kind not in "iu" else dtype.type(np.iinfo(dtype).max)


def _max(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    wide = widen(x)
    return xla_reductions.reduce(ctx, "max", wide, axes, keep, initial=least(wide.dtype))


def _min(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    wide = widen(x)
    return xla_reductions.reduce(ctx, "min", wide, axes, keep, initial=greatest(wide.dtype))


def _all(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return ctx.xp.all(x, axis=axes, keepdims=keep)


def _any(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return ctx.xp.any(x, axis=axes, keepdims=keep)


def _euclidean(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    if x.dtype.kind in "iu":
        total = ctx.xp.sum(x * x, axis=axes, keepdims=keep, dtype=x.dtype)
        # The square of an integer may have wrapped to a negative number, whose root would be undefined.
        return ctx.xp.floor(ctx.xp.sqrt(ctx.xp.maximum(total, total.dtype.type(0)).astype(np.float64)))
    wide = widen(x)
    square = ctx.xp.square(ctx.xp.real(wide)) + ctx.xp.square(ctx.xp.imag(wide)) if x.dtype.kind == "c" else wide * wide
    return ctx.xp.sqrt(_sum(ctx, square, axes, keep))


# ----------------------------------------------------------------------------------------------------------- gradients
def static_axes(op: Any) -> tuple[int, ...] | None:
    """The dimensions that a reduction op reduces, counted from the front, if they and the rank are known."""
    shape = op.inputs[0]._shape
    axes = known(op.inputs[1])
    if shape is None or axes is None:
        return None
    return tuple(dict.fromkeys(axis % len(shape) for axis in axes.ravel().tolist()))


def _axis_mask(op: Any) -> Any:
    """A vector `[rank]` of int32 with 1 at each reduced dimension: an array if known, else a tensor."""
    axes = static_axes(op)
    if axes is not None:
        mask = np.zeros(len(op.inputs[0]._shape), np.int32)
        mask[list(axes)] = 1
        return mask
    rank = build("Rank", op.inputs[0])
    flat = build("Reshape", build("Cast", op.inputs[1], DstT=dtypes.int32), [-1])
    positive = build("FloorMod", build("Add", flat, rank), rank)
    hot = build("OneHot", positive, rank, like(1, rank), like(0, rank))
    return build("Minimum", build("Sum", hot, 0), like(1, rank))


def _where_mask(mask: Any, vector: Any, other: int) -> Any:
    """``vector`` where ``mask`` is 1 and ``other`` elsewhere, by arithmetic that folds."""
    if isinstance(mask, np.ndarray):
        return build("Add", build("Mul", vector, mask), (1 - mask) * np.int32(other))
    masked = build("Mul", vector, mask)
    return build("Add", masked, build("Mul", build("Sub", like(1, mask), mask), like(other, mask)))


def _unmask(mask: Any) -> Any:
    return np.int32(1) - mask if isinstance(mask, np.ndarray) else build("Sub", like(1, mask), mask)


def kept_shape(op: Any) -> Any:
    """The input's shape with 1 in place of the reduced dimensions: an array if known, else a tensor."""
    raw = op.inputs[0]._shape
    axes = static_axes(op)
    if axes is not None and all(item is not None or i in axes for i, item in enumerate(raw)):
        return np.array([1 if i in axes else item for i, item in enumerate(raw)], np.int32)
    return _where_mask(_unmask(_axis_mask(op)), build("Shape", op.inputs[0]), 1)


def _keep(op: Any, tensor: Any) -> Any:
    """``tensor``, shaped as the output of the reduction ``op``, with the reduced dimensions put back as 1."""
    return tensor if op.get_attr("keep_dims") else build("Reshape", tensor, kept_shape(op))


def _spread(op: Any, grad: Any) -> Any:
    """``grad``, shaped as the output of the reduction ``op``, broadcast to the shape of its input."""
    grad = dense(grad)
    spread_grad = grad if grad._shape == () else _keep(op, grad)
    return build("BroadcastTo", spread_grad, shape_of(op.inputs[0]))


def _sum_gradient(op: Any, grad: Any) -> Any:
    return [_spread(op, grad), None]


def _mean_gradient(op: Any, grad: Any) -> Any:
    grad = dense(grad)
    x, y = op.inputs[0], op.outputs[0]
    total, results = shapes.num_elements(x._shape), shapes.num_elements(y._shape)
    if total is not None and results is not None:
        count = like(float(total // max(results, 1)), grad)
    else:
        axes = static_axes(op)
        sizes = None if axes is None else [x._shape[i] for i in axes]
        if sizes is not None and None not in sizes:
            count = like(float(np.prod(sizes, dtype=np.int64)), grad)
        else:
            reduced = build("Prod", _where_mask(_axis_mask(op), build("Shape", x), 1), 0)
            count = build("Cast", reduced, DstT=grad.dtype.base)
    return [_spread(op, build("RealDiv", grad, count)), None]


def _extremum_gradient(op: Any, grad: Any) -> Any:
    """Equal shares for all elements that reach the extremum; NaN where it is NaN, which no element equals.

    The share of the others is written as ``0 / count``. A product with the mask would do, but for XLA, which makes a
    choice of it that gives 0 where the count is 0.
    """
    x, axes = op.inputs
    grad = _keep(op, dense(grad))
    chosen = build("Equal", _keep(op, op.outputs[0]), x)
    inverse = build("Reciprocal", build("Sum", build("Cast", chosen, DstT=grad.dtype.base), axes, keep_dims=True))
    others = build("Mul", grad, build("Mul", inverse, 0.0))
    return [build("SelectV2", chosen, build("Mul", grad, inverse), others), None]


def _prod_gradient(op: Any, grad: Any) -> Any:
    """The product of all other elements, as product of those before and those after: zeros do no harm."""
    x = op.inputs[0]
    axes = static_axes(op)
    grad = _spread(op, grad)
    if axes is not None and len(axes) <= 1:
        others = _product_of_others(x, axes[0]) if axes else None
        return [grad if others is None else build("Mul", grad, others), None]
    mask = _axis_mask(op)
    if axes is not None:
        order: Any = np.array([*axes, *(i for i in range(len(x._shape)) if i not in axes)], np.int32)
        back: Any = np.argsort(order).astype(np.int32)
    else:
        # Descending, and ties keep their order: first the reduced dimensions, then the others.
        order = build("TopKV2", mask, build("Rank", x), sorted=True)[1]
        back = build("InvertPermutation", order)
    permuted = build("Transpose", x, order)
    sizes = shape_of(x)
    count = build("Prod", _where_mask(mask, sizes, 1), 0)
    rest = build("Prod", _where_mask(_unmask(mask), sizes, 1), 0)
    others = _product_of_others(build("Reshape", permuted, build("Pack", [count, rest], axis=0)), 0)
    restored = build("Transpose", build("Reshape", others, build("Shape", permuted)), back)
    return [build("Mul", grad, restored), None]


def _product_of_others(x: Any, axis: int) -> Any:
    if x.dtype.base.is_complex:
        x = build("Conj", x)
    before = build("Cumprod", x, axis, exclusive=True)
    return build("Mul", before, build("Cumprod", x, axis, exclusive=True, reverse=True))


def _euclidean_gradient(op: Any, grad: Any) -> Any:
    output, grad = _keep(op, op.outputs[0]), _keep(op, dense(grad))
    if grad.dtype.is_complex:
        # The output is real, whatever its type: an imaginary part of the gradient has nothing to act on.
        grad = build("Cast", build("Real", grad, Tout=grad.dtype.real_dtype), DstT=grad.dtype.base)
    return [build("RealDiv", op.inputs[0], build("RealDiv", output, grad)), None]


# --------------------------------------------------------------------------------------------------------- definitions
_LOGIC = NotDifferentiable("a bool has no derivative")
_STRAIGHT = {
    "Sum": unchecked.reduction(np.add),
    "Mean": unchecked.mean,
    "Max": unchecked.reduction(np.maximum),
    "Min": unchecked.reduction(np.minimum),
    "All": unchecked.all_of_axes,
    "Any": unchecked.any_of_axes,
}
_ANY_SIZE = {
    "Sum": open_forms.sum_of_axes,
    "Mean": open_forms.mean,
    "Max": open_forms.greatest_of_axes,
    "Min": open_forms.least_of_axes,
    "All": open_forms.all_of_axes,
    "Any": open_forms.any_of_axes,
}

for _name, _doc, _types, _reduce, _gradient in (
    ("Sum", "Sum of the elements of `input` over the dimensions `reduction_indices`.", NUMBERS, _sum, _sum_gradient),
    ("Mean", "Mean of the elements over the dimensions `reduction_indices`.", NUMBERS, _mean, _mean_gradient),
    ("Prod", "Product of the elements over the dimensions `reduction_indices`.", NUMBERS, _prod, _prod_gradient),
    ("Max", "Maximum of the elements over the dimensions `reduction_indices`.", ORDERED, _max, _extremum_gradient),
    ("Min", "Minimum of the elements over the dimensions `reduction_indices`.", ORDERED, _min, _extremum_gradient),
    (
        "EuclideanNorm",
        "Square root of the sum of squared magnitudes over the dimensions `reduction_indices`.",
        NUMBERS,
        _euclidean,
        _euclidean_gradient,
    ),
    ("All", "Logical and of the elements over the dimensions `reduction_indices`.", None, _all, _LOGIC),
    ("Any", "Logical or of the elements over the dimensions `reduction_indices`.", None, _any, _LOGIC),
):
    _kind, _type = ("bool", {}) if _types is None else ("T", {"T": Type(_types)})
    define(
        _name,
        _doc + " They are dropped, or kept as 1 with `keep_dims`.",
        signature=f"input: {_kind}, reduction_indices: Tidx -> output: {_kind}",
        straight=_STRAIGHT.get(_name),
        any_size=_ANY_SIZE.get(_name),
        of_sizes=size_forms.product if _name == "Prod" else None,
        by_rows=row_rules.axes_behind(),
        attrs={"keep_dims": Bool(False)}
        | ({} if _types is None else {"T": Type(_types)})
        | {"Tidx": Type(INDEX, "int32")},
        effect=PURE,
        shape=reduced_shape,
        compile_time=("reduction_indices",),
        kernel=_kernel(_reduce),
        gradient=_gradient,
    )
