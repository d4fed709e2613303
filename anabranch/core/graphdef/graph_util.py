"""Surgery on GraphDefs: `tf.graph_util`.

Policy. These functions take and return messages, which may hold types without a definition: of these nothing is known.
What is given is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.api import public
from anabranch.core.contract.roles import Role
from anabranch.core.graphdef import attr_values, frozen_functions
from anabranch.core.protos import graph_pb2
from anabranch.core.values import dtypes


def _makes_variable(op_type: str) -> bool:
    definition = opdef.find(op_type)
    return definition is not None and definition.makes == "variable"


def _gives_ref(op_type: str) -> bool:
    """Whether the first output of a type is a reference, and not a handle or a value."""
    definition = opdef.find(op_type)
    return definition is not None and bool(definition.outputs) and definition.outputs[0].is_ref


def node_name(text: str) -> str:
    """The node that an input text (``"name"``, ``"name:1"`` or ``"^name"``) means."""
    return text[1:] if text.startswith("^") else text.partition(":")[0]


@public("graph_util.must_run_on_cpu")
def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a NodeDef or operation needs the host: strings, int32 constants of shapes, variables if pinned there."""
    proto = getattr(node, "node_def", node)
    if pin_variables_on_cpu and _gives_ref(proto.op):  # a variable, or what writes to one
        return True
    definition = opdef.find(proto.op)
    if definition is None:
        return False
    dtype = proto.attr["dtype"].type if "dtype" in proto.attr else None
    if definition.role is Role.CONSTANT:
        return dtype in (dtypes.string.enum, dtypes.int32.enum)
    of_shapes = "T" in proto.attr and proto.attr["T"].type == dtypes.int32.enum
    return definition.data_dependent_shape and of_shapes


def _copy_without_nodes(proto: Any) -> Any:
    copy = graph_pb2.GraphDef()
    for field in ("library", "versions"):
        if proto.HasField(field):
            getattr(copy, field).CopyFrom(getattr(proto, field))
    return copy


def _check_graph_def(proto: Any) -> None:
    descriptor = getattr(proto, "DESCRIPTOR", None)
    if descriptor is None or descriptor.name != "GraphDef":
        raise TypeError(
            "graph_def must be a graph_pb2.GraphDef proto.\n"
            + errors.message(f"a {type(proto).__name__}", "a GraphDef", "graph.as_graph_def()")
        )


def _names(given: Any, argument: str) -> list[str]:
    if isinstance(given, (str, bytes)):
        raise TypeError(
            f"{argument} must be a list.\n"
            + errors.message(f"{argument}={given!r}", "a list of node names", f"{argument}=[{given!r}]")
        )
    return list(given)


@public("graph_util.extract_sub_graph")
def extract_sub_graph(graph_def: Any, dest_nodes: Sequence[str]) -> Any:
    """The part of a GraphDef that its nodes ``dest_nodes`` need, with library and versions.

    Raises:
        TypeError: ``graph_def`` or ``dest_nodes`` is of the wrong kind. AssertionError: a node is not in the graph.
    """
    _check_graph_def(graph_def)
    wanted = _names(dest_nodes, "dest_nodes")
    nodes = {node.name: node for node in graph_def.node}
    missing = [name for name in wanted if name not in nodes]
    if missing:
        raise AssertionError(
            f"{missing[0]} is not in graph\n"
            + errors.message(f"dest_nodes with {missing}", f"names of its {len(nodes)} nodes", "check the names")
        )
    keep: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in keep and name in nodes:
            keep.add(name)
            waiting += [node_name(text) for text in nodes[name].input]
    subgraph = _copy_without_nodes(graph_def)
    subgraph.node.extend(node for node in graph_def.node if node.name in keep)
    return subgraph


def _only_checks(op_type: str) -> bool:
    """Whether a type hands its input on after a look at it, like `CheckNumerics`."""
    definition = opdef.find(op_type)
    return _hands_on(op_type) and definition is not None and definition.checks is not None


def _hands_on(op_type: str) -> bool:
    """Whether a type hands its input on and does nothing that a trained program needs."""
    definition = opdef.find(op_type)
    return (
        frozen_functions.passed_attr(op_type) is not None
        and definition is not None
        and definition.role in (None, Role.COPY)
    )


@public("graph_util.remove_training_nodes")
def remove_training_nodes(input_graph: Any, protected_nodes: Iterable[str] | None = None) -> Any:
    """The GraphDef without nodes that hand their input on, like `Identity` and `CheckNumerics`: their consumers take
    their input instead.

    Nodes that only check go with the control edges from them. Others that take part in control edges stay, and so do
    ``protected_nodes``.
    """
    _check_graph_def(input_graph)
    protected = set(_names(protected_nodes or (), "protected_nodes"))
    checks = {node.name for node in input_graph.node if _only_checks(node.op) and node.name not in protected}
    inputs = {
        node.name: [text for text in node.input if not (text.startswith("^") and text[1:] in checks)]
        for node in input_graph.node
    }
    controls = {text[1:] for texts in inputs.values() for text in texts if text.startswith("^")}
    spliced = {
        node.name: inputs[node.name][0]
        for node in input_graph.node
        if _hands_on(node.op) and node.name not in protected | controls and len(inputs[node.name]) == 1
    }
    pruned = _copy_without_nodes(input_graph)
    for node in input_graph.node:
        if node.name in spliced:
            continue
        copy = pruned.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        for text in inputs[node.name]:
            while text.removesuffix(":0") in spliced:
                text = spliced[text.removesuffix(":0")]
            copy.input.append(text)
    return pruned


