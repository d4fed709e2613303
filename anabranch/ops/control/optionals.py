"""Optional values: what may be there, as what a branch of a conditional keeps for its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, List, NotDifferentiable, Op, Role
from anabranch.core.graph.build import build
from anabranch.core.values.optional_values import HostOptional


class OptionalNone(Op):
    """An optional without values."""

    signature = "-> optional: variant"
    effect = PURE
    role = Role.OPTIONAL_NONE
    gradient = NotDifferentiable("it has no inputs")

    def shape(c):
        return ()

    def host_kernel(ctx, inputs, attrs):
        return HostOptional()


class OptionalFromValue(Op):
    """An optional that holds `components`."""

    signature = "components: [Toutput_types] -> optional: variant"
    attrs = {"Toutput_types": List("type", minimum=1)}
    effect = PURE
    role = Role.OPTIONAL_WRAP

    def shape(c):
        return ()

    def host_kernel(ctx, inputs, attrs):
        return HostOptional(inputs)

    def gradient(op, grad):
        return build(
            "OptionalGetValue",
            grad,
            output_types=[tensor.dtype.base for tensor in op.inputs],
            output_shapes=[tensor.shape for tensor in op.inputs],
        )


class OptionalGetValue(Op):
    """The values of an optional; the step fails if it has none."""

    signature = "optional: variant -> components: [output_types]"
    attrs = {"output_types": List("type", minimum=1), "output_shapes": List("shape", minimum=1)}
    effect = PURE
    role = Role.OPTIONAL_UNWRAP

    def shape(c):
        return list(c.attrs["output_shapes"])

    def host_kernel(ctx, inputs, attrs):
        optional = _optional(ctx, inputs[0])
        ctx.check(
            optional.values is not None,
            errors.InvalidArgumentError,
            "The given optional does not have a value.",
        )
        return list(optional.values or ())

    def gradient(op, *grads):
        return build("OptionalFromValue", list(grads))


def _optional(ctx: Any, value: Any) -> HostOptional:
    if not isinstance(value, HostOptional):
        raise errors.InvalidArgumentError(None, ctx.op, f"a {type(value).__name__} where an optional is expected")
    return value


class OptionalHasValue(Op):
    """Whether an optional has values."""

    signature = "optional: variant -> has_value: bool"
    effect = PURE
    role = Role.OPTIONAL_TEST
    gradient = NotDifferentiable("its output is a bool")

    def shape(c):
        return ()

    def host_kernel(ctx, inputs, attrs):
        return np.asarray(_optional(ctx, inputs[0]).values is not None)
