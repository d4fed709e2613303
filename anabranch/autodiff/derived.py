"""The rule for ops whose contract says ``DERIVED``: one `AnabranchVjp` op (see :mod:`anabranch.ops.shared.vjp`)."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.values.shapes import TensorShape


def derived_gradient(op: Any, *grads: Any) -> list[Any]:
    """Gradients with respect to the floating and complex inputs of an op-like object, None for the others."""
    definition = opdef.lookup(op.type)
    attrs = {name: spec.convert(op._attrs[name], name, op.type) for name, spec in definition.attrs.items()}
    inputs = list(op.inputs)
    static: set[int] = set()
    for name in definition.compile_time:
        positions = definition.input_range(name, attrs)
        static.update(range(positions.start, positions.stop))
    dynamic = [position for position in range(len(inputs)) if position not in static]
    wrt = [index for index, position in enumerate(dynamic) if _is_continuous(inputs[position].dtype)]
    outputs = [
        position
        for position, grad in enumerate(grads)
        if grad is not None and _is_continuous(op.outputs[position].dtype)
    ]
    result: list[Any] = [None] * len(inputs)
    if not wrt or not outputs:
        return result
    if definition.kernel is None:
        raise LookupError(
            errors.message(
                f"op type {op.type!r}, which has no kernel for XLA", "a gradient rule", "def gradient(op, *grads): ..."
            )
        )
    gradients = build(
        "AnabranchVjp",
        [inputs[position] for position in dynamic],
        [inputs[position] for position in sorted(static)],
        [convert_to_tensor(grads[position], op.outputs[position].dtype.base) for position in outputs],
        forward=NamedAttrs(
            op.type, tuple((name, _told(attrs[name], definition.attrs[name])) for name in sorted(attrs))
        ),
        wrt=wrt,
        static_at=sorted(static),
        outputs_at=outputs,
        Tout=[inputs[dynamic[index]].dtype.base for index in wrt],
        name="vjp",
    )
    for index, gradient in zip(wrt, gradients, strict=True):
        result[dynamic[index]] = gradient
    return result


def _told(value: Any, spec: opdef.Attr) -> Any:
    """An attribute's value in a form that tells its kind without the declaration: shapes as `TensorShape`."""
    if spec.element != "shape":
        return value
    return tuple(TensorShape(item) for item in value) if spec.is_list else TensorShape(value)


def _is_continuous(dtype: Any) -> bool:
    return dtype.base.is_floating or dtype.base.is_complex
