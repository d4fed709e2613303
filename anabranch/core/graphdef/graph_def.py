"""Graphs as GraphDefs: what `as_graph_def`, `op.node_def` and `op.op_def` return.

Policy. Nodes stand in the order of creation, their control inputs by name behind their data inputs, and all
attributes are written, defaults too. Nested bodies become functions of the library (see
:mod:`anabranch.core.graphdef.function_def`), next to the functions that imported graphs brought. Loading this module
fills the slots of :mod:`anabranch.core.contract.hooks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.attrs import REQUIRED, Attr
from anabranch.core.contract.opdef import ArgSpec, OpDefinition
from anabranch.core.graph.body import Body
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation
from anabranch.core.graphdef import attr_values, function_def
from anabranch.core.protos import graph_pb2

FOREIGN_PREFIX = "Anabranch"
"""Op types that start with this are our own: other programs cannot read them."""

# Effects that TensorFlow does not count as state: it tells feeds, refs and their writers apart by other means.
_STATELESS_EFFECTS = frozenset(("pure", "feed"))


def node_def(op: Operation, into: Any = None) -> Any:
    """The NodeDef of an operation; appended to the nodes ``into`` if given."""
    node = graph_pb2.NodeDef() if into is None else into.add()
    node.name = op.name
    node.op = op.definition.type_name
    if op._device:
        node.device = op._device
    sources: tuple[Any, ...] = op._inputs
    node.input.extend(tensor._as_node_def_input() for tensor in sources)
    if op._control_inputs:
        node.input.extend(sorted(f"^{control.name}" for control in op._control_inputs))
    function_def.write_attrs(op, node)
    return node


def op_def(definition: OpDefinition) -> Any:
    """The OpDef of an op type, without its documentation."""
    proto = graph_pb2.OpDef(name=definition.type_name)
    for spec in definition.inputs:
        _write_arg(spec, proto.input_arg.add())
    for spec in definition.outputs:
        _write_arg(spec, proto.output_arg.add())
    for name, attr in definition.attrs.items():
        _write_attr(name, attr, proto.attr.add())
    proto.is_stateful = definition.is_stateful and definition.effect.kind not in _STATELESS_EFFECTS
    proto.is_aggregate = definition.aggregate
    proto.is_commutative = definition.commutative
    proto.allows_uninitialized_input = definition.allows_uninitialized
    return proto


def _write_arg(spec: ArgSpec, arg: Any) -> None:
    arg.name = spec.name
    if spec.dtype is not None:
        arg.type = spec.dtype.enum
    arg.type_attr = spec.type_attr or ""
    arg.number_attr = spec.number_attr or ""
    arg.type_list_attr = spec.type_list_attr or ""
    arg.is_ref = spec.is_ref


def _write_attr(name: str, attr: Attr, proto: Any) -> None:
    proto.name = name
    proto.type = attr.kind
    if attr.default is not REQUIRED:
        proto.default_value.CopyFrom(attr_values.to_proto(attr.default, attr))
    if attr.allowed is not None:
        proto.allowed_values.CopyFrom(attr_values.to_proto(attr.allowed, Attr(f"list({attr.element})")))
    if attr.minimum is not None:
        proto.has_minimum = True
        proto.minimum = attr.minimum


def graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> Any:
    """The GraphDef of a graph.

    Args:
        graph: the graph.
        from_version: leave out operations that existed when ``graph.version`` had this value.
        add_shapes: give each node with outputs the attribute ``_output_shapes``.

    Raises:
        ValueError: it would exceed the 2 GiB that a message can have.
    """
    with graph._lock:
        proto = graph_pb2.GraphDef()
        proto.versions.producer = graph._producer_version
        proto.versions.min_consumer = graph._min_consumer
        proto.versions.bad_consumers.extend(graph._bad_consumers)
        bodies: list[Body] = []
        for op in graph.root.operations:
            if from_version is not None and op._made_at <= from_version:
                continue
            node = node_def(op, proto.node)
            if add_shapes and op._outputs:
                listed = node.attr["_output_shapes"].list.shape
                listed.extend(attr_values.shape_proto(tensor._shape) for tensor in op._outputs)
            bodies.extend(function_def.bodies_of(op))
        _write_functions(proto, graph, bodies)
    if proto.ByteSize() >= 2**31:
        raise ValueError(
            "GraphDef cannot be larger than 2GB.\n"
            + errors.message(
                f"a graph of {proto.ByteSize()} bytes",
                "less than 2 GiB",
                "keep large arrays out of tf.constant: feed them, or make them variables restored from a checkpoint",
            )
        )
    return proto


def _write_functions(proto: Any, graph: Graph, bodies: list[Body]) -> None:
    """Write the functions that a graph has read, and those of bodies, of the bodies in them, and so on."""
    for function in graph._functions.values():
        proto.library.function.add().CopyFrom(function)
    for function_name, gradient in graph._function_gradients.items():
        proto.library.gradient.add(function_name=function_name, gradient_func=gradient)
    written: set[Body] = set()
    while bodies:
        body = bodies.pop(0)
        if body in written or function_def.is_as_read(body):
            continue
        written.add(body)
        proto.library.function.add().CopyFrom(function_def.function_def(body))
        bodies.extend(inner for op in body.operations for inner in function_def.bodies_of(op))


def of_operations(operations: Sequence[Operation]) -> Any:
    """The GraphDef of operations of a graph's root, in order, that need no others; with their functions."""
    graph = operations[0].graph
    with graph._lock:
        proto = graph_pb2.GraphDef()
        proto.versions.producer = graph._producer_version
        proto.versions.min_consumer = graph._min_consumer
        bodies: list[Body] = []
        for op in operations:
            node_def(op, proto.node)
            bodies.extend(function_def.bodies_of(op))
        _write_functions(proto, graph, bodies)
    return proto


def foreign_nodes(proto: Any) -> list[Any]:
    """Nodes of a GraphDef, in functions too, whose op type only this package knows."""
    functions = [node for function in proto.library.function for node in function.node_def]
    return [node for node in [*proto.node, *functions] if node.op.startswith(FOREIGN_PREFIX)]


def check_exportable(proto: Any) -> None:
    """Raise NotImplementedError that names all nodes of a GraphDef which no other program could read."""
    foreign = foreign_nodes(proto)
    if not foreign:
        return
    by_type: dict[str, list[str]] = {}
    for node in foreign:
        by_type.setdefault(node.op, []).append(node.name)
    lines = [
        f"{len(names)} of type {op_type}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
        for op_type, names in sorted(by_type.items())
    ]
    raise NotImplementedError(
        errors.message(
            "a graph for other programs with nodes that only this package knows\n" + "\n".join(lines),
            "TensorFlow's op types only",
            "build the part that is exported without them; for a graph that this package reads again, as_graph_def()",
        )
    )


def _attr_from_proto(proto: Any) -> Any:
    return attr_values.from_proto(proto)


hooks.fill("node_def", node_def)
hooks.fill("op_def", op_def)
hooks.fill("tensor_attr", attr_values.array_proto)
hooks.fill("attr_from_proto", _attr_from_proto)
hooks.fill("graph_def", graph_def)
