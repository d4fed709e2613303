"""``tf.profiler.profile``: parameters, operations on floats, time and memory of the operations of a graph.

Four views: by scopes of names, by inputs (``graph``), by types of operations (``op``), and by lines of the program
(``code``). Options choose what is counted and shown, and where the table goes; totals count what is shown.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation
from anabranch.core.protos import profile_pb2, tensor_pb2
from anabranch.debug.float_operations import float_operations
from anabranch.debug.profile_options import ProfileOptionBuilder

ROOT = "_TFProfRoot"
TRAINABLE = "_trainable_variables"
"""Type, beside its own, of an operation that makes a trainable variable."""

FIELDS = tuple(
    [
        "exec_micros",
        "accelerator_exec_micros",
        "cpu_exec_micros",
        "requested_bytes",
        "peak_bytes",
        "residual_bytes",
        "output_bytes",
        "parameters",
        "float_ops",
    ]
)
_LEAST = {
    "min_bytes": "requested_bytes",
    "min_peak_bytes": "peak_bytes",
    "min_residual_bytes": "residual_bytes",
    "min_output_bytes": "output_bytes",
    "min_micros": "exec_micros",
    "min_accelerator_micros": "accelerator_exec_micros",
    "min_cpu_micros": "cpu_exec_micros",
    "min_params": "parameters",
    "min_float_ops": "float_ops",
}
_OWN_LEAST = frozenset(("min_params", "min_float_ops"))
"""Limits of a node's own number; the others are limits of the total below it."""
_SELECTED = {
    "bytes": "requested_bytes",
    "peak_bytes": "peak_bytes",
    "residual_bytes": "residual_bytes",
    "output_bytes": "output_bytes",
    "micros": "exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "params": "parameters",
    "float_ops": "float_ops",
}
_WORDS: dict[str, Callable[[Entry], str]] = {
    "device": lambda entry: "|".join(entry.devices),
    "op_types": lambda entry: "|".join(entry.types),
    "occurrence": lambda entry: str(_occurrence(entry)),
    "input_shapes": lambda entry: "|".join(f"{i}:{_shape_text(shape)}" for i, shape in enumerate(entry.input_shapes)),
}
"""What may be selected besides, and is shown after the numbers."""
_ORDERS = ("name", "depth", "occurrence", *_SELECTED)
_COMMANDS = ("scope", "graph", "op", "code")


@dataclasses.dataclass
class Entry:
    """A row of a profile: an operation, a scope, a type of operations or a line."""

    name: str
    is_op: bool = False
    types: tuple[str, ...] = ()
    own: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(FIELDS, 0))
    operations: list[Entry] = dataclasses.field(default_factory=list)
    """Of a type or line, its operations."""
    children: list[Entry] = dataclasses.field(default_factory=list)
    shapes: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    input_shapes: list[Any] = dataclasses.field(default_factory=list)
    devices: tuple[str, ...] = ()
    runs: int = 0
    total: dict[str, int] = dataclasses.field(default_factory=dict)
    counted: bool = True
    """Whether the options count it."""

    def add(self, other: Entry) -> None:
        """Take an operation in."""
        self.operations.append(other)
        for field in FIELDS:
            self.own[field] += other.own[field]


