"""Sources and pass-throughs: constants, placeholders, identities, the arguments of nested bodies."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import inference, opdef
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, List, NotDifferentiable, Op, Role, Shape, TensorAttr, Type
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import require_graph
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes, shapes


class Const(Op):
    """A constant tensor, given by the attribute ``value``."""

    signature = "-> output: dtype"
    attrs = {"value": TensorAttr(), "dtype": Type()}
    effect = PURE
    role = Role.CONSTANT
    gradient = NotDifferentiable("a constant has no inputs")

    def shape(c):
        return c.attrs["value"].shape

    def value(c):
        return c.attrs["value"]

    def kernel(ctx, inputs, attrs):
        return attrs["value"]


def _declared_shape(c):
    return c.attrs["shape"]


def _not_fed(ctx, inputs, attrs):
    shape = attrs["shape"]
    shape_text = f" and shape {shapes.show(shape)}" if shape is not None and None not in shape else ""
    raise errors.InvalidArgumentError(
        None,
        ctx.op,
        (
            f"You must feed a value for placeholder tensor '{ctx.op.name}' with dtype "
            f"{attrs['dtype'].name}{shape_text}\n"
            + errors.message(
                f"no value for placeholder {ctx.op.name!r}",
                f"a {attrs['dtype'].name} value{shape_text}",
                f"session.run(..., feed_dict={{{ctx.op.name!r} + ':0': value}})",
            )
        ),
    )


class Placeholder(Op):
    """A value that must be fed at each step."""

    signature = "-> output: dtype"
    attrs = {"dtype": Type(), "shape": Shape(None)}
    effect = opdef.Effect("feed")
    role = Role.PLACEHOLDER
    gradient = NotDifferentiable("a placeholder has no inputs")

    shape = _declared_shape
    host_kernel = _not_fed


class PlaceholderV2(Op):
    """A value that must be fed at each step, of a shape that is always written: Placeholder in GraphDefs 18 to 22."""

    signature = "-> output: dtype"
    attrs = {"dtype": Type(), "shape": Shape()}
    effect = opdef.Effect("feed")
    role = Role.PLACEHOLDER
    gradient = NotDifferentiable("a placeholder has no inputs")
    shape = _declared_shape
    host_kernel = _not_fed


class PlaceholderWithDefault(Op):
    """A value that may be fed; ``input`` otherwise."""

    signature = "input: dtype -> output: dtype"
    attrs = {"dtype": Type(), "shape": Shape()}
    effect = PURE
    passes = "input"
    role = Role.PLACEHOLDER

    def shape(c):
        shapes.merge(c.shapes[0], c.attrs["shape"])
        return c.attrs["shape"]

    def value(c):
        return None  # a feed may replace it

    def kernel(ctx, inputs, attrs):
        return inputs[0]

    def gradient(op, grad):
        return [grad]


def _pass_value(c):
    return c.partial(0)


class Identity(Op):
    """The input, unchanged."""

    signature = "input: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    gradient = opdef.pass_gradient
    passes = "input"
    value = _pass_value

    def shape(c):
        handle = c.handle(0)
        if handle is not None:
            c.set_handle(0, *handle)
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        return inputs[0]


class IdentityN(Op):
    """The inputs, unchanged, as one op."""

    signature = "input: [T] -> output: [T]"
    attrs = {"T": List("type", minimum=1)}
    effect = PURE
    gradient = opdef.pass_gradient
    passes = "input"

    def shape(c):
        return list(c.shapes)

    def kernel(ctx, inputs, attrs):
        return tuple(inputs)


class Snapshot(Op):
    """A copy of the input."""

    signature = "input: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    role = Role.COPY
    gradient = opdef.pass_gradient
    passes = "input"
    value = _pass_value
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        return inputs[0]


class StopGradient(Op):
    """The input; no gradient flows back through it."""

    signature = "input: T -> output: T"
    attrs = {"T": Type()}
    effect = PURE
    passes = "input"
    value = _pass_value
    shape = inference.unchanged
    gradient = NotDifferentiable("stop_gradient is there to stop it")

    def kernel(ctx, inputs, attrs):
        return inputs[0]


class PreventGradient(Op):
    """The input; asking for a gradient through it is an error with ``message``."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(), "message": opdef.String("")}
    effect = PURE
    passes = "input"
    value = _pass_value
    shape = inference.unchanged

    def kernel(ctx, inputs, attrs):
        return inputs[0]

    def gradient(op, grad):
        raise LookupError(f"Gradient explicitly disabled. Reason: {op.get_attr('message').decode('utf-8', 'replace')}")


