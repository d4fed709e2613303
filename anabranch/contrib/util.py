"""``tf.contrib.util``: tensors and protos."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract import api, hooks, opdef
from anabranch.core.contract.api import public, publish_as
from anabranch.core.protos import graph_pb2
from anabranch.core.values import tensor_proto

publish_as("contrib.util.make_tensor_proto", tensor_proto.make_tensor_proto)
publish_as("contrib.util.make_ndarray", tensor_proto.make_ndarray)


@public("contrib.util.ops_used_by_graph_def")
def ops_used_by_graph_def(graph_def: Any) -> list[str]:
    """Op types and functions that a GraphDef uses, those in its functions included, sorted."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    used: set[str] = set()
    waiting = [node.op for node in graph_def.node]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            if name in functions:
                waiting += [node.op for node in functions[name].node_def]
    return sorted(name for name in used if name not in functions)


@public("contrib.util.stripped_op_list_for_graph")
def stripped_op_list_for_graph(graph_def: Any) -> Any:
    """The OpDefs, without documentation, of the op types that a GraphDef uses."""
    op_list = graph_pb2.OpList()
    for name in ops_used_by_graph_def(graph_def):
        op_list.op.add().CopyFrom(hooks.op_def(opdef.lookup(name)))
    return op_list


__getattr__, __dir__ = api.module_attributes("contrib.util")
