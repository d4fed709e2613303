"""Adding a function without calls to the graph that is built, with tensors in place of its arguments."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import import_graph, import_nodes
from anabranch.core.protos import graph_pb2
from anabranch.saved_model.inline import Flat, Inliner

_EFFECTS = frozenset(("write", "channel", "io", "body"))


def add_flat(
    inliner: Inliner, versions: Any, flat: Flat, outer: dict[str, Tensor], prefix: str
) -> tuple[list[Tensor], list[Operation]]:
    """Add a function's nodes to the graph; return the tensors that it returns, and its effects.

    Args:
        inliner: what the function is from.
        versions: the model's ``VersionDef``.
        flat: the function.
        outer: what stands for its arguments, by name.
        prefix: what the names of its operations begin with.

    Raises:
        NotImplementedError: it has op types that are not defined here.
    """
    library = {item.signature.name: item for item in inliner.functions_for(flat.nodes)}
    import_nodes.check_types(flat.nodes, library)
    nodes = import_nodes.parse(flat.nodes, function=True)
    returned = [import_nodes.function_sources(nodes, edge)[0] for edge in flat.returns]
    effects = [name for name in flat.effects if nodes[name].definition.effect.kind in _EFFECTS]
    arguments_used: set[str] = set()
    waiting = [name for name, _ in returned if name in nodes] + effects
    while waiting:
        name = waiting.pop()
        if name not in arguments_used:
            arguments_used.add(name)
            node = nodes[name]
            waiting += [edge[0] for edge in node.inputs if edge[0] in nodes]
            waiting += [control for control in node.controls if control in nodes]
    proto = graph_pb2.GraphDef()
    proto.versions.CopyFrom(versions)
    proto.library.function.extend(library.values())
    used: set[str] = set()
    for name, node in nodes.items():
        if name not in arguments_used:
            continue
        copy = proto.node.add()
        copy.CopyFrom(node.proto)
        copy.device = ""  # devices of the machine that trained the model
        del copy.input[:]
        copy.input.extend(f"{start}:{index}" for start, index in node.inputs)
        copy.input.extend(f"^{control}" for control in node.controls if control in arguments_used)
        used.update(start for start, _ in node.inputs if start in outer)
    wanted = [f"{name}:{index}" if name in nodes else None for name, index in returned]
    elements = import_graph.import_graph_def(
        proto,
        input_map={f"{name}:0": outer[name] for name in used},
        return_elements=[item for item in wanted if item is not None] + effects,
        name=f"{prefix}run",
    )
    assert elements is not None
    results = iter(elements)
    tensors = [
        outer[start] if item is None else next(results) for item, (start, _) in zip(wanted, returned, strict=True)
    ]
    return tensors, list(results)


def needed_starts(flat: Flat) -> set[str]:
    """Starts of edges that a function's nodes and results use."""
    edges = [text for node in flat.nodes for text in node.input] + flat.returns
    return {text.partition(":")[0] for text in edges}


def constant_of(meta: Any, operation: str) -> Any:
    """The ``Const`` node of a MetaGraph that has this name, or None."""
    for candidate in meta.graph_def.node:
        if candidate.name == operation and candidate.op == "Const":
            return candidate
    return None