class NoOp(Op):
    """Nothing; a place to hang control edges on."""

    signature = "->"
    effect = PURE
    role = Role.ORDERING
    shape = inference.no_outputs
    gradient = NotDifferentiable("it has no outputs")

    def kernel(ctx, inputs, attrs):
        return ()


class _Arg(Op):
    """An argument of a nested body."""

    signature = "-> output: T"
    attrs = {"T": Type(), "index": opdef.Int(minimum=0)}
    effect = opdef.Effect("feed")
    role = Role.ARGUMENT
    gradient = NotDifferentiable("its value comes from outside the body")
    shape = inference.unknown

    def host_kernel(ctx, inputs, attrs):
        raise errors.InvalidArgumentError(
            None,
            ctx.op,
            errors.message(
                f"{ctx.op.name!r}, an argument of a function, outside any",
                "an _Arg in a function",
                "tf.placeholder(dtype)",
            ),
        )


# ------------------------------------------------------------------------------------------------------------ public
@public("constant")
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False) -> Any:
    """A constant tensor.

    Args:
        value: number, array or nested list; shape ``shape``, or fewer elements than ``shape`` holds (the last one is
            repeated).
        dtype: element type; inferred from ``value`` if None.
        shape: shape of the result; that of ``value`` if None.
        name: name of the op.
        verify_shape: refuse a value whose own shape is not ``shape``.

    Raises:
        TypeError: ``value`` does not fit ``dtype``. ValueError: it does not fit ``shape``.

    Example:
        >>> import anabranch as tf
        >>> tf.constant([1, 2, 3]).dtype
        tf.int32
    """
    if (
        isinstance(value, Tensor)
        and value.has_value
        and dtype is not None
        and value.dtype.base != dtypes.as_dtype(dtype)
    ):
        wanted = dtypes.as_dtype(dtype).name
        raise TypeError(
            f"Expected tensor with type tf.{wanted} not tf.{value.dtype.base.name}\n"
            + errors.message(f"a tensor of dtype {value.dtype.base.name}", wanted, f"tf.cast(x, tf.{wanted})")
        )
    return convert.constant(value, dtype, shape, name, verify_shape)


@public("placeholder")
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """A tensor whose value is fed at each step; ``shape`` may be partly known.

    Example:
        >>> import anabranch as tf
        >>> tf.placeholder(tf.float32, [None, 784]).shape.as_list()
        [None, 784]
    """
    usual = "tf.placeholder() is not compatible with eager execution."
    require_graph(usual, "tf.placeholder", "a function of the tensor: def f(x)")
    return build("Placeholder", dtype=dtypes.as_dtype(dtype).base, shape=shape, name=name)


@public("placeholder_with_default")
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """A tensor that may be fed, and is ``input`` otherwise; ``shape`` is what a feed may have."""
    return build("PlaceholderWithDefault", input, shape=shape, name=name)


@public("identity")
def identity(input: Any, name: str | None = None) -> Any:
    """A tensor with the value and shape of ``input``; under control dependencies, a read at that point."""
    return build("Identity", input, name=name)


@public("identity_n")
def identity_n(input: Any, name: str | None = None) -> Any:
    """A list of tensors with the values of ``input``, all available at once."""
    return build("IdentityN", list(input), name=name)


@public("stop_gradient")
def stop_gradient(input: Any, name: str | None = None) -> Any:
    """``input`` as a constant to differentiation."""
    return build("StopGradient", input, name=name)


@public("no_op")
def no_op(name: str | None = None) -> Any:
    """An operation that does nothing."""
    return build("NoOp", name=name)


public("convert_to_tensor")(convert.convert_to_tensor)
public("register_tensor_conversion_function")(convert.register_tensor_conversion_function)
