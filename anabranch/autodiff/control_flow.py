"""Gradients of the ops that hold bodies: what conditionals, loops and calls have in common.

Each body that takes part is differentiated from its outputs to its arguments into a *gradient body*, and these become
the bodies of a new op of the same kind. What the rules of the ops inside refer to are tensors of the forward body; in
the gradient body an argument stands for each (:attr:`Body.intermediates`). When the gradient body is complete,

1. operations whose results nothing uses are taken out, so that nothing is kept for them;
2. what only looks at the shape of a forward tensor is computed in the forward body, where that tensor is;
3. the intermediates that are left are brought in: :mod:`anabranch.autodiff.branches` gives the forward op further
   outputs, :mod:`anabranch.autodiff.loops` stacks them up in lists, or computes them again.

The forward op grows in place; its new outputs are differentiated like any others, which gives gradients of any order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.autodiff import gradients as walks
from anabranch.autodiff.aggregation import AggregationMethod
from anabranch.autodiff.input_gradients import dtype_of_gradient, is_differentiable, zeros_like
from anabranch.core.contract import hooks, inference, opdef
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import gradient_counts

_METADATA = frozenset((Role.LIST_LENGTH, Role.LIST_SHAPE))
"""Roles of ops that look only at the size of a list, and so count as looking at a shape."""

_DEFAULTS = walks.Options(AggregationMethod.DEFAULT, False, False, ())

Differentiate = Callable[[Operation, Sequence[Any], Sequence[bool], walks.Options], list[Any]]
_by_role: dict[Role, Differentiate] = {}


def register(roles: Iterable[Role], differentiate: Differentiate) -> None:
    """Say how ops of some roles are differentiated."""
    _by_role.update(dict.fromkeys(roles, differentiate))


def control_flow_gradient(
    op: Operation, grads: Sequence[Any], wanted: Sequence[bool] | None = None, options: walks.Options | None = None
) -> list[Any]:
    """One gradient (or None) for each input of an op that holds bodies.

    Args:
        op: a conditional, loop or call.
        grads: a gradient or None for each of its outputs.
        wanted: for each input, whether its gradient is used; by default it is if it can have one.
        options: what the call of ``gradients`` says.
    """
    if wanted is None:
        wanted = [is_differentiable(tensor) for tensor in op._inputs]
    count = len(op._inputs)
    if not any(wanted) or all(grad is None for grad in grads) or not body_ops.bodies_of(op):
        return [None] * count
    assert op.role is not None
    gradients = _by_role[op.role](op, list(grads), list(wanted), options or _DEFAULTS)
    return (gradients + [None] * count)[:count]


hooks.fill("control_flow_gradient", control_flow_gradient)


# -------------------------------------------------------------------------------------------------------- one body
@dataclasses.dataclass
class Differentiated:
    """A gradient body in the making."""

    body: Body
    gradients: list[Any]
    """For each argument of the forward body that was asked for, its gradient in the body, or None."""
    counted: int = 0
    """What seeds count of it so far, but for what comes in from outside and from the forward body."""
    asked: gradient_counts.Asked = dataclasses.field(default_factory=gradient_counts.Asked)


def differentiate_body(
    forward: Body, body: Body, ys: Sequence[Tensor], starts: Sequence[Any], xs: Sequence[Tensor], options: walks.Options
) -> Differentiated:
    """Walks through ``forward`` from its outputs ``ys`` to its arguments ``xs``; the new ops go into ``body``."""
    body.forward = forward
    graph = forward.graph
    with graph.building(body), graph.control_dependencies(None):
        before = graph._last_id - len(body.captures)
        walk = walks.Walk(graph, ys, xs, options, within=forward)
        gradients = walk.run_from(starts)
        counted = graph._last_id - len(body.captures) - before
    return Differentiated(body, gradients, counted, walk.asked or gradient_counts.Asked())


def zeros_for(body: Body, arg: Tensor) -> Tensor:
    """Zeros, in a gradient body, for the gradient of an argument of its forward body."""
    dtype = dtype_of_gradient(arg) or arg.dtype.base
    shape = arg._handle.shape if arg.dtype.base is dtypes.resource and arg._handle is not None else arg._shape
    with body.graph.building(body), body.graph.control_dependencies(None):
        if shapes.is_static(shape) and dtype is not dtypes.variant:
            return walks.zeros_of_shape(shape, dtype)
        if _is_optional(body.capture(arg)):
            return build("OptionalNone")
        return zeros_like(arg)


def _is_optional(tensor: Tensor) -> bool:
    """Whether a tensor is an optional that a conditional gives."""
    outer: Tensor | None = tensor
    while outer is not None and outer.op.role is Role.ARGUMENT and body_ops.is_invariant(outer):
        body = outer.op.body
        captured = [source for source, arg in body.captures.items() if arg is outer and source.op.body is body.parent]
        outer = captured[0] if captured else body_ops.outer_of(outer)
    if outer is None or outer.op.role is not Role.CONDITIONAL:
        return False
    given = [use.body.outputs[outer.value_index].op.role for use in body_ops.bodies_of(outer.op)]
    return Role.OPTIONAL_WRAP in given or Role.OPTIONAL_NONE in given


def dense_for(body: Body, gradient: Any, arg: Tensor) -> Tensor:
    """A gradient of an argument as a dense tensor of its shape."""
    if isinstance(gradient, Tensor):
        return gradient
    with body.graph.building(body), body.graph.control_dependencies(None):
        rows = build("StridedSlice", _dense_shape(gradient, arg), [0], [1], [1], shrink_axis_mask=1)
        dense: Tensor = build("UnsortedSegmentSum", gradient.values, gradient.indices, rows)
        shape = arg._handle.shape if arg.dtype.base is dtypes.resource and arg._handle is not None else arg._shape
        if shapes.is_compatible(dense._shape, shape):
            dense._shape = shapes.merge(dense._shape, shape)
        return dense


def _dense_shape(gradient: IndexedSlices, arg: Tensor) -> Tensor:
    if gradient.dense_shape is not None:
        shape: Tensor = gradient.dense_shape
        return shape
    return build("VariableShape", arg) if arg.dtype.base is dtypes.resource else build("Shape", arg)


# ------------------------------------------------------------------------------------------------- completing a body
def prune(body: Body) -> None:
    """Take out what no output of a body needs, and arguments that nothing uses any more."""
    needed: set[Operation] = set()
    waiting = [output.op for output in body.outputs] + body.control_outputs
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [tensor.op for tensor in op._inputs] + op._control_inputs
    free = {*body.captures.values(), *body.intermediates.values()}
    removed = [
        op for op in body.operations if op not in needed and (op.role is not Role.ARGUMENT or op._outputs[0] in free)
    ]
    _remove(body, removed)


def _remove(body: Body, ops: Sequence[Operation]) -> None:
    removed = {*ops}
    inside = list(ops)
    while inside:
        for use in body_ops.bodies_of(inside.pop()):
            removed.update(use.body.operations)
            inside += use.body.operations
    for table in (body.captures, body.intermediates):
        for outer in [outer for outer, inner in table.items() if inner.op in removed]:
            del table[outer]
    body.args[:] = [arg for arg in body.args if arg.op not in removed]
    for index, arg in enumerate(body.args):
        arg.op._attrs["index"] = index
    body_ops.remove_ops(body.graph, removed)


def substitute(old: Tensor, new: Tensor) -> None:
    """Make the consumers of ``old`` in its body, and the body's outputs, take ``new``."""
    if old is new:
        return
    for consumer in old.consumers():
        for index, tensor in enumerate(consumer._inputs):
            if tensor is old:
                consumer.graph._update_input(consumer, index, new)
        body_ops.disorder(consumer)
    body = old.op.body
    body.outputs[:] = [new if output is old else output for output in body.outputs]


