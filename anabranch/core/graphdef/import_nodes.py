"""What a GraphDef's nodes mean, found out before anything is built: op types, attributes, edges, order.

Policy. Everything that can be refused without a graph is refused here, so that most bad files are reported whole: all
unknown op types in one error, with counts. Nodes may stand in any order. They are built in theirs where edges allow it,
smallest position first. A cycle is legal only where a `NextIteration` feeds a `Merge`, which is how loops were written
before loops were ops; such an edge does not count in the order.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.attrs import REQUIRED, NamedAttrs
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph.regions import MERGES, NEXTS
from anabranch.core.graphdef import attr_values
from anabranch.core.values import dtypes

# Attributes that TensorFlow gave to ops after its version 1, with their defaults; a definition need not have them.
_ADDED_LATER: dict[str, Any] = {
    "grad_a": False,
    "grad_b": False,
    "grad_x": False,
    "grad_y": False,
    "debug_name": "",
    "allowed_devices": (),
}

Source = tuple[str, int]
"""An edge's start: node (or argument) and output."""

MOST_SUGGESTED = 20
"""Names that are like theirs are looked for up to this many unknown op types of a graph."""
MOST_SHOWN = 20
"""So many nodes of a cycle are named."""


# The most tensors that a node may say its list has: a number in a file is no reason to make a list of that length.
MOST_TENSORS = 1 << 16


@dataclasses.dataclass(slots=True)
class Node:
    """A node whose parts have been checked one by one."""

    name: str
    definition: OpDefinition
    attrs: dict[str, Any]
    proto: Any
    inputs: list[Source]
    controls: list[str]
    output_shapes: tuple[Any, ...] | None
    back_edges: tuple[int, ...] = ()

    @property
    def output_dtypes(self) -> list[dtypes.DType]:
        """Dtype of each output."""
        return self.definition.output_dtypes(self.attrs)


def refuse(node: Any, given: str, expected: str, instead: str, first: str = "") -> ValueError:
    """The error of a node that cannot be read."""
    message = errors.message(f"node {node.name!r} ({node.op}) with {given}", expected, instead)
    return ValueError(f"{first}\n{message}" if first else message)


# ------------------------------------------------------------------------------------------------------------ op types
def check_types(nodes: Iterable[Any], library: dict[str, Any]) -> None:
    """Raise one NotImplementedError that names all op types without a definition, those inside functions too."""
    counts: collections.Counter[str] = collections.Counter()
    calls: collections.Counter[str] = collections.Counter()
    types: collections.Counter[str] = collections.Counter()
    seen: set[str] = set()
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            types[node.op] += 1
            for name in _functions_named(node):
                if name in library and name not in seen:
                    seen.add(name)
                    waiting.append(library[name].node_def)
    for op_type, count in types.items():
        if opdef.find(op_type) is None:
            (calls if op_type in library else counts)[op_type] = count
    if not counts and not calls:
        return
    known = opdef.all_definitions()
    lines = []
    for place, (op_type, count) in enumerate(sorted(counts.items())):
        near = difflib.get_close_matches(op_type, known, 3) if place < MOST_SUGGESTED else []
        lines.append(
            f"{op_type}: {count} node{'s' if count > 1 else ''}" + (f" (near: {', '.join(near)})" if near else "")
        )
    lines += [f"{name}: {count} call(s) of the library's function by its name" for name, count in sorted(calls.items())]
    raise NotImplementedError(
        f"Op type not registered {', '.join(repr(name) for name in sorted([*counts, *calls]))}\n"
        + errors.message(
            "a graph with op types that have no definition\n" + "\n".join(lines),
            f"the {len(known)} op types defined",
            "define them with `class Name(anabranch.Op): ...`, or cut the part that needs them off with "
            "tf.graph_util.extract_sub_graph; call functions through PartitionedCall",
        )
    )


def _functions_named(node: Any) -> list[str]:
    functions = []
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            functions.append(value.func.name)
        elif kind == "list":
            functions += [item.name for item in value.list.func]
    return functions


