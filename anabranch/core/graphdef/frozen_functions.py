"""Functions whose variables become constants: the part of `tf.graph_util.convert_variables_to_constants` inside bodies.

Policy. A conditional, loop or call that is given a variable's handle is given its value instead, and its functions are
copied with an argument of that type: what read the variable there passes the value on. A function that is called with
other arguments stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.roles import BODIES, Role
from anabranch.core.protos import graph_pb2
from anabranch.core.values import dtypes


def holds_functions(op_type: str) -> bool:
    """Whether nodes of this type call functions with their inputs."""
    definition = opdef.find(op_type)
    return definition is not None and definition.role in BODIES


def _types_of(op_type: str) -> tuple[str, int]:
    """Of a type that holds functions: the attribute with their inputs' types, and the first input that it covers."""
    definition = opdef.lookup(op_type)
    attr = definition.inputs[-1].type_list_attr
    assert attr is not None
    return attr, len(definition.inputs) - 1


def passed_attr(op_type: str) -> str | None:
    """The type attribute of an op that hands its first input on, whatever is in it; None for other ops."""
    definition = opdef.find(op_type)
    if definition is None or definition.passes is None or definition.effect.kind != "pure":
        return None
    operand = definition.inputs[0]
    return None if operand.name != definition.passes or operand.is_list else operand.type_attr


def reads_whole(op_type: str) -> bool:
    """Whether an op gives the value of the variable whose handle it takes."""
    definition = opdef.find(op_type)
    return definition is not None and definition.effect.kind == "read" and definition.passes is not None


def reads_rows(op_type: str) -> bool:
    """Whether an op gives rows of the variable whose handle it takes."""
    definition = opdef.find(op_type)
    return definition is not None and definition.effect.kind == "read" and definition.role is Role.ROWS


