"""The derived gradient as an op: the vector-Jacobian product of another op's kernel.

An op whose contract says ``gradient = DERIVED`` is differentiated by one ``AnabranchVjp`` node. It keeps the forward
op's type and attributes as a named attribute list (which a GraphDef holds too) and runs that op's compiled kernel under
the context of its own tier, so that precision and platform are those of the step. What the forward op must know at
compile time stays known at compile time: those operands are an argument of their own. The op is differentiated by
itself, hence any order works.

Conventions. A cotangent of TensorFlow is the conjugate of JAX's (the gradient of a real loss with respect to ``a + ib``
is ``dL/da + i dL/db``), so complex cotangents are conjugated on the way in and on the way out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import kernels, opdef
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import DERIVED, PURE, Func, List, Op


def _conjugate(xp: Any, value: Any) -> Any:
    return xp.conj(value) if np.issubdtype(value.dtype, np.complexfloating) else value


class AnabranchVjp(Op):
    """Gradients of the op ``forward`` with respect to the ``inputs`` at the positions ``wrt``, shaped like them.

    ``inputs`` and ``static`` are the forward op's operands without and with a value that XLA must know, ``static_at``
    the positions of the latter among all; ``grads`` are the gradients of its outputs at the positions ``outputs_at``.
    """

    signature = "inputs: [Tin], static: [Tstatic], grads: [Tgrad] -> output: [Tout]"
    attrs = {
        "forward": Func(),
        "wrt": List("int", minimum=1),
        "static_at": List("int"),
        "outputs_at": List("int", minimum=1),
        "Tin": List("type", minimum=1),
        "Tstatic": List("type"),
        "Tgrad": List("type", minimum=1),
        "Tout": List("type", minimum=1),
    }
    effect = PURE
    compile_time = ("static",)
    gradient = DERIVED

    def shape(c):
        return [c.shapes[position] for position in c.attrs["wrt"]]

    @uses_lax
    def kernel(ctx, inputs, attrs):
        forward = opdef.lookup(attrs["forward"].name)
        forward_attrs = {
            key: forward.attrs[key].convert(value, key, forward.type_name)
            for key, value in attrs["forward"].items
            if key in forward.attrs
        }
        dynamic = list(inputs[: len(attrs["Tin"])])
        static = list(inputs[len(attrs["Tin"]) : len(attrs["Tin"]) + len(attrs["Tstatic"])])
        grads = [_conjugate(ctx.xp, grad) for grad in inputs[len(dynamic) + len(static) :]]

        def run(inner, *differentiated):
            operands = list(dynamic)
            for position, value in zip(attrs["wrt"], differentiated, strict=True):
                operands[position] = value
            for position, value in zip(attrs["static_at"], static, strict=True):
                operands.insert(position, value)
            if forward.checks is not None:
                forward.checks(inner, operands, forward_attrs)
            results = kernels.outputs_of(forward, forward_attrs, forward.kernel(inner, operands, forward_attrs))
            return tuple(ctx.xp.asarray(results[position]) for position in attrs["outputs_at"])

        outputs, pullback = ctx.vjp(run, *(dynamic[position] for position in attrs["wrt"]))
        for index, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
            same = tuple(output.shape) == tuple(grad.shape)
            ctx.check(
                same,
                errors.InvalidArgumentError,
                f"gradient of shape {list(grad.shape)} for output {attrs['outputs_at'][index]} of op type "
                f"{forward.type_name!r}, whose shape is {list(output.shape)}",
            )
            if not same:
                grads[index] = ctx.xp.zeros_like(output)
        return tuple(_conjugate(ctx.xp, value) for value in pullback(tuple(grads)))
