"""Checkpoints that were written by object: which keys they have for variables that a program knows by name."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from anabranch.core import errors
from anabranch.core.protos import object_graph_pb2
from anabranch.formats import checkpoints
from anabranch.train.saving import saveable

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read_object_graph(path: str) -> Any:
    """The ``TrackableObjectGraph`` of a checkpoint; None if it was written by name.

    Raises:
        NotFoundError: there is no checkpoint. DataLossError: the object graph is damaged.
    """
    with checkpoints.open_checkpoint(path) as reader:
        if OBJECT_GRAPH_KEY not in reader.tensors:
            return None
        data = reader.read(OBJECT_GRAPH_KEY).item()
    graph = object_graph_pb2.TrackableObjectGraph()
    try:
        graph.ParseFromString(data)
    except (DecodeError, TypeError) as problem:
        raise errors.DataLossError(None, None, f"{path}: damaged object graph ({problem})") from problem
    return graph


def keys_of_object_checkpoint(path: str, var_list: Any) -> dict[str, Any] | None:
    """The variables of ``var_list`` (all if None) by their keys in a checkpoint that was written by object.

    None if it was not, or if it does not name all of them.
    """
    graph = read_object_graph(path)
    if graph is None:
        return None
    keys = {
        attribute.full_name: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.full_name
    }
    variables = var_list if var_list is not None else saveable.all_saveable_objects()
    if not isinstance(variables, dict):
        variables = saveable.op_list_to_dict(variables)
    if not variables or any(name not in keys for name in variables):
        return None
    return {keys[name]: item for name, item in variables.items()}


__all__ = ["OBJECT_GRAPH_KEY", "read_object_graph", "keys_of_object_checkpoint"]
