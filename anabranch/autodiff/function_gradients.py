"""Gradients of a graph's functions by name, as TensorFlow 1 writes them: `SymbolicGradient` nodes become calls.

TensorFlow differentiates the function when such a node runs. Here that is done when the graph is imported: the gradient
is one more function of the library, and the node calls it. A function that the library gives a gradient function of its
own is differentiated by that one.
"""

from __future__ import annotations

from typing import Any

from anabranch.autodiff.gradients import gradients
from anabranch.core.contract import hooks
from anabranch.core.graph.build import build
from anabranch.core.graph.graph import Graph
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.protos import graph_pb2
from anabranch.core.values import dtypes
from anabranch.ops.control.public_defun import Defun
from anabranch.ops.shared.array_rules import dense

DIFFERENTIATES = "SymbolicGradient"
"""The op type of a node that takes a function's arguments and its results' gradients, and gives the arguments'."""


def with_calls(proto: Any) -> Any:
    """A GraphDef whose nodes of :data:`DIFFERENTIATES` call functions; ``proto`` itself if it has none."""
    bodies = [proto.node, *(function.node_def for function in proto.library.function)]
    if not any(node.op == DIFFERENTIATES for nodes in bodies for node in nodes):
        return proto
    message = type(proto)()
    message.CopyFrom(proto)
    by_program = {item.function_name: item.gradient_func for item in proto.library.gradient}
    derived: dict[bytes, str] = {}
    for nodes in [message.node, *(function.node_def for function in message.library.function)]:
        for node in nodes:
            if node.op == DIFFERENTIATES:
                _rewrite(node, proto, message, by_program, derived)
    return message


def _rewrite(node: Any, proto: Any, message: Any, by_program: dict[str, str], derived: dict[bytes, str]) -> None:
    """Make a node a call of the function that computes the gradient; that is added to the library of ``message``."""
    reference, takes, gives = node.attr["f"].func, node.attr["Tin"].list.type, node.attr["Tout"].list.type
    key = reference.SerializeToString(deterministic=True)
    name = by_program.get(reference.name) or derived.get(key)
    if name is None:
        name = derived[key] = _derive(proto, message, reference, list(takes), len(gives))
    node.attr["f"].func.name = name
    node.attr["f"].func.ClearField("attr")
    node.op = _call_of(name, message)


def _call_of(name: str, proto: Any) -> str:
    """The op type of a call of a function of the library."""
    stateful = [item.signature.is_stateful for item in proto.library.function if item.signature.name == name]
    return "StatefulPartitionedCall" if any(stateful) else "PartitionedCall"


def _derive(proto: Any, message: Any, reference: Any, takes: list[int], count: int) -> str:
    """Add the gradient of a function of ``count`` arguments to the library of ``message``, and return its name."""
    kinds = [dtypes.as_dtype(item) for item in takes]
    taken = {item.signature.name for item in message.library.function}
    name = f"{reference.name}_gradient"
    while any(other.startswith(name) for other in taken):  # the functions inside are named after it
        name += "_"

    def gradient(*args: Any) -> list[Any]:
        forward = graph_pb2.GraphDef()
        forward.versions.CopyFrom(proto.versions)
        forward.library.CopyFrom(_library_of(reference.name, proto.library))
        for i, kind in enumerate(takes[:count]):
            forward.node.add(name=f"x{i}", op="Placeholder").attr["dtype"].type = kind
        call = forward.node.add(name="call", op=_call_of(reference.name, proto), input=[f"x{i}" for i in range(count)])
        call.attr["f"].func.CopyFrom(reference)
        for key, listed in (("Tin", takes[:count]), ("Tout", takes[count:])):
            call.attr[key].list.SetInParent()
            call.attr[key].list.type.extend(listed)
        results = import_graph_def(
            forward,
            input_map={f"x{i}": arg for i, arg in enumerate(args[:count])},
            return_elements=[f"call:{i}" for i in range(len(takes) - count)],
            name="forward",
        )
        assert results is not None
        pairs = [
            (y, dy) for y, dy in zip(results, args[count:], strict=True) if y.dtype.is_floating or y.dtype.is_complex
        ]
        found = gradients([y for y, _ in pairs], list(args[:count]), [dy for _, dy in pairs]) if pairs else []
        by_argument = found or [None] * count
        return [
            build("ZerosLike", x) if grad is None else dense(grad)
            for x, grad in zip(args[:count], by_argument, strict=True)
        ]

    with Graph().as_default() as graph:
        Defun(*kinds, func_name=name)(gradient)(*[build("Placeholder", dtype=kind, shape=None) for kind in kinds])
        exported = graph.as_graph_def()
    message.library.function.extend(item for item in exported.library.function if item.signature.name not in taken)
    (called,) = [node.attr["f"].func.name for node in exported.node if "f" in node.attr]
    return str(called)


def _library_of(name: str, library: Any) -> Any:
    """The part of a library that a function needs: what does not call itself can be differentiated part by part."""
    functions = {item.signature.name: item for item in library.function}
    by_program = {item.function_name: item for item in library.gradient}
    part, stack, seen = type(library)(), [name], {name}
    while stack:
        current = stack.pop()
        if current in by_program:
            part.gradient.add().CopyFrom(by_program[current])
        mentioned = [by_program[current].gradient_func] if current in by_program else []
        if current in functions:
            part.function.add().CopyFrom(functions[current])
            for node in functions[current].node_def:
                mentioned.append(node.op)
                for attr in node.attr.values():
                    mentioned += [attr.func.name, *(item.name for item in attr.list.func)]
        for other in mentioned:
            if other in functions and other not in seen:
                seen.add(other)
                stack.append(other)
    return part


hooks.fill("gradient_calls", with_calls)
