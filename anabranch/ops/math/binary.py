"""Element-wise arithmetic of two operands that broadcast against each other.

Integers wrap. Integer division by zero and integer powers of negative exponent fail the step, in both tiers; the
smallest integer divided by -1 wraps to itself. Division of floats is IEEE's. ``FloorDiv`` of floats is ``floor(x / y)``
and ``FloorMod`` has the sign of its divisor, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.opdef import PURE, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes, shapes, spare_arrays
from anabranch.ops.math import xla_trigonometry
from anabranch.ops.shared import open_forms, size_forms, unchecked
from anabranch.ops.shared.broadcast_gradients import (
    add,
    conj,
    div,
    mul,
    neg,
    ones_like,
    reduce_broadcast,
    square,
    sub,
    zeros_like,
)
from anabranch.ops.shared.numerics import COMPLEX, FLOATS, make_complex, widened

_INTEGERS = "uint8 int8 uint16 int16 int32 uint32 uint64 int64"
_ALL = f"{FLOATS} {_INTEGERS} {COMPLEX}"
_FLOATS_COMPLEX = f"{FLOATS} {COMPLEX}"
_FOLDED_DTYPES = (dtypes.int32, dtypes.int64)


def check_broadcast(ctx: Any, x: Any, y: Any) -> None:
    """Host: fails the step when shapes that were not known before do not broadcast."""
    if not ctx.host or np.ndim(x) == 0 or np.ndim(y) == 0 or x.shape == y.shape:
        return
    for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False):
        if a != b and a != 1 and b != 1:
            ctx.check(
                False,
                errors.InvalidArgumentError,
                "Incompatible shapes: {0} vs. {1}",
                shapes.show(x.shape),
                shapes.show(y.shape),
            )


def partial_value_of(function: Callable[[int, int], int | None]) -> Callable[[Any], Any]:
    """Value rule of integer arithmetic on vectors of which some elements are not known: shape arithmetic."""

    def one(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else function(a, b)

    def value(c: Any) -> Any:
        if c.dtype(0) not in _FOLDED_DTYPES:
            return None
        x, y = c.partial(0), c.partial(1)
        if x is None or y is None or (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
            return None
        left, right = _items(x), _items(y)
        if left is None or right is None:
            return None
        if len(left) != len(right):
            if 1 not in (len(left), len(right)):
                return None
            size = max(len(left), len(right)) if 0 not in (len(left), len(right)) else 0
            left, right = left * size if len(left) == 1 else left, right * size if len(right) == 1 else right
        elements = tuple([one(a, b) for a, b in zip(left, right, strict=True)])
        low, high = c.dtype(0).min, c.dtype(0).max
        return tuple([item if item is not None and low <= item <= high else None for item in elements])

    return value


def _items(known: Any) -> list[int | None] | None:
    if isinstance(known, np.ndarray):
        return known.ravel().tolist() if known.ndim <= 1 else None
    return list(known)


def _binary(
    type_name: str, doc: str, types: str, function: Callable[..., Any], gradient: Any, output: str = "T", **fields: Any
) -> None:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, y = inputs
        check_broadcast(ctx, x, y)
        return function(ctx, x, y)

    fields.setdefault("signature", f"x: T, y: T -> z: {output}")
    define(
        type_name,
        doc,
        attrs={"T": Type(types)},
        effect=PURE,
        shape=inference.elementwise,
        kernel=kernel,
        gradient=gradient,
        **fields,
    )


def _numpy(name: str) -> Callable[..., Any]:
    def function(ctx: Any, x: Any, y: Any) -> Any:
        apply = getattr(ctx.xp, name)
        return spare_arrays.arithmetic(apply, x, y) if ctx.xp is np else apply(x, y)

    return function


# ------------------------------------------------------------------------------------------------------------ kernels
def _add(ctx, x, y):
    if x.dtype == object:
        return np.asarray(np.add(x, y), object)
    return spare_arrays.arithmetic(np.add, x, y) if ctx.xp is np else ctx.xp.add(x, y)


def _divisor(ctx: Any, x: Any, y: Any) -> Any:
    """``y`` without zeros, which fail the step unless no quotient is asked for."""
    if 0 in np.shape(x):
        return ctx.xp.where(y == 0, y.dtype.type(1), y)
    namespace = np if isinstance(y, np.ndarray) else ctx.xp
    zero = y == 0
    ctx.check(~namespace.any(zero), errors.InvalidArgumentError, "Integer division by zero")
    return namespace.where(zero, y.dtype.type(1), y)


def _is_integer(x: Any) -> bool:
    return x.dtype.kind in "iu"


def _toward_zero(ctx: Any, x: Any, y: Any) -> Any:
    """The quotient of integers in a program; no ``y`` is 0.

    Processors divide integers one by one, but floats side by side: what has up to 32 bits takes a quarter of the time
    as float64, which tells all of its quotients apart. By a known number LLVM multiplies instead.
    """
    if ctx.platform != "cpu" or x.dtype.itemsize > 4 or isinstance(y, np.ndarray):
        return ctx.lax.div(*ctx.xp.broadcast_arrays(x, y))
    wide = np.dtype(np.float32 if x.dtype.itemsize < 4 else np.float64)
    quotient = (x.astype(wide) / y.astype(wide)).astype(x.dtype)
    # The lowest number by -1 is no number of the type, and wraps.
    return ctx.xp.where(y == -1, -x, quotient) if x.dtype.kind == "i" else quotient


def _floored(ctx: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient and remainder of integers in a program, rounded down; no ``y`` is 0."""
    quotient = _toward_zero(ctx, x, y)
    rest = x - quotient * y
    if x.dtype.kind == "u":
        return quotient, rest
    beyond = (rest != 0) & ((rest < 0) != (y < 0))
    return quotient - beyond.astype(x.dtype), ctx.xp.where(beyond, rest + y, rest)


