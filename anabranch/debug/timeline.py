"""``tensorflow.python.client.timeline``: step statistics as a trace that Chrome and Perfetto show."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

# What TensorFlow writes beside a node: `name = Type(first, second)`; a program has a text of another form.
_LABEL = re.compile(r"(?P<name>\S+) = (?P<type>\w+)\((?P<inputs>[^)]*)\)")


class AllocationMaximum(NamedTuple):
    """The most memory that an allocator held: when (in microseconds), how many bytes, and the tensors held then."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class StepStatsAnalysis(NamedTuple):
    """What the statistics of a step say: a trace, and the most that each allocator held, by its name."""

    chrome_trace: Trace
    allocator_maximums: dict[str, AllocationMaximum]


class Trace:
    """Events in the format of Chrome's tracing."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON, with indentation if ``pretty``."""
        if pretty:
            return json.dumps({"traceEvents": self._events}, indent=4, separators=(",", ": "))
        return json.dumps({"traceEvents": self._events}, separators=(",", ":"))


class _Output(NamedTuple):
    """A tensor that a node made: its allocator and bytes, and when it was made and last used."""

    name: str
    allocator: str
    size: int
    begin: int
    end: int


def _type_and_inputs(node: Any) -> tuple[str, list[str]]:
    """The op's type and its inputs' nodes, as far as the node's label tells them."""
    match = _LABEL.match(node.timeline_label)
    if match is None:
        return node.timeline_label or node.node_name, []
    inputs = [one.strip().lstrip("^").split(":")[0] for one in match["inputs"].split(",")]
    return match["type"], [one for one in inputs if one]


class Timeline:
    """A trace of a step.

    Args:
        step_stats: the ``StepStats`` of a run.
        graph: without effect; names stand in the statistics.
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._stats = step_stats

    def analyze_step_stats(self, show_dataflow: bool = True, show_memory: bool = True) -> StepStatsAnalysis:
        """Make the trace, and work out the most memory that each allocator held.

        Args:
            show_dataflow: draw arrows from a node to those that read its outputs.
            show_memory: count the bytes of outputs as they are made and dropped.
        """
        events: list[dict[str, Any]] = []
        nodes = []  # each with the number of its device
        for process, device in enumerate(self._stats.dev_stats):
            events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": device.device}})
            nodes += [(process, node) for node in sorted(device.node_stats, key=lambda node: node.all_start_micros)]
        for process, node in nodes:
            kind, inputs = _type_and_inputs(node)
            arguments = {"name": node.node_name, "op": kind, **{f"input{i}": one for i, one in enumerate(inputs)}}
            place = {"pid": process, "tid": node.thread_id, "ts": node.all_start_micros}
            name = node.timeline_label if kind == node.timeline_label else kind
            duration = max(node.all_end_rel_micros, 1)
            events.append({"ph": "X", "cat": "Op", "name": name, **place, "dur": duration, "args": arguments})
        if show_dataflow:
            events += _arrows(nodes)
        held = _memory(_outputs(nodes))
        if show_memory:
            for allocator, changes in held.items():
                counts = {"ph": "C", "cat": "Memory", "name": allocator, "pid": 0, "tid": 0}
                events += [{**counts, "ts": time, "args": {allocator: size}} for time, size, _ in changes]
        maximums = {
            allocator: AllocationMaximum(*max(changes, key=lambda change: change[1]))
            for allocator, changes in held.items()
        }
        return StepStatsAnalysis(Trace(events), maximums)

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """The trace as JSON: a process for each device, a thread for each stream, times in microseconds."""
        return self.analyze_step_stats(show_dataflow, show_memory).chrome_trace.format_to_string(pretty=True)


def _arrows(nodes: list[tuple[int, Any]]) -> list[dict[str, Any]]:
    """Pairs of events: a flow that leaves a node at its end, and reaches one that reads it at its start."""
    makers = {node.node_name: (process, node) for process, node in nodes}
    events: list[dict[str, Any]] = []
    for process, node in nodes:
        for name in _type_and_inputs(node)[1]:
            if name in makers:
                from_process, maker = makers[name]
                flow = {"cat": "DataFlow", "name": name, "id": len(events) // 2}
                left = maker.all_start_micros + maker.all_end_rel_micros
                events.append({"ph": "s", **flow, "pid": from_process, "tid": maker.thread_id, "ts": left})
                events.append({"ph": "t", **flow, "pid": process, "tid": node.thread_id, "ts": node.all_start_micros})
    return events


def _outputs(nodes: list[tuple[int, Any]]) -> list[_Output]:
    """The tensors that nodes made, each held until the last node that reads it has ended."""
    ends = {node.node_name: node.all_start_micros + node.all_end_rel_micros for _, node in nodes}
    for _, node in nodes:
        for name in _type_and_inputs(node)[1]:
            if name in ends:
                ends[name] = max(ends[name], node.all_start_micros + node.all_end_rel_micros)
    outputs = []
    for _, node in nodes:
        for output in node.output:
            allocation = output.tensor_description.allocation_description
            size = allocation.allocated_bytes or allocation.requested_bytes
            name = f"{node.node_name}:{output.slot}" if output.slot else node.node_name
            outputs.append(_Output(name, allocation.allocator_name, size, node.all_start_micros, ends[node.node_name]))
    return outputs


def _memory(outputs: list[_Output]) -> dict[str, list[tuple[int, int, set[str]]]]:
    """For each allocator its changes in order: the time, the bytes held from then on, and the tensors."""
    changes: dict[str, list[tuple[int, bool, _Output]]] = {}
    for output in outputs:
        entries = changes.setdefault(output.allocator, [])
        entries += [(output.begin, True, output), (output.end, False, output)]
    held: dict[str, list[tuple[int, int, set[str]]]] = {}
    for allocator, entries in changes.items():
        size, tensors = 0, set[str]()
        for time, begins, output in sorted(entries, key=lambda entry: (entry[0], not entry[1])):
            size += output.size if begins else -output.size
            tensors = tensors | {output.name} if begins else tensors - {output.name}
            held.setdefault(allocator, []).append((time, size, tensors))
    return held
