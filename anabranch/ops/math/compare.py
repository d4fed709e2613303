"""Comparison, logic, bits and choice: ops whose result or condition is a bool or a pattern of bits.

Shifts by less than 0 or more than the width of the type shift by 0 and by the width minus 1. A choice evaluates both
sides: their values decide nothing but the elements taken from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.opdef import PURE, Bool, Float, List, NotDifferentiable, Op, Type, define
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes, spare_arrays
from anabranch.ops.math.binary import check_broadcast
from anabranch.ops.math.unary import with_values
from anabranch.ops.shared import host_choice, open_forms, unchecked
from anabranch.ops.shared.array_rules import require
from anabranch.ops.shared.broadcast_gradients import reduce_to_shape_of, zeros_like
from anabranch.ops.shared.numerics import INTEGERS, NUMBERS, widened

_ORDERED = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
_BOOLS = NotDifferentiable("its output is a bool")
_BITS = NotDifferentiable("it is a function of integers")


# --------------------------------------------------------------------------------------------------------- comparison
def _elementwise(name: str) -> Callable[..., Any]:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        check_broadcast(ctx, *inputs)
        return getattr(ctx.xp, name)(*inputs)

    return kernel


for _type, _symbol, _name in (
    ("Less", "<", "less"),
    ("LessEqual", "<=", "less_equal"),
    ("Greater", ">", "greater"),
    ("GreaterEqual", ">=", "greater_equal"),
):
    define(
        _type,
        f"`x {_symbol} y`.",
        signature="x: T, y: T -> z: bool",
        attrs={"T": Type(_ORDERED)},
        effect=PURE,
        shape=inference.elementwise,
        symbol=_symbol,
        kernel=_elementwise(_name),
        gradient=_BOOLS,
        straight=unchecked.ufunc(getattr(np, _name)),
        any_size=open_forms.ufunc(getattr(np, _name)),
    )
for _type, _doc, _name in (("LogicalAnd", "`x and y`.", "logical_and"), ("LogicalOr", "`x or y`.", "logical_or")):
    define(
        _type,
        _doc,
        signature="x: bool, y: bool -> z: bool",
        effect=PURE,
        shape=inference.elementwise,
        kernel=_elementwise(_name),
        gradient=NotDifferentiable("it is a function of bools"),
        commutative=True,
        symbol="and" if _name == "logical_and" else None,
        straight=getattr(unchecked, _name),
        any_size=open_forms.ufunc(getattr(np, _name)),
    )


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(a[::-1], b[::-1], strict=False))


def _equality_shape(c: Any) -> Any:
    if c.attrs["incompatible_shape_error"]:
        return inference.elementwise(c)
    try:
        dims = shapes.broadcast(*c.shapes)
    except ValueError:
        return ()
    return dims if all(shapes.is_static(shape) for shape in c.shapes) else None


def _equality(name: str, unequal: bool) -> Callable[..., Any]:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, y = inputs
        if attrs["incompatible_shape_error"]:
            check_broadcast(ctx, x, y)
        elif not _broadcasts(np.shape(x), np.shape(y)):
            return ctx.xp.asarray(unequal)
        return ctx.xp.asarray(getattr(ctx.xp, name)(x, y), bool)

    return kernel


for _type, _doc, _name in (
    ("Equal", "Whether elements are equal; False where shapes that do not broadcast are allowed.", "equal"),
    ("NotEqual", "Whether elements differ; True where shapes that do not broadcast are allowed.", "not_equal"),
):
    define(
        _type,
        _doc,
        signature="x: T, y: T -> z: bool",
        attrs={"T": Type(), "incompatible_shape_error": Bool(True)},
        effect=PURE,
        shape=_equality_shape,
        elementwise=True,
        kernel=_equality(_name, _type == "NotEqual"),
        straight=unchecked.ufunc(getattr(np, _name), unchecked.exact),
        any_size=open_forms.ufunc(getattr(np, _name)),
        gradient=_BOOLS,
        commutative=True,
    )


class ApproximateEqual(Op):
    """Whether `|x - y| < tolerance`, element by element, for operands of one shape."""

    signature = "x: T, y: T -> z: bool"
    attrs = {"T": Type(NUMBERS), "tolerance": Float(9.999999747378752e-06)}
    effect = PURE
    shape = inference.merged
    gradient = _BOOLS
    commutative = True

    def kernel(ctx, inputs, attrs):
        x, y = inputs
        if x.dtype.kind in "iu":  # the distance of two integers may not fit their type
            x, y = ctx.xp.maximum(x, y), ctx.xp.minimum(x, y)
            unsigned = np.dtype(f"u{x.dtype.itemsize}")
            return (x.astype(unsigned) - y.astype(unsigned)) < attrs["tolerance"]
        return widened(lambda ctx, x, y: ctx.xp.abs(x - y))(ctx, x, y) < x.real.dtype.type(attrs["tolerance"])


# --------------------------------------------------------------------------------------------------------------- bits
def _shift(name: str) -> Callable[..., Any]:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, y = inputs
        check_broadcast(ctx, x, y)
        kind = y.dtype.type
        y = ctx.xp.clip(y, kind(0), kind(8 * y.dtype.itemsize - 1))
        return getattr(ctx.xp, name)(x, y)

    return kernel


for _type, _doc, _kernel in (
    ("BitwiseAnd", "Bits that are 1 in both.", _elementwise("bitwise_and")),
    ("BitwiseOr", "Bits that are 1 in at least one.", _elementwise("bitwise_or")),
    ("BitwiseXor", "Bits that differ.", _elementwise("bitwise_xor")),
    ("LeftShift", "`x << y`; `y` is clipped to the bits of the type.", _shift("left_shift")),
    ("RightShift", "`x >> y`, keeping the sign; `y` is clipped to the bits of the type.", _shift("right_shift")),
):
    define(
        _type,
        _doc,
        signature="x: T, y: T -> z: T",
        attrs={"T": Type(INTEGERS)},
        effect=PURE,
        shape=inference.elementwise,
        kernel=_kernel,
        gradient=_BITS,
        commutative=_type.startswith("Bitwise"),
    )


class Invert(Op):
    """All bits turned."""

    signature = "x: T -> y: T"
    attrs = {"T": Type(INTEGERS)}
    effect = PURE
    shape = inference.unchanged
    gradient = _BITS

    def kernel(ctx, inputs, attrs):
        return ctx.xp.invert(inputs[0])


class PopulationCount(Op):
    """How many bits are 1."""

    signature = "x: T -> y: uint8"
    attrs = {"T": Type(INTEGERS)}
    effect = PURE
    shape = inference.unchanged
    gradient = _BITS

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        if ctx.lax is not None:
            return ctx.lax.population_count(x).astype(np.uint8)
        x = np.asarray(x)  # NumPy counts the bits of |x|
        return np.bitwise_count(x.view(np.dtype(f"u{x.dtype.itemsize}")))


class CompareAndBitpack(Op):
    """Whether elements are above ``threshold``, eight to a byte along the last axis, the first one the highest bit.

    Bools are packed as they are.
    """

    signature = "input: T, threshold: T -> output: uint8"
    attrs = {"T": Type("bool half float double int8 int16 int32 int64")}
    effect = PURE
    gradient = _BITS

    def shape(c):
        size = c.with_rank_at_least("input", 1)
        c.with_rank("threshold", 0)
        if size is None:
            return None
        last = size[-1]
        if last is not None and last % 8:
            raise ValueError(
                f"Dimension size must be evenly divisible by 8 but is {last}\n"
                + errors.message(f"an innermost dimension of {last}", "a multiple of 8", "tf.pad(x, [[0, 0], [0, 4]])")
            )
        return (*size[:-1], None if last is None else last // 8)

    def kernel(ctx, inputs, attrs):
        x, threshold = inputs
        xp = ctx.xp
        above = x if x.dtype == bool else x > threshold
        eights = xp.reshape(above, (*above.shape[:-1], above.shape[-1] // 8, 8))
        weights = np.array([128, 64, 32, 16, 8, 4, 2, 1], np.uint8)
        return xp.sum(xp.where(eights, weights, np.uint8(0)), axis=-1, dtype=np.uint8)


# ------------------------------------------------------------------------------------------------------------- choice
def _chosen(ctx: Any, condition: Any, t: Any, e: Any) -> Any:
    """``t`` where the condition holds, else ``e``."""
    if ctx.xp is np and not np.ndim(condition) and np.ndim(t) and np.shape(t) == np.shape(e):
        return spare_arrays.copy(t if condition else e)  # where() would look at each element
    return host_choice.choose(condition, t, e) if ctx.host else ctx.xp.where(condition, t, e)


class Select(Op):
    """`t` where `condition`, else `e`; a scalar chooses the whole, a vector whole rows of dimension 0."""

    signature = "condition: bool, t: T, e: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    straight = unchecked.select
    any_size = open_forms.select
    moves = True

    def shape(c):
        condition, t, e = c.shapes
        merged = shapes.merge(t, e)
        if condition is None or len(condition) == 0 or merged is None:
            return merged
        if len(condition) == 1 and len(merged) > 0:
            return (*shapes.merge(condition, merged[:1]), *merged[1:])  # type: ignore[misc]
        return shapes.merge(merged, condition)

    def kernel(ctx, inputs, attrs):
        condition, t, e = inputs
        rank = np.ndim(t)
        if ctx.host:
            given, first, second = np.shape(condition), np.shape(t), np.shape(e)
            text = (
                "Inputs to operation Select of type Select must have the same size and shape.  Input 0: {0} != input "
            )
            chosen = not given or given in (first, first[:1])
            if len(given) == 1 and len(first) > 1:
                words = "Number of batches of 'then' must match size of 'cond', but saw: {0} vs. {1}"
                require(ctx, chosen, words, first[0], given[0])
            require(ctx, chosen or first == second, text + "1: {1}", given, first)
            require(ctx, first == second, text + "2: {1}", given, second)
            require(ctx, chosen, text + "1: {1}", given, first)
        if np.ndim(condition) == 1 and rank > 1:
            condition = condition.reshape((-1,) + (1,) * (rank - 1))
        return _chosen(ctx, condition, t, e)

    def gradient(op, grad):
        condition, zeros = op.inputs[0], zeros_like(grad)
        return [None, build("Select", condition, grad, zeros), build("Select", condition, zeros, grad)]


class SelectV2(Op):
    """`t` where `condition`, else `e`; all three are broadcast."""

    signature = "condition: bool, t: T, e: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    any_size = open_forms.select_broadcast
    moves = True
    elementwise = True
    shape = inference.elementwise

    def kernel(ctx, inputs, attrs):
        condition, t, e = inputs
        check_broadcast(ctx, condition, t)
        check_broadcast(ctx, condition, e)
        check_broadcast(ctx, t, e)
        return _chosen(ctx, condition, t, e)

    def gradient(op, grad):
        condition, t, e = op.inputs
        zeros = zeros_like(grad)
        by_t, by_e = build("SelectV2", condition, grad, zeros), build("SelectV2", condition, zeros, grad)
        return [None, reduce_to_shape_of(by_t, t), reduce_to_shape_of(by_e, e)]


class ClipByValue(Op):
    """`max(min(t, clip_value_max), clip_value_min)`; the limits are scalars or have the shape of `t`."""

    signature = "t: T, clip_value_min: T, clip_value_max: T -> output: T"
    attrs = {"T": Type(NUMBERS)}
    effect = PURE
    elementwise = True

    def shape(c):
        dims = c.shapes[0]
        for limit in c.shapes[1:]:
            dims = shapes.broadcast(dims, limit)
        return shapes.merge(dims, c.shapes[0])

    def kernel(ctx, inputs, attrs):
        t, low, high = inputs
        if t.dtype.kind == "c":
            ctx.check(False, errors.UnimplementedError, "ClipByValue of complex numbers, which have no order")
        check_broadcast(ctx, t, low)
        check_broadcast(ctx, t, high)
        return ctx.xp.maximum(ctx.xp.minimum(t, high), low)

    def gradient(op, grad):
        t, low, high = op.inputs
        zeros = zeros_like(grad)
        below, above = build("Less", t, low), build("Greater", t, high)
        by_t = build("Select", build("LogicalOr", below, above), zeros, grad)
        by_low = reduce_to_shape_of(build("Select", below, grad, zeros), low)
        return [by_t, by_low, reduce_to_shape_of(build("Select", above, grad, zeros), high)]


class Bucketize(Op):
    """The number of `boundaries` that are not greater, element by element."""

    signature = "input: T -> output: int32"
    attrs = {"T": Type("int32 int64 float double"), "boundaries": List("float")}
    effect = PURE
    shape = inference.unchanged
    gradient = NotDifferentiable("its output is an integer")

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        ordered = all(a <= b for a, b in itertools.pairwise(attrs["boundaries"]))
        ctx.check(ordered, errors.InvalidArgumentError, "Expected sorted boundaries")
        kind = np.float64 if x.dtype == np.float64 else np.float32
        boundaries = ctx.xp.asarray(np.array(attrs["boundaries"], np.float32).astype(kind))
        return ctx.xp.searchsorted(boundaries, x.astype(kind), side="right").astype(np.int32)


# ------------------------------------------------------------------------------------------------------------- public
for _type, _names in {
    "Less": "less",
    "LessEqual": "less_equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
}.items():
    public_op(_type, _names, f"math.{_names}")
for _type, _names in {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Invert": "invert",
    "LeftShift": "left_shift",
    "RightShift": "right_shift",
}.items():
    public_op(_type, f"bitwise.{_names}")


@public("equal", "math.equal")
def equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Whether elements of `x` and `y`, which broadcast, are equal. (`x == y` asks whether they are one tensor.)"""
    return build("Equal", x, y, name=name)


