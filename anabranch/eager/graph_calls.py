"""Calls of a traced function in a graph that is being built: copies of its ops there.

In the trace of another function the copies become part of that trace, which runs all that has an effect; elsewhere they
are the body of one call. Only what the function's results and effects need is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.operation import Operation
from anabranch.core.values import shapes
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.graph_function import GraphFunction


def call(function: GraphFunction, given: Sequence[Any], name: str) -> tuple[list[Any], Operation | None]:
    """Add a call of a function to the graph that is being built: its results, and an op after all that it does.

    Raises:
        RuntimeError: the function uses values or variables from outside, and the graph is none of a function.
        NotImplementedError: the function holds a loop of version 1's control flow.
    """
    graph: Any = current_builder()
    for tensor, argument in zip(given, function.arguments, strict=True):
        if not shapes.is_compatible(tensor._shape, argument._shape):
            raise ValueError(
                errors.message(
                    f"a tensor of shape {tensor.shape} for {argument._label} of {function.graph.name}",
                    f"shape {argument.shape}",
                    "reshape it, or trace the function for a shape of which less is known",
                )
            )
    outside = {inner: graph.adopt(outer) for outer, inner in (*function.captured, *function.handles)}
    with graph.name_scope(name) as scope:
        if isinstance(graph, FunctionGraph) and graph.current_body is graph.root:
            arguments = [tensor if tensor.dtype.base.np is None else build("Identity", tensor) for tensor in given]
            replaced = {**outside, **dict(zip(function.arguments, arguments, strict=True))}
            results, effects = _copied(function, replaced, graph.root)
            if results or not effects:
                return results, None
            with graph.control_dependencies(effects):
                return results, build_operation("NoOp", [], {}, "done")
        body = graph.new_body("body")
        with graph.building(body), graph.control_dependencies(None):
            replaced = {}
            for tensor, argument in zip(given, function.arguments, strict=True):
                inner = body.add_arg(argument.dtype.base, tensor._shape, argument.op.name.rsplit("/", 1)[-1])
                inner._handle = tensor._handle
                replaced[argument] = inner
            replaced.update({inner: body.capture(tensor) for inner, tensor in outside.items()})
            results, effects = _copied(function, replaced, body)
            body.outputs = [build("Identity", x) if body_ops.is_argument(x, body) else x for x in results]
        body.control_outputs += effects
        captured = body_ops.line_up([body])
        kind = "StatefulPartitionedCall" if body_ops.is_stateful(body) else "PartitionedCall"
        attrs = {"f": body, "Tout": [output.dtype.base for output in body.outputs]}
        op = build_operation(kind, [[*given, *captured]], attrs, scope)
        body_ops.own(op)
    return list(op._outputs), op


def _copied(function: GraphFunction, replaced: dict[Any, Any], body: Body) -> tuple[list[Any], list[Operation]]:
    """Copies of a function's results and effects in a body, where ``replaced`` tells what stands for some tensors."""
    ops: dict[Operation, Operation] = {}
    needed: set[Operation] = set()
    waiting = [*[tensor.op for tensor in function.results if tensor not in replaced], *function.effects]
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [tensor.op for tensor in op._inputs if tensor not in replaced]
            waiting += [control for control in op._control_inputs if control.role is not Role.ARGUMENT]

    def inside(tensor: Any) -> Any:
        found = replaced.get(tensor)
        if found is not None:
            return found
        if tensor.op not in ops:
            raise NotImplementedError(
                errors.message(
                    f"a call of {function.graph.name} in a graph, with a loop of Switch and Merge at "
                    f"{tensor.op.name!r}",
                    "a function without control flow of version 1",
                    "call it where ops run at once, or import the graph with tf.import_graph_def",
                )
            )
        return ops[tensor.op]._outputs[tensor.value_index]

    for op in sorted(needed, key=lambda op: op._id):
        copy = ops[op] = body_ops.copy_op(op, [inside(tensor) for tensor in op._inputs], body)
        copy.user_site = op.user_site
        controls = [ops[control] for control in op._control_inputs if control in ops]
        body.graph._add_control_inputs(copy, [one for one in controls if one not in copy._control_inputs])
    return [inside(tensor) for tensor in function.results], [ops[op] for op in function.effects]