# ---------------------------------------------------------------------------------------------------------- attributes
def read_attrs(
    node: Any, definition: OpDefinition, producer: Any = None, given: dict[str, Any] | None = None
) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    """The complete stored attributes of a node, and its ``_output_shapes``.

    Args:
        node: the NodeDef.
        definition: its op type.
        producer: OpDef of the op type in the program that wrote the file, if known.
        given: values of a function's placeholders.
    """
    attrs: dict[str, Any] = {}
    output_shapes: tuple[Any, ...] | None = None
    unknown: list[str] = []
    for key, proto in node.attr.items():
        if proto.WhichOneof("value") == "placeholder" and given is not None:
            if proto.placeholder not in given:
                raise refuse(
                    node, f"attribute {key!r} = ${proto.placeholder}", f"one of {sorted(given)}", "give it a value"
                )
            proto = attr_values.to_proto(given[proto.placeholder])
        spec = definition.attrs.get(key)
        if spec is None and key[:1] != "_":
            if not _is_default_of_producer(key, proto, producer):
                unknown.append(key)
            continue
        try:
            value = attr_values.from_proto(proto, spec)
            attrs[key] = value if spec is None else spec.convert(value, key, definition.type_name)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"Node {node.name!r}: attribute {key!r} cannot be read: {problem}") from None
    listed = attrs.pop("_output_shapes", None)
    if isinstance(listed, tuple):
        output_shapes = listed
    if unknown:
        raise refuse(
            node,
            f"attribute(s) {sorted(unknown)}",
            f"attributes among {sorted(definition.attrs)}",
            "producer_op_list= (the writer's OpList: attributes at their default there are dropped), or delete them",
            f"NodeDef mentions attr {unknown[0]!r} not in Op<name={node.op}>",
        )
    missing = []
    for key, spec in definition.attrs.items():
        if key not in attrs:
            if spec.default is REQUIRED:
                missing.append(key)
            attrs[key] = spec.default
    if missing:
        raise refuse(
            node,
            f"no value for {missing}",
            "all attributes without default",
            f"node.attr[{missing[0]!r}] = AttrValue(...)",
            f"NodeDef missing attr {missing[0]!r} from Op<name={node.op}>",
        )
    _check_value_dtype(node, attrs)
    _check_counts(node, definition, attrs)
    groups = attrs.get("_class", ())
    if not isinstance(groups, tuple) or not all(isinstance(item, str) for item in groups):
        raise refuse(node, f"attribute '_class' = {groups!r}", "a list of UTF-8 strings", "['loc:@name'], or delete it")
    return attrs, output_shapes


def _check_counts(node: Any, definition: OpDefinition, attrs: dict[str, Any]) -> None:
    """Refuse counts of tensors that nothing in the file backs before lists of that length are made."""
    for specs, most in ((definition.inputs, max(MOST_TENSORS, len(node.input))), (definition.outputs, MOST_TENSORS)):
        for spec in specs:
            if spec.number_attr is not None and attrs[spec.number_attr] > most:
                raise refuse(
                    node,
                    f"{spec.number_attr} = {attrs[spec.number_attr]} tensors for {spec.name!r}",
                    f"at most {most}",
                    f"as many as there are: {len(node.input)} inputs are given",
                )


def _is_default_of_producer(key: str, proto: Any, producer: Any) -> bool:
    if producer is not None:
        for attr in producer.attr:
            if attr.name == key:
                return attr.HasField("default_value") and attr.default_value == proto
    return key in _ADDED_LATER and attr_values.from_proto(proto) == _ADDED_LATER[key]


def _check_value_dtype(node: Any, attrs: dict[str, Any]) -> None:
    dtype = attrs.get("dtype")
    if "value" in node.attr and node.attr["value"].WhichOneof("value") == "tensor" and isinstance(dtype, dtypes.DType):
        actual = dtypes.as_dtype(int(node.attr["value"].tensor.dtype))
        if actual.base != dtype.base:
            raise refuse(
                node, f"a value of dtype {actual.name}", f"{dtype.name}, as its attribute 'dtype' says", "cast it"
            )


def forget_scalar_placeholders(nodes: Iterable[Node]) -> None:
    """Take the shape of placeholders that are written as scalars for unknown.

    Old producers could not write an unknown shape: they wrote that of a scalar in its place.
    """
    for node in nodes:
        shape = node.definition.attrs.get("shape")
        # The shape of PlaceholderV2 and PlaceholderWithDefault must be given, and means what it says.
        optional = shape is not None and shape.default is not REQUIRED
        if node.definition.role is Role.PLACEHOLDER and optional and node.attrs["shape"] == ():
            node.attrs["shape"] = None


