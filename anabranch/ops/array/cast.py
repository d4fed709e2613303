"""Conversion between element types, real and complex, and tensors filled by the example of another.

What C leaves open is fixed here, as x86 has it, and computed the same way in both tiers. A float that does not fit an
int32 or int64 (or is nan) becomes the smallest one; narrower integers take the low bits of the int32, uint32 those of
the int64; uint64 wraps down to -2**63 and is 2**63 for everything else. Integers wrap. A bool is whether the value is
not 0; of a complex number the real part is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, Role, Type, define
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import counted_as
from anabranch.core.values import dtypes, shapes
from anabranch.ops.math.binary import check_broadcast
from anabranch.ops.math.unary import is_sparse_tensor, with_values
from anabranch.ops.shared import open_forms, size_forms
from anabranch.ops.shared.broadcast_gradients import conj, mul, neg, reciprocal, reduce_broadcast
from anabranch.ops.shared.numerics import COMPLEX, is_floating, make_complex

_DIFFERENTIABLE = frozenset(
    (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.complex64, dtypes.complex128)
)
# Bits of the source's significand that a truncating cast drops: (wide, narrow) by NumPy name.
_DROPPED = {
    ("float64", "float32"): 29,
    ("float64", "bfloat16"): 45,
    ("float64", "float16"): 42,
    ("float32", "bfloat16"): 16,
    ("float32", "float16"): 13,
}


def float_to_integer(xp: Any, x: Any, target: np.dtype) -> Any:
    """The conversion that the module's docstring describes; ``x`` is a real floating array."""
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float32)
    kind = x.dtype.type
    if target == np.uint64:
        half = kind(2.0**63)
        wraps = (x > -half) & (x < half)
        low = xp.where(wraps, x, kind(0)).astype(np.int64).astype(np.uint64)
        high = (x >= half) & (x < kind(2.0**64))
        above = xp.where(high, x - half, kind(0)).astype(np.int64).astype(np.uint64) + np.uint64(2**63)
        return xp.where(wraps, low, above)
    wide = np.dtype(np.int64 if target in (np.int64, np.uint32) else np.int32)
    limit = kind(2.0 ** (8 * wide.itemsize - 1))
    if xp is np and x.size and -limit < np.minimum.reduce(x, None) and np.maximum.reduce(x, None) < limit:
        return np.asarray(x).astype(wide).astype(target, copy=False)  # the usual case; no comparison holds for NaN
    fits = (x > -limit) & (x < limit) if wide == np.int64 or kind is np.float32 else (x > -limit - 1) & (x < limit)
    return xp.where(fits, x, -limit).astype(wide).astype(target)


def _truncated(x: Any, target: np.dtype) -> Any:
    """``x`` without the low bits of its significand that ``target`` has no room for."""
    if x.dtype.kind == "c":
        return x
    dropped = _DROPPED.get((x.dtype.name, target.name))
    if dropped is None:
        return x
    bits = np.dtype(f"u{x.dtype.itemsize}").type
    mask = bits(2 ** (8 * x.dtype.itemsize) - 2**dropped)
    return (x.view(bits) & mask).view(x.dtype)


def converted(ctx: Any, x: Any, target: np.dtype, truncate: bool = False) -> Any:
    """``x`` in another numeric type; see the module's docstring."""
    if ctx.lax is None:
        x = np.asarray(x)
    source = x.dtype
    if source == target:
        return x
    if source.kind == "c" and target.kind != "c":
        x = x.real
        source = x.dtype
    if target == np.bool_:
        return x != 0
    if is_floating(source) and target.kind in "iu":
        return float_to_integer(ctx.xp, x, target)
    if truncate:
        nans = ctx.xp.isnan(x)
        return ctx.xp.where(nans, x, _truncated(x, target)).astype(target)
    if target.kind == "c" and source.kind != "c":
        x = x.astype(np.float32 if target == np.complex64 else np.float64)
    return x.astype(target)


def _any_size(operands: Any, attrs: Any) -> Any:
    """The form for any sizes: also from floats to integers."""
    (x,), dtype = operands, attrs["DstT"].np
    if x.dtype in (np.float32, np.float64) and dtype in (np.int32, np.int64, np.uint8) and not attrs["Truncate"]:
        return lambda x: float_to_integer(np, x, dtype)
    return open_forms.cast(operands, attrs)