# ---------------------------------------------------------------------------------------------------------- what ops do
def _facts(graph: Graph, run_meta: Any) -> list[tuple[Operation, Entry]]:
    trainable = {variable.op.name for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    facts = []
    for op in graph.get_operations():
        types = (op.type, *((TRAINABLE,) if op.name in trainable else ()), *((op.device,) if op.device else ()))
        entry = Entry(op.name, True, types, devices=(op.device,) if op.device else ())
        entry.own["float_ops"] = float_operations(op)
        shape = op._attrs.get("shape")
        if not op._inputs and shape is not None and None not in shape:  # placeholders count, as in TensorFlow
            entry.shapes.append(tuple(shape))
            entry.own["parameters"] = math.prod(shape)
        entry.input_shapes = [tensor._shape for tensor in op.inputs]
        facts.append((op, entry))
    if run_meta is not None:
        _measured(dict((entry.name, entry) for _, entry in facts), run_meta)
    return facts


def _measured(entries: dict[str, Entry], run_meta: Any) -> None:
    """Add what a traced step says; a program that stands for several operations is counted under its own name."""
    for device in run_meta.step_stats.dev_stats:
        on_host = "cpu" in device.device.lower()
        for stats in device.node_stats:
            entry = entries.get(stats.node_name.partition(":")[0])
            if entry is None:
                continue
            micros = stats.op_end_rel_micros - stats.op_start_rel_micros or stats.all_end_rel_micros
            entry.own["exec_micros"] += micros
            entry.own["cpu_exec_micros" if on_host else "accelerator_exec_micros"] += micros
            sizes = [output.tensor_description.allocation_description.requested_bytes for output in stats.output]
            entry.own["output_bytes"] += sum(sizes)
            entry.own["requested_bytes"] += sum(memory.total_bytes for memory in stats.memory) or sum(sizes)
            entry.own["peak_bytes"] += sum(memory.peak_bytes for memory in stats.memory)
            entry.runs += 1
            if device.device not in entry.devices:
                entry.devices = (*entry.devices, device.device)


# ---------------------------------------------------------------------------------------------------------------- views
def _by_scope(facts: Sequence[tuple[Operation, Entry]]) -> Entry:
    root = Entry(ROOT)
    places: dict[str, Entry] = {}
    own = {entry.name: entry for _, entry in facts}

    def place(name: str) -> Entry:
        found = places.get(name)
        if found is None:
            found = places[name] = own.get(name) or Entry(name)
            above = name.rpartition("/")[0]
            (place(above) if above else root).children.append(found)
        return found

    for name in own:
        place(name)
    return root


def _by_inputs(facts: Sequence[tuple[Operation, Entry]]) -> Entry:
    """Results at the top, below each operation those that feed it and that nothing before it had taken."""
    root, entries = Entry(ROOT), {op: entry for op, entry in facts}
    used = {tensor.op for op in entries for tensor in op.inputs}
    seen: set[Operation] = set()
    for first in [op for op in entries if op not in used] + list(entries):
        if first in seen:
            continue
        seen.add(first)
        root.children.append(entries[first])
        waiting = [first]
        while waiting:
            op = waiting.pop()
            for tensor in op.inputs:
                if tensor.op in entries and tensor.op not in seen:
                    seen.add(tensor.op)
                    entries[op].children.append(entries[tensor.op])
                    waiting.append(tensor.op)
    return root


def _by_line(facts: Sequence[tuple[Operation, Entry]]) -> Entry:
    root = Entry(ROOT)
    places: dict[tuple[str, ...], Entry] = {(): root}
    for op, entry in facts:
        if not entry.counted:
            continue
        path: tuple[str, ...] = ()
        source = op.original or op
        for frame in source.traceback or [("", 0, "no line is known")]:
            file, line, function = frame[:3]
            mark = " (gradient)" if op.original is not None else ""
            name = f"{file.rpartition('/')[2]}:{line}:{function}{mark}"
            above, path = places[path], (*path, name)
            if path not in places:
                places[path] = Entry(name, True)
                above.children.append(places[path])
        places[path].add(entry)
    return root


def _by_type(facts: Sequence[tuple[Operation, Entry]], options: dict[str, Any]) -> Entry:
    """Each type's entry holds the next as its child.

    Totals run from the last type up, and limits are those of totals, as in TensorFlow.
    """
    types: dict[str, Entry] = {}
    for op, entry in facts:
        if entry.counted:
            types.setdefault(op.type, Entry(op.type, True)).add(entry)
    nothing = dict.fromkeys(FIELDS, 0)
    whole, shown, below = nothing, nothing, list[Entry]()
    for row in reversed(_in_order(list(types.values()), options, lambda entry: entry.own)):
        whole = _sum(whole, row.own)
        if _is_shown(dataclasses.replace(row, own=whole), options, _TOP, whole):
            shown = _sum(shown, row.own)
            row.total, row.children = (shown if options["account_displayed_op_only"] else whole), below
            below = [row]
    return Entry(ROOT, children=below, total=shown if options["account_displayed_op_only"] else whole)


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {field: one[field] + other[field] for field in FIELDS}


# ------------------------------------------------------------------------------------------------------- what is shown
def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


_TOP = 1
"""The depth of the root, as `max_depth` counts."""


def _occurrence(entry: Entry) -> int:
    """Operations of a type or line; else those at and below an entry."""
    return len(entry.operations) or entry.is_op + sum(map(_occurrence, entry.children))


def _is_shown(entry: Entry, options: dict[str, Any], depth: int, total: dict[str, int]) -> bool:
    if depth > options["max_depth"] or _occurrence(entry) < options["min_occurrence"]:
        return False
    if not _matches(entry.name, options["show_name_regexes"]) or _matches(entry.name, options["hide_name_regexes"]):
        return False
    return all(
        (entry.own if least in _OWN_LEAST else total)[field] >= options[least] for least, field in _LEAST.items()
    )


def _in_order(rows: list[Entry], options: dict[str, Any], numbers: Callable[[Entry], dict[str, int]]) -> list[Entry]:
    key = options["order_by"]
    if key in ("name", "depth"):
        return sorted(rows, key=lambda entry: entry.name)
    if key == "occurrence":
        return sorted(rows, key=lambda entry: -_occurrence(entry))
    return sorted(rows, key=lambda entry: -numbers(entry)[_SELECTED[key]])


def _whole(entry: Entry, totals: dict[int, dict[str, int]]) -> dict[str, int]:
    """The numbers of all that is counted at and below an entry, shown or not."""
    total = entry.own if entry.counted else dict.fromkeys(FIELDS, 0)
    for child in entry.children:
        total = _sum(total, _whole(child, totals))
    totals[id(entry)] = total
    return total


def _shown(
    entry: Entry, options: dict[str, Any], totals: dict[int, dict[str, int]], depth: int, begun: bool
) -> list[Entry]:
    """The rows to show at the place of an entry: itself with its children, or, where it is hidden, the children."""
    begun = begun or _matches(entry.name, options["start_name_regexes"])
    below: list[Entry] = []
    for child in entry.children:
        if depth < options["max_depth"] and not _matches(child.name, options["trim_name_regexes"]):
            below += _shown(child, options, totals, depth + 1, begun)
    own = entry.own if entry.counted else dict.fromkeys(FIELDS, 0)
    total = totals[id(entry)]
    if options["account_displayed_op_only"]:
        total = {field: own[field] + sum(child.total[field] for child in below) for field in FIELDS}
    row = dataclasses.replace(entry, own=own, total=total)
    row.children = _in_order(below, options, lambda each: each.total)
    wanted = begun and ((entry.counted and entry.is_op) or bool(below))
    if entry.name == ROOT or (wanted and _is_shown(row, options, depth, total)):
        return [row]
    return below


# --------------------------------------------------------------------------------------------------------------- tables
def _amount(field: str, value: int) -> str:
    if field.endswith("bytes"):
        for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
            if value >= size:
                return f"{value / size:.2f}{unit}"
        return f"{value}B"
    if field.endswith("micros"):
        for size, unit in ((10**6, "sec"), (10**3, "ms")):
            if value >= size:
                return f"{value / size:.2f}{unit}"
        return f"{value}us"
    for size, unit in ((10**9, "b"), (10**6, "m"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.2f}{unit}"
    return str(value)


_UNITS = {"parameters": " params", "float_ops": " flops"}
_TITLES = {
    "parameters": "# parameters",
    "float_ops": "# float_ops",
    "exec_micros": "total execution time",
    "accelerator_exec_micros": "accelerator execution time",
    "cpu_exec_micros": "cpu execution time",
    "requested_bytes": "requested bytes",
    "peak_bytes": "peak bytes",
    "residual_bytes": "residual bytes",
    "output_bytes": "output bytes",
}


def _columns(options: dict[str, Any]) -> list[str]:
    chosen = [_SELECTED[name] for name in options["select"] if name in _SELECTED]
    if "exec_micros" in chosen:
        chosen += [field for field in ("accelerator_exec_micros", "cpu_exec_micros") if field not in chosen]
    order = ("requested_bytes", "peak_bytes", "residual_bytes", "output_bytes", *FIELDS)
    return sorted(chosen, key=order.index)


def _shape_text(shape: Any) -> str:
    return "unknown" if shape is None else "x".join("-1" if size is None else str(size) for size in shape)


def _tree(entry: Entry, columns: Sequence[str], words: Sequence[str], indent: int = 0) -> list[str]:
    cells = []
    for field in columns:
        own = _amount(field, entry.own[field]) if entry.is_op and entry.counted else "--"
        shape = _shape_text(entry.shapes[0]) + ", " if field == "parameters" and entry.shapes else ""
        cells.append(f"{shape}{own}/{_amount(field, entry.total[field])}{_UNITS.get(field, '')}")
    cells += [_WORDS[word](entry) or "--" for word in words]
    lines = [f"{' ' * indent}{entry.name} ({', '.join(cells)})"]
    for child in entry.children:
        lines += _tree(child, columns, words, indent + 2)
    return lines


def _types(root: Entry, columns: Sequence[str], words: Sequence[str]) -> list[str]:
    lines, entry = [], root
    while entry.children:
        entry = entry.children[0]
        cells = []
        for field in columns:
            whole = root.total[field] or 1
            of_it, own = 100 * entry.total[field] / whole, 100 * entry.own[field] / whole
            unit = {"parameters": " parameters", "float_ops": " float_ops"}.get(field, "")
            cells.append(f"{_amount(field, entry.own[field])}{unit} ({of_it:.2f}%, {own:.2f}%)".rjust(36))
        cells += [(_WORDS[word](entry) or "--").rjust(12) for word in words]
        lines.append(f"{entry.name.ljust(24)}{','.join(cells)}")
    return lines


def _report(root: Entry, command: str, options: dict[str, Any]) -> str:
    columns, words = _columns(options), [name for name in options["select"] if name in _WORDS]
    rows = _types(root, columns, words) if command == "op" else _tree(root, columns, words)
    heading = " | ".join(["node name", *(_TITLES[field] for field in columns), *words])
    title = "==================Model Analysis Report======================"
    end = "======================End of Report=========================="
    return "\n".join(["", title, "", "Profile:", heading, *rows, "", end, ""])


# ------------------------------------------------------------------------------------------------------------- messages
def _node_message(entry: Entry) -> Any:
    message = profile_pb2.GraphNodeProto(name=entry.name, devices=entry.devices, run_count=entry.runs)
    for field in FIELDS:
        setattr(message, field, entry.own[field])
        setattr(message, f"total_{field}", (entry.total or entry.own)[field])
    for shape in entry.shapes:
        message.shapes.append(_shape_message(shape))
    for place, shape in enumerate(entry.input_shapes):
        message.input_shapes[place].CopyFrom(_shape_message(shape))
    message.children.extend(_node_message(child) for child in entry.children)
    message.total_run_count = entry.runs + sum(child.total_run_count for child in message.children)
    own = 1 if entry.is_op else 0
    message.total_definition_count = own + sum(child.total_definition_count for child in message.children)
    return message


def _shape_message(shape: Any) -> Any:
    message = tensor_pb2.TensorShapeProto(unknown_rank=shape is None)
    for size in shape or ():
        message.dim.add(size=-1 if size is None else size)
    return message


def _several_message(entry: Entry) -> Any:
    message = profile_pb2.MultiGraphNodeProto(name=entry.name)
    for field in FIELDS:
        setattr(message, field, entry.own[field])
        setattr(message, f"total_{field}", entry.total[field])
    message.graph_nodes.extend(_node_message(operation) for operation in entry.operations)
    message.children.extend(_several_message(child) for child in entry.children)
    return message


# --------------------------------------------------------------------------------------------------------------- public
def _checked(command: str, options: Any) -> dict[str, Any]:
    if command not in _COMMANDS:
        raise errors.InvalidArgumentError(
            None, None, errors.message(f"cmd={command!r}", f"one of {', '.join(_COMMANDS)}", "cmd='scope'")
        )
    complete = {**ProfileOptionBuilder().build(), **(options or {})}
    for what, names, known in (
        ("select", complete["select"], (*_SELECTED, *_WORDS)),
        ("order by", [complete["order_by"]], _ORDERS),
    ):
        for name in names:
            if name == "tensor_value":
                raise NotImplementedError(
                    errors.message(f"{name!r} to {what}", "a number or a word of operations", "session.run(tensor)")
                )
            if name not in known:
                raise errors.InvalidArgumentError(
                    None, None, errors.message(f"{name!r} to {what}", f"one of {', '.join(known)}", "'micros'")
                )
    return complete


def _output(options: dict[str, Any]) -> str:
    older = options.get("dump_to_file")  # the option of TensorFlow's first versions
    return f"file:outfile={older}" if older else str(options["output"])


def _written(report: str, output: str) -> None:
    kind, _, where = output.partition(":")
    if kind == "stdout":
        sys.stdout.write(report)
    elif kind == "file":
        with open(where.removeprefix("outfile="), "w", encoding="utf-8") as file:
            file.write(report)
    elif kind != "none":
        raise NotImplementedError(
            errors.message(
                f"output={output!r}",
                "'stdout', 'none' or 'file:outfile=PATH'",
                "tf.train.ProfilerHook, or Timeline(run_metadata.step_stats).generate_chrome_trace_format()",
            )
        )


@public("profiler.profile")
def profile(
    graph: Any = None,
    run_meta: Any = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: dict[str, Any] | None = None,
) -> Any:
    """Count what the operations of a graph hold and do, and show it as a table.

    Args:
        graph: a `tf.Graph`; the default one if None. Sizes are counted where static shapes are known.
        run_meta: the RunMetadata of a traced step, for times (microseconds) and memory (bytes).
        op_log: not supported; must be None.
        cmd: the view: ``"scope"`` by scopes of names, ``"graph"`` by inputs, ``"op"`` by types of operations,
            ``"code"`` by lines of the program.
        options: a dictionary as `tf.profiler.ProfileOptionBuilder` makes it; time and memory if None.

    Returns:
        A GraphNodeProto for ``"scope"`` and ``"graph"``, a MultiGraphNodeProto for ``"op"`` and ``"code"``: the root,
        whose ``total_parameters``, ``total_float_ops``, ``total_exec_micros`` ... count all that is shown.

    Raises:
        InvalidArgumentError: an unknown view or option. NotImplementedError: an output or ``op_log`` as above.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default() as graph:
        ...     y = tf.layers.dense(tf.ones([2, 3]), 4)
        ...     options = tf.profiler.ProfileOptionBuilder.trainable_variables_parameter()
        ...     tf.profiler.profile(graph, options={**options, "output": "none"}).total_parameters
        16
    """
    if op_log is not None:
        raise NotImplementedError(
            errors.message("op_log", "None", "ops.RegisterStatistics(op_type, 'flops') for operations of your own")
        )
    graph = get_default_graph() if graph is None else graph
    complete = _checked(cmd, options if options is not None else ProfileOptionBuilder.time_and_memory())
    facts = _facts(graph, run_meta)
    for _, entry in facts:
        kinds = complete["account_type_regexes"]
        entry.counted = any(_matches(kind, kinds) for kind in entry.types)
    views: dict[str, Callable[[Any], Entry]] = {"scope": _by_scope, "graph": _by_inputs, "code": _by_line}
    if cmd == "op":
        root = _by_type(facts, complete)
    else:
        root = views[cmd](facts)
        totals: dict[int, dict[str, int]] = {}
        _whole(root, totals)
        (root,) = _shown(root, complete, totals, _TOP, False)
    _written(_report(root, cmd, complete), _output(complete))
    return _several_message(root) if cmd in ("op", "code") else _node_message(root)


@public("profiler.Profiler")
class Profiler:
    """Profiles of one graph over several traced steps.

    Args:
        graph: a `tf.Graph`; the default one if None.
        op_log: not supported; must be None.

    Example:
        >>> import anabranch as tf
        >>> graph = tf.Graph()
        >>> options = {**tf.profiler.ProfileOptionBuilder.float_operation(), "output": "none"}
        >>> tf.profiler.Profiler(graph).profile_operations(options).total_float_ops
        0
    """

    def __init__(self, graph: Any = None, op_log: Any = None) -> None:
        self._graph = get_default_graph() if graph is None else graph
        self._op_log = op_log
        self._steps: dict[int, Any] = {}

    def add_step(self, step: int, run_meta: Any) -> None:
        """Keep what a traced step measured."""
        self._steps[step] = run_meta

    def _profile(self, command: str, options: dict[str, Any]) -> Any:
        step = options.get("step", -1)
        measured = self._steps.get(max(self._steps) if step == -1 and self._steps else step)
        return profile(self._graph, measured, self._op_log, command, options)

    def profile_python(self, options: dict[str, Any]) -> Any:
        """By lines of the program: a MultiGraphNodeProto."""
        return self._profile("code", options)

    def profile_operations(self, options: dict[str, Any]) -> Any:
        """By types of operations: a MultiGraphNodeProto."""
        return self._profile("op", options)

    def profile_name_scope(self, options: dict[str, Any]) -> Any:
        """By scopes of names: a GraphNodeProto."""
        return self._profile("scope", options)

    def profile_graph(self, options: dict[str, Any]) -> Any:
        """By inputs: a GraphNodeProto."""
        return self._profile("graph", options)


for _name in ("GraphNodeProto", "MultiGraphNodeProto"):
    public(f"profiler.{_name}")(getattr(profile_pb2, _name))
del _name