def _truncated_quotient(ctx, x, y):
    y = _divisor(ctx, x, y)
    if ctx.lax is not None:
        return _toward_zero(ctx, x, y)
    return (x - np.fmod(x, y)) // y


@widened
def _quotient(ctx, x, y):
    if ctx.lax is not None and np.ndim(y) == 0 and (ctx.platform == "cpu" or np.size(x) <= 1024):
        # XLA would multiply by the reciprocal of a scalar, which is off in the last digit: 41 / 41 came out below 1,
        # its floor as 0, and 1 - 41 / 41 to a broken power as nan. It does not see through this.
        y = ctx.lax.optimization_barrier(ctx.xp.broadcast_to(y, np.shape(x)))
    return spare_arrays.arithmetic(np.divide, x, y) if ctx.xp is np else x / y


def _div(ctx, x, y):
    return _truncated_quotient(ctx, x, y) if _is_integer(x) else _quotient(ctx, x, y)


def _truncate_div(ctx, x, y):
    if _is_integer(x):
        return _truncated_quotient(ctx, x, y)
    if x.dtype.kind == "c":
        return _quotient(ctx, x, y)
    return ctx.xp.trunc(_quotient(ctx, x, y))


def _floor_div(ctx, x, y):
    if _is_integer(x):
        y = _divisor(ctx, x, y)
        return ctx.xp.floor_divide(x, y) if ctx.lax is None else _floored(ctx, x, y)[0]
    if x.dtype.kind == "c":
        return _quotient(ctx, x, y)
    return ctx.xp.floor(_quotient(ctx, x, y))


@widened
def _real_remainder(ctx, x, y):
    remainder = ctx.xp.fmod(x, y)
    return ctx.xp.where((remainder != 0) & ((remainder < 0) != (y < 0)), remainder + y, remainder)


def _floor_mod(ctx, x, y):
    if not _is_integer(x):
        return _real_remainder(ctx, x, y)
    y = _divisor(ctx, x, y)
    return ctx.xp.remainder(x, y) if ctx.lax is None else _floored(ctx, x, y)[1]