class Cast(Op):
    """`x` in the type `DstT`; floats are rounded, or cut if `Truncate`."""

    signature = "x: SrcT -> y: DstT"
    attrs = {"SrcT": Type(), "DstT": Type(), "Truncate": Bool(False)}
    effect = PURE
    any_size = _any_size
    of_sizes = size_forms.same
    role = Role.CAST
    shape = inference.unchanged

    def value(c):
        known = c.partial(0)
        integers = (dtypes.int32, dtypes.int64)
        if isinstance(known, tuple) and c.dtype(0) in integers and c.attrs["DstT"] in integers:
            return known
        return None

    def kernel(ctx, inputs, attrs):
        source, target = attrs["SrcT"], attrs["DstT"]
        if source is target:
            return inputs[0]
        if source.host_only or target.host_only:
            instead = "tf.as_string" if target is dtypes.string else "tf.string_to_number or tf.decode_raw"
            text = f"Cast {dtypes.proto_name(source)} to {dtypes.proto_name(target)} is not supported; use {instead}"
            ctx.check(False, errors.UnimplementedError, text)
        return converted(ctx, inputs[0], target.np, attrs["Truncate"])

    def gradient(op, grad):
        source = op.inputs[0].dtype.base
        if source not in _DIFFERENTIABLE or grad.dtype.base not in _DIFFERENTIABLE:
            return [None]
        return [cast(grad, source)]


