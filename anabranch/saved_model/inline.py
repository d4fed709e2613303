"""Library functions without calls: what a call does stands where the call stood.

TensorFlow 2 writes a model as functions that call functions, ten deep for a Keras model. A signature needs none of
them: its body with all calls replaced by the bodies of what they call, to the last, is a plain graph in which
handles that were captured are those of the model's variables. Bodies of loops and conditionals stay functions, each
without calls of its own.

Inside a function an edge is ``argument``, ``node:output:index`` or ``^node``. A call's node ``c`` becomes nodes
``c/...``; what took its output ``k`` takes what the callee returns there. What waited for the call waits for a `NoOp`
that waits for what the callee returns and for its effects; what the call waited for, its effects wait for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.protos import graph_pb2

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))


@dataclasses.dataclass
class Flat:
    """A function without calls."""

    signature: Any
    """Its OpDef: names and dtypes of arguments and results."""
    arg_attr: Any
    nodes: list[Any]
    """NodeDefs with a function's edges."""
    returns: list[str]
    """Edge of each result."""
    effects: list[str]
    """Nodes that run although no result needs them."""


class Inliner:
    """Give functions of a library without calls.

    Args:
        library: FunctionDefs by name.
    """

    def __init__(self, library: dict[str, Any]) -> None:
        self.library = library
        self._flat: dict[str, Flat] = {}
        self._inside: list[str] = []

    def flat(self, name: str) -> Flat:
        """The function ``name`` without calls.

        Raises:
            KeyError: there is no such function. NotImplementedError: it calls itself.
        """
        function = self._flat.get(name)
        if function is None:
            if name in self._inside:
                raise NotImplementedError(
                    errors.message(
                        f"function {name!r}, which calls itself ({' -> '.join(self._inside)})",
                        "functions that end",
                        "write the recursion as a tf.while_loop",
                    )
                )
            if name not in self.library:
                raise ValueError(
                    errors.message(
                        f"a call of function {name!r}",
                        f"one of the {len(self.library)} functions of the model's library",
                        "save the model again: its description is not whole",
                    )
                )
            self._inside.append(name)
            function = self._flat[name] = _flatten(self, self.library[name])
            self._inside.pop()
        return function

    def callee(self, node: Any) -> tuple[str, Any] | None:
        """Name and attributes of the function that a node calls; None if it is not a call."""
        if node.op in CALLS:
            return node.attr["f"].func.name, node.attr["f"].func.attr
        if node.op in self.library and opdef.find(node.op) is None:
            return node.op, node.attr
        return None

    def functions_for(self, nodes: Iterable[Any]) -> list[Any]:
        """FunctionDefs without calls of the bodies that ``nodes`` name, theirs included."""
        functions: dict[str, Any] = {}
        waiting = list(nodes)
        while waiting:
            for name in functions_named(waiting.pop()):
                if name not in functions and name in self.library:
                    functions[name] = self._as_function(name)
                    waiting.extend(functions[name].node_def)
        return list(functions.values())

    def _as_function(self, name: str) -> Any:
        flat, original = self.flat(name), self.library[name]
        proto = graph_pb2.FunctionDef()
        proto.signature.CopyFrom(original.signature)
        for index, attrs in original.arg_attr.items():
            proto.arg_attr[index].CopyFrom(attrs)
        proto.node_def.extend(flat.nodes)
        for output, edge in zip(original.signature.output_arg, flat.returns, strict=True):
            proto.ret[output.name] = edge
        del proto.signature.control_output[:]
        for effect in flat.effects:
            proto.control_ret[effect] = effect
            proto.signature.control_output.append(effect)
        return proto


def functions_named(node: Any) -> Iterator[str]:
    """Names of functions that a node's attributes mention."""
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            yield value.func.name
        elif kind == "list":
            for item in value.list.func:
                yield item.name


def _flatten(inliner: Inliner, function: Any) -> Flat:
    signature = function.signature
    arguments = {arg.name for arg in signature.input_arg}
    taken = {node.name for node in function.node_def} | arguments
    _check_edges(function, taken)
    controlled = {text[1:] for node in function.node_def for text in node.input if text.startswith("^")}
    nodes: list[Any] = []
    results: dict[str, list[str]] = {}
    """Edges that stand for the outputs of each call, by the call's name."""
    inner_effects: dict[str, list[str]] = {}
    listed = set(function.control_ret.values())
    for node in function.node_def:
        called = inliner.callee(node)
        if called is None:
            copy = graph_pb2.NodeDef()
            copy.CopyFrom(node)
            nodes.append(copy)
            continue
        name, attrs = called
        nodes_added, results[node.name], inner_effects[node.name] = _body_of_call(inliner, node, name, attrs, taken)
        nodes += nodes_added
        if node.name in controlled:
            waits = dict.fromkeys(
                [f"^{effect}" for effect in inner_effects[node.name]]
                + [f"^{edge.partition(':')[0]}" for edge in results[node.name]]
                + [text for text in node.input if text.startswith("^")]
            )
            done = graph_pb2.NodeDef(name=node.name, op="NoOp")
            done.input.extend(text for text in waits if text[1:] not in arguments)
            nodes.append(done)
    for node in nodes:
        given = [_resolved(text, results) for text in node.input]
        del node.input[:]
        node.input.extend(text for text in dict.fromkeys(given) if text.startswith("^") and text[1:] not in arguments)
        controls = list(node.input)
        del node.input[:]
        node.input.extend([text for text in given if not text.startswith("^")] + controls)
    returns = []
    for output in signature.output_arg:
        edge = function.ret.get(output.name, output.name)
        returns.append(_resolved(edge, results))
    effects = []
    for name in listed:
        effects += inner_effects.get(name, [name])
    order = {node.name: i for i, node in enumerate(nodes)}
    effects = sorted(dict.fromkeys(effect for effect in effects if effect in order), key=order.__getitem__)
    return Flat(signature, function.arg_attr, nodes, returns, effects)


