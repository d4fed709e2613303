"""Nested bodies as functions of a GraphDef's library.

Policy. A file knows no nesting: a body becomes a FunctionDef, whose arguments are the body's arguments (the declared
ones, then the captures, which are inputs of the op that owns the body), and the op names it. A body that was read
from a function and has not changed since is written under that function's name, so that reading and writing a graph
leaves its library as it was. Only what its outputs and control outputs need is written: the rest never runs, but
another program might run what has an effect. A function that was written without control outputs means that all its
operations with an effect run (see :func:`implied_control_outputs`).

An argument that stands for a reference is written as one only if a body of the op writes to it: other programs take
values only. Reading makes it a reference again where the op's input is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import attr_values
from anabranch.core.protos import graph_pb2
from anabranch.core.values import dtypes

_WITHOUT_EFFECT = frozenset(("pure", "feed", "read"))


def bodies_of(op: Operation) -> list[Body]:
    """The nested bodies that an op holds as attributes."""
    bodies = []
    for value in op._attrs.values():
        if isinstance(value, Body):
            bodies.append(value)
        elif isinstance(value, tuple):
            bodies.extend(item for item in value if isinstance(item, Body))
    return bodies


def named_functions(op: Operation) -> Iterator[str]:
    """Names of functions and op types that an op's attributes mention."""
    for value in op._attrs.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, NamedAttrs):
                yield item.name


def state_of(body: Body) -> tuple[Any, ...]:
    """What changes when the body does, those inside of it apart; to compare with an earlier one."""
    return (
        tuple(body.args),
        tuple(body.outputs),
        tuple(body.control_outputs),
        tuple(
            (op, op._inputs, tuple(op._control_inputs), op._device, tuple(map(id, op._attrs.values())))
            for op in body.operations
        ),
    )


def is_as_read(body: Body) -> bool:
    """Whether the body was read from a function and has not changed since, nor have the bodies inside of it."""
    seen = {body}
    waiting = [body]
    while waiting:
        inner = waiting.pop()
        if inner.function is None or inner.state_as_read != state_of(inner):
            return False
        for op in inner.operations:
            held = [item for item in bodies_of(op) if item not in seen]
            seen.update(held)
            waiting += held
    return True


def function_name(body: Body) -> str:
    """The name of the body in the library of its graph; made when first asked for."""
    if is_as_read(body):
        assert body.function is not None
        return body.function.name
    graph = body.graph
    with graph._lock:
        name = body.function_name
        if name is None or name in graph._functions:
            base = name = re.sub(r"[^A-Za-z0-9_]", "_", body.library_name or body.name) or "body"
            count = 0
            while name in graph._functions or graph._function_names.get(name, body) is not body:
                count += 1
                name = f"{base}_{count}"
            graph._function_names[name] = body
            body.function_name = name
    return name


def function_reference(body: Body) -> Any:
    """The NameAttrList by which an op names the body."""
    if is_as_read(body):
        return attr_values.to_proto(body.function).func
    return graph_pb2.NameAttrList(name=function_name(body))


class _Names:
    """Names of arguments and results, made unique: lower case letters, digits and '_', as signatures ask for."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def make(self, name: str) -> str:
        base = re.sub(r"[^a-z0-9_]", "_", name.rpartition("/")[2].lower())
        base = base if base[:1].isalpha() else f"arg{base}" if base[:1] == "_" else f"arg_{base}"
        name, count = base, 0
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        return name


def output_name(tensor: Tensor) -> str:
    """The name of a tensor inside a function: node, output argument, index within that argument."""
    position = tensor.value_index
    op = tensor.op
    for spec in op.definition.outputs:
        count = spec.count(op._attrs)
        if position < count:
            return f"{op.name}:{spec.name}:{position}"
        position -= count
    raise AssertionError(f"{tensor.name} is not an output of {op.type}")


def function_def(body: Body) -> Any:
    """The FunctionDef of a nested body."""
    proto = graph_pb2.FunctionDef()
    signature = proto.signature
    signature.name = function_name(body)
    names = _Names()
    inside: dict[Tensor, str] = {}
    for index, arg in enumerate(body.args):
        name = names.make(arg.op.name)
        inside[arg] = name
        signature.input_arg.add(
            name=name, type=arg.dtype.base.enum, is_ref=arg.dtype.is_ref and body_ops.needs_reference(body, index)
        )
        attrs = proto.arg_attr[index].attr
        attrs["_output_shapes"].list.shape.append(attr_values.shape_proto(arg._shape))
        if arg._handle is not None:
            attrs["_handle_dtypes"].list.type.append(arg._handle.dtype.base.enum)
            attrs["_handle_shapes"].list.shape.append(attr_values.shape_proto(arg._handle.shape))
    results = _Names()
    for output in body.outputs:
        name = results.make(output.op.name)
        signature.output_arg.add(name=name, type=output.dtype.base.enum)
        proto.ret[name] = inside.get(output) or output_name(output)
    needed = needed_ops(body)
    for op in body.operations:
        if op.role is Role.ARGUMENT or op not in needed:
            continue
        node = proto.node_def.add(name=op.name, op=op.type, device=op._device)
        node.input.extend(inside.get(item) or output_name(item) for item in op._inputs)
        node.input.extend(
            f"^{name}" for name in sorted(c.name for c in op._control_inputs if c.role is not Role.ARGUMENT)
        )
        write_attrs(op, node)
        if op.definition.is_stateful and op.definition.effect.kind != "feed":
            signature.is_stateful = True
    for op in body.control_outputs:
        proto.control_ret[op.name] = op.name
        signature.control_output.append(op.name)
    return proto


def needed_ops(body: Body) -> set[Operation]:
    """The operations that the outputs and control outputs of a body need."""
    needed: set[Operation] = set()
    waiting = [output.op for output in body.outputs] + body.control_outputs
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [tensor.op for tensor in op._inputs]
            waiting += op._control_inputs
    return needed


def implied_control_outputs(body: Body) -> list[Operation]:
    """Operations with an effect that no output of a body needs: they run, if its function names no control outputs."""
    needed = needed_ops(body)
    return [op for op in body.operations if op not in needed and acts(op)]


def acts(op: Operation) -> bool:
    """Whether an op does something besides computing its outputs: has an effect, or may fail and gives nothing."""
    if op.definition.is_stateful and op.definition.effect.kind not in _WITHOUT_EFFECT:
        return True
    if op._inputs and not op._outputs:  # `Assert`, and ops with bodies that hold nothing else
        return True
    return any(acts(inner) for body in bodies_of(op) for inner in body.operations)


def write_attrs(op: Operation, node: Any) -> None:
    """Write the attributes of an op into a NodeDef."""
    specs = op.definition.attrs
    dtype = op._attrs.get("dtype")
    for key, value in op._attrs.items():
        message = attr_values.to_proto(
            value,
            specs.get(key),
            dtype=dtype if isinstance(dtype, dtypes.DType) else None,
            function_reference=function_reference,
        )
        node.attr[key].CopyFrom(message)
