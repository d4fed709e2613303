"""Well-formedness of graphs as code: what every graph keeps to, whatever built or rewrote it.

Policy. A rewrite that breaks an invariant shows as a wrong number much later, if at all; :func:`verify_graph` finds
it at once, and shows the operation with its neighbours. Levels, each with all before it:

``structure``: operations are indexed by name and creation index and stand in one body each; every input is an
output of an operation of the same body; consumers, control edges and captures are written at both ends; operations
come after their inputs, but for the edge from a `NextIteration` to a `Merge`; attributes are complete and in stored
form; dtypes are those of the contract; the arguments and outputs of bodies line up with the inputs and outputs of
their op.
``shapes``: shape rules, run again, agree with the static shapes of outputs.
``effects``: operands that an effect is on are refs or handles; ops with the effect of a body have one.
``full``: all of it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.attrs import Attr, NamedAttrs
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of as body_uses
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import MERGES, NEXTS
from anabranch.core.graphdef.function_def import bodies_of
from anabranch.core.values import dtypes, shapes

LEVELS = ("structure", "shapes", "effects", "full")
MOST_PROBLEMS = 10

_Problem = tuple[Operation | None, str]


class InvalidGraphError(errors.InternalError):
    """A graph breaks an invariant: a defect of the code that built or rewrote it."""


def verify_graph(graph: Graph, level: str = "full") -> None:
    """Raise InvalidGraphError if the graph breaks an invariant.

    Args:
        graph: the graph, nested bodies included.
        level: how far to look; see the module's docstring.
    """
    if level not in LEVELS:
        raise ValueError(errors.message(f"level={level!r}", f"one of {', '.join(LEVELS)}", 'level="full"'))
    problems: list[_Problem] = []
    with graph._lock:
        for name, check in (("structure", _structure), ("shapes", _shapes), ("effects", _effects)):
            for problem in check(graph):
                problems.append(problem)
                if len(problems) == MOST_PROBLEMS:
                    break
            # What stands on a broken structure says nothing.
            if problems or name == level:
                break
    if problems:
        listed = "\n".join(_told(op, text) for op, text in problems)
        raise InvalidGraphError(None, problems[0][0], f"the graph is not well formed:\n{listed}")


def show_neighbours(op: Operation) -> str:
    """An operation with its inputs, control edges and consumers, for messages."""
    lines = [f"  {op.type} {op.name!r} in body {op.body.name!r}, index {op._id}, device {op._device!r}"]
    for i, tensor in enumerate(op._inputs):
        lines.append(f"    input {i}: {_tensor(tensor)} from {tensor.op.type}")
    for control in op._control_inputs:
        lines.append(f"    after: {control.name} ({control.type})")
    for tensor in op._outputs:
        readers = ", ".join(f"{reader.name} ({reader.type})" for reader in tensor.consumers()[:5]) or "nothing"
        lines.append(f"    output {tensor.value_index}: {_tensor(tensor)} to {readers}")
    for control in op._control_outputs[:5]:
        lines.append(f"    before: {control.name} ({control.type})")
    return "\n".join(lines)


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name} {tensor.dtype.name} {shapes.show(tensor._shape)}"


def _told(op: Operation | None, text: str) -> str:
    if op is None:
        return text
    site = f"\n    made at {op.user_site}" if op.user_site is not None else ""
    return f"{text}\n{show_neighbours(op)}{site}"


# ----------------------------------------------------------------------------------------------------------- structure
def _structure(graph: Graph) -> Iterator[_Problem]:
    yield from _index(graph)
    bodies = dict.fromkeys([graph.root, *(op.body for op in graph._operations)])
    for body in bodies:
        yield from _body(graph, body)
    for op in graph._operations:
        yield from _inputs(graph, op)
        wrong = list(_attributes(op))
        yield from wrong or _types(op)  # dtypes follow from attributes
    yield from _controls(graph)
    yield from _consumers(graph)


def _holds(graph: Graph, op: Operation) -> bool:
    return op._id < len(graph._operations) and graph._operations[op._id] is op


def _index(graph: Graph) -> Iterator[_Problem]:
    listed = {body: set(body.operations) for body in {op.body for op in graph._operations}}
    for index, op in enumerate(graph._operations):
        if op._id != index:
            yield op, f"operation {op.name!r} has index {op._id} and stands at {index}"
        if op.graph is not graph:
            yield op, f"operation {op.name!r} says that it is of another graph"
        if graph._by_name.get(op.name) is not op:
            other = graph._by_name.get(op.name)
            shown = "nothing" if other is None else f"the {other.type} of index {other._id}"
            yield op, f"the name {op.name!r} finds {shown}"
        if op not in listed[op.body]:
            yield op, f"operation {op.name!r} is not among the operations of its body {op.body.name!r}"
    if len(graph._by_name) > len(graph._operations):
        extra = sorted(graph._by_name.keys() - {op.name for op in graph._operations})
        yield None, f"names {extra} find operations that the graph does not hold"


def _body(graph: Graph, body: Body) -> Iterator[_Problem]:
    for op in body.operations:
        if op.body is not body or not _holds(graph, op):
            yield op, f"body {body.name!r} lists {op.name!r}, which says that it is in {op.body.name!r}"
    order = [op._id for op in body.operations]
    if order != sorted(set(order)):
        yield None, f"operations of body {body.name!r} do not stand in the order of creation"
    if body.is_root:
        return
    parent = body.parent
    assert parent is not None
    for index, arg in enumerate(body.args):
        if arg.op.role is not Role.ARGUMENT or arg.op.body is not body or arg.op._attrs.get("index") != index:
            yield arg.op, f"argument {index} of body {body.name!r} is {arg.name}, which is not its _Arg of that index"
    for outer, inner in body.captures.items():
        if inner not in body.args:
            yield inner.op, f"body {body.name!r} captures {outer.name} as {inner.name}, which is none of its arguments"
        if outer.op.body is body or not outer.op.body.encloses(body):
            yield outer.op, f"body {body.name!r} captures {outer.name} of body {outer.op.body.name!r}, not around it"
        if outer.dtype.base != inner.dtype.base:
            yield inner.op, f"body {body.name!r} captures {_tensor(outer)} as {_tensor(inner)}"
        if body.owner is not None and outer.op.body is parent and outer not in body.owner._inputs:
            yield body.owner, f"{outer.name}, which body {body.name!r} captures, is not an input of {body.owner.name!r}"
    for output in body.outputs:
        if output.op.body is not body:
            yield output.op, f"body {body.name!r} returns {output.name} of body {output.op.body.name!r}"
    owner = body.owner
    if owner is not None and not body.shared:
        if not _holds(graph, owner) or body not in bodies_of(owner):
            yield owner, f"the owner {owner.name!r} of body {body.name!r} does not hold it as an attribute"
        elif owner.body is not parent:
            yield owner, f"the owner {owner.name!r} of body {body.name!r} is not in the body around it, {parent.name!r}"


def is_back_edge(source: Operation, target: Operation) -> bool:
    """Whether an edge closes a loop, which is legal."""
    return source.type in NEXTS and target.type in MERGES


def _inputs(graph: Graph, op: Operation) -> Iterator[_Problem]:
    for index, tensor in enumerate(op._inputs):
        source = tensor.op
        if not _holds(graph, source):
            yield (
                op,
                f"input {index} of {op.name!r}, {tensor.name}, comes from an operation that the graph does not hold",
            )
            continue
        if tensor.value_index >= len(source._outputs) or source._outputs[tensor.value_index] is not tensor:
            yield op, f"input {index} of {op.name!r}, {tensor.name}, is not an output of {source.name!r}"
        if source.body is not op.body:
            yield (
                op,
                f"input {index} of {op.name!r}, {tensor.name}, is of body {source.body.name!r} and was not captured "
                f"by {op.body.name!r}",
            )
        if source._id >= op._id and not is_back_edge(source, op):
            yield op, f"input {index} of {op.name!r}, {tensor.name}, was made after it"


def _consumers(graph: Graph) -> Iterator[_Problem]:
    """Inputs and consumers are the same edges, seen from both ends."""
    taken = collections.Counter((tensor, op) for op in graph._operations for tensor in op._inputs)
    listed = collections.Counter(
        (tensor, consumer) for op in graph._operations for tensor in op._outputs for consumer in tensor._consumers
    )
    for tensor, op in taken.keys() | listed.keys():
        if taken[tensor, op] != listed[tensor, op]:
            yield (
                op,
                f"{tensor.name} lists {op.name!r} {listed[tensor, op]} time(s) as a consumer, which takes it "
                f"{taken[tensor, op]} time(s)",
            )


def _controls(graph: Graph) -> Iterator[_Problem]:
    listed = {(control, op) for control in graph._operations for op in control._control_outputs}
    taken = {(control, op) for op in graph._operations for control in op._control_inputs}
    for control, op in taken - listed:
        yield op, f"{control.name!r} does not list {op.name!r} as a control output"
    for control, op in listed - taken:
        yield control, f"{control.name!r} lists the control output {op.name!r}, which does not depend on it"
    for op in graph._operations:
        if len(set(op._control_inputs)) != len(op._control_inputs):
            yield op, f"a control input of {op.name!r} comes twice"
        for control in op._control_inputs:
            if not _holds(graph, control):
                yield op, f"control input {control.name!r} of {op.name!r} is not in the graph"
            elif control.body is not op.body:
                yield op, f"control input {control.name!r} of {op.name!r} is in body {control.body.name!r}"
            if control._id >= op._id:
                yield op, f"control input {control.name!r} of {op.name!r} was made after it"


_STORED: dict[str, Any] = {
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) is float,
    "bool": lambda value: type(value) is bool,
    "string": lambda value: type(value) in (str, bytes),
    "type": lambda value: type(value) is dtypes.DType,
    "shape": lambda value: (
        value is None or (type(value) is tuple and all(d is None or (type(d) is int and d >= 0) for d in value))
    ),
    "tensor": lambda value: type(value) is np.ndarray and not value.flags.writeable,
    "func": lambda value: isinstance(value, (Body, NamedAttrs)),
}


def _is_stored(value: Any, spec: Attr) -> bool:
    check = _STORED[spec.element]
    return type(value) is tuple and all(map(check, value)) if spec.is_list else check(value)


def _attributes(op: Operation) -> Iterator[_Problem]:
    for key, spec in op.definition.attrs.items():
        if key not in op._attrs:
            yield op, f"attribute {key!r} of {op.name!r} is missing"
        elif not _is_stored(op._attrs[key], spec):
            yield op, f"attribute {key!r} of {op.name!r} = {op._attrs[key]!r} is not a {spec.kind} in stored form"
        else:
            try:
                spec.convert(op._attrs[key], key, op.type)
            except (TypeError, ValueError) as problem:
                yield op, f"attribute {key!r} of {op.name!r} is not allowed: {problem}"
    for key in op._attrs:
        if key not in op.definition.attrs and key[:1] != "_":
            yield op, f"attribute {key!r} of {op.name!r} is not in the contract of {op.type}"
    for body in bodies_of(op):
        if body.owner is not op and not body.shared:
            shown = "no owner" if body.owner is None else f"the owner {body.owner.name!r}"
            yield op, f"body {body.name!r}, which {op.name!r} holds, has {shown}"
    yield from _lined_up(op)


def _lined_up(op: Operation) -> Iterator[_Problem]:
    """The arguments of bodies are the inputs of their op, in order; a loop's outputs are its variables."""
    for use in body_uses(op):
        body, inputs = use.body, op._inputs[use.first :]
        if len(body.args) != len(inputs):
            yield op, f"body {body.name!r} has {len(body.args)} arguments for {len(inputs)} inputs of {op.name!r}"
            continue
        for arg, tensor in zip(body.args, inputs, strict=True):
            if arg.dtype != tensor.dtype and (arg.dtype.is_ref or arg.dtype != tensor.dtype.base):
                yield op, f"{arg.name} of body {body.name!r} is {arg.dtype.name}, the input {_tensor(tensor)}"
        for outer, inner in body.captures.items():
            if outer.op.body is op.body and inner in body.args and inputs[body.args.index(inner)] is not outer:
                yield op, f"body {body.name!r} captures {outer.name} as {inner.name}, which stands for another input"
        for control in body.control_outputs:
            if control.body is not body:
                yield control, f"control output {control.name!r} of body {body.name!r} is in {control.body.name!r}"
        if op.role is not Role.LOOP:
            returned = [output.dtype.base for output in op._outputs]
        elif use.attr == "cond":
            returned = [body.outputs[0].dtype.base] if len(body.outputs) == 1 else []
            if len(body.outputs) != 1:
                yield op, f"condition {body.name!r} of {op.name!r} has {len(body.outputs)} outputs"
        else:
            returned = [tensor.dtype.base for tensor in inputs]
        if [output.dtype.base for output in body.outputs] != returned:
            listed = [output.dtype.base.name for output in body.outputs]
            yield op, f"body {body.name!r} of {op.name!r} returns {listed}, not {[dtype.name for dtype in returned]}"


