"""Pipelines as bytes beside the places of their iterators: so a place can be gone to where the pipeline is not built.

What is stored is the part of the graph that makes the dataset, with its functions. It is left out where it would not
say what the pipeline is (something is fed, or drawn while the graph runs), and where it is larger than
:data:`MOST_BYTES`, as a checkpoint is to hold places, not data.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import GraphTensor, Operation
from anabranch.core.graphdef import graph_def, import_graph
from anabranch.core.protos import graph_pb2
from anabranch.ops.data.pipeline import Dataset

MOST_BYTES = 1 << 20
"""Bytes of a pipeline that is stored."""


def stored(tensor: Any) -> tuple[bytes, str] | None:
    """The graph that makes a dataset, and the tensor's name in it; None if it is not to be stored."""
    if type(tensor) is not GraphTensor or not tensor.op.body.is_root:
        return None
    needed: dict[Operation, None] = {}
    waiting = [tensor.op]
    size = 0
    while waiting:
        op = waiting.pop()
        if op in needed:
            continue
        if op.role is Role.PLACEHOLDER or op.definition.effect.kind in ("feed", "random", "io"):
            return None
        needed[op] = None
        value = op._attrs.get("value")
        size += getattr(value, "nbytes", 0)
        if size > MOST_BYTES:
            return None
        waiting += [source.op for source in op._inputs]
        waiting += op._control_inputs
    proto = graph_def.of_operations(sorted(needed, key=lambda op: op._made_at))
    data: bytes = proto.SerializeToString()
    return (data, tensor.name) if len(data) <= MOST_BYTES else None


def dataset_of(ctx: Any, data: bytes, name: str) -> Dataset:
    """The dataset that stored bytes make, in a graph of its own."""
    graph = Graph()
    proto = graph_pb2.GraphDef.FromString(data)
    with graph.as_default():
        (tensor,) = import_graph.import_graph_def(proto, return_elements=[name], name="") or [None]
    body = graph.root
    body.outputs = [tensor]
    (dataset,) = ctx.functions.prepare(body, ())((), ctx.cancellation)
    if not isinstance(dataset, Dataset):
        raise errors.DataLossError(None, ctx.op, f"{name!r} of a stored pipeline is not a dataset")
    return dataset
