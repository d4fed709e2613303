"""``tensorflow.python.client.timeline``: step statistics as a trace that Chrome and Perfetto show."""

from __future__ import annotations

import json
from typing import Any


class Timeline:
    """A trace of a step.

    Args:
        step_stats: the ``StepStats`` of a run.
        graph: without effect; names stand in the statistics.
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """The trace as JSON: one process for each device, one thread for each stream, times in microseconds.

        Args:
            show_dataflow: without effect: statistics name no edges.
            show_memory: count the bytes of outputs as they are allocated.
        """
        events: list[dict[str, Any]] = []
        for process, device in enumerate(self._stats.dev_stats):
            events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": device.device}})
            held = 0
            for node in sorted(device.node_stats, key=lambda node: node.all_start_micros):
                events.append(
                    {
                        "ph": "X",
                        "cat": "Op",
                        "name": node.timeline_label or node.node_name,
                        "pid": process,
                        "tid": node.thread_id,
                        "ts": node.all_start_micros,
                        "dur": max(node.all_end_rel_micros, 1),
                        "args": {"name": node.node_name},
                    }
                )
                held += sum(memory.total_bytes for memory in node.memory) if show_memory else 0
                if show_memory:
                    counts = {"ph": "C", "name": "Memory", "pid": process, "ts": node.all_start_micros}
                    events.append({**counts, "args": {"bytes": held}})
        return json.dumps({"traceEvents": events}, indent=2)