@widened
def _real_truncated_remainder(ctx, x, y):
    return ctx.xp.fmod(x, y)


def _truncate_mod(ctx, x, y):
    if not _is_integer(x):
        return _real_truncated_remainder(ctx, x, y)
    y = _divisor(ctx, x, y)
    return ctx.xp.fmod(x, y) if ctx.lax is None else x - _toward_zero(ctx, x, y) * y


def _without_zero(ctx: Any, zero: Any, result: Any) -> Any:
    return ctx.xp.where(zero, ctx.xp.zeros_like(result), result)


@widened
def _div_no_nan(ctx, x, y):
    zero = y == 0
    return _without_zero(ctx, zero, x / ctx.xp.where(zero, ctx.xp.ones_like(y), y))


@widened
def _mul_no_nan(ctx, x, y):
    return _without_zero(ctx, y == 0, x * y)


@widened
def _xdivy(ctx, x, y):
    return _without_zero(ctx, x == 0, x / y)


@widened
def _xlogy(ctx, x, y):
    return _without_zero(ctx, x == 0, x * ctx.xp.log(y))


@widened
def _xlog1py(ctx, x, y):
    return _without_zero(ctx, x == 0, x * ctx.xp.log1p(y))


def _integer_power(ctx, x, y):
    negative = y < 0
    ctx.check(
        ~(negative & ctx.xp.ones(np.shape(x), bool)).any(),
        errors.InvalidArgumentError,
        "Integers to negative integer powers are not allowed",
    )
    y = ctx.xp.where(negative, y.dtype.type(0), y)
    if ctx.lax is None:
        return np.power(x, y)

    # Squaring and multiplying modulo 2^bits, for as many bits as the greatest exponent has.
    def body(state: Any) -> Any:
        exponent, base, result = state
        odd = (exponent & exponent.dtype.type(1)) == 1
        return exponent >> exponent.dtype.type(1), base * base, ctx.xp.where(odd, result * base, result)

    x, y = ctx.xp.broadcast_arrays(x, y)
    return ctx.lax.while_loop(lambda state: (state[0] != 0).any(), body, (y, x, ctx.xp.ones_like(x)))[2]


def _host_power(x: Any, y: Any) -> Any:
    """``x ** y`` of floats in NumPy, whose power takes twentyfold time for a negative base as for a positive one."""
    if np.ndim(y) == 0 and y == 2:
        return x * x
    if not np.ndim(x):  # an optimizer's power of its decay, say: rounded once
        return np.power(x, y)
    if np.ndim(y) == 0 and y == 3:
        return x * x * x
    if not (x < 0).any():
        return np.power(x, y)
    result = np.asarray(np.power(np.abs(x), y))
    half = np.fmod(y, 2)  # of whole numbers 0 or 1 with their sign; of infinities NaN, which is neither
    odd, whole = np.abs(half) == 1, (np.floor(y) == y) | np.isinf(y)
    if np.ndim(y) == 0:
        if odd:
            np.copysign(result, x, out=result)
        elif not whole:
            result[(x < 0) & np.isfinite(x)] = np.nan
        return result
    np.copysign(result, x, out=result, where=odd)
    result[(x < 0) & np.isfinite(x) & ~whole] = np.nan
    return result


@widened
def _real_power(ctx, x, y):
    if ctx.lax is None and x.dtype.kind == "f":
        return _host_power(x, y)
    result = ctx.xp.power(x, y)
    if x.dtype.kind == "c":
        return ctx.xp.where(y == 0, ctx.xp.ones_like(result), result)
    return result


def _pow(ctx, x, y):
    return _integer_power(ctx, x, y) if _is_integer(x) else _real_power(ctx, x, y)


def _squared_difference(ctx, x, y):
    difference = x - y
    if x.dtype.kind == "c":
        size = difference.real * difference.real + difference.imag * difference.imag
        return make_complex(ctx, size, ctx.xp.zeros_like(size))
    return difference * difference