# --------------------------------------------------------------------------------------------------------------- edges
def parse(
    protos: Sequence[Any],
    producers: dict[str, Any] | None = None,
    *,
    function: bool = False,
    given: dict[str, Any] | None = None,
) -> dict[str, Node]:
    """The nodes by name, in the file's order; ``function``: their inputs are written as functions write them."""
    nodes: dict[str, Node] = {}
    for proto in protos:
        if proto.name in nodes:
            raise ValueError(
                f"Node {proto.name!r} is not unique\n"
                + errors.message(f"two nodes called {proto.name!r}", "one node per name", "rename one of them")
            )
        definition = opdef.lookup(proto.op)
        attrs, output_shapes = read_attrs(proto, definition, (producers or {}).get(proto.op), given)
        nodes[proto.name] = Node(proto.name, definition, attrs, proto, [], [], output_shapes)
    for node in nodes.values():
        for text in node.proto.input:
            if text.startswith("^"):
                node.controls.append(text[1:])
            elif node.controls:
                raise refuse(
                    node.proto, f"input {text!r} after a control input", "control inputs last", "put them at the end"
                )
            elif function:
                node.inputs += function_sources(nodes, text)
            else:
                node.inputs.append(source(text))
    return nodes


def source(text: str) -> Source:
    """The edge start that ``"node"`` or ``"node:1"`` means."""
    name, colon, index = text.rpartition(":")
    return (name, int(index)) if colon and index.isdecimal() else (text, 0)


def _place(text: str, digits: str) -> int:
    if digits.isdecimal():
        return int(digits)
    raise ValueError(
        errors.message(f"input {text!r} of a function's node", "argument, argument:1 or node:output:1", "give a number")
    )


def function_sources(nodes: dict[str, Node], text: str) -> list[Source]:
    """The edge starts that an input of a function's node means: ``arg``, ``arg:1``, ``node:out`` or ``node:out:1``."""
    parts = text.split(":")
    node = nodes.get(parts[0])
    if node is None:
        return [(parts[0], _place(text, parts[1]) if len(parts) > 1 else 0)]
    position = 0
    for spec in node.definition.outputs:
        count = spec.count(node.attrs)
        if len(parts) > 1 and spec.name == parts[1]:
            if len(parts) <= 2:
                return [(node.name, position + i) for i in range(count)]
            place = _place(text, parts[2])
            if place < count:
                return [(node.name, position + place)]
            raise refuse(node.proto, f"output {text!r} asked for", f"an index below {count}", "check the index")
        position += count
    raise refuse(
        node.proto,
        f"output {text!r} asked for",
        f"outputs {[spec.name for spec in node.definition.outputs]}",
        "write node:output:index in a function",
    )


def check_edges(
    nodes: dict[str, Node],
    outside: dict[Source, Any],
    outside_controls: Iterable[str],
    prefix: str = "",
    function: bool = False,
) -> None:
    """Check that every input exists, once per place and with the right dtype; mark the back edges of loops.

    Args:
        nodes: the nodes by name.
        outside: tensors of the graph by the edges that they stand for.
        outside_controls: names of control inputs that come from the graph.
        prefix: what new names begin with, for errors.
        function: whether inputs are written as functions write them.
    """
    controls = set(outside_controls)
    types: dict[str, list[dtypes.DType]] = {}
    for node in nodes.values():
        wanted = node.definition.input_dtypes(node.attrs)
        texts: list[Any] = list(node.inputs)
        if not function:
            texts = [text for text in node.proto.input if not text.startswith("^")]
        for edge, text in zip(node.inputs, texts, strict=True):
            if edge not in outside and edge[0] not in nodes:
                raise refuse(
                    node.proto,
                    f"input {edge[0]!r}, which is not a node of the graph",
                    "inputs among its nodes",
                    f"add the node, or map it: input_map={{'{edge[0]}:{edge[1]}': tensor}}",
                    f"Node {node.name!r}: Unknown input node {text!r}",
                )
        if len(wanted) != len(node.inputs):
            raise refuse(
                node.proto,
                f"{len(node.inputs)} inputs",
                f"{len(wanted)}, as its attributes and signature say",
                "give it that many",
                f"NodeDef expected inputs '{', '.join(map(dtypes.proto_name, wanted))}' do not match "
                f"{len(node.inputs)} inputs specified",
            )
        back = []
        for position, (edge, dtype) in enumerate(zip(node.inputs, wanted, strict=True)):
            mapped = outside.get(edge)
            output = None if mapped is None else mapped.dtype
            if output is None:
                start = nodes[edge[0]]
                outputs = types.get(edge[0])
                if outputs is None:
                    outputs = types[edge[0]] = start.output_dtypes
                if edge[1] >= len(outputs):
                    raise refuse(
                        node.proto,
                        f"input {edge[0]}:{edge[1]}",
                        f"an output below {len(outputs)}",
                        "check the index",
                        f"Node {node.name!r}: Connecting to invalid output {edge[1]} of source node {edge[0]} "
                        f"which has {len(outputs)} outputs",
                    )
                output = outputs[edge[1]]
                if node.definition.type_name in MERGES and start.definition.type_name in NEXTS:
                    back.append(position)
            if output.base != dtype.base or (dtype.is_ref and not output.is_ref):
                raise refuse(
                    node.proto,
                    f"input {position} of dtype {output.name}",
                    dtype.name,
                    "cast it, or map another tensor",
                    f"Input {position} of node {prefix}{node.name} was passed {dtypes.proto_name(output)} from "
                    f"{f'{prefix}{edge[0]}:{edge[1]}' if mapped is None else mapped.name} "
                    f"incompatible with expected {dtypes.proto_name(dtype)}.",
                )
        node.back_edges = tuple(back)
        for name in node.controls:
            if name not in nodes and name not in controls:
                raise refuse(
                    node.proto,
                    f"control input {name!r}, which is not a node of the graph",
                    "control inputs among its nodes",
                    f"add the node, or map it: input_map={{'^{name}': op}}",
                    f"Node {node.name!r}: Unknown input node '^{name}'",
                )


