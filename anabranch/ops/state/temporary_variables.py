"""Variables that a program makes and destroys within a step, and the identity of a reference."""

from __future__ import annotations

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, NotDifferentiable, Op, Shape, String, Type, read


class TemporaryVariable(Op):
    """The reference of a variable of ``shape`` for use within a step; it has no value before it is assigned.

    Its memory is kept for the next step, in which it is to be assigned anew before it is read.
    """

    signature = "-> ref: Ref(dtype)"
    attrs = {"shape": Shape(), "dtype": Type(), "var_name": String("")}
    effect = PURE
    makes = "variable"
    gradient = NotDifferentiable("a variable has no inputs")

    def shape(c):
        return c.attrs["shape"]


class DestroyTemporaryVariable(Op):
    """The last value of a temporary variable; whoever reads or writes it must run before."""

    signature = "ref: Ref(T) -> value: T"
    attrs = {"T": Type(), "var_name": String()}
    effect = read("ref")
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def shape(c):
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        return inputs[0]


class RefIdentity(Op):
    """The same reference."""

    signature = "input: Ref(T) -> output: Ref(T)"
    attrs = {"T": Type()}
    effect = PURE
    passes = "input"
    allows_uninitialized = True

    def shape(c):
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        if ctx.host and inputs[0] is None:
            source = ctx.op._inputs[0].op.name
            raise errors.FailedPreconditionError(None, ctx.op, f"Attempting to use uninitialized value {source}")
        return inputs[0]

    def gradient(op, grad):
        return [grad]