def placeholders(body: Body) -> list[tuple[Tensor, Tensor]]:
    """The intermediates of a gradient body that nothing brings in yet: forward tensor and argument."""
    captured = set(body.captures.values())
    return [
        (tensor, arg)
        for tensor, arg in body.intermediates.items()
        if body_ops.is_argument(arg, body) and arg not in captured
    ]


def bind(body: Body, arg: Tensor, outer: Tensor) -> None:
    """Let a placeholder of a gradient body stand for ``outer``, a tensor of an enclosing body or its forward body."""
    assert body.parent is not None
    outer = body.parent.capture(outer)
    known = body.captures.get(outer)
    if known is not None:
        substitute(arg, known)
    else:
        body.captures[outer] = arg


def drop_unused(body: Body) -> None:
    """Take out placeholders that nothing uses any more."""
    outputs = set(body.outputs)
    _remove(body, [arg.op for _, arg in placeholders(body) if not arg._consumers and arg not in outputs])


# ------------------------------------------------------------------------------------------------------ shapes only
def move_shapes(body: Body) -> None:
    """Compute in the forward body what the gradient body only asks of shapes there."""
    assert body.forward is not None
    outputs = set(body.outputs)
    removed: list[Operation] = []
    for tensor, arg in placeholders(body):
        consumers = list(dict.fromkeys(arg.consumers()))
        if arg in outputs or not consumers or not all(_looks_at_shape(consumer) for consumer in consumers):
            continue
        for consumer in consumers:
            if consumer.definition.inputs[0].is_list:
                _split_shapes(body, consumer)
                removed.append(consumer)
                continue
            substitute(consumer._outputs[0], _shape_fact(body, consumer, tensor))
            removed.append(consumer)
    _remove(body, removed)
    drop_unused(body)