@widened
def _atan2(ctx, y, x):
    if xla_trigonometry.applies(ctx, y) and xla_trigonometry.applies(ctx, x):
        return xla_trigonometry.atan2(ctx, y, x)
    return ctx.xp.arctan2(y, x)


# ---------------------------------------------------------------------------------------------------------- gradients
def _with(rule: Callable[[Any, Any, Any], tuple[Any, Any]]) -> Callable[..., Any]:
    """Gradient from ``rule(x, y, grad)``, which gives both gradients in the broadcast shape; conjugated operands."""

    def gradient(op: Any, grad: Any) -> Any:
        x, y = op.inputs
        return reduce_broadcast(x, y, *rule(conj(x), conj(y), grad))

    return gradient


def _add_gradient(op, grad):
    return reduce_broadcast(*op.inputs, grad, grad)


def _sub_gradient(op, grad):
    x, y = op.inputs
    by_x, by_y = reduce_broadcast(x, y, grad, grad)
    return [by_x, neg(by_y)]


def _no_gradient(op, grad):
    return [None, None]


def _pow_rule(op, grad):
    x, y = op.inputs
    cx, cy, cz = conj(x), conj(y), conj(op.outputs[0])
    by_x = mul(mul(grad, cy), build("Pow", cx, sub(cy, 1 if y.dtype.is_integer else 1.0)))
    # No false singularity at 0; where log(x) is not real there is no sensible value, and 0 is given.
    mask = build("NotEqual" if x.dtype.is_complex else "Greater", cx, 0)
    log = build("Select", mask, build("Log", build("Select", mask, cx, ones_like(cx))), zeros_like(cx))
    return reduce_broadcast(x, y, by_x, mul(mul(grad, cz), log))


def _choice_gradient(comparison: str) -> Callable[..., Any]:
    def gradient(op: Any, grad: Any) -> Any:
        x, y = op.inputs
        mask, zeros = build(comparison, x, y), zeros_like(grad)
        return reduce_broadcast(x, y, build("Select", mask, grad, zeros), build("Select", mask, zeros, grad))

    return gradient


def _squared_difference_gradient(op, grad):
    x, y = op.inputs
    if x.dtype.is_complex:  # the output is real: an imaginary part of its gradient means nothing
        grad = build("Complex", build("Real", grad, Tout=x.dtype.real_dtype), 0.0, Tout=x.dtype.base)
    slope = mul(mul(2 if x.dtype.is_integer else 2.0, grad), sub(x, y))
    by_x, by_y = reduce_broadcast(x, y, slope, slope)
    return [by_x, neg(by_y)]


def _atan2_rule(op, grad):
    y, x = op.inputs
    scaled = div(grad, add(square(x), square(y)))
    return reduce_broadcast(y, x, mul(x, scaled), neg(mul(y, scaled)))


def _quotient_rule(type_name: str) -> Callable[..., Any]:
    def rule(x: Any, y: Any, grad: Any) -> tuple[Any, Any]:
        def by(a: Any, b: Any) -> Any:
            return build(type_name, a, b)

        return by(grad, y), mul(grad, by(by(neg(x), y), y))

    return rule


def _not_zero(x: Any) -> Any:
    return build("Cast", build("NotEqual", x, 0), DstT=x.dtype.base)