class Bitcast(Op):
    """The bits of `input` read as `type`: a wider type takes the last dimension, a narrower one adds it."""

    signature = "input: T -> output: type"
    attrs = {
        "T": Type(
            f"bfloat16 half float double int64 int32 uint8 uint16 uint32 uint64 int8 int16 {COMPLEX} "
            "qint8 quint8 qint16 quint16 qint32"
        ),
        "type": Type(
            f"bfloat16 half float double int64 int32 uint8 uint16 uint32 uint64 int8 int16 {COMPLEX} "
            "qint8 quint8 qint16 quint16 qint32"
        ),
    }
    effect = PURE
    gradient = NotDifferentiable("it reads the bits of a number as another type")

    def shape(c):
        shape = c.shapes[0]
        source, target = c.attrs["T"].size, c.attrs["type"].size
        if shape is None or source == target:
            return shape
        if source > target:
            return (*shape, source // target)
        ratio = target // source
        if not shape or shape[-1] not in (None, ratio):
            raise ValueError(
                f"Cannot bitcast due to shape. {shape[-1] if shape else 0} does not match {ratio}\n"
                + errors.message(
                    f"a bitcast of {c.attrs['T'].name} with shape {shapes.show(shape)} to {c.attrs['type'].name}",
                    f"a last dimension of {ratio}, which together make one element",
                    f"tf.reshape(x, [-1, {ratio}])",
                )
            )
        return shape[:-1]

    def host_kernel(ctx, inputs, attrs):
        x = np.ascontiguousarray(inputs[0]).reshape(np.shape(inputs[0]))
        source, target = attrs["T"].np, attrs["type"].np
        if source.itemsize == target.itemsize:
            return x.view(target)
        if source.itemsize > target.itemsize:
            return x[..., None].view(target)
        ratio = target.itemsize // source.itemsize
        ok = x.ndim > 0 and x.shape[-1] == ratio
        given, wanted = (dtypes.proto_name(one) for one in (attrs["T"], attrs["type"]))
        text = f"Cannot bitcast from {given} to {wanted}: shape {shapes.show(x.shape)}"
        text += f", whose last dimension must be {ratio}"
        ctx.check(ok, errors.InvalidArgumentError, text)
        return x.view(target)[..., 0]

    @uses_lax
    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        source, target = x.dtype, attrs["type"].np
        if source == target:
            return x
        if source.kind != "c" and target.kind != "c":
            return ctx.lax.bitcast_convert_type(x, target)
        # XLA reads no complex number as another type: go through bytes.
        if source.kind == "c":
            x = ctx.xp.stack([x.real, x.imag], axis=-1)
        octets = ctx.lax.bitcast_convert_type(x, np.uint8)
        shape = inputs[0].shape
        if source.itemsize < target.itemsize:
            shape = shape[:-1]
        elif source.itemsize > target.itemsize:
            shape = (*shape, source.itemsize // target.itemsize)
        if target.kind == "c":
            part = np.dtype(f"f{target.itemsize // 2}")
            pairs = ctx.lax.bitcast_convert_type(octets.reshape((*shape, 2, part.itemsize)), part)
            return ctx.lax.complex(pairs[..., 0], pairs[..., 1])
        own = () if target.itemsize == 1 else (target.itemsize,)
        return ctx.lax.bitcast_convert_type(octets.reshape(shape + own), target)


# ------------------------------------------------------------------------------------------------------------ complex
def _complex_gradient(op, grad):
    real, imag = op.inputs
    dtype = real.dtype.base
    return reduce_broadcast(real, imag, build("Real", grad, Tout=dtype), build("Imag", grad, Tout=dtype))


class Complex(Op):
    """`real + i imag`."""

    signature = "real: T, imag: T -> out: Tout"
    attrs = {"T": Type("float double", "float"), "Tout": Type(COMPLEX, "complex64")}
    effect = PURE
    shape = inference.elementwise
    gradient = _complex_gradient

    def kernel(ctx, inputs, attrs):
        check_broadcast(ctx, *inputs)
        return make_complex(ctx, *inputs).astype(attrs["Tout"].np)


def _complex_part(type_name: str, doc: str, function: Any, gradient: Any) -> None:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        return function(ctx, inputs[0]).astype(attrs["Tout"].np)

    operand = "x" if type_name == "ComplexAbs" else "input"
    define(
        type_name,
        doc,
        signature=f"{operand}: T -> {'y' if operand == 'x' else 'output'}: Tout",
        attrs={"T": Type(COMPLEX, "complex64"), "Tout": Type("float double", "float")},
        effect=PURE,
        shape=inference.unchanged,
        kernel=kernel,
        gradient=gradient,
    )


def _as_complex(real: Any, like: Any) -> Any:
    return build("Complex", real, build("ZerosLike", real), Tout=like.dtype.base)


def _imag_gradient(op, grad):
    return build("Complex", build("ZerosLike", grad), grad, Tout=op.inputs[0].dtype.base)


def _complex_abs_gradient(op, grad):
    x = op.inputs[0]
    return build("DivNoNan", mul(_as_complex(grad, x), x), _as_complex(op.outputs[0], x))


def _angle_gradient(op, grad):
    x = op.inputs[0]
    parts = build("Imag", x, Tout=grad.dtype.base), build("Real", x, Tout=grad.dtype.base)
    return mul(neg(_as_complex(grad, x)), reciprocal(build("Complex", *parts, Tout=x.dtype.base)))


_complex_part("Real", "The real part.", lambda ctx, x: x.real, lambda op, grad: _as_complex(grad, op.inputs[0]))
_complex_part("Imag", "The imaginary part.", lambda ctx, x: x.imag, _imag_gradient)
_complex_part("ComplexAbs", "`sqrt(real ** 2 + imag ** 2)`.", lambda ctx, x: ctx.xp.abs(x), _complex_abs_gradient)
_complex_part(
    "Angle",
    "The argument of a complex number, in radians from -pi to pi.",
    lambda ctx, x: ctx.xp.arctan2(x.imag, x.real),
    _angle_gradient,
)


class Conj(Op):
    """The complex conjugate."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(f"{COMPLEX} variant", "complex64")}
    effect = PURE
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        if attrs["T"] is dtypes.variant:
            ctx.check(False, errors.UnimplementedError, "Conj of a variant has no kernel")
        return ctx.xp.conj(inputs[0])

    def gradient(op, grad):
        return conj(grad)


# ------------------------------------------------------------------------------------------------------------- public
@public("cast", "dtypes.cast")
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """`x` in the type `dtype`; `x` itself if it has that type, also if it is a variable that has a handle.

    Args:
        x: tensor, variable, SparseTensor or IndexedSlices of numbers or bools.
        dtype: the type wanted.
        name: name of the op.

    Example:
        >>> import anabranch as tf
        >>> tf.cast(tf.constant([1.8, 2.2]), tf.int32).dtype
        tf.int32
    """
    wanted = dtypes.as_dtype(dtype).base
    if isinstance(x, Tensor):
        return x if x.dtype.base is wanted else build("Cast", x, DstT=wanted, name=name)
    if isinstance(x, IndexedSlices) or is_sparse_tensor(x):
        return x if x.dtype.base is wanted else with_values(x, cast(x.values, wanted, name))
    if hasattr(x, "handle") and getattr(x, "dtype", None) is wanted and hasattr(x, "read_value"):
        return x  # it is read when it is used, and what is assigned to it until then counts
    with name_scope(name, "Cast", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        return x if x.dtype.base is wanted else build("Cast", x, DstT=wanted, name=scope)


def _caster(function_name: str, dtype: dtypes.DType) -> None:
    default = "To" + {"bfloat16": "BFloat16", "float32": "Float", "float64": "Double"}.get(
        dtype.name, dtype.name.capitalize()
    )

    def function(x: Any, name: str = default) -> Any:
        return cast(x, dtype, name=name)

    function.__name__ = function.__qualname__ = function_name
    function.__doc__ = f"`x` as {dtype.name}: `tf.cast(x, tf.{dtype.name})`."
    function.__module__ = "anabranch"
    public(function_name)(function)


for _name, _dtype in (
    ("to_float", dtypes.float32),
    ("to_double", dtypes.float64),
    ("to_int32", dtypes.int32),
    ("to_int64", dtypes.int64),
    ("to_bfloat16", dtypes.bfloat16),
    ("to_complex64", dtypes.complex64),
    ("to_complex128", dtypes.complex128),
):
    _caster(_name, _dtype)
public_op("Bitcast", "bitcast", arguments="input type")


def _limit_within(limit: Any, source: dtypes.DType, target: dtypes.DType) -> Any:
    """The value of ``source`` nearest to a limit of ``target`` from inside."""
    kind: Any = source.np
    value = np.array(limit).astype(kind)
    if source.is_floating and target.is_integer and int(value) > target.max:
        value = np.nextafter(value, kind.type(0))
    return value


@public("saturate_cast", "dtypes.saturate_cast")
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """`value` in the type `dtype`, with what lies outside its range moved to the nearer limit.

    Raises:
        TypeError: one of the types is complex, bool or a string, which have no range.
    """
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert.convert_to_tensor(value, name="value")
        source, target = value.dtype.base, dtypes.as_dtype(dtype).base
        if source.min < target.min:
            value = build("Maximum", value, convert.constant(_limit_within(target.min, source, target), name="min"))
        if source.max > target.max:
            value = build("Minimum", value, convert.constant(_limit_within(target.max, source, target), name="max"))
        return cast(value, target, name=scope)


@public("complex", "dtypes.complex")
def complex_function(real: Any, imag: Any, name: str | None = None) -> Any:
    """`real + i imag`: complex64 of float32 tensors, complex128 of float64.

    Raises:
        TypeError: the parts are not both float32 or both float64.
    """
    with name_scope(name, "Complex", [real, imag]) as scope:
        real = convert.convert_to_tensor(real, name="real")
        imag = convert.convert_to_tensor(imag, real.dtype.base if not isinstance(imag, Tensor) else None, name="imag")
        types = (real.dtype.base, imag.dtype.base)
        if types == (dtypes.float64, dtypes.float64):
            target = dtypes.complex128
        elif types == (dtypes.float32, dtypes.float32):
            target = dtypes.complex64
        else:
            raise TypeError(
                f"real and imag have incorrect types: {real.dtype.name} {imag.dtype.name}\n"
                + errors.message(
                    f"parts of {real.dtype.name} and {imag.dtype.name}",
                    "two tensors of float32 or two of float64",
                    "tf.complex(tf.cast(real, tf.float32), tf.cast(imag, tf.float32))",
                )
            )
        return build("Complex", real, imag, Tout=target, name=scope)


complex_function.__name__ = complex_function.__qualname__ = "complex"


@public("real", "math.real")
def real(input: Any, name: str | None = None) -> Any:
    """The real part of a complex tensor; a real one as it is."""
    with name_scope(name, "Real", [input]) as scope:
        input = convert.convert_to_tensor(input, name="input")
        return build("Real", input, Tout=input.dtype.real_dtype, name=scope) if input.dtype.is_complex else input


@public("imag", "math.imag")
def imag(input: Any, name: str | None = None) -> Any:
    """The imaginary part of a complex tensor; zeros for a real one."""
    with name_scope(name, "Imag", [input]) as scope:
        input = convert.convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return build("Imag", input, Tout=input.dtype.real_dtype, name=scope)
        return zeros_like(input, name=scope)


@public("angle", "math.angle")
def angle(input: Any, name: str | None = None) -> Any:
    """The argument of each number, in radians: of real ones 0 or pi."""
    with name_scope(name, "Angle", [input]) as scope:
        input = convert.convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return build("Angle", input, Tout=input.dtype.real_dtype, name=scope)
        return build("Select", build("Less", input, 0), mul(np.pi, ones_like(input)), zeros_like(input), name=scope)


@public("conj", "math.conj")
def conjugate(x: Any, name: str | None = None) -> Any:
    """The complex conjugate; a real tensor as it is.

    Raises:
        TypeError: `x` does not hold numbers.
    """
    if isinstance(x, Tensor) and (x.dtype.is_floating or x.dtype.is_integer):
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        if x.dtype.is_complex or x.dtype.base is dtypes.variant:
            return build("Conj", x, name=scope)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError(
            f"Expected numeric or variant tensor, got dtype {x.dtype!r}\n"
            + errors.message(f"conj of {x.dtype.name}", "a tensor of numbers", "tf.cast(x, tf.complex64)")
        )


conjugate.__name__ = conjugate.__qualname__ = "conj"


# ------------------------------------------------------------------------------------------------------------- filled
_SMALL = 1000
"""Filled tensors of fewer elements become one constant; larger ones a fill, so that graphs stay small."""


def _filled_like(tensor: Any, dtype: Any, name: str | None, optimize: bool, one: bool) -> Any:
    default = "ones_like" if one else "zeros_like"
    with name_scope(name, default, [tensor]) as scope:
        if is_sparse_tensor(tensor):
            tensor = tensor.values
        tensor = convert.convert_to_tensor(tensor, name="tensor")
        # False as a dtype is that of the tensor, as in TensorFlow: programs mean `optimize` or `trainable` by it.
        wanted = tensor.dtype.base if dtype is None or dtype is False else dtypes.as_dtype(dtype).base
        if one and wanted in (dtypes.string, dtypes.variant, dtypes.resource):
            raise TypeError(
                errors.message(
                    f"ones_like of {wanted.name}", "a type of numbers or bool", "tf.fill(tf.shape(x), value)"
                )
            )
        shape = tensor._shape
        size = shapes.num_elements(shape)
        kind: Any = wanted.np
        if optimize and size is not None and not (wanted.host_only and wanted is not dtypes.string):
            if size < _SMALL:
                filler = b"" if wanted is dtypes.string else kind.type(one)
                return convert.constant(np.full(shape, filler, kind), wanted, name=scope)
            dims: Any = np.array(shape, np.int32 if max(shape) < 2**31 else np.int64)
        elif wanted is tensor.dtype.base:
            return build("OnesLike" if one else "ZerosLike", tensor, name=scope)
        else:
            dims = build("Shape", tensor)
        filler = b"" if wanted is dtypes.string else kind.type(one)
        filled = build("Fill", dims, convert.constant(filler, wanted, name="Const"), name=scope)
        filled.set_shape(shapes.TensorShape(shape))
        return filled


@public("zeros_like")
def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Zeros of the shape of `tensor`, and its dtype if none is given; a constant where the shape is known.

    Args:
        tensor: tensor whose shape is taken.
        dtype: dtype of the zeros.
        name: name of the op.
        optimize: make a constant where the static shape is known.
    """
    return _filled_like(tensor, dtype, name, optimize, one=False)


@public("ones_like")
def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Ones of the shape of `tensor`, and its dtype if none is given; a constant where the shape is known."""
    tensor = tensor if is_sparse_tensor(tensor) else convert.convert_to_tensor(tensor, name="tensor")
    with counted_as(3):
        return _filled_like(tensor, dtype, name, optimize, one=True)