def _looks_at_shape(op: Operation) -> bool:
    if op._control_inputs or op._control_outputs:
        return False
    return op.role in _METADATA or (op.definition.shape_only and op._inputs[0].dtype.base is not dtypes.variant)


def _split_shapes(body: Body, op: Operation) -> None:
    for source, output in zip(op._inputs, op._outputs, strict=True):
        with body.graph.building(body), body.graph.control_dependencies(None):
            single: Tensor = build("Shape", source, out_type=op._attrs["out_type"])
        body_ops.disorder(op)
        substitute(output, single)
        forward = next((tensor for tensor, arg in body.intermediates.items() if arg is source), None)
        if forward is not None:
            substitute(single, _shape_fact(body, single.op, forward))
            _remove(body, [single.op])


def _shape_fact(body: Body, op: Operation, tensor: Tensor) -> Tensor:
    """What ``op`` of a gradient body gives for the forward tensor ``tensor``, of which it sees only the shape."""
    graph = body.graph
    with (
        graph.building(body),
        graph.control_dependencies(None),
        graph.name_scope(None),
        graph.name_scope(op.name + "/"),
    ):
        if op.definition.elementwise:  # zeros, or ones
            dtype = tensor.dtype.base
            filled = inference.fold(op.definition, op._attrs, [np.zeros((), dtype.np)], op)
            assert filled is not None
            value = filled[0].item()
            if shapes.is_static(tensor._shape):
                known = np_full(tensor._shape, value, dtype)
                return constant(known, dtype)
            fact = _forward_fact(body, "Shape", tensor, {"T": dtype, "out_type": dtypes.int32})
            return build("Fill", body.capture(fact), constant(value, dtype))
        partial = inference.partial_value(op._outputs[0])
        if partial is not None and not isinstance(partial, tuple):
            return constant(partial, op._outputs[0].dtype.base)
        return body.capture(_forward_fact(body, op.type, tensor, op._attrs))


def np_full(shape: shapes.RawShape, value: int, dtype: dtypes.DType) -> Any:
    """An array of one value, as a view on it."""
    assert shape is not None
    return np.broadcast_to(np.asarray(value, dtype.np), [size or 0 for size in shape])


def _forward_fact(body: Body, op_type: str, tensor: Tensor, attrs: dict[str, Any]) -> Tensor:
    forward = tensor.op.body
    for consumer in tensor.consumers():
        if consumer.type == op_type and not consumer._control_inputs and _same_attrs(consumer._attrs, attrs):
            return consumer._outputs[0]
    graph = body.graph
    with graph.building(forward), graph.control_dependencies(None), graph.bare_scopes():
        name = f"{tensor.op.name}/{op_type}"
        with graph.name_scope(None):
            return graph._create(opdef.lookup(op_type), [tensor], dict(attrs), name)._outputs[0]


def _same_attrs(first: dict[str, Any], second: dict[str, Any]) -> bool:
    def declared(attrs: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in attrs.items() if key[:1] != "_"}

    return declared(first) == declared(second)