@public("graph_util.tensor_shape_from_node_def_name")
def tensor_shape_from_node_def_name(graph: Any, input_name: str) -> Any:
    """The static shape of the tensor that a NodeDef's input means."""
    name = input_name if ":" in input_name else f"{input_name}:0"
    return graph.get_tensor_by_name(name).get_shape()


@public("graph_util.convert_variables_to_constants")
def convert_variables_to_constants(
    sess: Any,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Iterable[str] | None = None,
    variable_names_blacklist: Iterable[str] | None = None,
) -> Any:
    """The part of a GraphDef that the outputs need, with variables replaced by constants of their current values.

    Conditionals, loops and calls get the values, and the library copies of their functions that take values.

    Args:
        sess: session that holds the values.
        input_graph_def: GraphDef of the session's graph.
        output_node_names: nodes to keep, with what they need.
        variable_names_whitelist: only these variables become constants.
        variable_names_blacklist: these do not.
    """
    graph = extract_sub_graph(input_graph_def, _names(output_node_names, "output_node_names"))
    white = None if variable_names_whitelist is None else set(variable_names_whitelist)
    black = set(variable_names_blacklist or ())
    nodes = {node.name: node for node in graph.node}
    fetches: dict[str, Any] = {}
    for node in graph.node:
        if (white is None or node.name in white) and node.name not in black:
            if not _makes_variable(node.op):
                continue
            if _gives_ref(node.op):
                fetches[node.name] = sess.graph.get_tensor_by_name(f"{node.name}:0")
            else:
                fetches[node.name] = _read_of(sess.graph, node.name)
    values = dict(zip(fetches, sess.run(list(fetches.values())), strict=True)) if fetches else {}

    frozen = _copy_without_nodes(graph)
    freezer = frozen_functions.Freezer(frozen, frozen_functions.refusal)
    for node in graph.node:
        variable = _variable_behind(nodes, node.input[0]) if node.input else None
        if frozen_functions.holds_functions(node.op):
            _append_call(frozen, node, freezer, nodes, values)
        elif node.name in values:
            frozen.node.append(_constant(node.name, node.attr["dtype"].type, values[node.name]))
        elif variable in values and frozen_functions.reads_whole(node.op):
            read = frozen.node.add()
            read.CopyFrom(node)
            frozen_functions.as_identity(read)
        elif variable in values and frozen_functions.reads_rows(node.op):
            _append_gather(frozen, node)
        elif variable in values and (passed_attr := frozen_functions.passed_attr(node.op)) is not None:
            passed = frozen.node.add()
            passed.CopyFrom(node)
            dtype = nodes[variable].attr["dtype"] if variable is not None else node.attr[passed_attr]
            if _gives_ref(node.op):
                passed.op = node.op.removeprefix("Ref")
            passed.attr[passed_attr].CopyFrom(dtype)
        else:
            frozen.node.add().CopyFrom(node)
            if variable in values and not _gives_ref(nodes[variable or ""].op):
                raise frozen_functions.refusal(node, variable or "")
    freezer.drop_replaced(frozen)
    return frozen


def _variable_behind(nodes: dict[str, Any], text: str) -> str | None:
    """The variable whose ref or handle arrives at an input, through pass-throughs; None for other inputs."""
    name = node_name(text)
    while name in nodes:
        node = nodes[name]
        if _makes_variable(node.op):
            return name
        passed_attr = frozen_functions.passed_attr(node.op)
        if passed_attr is None:
            return None
        if not _gives_ref(node.op) and node.attr[passed_attr].type != dtypes.resource.enum:
            return None
        name = node_name(node.input[0])
    return None


def _read_of(graph: Any, name: str) -> Any:
    """A tensor that reads the variable behind a handle op."""
    for consumer in graph.get_operation_by_name(name).outputs[0].consumers():
        if frozen_functions.reads_whole(consumer.type):
            return consumer.outputs[0]
    raise ValueError(
        errors.message(
            f"variable {name!r}, which the session's graph reads nowhere",
            "a ReadVariableOp of its handle",
            "call read_value() on the variable while the graph is built",
        )
    )


def _constant(name: str, dtype: int, value: Any) -> Any:
    node = graph_pb2.NodeDef(name=name, op="Const")
    element = dtypes.as_dtype(int(dtype)).base
    node.attr["dtype"].type = element.enum
    node.attr["value"].tensor.CopyFrom(attr_values.array_proto(np.asarray(value, element.np), element))
    return node


def _append_gather(graph_def: Any, node: Any) -> None:
    axis = f"{node.name}/axis"
    graph_def.node.append(_constant(axis, dtypes.int32.enum, 0))
    gather = graph_def.node.add()
    gather.CopyFrom(node)
    frozen_functions.as_gather(gather, axis)


def _append_call(
    graph_def: Any, node: Any, freezer: frozen_functions.Freezer, nodes: dict[str, Any], values: dict[str, Any]
) -> None:
    """Add a conditional, loop or call whose variables are values now."""
    call = graph_def.node.add()
    call.CopyFrom(node)
    handles: dict[int, int] = {}
    for position, text in enumerate(node.input):
        variable = None if text.startswith("^") else _variable_behind(nodes, text)
        if variable is None or variable not in values:
            continue
        if not _gives_ref(nodes[variable].op):
            handles[position] = nodes[variable].attr["dtype"].type
        else:
            freezer.references(node, {position}, variable)
    if handles:
        freezer.node(call, handles)


__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]