_binary(
    "Add",
    "`x + y`; strings are joined.",
    f"{FLOATS} uint8 int8 int16 int32 int64 {COMPLEX} string",
    _add,
    _add_gradient,
    value=partial_value_of(lambda a, b: a + b),
    symbol="+",
    straight=unchecked.ufunc(np.add),
    any_size=open_forms.ufunc(np.add),
    of_sizes=size_forms.add,
)
_binary(
    "AddV2",
    "`x + y`.",
    f"{FLOATS} uint8 uint16 uint32 uint64 int8 int16 int32 int64 {COMPLEX}",
    _numpy("add"),
    _add_gradient,
    value=partial_value_of(lambda a, b: a + b),
    commutative=True,
    aggregate=True,
    symbol="+",
    straight=unchecked.ufunc(np.add),
    any_size=open_forms.ufunc(np.add),
    of_sizes=size_forms.add,
)
_binary(
    "Sub",
    "`x - y`.",
    _ALL,
    _numpy("subtract"),
    _sub_gradient,
    value=partial_value_of(lambda a, b: a - b),
    symbol="-",
    straight=unchecked.ufunc(np.subtract),
    any_size=open_forms.ufunc(np.subtract),
    of_sizes=size_forms.subtract,
)
_binary(
    "Mul",
    "`x * y`.",
    _ALL,
    _numpy("multiply"),
    _with(lambda x, y, grad: (mul(grad, y), mul(x, grad))),
    value=partial_value_of(lambda a, b: a * b),
    commutative=True,
    straight=unchecked.ufunc(np.multiply),
    any_size=open_forms.ufunc(np.multiply),
    of_sizes=size_forms.multiply,
)
_binary(
    "Div",
    "`x / y`; integers are divided and cut towards zero.",
    _ALL,
    _div,
    _with(_quotient_rule("RealDiv")),
    value=partial_value_of(lambda a, b: None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
)
_binary(
    "RealDiv",
    "`x / y` of floats and complex numbers; integers are divided and cut towards zero.",
    _ALL,
    _div,
    _with(_quotient_rule("RealDiv")),
    straight=unchecked.quotient,
    any_size=open_forms.floats(np.divide),
)
_binary("TruncateDiv", "`x / y` cut towards zero.", _ALL, _truncate_div, _no_gradient)
_binary(
    "FloorDiv",
    "`floor(x / y)`; of complex numbers, `x / y`.",
    _ALL,
    _floor_div,
    _no_gradient,
    straight=unchecked.integers(np.floor_divide),
    any_size=open_forms.divided(np.floor_divide),
    value=partial_value_of(lambda a, b: None if b == 0 else a // b),
)
_binary(
    "FloorMod",
    "Remainder of `floor(x / y)`; it has the sign of `y`.",
    f"int8 int16 int32 int64 {FLOATS} uint8 uint16 uint32 uint64",
    _floor_mod,
    straight=unchecked.integers(np.remainder),
    any_size=open_forms.divided(np.remainder),
    gradient=_with(lambda x, y, grad: (grad, neg(mul(grad, build("FloorDiv", x, y))))),
    value=partial_value_of(lambda a, b: None if b == 0 else a % b),
)
for _type in ("Mod", "TruncateMod"):
    _binary(
        _type,
        "Remainder of the division that cuts towards zero; it has the sign of `x`.",
        f"int32 int64 {FLOATS}",
        _truncate_mod,
        _with(lambda x, y, grad: (grad, neg(mul(grad, build("TruncateDiv", x, y))))),
    )
_binary("DivNoNan", "`x / y`, 0 where `y` is 0.", _FLOATS_COMPLEX, _div_no_nan, _with(_quotient_rule("DivNoNan")))
_binary(
    "MulNoNan",
    "`x * y`, 0 where `y` is 0, even for an infinite `x`.",
    _FLOATS_COMPLEX,
    _mul_no_nan,
    _with(lambda x, y, grad: (build("MulNoNan", grad, y), build("MulNoNan", x, grad))),
)
_binary(
    "Xdivy",
    "`x / y`, 0 where `x` is 0.",
    _FLOATS_COMPLEX,
    _xdivy,
    _with(
        lambda x, y, grad: (mul(build("Xdivy", _not_zero(x), y), grad), mul(build("Xdivy", neg(x), square(y)), grad))
    ),
)
_binary(
    "Xlogy",
    "`x * log(y)`, 0 where `x` is 0.",
    _FLOATS_COMPLEX,
    _xlogy,
    _with(lambda x, y, grad: (mul(build("Xlogy", _not_zero(x), y), grad), mul(build("Xdivy", x, y), grad))),
)
_binary(
    "Xlog1py",
    "`x * log(1 + y)`, 0 where `x` is 0.",
    _FLOATS_COMPLEX,
    _xlog1py,
    _with(lambda x, y, grad: (mul(build("Xlog1py", _not_zero(x), y), grad), mul(build("Xdivy", x, add(y, 1.0)), grad))),
)
_binary("Pow", "`x ** y`.", f"{FLOATS} int8 int16 int32 int64 {COMPLEX}", _pow, _pow_rule)
_binary(
    "Maximum",
    "The greater of `x` and `y`; nan if one of them is.",
    f"{FLOATS} {_INTEGERS}",
    _numpy("maximum"),
    _choice_gradient("GreaterEqual"),
    straight=unchecked.ufunc(np.maximum),
    any_size=open_forms.ufunc(np.maximum),
    of_sizes=size_forms.maximum,
    value=partial_value_of(max),
)
_binary(
    "Minimum",
    "The smaller of `x` and `y`; nan if one of them is.",
    f"{FLOATS} {_INTEGERS}",
    _numpy("minimum"),
    _choice_gradient("LessEqual"),
    straight=unchecked.ufunc(np.minimum),
    any_size=open_forms.ufunc(np.minimum),
    of_sizes=size_forms.minimum,
    value=partial_value_of(min),
    symbol="min",
)
_binary(
    "SquaredDifference",
    "`(x - y) ** 2`; `|x - y| ** 2` for complex numbers.",
    f"{FLOATS} int32 int64 {COMPLEX}",
    _squared_difference,
    _squared_difference_gradient,
    commutative=True,
)
_binary(
    "Atan2", "The angle of the point `(x, y)`, in radians.", FLOATS, _atan2, _atan2_rule, signature="y: T, x: T -> z: T"
)

define(
    "NextAfter",
    "The number next to `x1` in the direction of `x2`.",
    signature="x1: T, x2: T -> output: T",
    attrs={"T": Type("double float", "float")},
    effect=PURE,
    shape=inference.elementwise,
    kernel=lambda ctx, inputs, attrs: ctx.xp.nextafter(*inputs),
    gradient=_with(lambda x, y, grad: (grad, mul(grad, 0.0))),
)


# ------------------------------------------------------------------------------------------------------------- public
@public("add", "math.add")
def add_function(x: Any, y: Any, name: str | None = None) -> Any:
    """`x + y`, element by element; strings are joined.

    Example:
        >>> import anabranch as tf
        >>> tf.add(tf.constant([1.0, 2.0]), 1).op.type
        'Add'
    """
    known = {getattr(item, "dtype", None) for item in (x, y)}
    unsigned = not known.isdisjoint((dtypes.uint16, dtypes.uint32, dtypes.uint64))  # which the older op does not take
    return build("AddV2" if unsigned else "Add", x, y, name=name or "Add")


add_function.__name__ = add_function.__qualname__ = "add"


for _type, _names in {
    "Mul": "multiply math.multiply mul",
    "Sub": "subtract math.subtract sub",
    "TruncateDiv": "truncatediv",
    "FloorMod": "floormod math.floormod mod math.mod",
    "TruncateMod": "truncatemod",
    "MulNoNan": "math.multiply_no_nan",
    "Xdivy": "math.xdivy",
    "Xlogy": "math.xlogy",
    "Xlog1py": "math.xlog1py",
    "Maximum": "maximum math.maximum",
    "Minimum": "minimum math.minimum",
    "SquaredDifference": "squared_difference math.squared_difference",
    "Atan2": "atan2 math.atan2",
    "NextAfter": "math.nextafter",
    "RealDiv": "realdiv",
    "Pow": "pow math.pow",
}.items():
    public_op(_type, *_names.split())