def _types(op: Operation) -> Iterator[_Problem]:
    wanted, actual = op.definition.input_dtypes(op._attrs), op.definition.output_dtypes(op._attrs)
    if len(wanted) != len(op._inputs):
        yield op, f"{op.name!r} has {len(op._inputs)} inputs, its contract {len(wanted)}"
    for index, (dtype, tensor) in enumerate(zip(wanted, op._inputs, strict=False)):
        if tensor.dtype.base != dtype.base or (dtype.is_ref and not tensor.dtype.is_ref):
            yield op, f"input {index} of {op.name!r} is {tensor.dtype.name}, its contract says {dtype.name}"
    if len(actual) != len(op._outputs):
        yield op, f"{op.name!r} has {len(op._outputs)} outputs, its contract {len(actual)}"
    for index, (dtype, tensor) in enumerate(zip(actual, op._outputs, strict=False)):
        if tensor.dtype != dtype:
            yield op, f"output {index} of {op.name!r} is {tensor.dtype.name}, its contract says {dtype.name}"
        if tensor.op is not op or tensor.value_index != index:
            yield op, f"output {index} of {op.name!r} says that it is {tensor.name}"


# -------------------------------------------------------------------------------------------------------------- shapes
def _shapes(graph: Graph) -> Iterator[_Problem]:
    for op in graph._operations:
        if any(is_back_edge(tensor.op, op) for tensor in op._inputs):
            continue  # its shape holds for all iterations; the rule would see one of them
        context = inference.ShapeContext(op.definition, op._attrs, op._inputs, [t._shape for t in op._inputs])
        try:
            dims = inference.infer(op.definition, context, len(op._outputs))
        except (ValueError, TypeError) as problem:
            yield op, f"the shape rule of {op.name!r} refuses its inputs: {problem}"
            continue
        for tensor, shape in zip(op._outputs, dims, strict=True):
            if not shapes.is_compatible(tensor._shape, shape):
                yield (
                    op,
                    f"output {tensor.value_index} of {op.name!r} has the shape {shapes.show(tensor._shape)}, "
                    f"its rule says {shapes.show(shape)}",
                )
            handle = context.output_handles.get(tensor.value_index)
            if handle is not None and tensor._handle is not None and handle.dtype != tensor._handle.dtype:
                yield (
                    op,
                    f"output {tensor.value_index} of {op.name!r} is a handle to {tensor._handle.dtype.name}, "
                    f"its rule says {handle.dtype.name}",
                )


# ------------------------------------------------------------------------------------------------------------- effects
def _effects(graph: Graph) -> Iterator[_Problem]:
    for op in graph._operations:
        effect = op.definition.effect
        for operand, position in zip(effect.resources, op.definition.resource_positions(op._attrs), strict=True):
            tensor = op._inputs[position]
            if not tensor.dtype.is_ref and tensor.dtype.base.name not in ("resource", "variant"):
                yield (
                    op,
                    f"the {effect.kind} of {op.name!r} is on {operand!r}, a {tensor.dtype.name}: no ref, no handle",
                )
        if effect.kind == "body" and not any(spec.element == "func" for spec in op.definition.attrs.values()):
            yield op, f"{op.name!r} has the effect of a body and no attribute that could hold one"
