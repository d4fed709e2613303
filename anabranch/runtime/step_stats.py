"""What ran in a step and when, as a RunMetadata has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from anabranch.core.graph.operation import Operation
from anabranch.core.graphdef import graph_def
from anabranch.placement.devices import LOCAL_TASK
from anabranch.runtime.step import ItemTime


def fill_partitions(metadata: Any, placed: Sequence[tuple[Operation, str]]) -> None:
    """One GraphDef for each device: the ops of a step that are there, given in their order with their devices."""
    graphs: dict[str, Any] = {}
    for op, device in placed:
        if device not in graphs:
            graphs[device] = metadata.partition_graphs.add()
        graph_def.node_def(op, graphs[device].node).device = device


def fill_metadata(metadata: Any, stats: Sequence[ItemTime]) -> None:
    """One node per host op, and one per program: XLA does not say when each op inside a program ran.

    Beside the op that takes an element of a dataset stand the stages that made it, each with its own time.
    """
    if not stats:  # all values were known before
        metadata.step_stats.dev_stats.add(device=f"{LOCAL_TASK}/device:CPU:0")
    programs = 0
    devices: dict[str, Any] = {}
    for item in stats:
        device = devices.get(item.device)
        if device is None:
            device = devices[item.device] = metadata.step_stats.dev_stats.add(device=item.device)
        node = device.node_stats.add()
        if item.is_program:
            node.node_name = f"program_{programs}"
            node.timeline_label = f"program of {len(item.ops)} ops: {', '.join(op.name for op in item.ops)}"
            programs += 1
        else:
            (op,) = item.ops
            node.node_name = op.name
            node.timeline_label = f"{op.name} = {op.type}({', '.join(t.name for t in op._inputs)})"
            if item.note:
                node.timeline_label += f": {item.note}"
            _fill_outputs(node, op)
        node.all_start_micros = int(item.start * 1e6)
        node.op_end_rel_micros = node.all_end_rel_micros = max(1, round((item.end - item.start) * 1e6))


def _fill_outputs(node: Any, op: Operation) -> None:
    """The outputs of an op whose shapes the graph tells, with the bytes of their elements."""
    for slot, tensor in enumerate(op._outputs):
        sizes = [size for size in tensor._shape or () if size is not None]
        dtype = tensor.dtype.base
        known = tensor._shape is not None and len(sizes) == len(tensor._shape)
        if not known or not dtype.is_numpy_compatible or dtype.size is None:
            continue
        described = node.output.add(slot=slot).tensor_description
        described.dtype = dtype.as_datatype_enum
        for size in sizes:
            described.shape.dim.add(size=size)
        described.allocation_description.requested_bytes = math.prod(sizes) * dtype.size
        described.allocation_description.allocator_name = "cpu"