class Freezer:
    """Copy functions of a library for values in place of handles.

    Args:
        graph: the GraphDef whose library gets the copies.
        refuse: makes the error for a node that takes a handle and cannot do with a value.
    """

    def __init__(self, graph: Any, refuse: Callable[[Any, str], Exception]) -> None:
        self.library = graph.library
        self.refuse = refuse
        self.functions = {function.signature.name: function for function in graph.library.function}
        self.made: dict[tuple[str, tuple[tuple[int, int], ...]], str] = {}

    def node(self, node: Any, values: dict[int, int]) -> None:
        """Change a node that calls functions: its inputs at the positions ``values`` are values of these types now."""
        attr, first = _types_of(node.op)
        for position, dtype in values.items():
            node.attr[attr].list.type[position - first] = dtype
            if len(node.attr["output_shapes"].list.shape) > position and opdef.lookup(node.op).role is Role.LOOP:
                node.attr["output_shapes"].list.shape[position].Clear()
                node.attr["output_shapes"].list.shape[position].unknown_rank = True
        if "_read_only_resource_inputs" in node.attr:
            del node.attr["_read_only_resource_inputs"]
        arguments = tuple(sorted((position - first, dtype) for position, dtype in values.items()))
        for value in node.attr.values():
            if value.WhichOneof("value") == "func":
                value.func.name = self.function(value.func.name, arguments)
            elif value.WhichOneof("value") == "list":
                for item in value.list.func:
                    item.name = self.function(item.name, arguments)

    def references(self, node: Any, positions: set[int], variable: str) -> None:
        """Refuse functions that take a variable among these inputs as a reference: they write to it."""
        _, first = _types_of(node.op)
        for value in node.attr.values():
            names = [value.func.name] if value.WhichOneof("value") == "func" else [f.name for f in value.list.func]
            for name in names:
                arguments = self.functions[name].signature.input_arg if name in self.functions else ()
                if any(arg.is_ref for i, arg in enumerate(arguments) if i + first in positions):
                    raise self.refuse(node, variable)

    def function(self, name: str, values: tuple[tuple[int, int], ...]) -> str:
        """The name of a copy of a function that takes values of these types at these arguments."""
        key = name, values
        if key not in self.made:
            copy = graph_pb2.FunctionDef()
            copy.CopyFrom(self.functions[name])
            base = new = f"{name}_frozen"
            count = 0
            while new in self.functions:
                count += 1
                new = f"{base}_{count}"
            copy.signature.name = self.made[key] = new
            self.functions[new] = copy
            self._freeze(copy, dict(values))
            self.library.function.add().CopyFrom(copy)
        return self.made[key]

    def drop_replaced(self, graph: Any) -> None:
        """Take functions that were copied out of the library if nothing calls them any more."""
        called: set[str] = set()
        waiting = [graph.node]
        while waiting:
            for node in waiting.pop():
                for value in node.attr.values():
                    listed = [value.func] if value.WhichOneof("value") == "func" else value.list.func
                    for item in listed:
                        if item.name not in called and item.name in self.functions:
                            called.add(item.name)
                            waiting.append(self.functions[item.name].node_def)
        replaced = {name for name, _ in self.made} - called
        remaining = [function for function in self.library.function if function.signature.name not in replaced]
        del self.library.function[:]
        self.library.function.extend(remaining)

    def _freeze(self, function: Any, values: dict[int, int]) -> None:
        types: dict[str, int] = {}
        for position, dtype in values.items():
            arg = function.signature.input_arg[position]
            arg.type = dtype
            types[arg.name] = types[f"{arg.name}:0"] = dtype
            if position in function.arg_attr:
                del function.arg_attr[position]
        renamed: dict[str, str] = {}
        added: list[Any] = []
        for node in function.node_def:
            taken = {i: types[text] for i, text in enumerate(node.input) if text in types}
            if taken:
                self._inner(node, taken, types, renamed, added)
        function.node_def.extend(added)
        for node in function.node_def:
            for i, text in enumerate(node.input):
                node.input[i] = renamed.get(text, text)
        for output in function.signature.output_arg:
            source = function.ret.get(output.name, output.name)
            if source in types:
                output.type = types[source]
            function.ret[output.name] = renamed.get(source, source)

    def _inner(
        self, node: Any, taken: dict[int, int], types: dict[str, int], renamed: dict[str, str], added: list[Any]
    ) -> None:
        passed = passed_attr(node.op)
        if holds_functions(node.op):
            self.node(node, taken)
            if opdef.lookup(node.op).role is Role.LOOP:
                for position, dtype in taken.items():
                    types[f"{node.name}:output:{position}"] = dtype
        elif passed is not None and 0 in taken:
            node.attr[passed].type = taken[0]
            for output in opdef.lookup(node.op).outputs:
                types[f"{node.name}:{output.name}:0"] = taken[0]
        elif reads_whole(node.op):
            as_identity(node)
            renamed[f"{node.name}:value:0"] = f"{node.name}:output:0"
        elif reads_rows(node.op):
            axis = graph_pb2.NodeDef(name=f"{node.name}/axis", op="Const")
            axis.attr["dtype"].type = dtypes.int32.enum
            axis.attr["value"].tensor.dtype = dtypes.int32.enum
            axis.attr["value"].tensor.tensor_shape.SetInParent()
            axis.attr["value"].tensor.int_val.append(0)
            added.append(axis)
            as_gather(node, f"{axis.name}:output:0")
        else:
            raise self.refuse(node, node.input[min(taken)])


def as_identity(node: Any) -> None:
    """Make a `ReadVariableOp` an `Identity` of the value."""
    dtype = node.attr["dtype"].type
    node.op = "Identity"
    del node.attr["dtype"]
    node.attr["T"].type = dtype


def as_gather(node: Any, axis: str) -> None:
    """Make a `ResourceGather` a `GatherV2` along dimension 0."""
    params, indices = node.attr["dtype"].type, node.attr["Tindices"].type
    batch_dims = node.attr["batch_dims"].i if "batch_dims" in node.attr else 0
    colocated = list(node.attr["_class"].list.s) if "_class" in node.attr else []
    controls = [text for text in node.input if text.startswith("^")]
    inputs = [text for text in node.input if not text.startswith("^")]
    node.op = "GatherV2"
    node.attr.clear()
    node.attr["Tparams"].type = params
    node.attr["Tindices"].type = indices
    node.attr["Taxis"].type = dtypes.int32.enum
    node.attr["batch_dims"].i = batch_dims
    if colocated:
        node.attr["_class"].list.s.extend(colocated)
    del node.input[:]
    node.input.extend([*inputs, axis, *controls])


def refusal(node: Any, variable: str) -> Exception:
    """The error for a node that needs a variable, not its value."""
    return NotImplementedError(
        errors.message(
            f"node {node.name!r} of type {node.op!r}, which takes the variable {variable!r} itself",
            "reads and gathers of a variable that becomes a constant, and functions that do these",
            f"variable_names_blacklist=[{variable!r}], or outputs that do not need that node",
        )
    )


__all__ = [
    "Freezer",
    "as_gather",
    "as_identity",
    "holds_functions",
    "passed_attr",
    "reads_rows",
    "reads_whole",
    "refusal",
]
