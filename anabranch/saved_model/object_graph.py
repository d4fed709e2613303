"""The object graph of a TensorFlow 2 SavedModel: what its functions capture, and where variables lie in its checkpoint.

A function's body takes its captures as arguments; ``bound_inputs`` says which object each stands for: a variable, a
table, a constant or an asset. The checkpoint has an object graph of its own. Both are trees of attributes from one
root, so that an object's place in the checkpoint is found by the attributes that lead to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from anabranch.core import errors
from anabranch.core.protos import object_graph_pb2
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import RawShape
from anabranch.saved_model.composite import Leaf, composite_leaf

CHECKPOINT_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


def leaves(value: Any, name: str = "") -> list[tuple[str, Leaf]]:
    """Names and leaves of a structure in the order in which a function's arguments and results stand.

    Dictionaries count in the order of their keys. A leaf is called by the key or the field that holds it.
    """
    kind = value.WhichOneof("kind")
    if kind in ("list_value", "tuple_value"):
        parts = getattr(value, kind).values
        branches = [
            leaves(part, name if len(parts) == 1 else f"{name}_{i}" if name else "") for i, part in enumerate(parts)
        ]
    elif kind == "dict_value":
        fields = value.dict_value.fields
        branches = [leaves(fields[key], key) for key in sorted(fields)]
    elif kind == "named_tuple_value":
        branches = [leaves(pair.value, pair.key) for pair in value.named_tuple_value.values]
    elif kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        spec = getattr(value, kind)
        return [(name or spec.name, Leaf("tensor", (spec_of(spec),)))]
    elif kind == "type_spec_value":
        return [(name, composite_leaf(value.type_spec_value))]
    else:
        return []  # a Python value, which is part of the trace and no argument
    return [leaf for part in branches for leaf in part]


def spec_of(spec: Any) -> tuple[dtypes.DType, RawShape]:
    """Dtype and shape of a ``TensorSpecProto``, or of a saved variable."""
    return dtypes.as_dtype(int(spec.dtype)), shapes.as_raw(spec.shape)


class ObjectGraph:
    """The objects of one MetaGraph.

    Args:
        meta: MetaGraphDef of a TensorFlow 2 SavedModel.
    """

    def __init__(self, meta: Any) -> None:
        self.proto = meta.object_graph_def
        self.nodes = self.proto.nodes
        self.functions = self.proto.concrete_functions

    def child(self, node: int, name: str) -> int | None:
        """The object that is the attribute ``name`` of another."""
        for reference in self.nodes[node].children:
            if reference.local_name == name:
                return self._checked(reference.node_id)
        return None

    def children(self, node: int) -> dict[str, int]:
        """All attributes of an object."""
        return {reference.local_name: self._checked(reference.node_id) for reference in self.nodes[node].children}

    def _checked(self, node: int) -> int:
        if not 0 <= node < len(self.nodes):
            raise ValueError(
                errors.message(
                    f"an object graph with a reference to object {node}",
                    f"objects 0 to {len(self.nodes) - 1}",
                    "save the model again: its description is not whole",
                )
            )
        return node

    def concrete(self, node: int) -> list[str]:
        """Names of the library functions that a callable object has, one for each trace."""
        kind = self.nodes[node].WhichOneof("kind")
        if kind == "bare_concrete_function":
            return [self.nodes[node].bare_concrete_function.concrete_function_name]
        return list(self.nodes[node].function.concrete_functions) if kind == "function" else []

    def bound(self, function: str) -> list[int]:
        """The objects that the last arguments of a library function stand for."""
        if function not in self.functions:
            return []
        return [self._checked(node) for node in self.functions[function].bound_inputs]

    def keys(self, encoded: bytes) -> dict[int, dict[str, str]]:
        """Where objects lie in a checkpoint: object -> attribute's name -> key.

        Args:
            encoded: the checkpoint's own object graph.
        """
        tracked = object_graph_pb2.TrackableObjectGraph()
        try:
            tracked.ParseFromString(encoded)
        except DecodeError as problem:
            raise errors.DataLossError(
                None,
                None,
                errors.message(
                    f"a checkpoint whose object graph cannot be read ({problem})", "a whole checkpoint", "copy it again"
                ),
            ) from None
        names: dict[int, dict[str, str]] = {}
        seen: set[tuple[int, int]] = set()
        waiting = [(0, 0)] if len(self.nodes) and len(tracked.nodes) else []
        while waiting:
            pair = waiting.pop()
            if pair in seen:
                continue
            seen.add(pair)
            own, other = pair
            for item in tracked.nodes[other].attributes:
                names.setdefault(own, {})[item.name] = item.checkpoint_key
            mine = self.children(own)
            for reference in tracked.nodes[other].children:
                if reference.local_name in mine and 0 <= reference.node_id < len(tracked.nodes):
                    waiting.append((mine[reference.local_name], reference.node_id))
            slots = {
                (s.original_variable_node_id, s.slot_name): s.slot_variable_node_id
                for s in self.nodes[own].slot_variables
            }
            back = {theirs: ours for ours, theirs in seen}
            for slot in tracked.nodes[other].slot_variables:
                ours = slots.get((back.get(slot.original_variable_node_id, -1), slot.slot_name))
                if ours is not None and 0 <= slot.slot_variable_node_id < len(tracked.nodes):
                    waiting.append((self._checked(ours), slot.slot_variable_node_id))
        return names


def scalar_bytes(value: Any) -> bytes:
    """The one string in an array."""
    scalar = np.asarray(value, object).item()
    return scalar if isinstance(scalar, bytes) else bytes(scalar)


__all__ = ["CHECKPOINT_KEY", "ObjectGraph", "leaves", "scalar_bytes", "spec_of"]
