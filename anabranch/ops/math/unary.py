"""Element-wise functions of one operand, from ``Abs`` to ``Atanh``.

Narrow floats are computed in float32 and rounded once. Gradients conjugate as TensorFlow's do: for a holomorphic ``f``
the gradient is ``grad * conj(f'(x))``; some have an op of their own
(:mod:`anabranch.ops.math.unary_gradients`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference, opdef
from anabranch.core.contract.api import public, publish_as
from anabranch.core.contract.opdef import PURE, NotDifferentiable, Op, Type, define
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import shapes
from anabranch.ops.math import xla_trigonometry
from anabranch.ops.shared import open_forms, unchecked
from anabranch.ops.shared.broadcast_gradients import add, conj, div, mul, neg, reciprocal, square, sub, zeros_like
from anabranch.ops.shared.numerics import COMPLEX, FLOATS, make_complex, widened

_FLOATS_COMPLEX = f"{FLOATS} {COMPLEX}"
_SIGNED = f"{FLOATS} int8 int16 int32 int64"
_SIGNED_COMPLEX = f"{_SIGNED} {COMPLEX}"


def _kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        return function(ctx, inputs[0])

    return kernel


def _unary(type_name: str, doc: str, types: str, function: Callable[..., Any], gradient: Any, **fields: Any) -> None:
    define(
        type_name,
        doc,
        signature="x: T -> y: T",
        attrs={"T": Type(types)},
        effect=PURE,
        shape=inference.unchanged,
        kernel=_kernel(function),
        gradient=gradient,
        **fields,
    )


def _numpy(name: str) -> Callable[..., Any]:
    """The function of that name in the array namespace, on narrow floats in float32."""

    def function(ctx: Any, x: Any) -> Any:
        return getattr(ctx.xp, name)(x)

    return widened(function)


def _trigonometric(name: str, fast: Callable[..., Any]) -> Callable[..., Any]:
    """Like :func:`_numpy`, by a polynomial where XLA has only a scalar function."""

    def function(ctx: Any, x: Any) -> Any:
        return fast(ctx, x) if xla_trigonometry.applies(ctx, x) else getattr(ctx.xp, name)(x)

    return widened(function)


def _plain(name: str) -> Callable[..., Any]:
    """Like :func:`_numpy`, for functions that are exact in every dtype."""

    def function(ctx: Any, x: Any) -> Any:
        return getattr(ctx.xp, name)(x)

    return function


# ------------------------------------------------------------------------------------------------------------ kernels
def _sign(ctx, x):
    if x.dtype.kind in "iu":
        return ctx.xp.sign(x)
    if x.dtype.kind != "c":  # 0 for NaN, as TensorFlow compares with 0
        sign = ctx.xp.sign(x)
        if ctx.lax is None and (not x.size or np.min(sign) == np.min(sign)):
            return sign
        return ctx.xp.where(x == x, sign, x.dtype.type(0))
    size = ctx.xp.abs(x)
    zero = size == 0
    return ctx.xp.where(zero, ctx.xp.zeros_like(x), x / ctx.xp.where(zero, ctx.xp.ones_like(size), size))


@widened
def _sigmoid(ctx, x):
    if ctx.lax is not None and x.dtype.kind != "c":
        return ctx.lax.logistic(x)
    return 1 / (1 + ctx.xp.exp(-x))


@widened
def _rsqrt(ctx, x):
    if ctx.lax is None or x.dtype.kind == "c":
        return 1 / ctx.xp.sqrt(x)
    if ctx.platform != "cpu":
        return ctx.lax.rsqrt(x)
    inverse = 1 / x  # XLA's own takes six times as long here, as does 1 / sqrt(x), which it makes of it
    root = ctx.xp.sqrt(inverse)
    return ctx.xp.where(x == 0, inverse, ctx.xp.where(x < 0, x.dtype.type(np.nan), root))


@widened
def _inverse(ctx, x):
    return 1 / x


def _reciprocal(ctx, x):
    if x.dtype.kind != "i":
        return _inverse(ctx, x)
    ctx.check((x != 0).all(), errors.InvalidArgumentError, "Integer division by zero")
    return ctx.xp.where(ctx.xp.abs(x) == 1, x, ctx.xp.zeros_like(x))


def _round(ctx, x):
    if x.dtype.kind == "i":
        return x
    if x.dtype.kind == "c":
        return make_complex(ctx, ctx.xp.rint(x.real), ctx.xp.rint(x.imag))
    return ctx.xp.rint(x)


# ---------------------------------------------------------------------------------------------------------- gradients
def _abs_gradient(op, grad):
    return mul(grad, build("Sign", op.inputs[0]))


def _sign_gradient(op, grad):
    x = op.inputs[0]
    if not x.dtype.is_complex:
        return zeros_like(x)
    y = op.outputs[0]
    size = build("Complex", build("ComplexAbs", x, Tout=x.dtype.real_dtype), 0.0, Tout=x.dtype.base)
    return build("DivNoNan", mul(0.5, sub(grad, mul(square(y), conj(grad)))), size)


def _scaled_by(derivative: Callable[[Any], Any]) -> Callable[..., Any]:
    """Gradient rule ``grad * derivative(conj(x))``."""

    def gradient(op: Any, grad: Any) -> Any:
        return mul(grad, derivative(conj(op.inputs[0])))

    return gradient


def _scaled_by_output(derivative: Callable[[Any], Any]) -> Callable[..., Any]:
    """Gradient rule ``grad * derivative(conj(y))``."""

    def gradient(op: Any, grad: Any) -> Any:
        return mul(grad, derivative(conj(op.outputs[0])))

    return gradient


def _by_op(type_name: str, conjugate: bool = False) -> Callable[..., Any]:
    """Gradient rule that is an op of its own on the output and the gradient."""

    def gradient(op: Any, grad: Any) -> Any:
        y = op.outputs[0]
        return build(type_name, conj(y) if conjugate else y, grad)

    return gradient


def _asin_slope(x):
    return reciprocal(build("Sqrt", sub(1.0, square(x))))


def _no_gradient(op, grad):
    return [None]


def _call(type_name: str) -> Callable[[Any], Any]:
    return lambda x: build(type_name, x)


def _tan_slope(x):
    return square(reciprocal(build("Cos", x)))


_unary(
    "Abs", "`|x|`, element by element.", _SIGNED, _plain("abs"), _abs_gradient, straight=unchecked.floats(np.absolute)
)
_unary(
    "Neg",
    "`-x`, element by element.",
    _SIGNED_COMPLEX,
    lambda ctx, x: -x,
    lambda op, grad: neg(grad),
    any_size=open_forms.ufunc(np.negative),
    straight=unchecked.floats(np.negative),
)
_unary(
    "Sign",
    "-1, 0 or 1 as `x` is negative, zero or positive, 0 for nan; `x / |x|` for complex numbers.",
    _SIGNED_COMPLEX,
    _sign,
    _sign_gradient,
)
_unary(
    "Exp",
    "`e ** x`, element by element.",
    _FLOATS_COMPLEX,
    _numpy("exp"),
    _scaled_by_output(lambda y: y),
    straight=unchecked.floats(np.exp),
    any_size=open_forms.floats(np.exp),
)
_unary(
    "Expm1",
    "`e ** x - 1`, exact near 0.",
    _FLOATS_COMPLEX,
    _numpy("expm1"),
    _scaled_by(_call("Exp")),
    any_size=open_forms.floats(np.expm1),
)
_unary(
    "Log",
    "Natural logarithm.",
    _FLOATS_COMPLEX,
    _numpy("log"),
    _scaled_by(reciprocal),
    any_size=open_forms.floats(np.log),
    straight=unchecked.floats(np.log),
)
_unary(
    "Log1p",
    "`log(1 + x)`, exact near 0.",
    _FLOATS_COMPLEX,
    _numpy("log1p"),
    _scaled_by(lambda x: reciprocal(add(1.0, x))),
    any_size=open_forms.floats(np.log1p),
    straight=unchecked.floats(np.log1p),
)
_unary(
    "Sqrt",
    "Square root; nan for negative numbers.",
    _FLOATS_COMPLEX,
    _numpy("sqrt"),
    _by_op("SqrtGrad"),
    any_size=open_forms.floats(np.sqrt),
    straight=unchecked.floats(np.sqrt),
)
_unary(
    "Rsqrt",
    "`1 / sqrt(x)`.",
    _FLOATS_COMPLEX,
    _rsqrt,
    _by_op("RsqrtGrad"),
    any_size=open_forms.reciprocal_root,
)
_unary(
    "Square",
    "`x * x`, element by element.",
    f"{_SIGNED} uint8 uint16 uint32 uint64 {COMPLEX}",
    lambda ctx, x: x * x,
    lambda op, grad: mul(grad, mul(conj(op.inputs[0]), 2.0 if not op.inputs[0].dtype.is_integer else 2)),
    straight=unchecked.square,
    any_size=open_forms.square,
)
_unary(
    "Reciprocal",
    "`1 / x`, element by element.",
    _SIGNED_COMPLEX,
    _reciprocal,
    _by_op("ReciprocalGrad"),
    any_size=open_forms.reciprocal,
)
_unary("Inv", "`1 / x`: the old name of Reciprocal.", _SIGNED_COMPLEX, _reciprocal, _by_op("ReciprocalGrad"))
_unary(
    "Sin", "Sine of radians.", _FLOATS_COMPLEX, _trigonometric("sin", xla_trigonometry.sin), _scaled_by(_call("Cos"))
)
_unary(
    "Cos",
    "Cosine of radians.",
    _FLOATS_COMPLEX,
    _trigonometric("cos", xla_trigonometry.cos),
    _scaled_by(lambda x: neg(build("Sin", x))),
)
_unary(
    "Tan", "Tangent of radians.", _FLOATS_COMPLEX, _trigonometric("tan", xla_trigonometry.tan), _scaled_by(_tan_slope)
)
_unary(
    "Asin",
    "Inverse of the sine, in radians.",
    _FLOATS_COMPLEX,
    _trigonometric("arcsin", xla_trigonometry.asin),
    _scaled_by(_asin_slope),
)
_unary(
    "Acos",
    "Inverse of the cosine, in radians.",
    _FLOATS_COMPLEX,
    _trigonometric("arccos", xla_trigonometry.acos),
    _scaled_by(lambda x: neg(_asin_slope(x))),
)
_unary(
    "Atan",
    "Inverse of the tangent, in radians.",
    _FLOATS_COMPLEX,
    _trigonometric("arctan", xla_trigonometry.atan),
    _scaled_by(lambda x: reciprocal(add(1.0, square(x)))),
)
_unary("Sinh", "Hyperbolic sine.", _FLOATS_COMPLEX, _numpy("sinh"), _scaled_by(_call("Cosh")))
_unary("Cosh", "Hyperbolic cosine.", _FLOATS_COMPLEX, _numpy("cosh"), _scaled_by(_call("Sinh")))
_unary(
    "Tanh",
    "Hyperbolic tangent.",
    _FLOATS_COMPLEX,
    _numpy("tanh"),
    _by_op("TanhGrad", conjugate=True),
    straight=unchecked.tanh,
    any_size=open_forms.floats(np.tanh),
)
_unary(
    "Asinh",
    "Inverse of the hyperbolic sine.",
    _FLOATS_COMPLEX,
    _numpy("arcsinh"),
    lambda op, grad: div(grad, build("Cosh", conj(op.outputs[0]))),
)
_unary(
    "Acosh",
    "Inverse of the hyperbolic cosine; nan below 1.",
    _FLOATS_COMPLEX,
    _numpy("arccosh"),
    lambda op, grad: div(grad, build("Sinh", conj(op.outputs[0]))),
)
_unary(
    "Atanh",
    "Inverse of the hyperbolic tangent; nan outside [-1, 1].",
    _FLOATS_COMPLEX,
    _numpy("arctanh"),
    _scaled_by(lambda x: reciprocal(sub(1.0, square(x)))),
)
_unary(
    "Sigmoid",
    "`1 / (1 + exp(-x))`.",
    _FLOATS_COMPLEX,
    _sigmoid,
    _by_op("SigmoidGrad", conjugate=True),
    straight=unchecked.sigmoid,
    any_size=open_forms.sigmoid,
)
_unary("Floor", "Greatest integer that is not greater.", FLOATS, _plain("floor"), _no_gradient)
_unary("Ceil", "Smallest integer that is not smaller.", FLOATS, _plain("ceil"), _no_gradient)
_unary(
    "Round",
    "Nearest integer, halves to the even one; integers as they are; complex numbers part by part.",
    _SIGNED_COMPLEX,
    _round,
    _no_gradient,
)
_unary("Rint", "Nearest integer, halves to the even one.", FLOATS, _plain("rint"), _no_gradient)


# ------------------------------------------------------------------------------------------------------------- filled
def _filled(fill: Any) -> dict[str, Any]:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        (x,) = inputs
        if hasattr(x, "zeros"):  # a list or an optional, which knows its own
            return x.zeros()
        if ctx.host:
            if attrs["T"].np is None:
                ctx.check(False, errors.UnimplementedError, "{0} of " + attrs["T"].name, "zeros")
            return np.full(np.shape(x), b"" if attrs["T"].name == "string" else fill, attrs["T"].np)
        return ctx.xp.full(x.shape, fill, attrs["T"].np)

    def value(c: Any) -> Any:
        size = shapes.num_elements(c.shapes[0])
        dtype = c.attrs["T"]
        if size is None or size > inference.MAX_FOLDED_SIZE or dtype.host_only:
            return None
        return np.full(c.shapes[0], fill, dtype.np)

    def shape(c: Any) -> Any:
        handle = c.handle(0) if c.attrs["T"].name == "variant" else None
        if handle is not None:  # zeros like a list are a list
            c.set_handle(0, *handle)
        return c.shapes[0]

    return {"kernel": kernel, "value": value, "shape_only": True, "elementwise": True, "shape": shape, "effect": PURE}


define(
    "OnesLike",
    "Ones of the shape and dtype of `x`.",
    signature="x: T -> y: T",
    gradient=NotDifferentiable("it depends on the shape alone"),
    attrs={"T": Type(f"{FLOATS} int8 uint8 int16 uint16 int32 uint32 int64 uint64 {COMPLEX} bool")},
    any_size=open_forms.ones_like,
    **_filled(1),
)
define(
    "ZerosLike",
    "Zeros (False, empty strings) of the shape and dtype of `x`.",
    signature="x: T -> y: T",
    gradient=NotDifferentiable("it depends on the shape alone"),
    attrs={"T": Type()},
    any_size=open_forms.zeros_like,
    **_filled(0),
)


# --------------------------------------------------------------------------------------------------------- predicates
def _predicate(type_name: str, doc: str, name: str) -> None:
    define(
        type_name,
        doc,
        signature="x: T -> y: bool",
        attrs={"T": Type(FLOATS)},
        effect=PURE,
        shape=inference.unchanged,
        kernel=_kernel(_plain(name)),
        gradient=NotDifferentiable("its output is a bool"),
    )


_predicate("IsNan", "Whether each element is nan.", "isnan")
_predicate("IsInf", "Whether each element is infinite.", "isinf")
_predicate("IsFinite", "Whether each element is neither infinite nor nan.", "isfinite")


class LogicalNot(Op):
    """`not x`, element by element."""

    signature = "x: bool -> y: bool"
    effect = PURE
    straight = unchecked.logical_not
    any_size = open_forms.ufunc(np.logical_not)
    shape = inference.unchanged
    gradient = NotDifferentiable("it is a function of bools")

    def kernel(ctx, inputs, attrs):
        return ctx.xp.logical_not(inputs[0])


# ------------------------------------------------------------------------------------------------------------- public
def is_sparse_tensor(x: Any) -> bool:
    """Whether ``x`` is a SparseTensor: element-wise functions that keep zero act on its values."""
    return not isinstance(x, IndexedSlices) and all(hasattr(x, part) for part in ("indices", "values", "dense_shape"))


def with_values(x: Any, values: Any) -> Any:
    """A SparseTensor or IndexedSlices like ``x`` with other values."""
    return type(x)(indices=x.indices, values=values, dense_shape=x.dense_shape)


def unary_function(type_name: str, *names: str, doc: str | None = None) -> Callable[..., Any]:
    """Make and publish ``f(x, name=None)`` of a one-operand op; the first name is its own."""
    own = names[0].rsplit(".", 1)[-1]

    def function(x: Any, name: str | None = None) -> Any:
        if is_sparse_tensor(x):
            return with_values(x, build(type_name, x.values, name=name))
        return build(type_name, x, name=name)

    function.__name__ = function.__qualname__ = own
    function.__doc__ = doc or opdef.lookup(type_name).doc
    function.__module__ = "anabranch"
    for name in names:
        publish_as(name, function)
    return function


_PUBLIC = {
    "Neg": "negative neg", "Sign": "sign", "Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1p": "log1p",
    "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Square": "square", "Reciprocal": "reciprocal inv", "Sin": "sin", "Cos": "cos",
    "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh",
    "Acosh": "acosh", "Atanh": "atanh", "Floor": "floor", "Ceil": "ceil", "Rint": "rint", "LogicalNot": "logical_not",
}  # fmt: skip
for _type, _names in _PUBLIC.items():
    _first, *_old = _names.split()
    unary_function(_type, _first, f"math.{_first}", *_old)
for _type, _name in {"IsNan": "is_nan", "IsInf": "is_inf", "IsFinite": "is_finite"}.items():
    unary_function(_type, _name, f"math.{_name}", f"debugging.{_name}")
unary_function("Sigmoid", "sigmoid", "math.sigmoid", "nn.sigmoid")
unary_function("Tanh", "tanh", "math.tanh", "nn.tanh")


@public("abs", "math.abs", "complex_abs")
def absolute(x: Any, name: str | None = None) -> Any:
    """`|x|`, element by element; of a complex tensor, a real one of half its width.

    Example:
        >>> import anabranch as tf
        >>> tf.abs(tf.constant([3 + 4j])).dtype
        tf.float64
    """
    if is_sparse_tensor(x):
        return with_values(x, absolute(x.values, name))
    with name_scope(name, "Abs", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return build("ComplexAbs", x, Tout=x.dtype.real_dtype, name=scope)
        return build("Abs", x, name=scope)


absolute.__name__ = absolute.__qualname__ = "abs"


@public("round", "math.round")
def round_half_to_even(x: Any, name: str | None = None) -> Any:
    """The nearest integer, halves to the even one; an integer tensor is returned as it is."""
    x = convert.convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else build("Round", x, name=name)


round_half_to_even.__name__ = round_half_to_even.__qualname__ = "round"
