"""Calls of a graph's own functions by their name as op type, as TensorFlow 1 writes them, become `PartitionedCall`.

A node whose op type is a function of the library calls it; in the body of a function, its results are named after the
function's results, those of `PartitionedCall` all ``output``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.core.contract import opdef

_MOST = 1 << 16


def rewritten(proto: Any) -> Any:
    """A GraphDef without calls by name: ``proto`` itself if it has none that can be written otherwise."""
    functions = {function.signature.name: function for function in proto.library.function}
    if not any(_called(node, functions) for nodes in _bodies(proto) for node in nodes):
        return proto
    message = type(proto)()
    message.CopyFrom(proto)
    for node in message.node:
        _rewrite(node, functions)
    for function in message.library.function:
        places: dict[str, dict[str, range]] = {}
        for node in function.node_def:
            called = functions.get(node.op)
            if called is not None and _rewrite(node, functions):
                places[node.name] = _places(called.signature.output_arg, node.attr["f"].func.attr)
        for node in function.node_def:
            node.input[:] = [new for text in node.input for new in _renamed(text, places)]
        for key, text in list(function.ret.items()):
            function.ret[key] = _renamed(text, places)[0]
    return message


def has_unknown_calls(proto: Any) -> bool:
    """Whether a node of a type that nobody has defined names a function of the library."""
    if not proto.library.function:
        return False
    return any("f" in node.attr and opdef.find(node.op) is None for nodes in _bodies(proto) for node in nodes)


def _bodies(proto: Any) -> Iterable[Any]:
    yield proto.node
    for function in proto.library.function:
        yield function.node_def


def _called(node: Any, functions: dict[str, Any]) -> bool:
    return node.op in functions and opdef.find(node.op) is None


def _rewrite(node: Any, functions: dict[str, Any]) -> bool:
    """Change a call in place; leave it if its types are not known."""
    if not _called(node, functions):
        return False
    signature = functions[node.op].signature
    given = {key: value for key, value in node.attr.items() if key[:1] != "_"}
    takes, gives = _types(signature.input_arg, given), _types(signature.output_arg, given)
    if takes is None or gives is None:
        return False
    attrs = {key: type(value).FromString(value.SerializeToString()) for key, value in given.items()}
    for key in given:
        del node.attr[key]
    node.attr["f"].func.name = node.op
    for key, value in attrs.items():
        node.attr["f"].func.attr[key].CopyFrom(value)
    for key, types in (("Tin", takes), ("Tout", gives)):
        node.attr[key].list.SetInParent()
        node.attr[key].list.type.extend(types)
    node.op = "StatefulPartitionedCall" if signature.is_stateful else "PartitionedCall"
    return True


def _types(args: Any, given: Any) -> list[int] | None:
    """The dtype of each tensor of a signature's side; None if an attribute does not tell."""
    types: list[int] = []
    for arg in args:
        for key, kind in ((arg.type_attr, "type"), (arg.type_list_attr, "list"), (arg.number_attr, "i")):
            if key and (key not in given or given[key].WhichOneof("value") != kind):
                return None
        if arg.type_list_attr:
            types += given[arg.type_list_attr].list.type
            continue
        count = given[arg.number_attr].i if arg.number_attr else 1
        if not 0 <= count <= _MOST:
            return None
        types += [given[arg.type_attr].type if arg.type_attr else arg.type] * count
    return types


def _places(args: Any, given: Any) -> dict[str, range]:
    """Which of all tensors each result is."""
    ranges, at = {}, 0
    for arg in args:
        count = len(_types([arg], given) or ())
        ranges[arg.name] = range(at, at + count)
        at += count
    return ranges


def _renamed(text: str, places: dict[str, dict[str, range]]) -> list[str]:
    """An edge of a function's body, or edges for a list of tensors, after the nodes of ``places`` became calls."""
    name, *rest = text.split(":")
    among = places.get(name, {}).get(rest[0]) if rest else None
    if not among:
        return [text]
    if len(rest) == 1:
        return [f"{name}:output:{place}" for place in among]
    if not rest[1].isdecimal() or int(rest[1]) >= len(among):
        return [f"{name}:output:{among.stop + 1}"]  # refused as any index that is too large
    return [f"{name}:output:{among[int(rest[1])]}"]


__all__ = ["has_unknown_calls", "rewritten"]