def _check_edges(function: Any, known: set[str]) -> None:
    """Refuse edges from what is neither a node nor an argument, and names that stand twice."""
    signature = function.signature
    if len(known) != len(function.node_def) + len(signature.input_arg):
        raise ValueError(
            errors.message(f"function {signature.name!r} with a name twice", "a name for each node", "save it again")
        )
    edges = [(text, text.removeprefix("^")) for node in function.node_def for text in node.input]
    edges += [(text, text) for text in [function.ret.get(output.name, output.name) for output in signature.output_arg]]
    for text, source in edges:
        if source.partition(":")[0] not in known:
            raise ValueError(
                errors.message(
                    f"function {signature.name!r} with the edge {text!r}",
                    "an edge from one of its nodes or arguments",
                    "save the model again: its description is not whole",
                )
            )


def _resolved(text: str, results: dict[str, list[str]]) -> str:
    """The edge behind outputs of calls, through calls that only pass on."""
    for _ in range(len(results) + 1):
        parts = text.split(":")
        if text.startswith("^") or parts[0] not in results:
            return text
        edges = results[parts[0]]
        index = int(parts[-1]) if len(parts) > 1 and parts[-1].isdigit() else 0
        if index >= len(edges):
            raise ValueError(
                errors.message(
                    f"output {text!r} of a call that gives {len(edges)} values",
                    "an output that the call gives",
                    "save the model again",
                )
            )
        text = edges[index]
    raise ValueError(errors.message(f"calls that feed each other at {text!r}", "an order of calls", "save it again"))


def _body_of_call(
    inliner: Inliner, call: Any, name: str, attrs: Any, taken: set[str]
) -> tuple[list[Any], list[str], list[str]]:
    """Nodes, edges of the results, and effects of what a call calls, in the caller's names."""
    flat = inliner.flat(name)
    data = [text for text in call.input if not text.startswith("^")]
    waits = [text for text in call.input if text.startswith("^")]
    if any(arg.number_attr or arg.type_list_attr for arg in flat.signature.input_arg):
        raise NotImplementedError(
            errors.message(
                f"function {name!r} with an argument that stands for several tensors",
                "an argument for each tensor",
                "write the function with single tensors",
            )
        )
    if len(data) != len(flat.signature.input_arg):
        raise ValueError(
            errors.message(
                f"call {call.name!r} of {name!r} with {len(data)} inputs",
                f"{len(flat.signature.input_arg)}, as the function has arguments",
                "save the model again: its description is not whole",
            )
        )
    outer = dict(zip((arg.name for arg in flat.signature.input_arg), data, strict=True))
    renamed: dict[str, str] = {}
    for node in flat.nodes:
        own, count = f"{call.name}/{node.name}", 0
        while own in taken:
            count += 1
            own = f"{call.name}/{node.name}_{count}"
        taken.add(own)
        renamed[node.name] = own

    def moved(text: str) -> str:
        if text.startswith("^"):
            return f"^{renamed[text[1:]]}"
        base, colon, output_part = text.partition(":")
        return f"{renamed[base]}{colon}{output_part}" if base in renamed else outer[base]

    effects = set(flat.effects)
    nodes = []
    for node in flat.nodes:
        copy = graph_pb2.NodeDef()
        copy.CopyFrom(node)
        copy.name = renamed[node.name]
        if not copy.device:
            copy.device = call.device
        del copy.input[:]
        copy.input.extend(moved(text) for text in node.input)
        if waits and (node.name in effects or not node.input) and node.op != "Const":
            copy.input.extend(waits)
        if attrs:
            _substitute(copy, attrs)
        if "_class" in copy.attr:
            _regroup(copy, renamed)
        nodes.append(copy)
    return nodes, [moved(edge) for edge in flat.returns], [renamed[effect] for effect in flat.effects]


def _substitute(node: Any, attrs: Any) -> None:
    """Put the values of a call's attributes where the function has placeholders."""
    for key, value in node.attr.items():
        if value.WhichOneof("value") == "placeholder" and value.placeholder in attrs:
            node.attr[key].CopyFrom(attrs[value.placeholder])


def _regroup(node: Any, renamed: dict[str, str]) -> None:
    groups = []
    for group in node.attr["_class"].list.s:
        name = group.decode("utf-8", "replace").removeprefix("loc:@")
        if name in renamed:
            groups.append(f"loc:@{renamed[name]}".encode())
    del node.attr["_class"].list.s[:]
    node.attr["_class"].list.s.extend(groups)
    if not groups:
        del node.attr["_class"]


__all__ = ["CALLS", "Flat", "Inliner", "functions_named"]