@public("not_equal", "math.not_equal")
def not_equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Whether elements of `x` and `y`, which broadcast, differ."""
    return build("NotEqual", x, y, name=name)


@public("logical_xor", "math.logical_xor")
def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Any:
    """`x != y` of bools, made of the other three logical ops."""
    either, both = build("LogicalOr", x, y), build("LogicalAnd", x, y)
    return build("LogicalAnd", either, build("LogicalNot", both), name=name)


@public("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where `condition` holds, else `y`; without both, the coordinates of the true elements.

    Args:
        condition: bools of the shape of `x`, or a vector that chooses rows of dimension 0, or a scalar.
        x: tensor.
        y: tensor of the same shape and dtype.
        name: name of the op.

    Returns:
        A tensor like `x`; without `x` and `y` an int64 tensor ``[n, rank]``.

    Example:
        >>> import anabranch as tf
        >>> tf.where([True, False], [1, 2], [3, 4]).shape.as_list()
        [2]
    """
    return _where("Select", condition, x, y, name)


@public("where_v2")
def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Like :func:`where`, but `condition`, `x` and `y` are broadcast against each other."""
    return _where("SelectV2", condition, x, y, name)


def _where(type_name: str, condition: Any, x: Any, y: Any, name: str | None) -> Any:
    if x is None and y is None:
        with name_scope(name, "Where", [condition]) as scope:
            condition = convert.convert_to_tensor(condition, preferred_dtype=dtypes.bool, name="condition")
            return build("Where", condition, name=scope)
    if x is None or y is None:
        raise ValueError(
            "x and y must both be non-None or both be None.\n"
            + errors.message(
                f"where with x={x!r} and y={y!r}", "both or neither", "tf.where(condition) for the true coordinates"
            )
        )
    return build(type_name, condition, x, y, name=name)


@public("clip_by_value")
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """`t` with what lies outside [clip_value_min, clip_value_max] moved to the nearer limit; gradient 0 there.

    Raises:
        ValueError: the limits have a shape that would enlarge `t`.
    """
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = convert.convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        clipped = values
        for type_name, limit, own in (("Minimum", clip_value_max, None), ("Maximum", clip_value_min, scope)):
            clipped = build(type_name, clipped, limit, name=own)
            shapes.merge(values._shape, clipped._shape)
    return with_values(t, clipped) if isinstance(t, IndexedSlices) else clipped
