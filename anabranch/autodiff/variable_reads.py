"""Which variables a stretch of a graph reads: what a tape has watched there, what a custom gradient is asked for.

An op that reads a resource names it by a handle, which the op that made the variable gave out. Between the two there
may be identities, and the captures of nested bodies. Whose handle it is, the graph's collections tell, or the handle
itself, if the variable lives beyond the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes


def handles_read(ops: Iterable[Operation]) -> list[Tensor]:
    """The handles of the variables whose resources the ops read, each once, in the order of the first read."""
    handles: dict[Tensor, None] = {}
    for op in ops:
        definition = op.definition
        if definition.effect.kind == "read":
            for position in definition.resource_positions(op._attrs):
                tensor = made_at(op._inputs[position])
                if tensor.dtype.base is dtypes.resource and tensor.op.definition.makes == "variable":
                    handles[tensor] = None
    return list(handles)


def variable_of_handle(graph: Graph, handle: Tensor) -> Any:
    """The variable that a handle belongs to, or None if nobody knows it."""
    for items in graph._collections.values():
        for item in items:
            if getattr(item, "handle", None) is handle:
                return item
    outside = getattr(handle, "_variable", None)
    return None if outside is None else outside()


def made_at(handle: Tensor) -> Tensor:
    """The output of the op that made a handle or value, behind identities and the captures of nested bodies."""
    while True:
        op = handle.op
        if op.definition.passes is not None and op.definition.effect.kind == "pure":
            handle = op._inputs[op.definition.passed_position(handle.value_index, op._attrs)]
            continue
        captured = [outer for outer, arg in op.body.captures.items() if arg is handle]
        if not captured:
            return handle
        handle = captured[0]