def in_order(nodes: dict[str, Node], outside: Iterable[Source], outside_controls: Iterable[str]) -> list[Node]:
    """The nodes in an order in which they can be built; ValueError that shows a cycle that is not a loop's."""
    mapped, mapped_controls = set(outside), set(outside_controls)
    position = {name: i for i, name in enumerate(nodes)}
    listed = list(nodes.values())
    consumers: list[list[int]] = [[] for _ in listed]
    pending = [0] * len(listed)
    for i, node in enumerate(listed):
        starts = {edge[0] for k, edge in enumerate(node.inputs) if edge not in mapped and k not in node.back_edges}
        starts |= {name for name in node.controls if name not in mapped_controls}
        starts &= position.keys()
        pending[i] = len(starts)
        for name in starts:
            consumers[position[name]].append(i)
    ready = [i for i, count in enumerate(pending) if not count]
    ordered: list[Node] = []
    while ready:
        i = heapq.heappop(ready)
        ordered.append(listed[i])
        for consumer in consumers[i]:
            pending[consumer] -= 1
            if not pending[consumer]:
                heapq.heappush(ready, consumer)
    if len(ordered) < len(listed):
        _refuse_cycle(listed, pending, position)
    return ordered


def _refuse_cycle(listed: list[Node], pending: list[int], position: dict[str, int]) -> None:
    """Walk back along nodes that wait until one comes twice."""
    at = next(i for i, count in enumerate(pending) if count)
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        node = listed[at]
        starts = [edge[0] for k, edge in enumerate(node.inputs) if k not in node.back_edges] + node.controls
        at = next(position[name] for name in starts if name in position and pending[position[name]])
    walked = list(path)
    names = [listed[i].name for i in reversed([*walked[walked.index(at) :], at])]
    if len(names) > MOST_SHOWN:
        names[MOST_SHOWN // 2 : -MOST_SHOWN // 2] = [f"... ({len(names) - MOST_SHOWN} more)"]
    raise ValueError(
        errors.message(
            f"a graph with the cycle {' -> '.join(names)}",
            "no cycle, but for the edge from a NextIteration to a Merge",
            "cut it, or write it as a tf.while_loop",
        )
    )


def check_functions(nodes: Iterable[Node], library: dict[str, Any]) -> None:
    """Check that function names in attributes are functions of the library or op types."""
    for node in nodes:
        for value in node.attrs.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, NamedAttrs) and item.name not in library and opdef.find(item.name) is None:
                    raise refuse(
                        node.proto,
                        f"function {item.name!r}",
                        f"a function of the library ({', '.join(sorted(library)) or 'it is empty'}) or an op type",
                        "add the FunctionDef to graph_def.library",
                    )
