"""Gradients of conditionals and calls: `If`, `Case`, `PartitionedCall`.

The gradient is an op of the same kind under the same predicate: each of its branches differentiates one branch of the
forward op. What a branch needs of the forward one is taken out through a further output of the forward op. The other
branches give zeros of the same shape there, which nobody reads; where the shape is not known, the output is an
*optional*, present only if its branch was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.autodiff import branch_slices, counts
from anabranch.autodiff import gradients as walks
from anabranch.autodiff.control_flow import (
    bind,
    dense_for,
    differentiate_body,
    drop_unused,
    move_shapes,
    placeholders,
    prune,
    register,
    substitute,
    zeros_for,
)
from anabranch.autodiff.input_gradients import is_differentiable
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops, composites, shared_bodies
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.random_seed import OperationCount, in_function
from anabranch.core.values import dtypes, shapes


def _differentiate(op: Operation, grads: Sequence[Any], wanted: Sequence[bool], options: walks.Options) -> list[Any]:
    graph = op.graph
    shared_bodies.unshare(op)
    uses = body_ops.bodies_of(op)
    first = uses[0].first
    given = [i for i, grad in enumerate(grads) if grad is not None and is_differentiable(op._outputs[i])]
    asked = [k for k in range(len(op._inputs) - first) if wanted[first + k]]
    if not given or not asked:
        return []
    parts = []
    count = OperationCount()
    for use in uses:
        body = graph.new_body(f"{use.attr}_grad")
        ys = [use.body.outputs[i] for i in given]
        xs = [use.body.args[k] for k in asked]
        parts.append(differentiate_body(use.body, body, ys, [grads[i] for i in given], xs, options))
    kept = [n for n in range(len(asked)) if any(part.gradients[n] is not None for part in parts)]
    if not kept:
        return []
    counted = counts.of_conditional(op, parts, len(given), kept)
    structure: list[Any] = []
    dense_shapes: list[Any] = []
    for n in kept:
        gradients = [part.gradients[n] for part in parts]
        dense_shapes.append(None)
        variable = op._inputs[first + asked[n]]
        if branch_slices.unify(parts, n, variable):
            dense_shapes[-1] = branch_slices.dense_shape(gradients, variable)
        else:
            for part, use in zip(parts, uses, strict=True):
                arg = use.body.args[asked[n]]
                gradient = part.gradients[n]
                part.gradients[n] = (
                    zeros_for(part.body, arg) if gradient is None else dense_for(part.body, gradient, arg)
                )
        structure.append(parts[0].gradients[n])
    bodies = [part.body for part in parts]
    for part in parts:
        with graph.building(part.body), graph.control_dependencies(None):
            flat = composites.flatten([part.gradients[n] for n in kept])
            part.body.outputs = [_value(part.body, tensor) for tensor in flat]
        prune(part.body)
        move_shapes(part.body)
    for number, body in enumerate(bodies):
        _bring_in(op, number, body)
    for body in bodies:
        prune(body)
    conditional = _make(op, bodies)
    packed = composites.pack(structure, conditional._outputs)
    input_gradients: list[Any] = [None] * len(op._inputs)
    for n, gradient, known in zip(kept, packed, dense_shapes, strict=True):
        if known is not None:
            gradient = IndexedSlices(gradient.values, gradient.indices, known)
        input_gradients[first + asked[n]] = gradient
    if op.role is Role.CONDITIONAL and not in_function():
        count.set(counted)
    return input_gradients


def _value(body: Body, tensor: Tensor) -> Tensor:
    captured = body.capture(tensor)
    return build("Identity", captured) if captured.dtype.is_ref else captured


def _make(op: Operation, bodies: list[Body]) -> Operation:
    """The gradient op, of the kind of ``op``."""
    captured = body_ops.line_up(bodies)
    stateful = any(body_ops.is_stateful(body) for body in bodies)
    types = [output.dtype.base for output in bodies[0].outputs]
    attrs: dict[str, Any] = {"Tout": types}
    stateless = "" if stateful else "Stateless"
    inputs: list[Any] = [captured] if op.role is Role.CALL else [op._inputs[0], captured]
    if op.role is Role.CALL:
        kind = "StatefulPartitionedCall" if stateful else "PartitionedCall"
        attrs["f"] = bodies[0]
    elif body_ops.chosen_by_number(op):
        kind = f"{stateless}Case"
        attrs["branches"] = bodies
    else:
        kind = f"{stateless}If"
        attrs |= {"then_branch": bodies[0], "else_branch": bodies[1]}
    scope = op.graph.get_name_scope()
    op_with_bodies = build_operation(kind, inputs, attrs, f"{scope}/" if scope else None)
    body_ops.own(op_with_bodies)
    return op_with_bodies


# ------------------------------------------------------------------------------------------------------- intermediates
def _bring_in(op: Operation, number: int, body: Body) -> None:
    """Bring into a gradient body what it needs of the forward branch ``number``."""
    forward = body.forward
    assert forward is not None
    graph = op.graph
    for tensor, arg in placeholders(body):
        if tensor.op.body is forward:
            outer, optional = _exposed(op, number, forward, tensor)
        else:
            outer, optional = _exposed_earlier(tensor)
        if not optional:
            bind(body, arg, outer)
            continue
        with graph.building(body), graph.control_dependencies(None):
            (value,) = build(
                "OptionalGetValue", body.capture(outer), output_types=[tensor.dtype.base], output_shapes=[tensor._shape]
            )
        value._handle = tensor._handle
        substitute(arg, value)
    drop_unused(body)


def _exposed_earlier(tensor: Tensor) -> tuple[Tensor, bool]:
    """The same for a tensor of the branch that ``forward``, a gradient itself, is the gradient of."""
    home = tensor.op.body
    owner = home.owner
    assert owner is not None
    number = next(k for k, use in enumerate(body_ops.bodies_of(owner)) if use.body is home)
    return _exposed(owner, number, home, tensor)


def _exposed(op: Operation, number: int, forward: Body, tensor: Tensor) -> tuple[Tensor, bool]:
    """The output of the forward op that holds a tensor of a branch, and whether it is an optional."""
    for index, output in enumerate(forward.outputs):
        if output is tensor:
            return op._outputs[index], False
    known = forward.exposed.get(tensor)
    if known is not None:
        return known
    uses = body_ops.bodies_of(op)
    optional = len(uses) > 1 and (
        not shapes.is_static(tensor._shape) or tensor.dtype.base in (dtypes.variant, dtypes.resource)
    )
    graph = op.graph
    outputs = []
    for k, use in enumerate(uses):
        with graph.building(use.body), graph.control_dependencies(None), graph.bare_scopes():
            with graph.name_scope(None), graph.name_scope(f"{tensor.op.name}/exposed/"):
                if k == number:
                    outputs.append(build("OptionalFromValue", [tensor]) if optional else _value(use.body, tensor))
                elif optional:
                    outputs.append(build("OptionalNone"))
                else:
                    outputs.append(walks.zeros_of_shape(tensor._shape, tensor.dtype.base))
    outer = body_ops.add_output(op, outputs)
    if not optional:
        outer._handle = tensor._handle
        outer._shape = tensor._shape
    forward.exposed[tensor] = (outer, optional)
    return outer, optional


register((Role.CONDITIONAL, Role.CALL), _differentiate)
